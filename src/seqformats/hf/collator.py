"""`Collator`: rows of a dataset as what a model of transformers takes."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import numpy as np

from ..arrays import Array, is_among
from ..converters.layouts import check_at_least, one_of, to_masked
from ..errors import CHOICE, COLUMNS, KIND, RANGE, ROOM, TOGETHER, import_extra, quote
from ..formats import Ragged
from ..formats.annotations import Given
from ..formats.structure import flag, whole
from ..lazy_import import import_now
from ..operations.attention import cu_seqlens, mask, position_ids, segment_ids
from ..operations.masking import mask_tokens
from .annotations import Torch
from .columns import check_beside, columns_of, is_sequences, sequences, stack, whole_numbers
from .encodings import ENCODING_KEYS, from_encodings

_LABELS = ("labels", "label", "label_ids")
_FILLS = {"attention_mask": 0, "position_ids": 0, "offset_mapping": 0, "special_tokens_mask": 1, "word_ids": -1}
"""The columns with one item per token, and what pads them; beside them ids, types of tokens, and labels."""
_BESIDE = ("special_tokens_mask", "word_ids", "offset_mapping")
"""What is there to choose the tokens that are hidden, and not for the model."""
_SEPARATE = "; labels that are sequences of their own: seq2seq=True; one vector per row: label_pad_token_id=None"


@dataclass(eq=False)
class Collator:
    """Rows of a dataset, as a loader gives them, as the arguments of a model: padded, flattened, masked.

    One object for what `DataCollatorWithPadding`, `DataCollatorForTokenClassification`, `DataCollatorForSeq2Seq`,
    `DataCollatorForLanguageModeling` and `DataCollatorWithFlattening` of transformers do, with their options and keys.

    Parameters
    ----------
    tokenizer : a tokenizer of transformers, optional
        Tells what pads, on which side, which tokens are special, and what masks.
    padding : True, "longest" or "max_length"
        As wide as the longest sequence of the batch (True means that), or `max_length`.
    max_length : int, optional
        The width for ``padding="max_length"``; without it that of the tokenizer.
    pad_to_multiple_of : int, optional
        A number that divides the width, 8 say for tensor cores.
    padding_side : "right" or "left", optional
        Without it that of the tokenizer, else "right".
    pad_token_id : int, optional
        Without it that of the tokenizer, which must have one then.
    label_pad_token_id : int, optional
        What pads integer labels that are sequences; the losses of PyTorch leave out -100.  With None labels are stacked
        as they are.
    return_tensors : "pt" or "np"
        PyTorch's tensors, or NumPy's arrays.
    fills : dict
        Other columns with one number per token, and what pads them: ``{"tags": -1}``.
    seq2seq : bool
        True if labels are sequences of their own, as translations are, with a width of their own.  Else each
        token has one.
    model : optional
        With `seq2seq`: what has ``prepare_decoder_input_ids_from_labels``, as models of transformers do.
    decoder_start_token_id : int, optional
        With `seq2seq`: ``decoder_input_ids`` are the labels after this token, without the last.
    flatten : bool
        One row of all tokens, without padding.
    return_position_ids, separator_id, return_flash_attn_kwargs, return_seq_idx, position_ids_start
        With `flatten`: as `DataCollatorWithFlattening` has them.
    mlm : bool, optional
        True: some tokens are hidden at random, and the labels are these.  False: the labels are the ids.  None: labels
        are those of the dataset.
    whole_word_mask : bool
        With `mlm`: words are chosen as a whole, of the column ``word_ids``, or ``offset_mapping``, in which a word
        begins where the one before does not end.
    mlm_probability, mask_replace_prob, random_replace_prob : float
        With `mlm`: how likely a token is chosen; the parts of these that become the mask and a random token.
    seed : int, optional
        With `mlm`: of what is drawn; each call draws anew.  Without it the generator of PyTorch, or of NumPy for
        ``"np"``, gives a seed for every call, so that ``transformers.set_seed`` counts.

    Raises
    ------
    ConversionError
        For options that cannot be honoured.
    TypeError
        For options of the wrong type, and columns of text.
    StructureError
        For rows with different columns, a column that is missing, and lengths that do not fit the ids.

    See Also
    --------
    seqformats.model_inputs : The same for token ids alone.
    seqformats.mask_tokens : What hides tokens.

    Notes
    -----
    Called with a list of rows (dicts of lists, arrays or tensors), a dict of columns (batches too), a table of Arrow,
    a list of ``tokenizers.Encoding``, or token ids alone: as ``collate_fn`` of a `DataLoader`, ``data_collator`` of a
    `Trainer`, or a transform of a dataset.  A dataset in Arrow format is read quickest, a batch at a time:
    ``DataLoader(dataset.with_format("arrow"), sampler=BatchSampler(RandomSampler(dataset), 32, False),
    batch_size=None, collate_fn=Collator(tokenizer))``.

    Gives a dict (with a tokenizer of transformers its `BatchEncoding`, which has ``.to(device)``) of ``(n, width)``
    arrays: integers in int64, floats in float32 (PyTorch) or float64.  The columns ``label`` and ``label_ids`` become
    ``labels``; of ``label_ids`` every row has the same number.  Numbers, and vectors of one length, are stacked.

    With ``mlm=False`` the label of every token that equals the one that pads is `label_pad_token_id`, in transformers
    too: where the end of a text pads, give ``labels`` instead.  With `flatten` an empty row keeps its number and its
    place in ``cu_seq_lens_q``; `DataCollatorWithFlattening` leaves it out, and before transformers 5.24 gives a label
    to it.  With ``flatten=True, mlm=True`` there are no separators in the labels, since these are not shifted.  In
    workers of a `DataLoader` masks also depend on the seed of the worker, which is another in each epoch.

    Examples
    --------
    >>> import seqformats as sf
    >>> collate = sf.hf.Collator(pad_token_id=0, return_tensors="np")
    >>> batch = collate([{"input_ids": [5, 6, 7], "labels": [1, 0, 1]}, {"input_ids": [8], "labels": [0]}])
    >>> batch["input_ids"].tolist(), batch["attention_mask"].tolist(), batch["labels"].tolist()
    ([[5, 6, 7], [8, 0, 0]], [[1, 1, 1], [1, 0, 0]], [[1, 0, 1], [0, -100, -100]])
    >>> flat = sf.hf.Collator(flatten=True, return_seq_idx=True, return_tensors="np")
    >>> flat([[5, 6, 7], [8, 9]])["labels"].tolist()
    [[-100, 6, 7, -100, 9]]
    """

    tokenizer: Any = None
    _: KW_ONLY
    padding: bool | str = True
    max_length: int | None = None
    pad_to_multiple_of: int | None = None
    padding_side: str | None = None
    pad_token_id: int | None = None
    label_pad_token_id: int | None = -100
    return_tensors: str = "pt"
    fills: Mapping[str, int] = field(default_factory=dict)
    seq2seq: bool = False
    model: Any = None
    decoder_start_token_id: int | None = None
    flatten: bool = False
    return_position_ids: bool = True
    separator_id: int = -100
    return_flash_attn_kwargs: bool = False
    return_seq_idx: bool = False
    position_ids_start: int = 0
    mlm: bool | None = None
    whole_word_mask: bool = False
    mlm_probability: float = 0.15
    mask_replace_prob: float = 0.8
    random_replace_prob: float = 0.1
    seed: int | None = None
    _calls: int = field(default=0, init=False, repr=False)

    def __post_init__(self) -> None:
        self._check_types()
        if self.padding not in (True, "longest", "max_length"):
            raise CHOICE(
                f'padding must be True, "longest" or "max_length", not {quote(self.padding)}; '
                "flatten=True does without padding"
            )
        one_of(self.return_tensors, "return_tensors", ("pt", "np"))
        if self.padding_side is not None:
            one_of(self.padding_side, "padding_side", ("right", "left"))
        for name, least in (("max_length", 0), ("pad_to_multiple_of", 1), ("seed", 0)):
            if getattr(self, name) is not None:
                check_at_least(getattr(self, name), name, least)
        if not self.seq2seq and (self.model is not None or self.decoder_start_token_id is not None):
            raise TOGETHER("model and decoder_start_token_id are for labels of their own: seq2seq=True")
        if self.seq2seq and (self.flatten or self.mlm is not None):
            raise TOGETHER("seq2seq=True gives labels a rectangle of their own; flatten and mlm do not go with it")
        if not self.flatten and self._setting("pad_token_id", self.pad_token_id) is None:
            raise TOGETHER("nothing says what pads: give pad_token_id=, or a tokenizer that has one")
        if self.whole_word_mask and not self.mlm:
            raise TOGETHER("whole_word_mask=True is for mlm=True")
        if self.mlm:
            if self._setting("mask_token_id") is None:
                raise TOGETHER("mlm=True takes a tokenizer with a mask token; mlm=False has the ids as labels")
            mask_tokens([[]], **self._masking(0))  # checks the numbers

    def _check_types(self) -> None:
        flags = ("seq2seq", "flatten", "return_position_ids", "return_flash_attn_kwargs", "return_seq_idx")
        for name in (*flags, "whole_word_mask", *(["mlm"] if self.mlm is not None else [])):
            flag(getattr(self, name), name)
        for name in (
            "pad_token_id",
            "label_pad_token_id",
            "decoder_start_token_id",
            "separator_id",
            "position_ids_start",
        ):
            if getattr(self, name) is not None:
                whole(getattr(self, name), name)
        if not isinstance(self.fills, Mapping):
            raise KIND(f"fills must be a dict, the number that pads each column, not {quote(self.fills)}")

    def __call__(self, features: object, return_tensors: str | None = None) -> Any:
        """A batch of these rows; `return_tensors` in the place of the collator's own."""
        kind = self.return_tensors if return_tensors is None else return_tensors
        if kind not in ("pt", "np"):
            one_of(kind, "return_tensors", ("pt", "np"))
        main = self._setting("model_input_names", default=("input_ids",))[0]
        columns = self._label(columns_of(_fields(features), main))
        if columns.get(main) is None:
            raise COLUMNS(f"there is no column {main!r}, only {quote(list(columns))}")
        ids = columns[main] = whole_numbers(main, sequences(main, columns[main]), ())
        if self.mlm is not None:
            beside = {name: columns.pop(name) for name in _BESIDE if name in columns}
            if self.mlm:
                columns.update(self._hide(beside, main, ids, kind))
        batch = self._flatten(columns, main) if self.flatten else self._pad(columns, main)
        torch = import_extra("torch", "hf") if kind == "pt" else None
        made = {name: _tensor(array, torch) for name, array in batch.items()}
        if self.model is not None and "labels" in made:
            made["decoder_input_ids"] = self.model.prepare_decoder_input_ids_from_labels(labels=made["labels"])
        return made if self.flatten else _as_theirs(made, self.tokenizer)

    def _setting(self, name: str, given: Any = None, default: Any = None) -> Any:
        """Take what is given, else what the tokenizer says now."""
        if given is not None:
            return given
        found = getattr(self.tokenizer, name, None)
        return default if found is None else found

    @property
    def _ignore_index(self) -> int:
        return -100 if self.label_pad_token_id is None else self.label_pad_token_id

    # --- labels ----------------------------------------------------------------------------------------------------

    def _label(self, columns: dict[str, Any]) -> dict[str, Any]:
        """The columns without those of None, the labels last, under their name."""
        columns = {name: values for name, values in columns.items() if values is not None}
        given = [name for name in _LABELS if name in columns]
        if len(given) > 1:
            raise COLUMNS(f"the columns {given} are all labels; give one of them")
        labels = columns.pop(given[0]) if given else None
        if self.mlm is None and labels is not None:
            columns["label_ids" if given == ["label_ids"] else "labels"] = labels
        return columns

    def _label_sequences(self, columns: dict[str, Any]) -> Ragged[Array] | None:
        """Labels that are sequences of integers, which can be padded."""
        values = columns.get("labels")
        if values is None or self.label_pad_token_id is None or not is_sequences(values):
            return None
        x = sequences("labels", values)
        return whole_numbers("labels", x) if x.data.dtype.kind in "iu" or not x.rows else None

    # --- a rectangle -----------------------------------------------------------------------------------------------

    def _pad(self, columns: dict[str, Any], main: str) -> dict[str, Array]:
        ids = columns[main]
        side = self._setting("padding_side", self.padding_side, "right")
        step = self.pad_to_multiple_of or 1
        width = self._width() if self.padding == "max_length" else None
        if width is not None and ids.max_length > width:
            i = int(ids.lengths.argmax())
            raise ROOM(
                f"column {main!r}: row {i} has {ids.lengths[i]} tokens, more than max_length={width}; truncate first"
            )
        form = {"side": side, "width": width, "multiple_of": step}
        fills = {
            main: self._setting("pad_token_id", self.pad_token_id),
            "token_type_ids": self._setting("pad_token_type_id", default=0),
            **_FILLS,
            **self.fills,
        }
        batch: dict[str, Array] = {}
        for name, values in columns.items():
            if name == "labels" and name not in self.fills:
                batch[name] = self._padded_labels(columns, main, form)
            elif name in fills:
                x = values if name == main else sequences(name, values)
                if name in _FILLS or name == "token_type_ids":
                    x = whole_numbers(name, x, None if name == "offset_mapping" else ())
                check_beside(name, x, main, ids)
                batch[name] = _rectangle(x, fills[name], form)
            else:
                batch[name] = stack(name, values)
                if len(batch[name]) != len(ids):
                    raise COLUMNS(f"column {name!r} has {len(batch[name])} rows, but {main!r} has {len(ids)}")
        if "label_ids" in batch:
            batch["labels"] = batch.pop("label_ids")
        wide = batch[main].shape[1]
        if "attention_mask" not in batch and "attention_mask" in self._setting("model_input_names", default=_FILLS):
            batch["attention_mask"] = mask(ids.lengths, width=wide, side=side).astype(np.int64)
        if self.mlm is False:
            batch["labels"] = np.where(batch[main] == fills[main], self._ignore_index, batch[main])
        if self.decoder_start_token_id is not None and "labels" in batch:
            batch["decoder_input_ids"] = self._shift(batch["labels"])
        return batch

    def _padded_labels(self, columns: dict[str, Any], main: str, form: dict[str, Any]) -> Array:
        labels = self._label_sequences(columns)
        if labels is None:
            found = stack("labels", columns["labels"])
            if len(found) != len(columns[main]):
                raise COLUMNS(f"column 'labels' has {len(found)} rows, but {main!r} has {len(columns[main])}")
            return found
        if not self.seq2seq:
            check_beside("labels", labels, main, columns[main], _SEPARATE)
        elif len(labels) != len(columns[main]):
            raise COLUMNS(f"column 'labels' has {len(labels)} rows, but {main!r} has {len(columns[main])}")
        if form["width"] is not None and labels.max_length > form["width"]:
            i = int(labels.lengths.argmax())
            raise ROOM(f"column 'labels': row {i} has {labels.lengths[i]} items, more than max_length={form['width']}")
        return _rectangle(labels, self.label_pad_token_id, form)

    def _width(self) -> int:
        width = self._setting("model_max_length", self.max_length)
        if width is None or width > 1e20:  # tokenizers without a limit have a number that no text reaches
            raise TOGETHER('padding="max_length" takes max_length=; the tokenizer has none')
        return int(width)

    def _shift(self, labels: Array) -> Array:
        """The labels one place to the right, after the token that decoders begin with."""
        out = np.empty_like(labels)
        out[:, :1] = self.decoder_start_token_id
        out[:, 1:] = labels[:, :-1]
        out[out == self.label_pad_token_id] = self._setting("pad_token_id", self.pad_token_id)
        return out

    # --- one row of all tokens -------------------------------------------------------------------------------------

    def _flatten(self, columns: dict[str, Any], main: str) -> dict[str, Any]:
        ids = columns[main]
        labels = ids if "labels" not in columns else self._label_sequences(columns)
        batch: dict[str, Any] = {main: np.array(ids.data)[None]}
        if labels is None:
            batch["labels"] = stack("labels", columns["labels"])
        else:
            check_beside("labels", labels, main, ids)
            flat = np.array(labels.data)
            if not self.mlm:
                flat[ids.offsets[:-1][ids.lengths > 0]] = self.separator_id
            batch["labels"] = flat[None]
        if self.return_position_ids:
            batch["position_ids"] = position_ids(ids, start=self.position_ids_start)[None]
        if self.return_seq_idx:
            batch["seq_idx"] = segment_ids(ids).astype(np.int32)[None]
        if self.return_flash_attn_kwargs:
            for end in "qk":
                batch[f"cu_seq_lens_{end}"] = cu_seqlens(ids)
            for end in "qk":
                batch[f"max_length_{end}"] = ids.max_length
        return batch

    # --- hidden tokens ---------------------------------------------------------------------------------------------

    def _masking(self, seed: int) -> dict[str, Any]:
        kept = 1 - self.mask_replace_prob - self.random_replace_prob
        if kept < -1e-9:
            raise RANGE(
                f"mask_replace_prob={self.mask_replace_prob} and random_replace_prob={self.random_replace_prob} "
                "are more than 1 together"
            )
        return {
            "rate": self.mlm_probability,
            "mask_id": self._setting("mask_token_id"),
            "vocabulary": len(self.tokenizer),
            "split": (self.mask_replace_prob, self.random_replace_prob, max(kept, 0.0)),
            "ignore": self._ignore_index,
            "seed": seed,
        }

    def _hide(self, columns: dict[str, Any], main: str, ids: Ragged[Array], kind: str) -> dict[str, Any]:
        """The ids with some hidden, and the labels; `columns` tell of words and special tokens."""
        beside: dict[str, Ragged[Array]] = {}
        for name, values in columns.items():
            beside[name] = from_encodings({name: values}, _FIELDS[name])
            check_beside(name, beside[name], main, ids)
        given = beside.get("special_tokens_mask")
        special: Any = set(self._setting("all_special_ids", default=())) if given is None else None
        if given is not None:
            special = given._with_data(given.data != 0)
        begins = None
        if self.whole_word_mask:
            held = is_among(ids.data, np.array(list(special), np.int64)) if given is None else special.data
            begins = ids._with_data(_word_begins(beside, ids, held))
        y = mask_tokens(ids, special=special, whole=begins, **self._masking(self._seed(kind)))
        return {main: y.ids, "labels": y.labels}

    def _seed(self, kind: str) -> int:
        """A new seed for every call."""
        torch = sys.modules.get("torch")
        if self.seed is None:
            if kind == "pt":
                return int(import_extra("torch", "hf").randint(2**63 - 1, ()))
            return int(import_now("numpy.random", None).randint(2**63 - 1, dtype=np.int64))  # which users seed
        self._calls += 1
        worker = None if torch is None else torch.utils.data.get_worker_info()
        numbers = [self.seed, self._calls, 0 if worker is None else worker.seed]
        return int(import_now("numpy.random", None).SeedSequence(numbers).generate_state(1, np.uint64)[0] >> 1)


_FIELDS = {key: name for name, key in ENCODING_KEYS.items()}


def _fields(features: Given) -> Any:
    """Encodings of tokenizers as columns; anything else as it is."""
    if not (isinstance(features, (list, tuple)) and features and hasattr(features[0], "overflowing")):
        return features
    return {ENCODING_KEYS[name]: from_encodings(features, name) for name in ("ids", "type_ids", "attention_mask")}


def _word_begins(beside: dict[str, Ragged[Array]], ids: Ragged[Array], special: Array) -> Array:
    """Tell which tokens begin a word; special ones are words of their own."""
    begins = np.ones(ids.rows, bool)
    if "word_ids" in beside:
        number = beside["word_ids"].data
        begins[1:] = number[1:] != number[:-1]
    elif "offset_mapping" in beside:
        place = beside["offset_mapping"].data
        begins[1:] = place[1:, 0] != place[:-1, 1]
    else:
        raise COLUMNS("whole_word_mask=True takes a column 'word_ids' or 'offset_mapping', and there is none")
    begins[1:] |= special[1:] | special[:-1]
    begins[ids.offsets[:-1][ids.lengths > 0]] = True
    return begins


def _rectangle(x: Ragged[Array], fill: object, form: dict[str, Any]) -> Array:
    rectangle: Array = to_masked(x, fill=fill, **form).data
    return rectangle


def _tensor(array: Array, torch: Torch) -> Any:
    """An array of numbers as transformers gives it: floats are float32 in PyTorch, else float64."""
    if not isinstance(array, np.ndarray):
        return array
    if array.dtype.kind == "f":
        array = array.astype(np.float64 if torch is None else np.float32, copy=False)
    return array if torch is None else torch.from_numpy(array)


def _as_theirs(batch: dict[str, Any], tokenizer: object) -> Any:
    """A `BatchEncoding` where the tokenizer is one of transformers."""
    theirs = sys.modules.get("transformers.tokenization_utils_base") if hasattr(tokenizer, "pad") else None
    return batch if theirs is None else theirs.BatchEncoding(batch)
