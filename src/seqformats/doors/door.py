"""Doors, and how they learn; and the doors of operations that run a kernel over sequences."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Hashable, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from .. import registry
from ..arrays import NUMPY, Array, Library, library_of_type
from ..later import loading
from ..launch.kernel import Kernel
from ..native import words
from ..native.code import door_of
from ..native.loading import function_at
from ..native.words import (
    FIRST,
    FORM,
    FORMS,
    KNOWN,
    KNOWN_OF_TENSORS,
    LEARNED,
    MOST_ARRAYS,
    MOST_PLANS,
    NUMBER,
    OF_KERNEL,
    PLAN,
    PLANS,
)

_NONE_ASKED = -1
_ANY_FORM = -1
LIVE, TRIAL = 0, 1
"""The worlds of a door."""


def closed(*args: object) -> None:
    """A door through which nobody can go: the general way does everything."""


class Door:
    """What stands before an operation: ``enter(*args)`` makes what the general way would make, or gives None.

    A door has two worlds, see `native.words`: one in which callers go through, and one for trials, in which all is
    open.  When the general way has made something of a call (`learn`), the door makes the same for trial; only if both
    are equal, bit for bit, calls of that form are let through from then on.

    - Where they differ, the door is closed for good.
    - Where the trial makes nothing, since something was not plain, there are others at the 2nd, 4th, 8th, ... call of
      that form which is not let through: whatever came first keeps nobody away, and nothing is tried for ever.
    - Where one of its kernels is replaced, the door closes and forgets all.  It learns anew with the machine code that
      is there then; where there is none it stays closed.

    It remembers numbers, never an object of a caller's.
    """

    words: ClassVar[int]
    """How many a world has."""
    gate: ClassVar[slice] = slice(KNOWN, KNOWN_OF_TENSORS + 1)
    """The words that are 0 where nobody is let through."""

    def __init__(self, page: str) -> None:
        self.page = page
        """Of `kernels.doors`."""
        self.enter: Callable[..., Any] = closed
        self.trial: Callable[..., Any] = closed
        self.wrong = False
        self.worlds = np.zeros((2, self.words), np.int64)
        self.kernels: dict[int, Kernel] = {}
        """By the words for their functions."""
        self.known: set[Hashable] = set()
        """The forms of calls that are let through."""
        self.refused: dict[Hashable, int] = {}
        """How many calls of others were not."""

    def learn(self, args: tuple[Any, ...], result: Any, plan: Any = None) -> None:
        """Open it for calls like this one, of which the general way has made `result`."""
        if self.wrong or not is_plain(result) or (self.enter is closed and not self._is_put_up(args)):
            return
        form = self.asked(args, plan)
        if form is None or form in self.known or not self.is_due(form):
            return
        with loading:
            if form in self.known or not self.tell(plan):
                return
            made = self.tried(form, *args)
            if any(one is None for one in made):
                return
            if all(same(one, result) for one in made):
                self.known.add(self.open(form))
            else:
                self.wrong = True
                self.close()
                self.enter = closed

    def close(self) -> None:
        """Let nobody through, and forget all."""
        with loading:  # whoever learns meanwhile has done so, and is forgotten too
            self.worlds[LIVE, self.gate] = 0
            self.known.clear()
            self.refused.clear()

    def is_due(self, form: Hashable) -> bool:
        """Is a call that was not let through to be tried?"""
        count = self.refused[form] = self.refused.get(form, 0) + 1
        return count & (count - 1) == 0

    def watch(self, used: Kernel) -> None:
        """Be closed when this kernel is replaced."""
        if self.close not in used.followers:
            used.followers.append(self.close)

    def _is_put_up(self, args: tuple[Any, ...]) -> bool:
        """Is its machine code there?  Then this call, which nobody has seen, stands before it."""
        with loading:
            if self.enter is closed:
                address = door_of(self.page)
                if address is None:
                    self.wrong = True
                    return False
                self.worlds[:, FIRST] = common()
                self.describe(self.worlds)
                enter, self.trial = [function_at(address, self.page, world) for world in self.worlds]
                self.enter = enter
        self.enter(*args)
        return True

    # What doors differ in.

    def describe(self, worlds: np.ndarray) -> None:
        """Write what there is to know of the operation."""
        worlds[LIVE, FORM], worlds[TRIAL, KNOWN : KNOWN_OF_TENSORS + 1] = _NONE_ASKED, _ANY_FORM

    def asked(self, args: tuple[Any, ...], plan: Any) -> Hashable | None:
        """The form of the last call that stood before it; None where that was not plain enough to have one."""
        form = self.worlds.item(LIVE, FORM)
        self.worlds[LIVE, FORM] = _NONE_ASKED
        return None if form == _NONE_ASKED else form

    def address(self, used: Kernel) -> int:
        """Of the function of a kernel; 0 where there is no machine code of it, or nobody has run it yet."""
        return used.by_words.get(None, 0)

    def tell(self, plan: Any) -> bool:
        """Write where the kernels are; are all there?  What may be running meanwhile keeps what it has."""
        found = []
        for word, used in self.kernels.items():
            self.watch(used)
            address = self.address(used)
            self.worlds[TRIAL, word] = address
            self.worlds[LIVE, word] = address or self.worlds[LIVE, word]
            found.append(address)
        return all(found)

    def tried(self, form: Any, *args: Any) -> Sequence[Any]:
        """What it makes of a call, for trial; None among it where it is not plain."""
        return (self.trial(*args),)

    def open(self, form: Hashable) -> Hashable:
        """Let calls like the last one that was tried through; their form."""
        tried = self.worlds.item(TRIAL, FORM)
        self.worlds[LIVE, KNOWN + tried // FORMS] |= 1 << tried % FORMS
        return tried


class Plan(NamedTuple):
    """What `OfKernel` learns of a call: the dtypes that were given, the kernel for them, the dtype of what it made."""

    dtypes: Sequence[np.dtype[Any]]
    kernel: Kernel
    variant: int | None
    made: Any
    others: Sequence[tuple[Kernel, int | None]] = ()  # kernels that the operation needs beside it, two at most

    def addresses(self) -> list[int]:
        """Of the functions of all kernels; 0 of one that nobody has run yet."""
        return [used.by_words.get(variant, 0) for used, variant in ((self.kernel, self.variant), *self.others)]


class OfKernel(Door):
    """The door of an operation that is one kernel, by the word for each thing that it has to know.

    A form is the dtypes of what is given: there is a plan for each in its worlds.
    """

    words = OF_KERNEL
    gate = slice(LEARNED, LEARNED + 1)

    def __init__(self, numbers: Sequence[int], **others: int) -> None:
        super().__init__(self.page)
        self.numbers = numbers
        self.others = others
        self.default: tuple[object, ...] = ()
        """What has to come last, where it is not asked for."""

    def knows(self, *dtypes: Any) -> bool:
        """Is there nothing to learn about these dtypes?"""
        return self.wrong or tuple(map(id, dtypes)) in self.known

    def describe(self, worlds: np.ndarray) -> None:
        """Of the numbers, the default and so on."""
        count = len(self.numbers)
        worlds[:, words.NUMBERS], worlds[:, NUMBER : NUMBER + count] = count, self.numbers
        for name, value in self.others.items():
            worlds[:, getattr(words, name)] = value
        worlds[:, words.DEFAULT] = id(self.default[0]) if self.default else 0
        worlds[:, words.LOD : words.LOD + words.WIDE + 1] = registry.service("words_of_levels")()

    def asked(self, args: tuple[Any, ...], plan: Plan) -> Hashable | None:
        """The dtypes, if they and the kernel may be learned."""
        there = all(plan.addresses()) and all(map(is_the_one, (*plan.dtypes, plan.made)))
        return tuple(map(id, plan.dtypes)) if there else None

    def tell(self, plan: Plan) -> bool:
        """Write the plan behind those that are open."""
        for used in (plan.kernel, *[other for other, _ in plan.others]):
            self.watch(used)
        addresses, count = plan.addresses(), self.worlds.item(LIVE, LEARNED)
        if not all(addresses) or count == MOST_PLANS:
            return False
        given = [*map(id, plan.dtypes), *[0] * (MOST_ARRAYS - len(plan.dtypes))]
        first, *others = [*addresses, 0, 0][:3]
        self.worlds[TRIAL, _place_of(count)] = *given, first, id(plan.made), plan.made.itemsize, *others
        self.worlds[TRIAL, LEARNED] = count + 1
        return True

    def tried(self, form: Any, *args: Any) -> Sequence[Any]:
        """With the default where it belongs."""
        return (self.trial(*args, *self.default),)

    def open(self, form: Hashable) -> Hashable:
        """Its plan is the last one."""
        place, count = _place_of(self.worlds.item(LIVE, LEARNED)), self.worlds[TRIAL, LEARNED]
        self.worlds[LIVE, place] = self.worlds[TRIAL, place]
        self.worlds[LIVE, LEARNED] = count
        return form


def _place_of(number: int) -> slice:
    """Where a plan is in a world."""
    return slice(PLANS + PLAN * number, PLANS + PLAN * (number + 1))


class Weighing(OfKernel):
    """The door of an operation on a batch and a weight for each item: ``enter(x, weights, *options)``."""

    page = "weigh"


class Comparing(OfKernel):
    """The door of an operation that gives a number for each pair of sequences of two batches: ``enter(x, y)``."""

    page = "compare"


class Losing(OfKernel):
    """The door of the loss of scores: ``enter(scores, targets, ignored, what, smoothing)``.

    One that `HOLDS` gives a pair, with what the gradient needs.
    """

    page = "losses"


class Sloping(OfKernel):
    """The door of its gradient: ``enter(scores, dy, held)``."""

    page = "slopes"


class Masking(OfKernel):
    """The door of what hides random items: ``enter(x, special, tokens, numbers)``, arrays as its kernel takes them."""

    page = "mask"


of_tensors: dict[Any, np.dtype[Any] | None] = {}
"""The dtypes of tensors that doors know, and what NumPy has for them; `tensors` writes them."""


def common() -> int:
    """Where the world begins that all doors have in common."""
    return int(registry.service("common_world")().ctypes.data)


def is_plain(result: Any) -> bool:
    """Is this an array that doors know, or a batch over such arrays, or a pair of which the first is?"""
    found = result[0] if isinstance(result, tuple) and result else result
    sample = found._sample() if hasattr(found, "_sample") else found
    if type(sample) is np.ndarray:
        return True
    library = library_of_type(type(sample))
    return library is not None and library.has_doors and registry.service("tensors_are_known")(library)


def is_the_one(dtype: Any) -> bool:
    """Is there one object of this dtype, for ever, and are its bytes all there is to an item?"""
    if not isinstance(dtype, np.dtype):
        return dtype in of_tensors
    if dtype.isbuiltin != 1 or dtype.hasobject or not dtype.itemsize:
        return False
    return bool(np.dtype(dtype.char) is dtype)


def same(x: Any, y: Any) -> bool:
    """Are two results equal in type, dtype, shape and every bit?"""
    if type(x) is not type(y):
        return False
    if x is y:
        return True
    library = library_of_type(type(x))
    if library is NUMPY:
        return x.dtype == y.dtype and x.shape == y.shape and _flags_of(x) == _flags_of(y) and x.tobytes() == y.tobytes()
    if library is not None:
        return _facts_of(library, x) == _facts_of(library, y)
    if isinstance(x, tuple):
        return len(x) == len(y) and all(map(same, x, y))
    kind: Any = type(x)
    parts = _parts_of(kind)
    return all(same(getattr(x, name), getattr(y, name)) for name in parts) if parts else bool(x == y)


def _flags_of(array: np.ndarray) -> tuple[bool, ...]:
    """All but whether it owns its memory, which does not matter."""
    flags = array.flags
    return flags.c_contiguous, flags.aligned, flags.writeable


def _facts_of(library: Library, x: Array) -> tuple[object, ...]:
    """All of a tensor on the host."""
    items = ctypes.string_at(library.address(x), x.nbytes)
    return x.dtype, x.shape, library.device(x), library.contiguous(x), library.wants_grad((x,)), items


_OF_STRUCTURE = ("lengths", "offsets", "n", "rows", "longest", "stable")  # which are known from the beginning


@functools.cache
def _parts_of(kind: Any) -> tuple[str, ...]:
    """What decides about an encoding or a structure."""
    slots = tuple(name for base in kind.__mro__ for name in vars(base).get("__slots__", ()) if name != "__weakref__")
    return _OF_STRUCTURE if "longest" in slots else slots
