"""Times, ratios and tables as Markdown."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence


def span(seconds: float) -> str:
    """A time with three digits and its unit."""
    for unit, factor in (("s", 1), ("ms", 1e3), ("µs", 1e6)):
        if seconds * factor >= 1 or unit == "µs":
            value = seconds * factor
            digits = max(0, 2 - math.floor(math.log10(value))) if value >= 0.01 else 2
            return f"{value:.{min(digits, 2)}f} {unit}"
    raise AssertionError


def ratio(value: float | None) -> str:
    """A ratio with two decimals; nothing where there is none."""
    return "" if value is None else f"{value:.2f}" if value < 9.95 else f"{value:.0f}"


def spread(t: dict[str, float]) -> str:
    """Minimum, where it was kept, then median and quartiles."""
    least = f"{span(t['min'])}; " if "min" in t else ""
    return f"{least}{span(t['median'])} ({span(t['low'])} to {span(t['high'])})"


def threads_of(cell: dict) -> str:
    """The word for the number of threads of a cell."""
    return "one" if cell["threads"] == 1 else "default"


def listed(names: Sequence[str]) -> str:
    """Names as code, with commas, each once."""
    return ", ".join(f"`{name}`" for name in dict.fromkeys(names))


def table(head: Iterable[str], rows: Iterable[Iterable[str]], left: int = 1) -> list[str]:
    """A table; the first `left` columns stand on the left, the others, numbers, on the right."""
    head = list(head)
    rule = ["---" if k < left else "---:" for k in range(len(head))]
    return ["| " + " | ".join(row) + " |" for row in [head, rule, *map(list, rows)]]
