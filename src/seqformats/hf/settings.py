"""The generation settings of a model of transformers as options of `beam_search`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..arrays import has_items
from ..beam import (
    BannedTokens,
    Constraint,
    ExponentialDecayLengthPenalty,
    ForcedEnd,
    ForcedPrefix,
    ForcedTokens,
    NoRepeatNgram,
    RepetitionPenalty,
    Sample,
    SequenceBias,
)
from ..beam.names import HINTS
from ..beam.prompts import prompts_of
from ..errors import KIND, TOGETHER, quote
from ..formats.structure import whole
from .annotations import Model

TAKEN = """
    max_length max_new_tokens min_length min_new_tokens early_stopping do_sample num_beams num_return_sequences
    temperature top_k top_p min_p typical_p repetition_penalty length_penalty no_repeat_ngram_size bad_words_ids
    forced_bos_token_id forced_eos_token_id exponential_decay_length_penalty suppress_tokens begin_suppress_tokens
    sequence_bias eos_token_id decoder_start_token_id bos_token_id
"""
"""Fields that become options."""
IGNORED = {
    "results are ragged, and have no padding": "pad_token_id",
    "the result has scores, and a step gives to keep what else there is": """output_attentions output_hidden_states
        output_scores output_logits return_dict_in_generate""",
    "these change memory or speed, not what is found": """use_cache cache_config max_cache_len prefill_chunk_size
        compile_config disable_compile low_memory continuous_batching_config""",
    "drafts change speed, not what is found, and need an assistant": """is_assistant num_assistant_tokens
        num_assistant_tokens_schedule assistant_confidence_threshold prompt_lookup_num_tokens max_matching_ngram_size
        assistant_early_exit assistant_lookbehind target_lookbehind assistant_ensemble_weight speculation_type
        use_mtp""",
    "this says where the settings come from": "transformers_version",
}
"""Fields that say nothing to a search, by the reason."""
_READ, _IGNORED = frozenset(TAKEN.split()), frozenset(" ".join(IGNORED.values()).split())
_WHOLE = ("num_beams", "num_return_sequences", "no_repeat_ngram_size")
_LENGTHS = ("max_length", "max_new_tokens", "min_length", "min_new_tokens")  # which may be one per source
_LISTS = ("bad_words_ids", "suppress_tokens", "begin_suppress_tokens", "exponential_decay_length_penalty")
_SAMPLING = frozenset(["top_h", "epsilon_cutoff", "eta_cutoff"])  # these act only where tokens are drawn
_SCORES = "is no option here: let a function on_scores do it"
REFUSED: Mapping[str, tuple[tuple[object, ...], str]] = {
    "max_time": ((), HINTS["max_time"]),
    "stop_strings": ((), HINTS["stop_strings"]),
    "cache_implementation": (
        ("dynamic", "static", "offloaded", "offloaded_static", "hybrid", "sliding_window"),
        "is no option here: a cache that rounds what it keeps changes the scores",
    ),
    "top_h": ((), HINTS["top_h"]),
    "epsilon_cutoff": ((0.0, 1.0), HINTS["epsilon_cutoff"]),
    "eta_cutoff": ((0.0, 1.0), HINTS["eta_cutoff"]),
    "encoder_repetition_penalty": ((1.0,), HINTS["encoder_repetition_penalty"]),
    "encoder_no_repeat_ngram_size": ((0,), HINTS["encoder_no_repeat_ngram_size"]),
    "renormalize_logits": ((False,), HINTS["renormalize_logits"]),
    "remove_invalid_values": ((False,), HINTS["remove_invalid_values"]),
    "token_healing": ((False,), "is no option here: give `beam_search` the prompt without its last tokens"),
    "guidance_scale": ((1.0,), HINTS["guidance_scale"]),
    "watermarking_config": ((), _SCORES),
    "penalty_alpha": ((0.0,), HINTS["penalty_alpha"]),
    "dola_layers": ((), _SCORES),
    "num_beam_groups": ((1,), HINTS["num_beam_groups"]),
    "diversity_penalty": ((0.0,), HINTS["diversity_penalty"]),
    "constraints": ((), HINTS["force_words_ids"]),
    "force_words_ids": ((), HINTS["force_words_ids"]),
    "forced_decoder_ids": ((), HINTS["forced_decoder_ids"]),
}
"""Fields that a search cannot take: values with which they say nothing, and what to do with all others."""
_DEFAULT_LENGTH, _DEFAULT_TOP_K = 20, 50  # of `generate`


def search_options(
    model: Model, prompt: object = None, *, seed: int | None = None, **changes: object
) -> dict[str, Any]:
    """Options of `beam_search` that stand for the ``generation_config`` of a model of transformers.

    Parameters
    ----------
    model : transformers.PreTrainedModel
        The model, whose ``generation_config`` is read.
    prompt : lists of tokens, or encoding, optional
        The prompts of the search, which are then among the options.  Lengths that count the prompt need them, and so
        do, for a model with an encoder, limits on tokens that look at the first one: there they are
        ``[[decoder_start_token_id]] * n``.
    seed : int, optional
        The seed of ``sampling=``; needed where ``do_sample`` is set.
    **changes
        Fields in the place of those of the configuration, as `generate` takes them; None for one that is to be ignored.

    Returns
    -------
    dict
        Keywords of `beam_search`: the rule, ``beam_size``, ``n_best``, ``end``, lengths, ``sampling``, ``constraints``,
        and ``start`` or ``prompt``.

    Raises
    ------
    ConversionError
        For a field, named, that a search cannot take.
    TypeError
        For a model without a ``generation_config``.

    See Also
    --------
    decoder_step : the model as a step, which reads none of this by itself
    seqformats.beam_search : the search

    Notes
    -----
    One beam is the rule "greedy", several are the rule "hf"; with ``do_sample`` as many sequences are drawn as
    ``num_return_sequences`` says.  Without a length there are 20 new tokens, as in `generate`.  Fields that say nothing
    to a search (caches, padding, outputs, drafts, sampling without ``do_sample``) are ignored.  A field that is unknown
    here is refused unless it is None.

    Each source is searched as if it were alone: a length that counts the prompt counts its own, without padding.

    Examples
    --------
    >>> import seqformats as sf
    >>> import torch, transformers
    >>> config = transformers.GPT2Config(vocab_size=20, n_embd=16, n_layer=1, n_head=2, n_positions=32)
    >>> model = transformers.GPT2LMHeadModel(config).eval()
    >>> model.generation_config.eos_token_id = 0
    >>> options = sf.hf.search_options(model, [[5, 6], [7, 8, 9]], num_beams=3, max_length=8)
    >>> options["beam_size"], options["max_new_tokens"].tolist()
    (3, [6, 5])
    >>> found = sf.beam_search(sf.hf.decoder_step(model), None, **options)
    >>> len(found.tokens)
    2
    """
    settings = _settings(model, changes)
    encoder = bool(getattr(model.config, "is_encoder_decoder", False))
    lengths = None if prompt is None else prompts_of(prompt).lengths
    beams, draws = settings.get("num_beams", 1), bool(settings.get("do_sample"))
    sequences = settings.get("num_return_sequences", 1)
    if draws and beams > 1:
        raise _unfit("do_sample", True, f"does not go with num_beams={beams} here; give num_beams=1 or do_sample=False")
    if draws and seed is None:
        raise _unfit("do_sample", True, "needs a seed here; give seed=, or do_sample=False")
    options: dict[str, Any] = {
        "rule": "hf" if beams > 1 or draws else "greedy",
        "beam_size": sequences if draws else beams,
        "n_best": sequences,
        "end": _list(settings.get("eos_token_id")),
        **_lengths(settings, lengths, encoder),
        "constraints": _constraints(settings, lengths, encoder),
    }
    if beams > 1:
        options["length_penalty"] = settings.get("length_penalty", 1.0)
        options["early_stopping"] = settings.get("early_stopping", False)
    if draws:
        options["sampling"] = _sampling(settings, seed)
    if prompt is not None:
        options["prompt"] = prompt
    elif encoder:
        start = settings.get("decoder_start_token_id", settings.get("bos_token_id"))
        if start is None:
            raise TOGETHER("the generation_config has no decoder_start_token_id; give prompt=, or the field")
        options["start"] = start
    forced = settings.get("forced_eos_token_id")
    if forced is not None:
        options["constraints"].append(_forced_end(_list(forced), options))
    return options


def _settings(model: Model, changes: Mapping[str, object]) -> dict[str, Any]:
    """The fields that are taken and are not None; ConversionError for one that cannot be."""
    config = getattr(model, "generation_config", None)
    if config is None:
        raise KIND(f"{type(model).__name__} has no generation_config")
    given = {name: value for name, value in vars(config).items() if not name.startswith("_")}
    given = {name: value for name, value in {**given, **changes}.items() if value is not None}
    for name, value in given.items():
        if name in _READ or name in _IGNORED or (name in _SAMPLING and not given.get("do_sample")):
            continue
        if name not in REFUSED:
            raise _unfit(name, value, f"is not known here; give {name}=None, if the search can do without it")
        silent, remedy = REFUSED[name]
        if name == "renormalize_logits" and given.get("num_beams", 1) == 1:
            continue  # the order of tokens stays
        if not any(type(value) in (type(one), int, float) and value == one for one in silent):
            raise _unfit(name, value, f"{remedy}; then give {name}=None")
    _check_kinds(given)
    return {name: given[name] for name in given if name in _READ}


def _check_kinds(given: Mapping[str, Any]) -> None:
    """Raise TypeError for a setting that must be a number, or a list, and is none."""
    for name in (*_WHOLE, *_LENGTHS):
        value = given.get(name, 0)
        if name in _WHOLE or not has_items(value):
            whole(value, name)
    for name in _LISTS:
        value = given.get(name, [])
        if not has_items(value):
            raise KIND(f"{name} must be a list, not {quote(value)}")
        if name == "bad_words_ids" and not all(map(has_items, value)):
            raise KIND(f"{name} must be a list of lists, not {quote(value)}")
    decay = given.get("exponential_decay_length_penalty")
    if decay is not None and len(decay) != 2:
        raise KIND(f"exponential_decay_length_penalty must be a start and a factor, not {quote(decay)}")


def _unfit(name: str, value: object, remedy: str) -> Exception:
    return TOGETHER(f"{name}={quote(value)} of the generation_config {remedy}")


def _list(tokens: Any) -> list[int]:
    """One token or several, or None, as a list."""
    if tokens is None:
        return []
    return list(tokens) if isinstance(tokens, (list, tuple)) else [tokens]


def _lengths(settings: Mapping[str, Any], lengths: object, encoder: bool) -> dict[str, Any]:
    """Return the maximum and minimum numbers of new tokens: total lengths minus those of the prompts."""
    found: dict[str, Any] = {}
    for end, default in (("max", _DEFAULT_LENGTH), ("min", 0)):
        new, total = (settings.get(f"{end}_{what}") for what in ("new_tokens", "length"))
        if new is not None or total is None:
            found[f"{end}_new_tokens"] = default if new is None else new
        elif lengths is not None:
            found[f"{end}_new_tokens"] = total - lengths if end == "max" else np.maximum(total - lengths, 0)
        elif encoder:
            found[f"{end}_new_tokens"] = total - 1 if end == "max" else max(total - 1, 0)
        elif end == "min" and not total:
            found["min_new_tokens"] = 0
        else:
            raise _unfit(f"{end}_length", total, f"counts the prompt; give prompt=, or {end}_new_tokens=")
        if end == "max" and np.min(found["max_new_tokens"], initial=1) < 1:
            raise _unfit("max_length", total, "leaves no new token behind a prompt; give max_new_tokens=")
    return found


def _constraints(settings: Mapping[str, Any], lengths: Any, encoder: bool) -> list[Constraint]:
    """The limits on tokens, but for the forced end."""
    found: list[Constraint] = []
    bias: Any = settings.get("sequence_bias") or {}
    phrases = settings.get("bad_words_ids") or []
    penalty, ngram = settings.get("repetition_penalty", 1.0), settings.get("no_repeat_ngram_size", 0)
    if bias:
        pairs = bias.items() if isinstance(bias, Mapping) else [(tuple(tokens), value) for tokens, value in bias]
        bias = dict(pairs)
        found.append(SequenceBias(bias))
    ends = _list(settings.get("eos_token_id"))
    phrases = [phrase for phrase in phrases if len(phrase) != 1 or phrase[0] not in ends]  # as in `generate`
    if encoder and lengths is None:
        looks = {
            "repetition_penalty": penalty != 1,
            "no_repeat_ngram_size": ngram > 0,
            "bad_words_ids": any(len(phrase) > 1 for phrase in phrases),
            "sequence_bias": any(len(_list(tokens)) > 1 for tokens in bias),
        }
        for name, needs in looks.items():
            if needs:
                raise _unfit(name, settings[name], "looks at the first token too; give prompt=[[first]] * n")
    if penalty != 1:
        found.append(RepetitionPenalty(penalty))
    if ngram > 0:
        found.append(NoRepeatNgram(ngram))
    if phrases:
        found.append(BannedTokens(phrases))
    forced, begin = settings.get("forced_bos_token_id"), settings.get("begin_suppress_tokens")
    until = 1
    if forced is not None:
        if lengths is None and not encoder:
            raise _unfit("forced_bos_token_id", forced, "is for prompts of one token; give prompt=")
        alone = [True] if lengths is None else (lengths == 1).tolist()
        if begin and any(alone):
            if forced in begin or not all(alone):
                raise _unfit("begin_suppress_tokens", begin, f"does not go with forced_bos_token_id={forced}")
            until = 2  # as they come behind the forced one
        if lengths is None:
            found.append(ForcedTokens({0: forced}, free=True))
        elif any(alone):
            found.append(ForcedPrefix([[forced] if one else [] for one in alone], free=True))
    decay, suppressed = settings.get("exponential_decay_length_penalty"), settings.get("suppress_tokens")
    if decay is not None:
        found.append(ExponentialDecayLengthPenalty(*decay))
    if suppressed:
        found.append(BannedTokens(list(suppressed)))
    if begin:
        found.append(BannedTokens(list(begin), until=until))
    return found


def _forced_end(forced: list[int], options: Mapping[str, Any]) -> Constraint:
    """The end at the greatest length, free of charge."""
    if set(forced) == set(options["end"]):
        return ForcedEnd(free=True)
    longest = options["max_new_tokens"]
    if len(forced) == 1 and np.ndim(longest) == 0:
        return ForcedTokens({int(longest) - 1: forced[0]}, free=True)
    raise _unfit("forced_eos_token_id", forced, "must be what eos_token_id is; give eos_token_id= or max_new_tokens=")


def _sampling(settings: Mapping[str, Any], seed: Any) -> Sample:
    """Return the sampling options, in the order of `generate`."""
    top_k = settings.get("top_k", _DEFAULT_TOP_K)
    return Sample(
        seed,
        temperature=settings.get("temperature", 1.0),
        top_k=top_k or None,
        top_p=_below_one(settings.get("top_p")),
        min_p=settings.get("min_p"),
        typical=_below_one(settings.get("typical_p")),
    )


def _below_one(part: Any) -> Any:
    """A part of the probability, or None for all of it."""
    return None if part is None or part >= 1 else part
