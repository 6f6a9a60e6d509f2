"""Calls of every public operation with arguments of every odd kind: a documented error, or a valid result.

A call depends on its seed and number alone: ``python tests/hostile.py SEED CALL`` repeats one and shows its traceback,
``python tests/hostile.py SEED FIRST LAST`` makes several.  `failures` makes them in processes with little memory, and
names those that crash, or take longer than `PATIENCE`.  A word ``torch`` behind draws tensors, too.
"""

import contextlib
import faulthandler
import io
import linecache
import os
import pathlib
import re
import resource
import subprocess
import sys
import traceback
import warnings

import example_encoding
import numba
import numpy as np
import odd_values
from odd_values import (
    ENCODINGS,
    array,
    batch,
    empty,
    function,
    given,
    integers,
    lengths,
    nested,
    odd,
    options,
    pick,
    plain,
    several,
    small,
    target,
)

import seqformats as sf
from seqformats.gradients.operation import operand
from seqformats.operations import reduce

ROOM = 3 << 30  # bytes of address space for a process
PATIENCE = float(
    os.environ.get("SEQFORMATS_FUZZ_PATIENCE", "120")
)  # seconds for one call, after which it is said to hang
HERE = pathlib.Path(__file__)
OURS = (str(HERE), odd_values.__file__)
SOURCES = str(pathlib.Path(sf.__file__).parent)
KINDS = (sf.SeqFormatError, TypeError, IndexError, MemoryError)


# -------------------------------------------------------------------------------------------------- the calls


def index(rng):
    way = int(rng.integers(5))
    if way == 0:
        return small(rng)
    if way == 1:
        return slice(*[pick(rng, [None, -1, 0, 1, 2]) for _ in range(3)])
    if way == 2:
        return [bool(k) for k in rng.integers(0, 2, small(rng))]
    return integers(rng)


def wrapped(rng, wrapper, **more):
    wrap = wrapper(given(rng, function), **more)
    return wrap(*[given(rng, batch) for _ in range(int(rng.integers(1, 3)))])


def differentiated(rng):
    op, args, more = pick(rng, list(DIFFERENTIABLE))(rng)
    y, pullback = sf.vjp(op, *args, **more)
    return pullback(y if rng.integers(3) else given(rng, batch))


def nested_lengths(rng):
    return [integers(rng) for _ in range(small(rng))]


def some(rng, makers):
    """A few of these options, each made or odd."""
    return {name: given(rng, make) for name, make in makers.items() if rng.integers(3) == 0}


def mask_options(rng):
    makers = {
        "rate": lambda rng: 0.5,
        "special": pick(rng, [integers, batch]),
        "whole": pick(rng, [lambda rng: True, batch]),
        "spans": lambda rng: pick(rng, [None, 2.5]),
        "split": lambda rng: (0.5, 0.25, 0.25),
        "ignore": small,
    }
    every = {"mask_id": small, "seed": small, "vocabulary": pick(rng, [lambda rng: 99, integers])}
    return {**{name: given(rng, make) for name, make in every.items()}, **some(rng, makers)}


def sight(rng):
    """Options of attention."""
    every = {
        "causal": lambda rng: True,
        "scale": lambda rng: 0.5,
        "window": lambda rng: pick(rng, [small(rng), (small(rng), None)]),
    }
    return {name: given(rng, maker) for name, maker in every.items() if rng.random() < 0.3}


def loss_options(rng):
    makers = {
        "ignore": small,
        "label_smoothing": lambda rng: 0.5,
        "reduction": lambda rng: pick(rng, ["none", "sequence", "mean"]),
    }
    return some(rng, makers)


def scores(rng, rows, width):
    x = rng.standard_normal((rows, width)).astype(pick(rng, ["f4", "f8", "f2"]))
    if rng.integers(6) == 0 and x.size:
        x.reshape(-1)[int(rng.integers(x.size))] = pick(rng, [np.nan, np.inf, -np.inf])
    return x


def constraint(rng):
    return pick(
        rng,
        [
            lambda: sf.AllowedTokens(given(rng, lambda rng: [lengths(rng) for _ in range(small(rng))])),
            lambda: sf.ForcedPrefix(given(rng, integers)),
            lambda: sf.ForcedTokens(given(rng, lambda rng: {small(rng): small(rng)})),
            lambda: sf.BannedTokens(given(rng, integers)),
            lambda: sf.NoRepeatNgram(given(rng, small)),
            lambda: sf.RepetitionPenalty(given(rng, lambda rng: 1.5)),
            lambda: sf.SequenceBias(given(rng, lambda rng: {small(rng): 1.5, (small(rng), small(rng)): -0.5})),
            lambda: sf.ExponentialDecayLengthPenalty(given(rng, small), given(rng, lambda rng: 1.5)),
            lambda: sf.ForcedEnd(free=given(rng, lambda rng: True)),
            lambda: sf.LexicalConstraints(given(rng, lambda rng: [[small(rng)] for _ in range(2)])),
            lambda: sf.DiverseGroups(given(rng, lambda rng: 2), given(rng, lambda rng: 0.5)),
            lambda: sf.Trie(given(rng, lambda rng: [lengths(rng) for _ in range(small(rng))])),
        ],
    )()


def pruned(rng):
    names = ("relative", "absolute", "local", "per_parent", "safe")
    return sf.Prune(
        **{name: given(rng, lambda rng: pick(rng, [0.5, 1, True, None])) for name in names if small(rng) == 0}
    )


def sampled(rng):
    if rng.integers(3) == 0:
        return sf.Stochastic(given(rng, small))
    part = lambda rng: float(rng.random())  # noqa: E731
    makers = {
        "temperature": lambda rng: pick(rng, [1e-30, 0.5, 1, 2.0, 1e30]),
        "top_k": lambda rng: 1 + small(rng),
        **dict.fromkeys(("top_p", "min_p", "typical"), part),
        "replacement": lambda rng: bool(rng.integers(2)),
    }
    return sf.Sample(
        given(rng, small), **{name: given(rng, make) for name, make in makers.items() if rng.integers(3) == 0}
    )


def searched(rng):
    sources, width = int(rng.integers(0, 3)), int(rng.integers(1, 6))
    makers = {
        "rule": lambda rng: pick(rng, ["hf", "ct2", "fairseq", "marian", "gnmt", "paddle", "greedy"]),
        "n_best": small,
        "length_penalty": lambda rng: 0.6,
        "early_stopping": lambda rng: pick(rng, [True, False, "never"]),
        "min_new_tokens": small,
        "prune": pruned,
        "sampling": sampled,
        "constraints": lambda rng: [constraint(rng)],
        "shared": lambda rng: plain(rng, (sources, 2)),
        "on_scores": lambda rng: lambda scores, state: scores,
        "on_selected": lambda rng: lambda ids, scores, parents, state: (ids, scores, parents),
        "coverage": lambda rng: 0.5,
        "trace": lambda rng: True,
    }
    chosen = {name: given(rng, make) for name, make in makers.items() if rng.integers(6) == 0}
    if "shared" in chosen:
        chosen["shared"] = plain(rng, (sources, 2), "f4")
    bad = odd(rng) if rng.integers(12) == 0 else None
    attending = lambda rng, rows: given(rng, lambda rng: plain(rng, (rows, 2), "f4"))  # noqa: E731
    keep = (lambda rows: (attending(rng, rows),)) if "coverage" in chosen else (lambda rows: ())
    return sf.beam_search(
        lambda state: (
            scores(rng, len(state.tokens), width) if bad is None else bad,
            state.memory,
            *keep(len(state.tokens)),
        ),
        None,
        start=given(rng, lambda rng: np.zeros(sources, int)),
        end=given(rng, lambda rng: pick(rng, [0, [0, 1]])),
        beam_size=given(rng, lambda rng: int(rng.integers(1, 4))),
        max_new_tokens=int(rng.integers(1, 5))
        if rng.integers(6)
        else pick(rng, [0, -1, 2**31, 2**65, 1.5, None, [1, 2]]),
        **chosen,
    )


def frames(rng):
    """Log-probabilities of a CTC model, some of which are none."""
    x = batch(rng, dtype=pick(rng, ["f2", "f4", "f8"]), item=pick(rng, [(1,), (2,), (2,), (3,)]))
    data = getattr(x, "data", None)
    if type(data) is np.ndarray and data.size and rng.integers(4) == 0:
        data.reshape(-1)[int(rng.integers(data.size))] = pick(rng, [np.nan, np.inf, -np.inf])
    return x


def labelled(rng):
    """The labels of best paths hold tokens that there are, and no blank."""
    x = given(rng, pick(rng, [batch, frames, frames, frames]))
    blank = given(rng, lambda rng: small(rng) - 1)
    found = sf.ctc_greedy(x, blank=blank, **some(rng, {"normalised": lambda rng: bool(rng.integers(2))}))
    width = operand(x).own.item_shape[0]
    tokens, times = (np.asarray(sf.convert(part, sf.LoD).data) for part in (found.tokens, found.times))
    assert 0 <= blank < width >= 2
    assert set(tokens.tolist()) <= {*range(width)} - {int(blank)}
    assert (times >= 0).all()
    return [found.tokens, found.times]


def planned(rng):
    """What a user's own constraint says is refused, or no token that is forbidden comes."""
    numbers = [given(rng, integers) for _ in range(5)]

    class Own(sf.Constraint, sf.beam.Running):
        def begin(self, n, ends):
            return self

        def limit(self, live, plan):
            begin, end, tokens, rows, others = numbers
            plan.allow(begin, end, tokens)
            plan.ban(rows, others)
            plan.change(
                rows, others, factor=float(rng.normal() + 2), addend=float(rng.normal()), divisor=pick(rng, [None, 2.0])
            )

    step = lambda state: (np.zeros((len(state.tokens), 4), "f4"), None)  # noqa: E731
    found = sf.beam_search(step, None, start=[1], end=0, beam_size=2, max_new_tokens=2, constraints=Own())
    return [found.tokens]


def aligned(rng):
    """Paths have a token a frame; their tokens are where they are said to be."""
    x = given(rng, pick(rng, [batch, frames, frames, frames]))
    blank = given(rng, lambda rng: pick(rng, [0, 0, 1, -1]))
    n = 0
    with contextlib.suppress(Exception):  # of what only looks like a batch
        n = min(len(x), 99)
    wrong = [[], [[]], 3, None, [[-1]], [[1 << 70]], [[0.5]], np.zeros((2, 2)), sf.Ragged(np.ones(2, "i4"), [1, 1])]
    targets = given(rng, lambda rng: pick(rng, [[[1] * small(rng) for _ in range(n)], pick(rng, wrong)]))
    found = sf.ctc_align(x, targets, blank=blank, **some(rng, {"normalised": lambda rng: bool(rng.integers(2))}))
    times, ends = (np.asarray(sf.convert(part, sf.LoD).data) for part in (found.times, found.ends))
    assert ((times < ends) | ((times == -1) & (ends == -1))).all()
    assert np.asarray(sf.convert(found.tokens, sf.LoD).data).size == sf.convert(x, sf.LoD).data.shape[0]
    return [found.tokens, found.frame_scores, found.times, found.ends, found.token_scores]


def texts(rng):
    """Words between spaces of all kinds, and half of a pair of surrogates."""
    return [" ".join(rng.choice(["a", "b", "\u00e9", "\ud800", "\t", ""], small(rng)).tolist()) for _ in range(2)]


def lost(rng):
    """A loss is no probability above 1, but where frames are no log-probabilities."""
    x, labels = given(rng, pick(rng, [batch, frames, frames, frames])), []
    with contextlib.suppress(Exception):  # of what only looks like a batch
        labels = [[1] * small(rng) for _ in range(min(len(x), 99))]
    wrong = [[], [[]], 3, None, [[-1]], [[[1]], []], [[1 << 70]], [[0.5]], np.zeros((2, 2)), "ab", {1: 2}]
    options = {
        "blank": lambda rng: pick(rng, [0, 0, 1, -1]),
        "normalised": lambda rng: bool(rng.integers(2)),
        "reduction": lambda rng: pick(rng, ["none", "sum", "mean", "max"]),
        "zero_infinity": lambda rng: bool(rng.integers(2)),
    }
    return sf.ctc_loss(x, given(rng, lambda rng: pick(rng, [labels, labels, pick(rng, wrong)])), **some(rng, options))


def searched_frames(rng):
    """The labels of a search hold tokens that there are, and no blank; no source has more than were asked for."""
    x = given(rng, pick(rng, [batch, frames, frames, frames]))
    blank, beam = given(rng, lambda rng: pick(rng, [0, 0, 1, -1])), given(rng, lambda rng: small(rng) + 1)
    options = {
        "n_best": lambda rng: int(rng.integers(1, 4)),
        "normalised": lambda rng: bool(rng.integers(2)),
        "token_beam": lambda rng: int(rng.integers(0, 4)),
        "token_threshold": lambda rng: float(rng.normal()),
        "threshold": lambda rng: float(rng.normal() + 2),
        "token_bonus": lambda rng: float(rng.normal()),
        "lexicon": lambda rng: pick(rng, [[[1]], [[1, 2], [2]], [], [[1], [1, 2]]]),
        "on_new": lambda rng: lambda state: np.zeros((len(state.tokens), operand(x).own.item_shape[0])),
    }
    options = some(rng, options)
    found = sf.ctc_beam_search(x, blank=blank, beam_size=beam, **options)
    width = operand(x).own.item_shape[0]
    assert 0 <= blank < width >= 2
    assert set(np.asarray(found.tokens.data).tolist()) <= {*range(width)} - {int(blank)}
    assert (np.diff(found.tokens.lod[-2]) <= int(options.get("n_best", 1))).all()
    return [found.tokens, found.times]


def stepped(rng):
    prefixes = [int(rng.integers(0, 3)) for _ in range(small(rng))]
    rows, width = sum(prefixes), int(rng.integers(0, 4))
    lod = [np.cumsum([0, *prefixes]), np.arange(rows + 1)]
    values = sf.LoD(scores(rng, rows, width), lod)
    ids = None if rng.integers(2) else sf.LoD(rng.integers(0, 5, (rows, width)), lod)
    return sf.beam_step(
        given(rng, lambda rng: rng.integers(0, 4, rows)),
        given(rng, lambda rng: scores(rng, rows, 1)[:, 0]),
        given(rng, lambda rng: ids),
        given(rng, lambda rng: values),
        beam_size=given(rng, lambda rng: int(rng.integers(1, 4))),
        end=given(rng, small),
        **options(rng, "accumulated", "level"),
    )


def own(rng):
    """A kernel that fits every call: what it is given beside its batch is an error, or not looked at."""
    asked = {"takes": "items", "gives": "rows", "dtype": "f8", "over": "units"}
    made = {name: given(rng, lambda rng, word=word: word) for name, word in asked.items() if rng.integers(4) == 0}
    return sf.kernel(given(rng, lambda rng: write_nothing), **made)


@numba.njit(nogil=True)  # once for all calls
def write_nothing(*_):
    """A kernel that leaves undefined what it should write."""


def damaged(rng):
    """What a batch is stored as, with some of it changed."""
    found = sf.to_arrays(sf.convert(batch(rng), pick(rng, ENCODINGS)))
    for key in list(found):
        if rng.integers(6) == 0:
            found[key] = given(rng, array)
    return found


DIFFERENTIABLE = [
    lambda rng: (sf.convert, (batch(rng), target(rng)), options(rng)),
    lambda rng: (sf.convert_like, (batch(rng), batch(rng)), {}),
    lambda rng: (getattr(sf, pick(rng, REDUCTIONS)), (batch(rng),), empty(rng)),
    lambda rng: (pick(rng, [sf.softmax, sf.log_softmax, sf.cumsum, sf.reverse, sf.sort]), (batch(rng),), {}),
    lambda rng: (pick(rng, [sf.softmax, sf.log_softmax, sf.cumsum, sf.reverse]), (batch(rng),), {}),
    lambda rng: (sf.reduce_quantile, (batch(rng), [0.5, 0.9]), empty(rng)),
    lambda rng: (sf.reduce_std, (batch(rng),), {"ddof": small(rng), **empty(rng)}),
    lambda rng: (sf.reduce_mean, (batch(rng),), {"weights": batch(rng), **empty(rng)}),
    lambda rng: (sf.window, (batch(rng), small(rng), small(rng)), {}),
    lambda rng: (sf.shuffle, (batch(rng), small(rng)), {}),
    lambda rng: (sf.cross_entropy, (batch(rng), pick(rng, [batch, integers])(rng)), loss_options(rng)),
    lambda rng: (sf.ngrams, (batch(rng), 2), {}),
    lambda rng: (sf.select, (batch(rng), index(rng)), {}),
    lambda rng: (sf.repeat, (batch(rng), small(rng)), {}),
    lambda rng: (sf.expand_as, (plain(rng, (2, 2)), batch(rng, [2, 1])), {}),
    lambda rng: (sf.concat, (several(rng),), {}),
    lambda rng: (sf.concat, ([*several(rng), small(rng), plain(rng, ())],), {}),
    lambda rng: (sf.interleave, (several(rng),), {}),
    lambda rng: (sf.split, (batch(rng, [2, 1]), np.array([True, False, True])), {"keep": pick(rng, KEEP)}),
    lambda rng: (sf.split, (batch(rng, [2, 1]),), {"lengths": [[1, 1], [1]]}),
    lambda rng: (sf.nest, (batch(rng, [2, 1]), [1, 1]), {}),
    lambda rng: (sf.flatten_levels, (batch(rng),), {"outermost": bool(rng.integers(2))}),
    lambda rng: (sf.astype, (batch(rng), pick(rng, ["f4", "f8", "c8", "i4"])), {}),
    lambda rng: (sf.join_batches, (several(rng),), {}),
    lambda rng: (sf.reshape, (batch(rng), 2), {}),
    lambda rng: (sf.topk_mean, (batch(rng), [1, 2]), {}),
    lambda rng: (sf.slice, (batch(rng, [2, 3]), [0, 1], [1, 2]), {}),
    lambda rng: (sf.cut, (batch(rng), small(rng), None, pick(rng, [1, -1, 2])), {}),
    lambda rng: (sf.truncate, (batch(rng), small(rng), pick(rng, ["right", "left", "middle"])), {}),
    lambda rng: (sf.truncate_pair, (batch(rng, [2, 3]), batch(rng, [1, 4]), 4), {}),
    lambda rng: (sf.shift, (batch(rng), small(rng)), {}),
    lambda rng: (sf.chunk, (batch(rng), 3, 1), {"last": pick(rng, LAST)}),
    lambda rng: (sf.unchunk, (sf.chunk(batch(rng), 3, 1), pick(rng, WAYS)), {}),
    lambda rng: (sf.sort_by_length, (batch(rng),), {}),
    lambda rng: (sf.filter, (batch(rng, [2, 1]), [[True, False], [True]]), {}),
    lambda rng: (sf.gather, (batch(rng, [2, 1]), [[0, 1, -1], [0, 0]]), {}),
    lambda rng: (sf.masked_scatter, (batch(rng, [2, 1]), [[True, False], [True]], batch(rng, [1, 1])), {}),
    lambda rng: (sf.put_sequences, (batch(rng, [2, 1]), [1], batch(rng, [3])), {}),
    lambda rng: (sf.topk, (batch(rng), small(rng)), {}),
    lambda rng: (sf.cross, (batch(rng, [2, 1]), batch(rng, [1, 2])), {}),
    lambda rng: (sf.TensorArray.unpack, (batch(rng),), {}),
]
LAST, WAYS = ["keep", "drop", "pad", "shift"], ["first", "mean", "max", "last"]
KEEP = ["end", "start", "drop"]
REDUCTIONS = [f"reduce_{name}" for name in reduce.REDUCTIONS]
EVERY = [sf.softmax, sf.log_softmax, sf.cumsum, sf.reverse, sf.argmax, sf.lengths, sf.segment_ids, sf.cu_seqlens]
EVERY += [sf.sort_by_length, sf.TensorArray.unpack, sf.argmin, sf.run_starts]
CALLS = {
    "Ragged": lambda rng: sf.Ragged(given(rng, array), given(rng, integers)),
    "List": lambda rng: sf.List(given(rng, lambda rng: [array(rng) for _ in range(small(rng))]), given(rng, array)),
    "Padded": lambda rng: sf.Padded(given(rng, array), *[given(rng, integers) for _ in range(3)]),
    "Packed": lambda rng: sf.Packed(given(rng, array), *[given(rng, integers) for _ in range(3)]),
    "Masked": lambda rng: sf.Masked(given(rng, array), given(rng, integers), given(rng, lambda rng: "left")),
    "LoD": lambda rng: sf.LoD(given(rng, array), given(rng, lambda rng: [integers(rng) for _ in range(small(rng))])),
    "Pairs": lambda rng: sf.Pairs(given(rng, batch), given(rng, pick(rng, [batch, array]))),
    "from_offsets": lambda rng: sf.Ragged.from_offsets(given(rng, array), given(rng, integers)),
    "from_row_splits": lambda rng: sf.Ragged.from_row_splits(given(rng, array), given(rng, integers)),
    "from_row_lengths": lambda rng: sf.Ragged.from_row_lengths(given(rng, array), given(rng, integers)),
    "from_value_rowids": lambda rng: sf.Ragged.from_value_rowids(
        given(rng, array), given(rng, integers), given(rng, small)
    ),
    "from_mask": lambda rng: sf.Masked.from_mask(given(rng, array), given(rng, array)),
    "from_lengths": lambda rng: sf.LoD.from_lengths(given(rng, array), [given(rng, integers)]),
    "from_absolute": lambda rng: sf.LoD.from_absolute(given(rng, array), [given(rng, integers)], given(rng, odd)),
    "from_nested": lambda rng: sf.LoD.from_nested(
        given(rng, lambda rng: nested(rng, 3)),
        given(rng, lambda rng: pick(rng, [None, "f4", "U3"])),
        pick(rng, [None, 1, 2, odd(rng)]),
    ),
    "from_torch": lambda rng: sf.Packed.from_torch(odd(rng)),
    "is_valid_lod": lambda rng: sf.is_valid_lod(given(rng, lambda rng: [integers(rng)]), given(rng, small)),
    "sub": lambda rng: sf.LoD(plain(rng, 3), [[0, 1, 2], [0, 2, 3]]).sub(
        given(rng, small), given(rng, small), level=given(rng, small)
    ),
    "convert": lambda rng: sf.convert(given(rng, batch), given(rng, target), **options(rng)),
    "convert_like": lambda rng: sf.convert_like(given(rng, batch), given(rng, batch)),
    "explain": lambda rng: sf.explain(given(rng, target), given(rng, target), given(rng, lambda rng: "cpu")),
    "show": lambda rng: sf.show(given(rng, batch), file=given(rng, lambda rng: io.StringIO())),
    "getitem": lambda rng: sf.convert(batch(rng), pick(rng, ENCODINGS))[given(rng, index)],
    "select": lambda rng: sf.select(given(rng, batch), given(rng, index), given(rng, small)),
    "reduce": lambda rng: sf.reduce(
        given(rng, batch), given(rng, lambda rng: pick(rng, ["max", "average"])), **empty(rng)
    ),
    "reductions": lambda rng: getattr(sf, pick(rng, REDUCTIONS))(given(rng, batch), **empty(rng)),
    "quantile": lambda rng: sf.reduce_quantile(
        given(rng, batch),
        given(rng, lambda rng: pick(rng, [0.5, [0, 0.3, 1]])),
        interpolation=given(rng, lambda rng: pick(rng, ["linear", "nearest"])),
        **empty(rng),
    ),
    "var": lambda rng: sf.reduce_var(given(rng, batch), ddof=given(rng, small), **empty(rng)),
    "weighted": lambda rng: pick(rng, [sf.reduce_sum, sf.reduce_mean])(
        given(rng, batch), weights=given(rng, pick(rng, [batch, array])), **empty(rng)
    ),
    "every": lambda rng: pick(rng, EVERY)(given(rng, batch)),
    "own": lambda rng: pick(rng, [list, repr, len, np.asarray])(sf.convert(batch(rng), pick(rng, ENCODINGS))),
    "lengths": lambda rng: sf.lengths(given(rng, batch), given(rng, small)),
    "expand": lambda rng: sf.expand(
        given(rng, pick(rng, [batch, array])), given(rng, batch), **options(rng, "level", "out")
    ),
    "expand_as": lambda rng: sf.expand_as(
        given(rng, pick(rng, [batch, array])), given(rng, batch), **options(rng, "out")
    ),
    "repeat": lambda rng: sf.repeat(given(rng, pick(rng, [batch, array])), given(rng, integers), **options(rng, "out")),
    "concat": lambda rng: sf.concat(given(rng, several)),
    "concat_items": lambda rng: sf.concat(
        [given(rng, small), *several(rng), given(rng, pick(rng, [array, small, odd])), given(rng, odd)]
    ),
    "interleave": lambda rng: sf.interleave(given(rng, several)),
    "Template": lambda rng: sf.Template(
        given(rng, lambda rng: [small(rng), "a", "b", small(rng)]),
        pick(rng, [None, [0, 0, 1, 1], odd(rng)]),
    )(given(rng, batch), b=given(rng, batch)),
    "split_at": lambda rng: sf.split_at(
        given(rng, pick(rng, [batch, array])), given(rng, integers), given(rng, lambda rng: pick(rng, KEEP))
    ),
    "split": lambda rng: sf.split(
        given(rng, pick(rng, [batch, array])),
        given(rng, lambda rng: rng.integers(0, 2, small(rng)).astype(bool)),
        keep=given(rng, lambda rng: pick(rng, KEEP)),
    ),
    "split_lengths": lambda rng: sf.split(
        given(rng, pick(rng, [batch, array])), lengths=given(rng, pick(rng, [integers, batch, nested_lengths]))
    ),
    "nest": lambda rng: sf.nest(given(rng, batch), given(rng, integers)),
    "flatten_levels": lambda rng: sf.flatten_levels(
        given(rng, batch), given(rng, small), outermost=given(rng, lambda rng: True)
    ),
    "join_batches": lambda rng: sf.join_batches(given(rng, several)),
    "split_batches": lambda rng: sf.split_batches(given(rng, batch), given(rng, integers)),
    "slice": lambda rng: sf.slice(given(rng, batch), given(rng, integers), given(rng, integers)),
    "cut": lambda rng: sf.cut(
        given(rng, batch), *[given(rng, pick(rng, [integers, small])) for _ in range(int(rng.integers(4)))]
    ),
    "truncate": lambda rng: sf.truncate(
        given(rng, batch), given(rng, pick(rng, [integers, small])), given(rng, lambda rng: "middle")
    ),
    "truncate_pair": lambda rng: sf.truncate_pair(
        given(rng, batch), given(rng, batch), given(rng, small), given(rng, lambda rng: "only_first")
    ),
    "shift": lambda rng: sf.shift(given(rng, batch), given(rng, pick(rng, [integers, small])), **options(rng, "fill")),
    "chunk": lambda rng: sf.chunk(
        given(rng, batch),
        given(rng, small),
        given(rng, small),
        last=given(rng, lambda rng: pick(rng, LAST)),
        **options(rng, "fill"),
    ),
    "unchunk": lambda rng: sf.unchunk(
        given(rng, lambda rng: sf.chunk(batch(rng), 3, 1)),
        given(rng, lambda rng: pick(rng, WAYS)),
        like=given(rng, lambda rng: pick(rng, [None, sf.chunk(batch(rng), 2)])),
    ),
    "Chunks": lambda rng: sf.Chunks(
        given(rng, lambda rng: plain(rng, 4)),
        given(rng, lambda rng: [[0, 1, 2], [0, 2, 4]]),
        given(rng, integers),
        given(rng, lambda rng: [3, 2]),
    ),
    "filter": lambda rng: sf.filter(given(rng, batch), given(rng, pick(rng, [batch, array]))),
    "gather": lambda rng: sf.gather(given(rng, batch), given(rng, pick(rng, [batch, nested]))),
    "masked_scatter": lambda rng: sf.masked_scatter(
        given(rng, pick(rng, [batch, small])),
        given(rng, pick(rng, [batch, array])),
        given(rng, pick(rng, [batch, array])),
    ),
    "put_sequences": lambda rng: sf.put_sequences(given(rng, batch), given(rng, integers), given(rng, batch)),
    "sort": lambda rng: pick(rng, [sf.sort, sf.argsort])(given(rng, batch), descending=given(rng, lambda rng: True)),
    "sort by": lambda rng: sf.sort(given(rng, batch), by=given(rng, batch)),
    "bincount": lambda rng: sf.bincount(
        given(rng, batch), given(rng, small), given(rng, pick(rng, [lambda rng: None, batch, array]))
    ),
    "diff": lambda rng: sf.diff(given(rng, batch), given(rng, small)),
    "ffill": lambda rng: sf.ffill(given(rng, batch), given(rng, pick(rng, [lambda rng: None, batch, array]))),
    "search": lambda rng: pick(rng, [sf.searchsorted, sf.isin, sf.intersect])(
        given(rng, batch), given(rng, pick(rng, [batch, array]))
    ),
    "merge_asof": lambda rng: sf.merge_asof(
        given(rng, batch),
        given(rng, batch),
        tolerance=given(rng, small),
        direction=given(rng, lambda rng: pick(rng, ["backward", "forward", "nearest"])),
    ),
    "window_by": lambda rng: sf.window_by(
        given(rng, batch),
        given(rng, batch),
        given(rng, small),
        given(rng, small),
        closed=given(rng, lambda rng: "left"),
    ),
    "spans_to_tags": lambda rng: sf.spans_to_tags(
        tuple(given(rng, batch) for _ in range(3)), given(rng, batch), given(rng, lambda rng: ["O", "B-x"])
    ),
    "tags_to_spans": lambda rng: sf.tags_to_spans(given(rng, batch), given(rng, lambda rng: ["O", "B-x", "I-x"])),
    "from_text": lambda rng: sf.from_text(
        given(rng, texts), unit=given(rng, lambda rng: pick(rng, ["bytes", "codepoints"]))
    ),
    "to_text": lambda rng: sf.to_text(given(rng, batch)),
    "topk": lambda rng: sf.topk(given(rng, batch), given(rng, integers), largest=given(rng, lambda rng: False)),
    "unique": lambda rng: sf.unique(given(rng, batch), counts=given(rng, lambda rng: True)),
    "cross": lambda rng: sf.cross(given(rng, batch), given(rng, batch)),
    "reshape": lambda rng: sf.reshape(given(rng, batch), given(rng, small)),
    "erase": lambda rng: sf.erase(given(rng, batch), given(rng, integers)),
    "mask_tokens": lambda rng: sf.mask_tokens(given(rng, batch), **mask_options(rng)),
    "corrupt_spans": lambda rng: sf.corrupt_spans(
        given(rng, batch),
        sentinel=given(rng, lambda rng: 99),
        seed=given(rng, small),
        rate=given(rng, lambda rng: 0.5),
        mean=given(rng, lambda rng: 2.5),
    ),
    "shuffle": lambda rng: sf.shuffle(given(rng, batch), given(rng, small)),
    "cross_entropy": lambda rng: sf.cross_entropy(
        given(rng, batch), given(rng, pick(rng, [batch, integers])), **loss_options(rng)
    ),
    "linear_cross_entropy": lambda rng: sf.linear_cross_entropy(
        given(rng, batch), given(rng, array), given(rng, pick(rng, [batch, integers])), **loss_options(rng)
    ),
    "pairwise_dot": lambda rng: sf.pairwise_dot(given(rng, batch), given(rng, batch)),
    "maxsim": lambda rng: sf.maxsim(
        given(rng, batch), given(rng, batch), given(rng, pick(rng, [lambda rng: None, batch, nested]))
    ),
    "embedding_bag": lambda rng: sf.embedding_bag(
        given(rng, array),
        given(rng, batch),
        given(rng, pick(rng, [lambda rng: None, batch, array])),
        given(rng, lambda rng: pick(rng, ["sum", "mean", "max"])),
        sparse=given(rng, lambda rng: False),
    ),
    "recurrence": lambda rng: sf.recurrence(
        given(rng, batch),
        given(rng, pick(rng, [batch, small, array])),
        initial=given(rng, pick(rng, [lambda rng: None, small, array])),
        reverse=given(rng, lambda rng: True),
        where=given(rng, pick(rng, [lambda rng: None, batch, array])),
        final=given(rng, lambda rng: True),
    ),
    "ema": lambda rng: sf.ema(given(rng, batch), given(rng, lambda rng: 0.5), adjust=given(rng, lambda rng: True)),
    "standardize": lambda rng: sf.standardize(
        given(rng, batch), level=given(rng, lambda rng: pick(rng, [None, 0])), ddof=given(rng, small)
    ),
    "gae": lambda rng: sf.rl.gae(
        given(rng, pick(rng, [batch, array])),
        given(rng, batch),
        gamma=given(rng, pick(rng, [small, array])),
        bootstrap=given(rng, pick(rng, [lambda rng: None, batch, array])),
        done=given(rng, pick(rng, [lambda rng: None, batch, array])),
    ),
    "token_rewards": lambda rng: sf.rl.token_rewards(given(rng, array), given(rng, batch), kl=given(rng, batch)),
    "traces": lambda rng: sf.rl.traces(given(rng, batch), gamma=given(rng, small), lam=given(rng, small)),
    "group_advantages": lambda rng: sf.rl.group_advantages(
        given(rng, array), given(rng, pick(rng, [small, integers])), where=given(rng, lambda rng: None)
    ),
    "whiten": lambda rng: sf.rl.whiten(given(rng, batch), moments=given(rng, pick(rng, [lambda rng: None, array]))),
    "policy_loss": lambda rng: sf.rl.policy_loss(
        given(rng, batch),
        given(rng, batch),
        given(rng, pick(rng, [batch, array])),
        clip=given(rng, lambda rng: pick(rng, [0.2, (0.2, 0.3), None])),
        level=given(rng, lambda rng: "sequence"),
    ),
    "mean_loss": lambda rng: sf.rl.mean_loss(
        given(rng, batch),
        per=given(rng, lambda rng: "sequence"),
        length=given(rng, small),
        total=given(rng, small),
        ranks=given(rng, small),
    ),
    "scatter": lambda rng: sf.scatter(given(rng, array), given(rng, batch), given(rng, batch)),
    "window": lambda rng: sf.window(given(rng, batch), given(rng, small), given(rng, small)),
    "ngrams": lambda rng: sf.ngrams(given(rng, batch), given(rng, small), **options(rng, "fill")),
    "conv": lambda rng: sf.conv(given(rng, batch), given(rng, array), given(rng, small), given(rng, small)),
    "attention": lambda rng: sf.attention(given(rng, batch), given(rng, batch), given(rng, batch), **sight(rng)),
    "edits": lambda rng: tuple(sf.edits(references=given(rng, batch), hypotheses=given(rng, batch))),
    "wer": lambda rng: tuple(pick(rng, [sf.wer, sf.cer])(references=given(rng, texts), hypotheses=given(rng, texts))),
    "levenshtein": lambda rng: sf.levenshtein(given(rng, batch), given(rng, batch)),
    "minimum_bayes_risk": lambda rng: sf.minimum_bayes_risk(
        given(rng, batch), *([] if rng.integers(2) else [given(rng, integers)])
    ),
    "topk_mean": lambda rng: sf.topk_mean(given(rng, batch), given(rng, integers)),
    "where": lambda rng: sf.where(*[given(rng, pick(rng, [batch, array, small])) for _ in range(3)]),
    "mask": lambda rng: sf.mask(given(rng, pick(rng, [integers, batch])), **options(rng, "width", "side")),
    "position_ids": lambda rng: sf.position_ids(given(rng, batch), given(rng, integers)),
    "block_mask": lambda rng: sf.block_mask(given(rng, batch), **options(rng, "causal")),
    "buckets": lambda rng: sf.buckets(
        given(rng, pick(rng, [integers, batch])), given(rng, small), **options(rng, "padded")
    ),
    "pack_bins": lambda rng: sf.pack_bins(
        given(rng, pick(rng, [integers, batch])), given(rng, small), **options(rng, "fewest")
    ),
    "balance": lambda rng: sf.balance(
        given(rng, pick(rng, [integers, batch])), given(rng, small), **options(rng, "cost", "max_items", "equal_counts")
    ),
    "pack": lambda rng: sf.pack(given(rng, batch), given(rng, small), **options(rng, "labels", "keep_order")),
    "reorder": lambda rng: sf.reorder(given(rng, pick(rng, [batch, array])), given(rng, integers)),
    "inverse_order": lambda rng: sf.inverse_order(given(rng, integers)),
    "equal": lambda rng: sf.equal(
        given(rng, batch), given(rng, batch), *([given(rng, small)] if rng.integers(2) else [])
    ),
    "astype": lambda rng: sf.astype(given(rng, batch), given(rng, lambda rng: pick(rng, ["f4", "i8", "?", "U3"]))),
    "to": lambda rng: sf.to(
        given(rng, batch),
        given(rng, lambda rng: pick(rng, ["numpy", None])),
        dtype=given(rng, lambda rng: pick(rng, [None, "f4", "i8"])),
    ),
    "sequences": lambda rng: sf.convert(sf.Ragged(plain(rng, 3), [2, 0, 1]), pick(rng, ENCODINGS)).sequences()[
        given(rng, index)
    ],
    "map_sequences": lambda rng: sf.map_sequences(
        given(rng, lambda rng: pick(rng, [len, np.sum, np.sort, np.atleast_2d])),
        given(rng, batch),
        result=given(rng, lambda rng: pick(rng, ["auto", "item", "sequence"])),
        like=given(rng, lambda rng: pick(rng, [None, plain(rng, 2)])),
    ),
    "model_inputs": lambda rng: sf.model_inputs(
        given(rng, batch),
        side=given(rng, lambda rng: "left"),
        pad_id=given(rng, small),
        multiple_of=given(rng, lambda rng: 1 + small(rng)),
        most=given(rng, lambda rng: pick(rng, [None, 2])),
        truncation_side=given(rng, lambda rng: "left"),
        labels=given(rng, lambda rng: True),
        ignore=given(rng, small),
        library=given(rng, lambda rng: "numpy"),
    ),
    "to_arrays": lambda rng: sf.to_arrays(given(rng, pick(rng, [batch, array])), given(rng, lambda rng: "a.")),
    "from_arrays": lambda rng: sf.from_arrays(given(rng, lambda rng: damaged(rng)), given(rng, lambda rng: "")),
    "numbers": lambda rng: pick(rng, [sf.position_ids, sf.segment_ids])(
        given(rng, batch), layout=given(rng, lambda rng: True)
    ),
    "to_device": lambda rng: sf.to_device(given(rng, batch), given(rng, lambda rng: "cpu")),
    "TensorArray": lambda rng: sf.TensorArray(
        given(rng, lambda rng: [plain(rng, (k, 2), "f4") for k in (3, 2, 1)]), pick(rng, [None, batch(rng), odd(rng)])
    ).pack(),
    "with_steps": lambda rng: sf.TensorArray.unpack(batch(rng)).with_steps(given(rng, lambda rng: [array(rng)])).pack(),
    "pack_prefixes": lambda rng: sf.TensorArray(given(rng, several)).pack_prefixes(),
    "shrink": lambda rng: sf.shrink(given(rng, pick(rng, [batch, array])), given(rng, batch), given(rng, small)),
    "wrappers": lambda rng: wrapped(
        rng,
        pick(rng, [sf.with_list, sf.with_ragged, sf.with_padded, sf.with_packed, sf.with_masked, sf.with_lod]),
        **options(rng),
    ),
    "with_array": lambda rng: wrapped(rng, sf.with_array),
    "with_flatten": lambda rng: wrapped(rng, sf.with_flatten),
    "backprop": lambda rng: wrapped(rng, sf.with_padded, backprop=given(rng, lambda rng: True)),
    "vjp": lambda rng: sf.vjp(odd(rng), given(rng, batch)),
    "gradients": differentiated,
    "operation": lambda rng: sf.operation(given(rng, function), given(rng, function))(given(rng, batch)),
    "kernel": lambda rng: own(rng)(given(rng, batch), *([given(rng, integers)] if rng.integers(2) else [])),
    "conversion": lambda rng: sf.conversion(odd(rng), odd(rng)),
    "constraints": constraint,
    "Prune": pruned,
    "Stochastic": lambda rng: sf.Stochastic(given(rng, small)),
    "Sample": sampled,
    "plans": planned,
    "ctc_align": aligned,
    "ctc_loss": lost,
    "ctc_greedy": labelled,
    "ctc_beam_search": searched_frames,
    "beam_search": searched,
    "beam_step": stepped,
    "beam_backtrace": lambda rng: sf.beam_backtrace(
        given(rng, several), given(rng, several), beam_size=given(rng, small), end=given(rng, small)
    ),
}


# ------------------------------------------------------------------------------------------------- the verdict


def verdict(seed, call):
    """What is wrong with the end of a call; None where nothing is."""
    name = list(CALLS)[call % len(CALLS)]
    rng = np.random.default_rng([seed, call])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # interpreted kernels compute with NumPy scalars, see pyproject.toml
        warnings.filterwarnings("ignore", ".*encountered in", RuntimeWarning, r"seqformats\.kernels\.")
        try:
            check(CALLS[name](rng))
        except KINDS as error:
            return None if deliberate(error) else f"{name}: {told(error)}"
        except Exception as error:
            return None if asked_for(error) else f"{name}: {told(error)}"
    return None


def told(error):
    place = next(
        (f for f in reversed(traceback.extract_tb(error.__traceback__)) if f.filename.startswith(SOURCES)), None
    )
    where = "" if place is None else f" in {pathlib.Path(place.filename).name}:{place.lineno}: {place.line}"
    return f"{type(error).__name__}: {str(error)[:150]}{where}"


def calls_the_caller(line):
    """Does this line call a function that was given?"""
    return any(call in line for call in ("fn(", "hook(", "function(z"))


def asked_for(error):
    """Was it raised by what was given, which is made to fail?"""
    frames = traceback.extract_tb(error.__traceback__)
    last = frames[-1]
    if any(calls_the_caller(frame.line) for frame in frames if frame.filename.startswith(SOURCES)):
        return True
    if last.filename in OURS:
        return any(frame.filename.startswith(SOURCES) for frame in frames)
    refused = "holds? NaN|no log-probability"  # what the documents say of scores
    if isinstance(error, ValueError) and re.search(refused, str(error)):
        return True
    return last.filename == example_encoding.__file__


def deliberate(error):
    """Was it raised on purpose, with words, and not met by accident?"""
    frames = traceback.extract_tb(error.__traceback__)
    if isinstance(error, MemoryError):
        return True
    if not str(error):
        return False
    *_, last = frames
    if not last.filename.startswith(SOURCES):  # the arguments do not fit the call itself, or what was given has failed
        return True
    line = linecache.getline(last.filename, last.lineno).strip()
    return line.startswith("raise ") or "argument" in str(error) or calls_the_caller(line)


def check(y):
    """A result is valid: it can be built again of its own parts."""
    if isinstance(y, ENCODINGS):
        made, fields = y.__reduce__()
        assert len(made(*fields)) == len(y)
        assert repr(y)
    elif isinstance(y, (list, tuple)) and len(y) < 9:
        for part in y:
            if isinstance(part, ENCODINGS):
                check(part)


def run(seed, calls, at=None):
    """Make calls one by one, their numbers written to the file `at` before, and print those that end wrongly."""
    if at is not None:
        resource.setrlimit(resource.RLIMIT_AS, (ROOM, ROOM))
    faulthandler.enable()
    for call in calls:
        if at is not None:
            os.pwrite(at, f"{call:<20}".encode(), 0)
        faulthandler.dump_traceback_later(PATIENCE, exit=True)
        said = verdict(seed, call)
        if said is not None:
            print(f"call {call} of seed {seed}: {said}", flush=True)
    faulthandler.cancel_dump_traceback_later()


def failures(seed, count, block=2500, torch=False):
    """The calls of a seed that end wrongly, in lines; those that crash or hang too."""
    found, first = [], 0
    while first < count:
        last = min(first + block, count)
        place = os.memfd_create("call")
        done = subprocess.run(
            [sys.executable, str(HERE), str(seed), str(first), str(last), str(place), *["torch"] * torch],
            cwd=HERE.parent,
            capture_output=True,
            text=True,
            check=False,
            pass_fds=(place,),
        )
        found += done.stdout.splitlines()
        if done.returncode:
            first = int(os.pread(place, 20, 0) or first)
            found.append(f"call {first} of seed {seed}: exit {done.returncode}: {done.stderr[-2000:]}")
            first += 1
        else:
            if done.stderr:
                found.append(f"calls {first} to {last} of seed {seed} printed: {done.stderr[:2000]}")
            first = last
        os.close(place)
    return found


if __name__ == "__main__":
    example_encoding.register()
    odd_values.TORCH = "torch" in sys.argv
    chosen, first, *more = [int(word) for word in sys.argv[1:] if word != "torch"]
    if more:
        run(chosen, range(first, more[0]), *more[1:])
    else:
        print(verdict(chosen, first))
        warnings.simplefilter("error")
        check(CALLS[list(CALLS)[first % len(CALLS)]](np.random.default_rng([chosen, first])))
