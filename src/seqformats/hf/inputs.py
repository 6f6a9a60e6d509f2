"""Arguments of a decoder's forward, and the trial that decides which prompts it can be given together."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias
from weakref import WeakKeyDictionary

from ..errors import KIND, TOGETHER, code_of, quote
from .annotations import Cache, Config, Device, Model, Tensor, Torch
from .memory import Memory

Mode: TypeAlias = Literal["even", "padded", "joined"]
"""Ways in which rows begin: with as many tokens each, with padding, or at different times."""
_TRIED: WeakKeyDictionary[Any, dict[Mode, str]] = WeakKeyDictionary()
"""By model, and by how rows begin: why it cannot be searched, or "" if it can."""
_KNOWN = {"moshi": "its cache keeps the keys of a window, while it attends to all"}
"""By type of model: what a short trial would not show."""
_CLOSE, _ROUNDINGS = 1e-4, 16
"""Tolerance of scores in a trial, as a part of their range: at least, and in roundings of the dtype."""


class Inputs:
    """Makes the arguments of a decoder for each call: ids, mask, positions and cache."""

    def __init__(self, torch: Torch, model: Model, options: Mapping[str, object], *, check: bool) -> None:
        takes = inspect.signature(model.forward).parameters
        self.model, self.cache = model, cache_name(takes)
        self._torch, self._check = torch, check
        self._fixed = {"use_cache": True, **options}
        if "logits_to_keep" in takes:
            self._fixed["logits_to_keep"] = 1
        self._takes = takes
        self._number = _numbers_of_ids(model)
        self.padding = 0 if self._number is None else self._number[1]
        self._rotation = _changing_rotation(model.config) if check else None
        prepare = getattr(model, "prepare_inputs_for_generation", None)
        self._prepare = prepare if prepare is not None and _takes_whole_rows() else None

    def run(self, memory: Memory, count: int, *, trial: bool = False) -> Any:
        """Run the model over the last `count` tokens of all rows; the memory keeps its cache."""
        given = self._arguments(memory, count)
        if self._rotation is not None:
            self._check_rotation(memory, given.get(self.cache), count, *self._rotation)
        out = (self.model.forward if trial else self.model)(**given)  # hooks see no trial
        memory.keep(self.model, getattr(out, self.cache, None), len(memory.ids))
        return out

    def _arguments(self, memory: Memory, count: int) -> dict[str, Any]:
        ids, seen, cache = memory.ids, memory.seen, memory.cache
        given: dict[str, Any] = dict(self._fixed)
        if "position_ids" in self._takes:
            if self._number is not None:
                create, padding = self._number
                given["position_ids"] = create(ids, padding)
                if seen is None:  # without a mask, positions that do not rise begin another sequence
                    seen = self._torch.ones_like(ids)
            elif seen is None:
                given["position_ids"] = self._torch.arange(ids.shape[1], device=ids.device)[None]
            else:
                given["position_ids"] = (seen.cumsum(1) - 1).clamp(min=0)
        if self._prepare is None:
            if seen is not None and not (cache is not None and all(getattr(cache, "is_linear", [False]))):
                given["attention_mask"] = seen
            if "position_ids" in given:
                given["position_ids"] = given["position_ids"][:, -count:]
            return {"input_ids": ids[:, -count:], self.cache: cache, **given}
        prepared: dict[str, Any] = self._prepare(
            ids,
            next_sequence_length=count,
            attention_mask=seen,
            is_first_iteration=cache is None,
            **{self.cache: cache},
            **given,
        )
        return prepared

    # --- what the model can be given ---------------------------------------------------------------------------------

    def check(self, mode: Mode) -> None:
        """TypeError unless the cache gives the scores of whole sequences, ConversionError unless padding does too."""
        if not self._check or self.model.training:
            return
        tried = _TRIED.setdefault(self.model, {})
        if mode not in tried:
            tried[mode] = self._trial(mode)
        if not tried[mode]:
            return
        name = type(self.model).__name__
        if mode == "even":
            raise KIND(
                f"{name} cannot be searched with its cache, because {tried[mode]}; "
                "give `beam_search` a step of your own"
            )
        self.check("even")  # whose remedy would be another
        what = "prompts of different lengths" if mode == "padded" else "sources that are added to a search"
        raise TOGETHER(
            f"{name} cannot be given {what}, because {tried[mode]}; "
            "search the prompts of each length by themselves, or give `beam_search` a step of your own"
        )

    def _check_rotation(self, memory: Memory, cache: Cache, count: int, kind: str, limit: int) -> None:
        """ConversionError where positions are rotated by the longest row, or the cache has keys rotated otherwise."""
        width = memory.ids.shape[1]
        if width > limit and (
            memory.seen is not None or (cache is not None and (kind == "dynamic" or width - count <= limit))
        ):
            raise TOGETHER(
                f"{type(self.model).__name__} rotates its positions by the length of a sequence ({kind}) from {limit} "
                "tokens on, so that neither its cache nor padding goes with that; search shorter sequences"
            )

    def _trial(self, mode: Mode) -> str:
        """Continue two short rows with the cache, each in the other's place, and compare them with whole sequences."""
        torch, model = self._torch, self.model
        if model.config.model_type in _KNOWN:
            return _KNOWN[model.config.model_type]
        tokens = _ordinary_tokens(model, 11)
        rows = [tokens[:5], tokens[6:]] if mode == "even" else [tokens[:7], tokens[7:]]
        begun = [row[:-2] for row in rows]
        try:
            with torch.no_grad():
                memory, *others = [
                    Memory(*_left_padded(torch, part, self.padding, model.device))
                    for part in ([[row] for row in begun] if mode == "joined" else [begun])
                ]
                for part in (memory, *others):
                    self.run(part, part.ids.shape[1], trial=True)
                for part in others:
                    memory.join(torch, part, self.padding)
                for place in (-2, -1):
                    memory.reorder_cache(torch.tensor([1, 0], device=model.device))
                    rows.reverse()
                    memory.longer(torch, torch.tensor([[row[place]] for row in rows], device=model.device))
                    found = self.run(memory, 1, trial=True).logits[:, -1]
                given = {**self._fixed, "use_cache": False}
                whole = [torch.tensor([row], device=model.device) for row in rows]
                wanted = torch.cat([model.forward(input_ids=ids, **given).logits[:, -1] for ids in whole])
        except (MemoryError, torch.OutOfMemoryError):
            raise
        except Exception as error:  # a model may raise anything where it cannot
            if code_of(error):
                raise
            return f"a short trial ended in {type(error).__name__}: {quote(str(error))}"
        kinds = {type(layer) for layer in getattr(memory.cache, "layers", ())}
        own = sorted(kind.__name__ for kind in kinds if kind.__module__ != "transformers.cache_utils")
        if mode != "even" and own:  # what padding does to these may show in long sequences only
            return f"its cache has layers of its own ({', '.join(own)})"
        wanted = wanted.to(found.device)
        if torch.isclose(found, wanted, rtol=0, atol=_tolerance(torch, wanted), equal_nan=True).all():
            return ""
        return "its scores then differ from those of the same sequence alone and without a cache"


def _tolerance(torch: Torch, scores: Tensor) -> float:
    """Return the tolerance of scores for rounding; devices may round float32 to TF32."""
    rounding: float = torch.finfo(scores.dtype).eps
    if scores.device.type != "cpu":
        rounding = max(rounding, 2**-11)
    finite = scores[scores.isfinite()]
    spread = float(finite.max() - finite.min()) if finite.numel() else 0.0
    return max(_CLOSE, _ROUNDINGS * rounding) * spread


def cache_name(takes: Mapping[str, object]) -> str:
    """The name of a model's cache, in its arguments as in what it returns: transformers 5.24 renamed it."""
    return "cache" if "cache" in takes and "past_key_values" not in takes else "past_key_values"


def _takes_whole_rows() -> bool:
    """Tell whether the generation hook of this release takes whole rows and the number of their new tokens."""
    from transformers import GenerationMixin

    return "next_sequence_length" in inspect.signature(GenerationMixin.prepare_inputs_for_generation).parameters


def _numbers_of_ids(model: Model) -> tuple[Callable[..., Any], int] | None:
    """The function by which a model numbers tokens from behind the id of its padding, as RoBERTa does, and that id."""
    for part in model.modules():
        create, padding = (getattr(part, name, None) for name in ("create_position_ids_from_input_ids", "padding_idx"))
        if create is not None and padding is not None:
            return create, padding
    return None


def _changing_rotation(config: Config) -> tuple[str, int] | None:
    """The kind of rotary positions that depend on the length of a sequence, and from which length on; None for none."""
    config = config.get_text_config()
    rope = getattr(config, "rope_parameters", None) or {}
    for part in [rope, *rope.values()]:
        kind = part.get("rope_type") if isinstance(part, Mapping) else None
        if kind in ("dynamic", "longrope"):
            original = part.get("original_max_position_embeddings")
            original = original or getattr(config, "original_max_position_embeddings", None)
            return kind, original or config.max_position_embeddings
    return None


def _ordinary_tokens(model: Model, n: int) -> list[int]:
    """Tokens from all of the vocabulary, none of which the configuration gives a meaning."""
    settings = {**model.config.to_dict(), **model.config.get_text_config().to_dict()}
    special = {0}
    for name, value in settings.items():
        if name.endswith(("token_id", "token_index")):
            special.update(value if isinstance(value, list) else [value])
    tokens = [token for token in range(model.get_input_embeddings().weight.shape[0]) if token not in special]
    return [tokens[len(tokens) * (2 * i + 1) // (2 * n)] for i in range(n)]


def _left_padded(torch: Torch, rows: list[list[int]], padding: int, device: Device) -> tuple[Any, Any]:
    """Rows as ids, and their mask if one of them is padded."""
    longest = max(map(len, rows))
    ids = [[padding] * (longest - len(row)) + row for row in rows]
    seen = [[0] * (longest - len(row)) + [1] * len(row) for row in rows]
    one = all(map(all, seen))
    return torch.tensor(ids, device=device), None if one else torch.tensor(seen, device=device)
