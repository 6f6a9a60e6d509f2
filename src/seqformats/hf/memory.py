"""Memory of a model of transformers for each row of a search: ids, padding, cache, encoded source."""

from __future__ import annotations

from ..errors import KIND
from .annotations import Cache, Model, Tensor, Torch


class Memory:
    """The rows of a search as a model knows them: ids, which of these are padding, its cache, what was encoded.

    Of a model with an encoder the last three parts, and the half of the cache that is made of them, are the same for
    all rows of a source; the ids are not kept.
    """

    cache: Cache = None

    def __init__(
        self,
        ids: Tensor,
        seen: Tensor | None = None,
        encoded: Cache = None,
        mask: Tensor | None = None,
        source: Tensor | None = None,
    ) -> None:
        self.ids, self.seen, self.encoded, self.mask, self.source = ids, seen, encoded, mask, source
        self.rows = 0

    def longer(self, torch: Torch, tokens: Tensor) -> None:
        """Add a token ``(n, 1)`` to each row."""
        self.ids = torch.cat([self.ids, tokens.to(self.ids.dtype)], 1)
        if self.seen is not None:
            self.seen = torch.nn.functional.pad(self.seen, (0, 1), value=1)

    def keep(self, model: Model, cache: Cache, rows: int) -> None:
        """Keep the cache that the model has returned for these rows; TypeError for one that cannot follow."""
        self.cache, self.rows = cache, rows
        if not hasattr(self.cache, "reorder_cache"):
            raise KIND(
                f"{type(model).__name__} returns no cache that can follow the rows; "
                "give `beam_search` a step of your own, with what the model remembers as its memory"
            )

    def join(self, torch: Torch, other: Memory, padding: int) -> Memory:
        """Add the rows of another behind these; both begin with padding where the other has more tokens."""
        parts = (self, other)
        for part in parts:
            kinds = {type(layer).__name__ for layer in getattr(part.cache, "layers", [part.cache])}
            if kinds != {"DynamicLayer"}:
                raise KIND(f"sources cannot be added to a search whose model has a cache of {', '.join(kinds)}")
        widths = [part.cache.get_seq_length() for part in parts]
        masks, ids = [], []
        for part, width in zip(parts, widths, strict=True):
            seen = torch.ones_like(part.ids, dtype=torch.int64) if part.seen is None else part.seen
            masks.append(torch.nn.functional.pad(seen, (max(widths) - width, 0)))
            ids.append(torch.nn.functional.pad(part.ids, (max(widths) - width, 0), value=padding))
        seen = torch.cat(masks)
        first = int(seen.any(0).to(torch.uint8).argmax())  # what comes before has been padding since rows went
        for layer, more in zip(self.cache.layers, other.cache.layers, strict=True):
            for name in ("keys", "values"):
                padded = [
                    torch.nn.functional.pad(getattr(part, name), (0, 0, max(widths) - width, 0))
                    for part, width in zip((layer, more), widths, strict=True)
                ]
                setattr(layer, name, torch.cat(padded)[:, :, first:])
        self.ids, self.seen, self.rows = torch.cat(ids)[:, first:], seen[:, first:], len(seen)
        return self

    def reorder_cache(self, parents: Tensor) -> None:
        """Let row i be what row ``parents[i]`` was."""
        self.rows = len(parents)
        cross = getattr(self.cache, "cross_attention_cache", None)
        (self.cache if cross is None else self.cache.self_attention_cache).reorder_cache(parents)
        if self.ids is not None:
            self.ids = self.ids.index_select(0, parents)
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
