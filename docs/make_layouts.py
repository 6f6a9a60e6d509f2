"""Draws docs/layouts.svg: the same three sequences in every encoding.

python docs/make_layouts.py          writes the picture
python docs/make_layouts.py --check  says whether the file is what this script would write
"""

import sys
from pathlib import Path

SEQUENCES = {"a": 2, "b": 4, "c": 1}  # in the caller's order
CELL, LINE = 30, 28  # width and height of one item
WIDTH, HEIGHT = 920, 486

STYLE = """
  .paper { fill: #ffffff; stroke: #d0d7de }
  .text { fill: #1f2328 } .quiet { fill: #59636e } .line { stroke: #59636e; fill: none }
  .a { fill: #9ecbff } .b { fill: #ffc680 } .c { fill: #a5dfb0 }
  .cell { stroke: #1f2328; stroke-opacity: 0.35 } .item { fill: #1f2328 }
  .room { fill: #eff2f5 } .hatch { stroke: #afb8c1 } .edge { stroke: #afb8c1 }
  @media (prefers-color-scheme: dark) {
    .paper { fill: #0d1117; stroke: #3d444d }
    .text { fill: #f0f6fc } .quiet { fill: #9198a1 } .line { stroke: #9198a1 }
    .a { fill: #6cb0f5 } .b { fill: #f0a850 } .c { fill: #77c587 }
    .room { fill: #1c2128 } .hatch { stroke: #4d5560 } .edge { stroke: #4d5560 }
  }
  text { font: 13px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; }
  .name { font-weight: 700; font-size: 16px } .note { font-family: system-ui, "Segoe UI", "DejaVu Sans", sans-serif }
  .middle { text-anchor: middle } .end { text-anchor: end }
"""

Cells = list[tuple[str, int]]  # (sequence, place in it); the sequence "" is padding
FLAT: Cells = [(name, k) for name, length in SEQUENCES.items() for k in range(length)]
ORDER = sorted(SEQUENCES, key=lambda name: -SEQUENCES[name])  # longest first, stable
STEPS = max(SEQUENCES.values())


class Picture:
    """SVG elements, drawn one after the other."""

    def __init__(self) -> None:
        self.parts: list[str] = []

    def text(self, x: float, y: float, words: object, kind: str = "text") -> None:
        escaped = str(words).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        self.parts.append(f'<text x="{x:g}" y="{y:g}" class="{kind}">{escaped}</text>')

    def title(self, x: float, y: float, name: str, note: str) -> None:
        self.text(x, y, name, "name text")
        self.text(x, y + 19, note, "note quiet")

    def cell(self, x: float, y: float, name: str, place: int) -> None:
        box = f'x="{x:g}" y="{y:g}" width="{CELL}" height="{LINE}"'
        if name:
            self.parts.append(f'<rect {box} class="cell {name}"/>')
            self.text(x + CELL / 2, y + LINE / 2 + 4.5, f"{name}{place}", "item middle")
        else:
            self.parts.append(f'<rect {box} class="room"/><rect {box} class="edge" fill="url(#padding)"/>')

    def row(self, x: float, y: float, cells: Cells) -> None:
        for k, (name, place) in enumerate(cells):
            self.cell(x + k * CELL, y, name, place)

    def path(self, d: str) -> None:
        self.parts.append(f'<path d="{d}" class="line"/>')

    def offsets(self, x: float, y: float, edges: list[int], values: list[int]) -> None:
        """A ruler under a row of cells: ticks at these cell edges, with these numbers."""
        self.path(f"M{x:g} {y + 3:g}H{x + edges[-1] * CELL:g}")
        for edge, value in zip(edges, values, strict=True):
            self.path(f"M{x + edge * CELL:g} {y:g}v6")
            self.text(x + edge * CELL, y + 20, value, "text middle")

    def braces(self, x: float, y: float, sizes: list[int]) -> None:
        """One bracket under each group of cells, with its size."""
        for size in sizes:
            self.path(f"M{x + 3:g} {y:g}v4H{x + size * CELL - 3:g}v-4")
            self.text(x + size * CELL / 2, y + 20, size, "text middle")
            x += size * CELL

    def across(self, x: float, y: float, values: list[int]) -> None:
        """A number under each column of cells."""
        for k, value in enumerate(values):
            self.text(x + k * CELL + CELL / 2, y, value, "text middle")

    def down(self, x: float, y: float, values: list[int] | list[str], kind: str = "text middle") -> None:
        """A number beside each row of cells."""
        for k, value in enumerate(values):
            self.text(x, y + k * LINE + LINE / 2 + 4.5, value, kind)


def draw() -> str:
    p = Picture()
    lengths = list(SEQUENCES.values())
    sorted_lengths = [SEQUENCES[name] for name in ORDER]
    indices = [list(SEQUENCES).index(name) for name in ORDER]
    size_at_t = [sum(length > t for length in lengths) for t in range(STEPS)]
    total = [sum(lengths[:k]) for k in range(len(lengths) + 1)]
    rows: list[Cells] = [[(name, k) for k in range(length)] for name, length in SEQUENCES.items()]
    rest: list[Cells] = [[("", 0)] * (STEPS - len(row)) for row in rows]
    steps: list[Cells] = [[(name if t < SEQUENCES[name] else "", t) for name in ORDER] for t in range(STEPS)]
    first, second, third = 28, 290, 612  # left edges of the panels

    top, cells = 42, 84
    p.title(first, top, "List", "an array for each")
    for k, row in enumerate(rows):
        p.row(first, cells + k * (LINE + 8), row)

    p.title(second, top, "Ragged", "one flat array")
    x = second + 80
    p.row(x, cells, FLAT)
    p.text(second, cells + LINE + 27, "lengths", "quiet")
    p.braces(x, cells + LINE + 7, lengths)
    p.text(second, cells + LINE + 60, "offsets", "quiet")
    p.offsets(x, cells + LINE + 40, total, total)

    p.title(third, top, "LoD", "nested, here {a, b} and {c}")
    x = third + 66
    p.row(x, cells, FLAT)
    p.text(third, cells + LINE + 27, "lod[1]", "quiet")
    p.offsets(x, cells + LINE + 7, total, total)
    p.text(third, cells + LINE + 60, "lod[0]", "quiet")
    p.offsets(x, cells + LINE + 40, [total[0], total[2], total[3]], [0, 2, 3])

    top, cells = 246, 308
    p.title(first, top, "Padded", "time-major, longest first")
    x = first + 80
    p.down(first, cells, [f"t = {t}" for t in range(STEPS)], "quiet")
    for t, row in enumerate(steps):
        p.row(x, cells + t * LINE, row)
    p.text(x + len(ORDER) * CELL + 44, cells - 9, "size_at_t", "quiet middle")
    p.down(x + len(ORDER) * CELL + 44, cells, size_at_t)
    for line, (label, values) in enumerate((("lengths", sorted_lengths), ("indices", indices))):
        p.text(first, cells + STEPS * LINE + 21 + 20 * line, label, "quiet")
        p.across(x, cells + STEPS * LINE + 21 + 20 * line, values)

    p.title(second, top, "Packed", "Padded without its padding")
    x = second + 80
    p.row(x, cells, [cell for row in steps for cell in row if cell[0]])
    p.text(second, cells + LINE + 27, "size_at_t", "quiet")
    p.braces(x, cells + LINE + 7, size_at_t)
    for line, (label, values) in enumerate((("lengths", sorted_lengths), ("indices", indices))):
        p.text(second, cells + LINE + 54 + 20 * line, label, "quiet")
        p.across(x, cells + LINE + 54 + 20 * line, values)

    p.title(third, top, "Masked", "a row for each, padded on one side")
    x = third + STEPS * CELL + 14
    for k, row in enumerate(rows):
        p.row(third, cells + k * LINE, row + rest[k])
        p.row(x, cells + k * LINE, rest[k] + row)
    below = cells + len(rows) * LINE + 21
    p.text(third + STEPS * CELL / 2, below, 'side="right"', "quiet middle")
    p.text(x + STEPS * CELL / 2, below, 'side="left"', "quiet middle")
    p.text(WIDTH - 24, cells - 9, "lengths", "quiet end")
    p.down(WIDTH - 34, cells, lengths)

    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'role="img" aria-labelledby="title">\n'
        '<title id="title">Three sequences of 2, 4 and 1 items, laid out as List, Ragged, LoD, Padded, Packed and '
        "Masked</title>\n"
        f"<style>{STYLE}</style>\n"
        '<defs><pattern id="padding" width="6" height="6" patternUnits="userSpaceOnUse" '
        'patternTransform="rotate(45)"><path d="M0 0V6" class="hatch" stroke-width="2"/></pattern></defs>\n'
        f'<rect x="0.5" y="0.5" width="{WIDTH - 1}" height="{HEIGHT - 1}" rx="8" class="paper"/>\n'
    )
    return head + "\n".join(p.parts) + "\n</svg>\n"


def main() -> int:
    path = Path(__file__).with_name("layouts.svg")
    if "--check" in sys.argv[1:]:
        same = path.exists() and path.read_text(encoding="utf-8") == draw()
        print(f"{path.name} is {'up to date' if same else 'out of date: run python docs/make_layouts.py'}")
        return 0 if same else 1
    path.write_text(draw(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
