"""Arguments of a decoder's forward, and the trial that decides which prompts it can be given together."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any
from weakref import WeakKeyDictionary

from ..errors import KIND, TOGETHER, said
from .memory import Memory

_TRIED: WeakKeyDictionary[Any, dict[bool, str]] = WeakKeyDictionary()
"""By model, and whether rows are padded: why it cannot be searched, or "" if it can."""
_CLOSE, _ROUNDINGS = 1e-4, 16
"""How far scores may be apart in a trial, as a part of their range: at least, and in roundings of the dtype."""


class Inputs:
    """Makes the arguments of a decoder for each call: ids, mask, positions and cache."""

    def __init__(self, torch: Any, model: Any, options: Mapping[str, object], *, check: bool) -> None:
        takes = inspect.signature(model.forward).parameters
        self.model, self.cache = model, cache_name(takes)
        self._torch, self._check = torch, check
        self._fixed = {"use_cache": True, **options}
        if "logits_to_keep" in takes:
            self._fixed["logits_to_keep"] = 1
        self._takes = takes
        self._number = _numbers_of_ids(model)
        self.padding = 0 if self._number is None else self._number[1]
        prepare = getattr(model, "prepare_inputs_for_generation", None)
        self._prepare = prepare if prepare is not None and _takes_whole_rows() else None

    def run(self, memory: Memory, count: int) -> Any:
        """Run the model over the last `count` tokens of all rows; the memory keeps its cache."""
        out = self.model(**self._arguments(memory, count))
        memory.keep(self.model, getattr(out, self.cache, None), len(memory.ids))
        return out

    def _arguments(self, memory: Memory, count: int) -> dict[str, Any]:
        ids, seen, cache = memory.ids, memory.seen, memory.cache
        given = dict(self._fixed)
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

    def check(self, *, padded: bool) -> None:
        """TypeError unless the cache gives the scores of whole sequences, ConversionError unless padding does too."""
        if not self._check or self.model.training:
            return
        tried = _TRIED.setdefault(self.model, {})
        if padded not in tried:
            tried[padded] = self._trial(padded=padded)
        if not tried[padded]:
            return
        name = type(self.model).__name__
        if padded:
            raise TOGETHER(
                f"{name} cannot be given prompts of different lengths, or sources at different times, because "
                f"{tried[padded]}; search those of one length together, or give `beam_search` a step of your own"
            )
        raise KIND(f"{name} cannot be searched with its cache, because {tried[padded]}; give `beam_search` a step of "
                   "your own")  # fmt: skip

    def _trial(self, *, padded: bool) -> str:
        """Continue two short rows with the cache, each in the other's place, and compare them with whole sequences."""
        torch, model = self._torch, self.model
        tokens = _ordinary_tokens(model, 11)
        rows = [tokens[:7], tokens[7:]] if padded else [tokens[:5], tokens[6:]]
        try:
            with torch.no_grad():
                memory = Memory(*_left_padded(torch, [row[:-2] for row in rows], self.padding, model.device))
                self.run(memory, memory.ids.shape[1])
                for place in (-2, -1):
                    memory.reorder_cache(torch.tensor([1, 0], device=model.device))
                    rows.reverse()
                    memory.longer(torch, torch.tensor([[row[place]] for row in rows], device=model.device))
                    found = self.run(memory, 1).logits[:, -1]
                given = {**self._fixed, "use_cache": False}
                whole = [torch.tensor([row], device=model.device) for row in rows]
                wanted = torch.cat([model(input_ids=ids, **given).logits[:, -1] for ids in whole])
        except (MemoryError, torch.OutOfMemoryError):
            raise
        except Exception as error:  # a model may raise anything where it cannot
            return f"a short trial ended in {type(error).__name__}: {said(str(error))}"
        kinds = {type(layer) for layer in getattr(memory.cache, "layers", ())}
        own = sorted(kind.__name__ for kind in kinds if kind.__module__ != "transformers.cache_utils")
        if padded and own:  # what padding does to these shows in long sequences only
            return f"its cache has layers of its own ({', '.join(own)})"
        wanted = wanted.to(found.device)
        if torch.isclose(found, wanted, rtol=0, atol=_tolerance(torch, wanted), equal_nan=True).all():
            return ""
        return "its scores then differ from those of the same sequence alone and without a cache"


def _tolerance(torch: Any, scores: Any) -> float:
    """How far scores may be apart by rounding; devices may round float32 to TF32."""
    rounding = torch.finfo(scores.dtype).eps
    if scores.device.type != "cpu":
        rounding = max(rounding, 2**-11)
    finite = scores[scores.isfinite()]
    spread = float(finite.max() - finite.min()) if finite.numel() else 0.0
    return max(_CLOSE, _ROUNDINGS * rounding) * spread


def cache_name(takes: Mapping[str, object]) -> str:
    """The name of a model's cache, in its arguments as in what it returns: transformers 5.24 renamed it."""
    return "cache" if "cache" in takes and "past_key_values" not in takes else "past_key_values"


def _takes_whole_rows() -> bool:
    """Whether the generation hook of this release takes whole rows and the number of their new tokens."""
    from transformers import GenerationMixin

    return "next_sequence_length" in inspect.signature(GenerationMixin.prepare_inputs_for_generation).parameters


def _numbers_of_ids(model: Any) -> tuple[Callable[..., Any], int] | None:
    """The function by which a model numbers tokens from behind the id of its padding, as RoBERTa does, and that id."""
    for part in model.modules():
        create, padding = (getattr(part, name, None) for name in ("create_position_ids_from_input_ids", "padding_idx"))
        if create is not None and padding is not None:
            return create, padding
    return None


def _ordinary_tokens(model: Any, n: int) -> list[int]:
    """Tokens from all of the vocabulary, none of which the configuration gives a meaning."""
    settings = {**model.config.to_dict(), **model.config.get_text_config().to_dict()}
    special = {0}
    for name, value in settings.items():
        if name.endswith(("token_id", "token_index")):
            special.update(value if isinstance(value, list) else [value])
    tokens = [token for token in range(model.get_input_embeddings().weight.shape[0]) if token not in special]
    return [tokens[len(tokens) * (2 * i + 1) // (2 * n)] for i in range(n)]


def _left_padded(torch: Any, rows: list[list[int]], padding: int, device: Any) -> tuple[Any, Any]:
    """Rows as ids, and their mask if one of them is padded."""
    longest = max(map(len, rows))
    ids = [[padding] * (longest - len(row)) + row for row in rows]
    seen = [[0] * (longest - len(row)) + [1] * len(row) for row in rows]
    one = all(map(all, seen))
    return torch.tensor(ids, device=device), None if one else torch.tensor(seen, device=device)
