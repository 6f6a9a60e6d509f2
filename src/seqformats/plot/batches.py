"""Layouts, lengths, padding, batches and masks: all drawn from structure, which is on the host."""

from __future__ import annotations

import numpy as np

from ..arrays import Array, is_array
from ..converters.convert import as_own, convert
from ..converters.layouts import check_at_least
from ..errors import COUNTS, KIND, SHAPE, WHOLE, import_extra, quote
from ..formats import Pairs, Ragged
from ..formats.annotations import Given
from ..formats.bare import as_encoding, is_batch
from ..formats.pictures import COLOURS, picture
from ..formats.structure import Structure
from ..operations import batch
from ..operations.annotations import Batch, Lengths
from ..operations.inspection import lengths_given
from .canvas import ITEMS_COLOUR, LINE_COLOUR, PADDING_COLOUR, SECOND_COLOUR, Axes, axes, bare, in_integers, on_host

_BATCHES = 128  # drawn at most
_PIXELS = 512  # of a mask, along each side
_AXES = {
    "Masked": ("place", "sequence"),
    "List": ("item", "sequence"),
    "Padded": ("column, longest first", "step"),
    "Packed": ("row, step by step", ""),
}


def layout(x: Batch, *, ax: Axes | None = None) -> Axes:
    """Draw the places of the sequences of a batch in memory, to scale.

    A colour is a sequence, grey is padding.  Lines below a `LoD` are its outer levels.

    Parameters
    ----------
    x : an encoding, a list of arrays or nested lists
        No item is read, also on a GPU.  At most 128 sequences are drawn, in the order of the layout.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure without it.

    Returns
    -------
    matplotlib.axes.Axes
        With the layout and what it holds as the title.

    Raises
    ------
    TypeError
        For what is no single batch.
    ModuleNotFoundError
        Where there is no matplotlib.

    See Also
    --------
    seqformats.show : The same in a terminal.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> ax = sf.plot.layout(sf.convert([np.zeros(2), np.zeros(4)], sf.Masked))
    >>> ax.get_title(loc="left")
    'Masked: 2 sequences of 2 to 4 items, float64, cpu, 25 % padding'
    """
    if isinstance(x, Pairs):
        raise KIND("layout draws one batch, not Pairs; give x.one or x.two")
    of = picture(as_own(as_encoding(x)))
    ax = axes(ax, height=1.2 if of.height <= 1 else 3.2)
    ax.set(xlim=(0, max(of.width, 1)), ylim=(max(of.height, 1) + 0.35 * len(of.groups), 0))
    if of.padded:
        _bars(ax, [(0, 0, of.width, of.height)], [PADDING_COLOUR])
    boxes = [(box.x, box.y, box.width, box.height) for box in of.boxes]
    _bars(ax, boxes, [COLOURS[box.sequence % len(COLOURS)] for box in of.boxes], edge=LINE_COLOUR)
    for level, groups in enumerate(of.groups):
        y = of.height + 0.2 + 0.35 * level
        for a, b in groups:
            ax.plot([a + 0.05, b - 0.05], [y, y], color=LINE_COLOUR, linewidth=2, solid_capstyle="butt")
    across, down = _AXES.get(of.title, ("row", ""))
    ax.set(xlabel=across, ylabel=down)
    in_integers(ax)
    if of.height <= 1:
        ax.set_yticks([])
    bare(ax)
    ax.set_title(f"{of.title}: {of.note}", loc="left", fontsize="medium")
    return ax


def _bars(ax: Axes, boxes: Given, colours: list[str], edge: str = "none") -> None:
    """Rectangles, each ``(x, y, width, height)``, as one artist."""
    corners = [[(x, y), (x + w, y), (x + w, y + h), (x, y + h)] for x, y, w, h in boxes]
    collections = import_extra("matplotlib.collections", "plot")
    ax.add_collection(collections.PolyCollection(corners, facecolors=colours, edgecolors=edge, linewidths=0.5))


def lengths(x: Lengths, *, bins: int = 40, ax: Axes | None = None) -> Axes:
    """Draw how many sequences have which length.

    Parameters
    ----------
    x : n integers, or an encoding
        Lengths, or a batch that has them.
    bins : int
        The most bars; fewer where there are fewer lengths.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure without it.

    Returns
    -------
    matplotlib.axes.Axes
        A line is the mean, another the length that 19 of 20 sequences keep.

    Raises
    ------
    ConversionError
        For no bars.
    StructureError, TypeError
        For what are no lengths.
    ModuleNotFoundError
        Where there is no matplotlib.

    See Also
    --------
    padding : What these lengths cost in a rectangle.

    Examples
    --------
    >>> import seqformats as sf
    >>> ax = sf.plot.lengths([3, 1, 4, 1, 5, 9, 2, 6])
    >>> ax.get_title(loc="left")
    '8 sequences, 31 items: mean 3.9, 95 % up to 9, longest 9'
    """
    most = min(check_at_least(bins, "bins", 1), 1000)
    given = _lengths(x)
    ax = axes(ax)
    longest = int(given.max(initial=0))
    step = -(-(longest + 1) // most)
    counts = np.bincount(given // step, minlength=1)
    ax.bar(
        np.arange(counts.size) * step,
        counts,
        width=step,
        align="edge",
        color=ITEMS_COLOUR,
        edgecolor=LINE_COLOUR,
        linewidth=0.5,
    )
    title = f"{given.size} sequences, {given.sum()} items"
    if given.size:
        mean, common = float(given.sum()) / given.size, int(np.quantile(given, 0.95, method="inverted_cdf"))
        ax.axvline(mean, color=SECOND_COLOUR, label="mean")
        ax.axvline(common, color=SECOND_COLOUR, linestyle=":", label="95 %")
        ax.legend(frameon=False)
        title += f": mean {mean:.1f}, 95 % up to {common}, longest {longest}"
    ax.set(xlabel="length", ylabel="sequences")
    bare(ax)
    ax.set_title(title, loc="left", fontsize="medium")
    return ax


def _lengths(x: Given) -> Array:
    found: Array = lengths_given(x)
    if not is_batch(x) and (found < 0).any():
        Structure.of_lengths(found)  # which says what is wrong
    return found


def padding(x: Lengths, *, max_items: int | None = None, multiple_of: int = 1, ax: Axes | None = None) -> Axes:
    """The share of padding that each layout of these sequences has.

    Parameters
    ----------
    x : n integers, or an encoding
        Lengths, or a batch that has them.
    max_items : int, optional
        Where given, also batches of at most so many items: those of `buckets`, and as many in the order given.
    multiple_of : int
        The width of a rectangle is rounded up to a multiple of this.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure without it.

    Returns
    -------
    matplotlib.axes.Axes
        A bar a layout, in per cent of what lies in memory.

    Raises
    ------
    StructureError
        For what are no lengths, and for a sequence that is over `max_items`.
    ConversionError
        For numbers that are too small.
    TypeError
        If the argument is not an integer.
    ModuleNotFoundError
        Where there is no matplotlib.

    See Also
    --------
    seqformats.buckets : The batches.

    Examples
    --------
    >>> import seqformats as sf
    >>> ax = sf.plot.padding([1, 5, 2, 5, 1], max_items=10)
    >>> for name, bar in zip(ax.get_yticklabels(), ax.patches):
    ...     print(name.get_text(), f"{bar.get_width():.0f} %")
    Ragged, Packed, LoD 0 %
    Masked, Padded 44 %
    2 batches in this order 44 %
    2 batches by buckets 12 %
    """
    step = check_at_least(multiple_of, "multiple_of", 1)
    given = _lengths(x)
    shares = {"Ragged, Packed, LoD": 0.0, "Masked, Padded": _share(given, np.array([0, given.size]), step)}
    if max_items is not None:
        found = batch.buckets(given, max_items, multiple_of=step)
        n = found.lengths.size
        cuts = np.linspace(0, given.size, n + 1).astype(np.int64)
        shares[f"{n} batches in this order"] = _share(given, cuts, step)
        shares[f"{n} batches by buckets"] = _share(given[found.data], found.offsets, step)
    ax = axes(ax, height=0.8 + 0.45 * len(shares))
    bars = ax.barh(list(shares), list(shares.values()), color=SECOND_COLOUR, edgecolor=LINE_COLOUR, linewidth=0.5)
    ax.bar_label(bars, fmt="%.0f %%", padding=3)
    ax.set(xlim=(0, 110), xlabel="padding, % of what lies in memory")
    ax.set_xticks([0, 25, 50, 75, 100])
    ax.invert_yaxis()
    bare(ax)
    return ax


def _share(given: Array, cuts: Array, step: int) -> float:
    """Per cent of padding where sequences from one cut to the next are in one rectangle."""
    _, places = _rectangles(given, cuts, step)
    total = float(places.sum())
    return 100 * (1 - float(given.sum()) / total) if total else 0.0


def _rectangles(given: Array, cuts: Array, step: int) -> tuple[Array, Array]:
    """The items of each run of sequences, and the places of the rectangle around them."""
    cuts = np.asarray(cuts)
    full = np.flatnonzero(cuts[1:] > cuts[:-1])
    sums, widest = np.zeros(cuts.size - 1, np.int64), np.zeros(cuts.size - 1, np.int64)
    if full.size:
        sums[full] = np.add.reduceat(given, cuts[full])
        widest[full] = np.maximum.reduceat(given, cuts[full])
    return sums, -(-widest // step) * step * np.diff(cuts)


def buckets(x: Lengths, batches: Batch, *, multiple_of: int = 1, ax: Axes | None = None) -> Axes:
    """Draw the number of items of each batch, and of padding beside them.

    Parameters
    ----------
    x : n integers, or an encoding
        Lengths, or a batch that has them.
    batches : encoding of int64, or nested lists
        Positions, one sequence per batch, as `seqformats.buckets` and `seqformats.pack_bins` give them.  The first 128
        batches are drawn.
    multiple_of : int
        The width of a batch is that of its longest sequence, rounded up to a multiple of this.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure without it.

    Returns
    -------
    matplotlib.axes.Axes
        A bar a batch.

    Raises
    ------
    StructureError
        For what are no lengths, and for positions that are none of theirs.
    TypeError
        Where `batches` are none, or hold no integers.
    ConversionError
        For a multiple below 1.
    ModuleNotFoundError
        Where there is no matplotlib.

    See Also
    --------
    padding : The share of padding in numbers.

    Examples
    --------
    >>> import seqformats as sf
    >>> given = [1, 5, 2, 5, 1]
    >>> ax = sf.plot.buckets(given, sf.buckets(given, max_items=10))
    >>> ax.get_title(loc="left")
    '2 batches, 12 % padding'
    """
    step = check_at_least(multiple_of, "multiple_of", 1)
    given = _lengths(x)
    found = convert(as_own(as_encoding(batches)), Ragged)
    if not isinstance(found.data, np.ndarray) or found.data.dtype.kind not in "iu":
        raise WHOLE(
            f"batches must hold positions, integers on the host, but have dtype {found.dtype} on {found.device}"
        )
    if found.item_shape:
        raise SHAPE(f"batches must hold one position per item, but have item shape {found.item_shape}")
    places = found.data
    if places.size and (places.min() < 0 or places.max() >= given.size):
        raise COUNTS(f"batches have the positions {places.min()} to {places.max()}, but there are {given.size} lengths")
    items, filled = _rectangles(given[places], found.offsets, step)
    shown = min(items.size, _BATCHES)
    ax = axes(ax)
    at = np.arange(shown)
    ax.bar(at, filled[:shown], color=PADDING_COLOUR, width=0.9, edgecolor=LINE_COLOUR, linewidth=0.5, label="padding")
    ax.bar(at, items[:shown], color=ITEMS_COLOUR, width=0.9, label="items")
    if shown:
        ax.legend(frameon=False, loc="lower right", bbox_to_anchor=(1, 1), ncols=2, borderaxespad=0)
    total = float(filled.sum())
    waste = f", {100 * (1 - float(items.sum()) / total):.0f} % padding" if total else ""
    drawn = f"; drawn: the first {shown}" if shown < items.size else ""
    ax.set(xlabel="batch", ylabel="items")
    in_integers(ax)
    bare(ax)
    ax.set_title(f"{items.size} batches{waste}{drawn}", loc="left", fontsize="medium")
    return ax


def mask(x: Given, *, copy: bool = False, ax: Axes | None = None) -> Axes:
    """Draw the items in a rectangle, or an array of bools.

    Parameters
    ----------
    x : n integers, an encoding, or an array of bools with two axes
        Of lengths and batches the mask that `Masked` would have, which is drawn from the lengths alone.  Large ones
        are drawn by 512 of their rows and columns, evenly.
    copy : bool
        Bring an array of bools that is on a GPU to the host, which waits for the device; else it is refused.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure without it.

    Returns
    -------
    matplotlib.axes.Axes
        True is coloured.

    Raises
    ------
    StructureError
        For an array without two axes, and for lengths that cannot be.
    DeviceError
        For an array on a GPU, without ``copy=True``.
    TypeError
        If the argument is none of these.
    ModuleNotFoundError
        Where there is no matplotlib.

    See Also
    --------
    seqformats.mask : The mask as an array.

    Examples
    --------
    >>> import seqformats as sf
    >>> ax = sf.plot.mask([2, 4, 1])
    >>> ax.get_title(loc="left")
    '3 x 4, 58 % True'
    """
    if is_array(x) and len(x.shape) != 1:
        where = on_host(x, "the mask", copy)
        if where.ndim != 2:
            raise SHAPE(f"a mask must have two axes, but has shape {where.shape}")
        if where.dtype != bool:
            raise KIND(f"a mask must hold bools, not {where.dtype}")
        rows, columns = _some(where.shape[0]), _some(where.shape[1])
        return _image(ax, where[np.ix_(rows, columns)], where.shape, float(where.sum()) / max(where.size, 1))
    if not isinstance(copy, bool):
        raise KIND(f"copy must be True or False, not {quote(copy)}")
    given = _lengths(x)
    left = getattr(x, "side", "right") == "left"
    width = int(x.data.shape[1]) if hasattr(x, "side") else int(given.max(initial=0))
    rows, columns = _some(given.size), _some(width)
    seen = columns[None, :] >= width - given[rows, None] if left else columns[None, :] < given[rows, None]
    share = float(given.sum()) / max(given.size * width, 1)
    ax = _image(ax, seen, (given.size, width), share)
    ax.set(xlabel="place", ylabel="sequence")
    return ax


def block_mask(x: Lengths, *, causal: bool = False, ax: Axes | None = None) -> Axes:
    """Which rows of a flat batch see which, in attention: those of their own sequence.

    Parameters
    ----------
    x : n integers, or an encoding
        Lengths, or a batch that has them.  The mask is drawn from these alone, at most 512 rows of it along each side,
        and never made.
    causal : bool
        True if a row sees none that comes after it.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure without it.

    Returns
    -------
    matplotlib.axes.Axes
        The rows that see downwards, those that are seen across.

    Raises
    ------
    StructureError, TypeError
        For what are no lengths, and where `causal` is not True or False.
    ModuleNotFoundError
        Where there is no matplotlib.

    See Also
    --------
    seqformats.block_mask : The mask as an array.

    Examples
    --------
    >>> import seqformats as sf
    >>> ax = sf.plot.block_mask([2, 4, 1], causal=True)
    >>> ax.get_title(loc="left")
    '7 x 7, 29 % True'
    """
    if not isinstance(causal, bool):
        raise KIND(f"causal must be True or False, not {quote(causal)}")
    given = _lengths(x)
    total = int(given.sum())
    rows = _some(total)
    number = np.searchsorted(np.cumsum(given), rows, side="right")
    seen = number[:, None] == number[None, :]
    if causal:
        seen &= rows[:, None] >= rows[None, :]
    exact = given.astype(float)
    share = float((exact * (exact + 1) / 2 if causal else exact * exact).sum()) / max(float(total) ** 2, 1.0)
    ax = _image(ax, seen, (total, total), share)
    ax.set(xlabel="is seen", ylabel="row")
    return ax


def _some(size: int) -> Array:
    """All places along a side, or so many of them, evenly."""
    return np.arange(size) if size <= _PIXELS else np.linspace(0, size - 1, _PIXELS).astype(np.int64)


def _image(ax: Axes | None, seen: Array, shape: tuple[int, ...], share: float) -> Axes:
    ax = axes(ax, height=3.6)
    high, wide = shape
    image = seen if seen.size else np.zeros((1, 1), bool)
    extent = (-0.5, max(wide, 1) - 0.5, max(high, 1) - 0.5, -0.5)
    colours = import_extra("matplotlib.colors", "plot").ListedColormap([PADDING_COLOUR, ITEMS_COLOUR])
    ax.imshow(image, cmap=colours, vmin=0, vmax=1, extent=extent, aspect="auto", interpolation="nearest")
    in_integers(ax)
    ax.set_title(f"{high} x {wide}, {100 * share:.0f} % True", loc="left", fontsize="medium")
    return ax
