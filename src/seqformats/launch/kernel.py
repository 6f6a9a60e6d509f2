"""Bridge until the kernels take layouts."""

from typing import Any, NamedTuple

from .. import _launch, registry
from ..layout import Layout


class Work(NamedTuple):
    units: int
    rows: int
    lengths: Any = None


def _flat(name: str, args: tuple[Any, ...]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    if name == "copy_blocks":
        r, w = args
        return (r.starts, w.starts, r.cum), (r.stride, r.left, r.absolute, w.stride, w.left)
    if name in ("blocks_to_steps", "words_to_steps"):
        r, w = args
        return (r.starts, r.cum, w.starts, w.steps), (r.stride, r.left, r.absolute, w.step or -1)
    if name in ("steps_to_blocks", "steps_to_words"):
        b, r, w = args
        return (b, w.starts, r.cum, r.starts, r.steps), (w.stride, w.left, r.absolute, r.step or -1)
    arrays: tuple[Any, ...] = ()
    numbers: tuple[Any, ...] = ()
    at: tuple[Any, ...] = ()
    last: tuple[Any, ...] = ()
    for x in args:
        if isinstance(x, Layout):
            arrays += (x.starts, x.cum, x.steps)
            at += (x.stride, x.left, x.step)
            last = (x.absolute,) if name == "end_rows" else ()
        elif isinstance(x, int):
            numbers += (x,)
        else:
            arrays += (x,)
    return arrays, (*at, *numbers, *last)


class Kernel:
    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, *args: Any) -> Any:
        return registry.entry(self.name)(*args)

    def start(self, library, inputs, outputs, args, size, structure, work=None) -> None:  # type: ignore
        arrays, numbers = _flat(self.name, args)
        moves = self.name in _MOVES
        row = size if moves else size * library.itemsize((inputs or outputs)[0].dtype)
        if work is None:
            at = args[0]
            lengths = (
                structure.order.lengths
                if any(isinstance(x, Layout) and x.step != 1 for x in args)
                else structure.lengths
            )
            fields = (structure.n, structure.rows, row, lengths)
        else:
            fields = (work.units, work.rows, row, work.lengths)
        if moves:
            _launch.move(self.name, library, inputs[0], outputs[0], arrays, numbers, fields, structure)
        else:
            _launch.arithmetic(self.name, library, inputs, outputs, arrays, (size, *numbers), fields, structure)


_MOVES = {
    "copy_blocks", "blocks_to_steps", "words_to_steps", "steps_to_blocks", "steps_to_words", "pad_blocks", "end_rows",
    "window_rows", "reverse_rows", "repeat_rows",
}
_made: dict[str, Kernel] = {}


def kernel(name: str) -> Kernel:
    return _made.setdefault(name, Kernel(name))
