"""Models of transformers as the step of `beam_search`, with the caches that they make themselves."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from ..arrays import Array, to_host
from ..converters.convert import convert
from ..errors import EMPTY, KIND, TOGETHER, import_extra
from ..formats import Encoding, Ragged
from ..formats.structure import flag
from .annotations import Device, Model, Torch
from .inputs import Inputs, cache_name
from .memory import Memory

if TYPE_CHECKING:
    from ..beam import BeamState

Step: TypeAlias = Callable[["BeamState"], tuple[Any, ...]]
Kept: TypeAlias = Callable[[Any], object]


def decoder_step(model: Model, *, keep: Kept | None = None, check: bool = True, **options: object) -> Step:
    """A language model of transformers, such as GPT-2 or Llama, as the step of `beam_search`.

    Parameters
    ----------
    model : transformers.PreTrainedModel
        A decoder with a head for the next token, whose ``forward`` takes ``input_ids`` and a cache.
    keep : callable, optional
        Takes what the model returns, and gives what is kept along the hypotheses: see ``BeamResult.kept``.
    check : bool
        Whether a model, unless it is in training, is tried before its first search: two short rows with its cache,
        as prompts of one length, of different lengths or at different times, beside each row alone without a cache.
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
        In the search, for a model that returns no cache, or whose scores are others with it than without.
    ConversionError
        In the search, for prompts of different lengths, or sources that are added, where the model's scores would
        depend on the padding.

    See Also
    --------
    encoder_decoder_step : a model with an encoder
    search_options : the model's ``generation_config``, none of which is read here
    seqformats.beam_search : the search, whose ``prompt=`` the model reads first

    Notes
    -----
    The first step reads all prompts at once, each a single time, padded on the left where their lengths differ.  Each
    later step gives the model one token per row, and the model's own cache follows the rows.  A search without
    ``prompt=`` begins with ``start`` alone.  Nothing has a gradient.

    Ids, mask and positions are those that the model makes itself for generation.  The trial is made once a model, in
    a few small calls, which hooks of the model do not see.  Nothing of the model's ``generation_config`` is
    read: ends, lengths, forced or suppressed tokens and penalties are options of the search.

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
    torch = import_extra("torch", "hf")
    inputs = Inputs(torch, model, options, check=flag(check, "check"))

    def step(state: BeamState) -> tuple[Any, ...]:
        memory, rows = state.memory, len(state.source)
        known = 0 if memory is None else memory.rows  # the others have just begun
        outs = []
        if known < rows:
            ids, seen = _prompts(torch, state, model.device, known, inputs.padding)
            if seen is not None or not known:
                inputs.check("even" if seen is None else "padded")
            if known:
                inputs.check("joined")
        if known:
            memory.longer(torch, _tokens(torch, state, model.device)[:known])
            outs.append(inputs.run(memory, 1))
        if known < rows:
            begun = Memory(ids, seen)
            outs.append(inputs.run(begun, ids.shape[1]))
            memory = memory.join(torch, begun, inputs.padding) if known else begun
        if keep is not None and len(outs) > 1:
            raise TOGETHER("keep= does not go with sources that are added to a search")
        scores = torch.cat([out.logits[:, -1] for out in outs]) if len(outs) > 1 else outs[0].logits[:, -1]
        return (scores, memory) if keep is None else (scores, memory, keep(outs[0]))

    without_gradient: Step = torch.no_grad()(step)
    return without_gradient


def encoder_decoder_step(model: Model, *, keep: Kept | None = None, **options: object) -> Step:
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
    search_options : the model's ``generation_config``, none of which is read here
    seqformats.beam_search : the search

    Notes
    -----
    The sources are ``shared=``: an encoding of token ids, or a dict of tensors that the encoder takes by name
    (``input_ids`` and ``attention_mask``, ``input_features``, ...), on the device of the model.  The first step runs
    the encoder, once; the decoder begins with ``start``, or with ``prompt=`` where more than one token comes first.  Of
    the model's own cache the part over the sources moves only where a source comes to have more or fewer rows.  Nothing
    of the model's ``generation_config`` is read.

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
    torch = import_extra("torch", "hf")
    cache = cache_name(inspect.signature(model.forward).parameters)
    fixed = {"use_cache": True, **options}

    def step(state: BeamState) -> tuple[Any, ...]:
        if state.t == 0:
            given = _sources(torch, state.shared, model.device)
            encoded = model.get_encoder()(**given, return_dict=True)
            ids, seen = _prompts(torch, state, model.device, 0, 0)
            if seen is not None:
                raise TOGETHER("the prompts of a model with an encoder must have one length")
            source = torch.arange(len(ids), device=ids.device)
            memory = Memory(None, None, encoded, given.get("attention_mask"), source)
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


def _tensor(torch: Torch, x: Array, device: Device) -> Any:
    """The array as a tensor there."""
    return x.to(device) if isinstance(x, torch.Tensor) else torch.tensor(x, device=device)


def _tokens(torch: Torch, state: BeamState, device: Device) -> Any:
    """The last token of each row, as the ids of a model."""
    return _tensor(torch, state.tokens, device)[:, None]


def _prompts(torch: Torch, state: BeamState, device: Device, first: int, padding: int) -> tuple[Any, Any]:
    """Prompts of the rows from `first` on, padded on the left, and which of their ids are tokens; None for all."""
    if state.prompt is None:
        return _tokens(torch, state, device)[first:], None
    return _pad_ids(torch, state.prompt[to_host(state.source)[first:]], device, padding, left=True)


def _pad_ids(torch: Torch, sequences: Ragged[Any], device: Device, padding: int, *, left: bool) -> tuple[Any, Any]:
    """Token ids ``(n, longest)`` and their mask, which is None where nothing is padded."""
    data = _tensor(torch, sequences.data, device)
    lengths = torch.tensor(sequences.lengths, device=device)[:, None]
    n, longest = len(sequences), int(sequences.lengths.max(initial=0))
    if n * longest == len(data):
        return data.reshape(n, longest), None
    places = torch.arange(longest, device=device)
    seen = places >= longest - lengths if left else places < lengths
    ids = data.new_full((n, longest), padding)
    ids[seen] = data
    return ids, seen.to(torch.int64)


def _sources(torch: Torch, shared: object, device: Device) -> dict[str, Any]:
    """Arguments of the encoder."""
    if isinstance(shared, Encoding):
        ids, seen = _pad_ids(torch, convert(shared, Ragged), device, 0, left=False)
        return {"input_ids": ids} if seen is None else {"input_ids": ids, "attention_mask": seen}
    if not isinstance(shared, Mapping):
        raise KIND(
            "shared must be what the encoder takes: an encoding of token ids, or a dict of tensors, not "
            f"{type(shared).__name__}"
        )
    if not shared:
        raise EMPTY("shared must be what the encoder takes, but is an empty dict")
    return dict(shared)
