"""What calls cost, in things that can be counted on any machine: kernels started, arrays made, Python functions called,
copies of the data, variants compiled.  The first two are those of Python, also where there is a fast path.

Times are in docs/benchmarks.md. A number here that must rise is a change to be explained; one that can fall should.
"""

import gc
import subprocess
import sys
import tracemalloc
from typing import NamedTuple

import numpy as np
import pytest
from passes import INTERPRETED

import seqformats as sf
from seqformats import core
from seqformats.launch import kernel as launch

LENGTHS = np.array([3, 0, 7, 5, 1, 4] * 8)
pytestmark = pytest.mark.passes("compiled", "interpreted", reason="checks of bounds change no count")
compiled_only = pytest.mark.skipif(INTERPRETED, reason="interpreted kernels are Python functions")


class Cost(NamedTuple):
    """Of one call: the kernels started, in order; arrays made by `np.empty` and `np.zeros`; Python functions called;
    memory at its highest, the result included, in copies of the batch's items.  All but the kernels: at most."""

    kernels: str
    arrays: int
    calls: int
    copies: float


def batch(width=4):
    data = np.arange(LENGTHS.sum() * width, dtype=np.float32).reshape(-1, width)
    return sf.Ragged(data, LENGTHS)


def fresh(x):
    """The same batch, of which nothing is known yet: no order, no offsets."""
    return sf.Ragged(x.data, x.lengths)


def rows_of_ones(x):
    return np.ones((len(x), *x.item_shape), np.float32)


def arrays_of(x):
    return [part.copy() for part in np.split(x.data, np.cumsum(LENGTHS)[:-1])]


def numbers(x):
    """The same batch with the numbers of each item as a level."""
    return sf.LoD(x.data.reshape(-1), [x.offsets, np.arange(len(x.data) + 1) * x.data.shape[1]])


# What is prepared from a Ragged, what is called with it, and what that costs.
CALLS = {
    "Ragged": (lambda x: (x.data, x.lengths), lambda p: sf.Ragged(*p), Cost("check_lengths", 1, 3, 0.10)),
    "list -> Ragged": (arrays_of, lambda x: sf.convert(x, sf.Ragged), Cost("check_lengths copy_blocks", 2, 2, 1.10)),
    "list -> Padded": (
        arrays_of,
        lambda x: sf.convert(x, sf.Padded),
        Cost("check_lengths sort_lengths blocks_to_steps pad_blocks", 3, 2, 2.20),
    ),
    "list -> Masked": (
        arrays_of,
        lambda x: sf.convert(x, sf.Masked),
        Cost("check_lengths copy_blocks pad_blocks", 2, 2, 2.20),
    ),
    "Ragged -> List": (fresh, lambda x: sf.convert(x, sf.List), Cost("", 0, 7, 0.10)),
    "Ragged -> LoD": (fresh, lambda x: sf.convert(x, sf.LoD), Cost("", 0, 6, 0.10)),
    "Ragged -> Padded": (
        fresh,
        lambda x: sf.convert(x, sf.Padded),
        Cost("sort_lengths blocks_to_steps pad_blocks", 2, 2, 2.20),
    ),
    "Ragged -> Packed": (fresh, lambda x: sf.convert(x, sf.Packed), Cost("sort_lengths blocks_to_steps", 2, 2, 1.10)),
    "Ragged -> Masked": (fresh, lambda x: sf.convert(x, sf.Masked), Cost("copy_blocks pad_blocks", 1, 2, 2.20)),
    "Padded -> Ragged": (
        lambda x: sf.convert(x, sf.Padded),
        lambda x: sf.convert(x, sf.Ragged),
        Cost("steps_to_blocks", 1, 2, 1.10),
    ),
    "Masked -> Ragged": (
        lambda x: sf.convert(x, sf.Masked),
        lambda x: sf.convert(x, sf.Ragged),
        Cost("copy_blocks", 1, 2, 1.10),
    ),
    "Packed -> Padded": (
        lambda x: sf.convert(x, sf.Packed),
        lambda x: sf.convert(x, sf.Padded),
        Cost("copy_blocks pad_blocks", 1, 2, 2.20),
    ),
    "lists -> LoD": (
        lambda x: numbers(x).to_nested(),
        lambda x: sf.LoD.from_nested(x, np.float32),
        Cost("check_lengths check_lengths", 6, 19, 3.10),
    ),
    "LoD -> lists": (
        numbers,
        lambda x: x.to_nested(),
        Cost("", 2, 16, 10.10),
    ),
    "x[index]": (fresh, lambda x: x[[3, 0, 2, 7, 9]], Cost("pick_sequences copy_blocks", 2, 2, 0.20)),
    "x[a:b]": (fresh, lambda x: x[2:40], Cost("", 0, 2, 0.10)),
    "reduce_sum": (fresh, sf.reduce_sum, Cost("sum_rows", 1, 1, 0.40)),
    "reduce_sum of Padded": (lambda x: sf.convert(x, sf.Padded), sf.reduce_sum, Cost("sum_rows", 1, 1, 0.40)),
    "reduce_max": (fresh, sf.reduce_max, Cost("max_rows", 1, 1, 0.40)),
    "reduce_first": (fresh, sf.reduce_first, Cost("end_rows", 1, 1, 0.40)),
    "reduce_mean gradient": (
        lambda x: (sf.vjp(sf.reduce_mean, x)[1], rows_of_ones(x)),
        lambda p: p[0](p[1]),
        Cost("spread_rows", 1, 2, 1.10),
    ),
    "softmax": (fresh, sf.softmax, Cost("softmax_rows", 1, 1, 1.70)),
    "window": (fresh, lambda x: sf.window(x, 1, 1), Cost("window_rows", 1, 2, 3.10)),
    "reverse": (fresh, sf.reverse, Cost("reverse_rows", 1, 1, 1.10)),
    "cut": (fresh, lambda x: sf.cut(x, 1, -1), Cost("cut_runs copy_blocks", 2, 16, 0.90)),
    "truncate": (fresh, lambda x: sf.truncate(x, 4, "left"), Cost("cut_runs copy_blocks", 2, 18, 1.10)),
    "shift": (fresh, lambda x: sf.shift(x, 1), Cost("shift_rows", 1, 8, 1.20)),
    "filter": (
        lambda x: (fresh(x), x.data[:, 0] > 200),
        lambda p: sf.filter(*p),
        Cost("count_kept move_kept", 2, 20, 1.20),
    ),
    "gather": (
        lambda x: (fresh(x), sf.Ragged(np.zeros(40, np.int64), np.minimum(LENGTHS, 1))),
        lambda p: sf.gather(*p),
        Cost("wrap_places pick_rows", 2, 17, 0.50),
    ),
    "cross": (
        lambda x: (fresh(x), sf.slice(x, 0, np.minimum(LENGTHS, 1))),
        lambda p: sf.cross(*p),
        Cost("pair_lengths pair_rows pair_rows", 3, 30, 2.30),
    ),
    "run_starts": (fresh, sf.run_starts, Cost("start_rows", 1, 16, 0.20)),
    "sort": (fresh, sf.sort, Cost("order_rows", 4, 31, 10.0)),
    "chunk": (fresh, lambda x: sf.chunk(x, 3, 1), Cost("chunk_counts chunk_runs copy_blocks", 3, 26, 2.20)),
    "expand_as": (
        lambda x: (rows_of_ones(x), x),
        lambda p: sf.expand_as(*p),
        Cost("repeat_rows", 1, 2, 1.10),
    ),
    "with_padded": (
        lambda x: (sf.with_padded(lambda p: p), fresh(x)),
        lambda p: p[0](p[1]),
        Cost("sort_lengths blocks_to_steps pad_blocks steps_to_blocks", 3, 10, 3.20),
    ),
    "TensorArray": (
        fresh,
        lambda x: sf.TensorArray.unpack(x).pack(),
        Cost("sort_lengths blocks_to_steps steps_to_blocks", 4, 49, 2.20),
    ),
}

every_call = pytest.mark.parametrize("name", CALLS)


def counted(monkeypatch, prepare, call):
    """The kernels that a call starts by its general way, and how many arrays it makes; the second call.

    The first one compiles.
    """
    call(prepare(batch()))
    x = prepare(batch())
    kernels, arrays = [], []

    def written_down(name, code):
        """The code of a kernel, each call of which is written down."""

        def start(*args):
            kernels.append(name)
            return code(*args)

        return start

    def counting(make):
        def made(*args, **options):
            arrays.append(args)
            return make(*args, **options)

        return made

    with core.python_only(), monkeypatch.context() as patch:
        for kernel in launch._kernels.values():
            code = {variant: written_down(kernel.name, code) for variant, code in kernel.code.items()}
            patch.setattr(kernel, "code", code)
            patch.setattr(kernel, "run", written_down(kernel.name, kernel.run))
        for make in ("empty", "zeros", "empty_like", "zeros_like"):
            patch.setattr(np, make, counting(getattr(np, make)))
        call(x)
    return kernels, len(arrays)


@pytest.fixture(scope="module", autouse=True)
def few_objects():
    """What is there before is left out of collections of garbage, of which there are many here."""
    gc.collect()
    gc.freeze()


def functions_called(prepare, call):
    """The Python functions that a call enters, itself left out, when fast paths know its kernels."""
    for _ in range(3):
        call(prepare(batch()))
    x = prepare(batch())
    called = []

    def profile(frame, event, _):
        if event == "call":
            called.append(frame.f_code.co_name)

    before = sys.getprofile()
    gc.collect()
    gc.disable()
    try:
        sys.setprofile(profile)
        call(x)
    finally:
        sys.setprofile(before)
        gc.enable()
    return called


def copies(prepare, call):
    """How much memory a call takes at its highest, its result included, over the items of the batch."""
    wide = batch(2048)
    call(prepare(wide))
    x = prepare(wide)
    gc.collect()
    tracemalloc.start()
    try:
        result = call(x)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    del result
    return peak / wide.data.nbytes


@every_call
def test_kernels_and_arrays(monkeypatch, name):
    prepare, call, cost = CALLS[name]
    kernels, arrays = counted(monkeypatch, prepare, call)
    assert kernels == cost.kernels.split()
    assert arrays <= cost.arrays


@compiled_only
@pytest.mark.skipif(core.extension is None, reason="without the extension there are more")
@every_call
def test_python_functions(name):
    prepare, call, cost = CALLS[name]
    # the least of some calls: what is remembered is forgotten now and then, to be found anew
    called = min((functions_called(prepare, call) for _ in range(3)), key=len)
    assert len(called) <= cost.calls, called


@compiled_only  # the temporary arrays of an interpreted kernel count too
@every_call
def test_copies_of_the_data(name):
    prepare, call, cost = CALLS[name]
    of_lists = core.extension is None and name in ("lists -> LoD", "TensorArray")  # read array by array in Python
    assert copies(prepare, call) <= cost.copies + of_lists


# Kernels that move bytes are compiled once for all dtypes; those that calculate, once for each dtype.
CALLED = """
import numpy as np
import seqformats as sf
from seqformats.native.code import loaded
from seqformats.operations.reduce import REDUCTIONS

for dtype in ("float32", "float64", "int64", "bool", "complex64", "S3"):
    for item in ((), (4,), (2, 3)):
        x = sf.Ragged(np.zeros((5, *item), dtype), [2, 0, 3])
        for encoding in (sf.List, sf.Padded, sf.Packed, sf.Masked, sf.LoD):
            y = sf.convert(x, encoding)
            sf.convert(y, sf.Ragged)
            sf.convert(y, sf.Masked, side="left")
            y[[1, 0]]
        sf.reverse(x), sf.window(x, 1, 1), sf.expand_as(x.data[:3], x)
for dtype in ("float32", "float64"):
    x = sf.Ragged(np.ones((5, 4), dtype), [2, 0, 3])
    for y in (x, sf.convert(x, sf.Padded), sf.convert(x, sf.Packed), sf.convert(x, sf.Masked)):
        for name, record in REDUCTIONS.items():
            if not record.has_gradient:
                getattr(sf, "reduce_" + name)(y)
                continue
            _, pullback = sf.vjp(getattr(sf, "reduce_" + name), y)
            pullback(np.ones((3, 4), dtype))
        for operation in (sf.softmax, sf.log_softmax, sf.cumsum):
            z, pullback = sf.vjp(operation, y)
            pullback(z)
for name in sorted({text.partition("(")[0] for text in loaded}):
    print(name, sum(text.startswith(name + "(") for text in loaded))
"""
# Those that it starts; what calculates meets two dtypes.
STARTED = """
alike_rows blocks_to_steps check_lengths copy_blocks count_rows cumsum_rows end_rows find_rows logsumexp_rows max_rows
norm_back norm_rows pad_blocks pick_sequences prod_back prod_rows quantile_back quantile_rows repeat_rows reverse_rows
softmax_back softmax_rows sort_lengths spread_exp spread_places spread_rows steps_to_blocks steps_to_words sum_rows
var_back var_rows window_rows words_to_steps
"""


@compiled_only
def test_signatures():
    """In a process of its own, which has compiled nothing else."""
    run = subprocess.run([sys.executable, "-c", CALLED], capture_output=True, text=True, check=True)
    found = {name: int(count) for name, count in map(str.split, run.stdout.splitlines())}
    assert set(STARTED.split()) <= found.keys()
    most = {name: 2 if launch.kernel(name).load().does == "calculates" else 1 for name in found}
    most |= dict.fromkeys(("alike_rows", "count_rows"), 4)  # which make items or numbers, numbers or bools
    assert {name: count for name, count in found.items() if count > most[name]} == {}


def levels(count):
    """A batch of one sequence per level, with so many levels."""
    return sf.LoD(np.ones(2), [[0, 1]] * (count - 1) + [[0, 2]])


def lines_run(call):
    """How many lines of Python run."""
    found, before = [0], sys.gettrace()

    def trace(frame, event, arg):
        found[0] += event == "line"
        return trace

    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return found[0]


@compiled_only
def test_offsets_of_all_levels_grow_with_their_number():
    few, many = levels(50), levels(200)
    few.absolute(), many.absolute()
    assert lines_run(many.absolute) <= 5 * lines_run(few.absolute)


@compiled_only
def test_an_error_looks_at_the_first_of_many_numbers():
    def refused(count):
        wrong = [1] * count

        def call():
            with pytest.raises(TypeError, match="SF"):
                sf.Ragged(wrong, [count])

        call()
        return lines_run(call)

    assert refused(100_000) <= refused(1_000) + 10
