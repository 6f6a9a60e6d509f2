"""Pictures of a batch: where the sequences lie in memory, drawn to scale, as SVG and as text.

Drawn is what the structure says, which is on the host: no item is read.  A picture is bounded whatever the batch: so
many sequences, in the order of the layout, and so many boxes.
"""

from __future__ import annotations

from html import escape
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from .encoding import Encoding

SEQUENCES = 128  # drawn at most
_BOXES = 256
_CELL, _LINE = 22, 18  # the largest cell of one item, in pixels
_WIDE, _HIGH = 640, 240  # the largest drawing
_COLUMNS, _LINES = 72, 16  # the same in letters
# Neither light nor dark, so that they stand on either; by the place of a sequence in the batch.
COLOURS = ("#6cb0f5", "#f0a850", "#77c587", "#d68fd6", "#c9b458")
STYLES = tuple(f"black on {colour}" for colour in COLOURS)
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


class Box(NamedTuple):
    """Items of one sequence that lie side by side, in units of items."""

    x: int
    y: int
    width: int
    height: int
    sequence: int  # by the caller's order


class Picture(NamedTuple):
    """Boxes and texts to draw, in units of items."""

    title: str
    note: str
    boxes: list[Box]
    groups: list[list[tuple[int, int]]]  # of each outer level, innermost first: where each group begins and ends
    width: int
    height: int
    padded: bool  # is what no box covers padding, and not nothing?


def picture(x: Encoding) -> Picture:
    """Lay out the picture of an `Encoding`, which imports this module when it is to be drawn."""
    structure = x._structure
    n = structure.n
    boxes = _boxes(x)
    cut = len(boxes) > _BOXES
    boxes = boxes[:_BOXES]
    width = max([box.x + box.width for box in boxes], default=0)
    height = max([box.y + box.height for box in boxes], default=0)
    padded = x._in_one_array and x._lead == 2
    first = min(n, SEQUENCES)
    if padded:  # also what no sequence reaches
        height, width = (x._shape[0], first) if x._by_steps else (first, x._shape[1])
    elif not x._in_one_array:
        height = first
    if not width:
        height = 0
    note = _facts(x)
    if cut or n > SEQUENCES:
        shown = len({box.sequence for box in boxes}) if cut else SEQUENCES
        note += f"; drawn: the first {len(boxes)} items" if x._by_steps and not padded else f"; drawn: {shown} of {n}"
    return Picture(type(x).__name__, note, boxes, _groups(x, width), width, height, padded)


def _boxes(x: Encoding) -> list[Box]:
    """In the order in which they lie, of the first sequences in that order."""
    structure = x._structure
    if x._by_steps:
        at = x._layout()
        columns = at.starts[: SEQUENCES if x._lead == 2 else _BOXES + 1]
        ordered = list(zip(columns.tolist(), structure.lengths[columns].tolist(), strict=True))
        if x._lead == 2:
            return [Box(j, 0, 1, length, i) for j, (i, length) in enumerate(ordered) if length]
        return _pack_boxes(ordered, at.steps)
    lengths = structure.lengths[:SEQUENCES].tolist()
    if not x._in_one_array:
        return [Box(0, i, length, 1, i) for i, length in enumerate(lengths) if length]
    if x._lead == 1:
        starts = structure.offsets[: len(lengths)].tolist()
        return [Box(at, 0, length, 1, i) for i, (at, length) in enumerate(zip(starts, lengths, strict=True)) if length]
    at = x._layout()
    rests = [at.stride - length if at.left else 0 for length in lengths]  # the padding before them
    return [Box(rest, i, length, 1, i) for i, (rest, length) in enumerate(zip(rests, lengths, strict=True)) if length]


def _pack_boxes(ordered: list[tuple[int, int]], steps: Any) -> list[Box]:
    """One box an item, step by step, and more than are drawn where there are more."""
    found: list[Box] = []
    for t, at in enumerate(steps[: _BOXES + 1].tolist()):
        found += [Box(at + j, 0, 1, 1, i) for j, (i, length) in enumerate(ordered) if length > t]
        if len(found) > _BOXES:
            break
    return found


def _groups(x: Encoding, width: int) -> list[list[tuple[int, int]]]:
    """The groups of the outer levels that begin in what is drawn, with items."""
    found = []
    rows = x._levels[-1].offsets
    for level in x._levels[-2::-1]:
        rows = rows[level.offsets]
        edges = rows[: np.searchsorted(rows, width) + 1].clip(max=width).tolist()
        found.append([(a, b) for a, b in pairwise(edges) if a < b][:SEQUENCES])
    return found


def _facts(x: Encoding) -> str:
    lengths = x._structure.lengths
    n = lengths.size
    facts = [f"{n} sequence{'s' * (n != 1)}"]
    if n:
        least, most = int(lengths.min()), int(lengths.max())
        facts[0] += f" of {least} to {most} items" if least < most else f" of {most} item{'s' * (most != 1)}"
    if (levels := len(x._levels)) > 1:
        facts.append(f"{levels} levels")
    item = tuple(int(size) for size in x._shape[x._lead :])
    facts += [f"{x.dtype}" + (f" {item}" if item else ""), f"{x.device}"]
    if x._in_one_array and x._lead == 2 and (places := int(np.prod(x._shape[:2]))):
        facts.append(f"{100 * (1 - x._structure.rows / places):.0f} % padding")
    return ", ".join(facts)


# ------------------------------------------------------------------------------------------------------------ SVG


def svg(of: Picture) -> str:
    """The drawing; text and lines have the colour of the page that it is on."""
    across = min(_CELL, _WIDE / max(of.width, 1))
    down = min(_LINE, _HIGH / max(of.height, 1))
    edge = f'stroke="currentColor" stroke-opacity="0.45" stroke-width="{0.75 if min(across, down) > 4 else 0.25}"'
    wide, high = of.width * across, of.height * down

    def rectangle(x: float, y: float, width: float, height: float, more: str) -> str:
        return f'<rect x="{x:.4g}" y="{y:.4g}" width="{width:.4g}" height="{height:.4g}" {more}/>'

    parts = [rectangle(0, 0, wide, high, f'fill="currentColor" fill-opacity="0.08" {edge}')] if of.padded else []
    for box in of.boxes:
        fill = f'fill="{COLOURS[box.sequence % len(COLOURS)]}" {edge}'
        parts.append(rectangle(box.x * across, box.y * down, box.width * across, box.height * down, fill))
    for level, groups in enumerate(of.groups):
        y = high + 5 + 9 * level
        parts += [
            f'<path d="M{a * across + 1:.4g} {y:.4g}v4H{b * across - 1:.4g}v-4" fill="none" stroke="currentColor"/>'
            for a, b in groups
        ]
    wide, high = max(wide, 1) + 2, max(high, 1) + 9 * len(of.groups) + 2
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{escape(f"{of.title}: {of.note}")}" '
        f'width="{wide:.4g}" height="{high:.4g}" viewBox="-1 -1 {wide:.4g} {high:.4g}" style="max-width: 100%">'
    )
    return head + "".join(parts) + "</svg>"


def html(of: Picture) -> str:
    """The drawing, below what it is of."""
    return f"<div><div><b>{escape(of.title)}</b> <small>{escape(of.note)}</small></div>{svg(of)}</div>"


# ----------------------------------------------------------------------------------------------------------- text


def rows_of_letters(of: Picture) -> list[list[tuple[str, int]]]:
    """The drawing in letters: of each place the letter and the sequence, -1 where there is none."""
    across, down = max(1, of.width / _COLUMNS), max(1, of.height / _LINES)
    columns, lines = round(of.width / across), round(of.height / down)
    nothing = ("·" if of.padded else " ", -1)
    found = [[nothing] * columns for _ in range(lines)]
    for box in of.boxes:
        # a place shows what is in its middle
        for line in range(_first(box.y, down), min(_first(box.y + box.height, down), lines)):
            for column in range(_first(box.x, across), min(_first(box.x + box.width, across), columns)):
                found[line][column] = (_LETTERS[box.sequence % len(_LETTERS)], box.sequence)
    return found


def _first(edge: int, scale: float) -> int:
    """The first place whose middle is not before an edge."""
    return int(np.ceil(edge / scale - 0.5))


def lines_of_groups(of: Picture) -> list[str]:
    """A line for each outer level, below the letters."""
    across = max(1, of.width / _COLUMNS)
    found = []
    for groups in of.groups:
        line = ""
        for a, b in groups:
            begin, end = _first(a, across), _first(b, across)
            if end > begin:
                line = line.ljust(begin) + ("└" + "─" * (end - begin - 2) + "┘" if end - begin > 1 else "│")
        found.append(line)
    return found
