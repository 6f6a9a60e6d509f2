"""Every CUDA kernel becomes code for every word size and dtype, and the code is what it should be; no GPU is needed."""

import importlib
import inspect
import os
import pathlib
import re
from typing import TYPE_CHECKING

import pytest

from seqformats import kernels

if TYPE_CHECKING:  # put among the globals of a kernel before it is compiled
    from seqformats._cuda import gpu

HOST_ONLY = {"check_lengths", "check_offsets", "check_order", "cut_buckets", "fill_bins", "scan_list", "sort_lengths"}
HOST_ONLY |= {"advance_beams", "list_rows", "pick_sequences", "scan_nested", "scan_tensors", "trace_nodes"}
HOST_ONLY |= {"steps_to_words", "words_to_steps"}  # on CUDA `steps_to_blocks` and `blocks_to_steps` move words too
FOLDER = pathlib.Path(kernels.__file__).parent
NAMES = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "__init__")
ON_CUDA = [name for name in NAMES if name not in HOST_ONLY]
COMPUTE = [(7, 5), (8, 0), (9, 0)]

# Arguments that are arrays of int64, whatever the items are.
STRUCTURE = {"starts", "out_starts", "cum", "indices", "steps", "offsets"}
STRUCTURE |= {"counts", "first", "ids", "index", "ks", "parents", "places", "pre_ids", "tokens"}
STRUCTURE |= {"allowed", "allowed_from", "allowed_to", "edited", "edited_at", "hashes"}
STRUCTURE |= {"begin", "begins", "blocks", "end", "most"}

# The dtypes of items and results that the library gives kernels that calculate.  Complex numbers are pairs of floats,
# bools are bytes, and half precision is calculated with as float32.
SIGNED, UNSIGNED = ["i1", "i4", "i8"], ["u1", "u8"]
FLOATS = [("f4", "f4"), ("f8", "f8")]
SAME = [*FLOATS, *((kind, kind) for kind in [*SIGNED, *UNSIGNED])]
SUMS = [*FLOATS, *((kind, "i8") for kind in [*SIGNED, "u1"]), *((kind, "u8") for kind in UNSIGNED)]
MEANS = [(kind, "f8") for kind in [*SIGNED, *UNSIGNED]]
TAKEN = {
    "best_tokens": [("f4", "f4")],
    "block_mask": [(None, "u1")],
    "cumsum_rows": SUMS,
    "find_rows": [(kind, "i8") for kind, _ in SAME],
    "keep_rows": [(kind, "u1") for kind in [*SIGNED, "u1"]],  # uint64 comes as int64
    "log_probabilities": [("f4", "f4")],
    "logsumexp_rows": FLOATS,
    "max_rows": SAME,
    "merge_tokens": [("f4", "f8")],
    "number_rows": [(None, "i8")],
    "perturb_scores": [("f4", "f4")],
    "scatter_rows": SAME,
    "select_beams": FLOATS,
    "softmax_back": FLOATS,
    "softmax_rows": FLOATS,
    "spread_exp": FLOATS,
    "spread_places": FLOATS,
    "spread_rows": FLOATS,
    "sum_copies": SAME,
    "sum_rows": [*FLOATS, *MEANS],  # and see below
    "topk_back": FLOATS,
    "topk_rows": FLOATS,
    "window_back": FLOATS,
}

# What adds up float32 in blocks, and the blocks in float64.
IN_BLOCKS = {"cumsum_rows", "log_probabilities", "logsumexp_rows", "scatter_rows", "softmax_back", "softmax_rows"}
IN_BLOCKS |= {"sum_copies", "sum_rows", "topk_rows"}

# Where the threads of a block that has a row to itself work together.
TOGETHER = {"best_tokens", "log_probabilities", "perturb_scores"}

needs_compiler = pytest.mark.skipif(
    any(
        os.environ.get(name, "0") not in ("", "0")
        for name in ("NUMBA_ENABLE_CUDASIM", "NUMBA_DISABLE_JIT", "NUMBA_BOUNDSCHECK")
    ),
    reason="code for CUDA is made where kernels are compiled, and once is enough",
)


def module(name):
    return importlib.import_module(f"seqformats.kernels.{name}")


def parameters(function):
    return inspect.signature(function).parameters


@pytest.mark.parametrize("name", ON_CUDA)
def test_every_kernel_that_moves_or_calculates_has_a_cuda_twin(name):
    assert hasattr(module(name), "cpu")
    assert hasattr(module(name), "cuda"), f"kernels/{name}.py has no CUDA kernel and is not listed as host-only"


@pytest.mark.parametrize("name", sorted(HOST_ONLY))
def test_host_only_kernels_exist_and_have_no_twin(name):
    assert not hasattr(module(name), "cuda")


@pytest.mark.parametrize("name", ON_CUDA)
def test_a_twin_takes_the_arrays_and_numbers_of_the_cpu_kernel_in_the_same_order(name):
    cpu = module(name).cpu
    on_cpu = list(parameters(getattr(cpu, "py_func", cpu)))
    on_cuda = list(parameters(module(name).cuda.function))
    assert on_cpu[-2:] == ["lo", "hi"]
    assert on_cuda[: len(on_cpu) - 2] == on_cpu[:-2]
    assert on_cuda[len(on_cpu) - 2 :] in ([], ["runs"])


def is_move(name):
    return "move_word" in module(name).cuda.function.__code__.co_names


MOVES = [name for name in ON_CUDA if is_move(name)]
WITH_ADDRESSES = [name for name in MOVES if "addresses" in parameters(module(name).cuda.function)]


def test_every_kernel_that_calculates_is_compiled_below():
    assert sorted(TAKEN) == [name for name in ON_CUDA if name not in MOVES]


TYPES = {"c16": "complex128"}
for kind, word in (("u", "uint"), ("i", "int"), ("f", "float")):
    TYPES.update({f"{kind}{size}": f"{word}{8 * size}" for size in (1, 2, 4, 8)})


def ptx_of(function, kinds, compute):
    """The code of a kernel function for arguments of these kinds: "f4" is an array of float32, None an integer."""
    pytest.importorskip("numba_cuda", reason="numba-cuda compiles the kernels")
    from numba import cuda

    from seqformats import _cuda

    types = cuda.types

    def type_of(kind):
        if isinstance(kind, tuple):
            return types.BaseTuple.from_types([type_of(part) for part in kind], type(kind))
        return types.int64 if kind is None else getattr(types, TYPES[kind])[::1]

    signature = types.void(*map(type_of, kinds))
    code, _ = cuda.compile_ptx(_cuda.bound(function), signature, cc=compute)
    return code


def kinds_of(function, items, out, addresses=False):
    """The kinds of its arguments, told by their names; numbers and named tuples are annotated as such."""

    def kind_of(name, annotation):
        if hasattr(annotation, "_fields"):
            fields = annotation.__annotations__
            return annotation(*[kind_of(field, fields[field].__forward_arg__) for field in annotation._fields])
        if annotation in (int, "int") or (name == "src" and addresses):
            return None
        exact = "f8" if out == "f4" else out
        return "i8" if name in STRUCTURE else {"out": out, "sums": exact}.get(name, items)

    return [kind_of(name, parameter.annotation) for name, parameter in parameters(function).items()]


def instructions(code):
    """The lines of the kernel's body, without declarations of registers and variables."""
    lines = [line.strip() for line in code.splitlines()]
    return [line for line in lines if line and not line.startswith((".", "//", "{", "}", ")", "$"))]


def assert_clean(code, floats=()):
    """No local memory, no calls, and no floating point but in these types."""
    for line in instructions(code):
        assert not re.search(r"\b(ld|st)\.local", line), line
        assert not line.startswith("call"), line
        for kind in {"f16", "f32", "f64"} - set(floats):
            assert f".{kind}" not in line, line


WORDS = [*((size, (8, 0)) for size in (1, 2, 4, 8)), *((16, compute) for compute in COMPUTE)]


@needs_compiler
@pytest.mark.parametrize(("size", "compute"), WORDS)
@pytest.mark.parametrize("name", MOVES)
def test_moves_are_whole_words(name, size, compute):
    from seqformats import _cuda

    function = module(name).cuda.function
    word = _cuda.WORDS[size].str[1:]
    variants = [False, True] if name in WITH_ADDRESSES else [False]
    for addresses in variants:
        code = ptx_of(function, kinds_of(function, word, word, addresses), compute)
        assert_clean(code)
        kind = "v2.u64" if size == 16 else f"u{8 * size}"
        assert re.search(rf"\bld\.global(\.nc)?\.{kind}\b", code), f"no load of {size} bytes"
        assert re.search(rf"\bst\.global\.{kind}\b", code), f"no store of {size} bytes"
        for store in re.findall(r"\bst\.global\.([\w.]+)", code):
            assert store == kind or size == 16, f"a store of {store}"
        assert not re.search(r"\b(div|rem)\.", code), "a division in the arithmetic of indices"


def arithmetic():
    """What to compile for which GPU: float32 for all of them, the others for one."""
    for name, pairs in TAKEN.items():
        for items, out in pairs:
            for compute in COMPUTE:
                if compute == (8, 0) or items in (None, "f4"):
                    label = "-".join([name, *filter(None, (items, out)), "{}.{}".format(*compute)])
                    yield pytest.param(name, items, out, compute, id=label)


@needs_compiler
@pytest.mark.parametrize(("name", "items", "out", "compute"), list(arithmetic()))
def test_arithmetic(name, items, out, compute):
    from seqformats import _cuda

    kernel = module(name).cuda
    code = ptx_of(kernel.function, kinds_of(kernel.function, items, out), compute)
    # Integers are never calculated with as floats, nor float32 as float64, but for the sums of blocks; a float64
    # exponential begins as a float32.
    floats = {"f4": ["f32"], "f8": ["f32", "f64"]}
    in_blocks = name in IN_BLOCKS and out == "f4"
    assert_clean(code, ["f32", "f64"] if in_blocks else floats.get(items if out == "i8" else out, ()))
    if in_blocks:
        assert "add.f64" in code or "add.rn.f64" in code, "no sum in float64"
        assert not re.search(r"\b(mul|div|fma|sub|ex2|lg2)\.[\w.]*f64", code), "more than sums in float64"
    assert not re.search(r"\b(div|sqrt)\.(approx|full)", code), "a division or root that is not rounded as on the CPU"
    rooms = re.findall(r"\.shared \.align (\d+) \.b8 \w+\[(\d+)\]", code)
    if kernel.over == "sequences" or name in TOGETHER:
        assert "bar.sync" in code
        assert rooms, "threads of a block share no memory"
        for item, room in rooms:
            assert int(room) == int(item) * _cuda._SUM_THREADS
    else:
        assert "bar.sync" not in code
        assert not rooms


@needs_compiler
@pytest.mark.parametrize(("items", "out"), [kinds for kinds in SUMS if kinds not in FLOATS])
def test_sums_of_integers(items, out):
    """Only what is divided goes through floats: the sum itself is stored as it came out of shared memory."""
    function = module("sum_rows").cuda.function
    code = ptx_of(function, kinds_of(function, items, out), (8, 0))
    assert_clean(code, ["f64"])
    sums = set(re.findall(r"\bld\.shared\.u64\s+(%rd\d+)", code))
    stored = set(re.findall(r"\bst\.global\.u64\s+\[[^]]+\], (%rd\d+)", code))
    assert sums & stored


@needs_compiler
@pytest.mark.parametrize("to", ["i8", "f2", "f4", "f8"])
@pytest.mark.parametrize("of", ["u1", "i4", "f2", "f4", "f8"])
def test_changes_of_dtype(of, to):
    from seqformats import _cuda

    assert_clean(ptx_of(_cuda._cast_items, [of, to], (8, 0)), ["f16", "f32", "f64"])


def careless(x, out):
    """A constant that is a float64."""
    total = 0.0
    for i in range(x.size):
        total += x[i]
    out[0] = total


def spilling(x, out):
    """Local memory."""
    room = gpu.local.array(8, x.dtype)
    for i in range(x.size):
        room[i & 7] = x[i]
    out[0] = room[x.size & 7]


@needs_compiler
@pytest.mark.parametrize("function", [careless, spilling])
def test_the_check_sees_what_it_looks_for(function):
    with pytest.raises(AssertionError):
        assert_clean(ptx_of(function, ["f4", "f4"], (8, 0)), ["f32"])
