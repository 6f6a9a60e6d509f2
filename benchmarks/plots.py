"""The pictures of the report, as SVG that follows the reader's light or dark."""

from __future__ import annotations

import math
from typing import Any

STYLE = """
  .paper { fill: #ffffff; stroke: #d0d7de } .text { fill: #1f2328 } .quiet { fill: #59636e }
  .grid { stroke: #d0d7de; fill: none } .one { stroke: #1f2328; fill: none; stroke-dasharray: 4 3 }
  .c0 { fill: #0969da; stroke: #0969da } .c1 { fill: #bc4c00; stroke: #bc4c00 } .c2 { fill: #1a7f37; stroke: #1a7f37 }
  .c3 { fill: #8250df; stroke: #8250df } .c4 { fill: #bf3989; stroke: #bf3989 } .c5 { fill: #9a6700; stroke: #9a6700 }
  .c6 { fill: #0a7c86; stroke: #0a7c86 } .c7 { fill: #59636e; stroke: #59636e }
  @media (prefers-color-scheme: dark) {
    .paper { fill: #0d1117; stroke: #3d444d } .text { fill: #f0f6fc } .quiet { fill: #9198a1 }
    .grid { stroke: #3d444d } .one { stroke: #f0f6fc }
    .c0 { fill: #4493f8; stroke: #4493f8 } .c1 { fill: #f0883e; stroke: #f0883e } .c2 { fill: #3fb950; stroke: #3fb950 }
    .c3 { fill: #ab7df8; stroke: #ab7df8 } .c4 { fill: #db61a2; stroke: #db61a2 } .c5 { fill: #d29922; stroke: #d29922 }
    .c6 { fill: #39c5cf; stroke: #39c5cf } .c7 { fill: #9198a1; stroke: #9198a1 }
  }
  text { font: 12px system-ui, "Segoe UI", "DejaVu Sans", sans-serif; }
  .name { font-weight: 700; font-size: 15px } .middle { text-anchor: middle } .end { text-anchor: end }
  .line { fill: none; stroke-width: 2 } .dot { stroke: none; fill-opacity: 0.75 }
"""


class Picture:
    """SVG elements, drawn one after the other."""

    def __init__(self, width: int, height: int, title: str) -> None:
        self.width, self.height, self.title = width, height, title
        self.parts: list[str] = []
        self.text(24, 32, title, "name text")

    def text(self, x: float, y: float, words: object, kind: str = "text") -> None:
        escaped = str(words).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        self.parts.append(f'<text x="{x:g}" y="{y:.6g}" class="{kind}">{escaped}</text>')

    def path(self, d: str, kind: str) -> None:
        self.parts.append(f'<path d="{d}" class="{kind}"/>')

    def dot(self, x: float, y: float, kind: str, words: str) -> None:
        self.parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" class="dot {kind}"><title>{words}</title></circle>')

    def __str__(self) -> str:
        title = self.title.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{self.width}" height="{self.height}" '
            f'viewBox="0 0 {self.width} {self.height}" role="img" aria-labelledby="title">\n'
            f'<title id="title">{title}</title>\n<style>{STYLE}</style>\n'
            f'<rect x="0.5" y="0.5" width="{self.width - 1}" height="{self.height - 1}" rx="8" class="paper"/>\n'
            + "\n".join(self.parts)
            + "\n</svg>\n"
        )


def decades(low: float, high: float) -> range:
    """The powers of ten that hold these numbers."""
    return range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)


def ratios(cells: list[dict[str, Any]], title: str) -> Picture | None:
    """A line an operation, a dot a cell: time of the fastest peer over ours, one thread, on a logarithmic axis."""
    cells = [cell for cell in cells if "ratio" in cell and cell["threads"] == 1]
    if not cells:
        return None
    names = list(dict.fromkeys(cell["operation"] for cell in cells))
    shapes = list(dict.fromkeys(cell["shape"] for cell in cells))
    left, right, top, row = 250, 30, 84, 20
    p = Picture(920, top + row * len(names) + 44, f"{title}: time of the fastest peer over ours, one thread")
    x = 24.0
    for k, shape in enumerate(shapes):
        p.dot(x, 54, f"c{k % 8}", shape)
        p.text(x + 8, 58, shape, "quiet")
        x += 26 + 7 * len(shape)
    low = min(0.5, *(cell["ratio"] for cell in cells))
    high = max(10.0, *(cell["ratio"] for cell in cells))
    ends = math.log10(low) - 0.05, math.log10(high) + 0.05
    bottom = top + row * len(names)

    def at(value: float) -> float:
        return left + (math.log10(value) - ends[0]) / (ends[1] - ends[0]) * (p.width - left - right)

    ticks = [m * 10.0**k for k in decades(low, high) for m in (1, 2, 5) if low <= m * 10.0**k <= high]
    for tick in ticks:
        p.path(f"M{at(tick):.1f} {top - 8}V{bottom}", "one" if tick == 1 else "grid")
        p.text(at(tick), bottom + 18, f"{tick:g}x", "quiet middle")
    for k, name in enumerate(names):
        y = top + row * k + row / 2
        p.text(left - 12, y + 4, name, "text end")
        for cell in cells:
            if cell["operation"] == name:
                words = f"{name}, {cell['shape']}, {cell['arrays']} arrays: {cell['ratio']:.2f} x {cell['best peer']}"
                words = words.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
                p.dot(at(cell["ratio"]), y, f"c{shapes.index(cell['shape']) % 8}", words)
    return p


def families(cells: list[dict[str, Any]], titles: dict[str, str], even: float) -> Picture | None:
    """A bar a family: the geometric mean of its ratios, and in how many of its cells a peer is faster than `even`."""
    found: dict[str, list[float]] = {}
    for cell in cells:
        if "ratio" in cell:
            found.setdefault(titles[cell["family"]], []).append(cell["ratio"])
    if not found:
        return None
    means = {name: math.exp(sum(map(math.log, ratios)) / len(ratios)) for name, ratios in found.items()}
    left, top, row, width = 330, 76, 26, 350
    p = Picture(920, top + row * len(means) + 20, "How many times as long the fastest other library takes")
    p.text(
        24, 54, "geometric means of all cells of a family, and the cells in which another library is faster", "quiet"
    )
    scale = width / max(*means.values(), 2)
    for k, (name, mean) in enumerate(sorted(means.items(), key=lambda item: -item[1])):
        y, lost = top + row * k, sum(ratio < even for ratio in found[name])
        p.text(left - 12, y + 15, name, "text end")
        p.path(f"M{left} {y + 3}h{mean * scale:.1f}v15h{-mean * scale:.1f}z", "c0 dot")
        p.text(left + mean * scale + 8, y + 15, f"{mean:.1f}", "text")
        p.text(900, y + 15, f"{lost or 'none'} of {len(found[name])} lost", "quiet end")
    p.path(f"M{left + scale:.1f} {top - 4}v{row * len(means) + 8}", "one")
    return p


def lines(title: str, across: str, up: str, series: dict[str, list[tuple[float, float]]], square: bool) -> Picture:
    """Lines over two axes, both logarithmic, or both plain where `square`."""
    left, top, width, height = 76, 60, 560, 330
    p = Picture(920, top + height + 62, title)
    xs = [x for points in series.values() for x, _ in points]
    ys = [y for points in series.values() for _, y in points]

    def places(values: list[float]) -> tuple[float, float, list[float]]:
        if square:
            most = max(*values, 1)
            step = max(1, math.ceil(most / 8))
            return 0, most * 1.05, [float(k) for k in range(0, math.ceil(most) + 1, step)]
        ticks = [10.0**k for k in decades(min(values), max(values))]
        return math.log10(ticks[0]), math.log10(ticks[-1]), ticks

    x0, x1, x_ticks = places(xs)
    y0, y1, y_ticks = places(ys)

    def scale(value: float) -> float:
        return value if square else math.log10(value)

    def at(x: float, y: float) -> tuple[float, float]:
        across = left + (scale(x) - x0) / (x1 - x0) * width
        return across, top + height - (scale(y) - y0) / (y1 - y0) * height

    for tick in x_ticks:
        x, _ = at(tick, y_ticks[0] or 1 if not square else 0)
        if x <= left + width + 1:
            p.path(f"M{x:.1f} {top}V{top + height}", "grid")
            p.text(x, top + height + 18, f"{tick:,.0f}", "quiet middle")
    for tick in y_ticks:
        y = top + height - (scale(tick) - y0) / (y1 - y0) * height
        if y >= top - 1:
            p.path(f"M{left} {y:.1f}H{left + width}", "grid")
            p.text(left - 8, y + 4, f"{tick:g}", "quiet end")
    p.text(left + width / 2, top + height + 42, across, "quiet middle")
    p.text(24, 52, up, "quiet")
    for k, (name, points) in enumerate(series.items()):
        d = "M" + "L".join("{:.1f} {:.1f}".format(*at(x, y)) for x, y in points)
        p.parts.append(f'<path d="{d}" class="c{k % 8} line" style="fill: none"/>')
        y = top + 14 + 22 * k
        p.parts.append(f'<path d="M{left + width + 20} {y - 4}h24" class="c{k % 8} line" style="fill: none"/>')
        p.text(left + width + 52, y, name)
    return p


def growth(found: list[dict[str, Any]]) -> Picture:
    series = {
        name: [(row["sequences"], 1e3 * row["times"][name]["median"]) for row in found] for name in found[0]["times"]
    }
    return lines("Growth with the batch, one thread", "sequences", "milliseconds", series, square=False)


def threads(found: list[dict[str, Any]]) -> Picture:
    """How often faster than with one thread."""
    shape = found[-1]["shape"]
    rows = [row for row in found if row["shape"] == shape]
    series = {}
    for name in rows[0]["times"]:
        if name == "plain pass (NumPy)":  # has one thread
            continue
        alone = rows[0]["times"][name]["median"]
        series[name] = [(row["threads"], alone / row["times"][name]["median"]) for row in rows]
    return lines(f'Threads, the batch "{shape}"', "threads", "times as fast as one thread", series, square=True)


def draw(results: dict[str, Any], titles: dict[str, str]) -> dict[str, Picture]:
    """The pictures by name: of each family that has a peer, in the order of the titles, of growth and of threads."""
    found: dict[str, Picture] = {}
    for family, title in titles.items():
        picture = ratios([cell for cell in results["cells"] if cell["family"] == family], title)
        if picture is not None:
            found[family] = picture
    if results.get("growth"):
        found["growth"] = growth(results["growth"])
    if results.get("threads"):
        found["threads"] = threads(results["threads"])
    return found
