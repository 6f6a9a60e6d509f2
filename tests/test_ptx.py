"""Every CUDA kernel becomes code for every word size and dtype, and the code is what it should be; no GPU is needed."""

import importlib
import inspect
import os
import pathlib
import re

import numpy as np
import pytest

from seqformats import kernels

HOST_ONLY = {"check_lengths", "check_offsets", "check_order", "cut_buckets", "fill_bins", "scan_list", "sort_lengths"}
FOLDER = pathlib.Path(kernels.__file__).parent
NAMES = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "__init__")
ON_CUDA = [name for name in NAMES if name not in HOST_ONLY]
STRUCTURE = {"starts", "out_starts", "cum", "indices", "steps", "offsets"}
DATA = {"src", "out", "item", "x"}
COMPUTE = [(7, 5), (8, 0), (9, 0)]

needs_compiler = pytest.mark.skipif(
    any(os.environ.get(name, "0") not in ("", "0") for name in ("NUMBA_ENABLE_CUDASIM", "NUMBA_DISABLE_JIT")),
    reason="neither the simulator nor interpreted kernels are compiled",
)


def module(name):
    return importlib.import_module(f"seqformats.kernels.{name}")


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
    on_cpu = list(inspect.signature(getattr(cpu, "py_func", cpu)).parameters)
    on_cuda = list(inspect.signature(module(name).cuda.function).parameters)
    assert on_cpu[-2:] == ["lo", "hi"]
    assert on_cuda[: len(on_cpu) - 2] == on_cpu[:-2]
    assert on_cuda[len(on_cpu) - 2 :] in ([], ["runs"])


def is_move(name):
    return "move_word" in module(name).cuda.function.__code__.co_names


MOVES = [name for name in ON_CUDA if is_move(name)]
WITH_ADDRESSES = [name for name in MOVES if "addresses" in inspect.signature(module(name).cuda.function).parameters]


TYPES = {"b1": "boolean", "c16": "complex128"}
for kind, word in (("u", "uint"), ("i", "int"), ("f", "float")):
    TYPES.update({f"{kind}{size}": f"{word}{8 * size}" for size in (1, 2, 4, 8)})


def ptx_of(function, kinds, compute):
    """The code of a kernel function for arguments of these kinds: "f4" is an array of float32, None an integer."""
    pytest.importorskip("numba_cuda", reason="numba-cuda compiles the kernels")
    from numba import cuda

    from seqformats import _cuda

    types = cuda.types
    arguments = [types.int64 if kind is None else getattr(types, TYPES[kind])[::1] for kind in kinds]
    signature = types.void(*arguments)
    code, _ = cuda.compile_ptx(_cuda.bound(function), signature, cc=compute)
    return code


def kinds_of(function, dtype, addresses=False):
    """The kinds of its arguments, told by their names."""
    found = []
    for name in inspect.signature(function).parameters:
        if name == "src" and addresses:
            found.append(None)
        elif name in DATA:
            found.append(dtype)
        else:
            found.append("i8" if name in STRUCTURE or name == "numbers" else None)
    return found


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


@needs_compiler
@pytest.mark.parametrize("compute", COMPUTE)
@pytest.mark.parametrize("size", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("name", MOVES)
def test_moves_are_whole_words(name, size, compute):
    from seqformats import _cuda

    function = module(name).cuda.function
    variants = [False, True] if name in WITH_ADDRESSES else [False]
    for addresses in variants:
        code = ptx_of(function, kinds_of(function, _cuda.WORDS[size].str[1:], addresses), compute)
        assert_clean(code)
        kind = "v2.u64" if size == 16 else f"u{8 * size}"
        assert re.search(rf"\bld\.global(\.nc)?\.{kind}\b", code), f"no load of {size} bytes"
        assert re.search(rf"\bst\.global\.{kind}\b", code), f"no store of {size} bytes"
        assert not re.search(r"\b(div|rem)\.", code), "a division in the arithmetic of indices"


@needs_compiler
@pytest.mark.parametrize("compute", COMPUTE)
@pytest.mark.parametrize("dtype", ["f4", "f8", "i8", "u8"])
def test_sums(dtype, compute):
    function = module("sum_rows").cuda.function
    code = ptx_of(function, kinds_of(function, dtype), compute)
    assert_clean(code, {"f4": ["f32"], "f8": ["f64"]}.get(dtype, ()))
    assert "bar.sync" in code
    assert f".shared .align {np.dtype(dtype).itemsize}" in code


@needs_compiler
@pytest.mark.parametrize("compute", COMPUTE)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_spreads(dtype, compute):
    function = module("spread_rows").cuda.function
    code = ptx_of(function, kinds_of(function, dtype), compute)
    assert_clean(code, {"f4": ["f32"], "f8": ["f64"]}[dtype])
    assert f"div.rn.f{8 * np.dtype(dtype).itemsize}" in code, "a division that is not rounded as on the CPU"


@needs_compiler
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_division_of_rows(dtype):
    from seqformats import _cuda

    function = _cuda._divide_rows
    code = ptx_of(function, kinds_of(function, dtype), (8, 0))
    assert_clean(code, {"f4": ["f32"], "f8": ["f64"]}[dtype])


@needs_compiler
@pytest.mark.parametrize("to", ["i8", "u8", "f2", "f4", "f8"])
@pytest.mark.parametrize("of", ["b1", "i1", "i4", "u2", "u8", "f2", "f4", "f8"])
def test_changes_of_dtype(of, to):
    from seqformats import _cuda

    assert_clean(ptx_of(_cuda._cast_items, [of, to], (8, 0)), ["f16", "f32", "f64"])


@needs_compiler
def test_the_check_sees_what_it_looks_for():
    """A kernel with a float64 constant and one with local memory are refused."""
    pytest.importorskip("numba_cuda", reason="numba-cuda compiles the kernels")
    from seqformats._cuda import gpu

    def careless(x, out):
        total = 0.0
        for i in range(x.size):
            total += x[i]
        out[0] = total

    def spilling(x, out):
        room = gpu.local.array(8, x.dtype)
        for i in range(x.size):
            room[i & 7] = x[i]
        out[0] = room[x.size & 7]

    for function in (careless, spilling):
        with pytest.raises(AssertionError):
            assert_clean(ptx_of(function, ["f4", "f4"], (8, 0)), ["f32"])
