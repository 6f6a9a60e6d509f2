"""Searches: the tree of tokens that a beam search has kept, and when the tokens of a CTC search begin."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ..arrays import Array
from ..errors import INDEX, KIND, TOGETHER, quote
from ..formats.annotations import Given
from ..formats.structure import whole
from .canvas import ITEMS_COLOUR, LINE_COLOUR, PADDING_COLOUR, SECOND_COLOUR, Axes, axes, bare, on_host

_STEPS, _ROWS = 48, 64  # drawn at most
_HYPOTHESES, _TOKENS = 32, 256
_WORD = 12  # letters of a token
Words = Callable[[int], object] | Mapping[int, object] | Sequence[object] | None
"""What turns the number of a token into a text; None writes the number."""


class _Node(NamedTuple):
    """A token that a step has kept."""

    token: int
    parent: int  # its place in the step before


def lattice(result: Given, source: int = 0, *, words: Words = None, copy: bool = False, ax: Axes | None = None) -> Axes:
    """The tokens that each step of a beam search has kept, each joined with the one that it follows.

    Parameters
    ----------
    result : BeamResult
        The result of a search with ``trace=True``.  At most 48 steps are drawn, and 64 tokens of each.
    source : int
        The source whose search is drawn.
    words : function, mapping or sequence, optional
        What a token is called, by its number; the number without it.
    copy : bool
        Bring a trace that is on a GPU to the host, which waits for the device; else it is refused.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure without it.

    Returns
    -------
    matplotlib.axes.Axes
        Steps go to the right; the best hypothesis is coloured.

    Raises
    ------
    ConversionError
        Where there is no trace.
    IndexError
        For a source that is not there.
    DeviceError
        For a trace on a GPU, without ``copy=True``.
    TypeError
        For what is no result of a search.
    ModuleNotFoundError
        Where there is no matplotlib.

    See Also
    --------
    seqformats.BeamTrace : What is drawn.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> table = np.log([[0.1, 0.5, 0.4], [0.6, 0.3, 0.1], [0.9, 0.05, 0.05]])
    >>> found = sf.beam_search(
    ...     lambda state: (table[state.tokens], None), None, start=np.array([1]), end=0, beam_size=2,
    ...     max_new_tokens=5, trace=True)
    >>> ax = sf.plot.lattice(found, words=["</s>", "a", "b"])
    >>> sorted({text.get_text() for text in ax.texts})
    ['</s>', 'a', 'b']
    """
    if not hasattr(result, "trace") or not hasattr(result, "token_scores"):
        raise KIND(f"lattice draws the result of sf.beam_search, not {quote(result)}")
    if result.trace is None:
        raise TOGETHER("lattice draws the trace of a search; give trace=True to beam_search")
    tokens = _hypotheses(result, source, copy)
    steps = _steps(result.trace, source, copy)
    best = _path(steps, tokens[0].tolist() if tokens else [])
    ax = axes(ax, 1.2 + 0.9 * min(len(steps), 12), 0.8 + 0.45 * max((len(step) for step in steps), default=1))
    places = [_spread(len(step)) for step in steps]
    for t, step in enumerate(steps):
        for j, node in enumerate(step):
            on = best[t] == j if t < len(best) else False
            if t:
                ends = [places[t - 1][node.parent], places[t][j]]
                ax.plot(
                    [t - 1, t],
                    ends,
                    color=SECOND_COLOUR if on else LINE_COLOUR,
                    linewidth=2 if on else 0.8,
                    zorder=1 + on,
                )
            box = {
                "boxstyle": "round,pad=0.25",
                "facecolor": SECOND_COLOUR if on else ITEMS_COLOUR,
                "edgecolor": LINE_COLOUR,
                "linewidth": 0.5,
            }
            ax.text(
                t, places[t][j], _word(node.token, words), ha="center", va="center", color="black", bbox=box, zorder=3
            )
    high = max((len(step) - 1 for step in steps), default=0) / 2
    ax.set(xlim=(-0.5, max(len(steps), 1) - 0.5), ylim=(high + 0.7, -high - 0.7), xlabel="step")
    ax.set_xticks(range(len(steps)))
    ax.set_yticks([])
    bare(ax)
    cut = len(steps) < len(result.trace.ids)
    drawn = f", of which {len(steps)} are drawn" if cut else ""
    ax.set_title(f"source {source}: {len(result.trace.ids) - 1} steps{drawn}", loc="left", fontsize="medium")
    return ax


def _spread(count: int) -> Array:
    return np.arange(count) - (count - 1) / 2


def _hypotheses(result: Given, source: object, copy: bool) -> list[Array]:
    """The tokens of each hypothesis of a source, best first."""
    number = _source(source, len(result.tokens))
    outer, inner = (np.asarray(offsets) for offsets in result.tokens.lod)
    data = on_host(result.tokens.data, "the result", copy)
    first, last = outer[number], outer[number + 1]
    return [data[inner[k] : inner[k + 1]] for k in range(first, min(last, first + _HYPOTHESES))]


def _source(source: object, n: int) -> int:
    number = whole(source, "source")
    if not 0 <= number < n:
        raise INDEX(f"there is no source {quote(source)}; there are {n}")
    return number


def _steps(trace: Given, source: int, copy: bool) -> list[list[_Node]]:
    """Rows that each step has kept of a source, in the order of the trace, in which the next step counts them."""
    found: list[list[_Node]] = []
    for step in list(trace.ids)[:_STEPS]:
        outer, inner = (np.asarray(offsets) for offsets in step.lod)
        a, b = outer[source], outer[source + 1]  # the rows of the step before
        counts = inner[a + 1 : b + 1] - inner[a:b]
        ids = on_host(step.data, "the trace", copy)[inner[a] : inner[b]].tolist()
        parents = np.repeat(np.arange(b - a), counts).tolist()
        kept = [_Node(token, parent) for token, parent in zip(ids, parents, strict=True)]
        found.append([node for node in kept if node.parent < _ROWS][:_ROWS])
        if not kept:
            break
    while found and not found[-1]:
        found.pop()
    return found


def _path(steps: list[list[_Node]], tokens: list[int]) -> list[int]:
    """The place of each token of a hypothesis in its step, the start before them."""
    at = [0] if steps and steps[0] else []
    for step, token in zip(steps[1:], tokens, strict=False):
        places = [j for j, node in enumerate(step) if node == (token, at[-1])]
        if not at or not places:
            break
        at.append(places[0])
    return at


def _word(token: int, words: Words) -> str:
    """A token as it is written, not all of a long one."""
    if words is None:
        return str(token)
    try:
        text = str(words(token) if callable(words) else words[token])
    except (IndexError, KeyError):
        text = str(token)
    return text if len(text) <= _WORD else f"{text[: _WORD - 1]}…"


def prefixes(
    result: Given, source: int = 0, *, words: Words = None, copy: bool = False, ax: Axes | None = None
) -> Axes:
    """The n best labels of a CTC search over the frames, each token where it begins.

    Parameters
    ----------
    result : CTCResult
        Of `seqformats.ctc_beam_search` or `seqformats.ctc_greedy`.  At most 32 labels of 256 tokens are drawn.
    source : int
        The source whose labels are drawn.
    words : function, mapping or sequence, optional
        What a token is called, by its number; the number without it.
    copy : bool
        Bring a result that is on a GPU to the host, which waits for the device; else it is refused.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure without it.

    Returns
    -------
    matplotlib.axes.Axes
        A line a label, the best on top, with its score.

    Raises
    ------
    IndexError
        For a source that is not there.
    DeviceError
        For a result on a GPU, without ``copy=True``.
    TypeError
        For what is no result of CTC.
    ModuleNotFoundError
        Where there is no matplotlib.

    See Also
    --------
    seqformats.CTCResult : What is drawn.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> frames = np.log([[0.2, 0.7, 0.1], [0.6, 0.3, 0.1], [0.2, 0.1, 0.7]])
    >>> found = sf.ctc_beam_search(sf.Ragged(frames, [3]), beam_size=4, n_best=2)
    >>> ax = sf.plot.prefixes(found, words="-ab")
    >>> [text.get_text() for text in ax.texts][:2]
    ['a', 'b']
    """
    if not hasattr(result, "times") or not hasattr(result, "path_scores"):
        raise KIND(f"prefixes draws the result of sf.ctc_beam_search or sf.ctc_greedy, not {quote(result)}")
    number = _source(source, len(result.tokens))
    levels = [np.asarray(level.offsets) for level in result.tokens._levels]
    inner = levels[-1]
    first, last = map(int, levels[0][number : number + 2]) if len(levels) > 1 else (number, number + 1)
    tokens, times = (on_host(x.data, "the result", copy) for x in (result.tokens, result.times))
    scores = on_host(result.scores, "the result", copy)
    shown = range(first, min(last, first + _HYPOTHESES))
    ax = axes(ax, height=0.9 + 0.4 * max(len(shown), 1))
    latest = 0
    for line, k in enumerate(shown):
        places = range(inner[k], min(inner[k + 1], inner[k] + _TOKENS))
        at = [int(times[place]) for place in places]
        latest = max([latest, *at])
        ax.axhline(line, color=PADDING_COLOUR, linewidth=1, zorder=0)
        box = {
            "boxstyle": "round,pad=0.2",
            "facecolor": ITEMS_COLOUR if line else SECOND_COLOUR,
            "edgecolor": LINE_COLOUR,
            "linewidth": 0.5,
        }
        for time, place in zip(at, places, strict=True):
            ax.text(time, line, _word(int(tokens[place]), words), ha="center", va="center", color="black", bbox=box)
    ax.set(xlim=(-0.7, latest + 0.7), ylim=(max(len(shown), 1) - 0.4, -0.6), xlabel="frame")
    ax.set_yticks(range(len(shown)), [f"{float(scores[k]):.2f}" for k in shown])
    ax.xaxis.get_major_locator().set_params(integer=True)
    bare(ax)
    drawn = f", of which {len(shown)} are drawn" if len(shown) < last - first else ""
    ax.set_title(
        f"source {number}: {last - first} label{'s' * (last - first != 1)}{drawn}", loc="left", fontsize="medium"
    )
    return ax
