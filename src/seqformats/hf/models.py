"""Models of transformers without padding: over one row of all tokens, or in rectangles of equal length."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias, TypeVar

import numpy as np

from ..converters.convert import convert
from ..errors import EMPTY, KIND, TOGETHER, UNLIKE, UNPADDED, import_extra, quote
from ..formats import Encoding, Ragged
from ..formats.structure import Structure, flag
from ..lazy_import import import_now
from ..operations.select import select
from .annotations import Model, Torch

M = TypeVar("M")
Tensor: TypeAlias = Any  # torch.Tensor, of a package that need not be there


def padding_free(model: M, *, check: bool = True, on: bool = True) -> M:
    """Have a model of transformers run over the tokens of a batch alone, without padding.

    Parameters
    ----------
    model : transformers.PreTrainedModel
        An encoder, a decoder, or an encoder-decoder, with or without a head, in eager mode or ``sdpa``.  It is changed
        in place: by hooks, and by its ``attn_implementation``.
    check : bool
        Whether a few tokens go through the model, three sequences side by side and each alone: a model whose results
        differ is refused.  It costs four small forwards.
    on : bool
        False gives the model as it was.

    Returns
    -------
    PreTrainedModel
        `model`, which from now on takes

        - encodings, ``model(ragged, labels=ragged)``: results of tokens are `Ragged`, those of sequences tensors
          ``(n, ...)``;
        - padded batches with their ``attention_mask``, right or left: results are padded as they were, with zeros where
          there is no token;
        - one row ``(1, total)`` with ``cu_seq_lens_q``, or ``position_ids`` that begin again, as of
          ``sf.hf.Collator(flatten=True)``: results are one row.

    Raises
    ------
    ModuleNotFoundError
        Without PyTorch or transformers.
    TypeError
        For a model that would mix the sequences of a row, or whose attention is its own: nothing is changed then.
        In a forward, for a mask that is not known.
    SeqFormatError
        In a forward, for what a row cannot give: a mask with a hole, ``output_attentions``, ``use_cache``, labels at
        padding, arguments of other lengths, more tokens than positions.

    See Also
    --------
    by_length : For models that are refused; slower.
    seqformats.attention : The attention that runs inside.
    seqformats.hf.Collator : Batches of it.

    Notes
    -----
    Inside, the model runs once over one row of all tokens.  Attention stays within each sequence, positions begin
    again, poolers take the first token of each sequence, and no label is predicted over the beginning of a sequence.
    The sequences are given to each layer in the place of its mask, and never guessed; whatever else a model does with
    its mask is an error.  Losses are means over labels, as of each sequence alone.  A model whose head wants a
    rectangle, as for classification, keeps it: there only the body runs over the row.

    With a cache, as in ``generate``, the model runs as before.  Copies, ``save_pretrained``, gradient checkpointing,
    ``Trainer`` and threads go on as ever.

    Examples
    --------
    >>> import seqformats as sf
    >>> import torch, transformers
    >>> config = transformers.BertConfig(
    ...     vocab_size=20, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8
    ... )
    >>> model = sf.hf.padding_free(transformers.BertModel(config).eval())
    >>> out = model(sf.Ragged(torch.tensor([5, 6, 7, 8, 9]), [2, 3]))
    >>> out.last_hidden_state.lengths.tolist(), tuple(out.last_hidden_state.data.shape)
    ([2, 3], (5, 8))
    >>> tuple(out.pooler_output.shape)
    (2, 8)
    """
    for name, value in (("check", check), ("on", on)):
        flag(value, name)
    import_extra("torch", "hf")
    import_extra("transformers", "hf")
    switch = import_now(".unpadded.switch", __package__)
    if on:
        switch.switch_on(model, check=bool(check))
    else:
        switch.switch_off(model)
    return model


def by_length(model: Model, batch: object, **options: object) -> Any:
    """Run a model over the sequences of each length side by side, so that nothing is padded.

    Parameters
    ----------
    model : callable
        Any model of transformers: it is called with ``input_ids`` ``(k, length)`` for the k sequences of each length.
    batch : an encoding, or a mapping of names to encodings
        The tokens; or all arguments that have an item for each of them, such as ``token_type_ids``.
    **options
        Given to every call.

    Returns
    -------
    ModelOutput
        As of one call, in the order of the batch: what has a row for each token is a `Ragged`, what has one for each
        sequence a tensor ``(n, ...)``.

    Raises
    ------
    TypeError
        If the argument is not a batch, or the model returns no mapping of tensors.
    StructureError
        For a batch without sequences, an empty sequence, and arguments of other lengths than the first.
    ConversionError
        For ``labels``: each call would take the mean over its own.

    See Also
    --------
    padding_free : One call for the whole batch; several times faster for the models that it takes.

    Notes
    -----
    This is right for every model, those included that carry something along the tokens (state spaces, convolutions) or
    calculate their attention themselves, and it is the slower way: as many calls as there are different lengths.

    Examples
    --------
    >>> import seqformats as sf
    >>> import torch, transformers
    >>> config = transformers.MambaConfig(vocab_size=20, hidden_size=8, num_hidden_layers=1, state_size=4)
    >>> model = transformers.MambaModel(config).eval()
    >>> out = sf.hf.by_length(model, sf.Ragged(torch.tensor([5, 6, 7, 8, 9]), [2, 3]))
    >>> out.last_hidden_state.lengths.tolist(), tuple(out.last_hidden_state.data.shape)
    ([2, 3], (5, 8))
    """
    torch = import_extra("torch", "hf")
    columns = _columns(batch)
    structure = next(iter(columns.values()))._structure
    lengths = structure.lengths
    if not structure.n or not lengths.all():
        raise EMPTY(f"sequence {lengths.tolist().index(0)} is empty" if structure.n else "the batch has no sequences")
    groups = [np.flatnonzero(lengths == length) for length in np.unique(lengths)]
    outputs = []
    for members in groups:
        part = {name: select(x, members) for name, x in columns.items()}
        shape = (len(members), int(lengths[members[0]]))
        outputs.append(model(**{k: x.data.reshape(*shape, *x.data.shape[1:]) for k, x in part.items()}, **options))
    if not all(isinstance(each, Mapping) for each in outputs):
        raise KIND(f"the model returned {quote(type(outputs[0]).__name__)}, not a mapping; leave return_dict as it is")
    other = None
    if len(groups) == 1:  # another length tells an axis of tokens from one that is as wide by chance
        longer = {name: torch.cat([x.data, x.data])[None, : int(lengths[0]) + 1] for name, x in columns.items()}
        with torch.no_grad():
            other = model(**longer, **options)
    put = _Order(torch, structure, groups)
    made = {name: put.back([each[name] for each in outputs], other and other[name]) for name in outputs[0]}
    return type(outputs[0])(**made)


def _columns(batch: Any) -> dict[str, Ragged[Any]]:
    """The arguments that have an item for each token, as `Ragged`."""
    given = batch if isinstance(batch, Mapping) else {"input_ids": batch}
    if "labels" in given:
        raise TOGETHER("labels= does not go with by_length, whose calls would take means of their own; use the logits")
    made: dict[str, Ragged[Any]] = {}
    for name, x in given.items():
        if not isinstance(x, Encoding):
            raise KIND(f"{name} must be an encoding of tokens, not {quote(type(x).__name__)}")
        made[name] = convert(x, Ragged)
        first = next(iter(made.values()))
        if not made[name]._structure.same_lengths(first._structure):
            raise UNLIKE(f"{name} has other lengths than {next(iter(made))}")
    if not made:
        raise EMPTY("the batch has no arguments")
    return made


class _Order:
    """Puts results of groups of sequences into the order of the batch."""

    def __init__(self, torch: Torch, structure: Structure, groups: list[np.ndarray]) -> None:
        self._torch, self._structure, self._groups = torch, structure, groups
        order = np.concatenate(groups)
        self._sequences = np.argsort(order)
        lengths, offsets = structure.lengths, structure.offsets
        rows = np.concatenate([np.arange(offsets[i], offsets[i] + lengths[i]) for i in order])
        self._rows = np.argsort(rows)

    def back(self, parts: list[Any], other: Any) -> Any:
        """One result of all groups; `other` is that of a sequence of one token more, where there is one."""
        first = parts[0]
        if isinstance(first, (tuple, list)):
            others = other or [None] * len(first)
            return type(first)(self.back(list(each), more) for *each, more in zip(*parts, others, strict=True))
        if not isinstance(first, self._torch.Tensor):
            return first if len(parts) == 1 else None  # a cache, which belongs to one call alone
        shapes = [(len(members), int(self._structure.lengths[members[0]])) for members in self._groups]
        of_tokens = all(tuple(x.shape[:2]) == shape for x, shape in zip(parts, shapes, strict=True))
        if of_tokens and other is not None:
            of_tokens = other.shape[1] == first.shape[1] + 1
        if of_tokens:
            rows = self._torch.cat([x.flatten(0, 1) for x in parts])
            return Ragged.from_offsets(rows[self._index(self._rows, rows)], self._structure.offsets)
        if any(x.shape[:1] != shape[:1] for x, shape in zip(parts, shapes, strict=True)):
            raise UNPADDED(f"the model returned {tuple(first.shape)}, neither one per token nor one per sequence")
        rows = self._torch.cat(parts)
        return rows[self._index(self._sequences, rows)]

    def _index(self, order: np.ndarray, like: Tensor) -> Tensor:
        return self._torch.as_tensor(order, device=like.device)
