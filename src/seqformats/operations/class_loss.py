"""A loss of classes: its values, its gradient, and the doors before both."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..arrays import NUMPY, Array, Library, frozen, library_of, to_host
from ..arrays.dtypes import HALF, differentiable, in_floats
from ..converters.convert import convert, relaid, restored, rows_of, without_padding
from ..doors.door import Losing, Plan, Sloping
from ..errors import INDEX, SHAPE
from ..formats import Encoding, Ragged
from ..formats.leaves import calculated, without_data
from ..formats.structure import Structure
from ..gradients.operation import Back, Call, Pullback
from ..launch.kernel import Work, kernel, variant_of
from .options import label, share
from .over import in_one_array, layout_for, rows_like, scratch
from .reduction import over_levels, rows_or_data
from .spread import spread, summed, sums_of

check_targets = kernel("check_targets")
class_losses, class_losses_back = kernel("class_losses"), kernel("class_losses_back")

ONE, SEQUENCE, ITEM = 0, 1, 2
"""What has a loss, as the kernels number it."""
UNSMOOTHED = 0.0
"""This very object says that nothing was asked for."""
LOSING, HOLDING = Losing(()), Losing((), HOLDS=1)
"""The doors of a loss, and of one that is to have a gradient."""
LOSING.default = HOLDING.default = (UNSMOOTHED,)
_SLOPING = Sloping(())


class ClassLoss(NamedTuple):
    """A loss whose targets are checked."""

    shape: Encoding  # of the scores, without data
    at: Encoding  # the same in one array
    library: Library
    name: str  # the dtype of the scores, and that of the kernels
    kind: str
    on: Library  # in whose arrays kernels write: NumPy's on the host, the quickest to make
    each: int  # ONE, SEQUENCE or ITEM
    targets: Array  # int64, laid out as `at`
    scale: Array  # (n,) what the loss of an item is multiplied by, of each sequence
    factors: Array  # see the kernel
    ignored: tuple[int, int]

    def losses(self, x: Encoding, room: Array | None = None) -> tuple[Encoding, Encoding, Array]:
        """The scores in one array, the losses of their items, and what the gradient needs; there may be room for it."""
        z, at, made = in_one_array(x), self.at, self.on.dtype(self.kind)
        out = rows_like(self.on, at, (), made, z.data)
        kept = rows_like(self.on, at, (2,), made, z.data) if room is None else room
        structure = at._structure
        if structure.rows:
            inputs = (self.cast(z.data), self.targets, self.scale, self.factors)
            args, width = (at._layout(), *self.ignored), int(z.item_shape[0])
            class_losses.start(self.library, inputs, (out, kept), args, width, structure, self.work())
        return z, at._with_data(out), kept

    def cast(self, x: Array) -> Array:
        """In the dtype of the kernels."""
        return self.library.astype(x, self.kind)

    def given(self, x: Array) -> Array:
        """What kernels have written as an array of the caller's library, in the dtype of the scores if that is half."""
        y = x if self.on is self.library else self.library.taken(x, NUMPY)
        return self.library.astype(y, self.name) if self.name in HALF else y

    def work(self) -> Work | None:
        """On a GPU an item is a unit."""
        rows = self.at._structure.rows
        return None if self.on is NUMPY else Work(rows, rows)

    def reduced(self, losses: Encoding) -> Any:
        """The result, of the losses of items."""
        if self.each == ITEM:
            return self.shape._with_data(self.given(losses.data))
        y = summed(losses)
        if self.each == SEQUENCE:
            return over_levels(self.given(y), self.shape)
        return self.given(self.total(y))

    def total(self, sums: Array) -> Array:
        """The sum of those of all sequences, an array without an axis."""
        reshaped: Array = summed(Ragged._sealed(sums, _one_sequence(self.at._structure.n))).reshape(())
        return reshaped

    def with_pullback(self, x: Encoding, learn: Callable[..., None]) -> tuple[Any, Pullback]:
        """The result and its pullback; `learn` is called with the result, and with what a door holds of it."""
        differentiable(self.name, "a cross entropy")
        if self.is_plain():
            held = self.held()
            z, losses, _ = self.losses(x, _parts(held, self.at, self.kind)[1])
            y = self.reduced(losses)
            learn(y, held)
            return y, _held_back(z._with_data(self.library.alias(z.data)), held)
        z, losses, kept = self.losses(x)
        scores = self.library.alias(z.data)
        return self.reduced(losses), lambda dy: self.slopes_of(scores, kept, self.arrays_of(dy))

    def is_plain(self) -> bool:
        """Is it one for doors, as to the scores?  One with levels is not, but held alike."""
        return self.library.has_doors and self.on is NUMPY and self.kind == self.name and self.shape._flat

    def held(self) -> Array:
        """What the gradient needs beside the scores, as the door has it, but for what a kernel keeps."""
        held = np.zeros(3 * self.at._structure.rows + self.at._structure.n + 6, np.int64)
        targets, _, *others = _parts(held, self.at, self.kind)
        targets[...] = self.library.native(self.targets)
        for to, part in zip(others, (self.scale, self.factors, (self.each, *self.ignored)), strict=True):
            to[...] = part
        return held

    def pulled(self, x: Encoding, held: Array, dy: Any) -> Any:
        """The gradient of scores, by what has been held."""
        dx = self.slopes_of(x.data, _parts(held, x, self.kind)[1], self.arrays_of(dy))
        dtype, name = x._dtype, self.name
        if not _SLOPING.knows(dtype):
            variant = variant_of(name, "int64", *[name] * 5)
            _SLOPING.learn((x, dy, held), dx, Plan((dtype,), class_losses_back, variant, dtype))
        return dx

    def learn(self, args: tuple[Any, ...], result: Any, held: Array | None = None) -> None:
        """Open the door for calls like this one, if nothing was cast, and that for a gradient behind it."""
        dtypes = args[0]._dtype, args[1]._dtype
        door = LOSING if held is None or not LOSING.knows(*dtypes) else HOLDING
        if not self.is_plain() or self.library.dtype_name(dtypes[1]) != "int64" or door.knows(*dtypes):
            return
        losses = variant_of(self.name, "int64", *[self.name] * 4)
        others = (
            (check_targets, variant_of("int64", "int64")),
            (sums_of[0].kernel, variant_of(self.name, self.name)),
        )
        door.learn(
            args, result if door is LOSING else (result, held), Plan(dtypes, class_losses, losses, dtypes[0], others)
        )

    def arrays_of(self, dy: Any) -> Array:
        """The gradient of the result as the kernel takes it."""
        if self.each == ITEM:
            slopes: Array = relaid(convert(dy, Ragged) if dy.keeps_levels else dy, self.at).data
            return slopes
        return rows_or_data(dy)

    def slopes_of(self, scores: Array, kept: Array, slopes: Array) -> Any:
        """The gradient of the scores."""
        item = self.shape.item_shape
        out = rows_like(self.on, self.at, item, self.on.dtype(self.kind), kept)
        structure = self.at._structure
        if structure.rows:
            inputs = (self.cast(scores), self.targets, self.scale, self.factors, self.cast(slopes), kept)
            args = (self.at._layout(), self.each, *self.ignored)
            class_losses_back.start(self.library, inputs, (out,), args, int(item[0]), structure, self.work())
        return self.shape._with_data(self.library.astype(self.given(out), self.name))

    def second_order(self, x: Encoding, dy: Any) -> Any:
        """The pullback, made of operations that have gradients themselves."""
        z = x if x._in_one_array else convert(x, Ragged)
        library, scores = self.library, z.data
        if not self.at.rows:
            return restored(z._with_data(scores * 0), self.shape)
        kept = self.given(self.losses(self.at._with_data(library.alias(scores)))[2])
        if self.ignored[1]:  # no infinity may come from items without a loss, since that times 0 is NaN
            counts = (self.targets != self.ignored[0])[..., None]
            scores = library.where(counts, scores, 0.0)
        powers = library.exp(scores - library.astype(kept[..., :1], self.name))
        own, _, share = self.factors.tolist()
        classes = library.from_host(np.arange(int(self.shape.item_shape[0])), scores)
        right = library.astype(self.targets[..., None] == classes, self.name)
        slopes = powers / powers.sum(-1)[..., None] - right * own - share
        if self.ignored[1]:
            slopes = slopes * library.astype(counts, self.name)
        scale = library.astype(library.from_host(self.scale, scores), self.name)
        if self.each == ITEM:
            weights = self.arrays_of(dy)
        elif self.each == SEQUENCE:
            weights = spread(rows_or_data(dy) * scale, without_data(self.at)).data
        else:
            weights = dy * scale[0]
        return restored(without_padding(self.at._with_data(slopes * weights[..., None])), self.shape)


@functools.lru_cache(maxsize=64)
def _one_sequence(n: int) -> Structure:
    """Of so many items."""
    return Structure(frozen(np.array([n])), frozen(np.array([0, n])), n)


def _parts(held: Array, x: Encoding, kind: str) -> tuple[Array, ...]:
    """What is held, see `kernels.doors.losses`: targets, what a kernel keeps, scales, factors, what was asked for."""
    rows, n = x._structure.rows, x._structure.n
    numbers = held.view(kind)
    each = numbers.size // held.size  # numbers of a kernel in the room of one of int64
    kept, scale, factors = each * rows, each * 3 * rows, each * (3 * rows + n)
    return (
        held[:rows],
        numbers[kept : kept + 2 * rows].reshape(rows, 2),
        numbers[scale : scale + n],
        numbers[factors : factors + 3],
        held[-3:],
    )


def _loss_held(x: Encoding, held: Array) -> ClassLoss:
    """The loss of scores by what has been held of it."""
    shape, library = without_data(x), library_of(x._sample())
    name = library.dtype_name(x._dtype)
    targets, _, scale, factors, (each, ignore, ignores) = _parts(held, x, name)
    right = targets if library is NUMPY else library.taken(targets, NUMPY)
    ignored = int(ignore), int(ignores)
    return ClassLoss(shape, shape, library, name, name, NUMPY, int(each), right, scale, factors, ignored)


def _held_back(x: Encoding, held: Array) -> Back:
    """Its pullback."""
    return Back(lambda dy: _loss_held(x, held).pulled(x, held, dy), _SLOPING, x, held)


def call_of_held(x: Encoding, found: tuple[Any, Array]) -> Call[Any]:
    """The loss of scores that has come through its door, with what it holds."""
    results, held = [found[0]], found[1]

    def rule(z: Encoding, back: bool) -> tuple[Any, Pullback | None]:
        if results and z is x:  # one that was kept here would keep its graph, which keeps this
            return results.pop(), _held_back(x, held)
        loss = _loss_held(x, held)
        return loss.with_pullback(z, lambda *_: None) if back else (loss.reduced(loss.losses(z)[1]), None)

    return Call(x, rule, second_order=lambda z, dy: _loss_held(x, held).second_order(z, dy))


def loss_of(own: Encoding, right: Encoding, each: int, ignore: object, smoothing: object) -> ClassLoss:
    """The loss, its targets checked, and laid out as the scores."""
    item, structure, sample = own.item_shape, own._structure, own._sample()
    if len(item) != 1:
        raise SHAPE(f"logits are items of one axis, the scores of all classes, but they have shape {item}")
    library = library_of(sample)
    if (
        not library.functional
    ):  # read once: another thread may change what is checked, and who asks for a gradient later
        right = right._with_data(library_of(right.data).copy(right.data))
    classes, name = int(item[0]), library.dtype_name(own._dtype)
    part = share(smoothing, "label_smoothing")
    ignored = (0, 0) if ignore is None else (label(ignore), 1)
    kind = in_floats(name, "a cross entropy")[0]
    counts = counts_of(right, classes, ignored)
    if type(counts) is not np.ndarray:
        scale = _scale_in_program(library, counts, each, kind)
    elif each == SEQUENCE:
        scale = (1.0 / np.maximum(counts, 1)).astype(kind)
    else:
        scale = np.empty(structure.n, kind)
        scale.fill(1.0 / max(int(np.add.reduce(counts)), 1) if each == ONE else 1.0)
    factors = np.array([1 - part, part, part / max(classes, 1)], kind)
    shape = without_data(own)
    at = layout_for(shape, item, own._dtype)
    laid = library.astype(relaid(right, at).data, "int64")
    on = NUMPY if library.kind(sample) == "cpu" else library
    return ClassLoss(shape, at, library, name, kind, on, each, laid, scale, factors, ignored)


def _scale_in_program(library: Library, counts: Array, each: int, kind: str) -> Array:
    """What the loss of an item is multiplied by, of each sequence, where counts are values of a program."""
    if each == ONE:
        counts = counts * 0 + counts.sum()
    elif each == ITEM:
        counts = counts * 0
    return library.astype(1.0 / library.where(counts > 0, counts, 1), kind)


def counts_of(right: Encoding, classes: int, ignored: tuple[int, int]) -> Array:
    """How many targets of each sequence count, on the host; IndexError where one is no class.

    Where a program is traced, nobody can look at targets, and how many count is a value of the program.
    """
    library, structure = library_of(right.data), right._structure
    if not structure.rows:
        return np.zeros(structure.n, np.int64)
    if library.functional and library.wants_grad((right.data,)):
        if not ignored[1]:
            return structure.lengths
        kept: Array = calculated(summed, right._with_data(library.astype(right.data != ignored[0], "int32")))
        return kept
    out = scratch(library, (structure.n,), "int64", right.data)
    check_targets.start(library, (right.data,), (out,), (right._layout(), classes, *ignored), 1, structure)
    counts = out if type(out) is np.ndarray else library.to_numpy(out)
    if np.minimum.reduce(counts) < 0:
        i = int((counts < 0).argmax())
        t = -1 - int(counts[i])
        target = to_host(rows_of(right))[structure.offsets[i] + t]
        hint = "" if ignored[1] else "; ignore=, if it stands for none"
        raise INDEX(f"the target of item {t} of sequence {i} is {target}, but there are {classes} classes{hint}")
    return counts
