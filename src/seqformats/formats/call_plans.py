"""Calls over the sequences of an encoding by plans, where its items are on a GPU; see `launch.plans`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..arrays import Array, library_of
from ..launch.kernel import SEEN, launcher, planning

if TYPE_CHECKING:
    from .structure import Structure

MOST_CALLS = 64
"""Calls of which a structure has plans, or notes."""
MOST_ITEMS = 64
"""Arrays of a list up to which its calls have plans."""
MOST_PLACES = 256
"""Sequences that are chosen from a batch up to which the choice is kept, with its structure."""


def laid_by_plan(run: Callable[..., Any], x: Any, **options: Any) -> Any:
    """``run(x, **options)``, a batch laid out as `x` and made of its items alone, by a plan; options are numbers."""
    if not (planning and is_on_gpu(x)):
        return run(x, **options)
    key = run, *[name.tobytes() if type(name) is np.ndarray else name for name in options.values()]
    return x._with_data(by_plan(x, (x.data,), key, _data_of, run, x, options))


def _data_of(run: Callable[..., Any], x: Any, options: dict[str, Any]) -> Array:
    data: Array = run(x, **options).data
    return data


def get_or_make(structure: Structure, key: object, make: Callable[[], Any]) -> Any:
    """Return what `make` gives, the same from the second call with a key on, while a structure lives.

    What is kept must not hold the structure.
    """
    calls = structure.calls
    found = calls.get(key)
    if found is None or found is SEEN:
        made = make()
        if len(calls) >= MOST_CALLS:
            calls.clear()
        calls[key] = SEEN if found is None else made
        return made
    return found


def is_on_gpu(x: Any) -> bool:
    """Tell whether calls over an encoding may have plans: its items are one array on a GPU."""
    return x._can_plan and type(x.data) is not np.ndarray and library_of(x.data).kind(x.data) == "cuda"


def rows_on_gpu(x: Any) -> tuple[Array, ...]:
    """The arrays of a `List` that have rows, or its first one, where calls may have plans; else none."""
    items: tuple[Array, ...] = x.items
    if not 0 < len(items) <= MOST_ITEMS or library_of(items[0]).kind(items[0]) != "cuda":
        return ()
    if not all(item.shape for item in items):  # changed since they were checked
        return ()
    return tuple([item for item in items if item.shape[0]]) or items[:1]


def follow(x: Any, key: object) -> Any:
    """Follow the plan of a call on the items of `x` alone, which `by_plan` has made with this key.

    The array that it makes; None where there is no plan that can be followed.
    """
    data = x.data
    plan = x._structure.calls.get((key, x._dtype, data.__class__, x.__class__, x._shape, x._unshaped))
    return None if plan is None else plan.follow_one(data)


def follow_all(x: Any, inputs: tuple[Array, ...], key: object) -> Any:
    """`follow` of a call on several arrays, with what it gives."""
    plan = x._structure.calls.get((key, x._dtype, inputs[0].__class__, x.__class__, x._shape, x._unshaped))
    return None if plan is None else plan.follow(inputs)


def by_plan(x: Any, inputs: tuple[Array, ...], key: object, run: Callable[..., Any], *args: Any) -> Any:
    """``run(*args)``, one or several arrays, by a plan where the structure of the encoding `x` has one.

    Parameters
    ----------
    x : encoding
        Over whose sequences it goes; its data need not be there.
    inputs : tuple of arrays
        Those that `run` reads, of one library and device.
    key : hashable
        All that the result depends on beside structure, layout and dtype of `x` and the items of the inputs: which
        operation it is, the options, the dtypes of other inputs.
    run : callable
        It does nothing with arrays of a device but to take memory, to cast, and to start kernels; and it reads none.
    *args
        Its arguments.
    """
    like = inputs[0]
    if type(like) is np.ndarray or not planning or not x._can_plan:
        return run(*args)
    key = key, x._dtype, like.__class__, x.__class__, x._shape, x._unshaped
    return by_plan_of(x._structure, inputs, key, run, *args)


def by_plan_of(
    structure: Structure, inputs: tuple[Array, ...], key: object, run: Callable[..., Any], *args: Any
) -> Any:
    """`by_plan` for what no encoding describes: the key has dtypes and shapes of all inputs, too."""
    like = inputs[0]
    library = library_of(like)
    if not planning or library.kind(like) != "cuda":
        return run(*args)
    calls = structure.calls
    try:
        plan = calls.get(key)
    except TypeError:  # of an option
        return run(*args)
    if plan is None:
        if len(calls) >= MOST_CALLS:
            calls.clear()
        calls[key] = SEEN
        return run(*args)
    found = plan.follow_one(like) if len(inputs) == 1 else plan.follow(inputs)
    return launcher("cuda").run_planned(library, structure, key, inputs, run, args) if found is None else found
