"""Every CUDA kernel becomes code for every word size and dtype, and the code is what it should be; no GPU is needed."""

import inspect
import os
import pathlib
import re
import sys
from typing import TYPE_CHECKING

import pytest
from passes import FULL

from seqformats import kernels
from seqformats.kernels.parts.record import COMPLEX, is_group, tuples
from seqformats.launch.kernel import kernel
from seqformats.layout import MOST_THREADS
from seqformats.native.signature import FOURS, with_places

if TYPE_CHECKING:  # put among the globals of a kernel before it is compiled
    from seqformats.kernels.parts.gpu import gpu

FOLDER = pathlib.Path(kernels.__file__).parent
KERNELS = {path.stem: kernel(path.stem).load() for path in sorted(FOLDER.glob("*.py")) if path.stem != "__init__"}
MOVES = [name for name, spec in KERNELS.items() if spec.does == "moves" and spec.cuda]
CALCULATE = [name for name, spec in KERNELS.items() if spec.does == "calculates"]
ON_CUDA = MOVES + CALCULATE
COMPUTE = [(7, 5), (8, 0), (9, 0)]
# GPUs that differ in registers, for which a variant of each kernel is assembled: in each run for the newest alone.
ASSEMBLED = COMPUTE[1:] if FULL else COMPUTE[2:]

# What adds up float32 in blocks, and the blocks in float64.
IN_BLOCKS = {
    *("add_powers", "add_rows", "class_losses", "ctc_best", "cumsum_rows", "fold_chunks", "log_probabilities"),
    *("logsumexp_rows", "power_pieces", "scatter_rows", "slope_pieces", "softmax_back", "softmax_rows", "spread_exp"),
    *(
        "merge_tops",
        "run_pieces",
        "sum_copies",
        "sum_rows",
        "topk_rows",
        "var_back",
        "var_rows",
        "weigh_back",
        "weigh_rows",
    ),
}

# What calculates with float32 in float64.
IN_DOUBLES = {"norm_rows"}

# Where the threads of a block that has a row to itself work together.
TOGETHER = {
    "add_lengths",
    "count_true",
    "ctc_best",
    "ctc_losses",
    "ctc_viterbi",
    "attend_back",
    "attend_rows",
    "best_of_groups",
    "best_tokens",
    "class_losses",
    "draw_tokens",
    "log_probabilities",
    "mask_items",
    "perturb_scores",
}

# What has the bits of a plain loop on the CPU, where a product is rounded before it is added to something.
PLAIN_LOOPS = {"advantage_back", "advantage_rows", "average_rows", "recurrence_back", "recurrence_rows", "reward_rows"}

# Where the threads of a sequence meet in the memory of their results.
IN_RESULTS = {"ctc_best", "ctc_viterbi", "order_rows"}

needs_compiler = pytest.mark.skipif(
    any(
        os.environ.get(name, "0") not in ("", "0")
        for name in ("NUMBA_ENABLE_CUDASIM", "NUMBA_DISABLE_JIT", "NUMBA_BOUNDSCHECK")
    ),
    reason="code for CUDA is made where kernels are compiled, and once is enough",
)


def test_no_kernel_has_a_function_with_the_name_of_a_shared_one():
    """On a GPU the shared one would be called in its place."""
    from seqformats.kernels.parts.gpu import _NAMES

    for name in ON_CUDA:
        spec = KERNELS[name]
        own = {key: value for key, value in vars(sys.modules[spec.cpu.__module__]).items() if inspect.isfunction(value)}
        assert {key for key in own.keys() & _NAMES.keys() if own[key].__module__ == spec.cpu.__module__} == set(), name


def parameters(function):
    """By name, what kind each is: "Layout", "Integers", "int", or another word for an array of items."""
    function = getattr(function, "py_func", function)
    found = {}
    for name, x in inspect.signature(function).parameters.items():
        found |= x.annotation.__annotations__ if is_group(x.annotation) else {name: x.annotation}
    return {name: getattr(kind, "__name__", "?") for name, kind in found.items()}


ROWS = {name: kind for name, kind in tuples().items() if name != "Layout"}


def fields(kind):
    """The same for what is in a named tuple that kernels take."""
    return {name: word.__forward_arg__ for name, word in ROWS[kind].__annotations__.items()}


def flat(kinds):
    """These kinds, and in place of named tuples those in them."""
    return [part for kind in kinds for part in (flat(fields(kind).values()) if kind in ROWS else [kind])]


# Kernels without a twin: what they go over is on the host, whatever the device of the items.
HOST_ALONE = {
    "lengths, offsets, orders": """check_lengths check_offsets check_order chunk_counts chunk_runs cover_chunks cut_runs
        flex_blocks join_lengths pair_items pair_lengths pick_sequences share_lengths sort_lengths split_rows""",
    "costs of sequences, and their packing": """cut_buckets deal_costs fill_bins fit_bins group_bins improve_bins
        merge_spreads rank_keys search_bins""",
    "indices, labels and marks that make a structure": "count_kept cut_places group_ids plan_losses wrap_places",
    "the tree of a search": "advance_beams merge_tokens step_beams trace_nodes",
    "texts": "ctc_texts link_ngrams read_ngrams score_ngrams",
    "what PyTorch and CuPy have on a GPU": "gate_weights gru_back gru_steps lstm_back lstm_steps matrix_product",
    "words, which other kernels move on a GPU": "steps_to_words words_to_steps",
}


def test_every_kernel_over_items_has_a_cuda_twin():
    """`test_items_stay_where_they_are` sees that no operation brings items to these."""
    alone = {name for name, spec in KERNELS.items() if spec.cuda is None}
    assert alone == {name for names in HOST_ALONE.values() for name in names.split()}
    assert {name for name in alone if KERNELS[name].does != "host"} == {"steps_to_words", "words_to_steps"}


@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_says_what_it_is(name):
    spec = KERNELS[name]
    assert spec.does in ("moves", "calculates", "host")
    if spec.cuda is None:
        assert spec.over == ""
    else:
        assert spec.over in ("rows", "lines", "rooms", "runs", "units", "sequences", "blocks", "scores")
        moves = {"move_word", "move_four", "store_word"}.intersection(spec.cuda.__code__.co_names)
        assert (spec.does == "moves") is bool(moves)
    if spec.does != "host":
        assert list(parameters(spec.cpu))[-3:-2] in (["row"], ["width"], ["places"]), "the size comes last"
    if spec.does == "calculates":
        items = [kind for kind in flat(parameters(spec.cpu).values()) if kind == "Array"]
        assert spec.takes
        assert spec.over in ("blocks", "scores") or {len(kinds) for kinds in spec.takes} == {len(items)}
    else:
        assert spec.does == "host" or not spec.takes


@pytest.mark.parametrize("name", ON_CUDA)
def test_a_twin_takes_what_the_cpu_kernel_takes_in_the_same_order(name):
    on_cpu, on_cuda = parameters(KERNELS[name].cpu), parameters(KERNELS[name].cuda)
    assert list(on_cpu)[-2:] == ["lo", "hi"]
    assert list(on_cuda)[: len(on_cpu) - 2] == list(on_cpu)[:-2]
    assert list(on_cuda)[len(on_cpu) - 2 :] in ([], ["runs"])
    assert KERNELS[name].short is None or parameters(KERNELS[name].short) == on_cuda
    for argument in on_cuda.keys() - {"src", "out", "item", "work", "runs"}:  # addresses, and room for other work
        assert on_cuda[argument] == on_cpu[argument], argument


WITH_ADDRESSES = [name for name in MOVES if "absolute" in inspect.getsource(KERNELS[name].cuda)]


def ptx_of(function, kinds, compute, bits=32):
    """The code of a kernel function for arguments of these kinds: "f4" is an array of float32, None an integer."""
    pytest.importorskip("numba_cuda", reason="numba-cuda compiles the kernels")
    from seqformats.kernels.parts import cubins

    def word_of(kind):
        if isinstance(kind, tuple):
            return (type(kind).__name__, *map(word_of, kind))
        return {None: "i", "layout": ("Layout", "i8", "i8", "i8", "i", "i", "i", "i")}.get(kind, kind)

    words = with_places([word_of(kind) for kind in kinds], bits)
    return cubins.ptx_of(function, words, compute)


def kinds_of(function, items, addresses=False):
    """The kinds of its arguments; `items` are the dtypes of arrays that are not of int64, in their order."""
    left = iter(items)

    def kind_of(name, kind):
        if kind in ROWS:
            return ROWS[kind](**{field: kind_of(field, word) for field, word in fields(kind).items()})
        if kind == "int" or (name == "src" and addresses):
            return None
        return {"Layout": "layout", "Integers": "i8", "Bytes": "u1", "Singles": "f4"}.get(kind) or next(left)

    found = [kind_of(name, kind) for name, kind in parameters(function).items()]
    assert not list(left)
    return found


def instructions(code):
    """The lines of the kernel's body, without declarations of registers and variables."""
    lines = [line.strip() for line in code.splitlines()]
    return [line for line in lines if line and not line.startswith((".", "//", "{", "}", ")", "$"))]


def assert_clean(code, floats=()):
    """No local memory, no calls, no address of an unknown space, and no floating point but in these types.

    Each of these rounds by itself, and where there are any the assembler knows how many threads a block has.
    """
    assert (f".maxntid {MOST_THREADS}, 1, 1" in code) is bool(re.search(r"\.f(32|64)\s", code))
    assert ("atom.global" in code) is ("membar.gl" in code), "blocks that meet without a fence"
    for line in instructions(code):
        assert not re.match(r"(@\S+ )?(add|sub|mul)\.f(32|64)\b", line), f"{line} may become part of a product and sum"
        assert not re.search(r"\b(ld|st)\.(?!global\.|shared\.|param\.)", line), line
        assert not line.startswith("call"), line
        for kind in {"f16", "f32", "f64"} - set(floats):
            assert f".{kind}" not in line, line


def assert_fits(log):
    """What the assembler says: nothing is kept in memory for want of registers."""
    found = re.findall(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", log)
    assert found, log
    assert {number for numbers in found for number in numbers} == {"0"}, log


def assert_assembles(name, code, compute):
    """A kernel becomes code of a GPU by its own name, and its numbers find room in registers."""
    from seqformats.kernels.parts import cubins

    code, entry = cubins.rename_entry(code, name)
    assert entry == name
    cubin, _, log = cubins.assemble(code, compute, name)
    assert cubin.startswith(b"\x7fELF")
    assert name.encode() in cubin
    assert_fits(log)


WORDS = [*((size, (8, 0)) for size in (1, 2, 4, 8)), *((16, compute) for compute in COMPUTE)]


@needs_compiler
@pytest.mark.parametrize(("size", "compute"), WORDS)
@pytest.mark.parametrize("name", MOVES)
def test_moves_are_whole_words(name, size, compute):
    from seqformats.launch.cuda import WORD_DTYPES as DTYPES

    function = KERNELS[name].cuda
    word = DTYPES[size].str[1:]
    variants = [False, True] if name in WITH_ADDRESSES else [False]
    for addresses in variants:
        code = ptx_of(function, kinds_of(function, [word] * (2 - addresses), addresses), compute)
        assert_clean(code)
        kind = "v2.u64" if size == 16 else f"u{8 * size}"
        assert re.search(rf"\bld\.global(\.nc)?\.{kind}\b", code), f"no load of {size} bytes"
        assert re.search(rf"\bst\.global\.{kind}\b", code), f"no store of {size} bytes"
        for store in re.findall(r"\bst\.global\.([\w.]+)", code):
            assert store == kind or size == 16, f"a store of {store}"
        assert not re.search(r"\b(div|rem)\.", code), "a division in the arithmetic of indices"
        if size == 16 and compute in ASSEMBLED:
            assert_assembles(name, code, compute)


@needs_compiler
@pytest.mark.parametrize("name", [name for name in ON_CUDA if "came_last" in KERNELS[name].cuda.__code__.co_names])
def test_what_other_blocks_have_written_is_read_behind_a_fence(name):
    """Where one is missing nothing sees it on the CPU, whose blocks run one after the other."""
    spec = KERNELS[name]
    code = ptx_of(spec.cuda, kinds_of(spec.cuda, spec.takes[0]), (8, 0))
    meetings = re.findall(r"\b(?:atom\.global|membar\.gl|fence)\b", code)
    assert meetings == ["membar.gl", "atom.global", "membar.gl"] * (len(meetings) // 3)
    assert meetings
    assert "ld.global.nc" not in code, "memory that others write is read as if it stayed the same"


@needs_compiler
@pytest.mark.parametrize("compute", COMPUTE)
def test_the_kernel_that_is_ptx_assembles(compute):
    pytest.importorskip("numba_cuda", reason="its packages assemble it")
    from seqformats.launch import parameters

    assert_assembles(parameters._NAME, parameters._PTX, compute)


def test_no_function_of_gpus_hides_one_of_a_kernel():
    """They are put among the globals of each kernel, before what is there."""
    from seqformats.kernels.parts import columns, device, keys

    found = {**columns.SHARED, **device.SHARED, **keys.KEYS}
    assert len(found) == len(columns.SHARED) + len(device.SHARED) + len(keys.KEYS)
    modules = [module for name, module in sys.modules.items() if name.startswith(kernels.__name__)]
    assert len(modules) > len(KERNELS)
    for module in modules:
        for name, function in found.items():
            assert vars(module).get(name, function) is function, f"{name} of {module.__name__}"


@needs_compiler
@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("name", ["pad_rows", "shift_rows", "max_rows"])
def test_places_have_32_bits_where_that_is_enough(name, bits):
    """One instruction for an address; the assembler would need two to four for each product of 64 bits."""
    spec = KERNELS[name]
    function, items = (spec.short, ["f4", "f4"]) if spec.short else (spec.cuda, ["c16", "c16"])
    code = ptx_of(function, kinds_of(function, items), (9, 0), bits)
    assert_clean(code, ["f32"] if spec.short else [])
    addresses = len(re.findall(r"\b(?:ld|st)\.global", code))
    found = len(re.findall(r"\bmul\.wide\.u32\s+\S+ \S+ (?:8|16|4);", code))
    assert found >= addresses / 2 if bits == 32 else found == 0


# Sums of integers, which become means in kernels that also divide.
INTEGERS = [
    (name, kinds) for name in ("sum_rows", "add_pieces") for kinds in KERNELS[name].takes if kinds[-1][0] in "iu"
]


def arithmetic():
    """What to compile: every kernel for all its dtypes, and what it has for short sequences."""
    for name in CALCULATE:
        for kinds in KERNELS[name].takes:
            if (name, kinds) not in INTEGERS:  # see below
                yield pytest.param(name, kinds, id="-".join([name, *kinds]))
                if KERNELS[name].short:
                    yield pytest.param(f"{name}.short", kinds, id="-".join([name, "short", *kinds]))


@needs_compiler
@pytest.mark.parametrize(("name", "kinds"), list(arithmetic()))
def test_arithmetic(name, kinds):
    from seqformats.launch.grids import SCORE_THREADS, SUM_THREADS

    name, _, short = name.partition(".")
    spec = KERNELS[name]
    function = spec.short if short else spec.cuda
    code = ptx_of(function, kinds_of(function, kinds), (8, 0))
    # Integers are never calculated with as floats, nor float32 as float64, but for the sums of blocks; a float64
    # exponential begins as a float32.
    floats = {"f32": {"f4", "c8"}, "f64": {"f8", "c16"}}
    one_block = short and name == "var_rows"
    in_blocks = name in IN_BLOCKS and not one_block and "f4" in kinds and kinds[0] != "f8"
    allowed = [float for float, of in floats.items() if of & set(kinds)]
    assert_clean(code, ["f32", "f64"] if in_blocks or name in IN_DOUBLES or "f8" in kinds else allowed)
    if in_blocks:
        assert "add.f64" in code or "add.rn.f64" in code, "no sum in float64"
        assert not re.search(r"\b(mul|div|fma|sub|ex2|lg2)\.[\w.]*f64", code), "more than sums in float64"
    assert name not in PLAIN_LOOPS or "fma.rn.f64" not in code, "a product and a sum as one operation"
    assert not re.search(r"\b(div|sqrt)\.(approx|full)", code), "a division or root that is not rounded as on the CPU"
    rooms = re.findall(r"\.shared \.align (\d+) \.b8 \w+\[(\d+)\]", code)
    if not short and (spec.over == "sequences" or name in TOGETHER):
        assert "bar.sync" in code
        assert rooms or name in IN_RESULTS, "threads of a block share no memory"
        assert not rooms or ("ld.shared" in code and "st.shared" in code)
        parts = 2 if kinds[-1] in COMPLEX else 1  # a complex number lies as one of its floats may
        for item, room in rooms:
            places = SCORE_THREADS if spec.over == "scores" else SUM_THREADS
            assert int(room) == parts * int(item) * places
    else:
        assert "bar.sync" not in code
        assert not rooms
    if kinds == spec.takes[0]:
        for compute in ASSEMBLED:
            assert_assembles(name, code, compute)


IN_FOURS = [
    (name, which)
    for name in CALCULATE
    for which in ("short", "cuda")
    if KERNELS[name].fours and (KERNELS[name].short if which == "short" else KERNELS[name].over in ("lines", "units"))
]


@needs_compiler
@pytest.mark.parametrize(("name", "which"), IN_FOURS)
def test_four_columns_are_one_item(name, which):
    """Read and written in one access each, and calculated with in registers."""
    function = getattr(KERNELS[name], which)
    items = [FOURS] * len(KERNELS[name].takes[0])
    for compute in ASSEMBLED:
        code = ptx_of(function, kinds_of(function, items), compute)
        assert_clean(code, ["f32", "f64"] if name in IN_BLOCKS | IN_DOUBLES else ["f32"])
        for access in re.findall(r"\b(?:ld|st)\.global\.([\w.]*[fb]32)\b", code):
            assert re.search(r"\bv4\.", access), access
        assert re.search(r"\bld\.global[\w.]*\.v4\.[fb]32", code)
        assert re.search(r"\bst\.global[\w.]*\.v4\.[fb]32", code)
        assert not re.search(r"\b(div|sqrt)\.(approx|full)", code)
        assert_assembles(name, code, compute)


@needs_compiler
@pytest.mark.parametrize(("name", "kinds"), INTEGERS, ids=lambda x: x if isinstance(x, str) else "-".join(x))
def test_sums_of_integers(name, kinds):
    """Only what is divided goes through floats: one store is of a sum that was added up as a whole number."""
    function = KERNELS[name].cuda
    code = ptx_of(function, kinds_of(function, kinds), (8, 0))
    assert_clean(code, ["f64"])
    stored = set(re.findall(r"\bst\.global\.u64\s+\[[^]]+\], (%rd\d+)", code))
    rounded = set(re.findall(r"\bcvt\.[\w.]*f64\s+(%rd\d+)", code))
    assert stored - rounded


@needs_compiler
@pytest.mark.parametrize("to", ["i8", "f2", "f4", "f8"])
@pytest.mark.parametrize("of", ["u1", "i4", "f2", "f4", "f8"])
def test_changes_of_dtype(of, to):
    from seqformats.arrays import numba

    assert_clean(ptx_of(numba._cast_items, [of, to], (8, 0)), ["f16", "f32", "f64"])


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


def overflowing(x, out):
    """More than there are registers: eight numbers the assembler finds room for."""
    room = gpu.local.array(512, x.dtype)
    for i in range(x.size):
        room[i & 511] = x[i]
    out[0] = room[x.size & 511]


@needs_compiler
def test_what_does_not_fit_is_seen():
    from seqformats.kernels.parts import cubins

    code, _ = cubins.rename_entry(ptx_of(overflowing, ["f4", "f4"], (9, 0)), "overflowing")
    with pytest.raises(AssertionError):
        assert_fits(cubins.assemble(code, (9, 0), "overflowing")[2])
