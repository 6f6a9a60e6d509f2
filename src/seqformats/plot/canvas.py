"""Axes, colours and arrays on the host, which all pictures share."""

from __future__ import annotations

from typing import Any, TypeAlias

from ..arrays import Array, library_of, to_host
from ..errors import DEVICE, KIND, import_extra, quote
from ..formats.pictures import COLOURS

Axes: TypeAlias = Any
"""matplotlib.axes.Axes, of a package that need not be there."""

PADDING_COLOUR = "#80808038"
"""Padding, on light and on dark."""
ITEMS_COLOUR, SECOND_COLOUR, LINE_COLOUR = COLOURS[0], COLOURS[1], "#808080"


def axes(ax: Axes | None, width: float = 6.4, height: float = 3.2) -> Axes:
    """The axes to draw on: those given, else those of a new figure of so many inches."""
    if ax is None:
        pyplot = import_extra("matplotlib.pyplot", "plot")
        return pyplot.subplots(figsize=(width, height), layout="constrained")[1]
    if not hasattr(ax, "add_patch") or not hasattr(ax, "transData"):
        raise KIND(f"ax must be axes of matplotlib, not {quote(ax)}; plt.subplots() gives (figure, ax)")
    return ax


def on_host(array: Array, what: str, copy: bool) -> Array:
    """An array as NumPy's; DeviceError for one on a GPU, unless it is to be copied."""
    if not isinstance(copy, bool):
        raise KIND(f"copy must be True or False, not {quote(copy)}")
    library = library_of(array)
    if library.kind(array) != "cpu" and not copy:
        raise DEVICE(f"{what} is on {library.device(array)}; copy=True brings it to the host, and waits for the device")
    found: Array = to_host(array)
    return found


def in_integers(ax: Axes) -> None:
    """Label an axis of counts with integers alone."""
    for axis in (ax.xaxis, ax.yaxis):
        axis.get_major_locator().set_params(integer=True)


def bare(ax: Axes) -> None:
    """Without the lines above and on the right."""
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
