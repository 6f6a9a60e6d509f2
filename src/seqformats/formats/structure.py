"""The structure of a batch: how many sequences, how long, in what order.  It lives on the host, in int64.

One `Structure` is shared by all encodings that come from one another, so lengths are checked once, sorted once, and
uploaded to a device once.
"""

import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from .. import registry
from ..arrays import Array, freeze, is_array, to_host
from ..errors import KIND, LENGTHS, MEMORY, OVERFLOW, ROWS, SHAPE, WHOLE, quote
from ..launch.kernel import kernel
from ..layout import Layout
from ..memory_checks import NO_ROOM

T = TypeVar("T")

INT64 = np.dtype(np.int64)
MAX_INT64 = 2**63 - 1

check_lengths = kernel("check_lengths")
check_offsets = kernel("check_offsets")
check_order = kernel("check_order")
sort_lengths = kernel("sort_lengths")


def same_numbers(a: Array, b: Array) -> bool:
    """Compare two int64 arrays with one axis.  Comparing bytes takes a fraction of `np.array_equal`."""
    return bool(a.tobytes() == b.tobytes())


def integers(values: object, what: str) -> Array:
    """Copy integers into a new int64 array with one axis, which is still writable.

    TypeError for floats, bools and anything that is no sequence; StructureError for numbers too large for int64 and for
    several axes.  An empty list is allowed.
    """
    if type(values) is np.ndarray and values.dtype is INT64:
        array = values.copy()
    elif is_array(values):
        array = to_host(values)
        if array.dtype.kind not in "iu" and array.size:
            raise WHOLE(f"{what} must be integers, not {array.dtype}")
        if array.dtype.kind == "u" and array.size and array.max() > MAX_INT64:
            raise OVERFLOW(f"{what} must fit int64, but one of them is {array.max()}")
        array = array.astype(np.int64) if array.size else np.zeros(array.shape, np.int64)
    elif isinstance(values, Sequence) and not isinstance(values, (str, bytes)):
        if set(map(type, values)) - {int}:
            values = [_integer(value, what) for value in values]
        try:
            array = np.array(values, np.int64)
        except OverflowError:
            raise OVERFLOW(f"{what} must fit int64, but one of them is {quote(max(values, key=abs))}") from None
    else:
        raise WHOLE(f"{what} must be a sequence of integers, not {type(values).__name__}")
    if array.ndim != 1:
        raise SHAPE(f"{what} must have one axis, but have shape {array.shape}")
    return array


def _integer(value: object, what: str) -> int:
    try:
        return whole(value, what)
    except TypeError:
        raise WHOLE(f"{what} must be integers, but one of them is {quote(value)}") from None


def whole(value: object, what: str) -> int:
    """Return an integer of any library as an int; TypeError for floats, bools and everything else."""
    if type(value) is int:
        return value
    try:
        if not isinstance(value, (bool, np.bool_)):
            return operator.index(value)  # type: ignore[arg-type]  # asked, not known
    except TypeError:
        pass
    raise WHOLE(f"{what} must be an integer, not {quote(value)}")


def flag(value: object, what: str) -> bool:
    """True or False; TypeError for others, arrays among them, whose truth nobody knows."""
    if not isinstance(value, (bool, np.bool_)):
        raise KIND(f"{what} must be True or False, not {quote(value)}")
    return bool(value)


def with_views(*names: str) -> Callable[[type[T]], type[T]]:
    """Make properties of these fields that return new views; `_name` is the field itself, one array or several.

    A caller can set dtype, shape and strides even of a read-only array.  So a caller never gets the array that kernels
    read.  A view by ``.T`` takes half the time of a property written in Python.
    """

    def change(kind: type[T]) -> type[T]:
        for name in names:
            field = vars(kind)[name]
            read: Callable[[Any], Any] = _views_of_levels if name == "lod" else operator.attrgetter(f"_{name}.T")
            setattr(kind, f"_{name}", field)
            setattr(kind, name, property(read, field.__set__))  # which only the constructor asks for
        return kind

    return change


def _views_of_levels(x: Any) -> tuple[Array, ...]:
    return tuple([offsets.T for offsets in x._lod])


class Order(NamedTuple):
    """The sequences in the order of falling lengths."""

    lengths: Array  # (n,) falling
    indices: Array  # (n,) the caller's position of each
    size_at_t: Array  # (t,) how many are longer than t
    steps: Array  # (t + 1,) the rows before step t, without padding


class Structure:
    """The lengths of n sequences and what is calculated from them; read-only."""

    __slots__ = (
        "__weakref__",
        "begins",
        "by_steps",
        "calls",
        "columns",
        "device",
        "flat",
        "lengths",
        "longest",
        "n",
        "offsets",
        "order",
        "packed",
        "pieces",
        "room",
        "rows",
        "stable",
        "steps",
        "tensor",
    )

    late = False  # True while lengths and offsets are on a device alone, see `LateStructure`

    lengths: Array  # (n,) in the caller's order
    offsets: Array  # (n + 1,)
    n: int
    rows: int
    longest: int
    stable: bool  # whether sequences of one length keep their order in `order`; some time-major batches differ
    # All below are made when first asked for:
    begins: tuple[Array, ...]  # where each sequence begins, if they lie neither one after the other nor in rooms
    flat: Layout  # sequences one after the other
    device: dict[Any, Any]  # copies of the arrays on other devices
    calls: dict[Any, Any]  # plans of calls on a GPU, see `launch.plans`
    room: tuple[int, str, Layout] | None  # the layout in rooms that was last asked for, with width and side
    order: Order  # by falling length, stable
    pieces: "Pieces"  # what long sequences are cut into on a GPU
    packed: Layout  # step after step, without padding
    by_steps: Layout  # time-major, a column per sequence
    steps: tuple[Layout, Layout, Array]  # time steps as sequences, in `packed` and in `by_steps`; how long each is
    columns: Array  # (n,) the place of sequence i in `order`
    tensor: Any  # the lengths as a tensor, for graphs of PyTorch

    def __init__(self, lengths: Array, offsets: Array, longest: int) -> None:
        if lengths.base is None or lengths.flags.writeable:  # else it is a view of something frozen; see `freeze`
            lengths.setflags(False)
            lengths = lengths[:]
        if offsets.base is None or offsets.flags.writeable:
            offsets.setflags(False)
            offsets = offsets[:]
        self.lengths = lengths
        self.offsets = offsets
        self.n = lengths.size
        self.rows = offsets.item(-1)
        self.longest = int(longest)  # an interpreted kernel returns a NumPy integer
        self.stable = True

    @classmethod
    def of_lengths(cls, lengths: Array, rows: int | None = None, what: str = "lengths") -> "Structure":
        """Make a structure of int64 lengths; check that none is negative, and that they add up to `rows` if given."""
        offsets = np.empty(lengths.size + 1, INT64)
        limit = MAX_INT64 if rows is None else rows
        longest = check_lengths.run(lengths, offsets, limit)
        if longest < 0:
            negative = np.flatnonzero(lengths < 0)
            if negative.size:
                i = int(negative[0])
                raise LENGTHS(f"{what} must not be negative, but {what}[{i}] is {lengths[i]}")
            if rows is None:
                i = -1 - longest
                raise OVERFLOW(f"{what} add up to more than int64 can count, at {what}[{i}] = {lengths[i]}")
        if rows is not None and (longest < 0 or offsets[-1] != rows):
            total = sum(lengths.tolist())
            hint = ""
            if lengths.size > 1 and lengths[0] == 0 and lengths[-1] == rows and (lengths[1:] >= lengths[:-1]).all():
                hint = "; offsets, which begin with 0 and end with the rows, are for Ragged.from_offsets(data, offsets)"
            raise ROWS(f"{what} add up to {total}, but data has {rows} rows{hint}")
        return cls(lengths, offsets, longest)

    @classmethod
    def of_offsets(cls, offsets: Array, what: str = "offsets") -> "Structure":
        """Make a structure of int64 offsets; check that they begin with 0 and never fall."""
        if offsets.size == 0:
            raise LENGTHS(f"{what} must begin with 0; no sequence at all is [0]")
        lengths = np.empty(offsets.size - 1, INT64)
        longest = check_offsets.run(offsets, lengths)
        if longest == -1:
            raise LENGTHS(f"{what} must begin with 0, but {what}[0] is {offsets[0]}")
        if longest < 0:
            i = -1 - longest
            raise LENGTHS(
                f"{what} must never fall, but {what}[{i}] is {offsets[i]} after {offsets[i - 1]}; "
                "relative offsets are the cumulated lengths, beginning with 0"
            )
        return cls(lengths, offsets, longest)

    @classmethod
    def of_order(cls, sorted_lengths: Array, indices: Array, size_at_t: Array) -> "Structure":
        """Make a structure of the fields of a time-major batch; check that these fit each other."""
        n = sorted_lengths.size
        if indices.size != n:
            raise LENGTHS(f"indices must be as many as lengths, but there are {indices.size} and {n}")
        lengths = np.full(n, -1, np.int64)
        steps = np.empty(size_at_t.size + 1, np.int64)
        fault = check_order.run(sorted_lengths, indices, size_at_t, lengths, steps)
        if fault:
            place, kind = divmod(int(fault), 4)
            raise LENGTHS(_fault(place, kind, sorted_lengths, indices, size_at_t))
        structure = cls.of_lengths(lengths)
        structure.order = Order(freeze(sorted_lengths), freeze(indices), freeze(size_at_t), freeze(steps))
        ties = sorted_lengths[1:] == sorted_lengths[:-1]
        structure.stable = not (ties & (indices[1:] < indices[:-1])).any()
        return structure

    def in_order(self) -> "Structure":
        """Return a structure whose order is stable, for an encoding that has no order of its own."""
        return self if self.stable else Structure(self.lengths, self.offsets, self.longest)

    def __getattr__(self, name: str) -> Any:
        """Make an attribute when it is first asked for.

        Python calls this only while the slot is empty.  So the order costs nothing if nobody needs it, and afterwards
        it is read like any attribute.
        """
        if name == "flat":
            offsets = self.offsets
            self.flat = Layout(offsets, offsets, offsets, -1, 0, 1, 0)
            return self.flat
        if name == "device" or name == "calls":
            made: dict[Any, Any] = {}
            setattr(self, name, made)
            return made
        if name == "room":
            self.room = None
            return None
        if name == "begins":
            self.begins = ()
            return ()
        if name == "tensor":
            self.tensor = registry.service("lengths_tensor")(self)
            return self.tensor
        if name == "packed" or name == "by_steps":
            order, step = self.order, self.n if name == "by_steps" else 0
            at = Layout(order.indices, self.offsets, order.steps, -1, 0, step, 0)
            setattr(self, name, at)
            return at
        if name == "steps":
            order = self.order
            cum = order.steps[: self.longest + 1]
            packed, by_steps = (Layout(cum, cum, cum, stride, 0, 1, 0) for stride in (-1, self.n))
            self.steps = packed, by_steps, order.size_at_t[: self.longest]
            return self.steps
        if name == "pieces":
            self.pieces = Pieces(self)
            return self.pieces
        if name not in ("order", "columns"):
            raise AttributeError(f"a Structure has no {name}")
        if name == "columns":
            columns = np.empty(self.n, INT64)
            columns[self.order.indices] = np.arange(self.n)
            self.columns = freeze(columns)
            return self.columns
        lengths, longest, n = self.lengths, self.longest, self.n
        try:
            block = np.empty(2 * n + 2 * longest + 1, INT64)
        except NO_ROOM:
            raise MEMORY(f"a sequence of {longest} items has too many time steps for any memory") from None
        sort_lengths.run(lengths, longest, block)
        freeze(block)  # and so what is cut from it
        steps = 2 * n + longest
        self.order = Order(block[:n], block[n : 2 * n], block[2 * n : steps], block[steps:])
        return self.order

    def in_rooms(self, width: int, side: str) -> Layout:
        """Return the layout with each sequence in a room of this width, its padding on this side."""
        room = self.room
        if room is not None and room[0] == width and room[1] == side:
            return room[2]
        cum = self.flat.cum
        at = Layout(cum, cum, cum, width, 1 if side == "left" else 0, 1, 0)
        self.room = width, side, at
        return at

    def known_order(self) -> Order | None:
        """Return the order if it has been made, else None."""
        try:
            order: Order = object.__getattribute__(self, "order")
        except AttributeError:
            return None
        return order

    def cached_arrays(self) -> list[Array]:
        """Return the arrays that kernels read, without those that have not been made yet."""
        order, own = self.known_order(), [self.flat.cum, *self.begins]
        return own if order is None else [*own, order.indices, order.steps]

    def same_lengths(self, other: "Structure") -> bool:
        """Tell whether both have the same lengths."""
        return self is other or (self.n == other.n and same_numbers(self.lengths, other.lengths))


class Pieces:
    """The pieces of sequences, as sequences themselves: of 1,024 rows each, the last of a sequence of what is left."""

    __slots__ = ("_groups", "_room", "each", "whole")

    ROWS = 1 << 10
    GROUP = 1 << 5
    LONG = 1 << 13
    """A sequence of more rows than this is cut into pieces, so that several blocks of a GPU share its work."""

    whole: Structure  # the sequences, whose rows are pieces
    each: Structure  # the pieces, whose rows are those of the sequences

    def __init__(self, structure: Structure, size: int = 0) -> None:
        size = size or self.ROWS
        there = structure.lengths > 0
        self.whole = Structure.of_lengths(-(-structure.lengths // size))
        rows = np.full(self.whole.rows, size, INT64)
        rows[self.whole.offsets[1:][there] - 1] = (structure.lengths[there] - 1) % size + 1
        self.each = Structure.of_lengths(rows)
        self._groups: Pieces | None = None
        self._room: tuple[int, int, Layout] | None = None

    @property
    def groups(self) -> "Pieces":
        """Return pieces that have 32 of these pieces each."""
        if self._groups is None:
            self._groups = Pieces(self.whole, self.GROUP)
        return self._groups

    def find_layout(self, at: Layout) -> Layout:
        """Return the layout of the pieces for sequences in layout `at`: one after the other, or in rooms."""
        if at.stride < 0:
            return self.each.flat
        room = self._room
        if room is None or room[:2] != (at.stride, at.left):
            n, cum = self.whole.n, self.each.offsets
            before = at.cum[:-1]
            begin = np.arange(n) * at.stride + at.left * (at.stride - np.diff(at.cum))
            starts = freeze(np.repeat(begin - before, self.whole.lengths) + cum[:-1])
            self.each.begins = (starts,)
            room = self._room = at.stride, at.left, Layout(starts, cum, cum, -1, 0, 1, 0)
        return room[2]


def same_levels(a: Sequence[Structure], b: Sequence[Structure]) -> bool:
    """Tell whether both have the same lengths, level by level."""
    return len(a) == len(b) and all(s.same_lengths(t) for s, t in zip(a, b, strict=True))


def _fault(place: int, kind: int, lengths: Array, indices: Array, size_at_t: Array) -> str:
    if kind == 1:
        length = lengths[place]
        if length < 0:
            return f"lengths must not be negative, but lengths[{place}] is {length}"
        if place and length > lengths[place - 1]:
            return f"lengths must fall, but lengths[{place}] is {length} after {lengths[place - 1]}"
        return f"lengths[{place}] is {length}, but there are only {size_at_t.size} steps"
    if kind == 2:
        return (
            f"indices must hold every position from 0 to {lengths.size - 1} once, "
            f"but indices[{place}] is {indices[place]}"
        )
    longer = int((lengths > place).sum())
    return (
        f"size_at_t[{place}] must count the sequences longer than {place}, which are {longer}, not {size_at_t[place]}"
    )
