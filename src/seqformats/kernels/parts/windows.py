"""The gradient of windows: rows that lie side by side, added up where they came from."""

from llvmlite import ir
from numba import types
from numba.core import cgutils

from .code import (
    I32,
    I64,
    Builder,
    Context,
    Kinds,
    Value,
    Values,
    call_function,
    call_outlined,
    constant_lanes,
    vector_type,
)
from .moves import means
from .record import Array

_FOLDED = 32  # numbers at a time


def fold_windows(out: Array, x: Array, first: int, step: int, width: int, before: int, count: int, length: int) -> None:
    """Add up, for each of `length` rows of a sequence, its places in the windows of `count` rows around it.

    The sequence begins at row `first`, and `step` rows lie between two of its rows.  Row t of the result, `width` items
    of `out`, is place q of the window of row ``t + before - q`` in `x`, whose rows are windows of ``count * width``
    items, summed over q in rising order, beginning with 0.  `out` and `x` have the same dtype.
    """
    for t in range(length):
        d = (first + t * step) * width
        total = out[d : d + width]
        total[:] = 0
        for q in range(max(t + before - length + 1, 0), min(count, t + before + 1)):
            place = ((first + (t + before - q) * step) * count + q) * width
            total += x[place : place + width]


@means(fold_windows)
def _fold_windows(context: Context, builder: Builder, kinds: Kinds, args: Values) -> None:
    kind = kinds[0]
    first, step, width, before, count, length = args[2:]
    pairs = isinstance(kind.dtype, types.Complex)  # added up as twice as many floats
    item = kind.dtype.underlying_float if pairs else kind.dtype
    number = context.get_data_type(item).as_pointer()
    begin = builder.mul(first, width)
    places = (begin, builder.mul(begin, count))
    to, come = (
        builder.bitcast(builder.gep(context.make_array(kinds[k])(context, builder, args[k]).data, [place]), number)
        for k, place in enumerate(places)
    )
    width = builder.shl(width, I64(int(pairs)))
    call_outlined(builder, f"fold_{item}", [to, come, step, width, before, count, length], _write_fold)


def _write_fold(
    builder: Builder, to: Value, come: Value, step: Value, width: Value, before: Value, count: Value, length: Value
) -> None:
    """The code of `fold_windows`, the places being pointers."""
    d_step = builder.mul(step, width)
    p_step = builder.mul(d_step, count)
    number = to.type.pointee
    size = {"float": 4, "double": 8}.get(str(number)) or number.width // 8
    add = builder.add if isinstance(number, ir.IntType) else builder.fadd
    zeros = ir.Constant(ir.ArrayType(number, _FOLDED), [0] * _FOLDED)
    nothing = builder.bitcast(cgutils.global_constant(builder, "seqformats_nothing", zeros), number.as_pointer())

    def block(t: Value, k: Value, lanes: int, known: int) -> None:
        """Items k to ``k + lanes`` of row t; a place that no window has is one of zeros, without a branch."""
        like = vector_type(number, lanes) if lanes > 1 else number
        zero = constant_lanes(like, 0) if lanes > 1 else number(0)
        total = cgutils.alloca_once_value(builder, zero)
        builder.store(zero, total)
        column = builder.gep(come, [k])

        def part(q: Value) -> None:
            row = builder.sub(builder.add(t, before), q)
            place = builder.gep(column, [builder.add(builder.mul(row, p_step), builder.mul(q, width))])
            there = builder.icmp_unsigned("<", row, length)
            if lanes == _FOLDED:
                ahead = builder.bitcast(place, ir.IntType(8).as_pointer())
                for line in range(2048, 2048 + lanes * size, 64):
                    flags = [I32(0), I32(3), I32(1)]  # to be read, soon, data
                    call_function(builder, "llvm.prefetch.p0", ir.VoidType(), builder.gep(ahead, [I64(line)]), *flags)
            place = builder.bitcast(builder.select(there, place, nothing), like.as_pointer())
            builder.store(add(builder.load(total), builder.load(place, align=size)), total)

        if known:
            for q in range(known):
                part(I64(q))
        else:
            with cgutils.for_range(builder, count) as loop:
                part(loop.index)
        target = builder.gep(to, [builder.add(k, builder.mul(t, d_step))])
        builder.store(builder.load(total), builder.bitcast(target, like.as_pointer()), align=size)

    def fold(known: int) -> None:
        begin = builder.and_(width, I64(-_FOLDED))
        rows = builder.select(builder.icmp_signed(">", begin, I64(0)), length, I64(0))
        with cgutils.for_range(builder, rows) as loop:  # of long rows one after the other
            t = loop.index
            with cgutils.for_range_slice(builder, I64(0), begin, I64(_FOLDED), inc=True) as (k, _):
                block(t, k, _FOLDED, known)
        for lanes in (8, 4, 1):  # of short ones, or of what is left, all rows of some columns
            stop = builder.and_(width, I64(-lanes))
            with (
                cgutils.for_range_slice(builder, begin, stop, I64(lanes), inc=True) as (k, _),
                cgutils.for_range(builder, length) as loop,
            ):
                block(loop.index, k, lanes, known)
            begin = stop

    with builder.if_else(builder.icmp_signed("==", count, I64(3))) as (three, other):
        with three:
            fold(3)
        with other:
            fold(0)
