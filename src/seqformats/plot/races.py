"""Times beside times, as ``python -m seqformats bench`` measures them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..errors import EMPTY, KIND, RANGE, quote
from .canvas import ITEMS_COLOUR, LINE_COLOUR, SECOND_COLOUR, Axes, axes, bare

_MOST = 64  # bars drawn
_COLOURS = {"NumPy": ITEMS_COLOUR, "PyTorch": SECOND_COLOUR}


def times(found: Sequence[Any], *, ax: Axes | None = None) -> Axes:
    """Draw how many times as long operations take without this library.

    Parameters
    ----------
    found : sequence of (operation, arrays, own, other)
        The name of the operation, whose arrays they are, "NumPy" or "PyTorch" say, and the seconds with this library
        and without it.  At most 64 are drawn.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure without it.

    Returns
    -------
    matplotlib.axes.Axes
        A bar an operation, on a scale of powers of ten; where both take as long is a line.

    Raises
    ------
    TypeError
        For what are no such lines.
    ConversionError
        For times that are not above 0, and finite.
    StructureError
        Where there is nothing to draw.
    ModuleNotFoundError
        Where there is no matplotlib.

    Notes
    -----
    ``python -m seqformats bench --picture times.svg`` draws what it has measured.

    Examples
    --------
    >>> import seqformats as sf
    >>> ax = sf.plot.times([("mean", "NumPy", 12e-6, 105e-6), ("expand", "NumPy", 6e-6, 15e-6)])
    >>> [f"{bar.get_width():.1f}" for bar in ax.patches]
    ['8.8', '2.5']
    """
    lines = [_line(one) for one in list(found)[:_MOST]]
    if not lines:
        raise EMPTY("there are no times; one at least is needed")
    ax = axes(ax, height=0.9 + 0.3 * len(lines))
    seen: set[str] = set()
    for k, (_, arrays, ratio) in enumerate(lines):
        colour = _COLOURS.get(arrays, LINE_COLOUR)
        label = arrays if arrays not in seen else None
        bar = ax.barh(k, ratio, color=colour, edgecolor=LINE_COLOUR, linewidth=0.5, label=label)
        ax.bar_label(bar, fmt="%.3g", padding=3)
        seen.add(arrays)
    ratios = [ratio for *_, ratio in lines]
    ax.axvline(1, color=LINE_COLOUR, linestyle=":")
    ax.set_xscale("log")
    ax.set_xlim(min(0.8, min(ratios) / 1.5), max(ratios) * 2)
    ax.set_yticks(range(len(lines)), [name for name, *_ in lines])
    ax.set(xlabel="time without / time with seqformats")
    ax.invert_yaxis()
    ax.legend(frameon=False, loc="lower right")
    bare(ax)
    return ax


def _line(one: Any) -> tuple[str, str, float]:
    """The operation, the arrays and the ratio of a line."""
    try:
        name, arrays, own, other = one
        own, other = float(own), float(other)
    except (TypeError, ValueError):
        raise KIND(f"times are (operation, arrays, own, other), with seconds as numbers, not {quote(one)}") from None
    if not (0 < own < math.inf and 0 < other < math.inf):
        raise RANGE(f"seconds must be above 0, and finite, not {quote(own)} and {quote(other)}")
    return str(name), str(arrays), other / own
