"""Models of transformers as the step of `beam_search`, with the caches that they make themselves."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from ..arrays import Array, to_host
from ..converters.convert import convert
from ..errors import EMPTY, KIND, TOGETHER, needed
from ..formats import Encoding, Ragged

if TYPE_CHECKING:
    from ..beam import BeamState

Step: TypeAlias = Callable[["BeamState"], tuple[Any, ...]]
Kept: TypeAlias = Callable[[Any], object]


def decoder_step(model: Any, *, keep: Kept | None = None, **options: object) -> Step:
    """A language model of transformers, such as GPT-2 or Llama, as the step of `beam_search`.

    Parameters
    ----------
    model : transformers.PreTrainedModel
        A decoder with a head for the next token, whose ``forward`` takes ``input_ids`` and a cache.
    keep : callable, optional
        Takes what the model returns, and gives what is kept along the hypotheses: see ``BeamResult.kept``.
    **options
        Given to every call of the model, ``output_attentions=True`` for example.

    Returns
    -------
    callable
        ``step(state) -> (scores, memory)``, and what is kept behind them.

    Raises
    ------
    ModuleNotFoundError
        Without PyTorch.
    TypeError
        In the search, for a model that returns no cache.

    See Also
    --------
    encoder_decoder_step : a model with an encoder
    seqformats.beam_search : the search, whose ``prompt=`` the model reads first

    Notes
    -----
    The first step reads all prompts at once, each a single time, padded on the left where their lengths differ.  Each
    later step gives the model one token per row, and the model's own cache follows the rows.  A search without
    ``prompt=`` begins with ``start`` alone.  Nothing has a gradient.

    Of sources that are added to a `BeamDecoder` by ``decoder.add(None, prompt=...)`` the next step reads the prompts,
    in a call of their own, and joins the caches, if these keep all keys and values (a ``DynamicCache``).

    Examples
    --------
    >>> import seqformats as sf
    >>> import torch, transformers
    >>> config = transformers.GPT2Config(vocab_size=20, n_embd=16, n_layer=1, n_head=2, n_positions=32)
    >>> step = sf.hf.decoder_step(transformers.GPT2LMHeadModel(config).eval())
    >>> found = sf.beam_search(step, None, prompt=[[5, 6], [7, 8, 9]], end=0, beam_size=3, max_new_tokens=4)
    >>> len(found.tokens), len(found.scores)
    (2, 2)
    """
    torch = needed("torch", "hf")
    takes = inspect.signature(model.forward).parameters
    cache = _cache(takes)
    fixed = {"use_cache": True, **options}
    if "logits_to_keep" in takes:
        fixed["logits_to_keep"] = 1

    def run(memory: _Memory, ids: Any) -> Any:
        given, seen = dict(fixed), memory.seen
        if seen is not None:
            given["attention_mask"] = seen
            if "position_ids" in takes:
                given["position_ids"] = _positions(seen) if memory.cache is None else seen.sum(1, keepdim=True) - 1
        out = model(input_ids=ids, **{cache: memory.cache}, **given)
        memory.keep(model, getattr(out, cache, None), len(ids))
        return out

    def step(state: BeamState) -> tuple[Any, ...]:
        memory, rows = state.memory, len(state.source)
        known = 0 if memory is None else memory.rows  # the others have just begun
        outs = []
        if known:
            memory.longer()
            outs.append(run(memory, _tokens(torch, state, model.device)[:known]))
        if known < rows:
            ids, seen = _prompts(torch, state, model.device, known)
            begun = _Memory(None, seen)
            outs.append(run(begun, ids))
            memory = memory.join(torch, begun) if known else begun
        if keep is not None and len(outs) > 1:
            raise TOGETHER("keep= does not go with sources that are added to a search")
        scores = torch.cat([out.logits[:, -1] for out in outs]) if len(outs) > 1 else outs[0].logits[:, -1]
        return (scores, memory) if keep is None else (scores, memory, keep(outs[0]))

    without_gradient: Step = torch.no_grad()(step)
    return without_gradient


def encoder_decoder_step(model: Any, *, keep: Kept | None = None, **options: object) -> Step:
    """A model of transformers with an encoder, such as T5, BART or Whisper, as the step of `beam_search`.

    Parameters
    ----------
    model : transformers.PreTrainedModel
        One with ``get_encoder()``, whose ``forward`` takes ``encoder_outputs``, ``decoder_input_ids`` and a cache.
    keep : callable, optional
        Takes what the model returns, and gives what is kept along the hypotheses: see ``BeamResult.kept``.
    **options
        Given to every call of the model, ``output_attentions=True`` for example.

    Returns
    -------
    callable
        ``step(state) -> (scores, memory)``, and what is kept behind them.

    Raises
    ------
    ModuleNotFoundError
        Without PyTorch.
    TypeError
        In the search, for a model that returns no cache, and for sources that are not as below.
    ConversionError
        In the search, for prompts of different lengths, which a decoder of this kind cannot be given.

    See Also
    --------
    decoder_step : a model without an encoder
    seqformats.beam_search : the search

    Notes
    -----
    The sources are ``shared=``: an encoding of token ids, or a dict of tensors that the encoder takes by name
    (``input_ids`` and ``attention_mask``, ``input_features``, ...), on the device of the model.  The first step runs
    the encoder, once; the decoder begins with ``start``, or with ``prompt=`` where more than one token comes first.  Of
    the model's own cache the part over the sources moves only where a source comes to have more or fewer rows.

    Examples
    --------
    >>> import seqformats as sf
    >>> import torch, transformers
    >>> config = transformers.T5Config(vocab_size=20, d_model=16, d_kv=8, d_ff=16, num_layers=1, num_heads=2)
    >>> step = sf.hf.encoder_decoder_step(transformers.T5ForConditionalGeneration(config).eval())
    >>> sources = sf.Ragged(torch.tensor([5, 6, 7, 8, 9]), [2, 3])
    >>> found = sf.beam_search(step, None, shared=sources, start=0, end=1, beam_size=3, max_new_tokens=4)
    >>> len(found.tokens), len(found.scores)
    (2, 2)
    """
    torch = needed("torch", "hf")
    cache = _cache(inspect.signature(model.forward).parameters)
    fixed = {"use_cache": True, **options}

    def step(state: BeamState) -> tuple[Any, ...]:
        if state.t == 0:
            given = _sources(torch, state.shared, model.device)
            encoded = model.get_encoder()(**given, return_dict=True)
            ids, seen = _prompts(torch, state, model.device, 0)
            if seen is not None:
                raise TOGETHER("the prompts of a model with an encoder must have one length")
            memory = _Memory(
                None, None, encoded, given.get("attention_mask"), torch.arange(len(ids), device=ids.device)
            )
        else:
            memory = state.memory
            ids = _tokens(torch, state, model.device)
            if memory is None or memory.rows != len(ids):
                raise TOGETHER("sources cannot be added to a search of a model with an encoder")
        rest = {cache: memory.cache} if memory.mask is None else {cache: memory.cache, "attention_mask": memory.mask}
        out = model(encoder_outputs=memory.encoded, decoder_input_ids=ids, **rest, **fixed)
        memory.keep(model, getattr(out, cache, None), len(ids))
        scores = out.logits[:, -1]
        return (scores, memory) if keep is None else (scores, memory, keep(out))

    without_gradient: Step = torch.no_grad()(step)
    return without_gradient


class _Memory:
    """What a model has to know of each row: its cache; which of the tokens in it are padding; what was encoded.

    The last three of its parts, and the half of the cache that is made of them, are the same for all rows of a source.
    """

    def __init__(self, cache: Any, seen: Any, encoded: Any = None, mask: Any = None, source: Any = None) -> None:
        self.cache, self.seen, self.encoded, self.mask, self.source = cache, seen, encoded, mask, source
        self.rows = 0

    def longer(self) -> None:
        """There is one more token in each row."""
        if self.seen is not None:
            self.seen = _beside(self.seen)

    def keep(self, model: Any, cache: Any, rows: int) -> None:
        """The model has returned this cache for so many rows."""
        self.cache, self.rows = cache, rows
        if not hasattr(self.cache, "reorder_cache"):
            raise KIND(
                f"{type(model).__name__} returns no cache that can follow the rows; "
                "give `beam_search` a step of your own, with what the model remembers as its memory"
            )

    def join(self, torch: Any, other: _Memory) -> _Memory:
        """These rows and, behind them, those of another; both begin with padding where the other has more tokens."""
        parts = (self, other)
        for part in parts:
            kinds = {type(layer).__name__ for layer in getattr(part.cache, "layers", [None])}
            if kinds != {"DynamicLayer"}:
                raise KIND(f"sources cannot be added to a search whose model has a cache of {', '.join(kinds)}")
        widths = [part.cache.get_seq_length() for part in parts]
        masks = []
        for part, width in zip(parts, widths, strict=True):
            like = part.cache.layers[0].keys
            seen = (
                torch.ones(len(like), width, dtype=torch.int64, device=like.device) if part.seen is None else part.seen
            )
            masks.append(torch.nn.functional.pad(seen, (max(widths) - width, 0)))
        seen = torch.cat(masks)
        first = int(seen.any(0).to(torch.uint8).argmax())  # what comes before has been padding since rows went
        for layer, more in zip(self.cache.layers, other.cache.layers, strict=True):
            for name in ("keys", "values"):
                padded = [
                    torch.nn.functional.pad(getattr(part, name), (0, 0, max(widths) - width, 0))
                    for part, width in zip((layer, more), widths, strict=True)
                ]
                setattr(layer, name, torch.cat(padded)[:, :, first:])
        self.seen, self.rows = seen[:, first:], len(seen)
        return self

    def reorder_cache(self, parents: Any) -> None:
        """Row i is now row ``parents[i]``."""
        self.rows = len(parents)
        cross = getattr(self.cache, "cross_attention_cache", None)
        (self.cache if cross is None else self.cache.self_attention_cache).reorder_cache(parents)
        if self.seen is not None:
            self.seen = self.seen.index_select(0, parents)
        if self.source is None:
            return
        before, numbers = self.source, parents.to(self.source.device)
        self.source = before.index_select(0, numbers)
        if before.shape == self.source.shape and bool((before == self.source).all()):
            return
        if cross is not None:
            cross.reorder_cache(parents)
        if self.mask is not None:
            self.mask = self.mask.index_select(0, parents)
        moved = {
            name: part.index_select(0, parents) for name, part in self.encoded.items() if hasattr(part, "index_select")
        }
        self.encoded = type(self.encoded)(**moved)


def _cache(takes: Mapping[str, object]) -> str:
    """What a model calls its cache, in its arguments as in what it returns: transformers 5.24 renamed it."""
    return "cache" if "cache" in takes and "past_key_values" not in takes else "past_key_values"


def _beside(seen: Any) -> Any:
    """The mask with a column of ones behind it."""
    longer = seen.new_ones((seen.shape[0], seen.shape[1] + 1))
    longer[:, :-1] = seen
    return longer


def _tensor(torch: Any, x: Array, device: Any) -> Any:
    """The array as a tensor there."""
    return x.to(device) if isinstance(x, torch.Tensor) else torch.tensor(x, device=device)


def _tokens(torch: Any, state: BeamState, device: Any) -> Any:
    """The last token of each row, as the ids of a model."""
    return _tensor(torch, state.tokens, device)[:, None]


def _positions(seen: Any) -> Any:
    """The place of each token in its row; 0 for padding."""
    return (seen.cumsum(1) - 1).clamp(min=0)


def _prompts(torch: Any, state: BeamState, device: Any, first: int) -> tuple[Any, Any]:
    """The prompts of the rows from the first one on, padded on the left, and which of them are tokens; None for all."""
    if state.prompt is None:
        return _tokens(torch, state, device)[first:], None
    return _padded(torch, state.prompt[to_host(state.source)[first:]], device, left=True)


def _padded(torch: Any, sequences: Ragged[Any], device: Any, *, left: bool) -> tuple[Any, Any]:
    """Token ids ``(n, longest)`` and their mask, which is None where nothing is padded."""
    data = _tensor(torch, sequences.data, device)
    lengths = torch.tensor(sequences.lengths, device=device)[:, None]
    n, longest = len(sequences), int(sequences.lengths.max(initial=0))
    if n * longest == len(data):
        return data.reshape(n, longest), None
    places = torch.arange(longest, device=device)
    seen = places >= longest - lengths if left else places < lengths
    ids = data.new_zeros((n, longest))
    ids[seen] = data
    return ids, seen.to(torch.int64)


def _sources(torch: Any, shared: object, device: Any) -> dict[str, Any]:
    """What the encoder takes."""
    if isinstance(shared, Encoding):
        ids, seen = _padded(torch, convert(shared, Ragged), device, left=False)
        return {"input_ids": ids} if seen is None else {"input_ids": ids, "attention_mask": seen}
    if not isinstance(shared, Mapping):
        raise KIND(
            "shared must be what the encoder takes: an encoding of token ids, or a dict of tensors, not "
            f"{type(shared).__name__}"
        )
    if not shared:
        raise EMPTY("shared must be what the encoder takes, but is an empty dict")
    return dict(shared)
