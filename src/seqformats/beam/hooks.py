"""Functions of the user that see, and change, what a step of beam search scores and selects."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arrays import Array, adopt, is_array, to_host
from ..errors import KIND, NAN, RESULT, RETURNED, quote
from ..formats import Encoding, LoD
from ..formats.structure import Structure, integers
from . import candidates
from .candidates import Query
from .followers import with_tokens
from .hypotheses import Live
from .memory import Place
from .options import Options
from .plan import Plan, words_of
from .result import BeamState
from .rows import Candidates, Wanted


class Hooks:
    """The hooks of one search; `check` raises ValueError where counts say that a row is bad."""

    def __init__(self, options: Options) -> None:
        self.on_mask = _functions(options.on_mask, "on_mask")
        self.on_scores = _functions(options.on_scores, "on_scores")
        self.on_candidates = _functions(options.on_candidates, "on_candidates")
        self.on_selected = _functions(options.on_selected, "on_selected")
        own = {id(hook): hook for hook in (*self.on_mask, *self.on_scores, *self.on_candidates, *self.on_selected)}
        self._following = [(hook, with_tokens(hook.follow)) for hook in own.values() if hasattr(hook, "follow")]

    def follow(self, state: BeamState, told: list[Any]) -> None:
        """Tell how rows go on, each hook once, and none that was told as a memory."""
        if self._following:
            self._tell(state.parents, state.tokens, told)

    def tell(self, parents: Array, place: Place, told: list[Any]) -> None:
        """Tell which row each was, -1 for those that are new; there is no token behind any, which is -1 too."""
        self._tell(place.put(parents), place.put(np.full(parents.size, -1)), told)

    def _tell(self, parents: Array, tokens: Array, told: list[Any]) -> None:
        for hook, knows_tokens in self._following:
            if not any(hook is other for other in told):
                hook.follow(parents, tokens) if knows_tokens else hook.follow(parents)

    def mask(self, plan: Plan, state: BeamState) -> None:
        """Say in the plan what ``on_mask`` allows."""
        for hook in self.on_mask:
            plan.mask(_mask(hook(state), plan.rows, plan.width, state.t))

    def of_rows(self, query: Query, per_parent: int | None, live: Live, n: int, state: BeamState) -> Candidates:
        """The best candidates, of which each row has as many as ``on_candidates`` leaves."""
        library, x = query.library, query.x
        found = candidates.row_lists(query, per_parent)
        live.check(found.counts)
        best = candidates.find_used(found)
        values, ids = found.values[best], found.ids[best]
        levels = (_rows_of_sources(live, n), Structure.of_lengths(found.counts.astype(np.int64)))
        tokens, scores = (LoD._from_levels(library.from_host(a, x), levels) for a in (ids % x.shape[1], values))
        for hook in self.on_candidates:
            tokens, scores = _several_of(hook(tokens, scores, state), "on_candidates", ("ids", "scores"))
            levels = _two_levels(tokens, scores, levels[0])
        parents = np.repeat(np.arange(levels[1].n), levels[1].lengths)
        return _sort_candidates("on_candidates", scores, tokens, parents, query.wanted, x.shape[1], live.t)

    def filter_selected(self, query: Query, found: Candidates, live: Live, n: int, state: BeamState) -> Candidates:
        """Give the selected candidates that ``on_selected`` leaves."""
        library, x = query.library, query.x
        for hook in self.on_selected:
            live.check(found.counts)
            used = candidates.find_used(found)
            parents, tokens = np.divmod(found.ids[used], found.width)
            order = np.argsort(parents, kind="stable")
            rows = live.source.size
            counts = np.bincount(parents, minlength=rows).astype(np.int64)
            levels = (_rows_of_sources(live, n), Structure.of_lengths(counts))
            ids, scores = (
                LoD._from_levels(library.from_host(a[order], x), levels) for a in (tokens, found.values[used])
            )
            given = hook(ids, scores, library.from_host(parents[order], x), state)
            ids, scores, parents = _several_of(given, "on_selected", ("ids", "scores", "parents"))
            parents = integers(to_host(parents), "parents")
            if parents.size and (parents.min() < 0 or parents.max() >= rows):
                raise RESULT(f"parents must be rows, from 0 to {rows - 1}, but on_selected returned {parents}")
            wanted = query.wanted
            wanted = wanted._replace(most=np.full_like(wanted.most, max(parents.size, 1)))
            found = _sort_candidates("on_selected", scores, ids, parents, wanted, found.width, live.t)
        return found


def _functions(given: object, name: str) -> list[Any]:
    found = list(given) if isinstance(given, (list, tuple)) else [] if given is None else [given]
    for hook in found:
        if not callable(hook):
            raise KIND(f"{name} must be a function or a list of such, not {type(hook).__name__}")
    return found


def _several_of(returned: object, name: str, parts: tuple[str, ...]) -> Any:
    if not isinstance(returned, (tuple, list)) or len(returned) != len(parts):
        raise RETURNED(f"{name} must return ({', '.join(parts)}), not {type(returned).__name__}")
    return returned


def _mask(given: object, rows: int, width: int, t: int) -> Array:
    """The words of a mask on the host."""
    if not is_array(given):
        raise RETURNED(f"on_mask must return an array of int32, not {type(given).__name__}, at step {t}")
    library, mask = adopt(given, "what on_mask has returned")
    if library.dtype_name(mask.dtype) != "int32":
        raise RETURNED(f"on_mask must return an array of int32, not {library.dtype_name(mask.dtype)}, at step {t}")
    shape = rows, words_of(width, 32)
    if tuple(mask.shape) != shape:
        raise RESULT(
            f"on_mask must return shape {shape} for {rows} rows of {width} tokens, not {tuple(mask.shape)}, at step {t}"
        )
    return library.to_numpy(mask)


def _two_levels(ids: object, scores: object, rows: Structure) -> tuple[Structure, Structure]:
    """The levels that candidates from a hook have in common."""
    levels = []
    for x in (ids, scores):
        if not isinstance(x, LoD) or len(x.lod) != 2 or x.item_shape not in ((), (1,)):
            raise RESULT(f"on_candidates must return LoDs over [source -> rows, row -> candidates], not {quote(x)}")
        if not np.array_equal(x.lod[0], rows.offsets):
            raise RESULT("on_candidates must keep the rows of every source")
        levels.append(x._levels)
    inner = levels[0][1]
    if not inner.same_lengths(levels[1][1]):
        raise RESULT("on_candidates must return as many ids as scores for every row")
    return rows, inner


def _rows_of_sources(live: Live, n: int) -> Structure:
    return Structure.of_lengths(np.bincount(live.source, minlength=n).astype(np.int64))


def _sort_candidates(
    name: str, scores: LoD | Array, ids: LoD | Array, parents: Array, wanted: Wanted, width: int, t: int
) -> Candidates:
    """Candidates from a hook, sorted."""
    values, tokens = (to_host(_data_of(a)).reshape(-1).copy() for a in (scores, ids))  # read once, then checked
    if values.dtype.kind not in "fiu":
        raise RETURNED(f"{name} must return real numbers as scores, not {values.dtype}")
    if not (values < np.inf).all():
        raise NAN(f"the scores that {name} returned hold NaN or +inf, at step {t}")
    if tokens.size and tokens.dtype.kind not in "iu":
        raise RETURNED(f"{name} must return integers as ids, not {tokens.dtype}")
    if not values.size == tokens.size == parents.size:
        raise RESULT(f"{name} returned {tokens.size} ids and {values.size} scores for {parents.size} parents")
    if tokens.size and (tokens.min() < 0 or tokens.max() >= width):
        wrong = tokens.min() if tokens.min() < 0 else tokens.max()
        raise RESULT(f"ids must be from 0 to {width - 1}, but {name} returned {wrong}")
    return candidates.rank(values.astype(np.float32), parents * width + tokens.astype(np.int64), width, wanted)


def _data_of(x: object) -> object:
    """The data of a `LoD`, after a look at whether that is what was validated; an array as it is."""
    if not isinstance(x, Encoding):
        return x
    x._look()
    return x.data
