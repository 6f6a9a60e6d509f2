"""Call plans: what a call on a GPU comes to, kept with the structure of its batch.

The way of a call to its kernels finds out a lot that is the same each time: dtypes, shapes, layouts, grids, which code,
and all words that kernels take but the addresses of arrays.  A `CallPlan` is that: memory to take, casts, kernels to
start.  The first call with a key notes the key, the second one is watched by a `Recorder`, and later ones follow what
it has seen.  A call with anything that a plan cannot hold, such as an array that neither came in as an argument nor
from `Library.empty` or `zeros`, is never planned.

A plan is followed where nothing but the items differs: the arrays have the same shapes, dtypes, device and alignment,
no transformation of functions and no other mode wants to hear of them, the context of the device is current, and the
stream is not captured.  Else the call goes its whole way.  Registering a kernel makes all plans void (`Kernel.forget`,
`add_kernel`), as it does fast paths on the host.  Copies of structures that kernels read are held by the plan; a stream
that meets them for the first time waits for them as in any call, see `resident`.
"""

from __future__ import annotations

import array
import functools
import threading
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..arrays.library import Array, Library, size_of, watch
from ..memory_checks import NO_ROOM
from .driver import DEFAULT_STREAMS, Code, room
from .kernel import Note, Sequences, epoch, planning
from .parameters import BYTES_PER_WRITE
from .resident import WAITS, Place, Sent

if TYPE_CHECKING:
    from .grids import Triple

_MOST_STREAMS = 16
_ALIGNED = 15  # the bits of an address that decide how kernels read
_APART = 256  # what the begins of arrays in one memory are multiples of, as the driver has it for memory
_EMPTY, _ZEROS, _CAST, _TABLE, _WITHIN = range(5)

Result = Array | tuple[Array, ...]
Step = tuple[Any, Any, Any, Any, Any]
Part = tuple[int, Any, Any]
"""Which array is a part of the result, and its shape and dtype where it is seen in others."""


planning.append(None)
_recording = threading.Lock()  # nobody waits for it


_NEVER = Note()
"""Note for a key that can have no plan."""


class CallPlan:
    """Steps of a call, and which of the arrays of these are its result.

    Arrays are known by their number: first those that come in, then those that steps make, in their order.
    """

    def __init__(self, recorder: Recorder, result: list[Part], single: bool) -> None:
        place: Place = recorder.place
        self.library, self._driver, self._index = recorder.library, place.driver, place.index
        self._given = [(x.shape, x.dtype, bits) for x, bits in zip(recorder.inputs, recorder.bits, strict=True)]
        each = [*dict.fromkeys(result)]
        self._order = None if len(each) == len(result) else [each.index(part) for part in result]
        steps, shown = _made_as_shown(recorder.steps, each, len(recorder.inputs))
        self._steps, self._room, self._result = _in_one(steps, shown, len(recorder.inputs), place)
        self._parts, self._single, self._same = recorder.parts, single, recorder.same
        # devices and streams on which nothing has to be waited for any more, and those of them that nobody captures
        self._lanes: set[tuple[int, int]] = set()
        self._quiet: set[tuple[int, int]] = set()
        self._epoch = epoch[0]
        self._note((place.index, place.stream))

    @property
    def is_void(self) -> bool:
        """Tell whether a kernel has been registered since, or it was of arrays that are one no more."""
        return self._epoch != epoch[0]

    def follow(self, inputs: tuple[Array, ...]) -> Any:
        """The result; None where the call has to go its whole way."""
        library, driver, like = self.library, self._driver, inputs[0]
        _, stream = lane = library.lane(like)
        if self._epoch != epoch[0]:
            return None
        if driver is not None and (driver.current() != self._index or driver.capturing(stream)):
            return None
        addresses = []
        for x, (shape, dtype, bits) in zip(inputs, self._given, strict=True):
            address = library.ready(x, shape, dtype)
            if not address or address & _ALIGNED != bits or library.index(x) != self._index:
                return None
            addresses.append(address)
        for one, other in self._same:
            if addresses[one] != addresses[other]:
                self._epoch = -1  # the next one is of arrays apart, which serves both
                return None
        if lane not in self._lanes and not self._meet(like, lane):
            return None
        arrays, base = [*inputs], 0
        if self._room:
            try:
                memory, base = library.memory(like, self._room)
            except NO_ROOM:
                return None
        for what, one, two, three, places in self._steps:
            if places is not None:
                words = three.copy()
                for place, number, offset in places:
                    words[place] = addresses[number] + offset
                what.start(one, two, stream, words)
                continue
            if what == _WITHIN:
                address = base + one
                if two is not None:
                    self._begin(two, addresses, address, stream)
                arrays.append(like)  # nobody asks for it
                addresses.append(address)
                continue
            try:
                x = _make_array(library, what, arrays, one, two, like)
            except NO_ROOM:
                return None
            address = library.address(x)
            if address & _ALIGNED != three:
                return None
            if two is not None and what == _EMPTY:
                self._begin(two, addresses, address, stream)
            arrays.append(x)
            addresses.append(address)
        made = [
            _view(arrays[number], shape, dtype) if number >= 0 else shape(memory)
            for number, shape, dtype in self._result
        ]
        if self._single:
            return made[0]
        return tuple(made if self._order is None else [made[k] for k in self._order])

    def _begin(self, what: Any, addresses: list[int], address: int, stream: int) -> None:
        """Let memory begin as it has to: so many bytes zero, or with the words of a table."""
        driver: Any = self._driver
        if type(what) is _Table:
            what.write(addresses, address, stream)
        else:
            driver.check(driver.MemsetD8Async(address, 0, what, stream), "zeros on the device")

    def follow_one(self, x: Array) -> Any:
        """`follow` where one array comes in."""
        return self.follow((x,))

    def _meet(self, like: Array, lane: tuple[int, int]) -> bool:
        """Let a stream meet what is kept on the device; False for one to whom the plan does not apply."""
        place = Place(self._driver, self.library, like, self._index)
        if self.library.stream_bound:  # what kernels read is of the stream that the plan was made on
            return False
        for part in self._parts:
            part.meet(place)
        self._note(lane)
        return True

    def _note(self, lane: tuple[int, int]) -> None:
        """Remember a stream on which nothing has to be waited for any more."""
        if all(part.is_met(lane[1]) for part in self._parts):
            if len(self._lanes) >= _MOST_STREAMS:
                self._lanes.clear()
            self._lanes.add(lane)
            if lane[1] in DEFAULT_STREAMS:
                self._quiet.add(lane)


class OneKernel(CallPlan):
    """The usual plan: one array comes in, and one kernel makes another of it."""

    def __init__(self, recorder: Recorder, result: list[Part], single: bool) -> None:
        super().__init__(recorder, result, single)
        ((self._shape, self._dtype, self._bits),) = self._given
        (_, self._make, _, self._bits_out, _), (code, grid, block, self._words, places) = self._steps
        (self._read, *read), (self._written, *written) = [[place for place, k, _ in places if k == n] for n in range(2)]
        self._others = [(place, n) for n, more in enumerate((read, written)) for place in more]
        self._current = recorder.place.driver.current
        self._lane, self._ready, self._address = (
            recorder.library.lane,
            recorder.library.ready,
            recorder.library.address,
        )
        self._pack, self._launch = code.pack, code.prepare_launch(grid, block)
        self._error = functools.partial(code.error, grid=grid, block=block)

    @staticmethod
    def suits(recorder: Recorder, result: list[Part], single: bool) -> bool:
        """Tell whether a call is one."""
        steps = recorder.steps
        if not single or result[0][0] != 1 or len(recorder.inputs) != 1 or len(steps) != 2:
            return False
        if steps[0][0] != _EMPTY or type(steps[1][0]) is not Code:  # as in the simulator
            return False
        return {(number, offset) for _, number, offset in steps[1][4]} == {(0, 0), (1, 0)}

    def follow_one(self, x: Array) -> Any:
        """See `CallPlan`; where anything is unusual, that does it."""
        lane = self._lane(x)
        address = self._ready(x, self._shape, self._dtype)
        if (
            address & _ALIGNED != self._bits
            or lane not in self._quiet
            or self._current() != self._index
            or self._epoch != epoch[0]
            or not address
        ):
            return self.follow((x,))
        try:
            out = self._make(x)
        except NO_ROOM:
            return None
        words = self._words.copy()
        words[self._read] = address
        words[self._written] = made = self._address(out)
        if self._others:
            for place, number in self._others:
                words[place] = made if number else address
        if made & _ALIGNED != self._bits_out:
            return None
        self._pack(room.words, 0, *words)
        result = self._launch(lane[1], room.parameters, None)
        if result:
            raise self._error(result)
        return out


def _made_as_shown(steps: list[Step], result: list[Part], inputs: int) -> tuple[list[Step], list[Part]]:
    """The steps of a plan, which take memory in the shape and dtype in which the result shows it.

    Kernels read and write by addresses alone, so an array has any shape for them, but where it is cast.
    """
    steps, result = [*steps], [*result]
    numbers = [k for k, step in enumerate(steps) if step[4] is None]
    cast = {step[1] for step in steps if step[0] == _CAST and step[4] is None}
    shown = [number for number, _, _ in result]
    for k, (number, shape, dtype) in enumerate(result):
        if number < inputs or number in cast or shown.count(number) > 1:
            continue
        place = numbers[number - inputs]
        what, one, two, bits, _ = steps[place]
        if what != _CAST:
            steps[place] = what, one if shape is None else shape, two if dtype is None else dtype, bits, None
            result[k] = number, None, None
    return steps, result


def _in_one(steps: list[Step], result: list[Part], inputs: int, place: Place) -> tuple[list[Step], int, list[Part]]:
    """The steps with one memory for all arrays that are made, how large it is, and the result.

    That is where a library wants it, see `Library.most_in_one`; elsewhere each has its own, and the size is 0.  Of a
    part of the result there is a function that makes it of the memory.
    """
    library, clears = place.library, place.driver is not None
    made = {k: n for n, k in enumerate([k for k, step in enumerate(steps) if step[4] is None], inputs)}
    plain = clears and library.most_in_one and all(steps[k][0] != _CAST and not steps[k][3] for k in made)
    whole = all(shape is None and dtype is None for _, shape, dtype in result)
    sizes = {k: _size(steps[k], library) for k in made} if plain and whole else {}
    shown = {number for number, _, _ in result}
    within, room = {}, 0
    for k in sorted((k for k in sizes if sizes[k]), key=lambda k: made[k] not in shown):  # what is seen lies first
        within[k] = room
        room += -(-sizes[k] // _APART) * _APART
    if len(within) < 2 or room > library.most_in_one:
        within, room = {}, 0
    result = [*result]
    for k, number in made.items():
        what, one, two, bits, _ = steps[k]
        dtype, begin = two if what == _TABLE else (two, _size(steps[k], library) if what == _ZEROS and clears else None)
        if k in within:
            for part, (of, _, _) in enumerate(result):
                if of == number:
                    result[part] = -1, library.viewer(within[k], one, dtype), None
            steps[k] = _WITHIN, within[k], begin, 0, None
        elif what in (_EMPTY, _TABLE) or begin:
            steps[k] = _EMPTY, library.maker(one, dtype), begin, bits, None
    return steps, room, result


def _size(step: Step, library: Library) -> int:
    """The bytes of an array that is made."""
    what, shape, two, _, _ = step
    return size_of(shape) * library.itemsize(two[0] if what == _TABLE else two)


class _Table:
    """Words of the host that a kernel reads, written in each call: among them are addresses of its arrays.

    `places` are those of the addresses, each with the number of the array and how far behind its begin that is.
    """

    __slots__ = ("_code", "_places", "_words")

    def __init__(self, code: Code, words: list[int], places: list[tuple[int, int, int]]) -> None:
        self._code, self._words, self._places = code, words, places

    def write(self, addresses: list[int], begin: int, stream: int) -> None:
        """Start the kernel that writes them to memory that begins there."""
        words = array.array("q", self._words)
        for place, number, offset in self._places:
            words[place] = addresses[number] + offset
        self._code.start_with(len(words), stream, begin, words.tobytes())


def _make_array(library: Library, what: int, arrays: list[Array], one: Any, dtype: Any, like: Array) -> Array:
    """Memory, or another array in another dtype."""
    if what == _EMPTY:
        made: Array = one(like)
        return made
    return library.astype(arrays[one], dtype) if what == _CAST else library.zeros(one, dtype, like)


def _view(x: Array, shape: Any, dtype: Any) -> Array:
    """An array in another shape and dtype over the same memory, where these are given."""
    if dtype is not None:
        x = x.view(dtype)
    return x if shape is None else x.reshape(shape)


class Recorder:
    """Notes what a call takes and starts on the device, until something comes that a plan cannot hold."""

    def __init__(self, library: Library, inputs: Sequence[Array]) -> None:
        self.library, self.inputs = library, inputs
        self.place: Any = None
        self.steps: list[Step] = []
        self.parts: list[Sent] = []
        self.never = self.not_now = False
        self._arrays: list[Array] = []  # all, so that memory which is given back does not come again
        self._ranges: list[tuple[int, int]] = []
        self._written: list[tuple[Array, Array, Code]] = []  # memory, the words of the host in it, and what wrote them
        self.bits = [self._add(x) for x in inputs]
        self.same = self._find_same()

    def _find_same(self) -> list[tuple[int, int]]:
        """Pairs of inputs that are the same memory, of which nobody can tell which one a kernel was given."""
        same = []
        for k, (begin, end) in enumerate(self._ranges):
            for j, (first, last) in enumerate(self._ranges[:k]):
                if (begin, end) == (first, last):
                    same.append((j, k))
                elif begin < last and first < end:
                    self.not_now = True
        return same

    def _add(self, x: Array) -> int:
        begin = self.library.address(x)
        self._arrays.append(x)
        self._ranges.append((begin, begin + size_of(x.shape) * self.library.itemsize(x.dtype)))
        return begin & _ALIGNED

    def _find(self, address: int) -> tuple[int, int]:
        """The number of the array in whose memory an address is, and where in it; -1 where it is in none."""
        for number in reversed(range(len(self._ranges))):
            begin, end = self._ranges[number]
            if begin <= address < end:
                return number, address - begin
        return -1, 0

    def took(self, x: Array, zeros: bool) -> None:
        """Note new memory."""
        self.steps.append((_ZEROS if zeros else _EMPTY, x.shape, x.dtype, self._add(x), None))

    def cast(self, x: Array, made: Array) -> None:
        """Note an array in another dtype."""
        number, offset = self._find(self.library.address(x))
        like = self._arrays[number]
        if number < 0 or offset or like.shape != x.shape or like.dtype != x.dtype:
            self.never = True
        else:
            self.steps.append((_CAST, number, made.dtype, self._add(made), None))

    def record_start(self, place: Place, code: Any, launched: tuple[Triple, Triple, list[int]], call: Any) -> None:
        """Note the start of a kernel; `call` has what its words are of, see `cuda._Call`."""
        grid, block, words = launched
        if place.captured:
            self.not_now = True
        self.never |= self.place is not None and self.place.index != place.index
        self.place = place
        places, kept = [], call.parts
        if call.table is not None:
            begin, end, kept = self._add_table(call)
            number = len(self._arrays) - 1
            places = [(position, number, word - begin) for position, word in enumerate(words) if begin <= word < end]
        for position, x in call.arrays:
            if size_of(x.shape):
                number, offset = self._find(self.library.address(x))
                self.never |= number < 0
                places.append((position, number, offset))
        self.parts += [part for part in kept if part not in self.parts]
        self.steps.append((code, grid, block, [*words], places))

    def wrote(self, packed: Array, code: Code, buffer: Array) -> None:
        """Note memory to which a kernel has written words of the host."""
        self._written.append((buffer, packed, code))

    def _add_table(self, call: Any) -> tuple[int, int, list[Sent]]:
        """Note the words of the host that were written for a call, some of which are addresses.

        Where they begin and end, and what else the kernel reads.
        """
        first, kept = call.begin_of_table(), call.parts
        for buffer, packed, code in self._written:
            begin = self.library.address(buffer)
            if begin <= first < begin + packed.size <= begin + BYTES_PER_WRITE:
                words = packed.view(np.int64).tolist()
                places = [(k, *self._find(word)) for k, word in enumerate(words)]
                places = [place for place in places if place[1] >= 0]
                found = {place for place, _, _ in places}
                table = range((first - begin) // 8, (first - begin) // 8 + call.table.size)
                self.never |= any(words[k] and k not in found for k in table)
                made = buffer.dtype, _Table(code, words, places)
                self.steps.append((_TABLE, buffer.shape, made, self._add(buffer), None))
                return begin, begin + packed.size, [part for part in kept if part.buffer is not buffer]
        self.not_now = True
        return 0, 0, kept

    def plan(self, made: Any) -> CallPlan | None:
        """The plan of the call that has made this; None where there can be none."""
        single = type(made) is not tuple
        result = [self._part(x) for x in ((made,) if single else made)]
        found = [part for part in result if part is not None]
        if self.never or self.place is None or len(found) < len(result):
            return None
        return (OneKernel if OneKernel.suits(self, found, single) else CallPlan)(self, found, single)

    def _part(self, x: Array) -> Part | None:
        """Find a part of the result."""
        for number, y in enumerate(self._arrays):
            if x is y:
                return number, None, None
        number, offset = self._find(self.library.address(x))
        if number < 0 or offset or self._ranges[number][1] - self._ranges[number][0] != self._bytes(x):
            return None
        y = self._arrays[number]
        return number, (None if x.shape == y.shape else x.shape), (None if x.dtype == y.dtype else x.dtype)

    def _bytes(self, x: Array) -> int:
        return size_of(x.shape) * self.library.itemsize(x.dtype)


def run_planned(
    library: Library,
    structure: Sequences,
    key: Hashable,
    inputs: Sequence[Array],
    run: Callable[..., Any],
    args: tuple[Any, ...],
) -> Any:
    """``run(*args)`` for a key that has been seen; where it has no plan, one is made."""
    calls = structure.calls
    seen = calls.get(key)
    if WAITS or seen is _NEVER or (isinstance(seen, CallPlan) and not seen.is_void):
        return run(*args)
    if not _recording.acquire(blocking=False):
        return run(*args)
    try:
        watch.recorder = recorder = Recorder(library, inputs)
        planning.clear()  # so that no other plan is followed within
        made = run(*args)
    finally:
        watch.recorder = None
        planning.append(None)
        _recording.release()
    if not recorder.not_now:
        calls[key] = recorder.plan(made) or _NEVER
    return made
