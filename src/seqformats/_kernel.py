"""How this house compiles: the Numba options, the disk cache, and the few functions that kernels are made of.

Kernels import this file and nothing else of the library.  Numba's disk cache stamps a kernel with its own file only,
so the cache here adds a digest of this file and of the flags that change the code; it never raises into a call.
"""

import ctypes
import functools
import hashlib
import inspect
import logging
import math
import operator
import os
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import config, njit, types
from numba.core import cgutils
from numba.core.caching import FunctionCache
from numba.core.errors import RequireLiteralValue
from numba.core.typing.templates import AbstractTemplate, infer, infer_global, signature
from numba.extending import intrinsic, lower_builtin, models, overload, register_jitable, register_model, type_callable

_STAMP = (
    hashlib.sha256(pathlib.Path(__file__).read_bytes()).hexdigest(),
    config.BOUNDSCHECK,
    config.OPT,
)
_log = logging.getLogger("seqformats")


class _Cache(FunctionCache):
    """Numba's disk cache with a wider stamp; a damaged, foreign or unwritable file means compiling, not an error."""

    def _index_key(self, sig: Any, codegen: Any) -> Any:
        return (*super()._index_key(sig, codegen), _STAMP)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            return super().load_overload(sig, target_context)
        except Exception:
            self._start_over()
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            super().save_overload(sig, data)
        except Exception:
            self._start_over()

    def _start_over(self) -> None:
        """Empty the index, so that a damaged one is written anew instead of failing for ever."""
        try:
            self.flush()
        except Exception as error:
            _log.debug("kernel cache unusable: %s", error)


def compiled(function: Callable[..., Any], *, nogil: bool = True) -> Any:
    """Compile a kernel for the CPU: no GIL, NumPy's division, cached on disk unless SEQFORMATS_CACHE=0."""
    dispatcher = njit(nogil=nogil, error_model="numpy")(function)
    if os.environ.get("SEQFORMATS_CACHE", "1") != "0" and not config.DISABLE_JIT:
        try:
            dispatcher._cache = _Cache(function)
        except RuntimeError as error:  # no writable place: compile in each process
            _log.info("kernels are not cached: %s", error)
    return dispatcher


def compiled_with_gil(function: Callable[..., Any]) -> Any:
    """The same for a kernel that reads Python objects, and must be alone with them."""
    return compiled(function, nogil=False)


class CudaKernel:
    """A kernel for CUDA, compiled when it is first started: importing its file for the CPU loads no CUDA package.

    `over` says what the grid counts: "rows"; "runs" of free rows; "units", a thread for each column of items of a
    sequence; "sequences", a block for each, with threads for its columns; "blocks", a block for each unit.
    """

    def __init__(self, function: Callable[..., None], over: str) -> None:
        self.function = function
        self.over = over

    @functools.cached_property
    def compiled(self) -> Any:
        """What can be started; see `_cuda.compiled`."""
        from . import _cuda

        return _cuda.compiled(self.function)


def compiled_for_cuda(over: str) -> Callable[[Callable[..., None]], CudaKernel]:
    """Make the decorated function a kernel for CUDA."""
    return lambda function: CudaKernel(function, over)


def shared(function: Callable[..., Any]) -> Any:
    """Make the decorated plain function one that kernels call on every device."""
    made: Any = register_jitable(function)
    made.shared = True  # `_cuda.bound` looks for it
    return made


@shared
def locate(starts: Any, cum: Any, u: int, stride: int, left: int, step: int) -> Any:
    """The sequence of unit `u` (a sequence or a column), the row of its first item, and its length; see `along`.

    Where `step` is 1, sequence u begins at row ``starts[u]``, or, where `stride` is not negative, at ``u * stride``, at
    the right end of that room where `left` is 1.  Otherwise column u holds sequence ``starts[u]``.
    """
    i = u if step == 1 else starts[u]
    length = cum[i + 1] - cum[i]
    if step != 1:
        first = u
    elif stride < 0:
        first = starts[u]
    else:
        first = u * stride + left * (stride - length)
    return i, first, length


@shared
def along(t: int, steps: Any, step: int) -> Any:
    """How many rows item t of a sequence comes after its first: ``t * step``, or ``steps[t]`` where `step` is 0."""
    return steps[t] if step == 0 else t * step


@shared
def beyond(value: Any, best: Any, least: int) -> Any:
    """Is `value` larger than `best`, or less where `least` is 1?  NaN is beyond every number, but not beyond NaN."""
    return (value < best if least else value > best) or (value != value and best == best)


@shared
def best_of_column(block: Any, k: int, width: int, least: int) -> Any:
    """The largest (least) item of column k of a few: `beyond` without branches, which random numbers would mislead.

    Call it with a constant `least`, so that the loop it becomes compares in one way only.
    """
    best = block[k]
    j = k
    while j < block.size:
        value = block[j]
        best = value if (value < best if least else value > best) | (value != value) else best
        j += width
    return best


@shared
def put(values: Any, ids: Any, begin: int, found: int, most: int, value: Any, id: int) -> int:
    """Insert a candidate into a list of the `most` best at `begin`, if it is good enough; the new length of the list.

    The order: higher value, then whoever came first.  NaN and -inf are no candidates.
    """
    place = begin
    for j in range(begin, begin + found):  # counted without branches, which random numbers would mislead
        place += values[j] >= value
    if place == begin + most or not value > -math.inf:
        return found
    j = begin + found if found < most else begin + most - 1
    while j > place:
        values[j] = values[j - 1]
        ids[j] = ids[j - 1]
        j -= 1
    values[place] = value
    ids[place] = id
    return found + 1 if found < most else found


@shared
def place_of(tokens: Any, lo: int, hi: int, token: int) -> int:
    """Where `token` stands in ``tokens[lo:hi]``, which rise, or -1."""
    stop = hi
    while lo < hi:
        middle = (lo + hi) >> 1
        if tokens[middle] < token:
            lo = middle + 1
        else:
            hi = middle
    return lo if lo < stop and tokens[lo] == token else -1


@shared
def edit(value: Any, factor: Any, addend: Any) -> Any:
    """A log-probability after a multiplication, which makes it less likely on both sides of zero, and an addition."""
    return (value / factor if value > 0 else value * factor) + addend


@shared
def limited(
    value: Any,
    token: int,
    r: int,
    factors: Any,
    addends: Any,
    allowed_from: Any,
    allowed_to: Any,
    allowed: Any,
    edited_at: Any,
    edited: Any,
) -> Any:
    """A score or log-probability of row r under its limits, -inf where the token must not follow."""
    if edited_at.size != 0:
        e = place_of(edited, edited_at[r], edited_at[r + 1], token)
        if e >= 0:
            value = edit(value, factors[e], addends[e])
    chosen = allowed_from.size != 0 and allowed_from[r] >= 0
    if chosen and place_of(allowed, allowed_from[r], allowed_to[r], token) < 0:
        value = factors.dtype.type(-math.inf)  # a plain -math.inf would make everything float64
    return value


def exp(x: Any) -> Any:
    """The exponential function; of float32 to about 2 units in the last place, results below 1.2e-38 being zero.

    Compiled for float32 it is arithmetic alone, so that loops over it use vectors: the reduction and the polynomial of
    the Cephes library's ``expf``.  On CUDA the seam puts the device's own in its place.
    """
    return np.exp(x)


def _exp32(x):
    # adding 1.5 * 2^23 rounds to an integer n, which is then in the low bits
    shifted = x * np.float32(1.4426950408889634) + np.float32(12582912.0)
    n = shifted - np.float32(12582912.0)
    r = x - n * np.float32(0.693359375) + n * np.float32(2.12194440e-4)
    p = np.float32(1.9875691500e-4) * r + np.float32(1.3981999507e-3)
    p = p * r + np.float32(8.3334519073e-3)
    p = p * r + np.float32(4.1665795894e-2)
    p = p * r + np.float32(1.6666665459e-1)
    p = p * r + np.float32(5.0000001201e-1)
    p = p * r * r + r + np.float32(1.0)
    bits = np.int32(np.float32(shifted).view(np.int32) + np.int32(127))
    power = np.int32(bits << np.int32(23)).view(np.float32)
    y = p * power
    y = np.float32(0.0) if x < np.float32(-87.3) else y
    return np.float32(np.inf) if x > np.float32(88.3) else y


@overload(exp)
def _exp_compiled(x):
    if x == types.float32:
        return _exp32
    return lambda x: np.exp(x)


def move(out: Any, d: int, src: Any, s: int, size: int) -> None:
    """Copy `size` bytes from `s` in `src` to `d` in `out`.  Nothing is checked here.

    Each is an address, and then `s` or `d` counts bytes; or a flat array, and then it counts items.
    """
    ctypes.memmove(_place(out, d), _place(src, s), int(size))


def _place(base: Any, at: int) -> int:
    """The address of a place in a flat array, or after an address."""
    return int(base.ctypes.data + at * base.itemsize if isinstance(base, np.ndarray) else base + at)


def move_row(out: int, d: int, src: int, s: int, size: int) -> None:
    """`move` for one row, often a few bytes only: 1, 2, 4, 8 and 16 are one load and one store, others a memcpy."""
    move(out, d, src, s, size)


def move_run(out: int, d: int, d_step: int, src: int, s: int, s_step: int, size: int, count: int) -> None:
    """`count` moves of `size` bytes, each `d_step` and `s_step` bytes after the one before.

    Up to 64 bytes are one or two loads and stores, chosen once for all moves.
    """
    for k in range(count):
        move(out, d + k * d_step, src, s + k * s_step, size)


def fold_windows(
    out: Any, d: int, d_step: int, x: Any, p: int, p_step: int, width: int, before: int, count: int, length: int
) -> None:
    """Add up, for each of `length` rows of a sequence, its places in the windows of `count` rows around it.

    Row t of the result, ``out[d + t * d_step:][:width]``, is place q of the window of row ``t + before - q``, which
    begins at ``x[p + (t + before - q) * p_step + q * width]``, summed over q in rising order, beginning with 0.  `out`
    and `x` have the same dtype.
    """
    for t in range(length):
        total = out[d + t * d_step : d + t * d_step + width]
        total[:] = 0
        for q in range(max(t + before - length + 1, 0), min(count, t + before + 1)):
            place = p + (t + before - q) * p_step + q * width
            total += x[place : place + width]


def move_square(
    out: Any, d0: int, d1: int, d2: int, d3: int, src: Any, s0: int, s1: int, s2: int, s3: int, size: int
) -> None:
    """Four rows of four words each, transposed: word k of source row j becomes word j of target row k.

    Rows begin at bytes `d0` to `d3` and `s0` to `s3`; a word has `size` bytes, which are 1, 2, 4 or 8.
    """
    for j, d in enumerate((0, size, 2 * size, 3 * size)):
        s = (s0, s1, s2, s3)[j]
        for k, row in enumerate((d0, d1, d2, d3)):
            move(out, row + d, src, s + k * size, size)


def will_read(address: int) -> None:
    """Tell the memory that the byte there and its neighbours will soon be read; they need not exist."""


def will_write(address: int) -> None:
    """Tell the memory that the byte there and its neighbours will soon be written."""


@shared
def begin_of(start: int, i: int, length: int, stride: int, left: int, unit: int, row: int) -> int:
    """The byte at which the block of sequence i begins, on a side as `kernels.copy_blocks` tells it.

    `unit` is what `start` counts in: `row`, or 1 where it is an address.
    """
    return start * unit if stride < 0 else (i * stride + left * (stride - length)) * row


def clear(out: Any, d: int, size: int) -> None:
    """Set `size` bytes to zero, from `d` in `out` on; see `move`."""
    ctypes.memset(_place(out, d), 0, int(size))


def peek_byte(address: int) -> int:
    """The byte at a memory address."""
    return ctypes.c_int8.from_address(address).value


def peek(address: int) -> int:
    """The 64-bit integer at a memory address."""
    return ctypes.c_int64.from_address(int(address)).value


def peek_int(address: int) -> int:
    """The C int at a memory address."""
    return ctypes.c_int32.from_address(int(address)).value


def give(rows: int, i: int, x: Any, lo: int, hi: int, inside: int) -> int:
    """``rows[i] = x[lo:hi].tolist()``, float64 or int64, for the list at the address `rows`.

    `inside` is where a list object keeps the address of its items.  The result is the address of the new list, 0
    without memory.
    """
    row = x[lo:hi].tolist()
    ctypes.cast(int(rows), ctypes.py_object).value[i] = row
    return id(row)


def give_room(rows: int, i: int, size: int) -> int:
    """The same for a new list whose `size` items are still to be given."""
    row = [None] * size
    ctypes.cast(int(rows), ctypes.py_object).value[i] = row
    return id(row)


def _base(kind: Any) -> Any:
    """Flat bytes, or an address."""
    return kind if isinstance(kind, types.Array) else types.int64


def _address(context: Any, builder: Any, kind: Any, base: Any, place: Any) -> Any:
    """A byte pointer to item `place` of a flat array, or to the address `base + place`."""
    byte = ir.IntType(8).as_pointer()
    if isinstance(kind, types.Array):
        return builder.bitcast(builder.gep(context.make_array(kind)(context, builder, base).data, [place]), byte)
    return builder.inttoptr(builder.add(base, place), byte)


_BYTES = 128  # in flight at a time
_BYTES32 = ir.VectorType(ir.IntType(8), 32).as_pointer()


def _in_vectors(builder: Any, size: Any, fill: Callable[[list[Any]], None], few: Callable[[], None]) -> None:
    """Call `fill` with the places of four vectors of 32 bytes, until `size` bytes are done; `few` below 128 of them.

    Blocks of some KB from anywhere are the rule here, and there plain vectors are faster than the C library's choice.
    """

    def block(at: Any) -> None:
        fill([builder.add(at, ir.Constant(at.type, k)) for k in range(0, _BYTES, 32)])

    step = ir.Constant(size.type, _BYTES)
    with builder.if_else(builder.icmp_signed("<", size, step)) as (short, long):
        with short:
            few()
        with long:
            last = builder.sub(size, step)
            with cgutils.for_range_slice(builder, ir.Constant(size.type, 0), last, step, inc=True) as (at, _):
                block(at)
            block(last)  # of which some may have been done already


def _means(function: Any, *result: Any) -> Callable[[Any], Any]:
    """Let compiled code have the decorated generator of instructions in place of a plain function.

    This is what `numba.extending.overload` is for, but that takes a run of the whole compiler for each function that a
    kernel calls.  Numbers become int64; without a `result` there is none.
    """
    parameters = inspect.signature(function)

    def decorate(generate: Any) -> Any:
        @type_callable(function)
        def typing(context: Any) -> Any:
            def typer(*args: Any) -> Any:
                wanted = [x if isinstance(x, types.Array) else types.int64 for x in args]
                return signature(result[0] if result else types.void, *wanted)

            typer.pysig = parameters  # type: ignore[attr-defined]
            return typer

        @lower_builtin(function, types.VarArg(types.Any))
        def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            value = generate(context, builder, sig.args, args)
            return value if result else context.get_dummy_value()

        return generate

    return decorate


def _move(context: Any, builder: Any, kinds: Any, args: Any, words: tuple[int, ...] = ()) -> None:
    to = _address(context, builder, kinds[0], args[0], args[1])
    come = _address(context, builder, kinds[2], args[2], args[3])
    other, end = (builder.append_basic_block(name) for name in ("other", "end"))
    choice = builder.switch(args[4], other)
    for count in words:
        block = builder.append_basic_block(f"bytes{count}")
        choice.add_case(ir.Constant(args[4].type, count), block)
        builder.position_at_end(block)
        word = ir.IntType(8 * count).as_pointer()
        value = builder.load(builder.bitcast(come, word), align=1)
        builder.store(value, builder.bitcast(to, word), align=1)
        builder.branch(end)
    builder.position_at_end(other)

    def fill(places: list[Any]) -> None:
        values = [builder.load(builder.bitcast(builder.gep(come, [k]), _BYTES32), align=1) for k in places]
        for k, value in zip(places, values, strict=True):
            builder.store(value, builder.bitcast(builder.gep(to, [k]), _BYTES32), align=1)

    _in_vectors(builder, args[4], fill, lambda: cgutils.raw_memcpy(builder, to, come, args[4], 1))
    builder.branch(end)
    builder.position_at_end(end)


_means(move)(_move)
_means(move_row)(functools.partial(_move, words=(1, 2, 4, 8, 16)))


def _transposed(builder: Any, rows: list[Any]) -> list[Any]:
    """Vectors of a square: single lanes change places, then pairs."""
    n = len(rows)
    for b in (1, 2):
        for i in range(n):
            if not i & b:
                x, y = rows[i], rows[i ^ b]
                places = (
                    [n + (k ^ b) if k & b else k for k in range(n)],
                    [n + k if k & b else k ^ b for k in range(n)],
                )
                rows[i], rows[i ^ b] = (
                    builder.shuffle_vector(x, y, ir.Constant(ir.VectorType(ir.IntType(32), n), p)) for p in places
                )
    return rows


_INT = ir.IntType(64)


def _outlined(builder: Any, name: str, args: Any, body: Callable[..., None]) -> None:
    """Call a function, which `body` writes with its own builder and arguments where the module has none yet.

    Its loops are not unrolled, which would make them slower for short runs, and longer to compile.
    """
    kind = ir.FunctionType(ir.VoidType(), [arg.type for arg in args])
    function = cgutils.get_or_insert_function(builder.module, kind, f"seqformats_{name}")
    if function.is_declaration:
        function.linkage = "internal"
        for attribute in ("noinline", "optsize"):
            function.attributes.add(attribute)
        inner = ir.IRBuilder(function.append_basic_block("entry"))
        body(inner, *function.args)
        inner.ret_void()
    builder.call(function, args)


def _write_run(builder: Any, to: Any, d_step: Any, come: Any, s_step: Any, size: Any, count: Any) -> None:
    """The code of `move_run`, the places being pointers."""

    def words(width: int, *at: Any) -> None:
        kind = (ir.VectorType(ir.IntType(8), width) if width > 8 else ir.IntType(8 * width)).as_pointer()
        with cgutils.for_range(builder, count) as loop:
            places = [builder.gep(p, [builder.mul(loop.index, by)]) for p, by in ((to, d_step), (come, s_step))]
            targets, sources = [[builder.bitcast(builder.gep(p, [k]), kind) for k in at] for p in places]
            values = [builder.load(source, align=1) for source in sources]
            for value, target in zip(values, targets, strict=True):
                builder.store(value, target, align=1)
        builder.ret_void()

    for width in (1, 2, 4, 8, 16, 32):
        with builder.if_then(builder.icmp_signed("==", size, _INT(width))):
            words(width, _INT(0))
    for width in (4, 8, 16, 32):  # the second word ends where the row ends, and may overlap the first
        inside = [builder.icmp_signed(how, size, _INT(k)) for how, k in ((">", width), ("<=", 2 * width))]
        with builder.if_then(builder.and_(*inside)):
            words(width, _INT(0), builder.sub(size, _INT(width)))
    with cgutils.for_range(builder, count) as loop:
        places = [builder.gep(p, [builder.mul(loop.index, by)]) for p, by in ((to, d_step), (come, s_step))]
        cgutils.raw_memcpy(builder, *places, size, 1)


@intrinsic
def _move_run(
    typingctx: Any, out: Any, d: Any, d_step: Any, src: Any, s: Any, s_step: Any, size: Any, count: Any
) -> Any:
    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        to, come = (_address(context, builder, sig.args[k], args[k], args[k + 1]) for k in (0, 3))
        _outlined(builder, "move_run", [to, args[2], come, *args[5:]], _write_run)
        return context.get_dummy_value()

    whole = types.int64
    return types.void(_base(out), whole, whole, _base(src), whole, whole, whole, whole), generate


@_means(move_square)
def _move_square(context: Any, builder: Any, kinds: Any, args: Any) -> None:
    to = [_address(context, builder, kinds[0], args[0], d) for d in args[1:5]]
    come = [_address(context, builder, kinds[5], args[5], s) for s in args[6:10]]
    end = builder.append_basic_block("end")
    choice = builder.switch(args[10], end)
    for count in (1, 2, 4, 8):
        block = builder.append_basic_block(f"bytes{count}")
        choice.add_case(ir.Constant(args[10].type, count), block)
        builder.position_at_end(block)
        vector = ir.VectorType(ir.IntType(8 * count), 4).as_pointer()
        rows = [builder.load(builder.bitcast(p, vector), align=1) for p in come]
        for p, value in zip(to, _transposed(builder, rows), strict=True):
            builder.store(value, builder.bitcast(p, vector), align=1)
        builder.branch(end)
    builder.position_at_end(end)


@overload(move_run, inline="never")
def _move_run_compiled(out, d, d_step, src, s, s_step, size, count):
    return lambda out, d, d_step, src, s, s_step, size, count: _move_run(out, d, d_step, src, s, s_step, size, count)


@intrinsic
def _fold_windows(
    typingctx: Any,
    out: Any,
    d: Any,
    d_step: Any,
    x: Any,
    p: Any,
    p_step: Any,
    width: Any,
    before: Any,
    count: Any,
    length: Any,
) -> Any:
    if out.dtype != x.dtype:
        return None
    pairs = isinstance(x.dtype, types.Complex)  # added up as twice as many floats
    item = x.dtype.underlying_float if pairs else x.dtype

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        number = context.get_data_type(item)
        to, come = (
            builder.bitcast(
                builder.gep(context.make_array(sig.args[k])(context, builder, args[k]).data, [args[k + 1]]),
                number.as_pointer(),
            )
            for k in (0, 3)
        )
        d_step, p_step, width = (builder.shl(args[k], _INT(int(pairs))) for k in (2, 5, 6))
        _outlined(builder, f"fold_{item}", [to, d_step, come, p_step, width, *args[7:]], _write_fold)
        return context.get_dummy_value()

    whole = types.int64
    return types.void(out, whole, whole, x, *(6 * [whole])), generate


def _write_fold(
    builder: Any, to: Any, d_step: Any, come: Any, p_step: Any, width: Any, before: Any, count: Any, length: Any
) -> None:
    """The code of `fold_windows`, the places being pointers."""
    number = to.type.pointee
    size = {"float": 4, "double": 8}.get(str(number)) or number.width // 8
    add = builder.add if isinstance(number, ir.IntType) else builder.fadd
    zeros = ir.Constant(ir.ArrayType(number, _FOLDED), [0] * _FOLDED)
    nothing = builder.bitcast(cgutils.global_constant(builder, "seqformats_nothing", zeros), number.as_pointer())

    def block(t: Any, k: Any, lanes: int, known: int) -> None:
        """Items k to ``k + lanes`` of row t; a place that no window has is one of zeros, without a branch."""
        like = _vector(number, lanes) if lanes > 1 else number
        zero = _each(like, 0) if lanes > 1 else number(0)
        total = cgutils.alloca_once_value(builder, zero)
        builder.store(zero, total)
        column = builder.gep(come, [k])

        def part(q: Any) -> None:
            row = builder.sub(builder.add(t, before), q)
            place = builder.gep(column, [builder.add(builder.mul(row, p_step), builder.mul(q, width))])
            there = builder.icmp_unsigned("<", row, length)
            if lanes == _FOLDED:
                ahead = builder.bitcast(place, ir.IntType(8).as_pointer())
                for line in range(2048, 2048 + lanes * size, 64):
                    flags = [_I32(0), _I32(3), _I32(1)]  # to be read, soon, data
                    _called(builder, "llvm.prefetch.p0", ir.VoidType(), builder.gep(ahead, [_INT(line)]), *flags)
            place = builder.bitcast(builder.select(there, place, nothing), like.as_pointer())
            builder.store(add(builder.load(total), builder.load(place, align=size)), total)

        if known:
            for q in range(known):
                part(_INT(q))
        else:
            with cgutils.for_range(builder, count) as loop:
                part(loop.index)
        target = builder.gep(to, [builder.add(k, builder.mul(t, d_step))])
        builder.store(builder.load(total), builder.bitcast(target, like.as_pointer()), align=size)

    def fold(known: int) -> None:
        begin = builder.and_(width, _INT(-_FOLDED))
        rows = builder.select(builder.icmp_signed(">", begin, _INT(0)), length, _INT(0))
        with cgutils.for_range(builder, rows) as loop:  # of long rows one after the other
            t = loop.index
            with cgutils.for_range_slice(builder, _INT(0), begin, _INT(_FOLDED), inc=True) as (k, _):
                block(t, k, _FOLDED, known)
        for lanes in (8, 4, 1):  # of short ones, or of what is left, all rows of some columns
            stop = builder.and_(width, _INT(-lanes))
            with (
                cgutils.for_range_slice(builder, begin, stop, _INT(lanes), inc=True) as (k, _),
                cgutils.for_range(builder, length) as loop,
            ):
                block(loop.index, k, lanes, known)
            begin = stop

    with builder.if_else(builder.icmp_signed("==", count, _INT(3))) as (three, other):
        with three:
            fold(3)
        with other:
            fold(0)


_FOLDED = 32  # numbers at a time


@overload(fold_windows)
def _fold_windows_compiled(out, d, d_step, x, p, p_step, width, before, count, length):
    return lambda out, d, d_step, x, p, p_step, width, before, count, length: _fold_windows(
        out, d, d_step, x, p, p_step, width, before, count, length
    )


def _will(context: Any, builder: Any, kinds: Any, args: Any, write: int) -> None:
    place = _address(context, builder, kinds[0], args[0], args[0].type(0))
    _called(builder, "llvm.prefetch.p0", ir.VoidType(), place, _I32(write), _I32(3), _I32(1))


_means(will_read)(functools.partial(_will, write=0))
_means(will_write)(functools.partial(_will, write=1))


@_means(clear)
def _clear(context: Any, builder: Any, kinds: Any, args: Any) -> None:
    to = _address(context, builder, kinds[0], args[0], args[1])

    def fill(places: list[Any]) -> None:
        for k in places:
            builder.store(ir.Constant(_BYTES32.pointee, None), builder.bitcast(builder.gep(to, [k]), _BYTES32), align=1)

    _in_vectors(builder, args[2], fill, lambda: cgutils.memset(builder, to, args[2], 0))


def _peek(bits: int) -> Any:
    def load(context: Any, builder: Any, kinds: Any, args: Any) -> Any:
        value = builder.load(builder.inttoptr(args[0], ir.IntType(bits).as_pointer()), align=1)
        return builder.sext(value, ir.IntType(64)) if bits < 64 else value

    return load


_means(peek, types.int64)(_peek(64))
_means(peek_int, types.int64)(_peek(32))
_means(peek_byte, types.int64)(_peek(8))


def _giver(context: Any, builder: Any, rows: Any, i: Any, size: Any, fill: Any) -> Any:
    """By the public C functions: a new list, which `fill` may fill, and True where that went well."""
    python = context.get_python_api(builder)
    row = python.list_new(size)
    ok = cgutils.alloca_once_value(builder, cgutils.is_not_null(builder, row))
    with builder.if_then(builder.load(ok)):
        fill(python, row, ok)
        python.list_setitem(builder.inttoptr(rows, python.pyobj), i, row)
    with builder.if_then(builder.not_(builder.load(ok)), likely=False):
        python.err_clear()
    return builder.select(builder.load(ok), builder.ptrtoint(row, ir.IntType(64)), ir.Constant(ir.IntType(64), 0))


@intrinsic
def _give(typingctx: Any, rows: Any, i: Any, x: Any, lo: Any, hi: Any, inside: Any) -> Any:
    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        kind, (rows, i, x, lo, hi, inside) = sig.args[2], args
        size, data = builder.sub(hi, lo), builder.gep(context.make_array(kind)(context, builder, x).data, [lo])

        def fill(python: Any, row: Any, ok: Any) -> None:
            make = python.float_from_double if isinstance(kind.dtype, types.Float) else python.long_from_longlong
            place = builder.gep(builder.bitcast(row, ir.IntType(8).as_pointer()), [inside])
            items = builder.load(builder.bitcast(place, python.pyobj.as_pointer().as_pointer()))
            with cgutils.for_range(builder, size) as loop:
                item = make(builder.load(builder.gep(data, [loop.index])))
                with builder.if_then(cgutils.is_null(builder, item), likely=False):
                    builder.store(cgutils.false_bit, ok)
                    loop.do_break()
                builder.store(item, builder.gep(items, [loop.index]))

        return _giver(context, builder, rows, i, size, fill)

    return types.int64(types.int64, types.int64, x, types.int64, types.int64, types.int64), generate


@intrinsic
def _give_room(typingctx: Any, rows: Any, i: Any, size: Any) -> Any:
    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        rows, i, size = args
        return _giver(context, builder, rows, i, size, lambda *_: None)

    return types.int64(types.int64, types.int64, types.int64), generate


@overload(give)
def _give_compiled(rows, i, x, lo, hi, inside):
    return lambda rows, i, x, lo, hi, inside: _give(rows, i, x, lo, hi, inside)


@overload(give_room)
def _give_room_compiled(rows, i, size):
    return lambda rows, i, size: _give_room(rows, i, size)


# --- blocks of float32, a vector at a time ---------------------------------------------------------------------------

_BLOCK = 128  # numbers
_LANES = 64  # of them in a vector, which LLVM divides into what the CPU has


def largest(x: Any, p: int, n: int) -> Any:
    """The largest of ``x[p:p + n]``, float32, n from 1 to 128; NaN is passed over."""
    found = np.float32(-np.inf)
    for value in x[p : p + n]:
        found = max(found, value)
    return found


def powers(x: Any, p: int, n: int, top: Any) -> Any:
    """The sum of ``exp(x[p:p + n] - top)``, float32, n from 1 to 128 and `top` the largest of all, or NaN.

    Each to 2 units in the last place, those below 1.2e-38 being that.
    """
    with np.errstate(invalid="ignore"):
        return np.exp(x[p : p + n] - top).sum(dtype=np.float32)


@shared
def powers_of_row(x: Any, begin: int, width: int, maxima: Any, at: int, block: int) -> Any:
    """The largest of ``x[begin:begin + width]``, and the sum of ``exp(x - largest)``: NaN where there is NaN or +inf.

    The largest of every `block` come to ``maxima[at:]``, unless `at` is -1; a block is 16 where `width` is up to 1024,
    and 128 beyond.
    """
    top = np.float32(-np.inf)
    total = np.float32(0)
    wide = width > 1024  # then it is read once, and what has been added up follows the largest so far
    step = 128 if at < 0 else block
    p = 0
    while p < width:
        count = min(width - p, step)
        best = largest(x, begin + p, count)
        if at >= 0:
            maxima[at] = best
            at += 1
        if best > top:
            if total > 0:
                total *= np.float32(math.exp(top - best))
            top = best
        if wide and top > -np.inf:
            total += powers(x, begin + p, count, top)
        p += step
    p = 0
    while p < width and not wide and top > -np.inf:
        total += powers(x, begin + p, min(width - p, 128), top)
        p += 128
    p = 0
    while p < width and not x[begin + p] > -np.inf:  # NaN may stand before the first number, or alone
        if x[begin + p] != x[begin + p]:
            total = np.float32(np.nan)
        p += 1
    return top, total


def _vector(kind: Any, lanes: int) -> Any:
    return ir.VectorType(kind, lanes)


_F32, _I32, _I1 = ir.FloatType(), ir.IntType(32), ir.IntType(1)


def _each(like: Any, value: Any) -> Any:
    """A constant in every lane."""
    return ir.Constant(like, [value] * like.count)


def _splat(builder: Any, value: Any, lanes: int) -> Any:
    undefined = ir.Constant(_vector(value.type, lanes), ir.Undefined)
    one = builder.insert_element(undefined, value, _I32(0))
    return builder.shuffle_vector(one, undefined, _each(_vector(_I32, lanes), 0))


def _called(builder: Any, name: str, result: Any, *args: Any) -> Any:
    signature = ir.FunctionType(result, [arg.type for arg in args])
    return builder.call(cgutils.get_or_insert_function(builder.module, signature, name), args)


def _folded(builder: Any, vector: Any, join: Callable[..., Any]) -> Any:
    """One number of all in a vector: its halves are joined until one is left."""
    count = vector.type.count
    while count > 1:
        count //= 2
        undefined = ir.Constant(vector.type, ir.Undefined)
        low, high = (
            builder.shuffle_vector(vector, undefined, ir.Constant(_vector(_I32, count), list(range(k, k + count))))
            for k in (0, count)
        )
        vector = join(builder, low, high)
    return builder.extract_element(vector, _I32(0))


def _over_block(begin: Any, each: Callable[..., Any], join: Callable[..., Any]) -> Callable[..., Any]:
    """Code that folds ``each(vector)`` by `join` over ``x[p:p + n]``, over a whole block where `n` is None."""

    def generate(context: Any, builder: Any, kind: Any, x: Any, p: Any, n: Any, *more: Any) -> Any:
        data = builder.gep(context.make_array(kind)(context, builder, x).data, [p])
        if n is None:
            like = _vector(_F32, _LANES)
            found = _each(like, begin)
            splats = [_splat(builder, value, _LANES) for value in more]
            for start in range(0, _BLOCK, _LANES):
                place = builder.bitcast(builder.gep(data, [_I32(start)]), like.as_pointer())
                found = join(builder, found, each(builder, builder.load(place, align=4), *splats))
            return _folded(builder, found, join)
        lanes = 16
        like = _vector(_F32, lanes)
        splats = [_splat(builder, value, lanes) for value in more]
        found = cgutils.alloca_once_value(builder, _each(like, begin))
        numbers = ir.Constant(_vector(_I32, lanes), list(range(lanes)))
        with cgutils.for_range_slice(builder, _INT(0), n, _INT(lanes), inc=True) as (start, _):
            left = builder.trunc(builder.sub(n, start), _I32)
            there = builder.icmp_signed("<", numbers, _splat(builder, left, lanes))
            place = builder.bitcast(builder.gep(data, [start]), like.as_pointer())
            name = f"llvm.masked.load.v{lanes}f32.p0"
            vector = _called(builder, name, like, place, _I32(4), there, _each(like, -np.inf))
            result = builder.select(there, each(builder, vector, *splats), _each(like, begin))
            builder.store(join(builder, builder.load(found), result), found)
        return _folded(builder, builder.load(found), join)

    return generate


def _larger(builder: Any, a: Any, b: Any) -> Any:
    return builder.select(builder.fcmp_ordered(">", b, a), b, a)  # NaN is never larger; `a` never is one


def _powers(builder: Any, x: Any, top: Any) -> Any:
    """``2 ** t``: t is split into an integer, which goes into the exponent, and a rest for a polynomial."""
    like, integers = x.type, _vector(_I32, x.type.count)
    t = builder.fmul(builder.fsub(x, top), _each(like, _LOG2_E))
    t = builder.select(builder.fcmp_ordered("<", t, _each(like, -126.0)), _each(like, -126.0), t)  # NaN stays
    shifted = builder.fadd(t, _each(like, _SHIFT))
    rest = builder.fsub(t, builder.fsub(shifted, _each(like, _SHIFT)))
    power = _each(like, _EXP2[-1])
    for factor in _EXP2[-2::-1]:
        power = _called(builder, f"llvm.fmuladd.v{like.count}f32", like, power, rest, _each(like, factor))
    exponent = builder.shl(builder.bitcast(shifted, integers), _each(integers, 23))
    result = builder.bitcast(builder.add(builder.bitcast(power, integers), exponent), like)
    return builder.select(builder.fcmp_unordered("uno", t, t), t, result)  # the bits of a NaN would become a number


# adding 1.5 * 2^23 rounds to an integer, which is then in the low bits
_SHIFT = 12582912.0
_LOG2_E = float(np.float32(1.4426950408889634))
# 2 ** f for f between -1/2 and 1/2, the polynomial of least relative error, 9e-8, that is exact at 0
_EXP2 = [
    float(np.float32(c))
    for c in (
        1.0,
        0.693146977599166,
        0.2402224208537667,
        0.0555073374324839,
        0.009671512639575691,
        0.0013264727198255832,
    )
]

_fold_largest = _over_block(-np.inf, lambda _, x: x, _larger)
_fold_powers = _over_block(0.0, _powers, lambda builder, a, b: builder.fadd(a, b))


@intrinsic
def _largest(typingctx: Any, x: Any, p: Any, n: Any) -> Any:
    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return _fold_largest(context, builder, sig.args[0], args[0], args[1], args[2])

    return types.float32(x, types.int64, types.int64), generate


@intrinsic
def _largest_of_block(typingctx: Any, x: Any, p: Any) -> Any:
    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return _fold_largest(context, builder, sig.args[0], args[0], args[1], None)

    return types.float32(x, types.int64), generate


@intrinsic
def _sum(typingctx: Any, x: Any, p: Any, n: Any, top: Any) -> Any:
    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return _fold_powers(context, builder, sig.args[0], *args)

    return types.float32(x, types.int64, types.int64, types.float32), generate


@intrinsic
def _sum_of_block(typingctx: Any, x: Any, p: Any, top: Any) -> Any:
    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return _fold_powers(context, builder, sig.args[0], args[0], args[1], None, args[2])

    return types.float32(x, types.int64, types.float32), generate


@overload(largest)
def _largest_compiled(x, p, n):
    return lambda x, p, n: _largest_of_block(x, p) if n == 128 else _largest(x, p, n)


@overload(powers)
def _powers_compiled(x, p, n, top):
    return lambda x, p, n, top: _sum_of_block(x, p, top) if n == 128 else _sum(x, p, n, top)


# --- some columns of a row, in registers -----------------------------------------------------------------------------
# Lanes are an array of a few numbers when interpreted, and one LLVM vector when compiled, which LLVM divides into what
# the CPU has.  Whatever the number of lanes, each is calculated in the same way.


def pointer(x: Any) -> Any:
    """Where the items of a flat array begin: to be read, written and handed on without counting references."""
    return x


def unknown(value: int) -> int:
    """An integer that the compiler knows nothing about: loops that count by it are not unrolled.

    Unrolled loops are slow for the short sequences that they mostly meet, and slow to compile.
    """
    return value


def load(x: Any, p: int, count: int, like: Any) -> Any:
    """Lanes: ``x[p:p + count]`` in the dtype of `like`; `count` is a constant, `x` and `like` are pointers."""
    return x[p : p + count].astype(like.dtype)


def prefetch(x: Any, p: int, count: int) -> None:
    """Say that ``x[p:p + count]`` will soon be read; it need not exist."""


def store(x: Any, p: int, lanes: Any) -> None:
    """``x[p:p + count] = lanes``, in the dtype of `x`."""
    x[p : p + len(lanes)] = lanes


def each(like: Any, value: Any, count: int) -> Any:
    """Lanes of one value, in the dtype of `like`, a pointer or a number."""
    return np.full(count, value, like.dtype)


def choose(mask: Any, a: Any, b: Any) -> Any:
    """Lanes of `a` where the mask says so, of `b` elsewhere."""
    return np.where(mask, a, b)


def log(x: Any) -> Any:
    """The natural logarithm of lanes."""
    with np.errstate(divide="ignore"):
        return np.log(x)


def in_lanes(function: Callable[..., Any]) -> Any:
    """Make the decorated plain function one that CPU kernels call with a constant `count`, compiled for each."""
    overload(function, prefer_literal=True, strict=False)(lambda *_: function)
    return function


class _Lanes(types.Type):
    """So many numbers of a kind.  A comparison gives integers as wide, -1 for true, which is what CPUs select by."""

    def __init__(self, kind: Any, count: int) -> None:
        self.kind, self.count = kind, count
        super().__init__(f"Lanes({kind}, {count})")


def _number_of(kind: Any) -> Any:
    if isinstance(kind, types.Float):
        return _F32 if kind.bitwidth == 32 else ir.DoubleType()
    return ir.IntType(_bits_of(kind))


def _vector_of(kind: Any, count: int) -> Any:
    """A complex number is two lanes, which sums and quotients treat alike.

    One number is the first of four lanes: a choice between numbers would be a jump, which random ones would mislead.
    """
    if isinstance(kind, types.Complex):
        return _vector(_number_of(kind.underlying_float), 2 * count)
    return _vector(_number_of(kind), 4 if count == 1 else count)


@register_model(_Lanes)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _vector_of(kind.kind, kind.count))


def _lowered(function: Callable[..., Any]) -> Callable[[Callable[..., Any]], None]:
    """Compile calls of `function` as the decorated one says: from the types of arguments to a signature and its code.

    It returns None where it has no answer.  Unlike an overload this costs no compilation of its own.
    """

    def register(answer: Callable[..., Any]) -> None:
        class Template(AbstractTemplate):
            key = function
            prefer_literal = True

            def generic(self, args: Any, kws: Any) -> Any:
                found = answer(*args)
                return found and found[0]

        infer(Template)
        infer_global(function, types.Function(Template))

        @lower_builtin(function, types.VarArg(types.Any))
        def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            result = answer(*sig.args)[1](context, builder, *args)
            return context.get_dummy_value() if result is None else result

    return register


def _constant(count: Any) -> int:
    if not isinstance(count, types.IntegerLiteral):
        raise RequireLiteralValue(f"a constant number of lanes, not {count}")
    return int(count.literal_value)


def _alone(kind: Any, count: int) -> bool:
    return count == 1 and not isinstance(kind, types.Complex)


def _in_kind(builder: Any, value: Any, given: Any, wanted: Any) -> Any:
    """A vector of numbers as one of another kind."""
    to = _vector(value.type.element if isinstance(wanted, types.Complex) else _number_of(wanted), value.type.count)
    if given == wanted or isinstance(given, types.Complex):
        return value
    if isinstance(given, types.Float):
        return builder.fpext(value, to)
    signed = isinstance(given, types.Integer) and given.signed
    if isinstance(wanted, types.Float):
        return (builder.sitofp if signed else builder.uitofp)(value, to)
    if to.element.width == value.type.element.width:
        return value
    return (builder.sext if signed else builder.zext)(value, to)


@_lowered(pointer)
def _pointer(x: Any) -> Any:
    def code(context: Any, builder: Any, array: Any) -> Any:
        return context.make_array(x)(context, builder, array).data

    return types.CPointer(x.dtype)(x), code


@_lowered(unknown)
def _unknown(value: Any) -> Any:
    kind = ir.FunctionType(_INT, [_INT])
    return types.int64(types.int64), lambda _, builder, x: builder.asm(kind, "", "=r,0", [x], False)


@_lowered(load)
def _load(x: Any, p: Any, count: Any, like: Any) -> Any:
    n = _constant(count)
    vector = _vector_of(x.dtype, n)

    def code(_: Any, builder: Any, base: Any, place: Any, *__: Any) -> Any:
        at = builder.gep(base, [place])
        if _alone(x.dtype, n):
            value = builder.insert_element(ir.Constant(vector, None), builder.load(at, align=1), _I32(0))
        else:
            value = builder.load(builder.bitcast(at, vector.as_pointer()), align=1)
        return _in_kind(builder, value, x.dtype, like.dtype)

    return _Lanes(like.dtype, n)(x, types.int64, count, like), code


@_lowered(prefetch)
def _prefetch(x: Any, p: Any, count: Any) -> Any:
    n = _constant(count)

    def code(_: Any, builder: Any, base: Any, place: Any, __: Any) -> None:
        lines = _vector_of(x.dtype, n).count * _bits_of(getattr(x.dtype, "underlying_float", x.dtype)) // (8 * 64)
        begin = builder.bitcast(builder.gep(base, [place]), ir.IntType(8).as_pointer())
        for line in range(max(lines, 1)):
            at = builder.gep(begin, [_INT(64 * line)])
            _called(builder, "llvm.prefetch.p0i8", ir.VoidType(), at, _I32(0), _I32(3), _I32(1))

    return types.void(x, types.int64, count), code


@_lowered(store)
def _store(x: Any, p: Any, lanes: Any) -> Any:
    def code(_: Any, builder: Any, base: Any, place: Any, value: Any) -> None:
        value = _in_kind(builder, value, lanes.kind, x.dtype)
        at = builder.gep(base, [place])
        if _alone(lanes.kind, lanes.count):
            builder.store(builder.extract_element(value, _I32(0)), at, align=1)
        else:
            builder.store(value, builder.bitcast(at, value.type.as_pointer()), align=1)

    return types.void(x, types.int64, lanes), code


@_lowered(each)
def _each_lane(like: Any, value: Any, count: Any) -> Any:
    n = _constant(count)
    plain, own = types.unliteral(value), getattr(like, "dtype", like)
    kind = getattr(own, "underlying_float", own)

    def code(context: Any, builder: Any, _: Any, number: Any, __: Any) -> Any:
        number = context.cast(builder, number, plain, kind)
        return _splat(builder, number, _vector_of(own, n).count)

    return _Lanes(own, n)(like, plain, count), code


@_lowered(choose)
def _choose(mask: Any, a: Any, b: Any) -> Any:
    def code(_: Any, builder: Any, truth: Any, x: Any, y: Any) -> Any:
        bits, wanted = truth.type.element.width, _bits_of(a.kind)
        if bits != wanted:
            change = builder.sext if bits < wanted else builder.trunc
            truth = change(truth, _vector(ir.IntType(wanted), truth.type.count))
        zero = ir.Constant(truth.type, None)
        return builder.select(builder.icmp_signed("<", truth, zero), x, y)

    return a(mask, a, b), code


def _bits_of(kind: Any) -> int:
    return 8 if kind == types.boolean else int(kind.bitwidth)


def _between_lanes(sign: Any, code: Callable[..., Any], compares: bool = False) -> None:
    """Compile an operator between lanes of one kind."""

    @infer_global(sign)
    class Template(AbstractTemplate):
        def generic(self, args: Any, kws: Any) -> Any:
            if len(args) == 2 and isinstance(args[0], _Lanes) and args[0] == args[1]:
                kind = args[0].kind
                mask = types.Integer.from_bitwidth(_bits_of(kind), True) if compares else kind
                return signature(_Lanes(mask, args[0].count), *args)
            return None

    @lower_builtin(sign, _Lanes, _Lanes)
    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        kind = sig.args[0].kind
        return code(builder, kind, isinstance(kind, (types.Float, types.Complex)), *args)


def _operators() -> None:
    def arithmetic(in_floats: str, in_integers: str) -> Callable[..., Any]:
        return lambda builder, _, floats, a, b: getattr(builder, in_floats if floats else in_integers)(a, b)

    def comparison(sign: str) -> Callable[..., Any]:
        def code(builder: Any, kind: Any, floats: bool, a: Any, b: Any) -> Any:
            if floats:
                truth = (builder.fcmp_unordered if sign == "!=" else builder.fcmp_ordered)(sign, a, b)
            else:
                signed = isinstance(kind, types.Integer) and kind.signed
                truth = (builder.icmp_signed if signed else builder.icmp_unsigned)(sign, a, b)
            return builder.sext(truth, _vector(ir.IntType(_bits_of(kind)), a.type.count))

        return code

    for signs, floats, integers in (
        ((operator.add, operator.iadd), "fadd", "add"),
        ((operator.sub,), "fsub", "sub"),
        ((operator.mul,), "fmul", "mul"),
        ((operator.truediv,), "fdiv", "add"),  # integers are divided in floats; kernels ask for it in dead code alone
        ((operator.and_,), "and_", "and_"),
        ((operator.or_,), "or_", "or_"),
    ):
        for sign in signs:
            _between_lanes(sign, arithmetic(floats, integers))
    for sign, text in (
        (operator.lt, "<"),
        (operator.gt, ">"),
        (operator.eq, "=="),
        (operator.ne, "!="),
    ):
        _between_lanes(sign, comparison(text), compares=True)


_operators()


def _exp_of_vector(builder: Any, x: Any) -> Any:
    """`_exp32` for each lane."""
    like, integers = x.type, _vector(_I32, x.type.count)
    mad = f"llvm.fmuladd.v{like.count}f32"
    shifted = _called(builder, mad, like, x, _each(like, _LOG2_E), _each(like, _SHIFT))
    n = builder.fsub(shifted, _each(like, _SHIFT))
    r = _called(builder, mad, like, n, _each(like, -0.693359375), x)
    r = _called(builder, mad, like, n, _each(like, float(np.float32(2.12194440e-4))), r)
    p = _each(like, float(np.float32(1.9875691500e-4)))
    for factor in (1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1):
        p = _called(builder, mad, like, p, r, _each(like, float(np.float32(factor))))
    p = builder.fadd(_called(builder, mad, like, builder.fmul(p, r), r, r), _each(like, 1.0))
    bits = builder.add(builder.bitcast(shifted, integers), _each(integers, 127))
    y = builder.fmul(p, builder.bitcast(builder.shl(bits, _each(integers, 23)), like))
    y = builder.select(builder.fcmp_ordered("<", x, _each(like, float(np.float32(-87.3)))), _each(like, 0.0), y)
    return builder.select(builder.fcmp_ordered(">", x, _each(like, float(np.float32(88.3)))), _each(like, np.inf), y)


@_lowered(exp)
def _exp_lanes(x: Any) -> Any:
    if not isinstance(x, _Lanes):
        return None

    def code(_: Any, builder: Any, value: Any) -> Any:
        if x.kind == types.float32:
            return _exp_of_vector(builder, value)
        return _by_number(builder, "llvm.exp", x, value)

    return x(x), code


@_lowered(log)
def _log_lanes(x: Any) -> Any:
    return x(x), lambda _, builder, value: _by_number(builder, "llvm.log", x, value)


def _by_number(builder: Any, name: str, x: Any, value: Any) -> Any:
    """A function of the C library, which takes one number at a time."""
    for lane in range(x.count):
        number = builder.extract_element(value, _I32(lane))
        number = _called(builder, f"{name}.f{x.kind.bitwidth}", number.type, number)
        value = builder.insert_element(value, number, _I32(lane))
    return value
