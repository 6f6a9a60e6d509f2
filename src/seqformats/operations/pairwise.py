"""Products of all pairs of items of two batches, sequence by sequence, and the late interaction that they score.

One rule says how products are calculated: from `MIN_PRODUCTS_FOR_MATMUL` multiplications a pair of sequences on
by the library's own product of matrices, one pair after the other, below that by one kernel over all pairs at once.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from .. import core
from ..arrays import Array, Library, freeze, library_of, to_host
from ..arrays.dtypes import FLOAT_NAMES, HALF
from ..converters.convert import restore, rows_of
from ..errors import COUNTS, DTYPE, INDEX, LEVELS, OVERFLOW, SHAPE, WHOLE
from ..formats import Encoding, LoD, Ragged
from ..formats.leaves import without_data
from ..formats.structure import Structure, same_levels
from ..gradients.levels import INNERMOST, operation_by_level
from ..gradients.operation import Call, Operand, Pullback, each_gradient, operand, operands_of
from ..launch.kernel import Work, kernel
from .annotations import Batch
from .calculation import name_of
from .embedding_bag import embedding_bag
from .extremes import reduce_max
from .join import check_alike
from .sums import reduce_sum
from .topk import argmax

dot_pairs, pair_items = kernel("dot_pairs"), kernel("pair_items")

Operands: TypeAlias = tuple[Any, ...]
"""Two batches."""
MIN_PRODUCTS_FOR_MATMUL = 1 << 16
"""Multiplications of a pair of sequences, on average, from which on it is a product of matrices of its own."""
MAX_PRODUCTS_AT_ONCE = 1 << 20
"""Products that `maxsim` has in memory at a time, if it is not one pair alone that has more."""


@operation_by_level(keeps=True, beside=("y",), kinds=())
def pairwise_dot(x: Batch, y: Batch, *, level: int = INNERMOST) -> Call[LoD]:  # noqa: ARG001  see `operation_by_level`
    """Multiply each item of every sequence of `x` with each item of the one of `y`, as vectors.

    Parameters
    ----------
    x, y : encodings, lists of arrays or nested lists
        Over the same number of sequences, items ``(d,)`` of floats, of one dtype and library.
    level : int
        The level of a `LoD` whose sequences these are, as in `convert`; all levels of `x` stay, above those of `y`.

    Returns
    -------
    LoD
        For sequence i, of a and b items, a inner sequences of b numbers: ``x_i @ y_i.T``.  Its pullback gives the
        gradients of `x` and of `y`.

    Raises
    ------
    StructureError
        For other numbers of sequences, outer levels, item shapes or dtypes.
    TypeError
        For items that are no floats.
    DeviceError
        If the arrays belong to different libraries or devices.

    See Also
    --------
    maxsim : The sum of the maxima, without the products in memory.
    cross : The pairs themselves.

    Notes
    -----
    Sequences with 65,536 multiplications or more on average go to the library's product of matrices one by one, where
    the last bits depend on its settings; of shorter ones a kernel makes all products at once.  Half precision is
    calculated in float32.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> x = sf.Ragged(np.array([[1.0, 0.0], [1.0, 1.0], [2.0, 2.0]]), [2, 1])
    >>> y = sf.Ragged(np.array([[3.0, 4.0], [1.0, 0.5], [0.0, 1.0]]), [1, 2])
    >>> sf.pairwise_dot(x, y).to_nested()
    [[[3.0], [7.0]], [[3.0, 2.0]]]
    """
    given = operands_of(x, y)
    one, two = given[0].own, given[1].own
    _check(one, two, ("x", "y"))
    if one._structure.n != two._structure.n:
        raise COUNTS(f"y has {two._structure.n} sequences, but x has {one._structure.n}")
    outer = one._levels[:-1], two._levels[:-1]
    if all(outer) and not same_levels(*outer):
        raise LEVELS("y has other outer levels than x")
    call = _Products(without_data(one), without_data(two), _Pairs.from_structures(one._structure, two._structure))
    return Call((one, two), call.rule, None, each_gradient(given), call.gradients)


@operation_by_level(keeps=False, beside=("documents",), kinds=())
def maxsim(
    queries: Batch,
    documents: Batch,
    candidates: Batch | None = None,
    *,
    level: int = INNERMOST,  # noqa: ARG001  see `operation_by_level`
) -> Call[Any]:
    """Score documents by the items that are most like those of a query: ColBERT's late interaction.

    The sum, over the items of a query, of the largest dot product with an item of a document.

    Parameters
    ----------
    queries, documents : encodings, lists of arrays or nested lists
        Items ``(d,)`` of floats, of one dtype and library.
    candidates : an encoding, a list of arrays or nested lists, optional
        Integers, item shape (): for each query the positions of the documents to be scored.
    level : int
        The level of a `LoD` whose sequences are the queries, and the documents if they have as many levels.

    Returns
    -------
    array ``(n,)``, or what `candidates` is
        The score of each query with the document at its place, or with each of its candidates.  An empty query has
        0, an empty document -inf for each item of the query.  Its pullback gives the gradients of `queries` and of
        `documents`: the first of equal products has it.

    Raises
    ------
    StructureError
        For other numbers of sequences, item shapes or dtypes.
    IndexError
        For a candidate that is no document.
    TypeError
        For items that are no floats, and candidates that are no integers.
    DeviceError
        If the arrays belong to different libraries or devices.

    See Also
    --------
    pairwise_dot : The products themselves.

    Notes
    -----
    About a million products are in memory at a time.  How they are calculated `pairwise_dot` says.  O. Khattab and
    M. Zaharia, ColBERT: Efficient and Effective Passage Search via Contextualized Late Interaction over BERT, 2020.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> queries = sf.Ragged(np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]), [2, 1])
    >>> documents = sf.Ragged(np.array([[3.0, 4.0], [1.0, 0.5], [0.0, 1.0]]), [1, 2])
    >>> sf.maxsim(queries, documents)
    array([7. , 1.5])
    >>> sf.maxsim(queries, documents, [[0, 1], [0]])
    [[7.0, 2.0], [7.0]]
    """
    given = operands_of(queries, documents)
    one, two = given[0].own, given[1].own
    _check(one, two, ("queries", "documents"))
    count, results = two._structure.n, None
    if candidates is None:
        if one._structure.n != count:
            raise COUNTS(f"documents has {count} sequences, but queries has {one._structure.n}; give candidates")
        places: Array = np.arange(count)
        chosen = scored = places
    else:
        results = operand(candidates)
        scored, chosen = _candidates(results.own, one._structure.n, count)
    call = _Scores(without_data(one), without_data(two), results, freeze(scored), freeze(chosen))
    result = None if results is None else results.result
    return Call((one, two), call.rule, result, each_gradient(given), call.gradients)


def _check(x: Encoding, y: Encoding, names: tuple[str, str]) -> None:
    """An error for batches whose items cannot be multiplied with each other."""
    check_alike((x, y), "", names)
    if len(x.item_shape) != 1:
        raise SHAPE(f"{names[0]} must have items of shape (d,), but they have {x.item_shape}")
    if name_of(x) not in FLOAT_NAMES:
        raise DTYPE(f"products are for floats ({', '.join(FLOAT_NAMES)}), but {names[0]} has dtype {name_of(x)}")


def _candidates(own: Encoding, n: int, count: int) -> tuple[Array, Array]:
    """The query and the document of each pair."""
    structure = own._structure
    if structure.n != n:
        raise COUNTS(f"candidates has {structure.n} sequences, but queries has {n}")
    if own.item_shape != ():
        raise SHAPE(f"candidates must have single integers, but have item shape {own.item_shape}")
    places = to_host(rows_of(own))
    if places.size and places.dtype.kind not in "iu":
        raise WHOLE(f"candidates must be integers, not {places.dtype}")
    wrong = (places < 0) | (places >= count)
    if wrong.any():
        r = int(wrong.argmax())
        i = int(np.searchsorted(structure.offsets, r, side="right")) - 1
        raise INDEX(f"candidates[{i}][{r - structure.offsets[i]}] is {places[r]}, but there are {count} documents")
    return np.repeat(np.arange(n), structure.lengths), places.astype(np.int64)


def is_large(library: Library, x: Array, products: int, n: int) -> bool:
    """Tell whether the products of n pairs of sequences, whose items are as those of `x`, are made pair by pair."""
    kind, deep = library.kind(x), int(x.shape[1])
    return products * deep != 0 and (products * deep >= MIN_PRODUCTS_FOR_MATMUL * n or kind not in ("cpu", "cuda"))


class _Pairs(NamedTuple):
    """The pairs of the items of sequences, in the order of the first."""

    one: Structure
    two: Structure
    inner: Structure  # of the products: a sequence for each item of the first
    begins: Array  # the products before each sequence

    @classmethod
    def from_structures(cls, one: Structure, two: Structure) -> _Pairs:
        """Pair the items of two batches."""
        inner, begins, _ = core.build_structure(pair_items.run, one.rows, one.n + 1, one.offsets, two.offsets)
        if inner is None:
            raise OVERFLOW("the products would be more than int64 can count")
        return cls(one, two, inner, begins)

    @property
    def other(self) -> Array:
        """The item of the second in each pair, int64."""
        starts = np.repeat(self.two.offsets[:-1], self.one.lengths)
        return freeze(np.repeat(starts - self.inner.offsets[:-1], self.inner.lengths) + np.arange(self.inner.rows))

    def swap(self) -> tuple[_Pairs, Array]:
        """Return these pairs in the order of the second, and their places here."""
        pairs = _Pairs.from_structures(self.two, self.one)
        items = pairs.other
        place = np.repeat(
            np.arange(self.two.rows) - np.repeat(self.two.offsets[:-1], self.two.lengths), pairs.inner.lengths
        )
        return pairs, freeze(self.inner.offsets[items] + place)

    def products(self, library: Library, x: Array, y: Array) -> Array:
        """The product of each pair, outside of any graph."""
        if self.inner.rows and is_large(library, x, self.inner.rows, self.one.n):
            ones = library.split(x, self.one.lengths, self.one.offsets)
            return library.products(ones, library.split(y, self.two.lengths, self.two.offsets))
        return self.by_kernel(library, x, y)

    def by_kernel(self, library: Library, x: Array, y: Array) -> Array:
        """The product of each pair, of all sequences at once."""
        deep = int(x.shape[1])
        if not (self.inner.rows and deep):
            return library.zeros((self.inner.rows,), x.dtype, x)
        out = library.empty((self.inner.rows,), x.dtype, x)
        args = (self.one.offsets, self.two.offsets, self.begins, deep)
        dot_pairs.start(library, (x, y), (out,), args, 1, self.one, Work(self.one.n, self.inner.rows))
        return out

    def weigh(self, library: Library, y: Array, slopes: Array) -> Array:
        """For each item of the first the sum of those of the second, times the slopes of the pairs, in any graph."""
        if is_large(library, y, self.inner.rows, self.one.n):
            inner, ends = self.inner.offsets[self.one.offsets].tolist(), self.two.offsets.tolist()
            parts = [
                library.product(slopes[a:b].reshape(int(count), d - c), y[c:d])
                for (a, b), (c, d), count in zip(pairwise(inner), pairwise(ends), self.one.lengths, strict=True)
            ]
            return library.concatenate(parts)
        made: Any = embedding_bag(y, Ragged._freeze(self.other, self.inner), Ragged._freeze(slopes, self.inner))
        rows: Array = made
        return rows


class _Products(NamedTuple):
    """A call of `pairwise_dot`, checked."""

    one: Encoding
    two: Encoding
    pairs: _Pairs

    def rule(self, operands: tuple[Encoding, Encoding], _: bool) -> tuple[LoD, Pullback]:
        """The products, and the pullback."""
        x, y = (_rows(z) for z in operands)
        library, name = library_of(x), name_of(operands[0])
        values = library.astype(self.pairs.products(library, x, y), name)
        levels = self.one._levels if self.one.keeps_levels else (self.pairs.one,)
        found = LoD._from_levels(values, (*levels, self.pairs.inner))
        kept = tuple([Ragged._freeze(library.alias(z), s) for z, s in ((x, self.pairs.one), (y, self.pairs.two))])
        return found, lambda dy: self.gradients(kept, dy)

    def gradients(self, operands: Operands, dy: LoD) -> tuple[Encoding, Encoding]:
        """The gradients, made of operations that have gradients themselves."""
        x, y = (_rows(z) for z in operands)
        library, name = (
            library_of(x),
            name_of(self.one) if x.shape[0] == 0 else library_of(x).dtype_name(self.one.dtype),
        )
        slopes = library.astype(dy.data, _kind(name))
        turned, places = self.pairs.swap()
        dx = self.pairs.weigh(library, y, slopes)
        dz = turned.weigh(library, x, library.take(slopes, places, 0))
        return _lay_out(library, dx, name, self.pairs.one, self.one), _lay_out(
            library, dz, name, self.pairs.two, self.two
        )


class _Scores:
    """A call of `maxsim`, checked: the pairs of sequences that are scored."""

    def __init__(self, one: Encoding, two: Encoding, results: Operand | None, scored: Array, chosen: Array) -> None:
        self.one, self.two, self.results = one, two, results
        self.scored, self.chosen = scored, chosen
        self.best: Array | None = None  # of each item of each scored query, the row of the largest product, or -1

    def rule(self, operands: tuple[Encoding, Encoding], back: bool) -> tuple[Any, Pullback | None]:
        """The scores, and the pullback."""
        x, y = (_rows(z) for z in operands)
        library, name = library_of(x), name_of(operands[0])
        queries = Ragged._freeze(library.alias(x), self.one._structure)
        documents = Ragged._freeze(library.alias(y), self.two._structure)
        parts: list[Array] = []
        best: list[Array] = []
        whole = self.results is None  # each query with the document at its place
        counts = self.counts()
        large = is_large(library, x, int(counts.sum()), counts.size)
        if large:
            ones, others = (library.split(z.data, z.lengths, z.offsets) for z in (queries, documents))
        for part in self.parts():
            i, j = self.scored[part], self.chosen[part]
            if large:
                one, two = (Structure.of_lengths(z.lengths[k]) for z, k in ((queries, i), (documents, j)))
                pairs = _Pairs.from_structures(one, two)
                made = library.products([ones[k] for k in i.tolist()], [others[k] for k in j.tolist()])
            else:
                some, among = (z[part] if whole else z._choose(k) for z, k in ((queries, i), (documents, j)))
                pairs = _Pairs.from_structures(some._structure, among._structure)
                made = pairs.by_kernel(library, some.data, among.data)
            products = Ragged._freeze(made, pairs.inner)
            parts.append(reduce_sum(Ragged._freeze(reduce_max(products, empty=-np.inf), pairs.one)))
            if back:
                places = to_host(argmax(products))
                starts = np.repeat(documents.offsets[:-1][j], pairs.one.lengths)
                best.append(np.where(places < 0, -1, places + starts))
        values = library.concatenate(parts) if parts else library.zeros((0,), x.dtype, x)
        self.best = np.concatenate(best) if best else np.zeros(0, np.int64)
        values = library.astype(values, name)
        y_ = values if self.results is None else self.make_result(values, self.results.own)
        return y_, (lambda dy: self.gradients((queries, documents), dy)) if back else None

    def counts(self) -> Array:
        """The products of each pair of sequences."""
        counts: Array = self.one._structure.lengths[self.scored] * self.two._structure.lengths[self.chosen]
        return counts

    def make_result(self, values: Array, own: Encoding) -> Any:
        """The scores as the candidates are."""
        return restore(Ragged._freeze(values, own._structure), own)

    def parts(self) -> list[slice]:
        """Pairs of sequences that are taken at a time."""
        counts = self.counts()
        found, begin, ends = [], 0, np.cumsum(counts)
        while begin < counts.size:
            before = int(ends[begin - 1]) if begin else 0
            end = max(int(np.searchsorted(ends, before + MAX_PRODUCTS_AT_ONCE, side="right")), begin + 1)
            found.append(slice(begin, end))
            begin = end
        return found

    def gradients(self, operands: Operands, dy: LoD | Encoding | Array) -> tuple[Encoding, Encoding]:
        """The gradients, made of operations that have gradients themselves."""
        x, y = (_rows(z) for z in operands)
        library, name = library_of(x), library_of(x).dtype_name(self.one.dtype)
        slopes = library.astype(rows_of(dy) if isinstance(dy, Encoding) else dy, _kind(name))
        one, best = self.one._structure, self.best
        assert best is not None
        lengths = one.lengths[self.scored]
        cum = np.concatenate([[0], np.cumsum(lengths)])
        rows = np.arange(cum[-1]) - np.repeat(cum[:-1] - one.offsets[:-1][self.scored], lengths)
        pair = np.repeat(np.arange(lengths.size), lengths)
        there = best >= 0
        rows, best, pair = rows[there], best[there], pair[there]
        dx = _gather(library, y, rows, best, slopes, pair, one.rows)
        dz = _gather(library, x, best, rows, slopes, pair, self.two._structure.rows)
        return _lay_out(library, dx, name, one, self.one), _lay_out(library, dz, name, self.two._structure, self.two)


def _gather(library: Library, table: Array, to: Array, ids: Array, slopes: Array, pair: Array, rows: int) -> Array:
    """For each row the sum of the rows of a table that go there, times the slopes of their pairs, in any graph."""
    order = np.argsort(to, kind="stable")
    structure = Structure.of_lengths(np.bincount(to, minlength=rows).astype(np.int64))
    weights = Ragged._freeze(library.take(slopes, pair[order], 0), structure)
    made: Any = embedding_bag(table, Ragged._freeze(ids[order], structure), weights)
    found: Array = made
    return found


def _kind(name: str) -> str:
    return "float32" if name in HALF else name


def _rows(z: Encoding) -> Array:
    """The rows of a batch in the dtype in which they are multiplied."""
    rows = rows_of(z)
    library = library_of(rows)
    return library.astype(rows, _kind(library.dtype_name(rows.dtype)))


def _lay_out(library: Library, rows: Array, name: str, structure: Structure, shape: Encoding) -> Any:
    return restore(Ragged._freeze(library.astype(rows, name), structure), shape)
