"""What only GPUs are asked for, long sequences in pieces and lengths that are counted there, on the CPU.

The kernels are shipped with the others, compiled for CPUs: they are what those of GPUs are read beside.
"""

import grouped_scores
import numpy as np
import oracle
import pytest

import seqformats as sf
from seqformats import core
from seqformats.arrays import NUMPY
from seqformats.beam import candidates
from seqformats.beam.rows import Scores
from seqformats.formats.device_structure import count_true, offsets_of
from seqformats.formats.leaves import leaves
from seqformats.formats.structure import Pieces
from seqformats.launch.kernel import Work, kernel
from seqformats.operations import calculation, ordering, pieces, softmax, weighted_sums

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of NumPy, where kernels are interpreted


def weights(x):
    found = np.random.default_rng(1).normal(0, 1, x.data.shape)
    found[3:17] = 0  # those of a piece sum to nothing
    return sf.Ragged(found, x.lengths)


def without_columns(x):
    return sf.Ragged(weights(x).data[:, 0].copy(), x.lengths)


CALLS = {
    "sum": sf.reduce_sum,
    "mean": sf.reduce_mean,
    "max": sf.reduce_max,
    "argmax": sf.argmax,
    "prod": sf.reduce_prod,
    "norm": sf.reduce_norm,
    "cumsum": sf.cumsum,
    "cumsum back": lambda x: sf.vjp(sf.cumsum, x)[1](x),
    "topk": lambda x: sf.topk_mean(x, [1, 3, 4]),
    "topk back": lambda x: sf.vjp(sf.topk_mean, x, [1, 3])[1](np.ones((x.lengths.size, 2, 3), x.dtype)),
    "sort": sf.sort,
    "sort falling": lambda x: sf.sort(x, descending=True),
    "sort back": lambda x: sf.vjp(sf.sort, x)[1](weights(x)),
    "argsort": sf.argsort,
    "the least": lambda x: sf.topk(x, [1, 0, 40, 3, 16, 1, 2], largest=False),
    "logsumexp": sf.reduce_logsumexp,
    "logsumexp back": lambda x: sf.vjp(sf.reduce_logsumexp, x)[1](np.arange(21, dtype=x.dtype).reshape(7, 3)),
    "var": sf.reduce_var,
    "std": lambda x: sf.reduce_std(x, ddof=1),
    "softmax": sf.softmax,
    "log_softmax": sf.log_softmax,
    "softmax back": lambda x: sf.vjp(sf.softmax, x)[1](weights(x)),
    "log_softmax back": lambda x: sf.vjp(sf.log_softmax, x)[1](weights(x)),
    "weighted sum": lambda x: sf.reduce_sum(x, weights=weights(x)),
    "weighted mean": lambda x: sf.reduce_mean(x, weights=without_columns(x)),
    "weighted mean of columns": lambda x: sf.reduce_mean(x, weights=weights(x)),
}


@pytest.fixture
def in_pieces(monkeypatch):
    """What makes long sequences be done otherwise, most in pieces; it has the times that one was."""
    in_blocks, times = pieces.in_blocks, []

    def noted(*args):
        times.append(1)
        return in_blocks(*args)

    def begin():
        for module in (ordering, calculation, pieces, softmax, weighted_sums):
            if hasattr(module, "are_long"):
                monkeypatch.setattr(module, "are_long", lambda _, structure, __: structure.longest > 40)
        monkeypatch.setattr(pieces, "in_blocks", noted)
        return times

    monkeypatch.setattr(Pieces, "ROWS", 16)
    monkeypatch.setattr(Pieces, "GROUP", 2)  # which are merged in two levels
    return begin


@pytest.mark.parametrize("special", [False, True])
@pytest.mark.parametrize("name", list(CALLS))
def test_pieces(name, special, in_pieces):
    lengths = [3, 0, 56, 31, 16, 1, 41]
    x = sf.Ragged(np.random.default_rng(0).normal(0, 1, (sum(lengths), 3)).astype("f4"), lengths)
    if special:
        x.data[3:19] = -np.inf  # a piece of these alone
        x.data[40, 0], x.data[60, 1] = np.inf, np.nan
    with core.python_only():
        wanted, times = CALLS[name](x), in_pieces()
        found = CALLS[name](x)
    assert times
    for one, other in zip(leaves(found), leaves(wanted), strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=1e-6)


def test_largest_items_are_merged_in_levels(in_pieces):
    """The pieces of the longest sequence in twos, four times; equal items stay in their order."""
    lengths = [300, 0, 41, 5]
    x = sf.Ragged(np.random.default_rng(1).integers(0, 40, (sum(lengths), 3)).astype("f4"), lengths)
    with core.python_only():
        wanted, _ = sf.topk(x, 4), in_pieces()
        found = sf.topk(x, 4)
    for one, other in zip(found, wanted, strict=True):
        oracle.assert_bits(leaves(one)[0], leaves(other)[0])


@pytest.mark.parametrize("dtype", ["i4", "i8"])
def test_lengths_are_added(dtype):
    lengths = np.array([3, 0, 5, 1] * 300, dtype)
    oracle.assert_bits(offsets_of(NUMPY, lengths), np.concatenate([[0], lengths.cumsum()]))


@pytest.mark.parametrize("dtype", ["?", "u1", "i4", "i8"])
def test_what_is_true_is_counted(dtype):
    mask = (np.arange(70) < np.array([3, 0, 70, 33])[:, None]).astype(dtype)
    out = np.zeros(4, np.int64)
    count_true.start(NUMPY, (mask,), (out,), (), 70, None, Work(4, 4))
    assert out.tolist() == [3, 0, 70, 33]


@pytest.mark.parametrize("dtype", ["f4", "f8", "i8", "?"])
@pytest.mark.parametrize("target", [sf.Ragged, sf.Packed, sf.Masked])
def test_places_in_one_pass(target, dtype):
    rng = np.random.default_rng(1)
    lengths = [3, 0, 40, 1, 7]
    data = rng.integers(0, 3, (sum(lengths), 5)).astype(dtype)
    if dtype[0] == "f":
        data[rng.random(data.shape) < 0.05] = np.nan
    x = sf.convert(sf.Ragged(data, lengths), target)
    for least, places in enumerate((sf.argmax, sf.argmin)):
        out = np.zeros((5, 5), np.int64)
        kernel("argmax_rows").start(NUMPY, (x.data,), (out,), (x._layout(), least), 5, x._structure)
        oracle.assert_bits(out, places(x))


@pytest.mark.parametrize("form", grouped_scores.FORMS)
def test_candidates_of_wide_rows_are_those_of_any(form):
    query = grouped_scores.query(NUMPY, lambda x: x, 300, form, "random")
    found = []
    for name, apart in (("best_tokens", (query.apart,)), ("best_of_groups", ())):
        lists, room = candidates.work(query, query.wanted, None)
        lists.values[:], lists.ids[:], lists.counts[:] = 0, -1, -5
        scores = Scores(query.x.reshape(-1), query.running, query.form)
        args = scores, lists, room, query.limits, query.wanted, *apart, 300
        kernel(name).run_over(args, Work(len(query.wanted.begin), len(query.x)), 0)
        found.append(lists)
    assert found[0].counts.tolist() == [5, 0, 2, 1, 64]
    for one, other in zip(found[0][:3], found[1][:3], strict=True):
        oracle.assert_bits(one, other)
