"""The log-probability of labels by all their paths: the forward pass of connectionist temporal classification.

`x` holds the frames in any layout, see `Layout`, each of ``labels.width`` log-probabilities or logits.  Source i has
the labels ``labels.firsts[i]`` to ``labels.firsts[i + 1]``, label j the tokens
``labels.tokens[labels.cum[j]:labels.cum[j + 1]]``, which are not the blank.  ``out`` gets a number for each label, -inf
where no path has it.

A path goes through the states of its label, from one to the next, or over a blank between two tokens that differ
(Graves, Fernandez, Gomez and Schmidhuber 2006, "Connectionist Temporal Classification", 4.1).  ``room`` has
``2 * tokens + 2`` places for each label: of L tokens the L + 1 blanks, k the one before token k; -inf; the tokens.
``logs`` has a place for each frame: what all its tokens have together.
"""

import math
from typing import TYPE_CHECKING

from ..ctc.rows import ScoredLabels
from .parts import (
    CALCULATES,
    Array,
    KernelSpec,
    Layout,
    along,
    compiled,
    exp,
    locate,
    pointer,
    shared,
)
from .parts.prefixes import log_add

if TYPE_CHECKING:  # put among the globals before the kernel is compiled
    from .parts.gpu import gpu


@shared
def add_frame(x: Array, labels: ScoredLabels, room: Array, base: int, j: int, frame: int) -> None:
    """Go over a frame with all states of label j, from the last one to the first: each needs those before it."""
    first = labels.cum[j]
    count = labels.cum[j + 1] - first
    silent = x[frame + labels.blank]
    blanks, tokens = base, base + count + 2
    for k in range(count, -1, -1):
        if k < count:
            token = labels.tokens[first + k]
            value = log_add(room[tokens + k], room[blanks + k])
            if k > 0 and labels.tokens[first + k - 1] != token:
                value = log_add(value, room[tokens + k - 1])
            # the blank behind this token is done, and the token before it is yet to come
            room[tokens + k] = value + x[frame + token]
        if k > 0:
            room[blanks + k] = log_add(room[blanks + k], room[tokens + k - 1]) + silent
        else:
            room[blanks] += silent


@shared
def score_labels(x: Array, labels: ScoredLabels, out: Array, room: Array, logs: Array, at: Layout, u: int) -> None:
    """All labels of a source."""
    i, begin, length = locate(at, u)
    width = labels.width
    if labels.logits > 0:
        for t in range(length):
            frame = (begin + along(at, t)) * width
            top = x[frame]
            for c in range(1, width):
                top = x[frame + c] if x[frame + c] > top else top
            logs[at.cum[i] + t] = 0
            if top > -math.inf:
                for c in range(width):
                    logs[at.cum[i] + t] += exp(x[frame + c] - top)
                logs[at.cum[i] + t] = math.log(logs[at.cum[i] + t]) + top
    for j in range(labels.firsts[i], labels.firsts[i + 1]):
        count = labels.cum[j + 1] - labels.cum[j]
        base = 2 * (labels.cum[j] + j)
        for k in range(2 * count + 2):
            room[base + k] = -math.inf
        room[base] = 0
        total = room[base]
        for t in range(length):
            add_frame(x, labels, room, base, j, (begin + along(at, t)) * width)
            if labels.logits > 0:
                total -= logs[at.cum[i] + t]
        value = room[base + count]
        if count > 0:
            value = log_add(value, room[base + 2 * count + 1])
        out[j] = value + total


@compiled
def cpu(
    x: Array,
    labels: ScoredLabels,
    out: Array,
    room: Array,
    logs: Array,
    at: Layout,
    width: int,  # noqa: ARG001  every kernel that calculates has a width
    lo: int,
    hi: int,
) -> None:
    """Units `lo` to `hi`."""
    labels, at = pointer(labels), pointer(at)
    for u in range(lo, hi):
        score_labels(x, labels, out, room, logs, at, u)


def cuda(
    x: Array,
    labels: ScoredLabels,
    out: Array,
    room: Array,
    logs: Array,
    at: Layout,
    width: int,  # noqa: ARG001  every kernel that calculates has a width
) -> None:
    """All units, a thread each."""
    u = gpu.blockIdx.x * gpu.blockDim.y + gpu.threadIdx.y
    while u < at.cum.size - 1:
        score_labels(x, labels, out, room, logs, at, u)
        u += gpu.gridDim.x * gpu.blockDim.y


_KINDS = ("f8", "f8", "f8")  # in the order of the arguments
KERNEL = KernelSpec(cpu, cuda, CALCULATES, "units", (("f4", *_KINDS), ("f8", *_KINDS)), 1 << 20)
