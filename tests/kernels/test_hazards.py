"""Kernels for GPUs, every access of which is watched, in three orders of threads and blocks; see `hazards`.

Each operation runs on one of its batches, drawn by its name; with ``SEQFORMATS_FULL=1`` on all of them.
"""

import zlib
from typing import TYPE_CHECKING

import hazards
import numpy as np
import of_ptx
import pytest
from elsewhere import There
from libraries import SIMULATED, leaves_of
from passes import FULL

import seqformats as sf

if TYPE_CHECKING:  # put among the globals of a kernel before it is compiled
    from seqformats.kernels.parts.gpu import gpu, natural

pytestmark = [
    pytest.mark.passes("compiled", reason="it compiles kernels"),
    pytest.mark.skipif(SIMULATED, reason="the simulator is in the compiler's place"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
]

SHORT = (0, 3, 1, 25, 7, 8, 9, 16, 17, 0, 64, 2)
MIXED = (70, 0, 65, 3, 300, 1, 64, 130)
LONG = (5, 9000, 0, 2)
ITEMS = ((), (3,), (8,), (4,), (260,))
FLOATS = ("f4", "f8", "f2")
KINDS = ("f4", "i4", "u1", "f2", "f8", "i8", "?")

ARITHMETIC = {
    "sum": sf.reduce_sum,
    "mean": sf.reduce_mean,
    "prod": sf.reduce_prod,
    "logsumexp": sf.reduce_logsumexp,
    "var": sf.reduce_var,
    "std": lambda x: sf.reduce_std(x, ddof=1),
    "softmax": sf.softmax,
    "log_softmax": sf.log_softmax,
    "cumsum": sf.cumsum,
    "topk_mean": lambda x: sf.topk_mean(x, [1, 3, 6]),
    "median": sf.reduce_median,
    "quantile": lambda x: sf.reduce_quantile(x, [0.1, 0.77]),
}
EXACT = {
    "max": sf.reduce_max,
    "argmax": sf.argmax,
    "argmin": sf.argmin,
    "first": sf.reduce_first,
    "last": sf.reduce_last,
    "mode": sf.reduce_mode,
    "nunique": sf.reduce_nunique,
    "any": sf.reduce_any,
    "all": sf.reduce_all,
    "count": sf.reduce_count,
    "sort": sf.sort,
    "sort down": lambda x: sf.sort(x, descending=True),
    "argsort": sf.argsort,
    "topk 1": lambda x: sf.topk(x, 1),
    "topk 4": lambda x: sf.topk(x, 4),
    "topk 9": lambda x: sf.topk(x, 9, largest=False),
}
MOVES = {
    "Masked": lambda x: sf.convert(x, sf.Masked),
    "left": lambda x: sf.convert(x, sf.Masked, side="left", fill=1),
    "Padded": lambda x: sf.convert(x, sf.Padded),
    "Packed": lambda x: sf.convert(x, sf.Packed),
    "from Padded": lambda x: sf.convert(sf.convert(x, sf.Padded), sf.Ragged),
    "from Packed": lambda x: sf.convert(sf.convert(x, sf.Packed), sf.Ragged),
    "Packed to Padded": lambda x: sf.convert(sf.convert(x, sf.Packed), sf.Padded),
    "reverse": sf.reverse,
    "shift": lambda x: sf.shift(x, 2),
    "window": lambda x: sf.window(x, 1, 2),
    "repeat": lambda x: sf.repeat(x, 2),
    "concat": lambda x: sf.concat([x, sf.reverse(x)]),
    "interleave": lambda x: sf.interleave([x, x]),
    "chunk": lambda x: sf.chunk(x, 4, 1),
    "chunk and pad": lambda x: sf.chunk(x, 4, last="pad"),
    "cut": lambda x: sf.cut(x, 1, None, 2),
    "middle": lambda x: sf.truncate(x, 4, "middle"),
    "shuffle": lambda x: sf.shuffle(x, 3),
    "unchunk": lambda x: sf.unchunk(sf.chunk(x, 3, 1)),
    "expand_as": lambda x: sf.expand_as(sf.reduce_last(x), x),
    "steps": lambda x: sf.TensorArray.unpack(x).pack(),
}
SLOPES = {
    "sum": (sf.reduce_sum,),
    "mean": (sf.reduce_mean,),
    "prod": (sf.reduce_prod,),
    "logsumexp": (sf.reduce_logsumexp,),
    "var": (sf.reduce_var,),
    "softmax": (sf.softmax,),
    "log_softmax": (sf.log_softmax,),
    "cumsum": (sf.cumsum,),
    "topk_mean": (sf.topk_mean, [1, 3]),
    "median": (sf.reduce_median,),
    "max": (sf.reduce_max,),
    "first": (sf.reduce_first,),
    "sort": (sf.sort,),
    "Masked": (sf.convert, sf.Masked),
    "Packed": (sf.convert, sf.Packed),
    "window": (sf.window, 1, 2),
    "shift": (sf.shift, 2),
    "repeat": (sf.repeat, 2),
    "chunk": (sf.chunk, 4, 1),
    "cut": (sf.cut, 1, None, 2),
    "truncate": (sf.truncate, 4, "middle"),
}
TOKENS = {
    "mask_tokens": lambda x: sf.mask_tokens(x, mask_id=9, seed=1, vocabulary=50),
    "unique": lambda x: sf.unique(x, counts=True),
    "erase": lambda x: sf.erase(x, [1, 2]),
    "corrupt_spans": lambda x: sf.corrupt_spans(x, sentinel=1000, seed=1),
    "levenshtein": lambda x: sf.levenshtein(x, sf.reverse(x)),
    "split_at": lambda x: sf.split_at(x, 3),
    "run_starts": sf.run_starts,
    "block_mask": lambda x: sf.block_mask(x, causal=True),
    "filter": lambda x: sf.filter(x, sf.run_starts(x)),
}
FRAMES = {
    "ctc_greedy": lambda x: sf.ctc_greedy(x, normalised=False),
    "ctc_beam_search": lambda x: sf.ctc_beam_search(x, beam_size=5, n_best=2, normalised=False),
    "ctc_align": lambda x: sf.ctc_align(x, [[1], [], [1, 2, 1], []], normalised=False),
}


def batch(lengths, item=(), dtype="f4", whole=False):
    """Numbers that depend on all of this alone."""
    rng = np.random.default_rng(zlib.crc32(repr((lengths, item, dtype)).encode()))
    rows = rng.standard_normal((sum(lengths), *item)) * 2
    if whole or dtype[0] in "iu":
        rows = np.round(rows * 3)
    return sf.Ragged(abs(rows).astype(dtype) if dtype in ("u1", "?") else rows.astype(dtype), list(lengths))


def slopes(function, *args):
    """The gradient of an operation for some slopes."""

    def run(x):
        y, pullback = sf.vjp(function, x, *args)
        (leaf,) = leaves_of(y)
        dy = np.cos(np.arange(leaf.size, dtype="f4")).reshape(leaf.shape).astype(leaf.dtype)
        dy = dy.view(type(leaf))
        return pullback(dy if isinstance(y, np.ndarray) else y._with_data(dy))

    return run


def every_batch(dtypes, lengths=(SHORT, MIXED, LONG), items=ITEMS):
    """Short and mixed batches of every item, the first dtype of many shapes and the others of one."""
    made = [(some, item, dtypes[0]) for some in lengths for item in (items if some is not LONG else items[:1])]
    return [*made, *((SHORT, (2,), dtype) for dtype in dtypes[1:])]


SHORTER = (SHORT, MIXED)
CALLS = {
    **{name: (call, every_batch(FLOATS)) for name, call in ARITHMETIC.items() if name != "prod"},
    "prod": (sf.reduce_prod, every_batch(FLOATS, [SHORT])),
    **{name: (call, every_batch(KINDS)) for name, call in EXACT.items()},
    **{name: (call, every_batch(KINDS, SHORTER)) for name, call in MOVES.items()},
    **{f"slopes of {name}": (slopes(*call), every_batch(("f4",), SHORTER, ((), (8,)))) for name, call in SLOPES.items()},
    **{name: (call, [((30, 0, 65, 5), (), "i8")]) for name, call in TOKENS.items()},
    **{name: (call, [((6, 0, 30, 1), (width,), "f4") for width in (3, 40)]) for name, call in FRAMES.items()},
    "attention": (lambda x: sf.attention(x, x, x, causal=True), [((3, 0, 40, 5), (2, 8), "f4")]),
}
CALLS["slopes of prod"] = (CALLS["slopes of prod"][0], [(SHORT, (8,), "f4"), (SHORT, (), "f4")])


@pytest.fixture
def driver(monkeypatch):
    pytest.importorskip("numba_cuda", reason="numba-cuda compiles the kernels")
    with hazards.watched(monkeypatch) as found:
        yield found


def parts_of(x):
    """The arrays that a result consists of."""
    if isinstance(x, (tuple, list)):
        return [part for one in x for part in parts_of(one)]
    return [np.array(leaf) for leaf in leaves_of(x)]


@pytest.mark.parametrize("name", CALLS)
def test_nothing_is_found(driver, name):
    call, batches = CALLS[name]
    for wanted in batches if FULL else [batches[zlib.crc32(name.encode()) % len(batches)]]:
        whole = name in EXACT
        x = batch(*wanted, whole=whole)
        found = []
        for order in hazards.ORDERS:
            driver.order = order
            found.append(parts_of(call(x._with_data(np.array(x.data).view(There)))))
        for other in found[1:]:
            for a, b in zip(found[0], other, strict=True):
                assert a.tobytes() == b.tobytes(), f"another order gives other bits, {wanted}"
        if whole or name in MOVES or name in TOKENS:
            for a, b in zip(found[0], parts_of(call(x)), strict=True):
                np.testing.assert_array_equal(a, b)
    assert driver.taken


# --- what it must see ------------------------------------------------------------------------------------------------


def words_of(x):
    return [0, 0, x.size, x.itemsize, x.ctypes.data, x.size, x.itemsize]


def started(function, arrays, block=(8, 1, 1), grid=(1, 1, 1), order="in turn"):
    pytest.importorskip("numba_cuda", reason="numba-cuda compiles the kernels")
    text = of_ptx.text_of(function, tuple(f"{x.dtype.str[1:]}.32" for x in arrays), (9, 0))
    ranges = [(x.ctypes.data, x.ctypes.data + x.nbytes) for x in arrays]
    hazards.run(text, grid, block, [word for x in arrays for word in words_of(x)], ranges, order)


def too_far(x, out):
    """One item behind the end."""
    k = gpu.threadIdx.x
    out[k] = x[k + 1]


def without_a_barrier(x, out):
    """A thread reads what another one writes."""
    room = natural(gpu.shared.array(8, x.dtype))
    k = gpu.threadIdx.x
    room[k] = x[k]
    out[k] = room[7 - k]


def with_a_barrier(x, out):
    """The same where it may."""
    room = natural(gpu.shared.array(8, x.dtype))
    k = gpu.threadIdx.x
    room[k] = x[k]
    gpu.syncthreads()
    out[k] = room[7 - k]


def all_write_one(x, out):
    """Each block writes the same place."""
    if gpu.threadIdx.x == 0:
        out[0] = x[gpu.blockIdx.x]


def some_come(x, out):
    """A barrier that only some threads come to."""
    k = gpu.threadIdx.x
    if x[k] > 3:
        gpu.syncthreads()
    out[k] = x[k]


@pytest.mark.parametrize("order", hazards.ORDERS)
@pytest.mark.parametrize(
    ("function", "grid", "words"),
    [
        (too_far, 1, "outside of every array"),
        (without_a_barrier, 1, "without a barrier between"),
        (all_write_one, 3, "two blocks touch it"),
        (some_come, 1, "wait for others"),
    ],
)
def test_mistakes_are_found(function, grid, words, order):
    with pytest.raises(AssertionError, match=words):
        started(function, (np.arange(8), np.zeros(8, "i8")), grid=(grid, 1, 1), order=order)


@pytest.mark.parametrize("order", hazards.ORDERS)
def test_what_is_right_is_not_found(order):
    x, out = np.arange(8), np.zeros(8, "i8")
    started(with_a_barrier, (x, out), order=order)
    assert out.tolist() == x[::-1].tolist()
