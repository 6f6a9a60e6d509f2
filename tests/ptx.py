"""PTX on the CPU: code for a GPU becomes code of LLVM and runs on memory of the host, where no GPU is.

The simulator runs the Python of a kernel; this runs what the compiler has made of it, thread by thread, so that it sees
what the simulator cannot: address spaces, the width of places, machine words, alignment, and memory of a block that
nobody has written.  Registers lie in a frame of each thread, since a thread that comes to a barrier goes on later.

Reference: NVIDIA, "Parallel Thread Execution ISA".
"""

import ctypes
import functools
import math
import re
import struct
from typing import NamedTuple

import llvmlite.binding as llvm
from llvmlite import ir
from numba.core import cgutils

I1, I8, I16, I32, I64 = (ir.IntType(bits) for bits in (1, 8, 16, 32, 64))
F32, F64 = ir.FloatType(), ir.DoubleType()
POINTER = I8.as_pointer()
REGISTERS = {"p": I1, "rs": I16, "r": I32, "rd": I64, "f": F32, "fd": F64}
SPECIAL = [f"%{name}.{axis}" for name in ("tid", "ctaid", "ntid", "nctaid") for axis in "xyz"]
# What a thread says where it stops: it is done, it met an address that does not suit a word, or it waits at a barrier.
DONE, MISALIGNED = -1, -2
LEFT_ALONE = -3  # some threads of a block wait at a barrier that others do not come to
GARBAGE = 0xCD  # what is in the memory of a block before anybody writes
COMPARE = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


def kind_of(word):
    """The LLVM type that is called "u32", "b64", "f32", "pred"."""
    if word == "pred":
        return I1
    if word[0] == "f":
        return {"f16": I16, "f32": F32, "f64": F64}[word]
    return ir.IntType(int(word[1:]))


def bits_of(kind):
    return kind.width if isinstance(kind, ir.IntType) else 32 if kind == F32 else 64


class Program(NamedTuple):
    """A kernel that can be started; `taken` counts how often all its threads together have come to each line."""

    run: ctypes._CFuncPtr
    frame: int  # the bytes of a thread's registers
    shared: int  # the bytes of a block's memory
    parameters: int  # their bytes
    taken: ctypes.Array
    keeps: tuple  # what must live as long


class Translator:
    """PTX of one kernel to a function that runs a thread up to its end or to a barrier."""

    opt = 1  # of LLVM

    def __init__(self, text):
        self.module = ir.Module(name="ptx")
        self.module.triple = llvm.get_default_triple()
        self.parameters, self.shared, self.room = {}, {}, 0
        self.registers, self.barriers = {}, []
        self.lines = self._read(text)
        counts = ir.ArrayType(I64, len(self.lines))
        self.taken = ir.GlobalVariable(self.module, counts, "taken")
        self.taken.initializer = ir.Constant(counts, None)

    def _read(self, text):
        text = re.sub(r"//[^\n]*", "", text)
        for alignment, name, size in re.findall(r"\.shared \.align (\d+) \.b8 (\w+)\[(\d+)\]", text):
            self.room = -(-self.room // int(alignment)) * int(alignment)
            self.shared[name], self.room = self.room, self.room + int(size)
        head, body = text.split(".entry", 1)[1].split("{", 1)
        place = 0
        for word, name, several in re.findall(r"\.param (?:\.align \d+ )?\.(\w+) (\w+)(?:\[(\d+)\])?", head):
            size = bits_of(kind_of(word)) // 8
            place = -(-place // size) * size
            self.parameters[name], place = place, place + size * int(several or 1)
        self.size = place
        body = body[: body.rindex("}")]
        lines = []
        for part in re.split(r"(?<=[;:])\s|\n", body):
            line = " ".join(part.split()).strip(" {}") if not re.search(r"\{%|\{\s*%", part) else " ".join(part.split())
            line = re.sub(r"^\{ ?(?!%)", "", line).strip()
            if line and not line.startswith("."):
                lines.append(line.removesuffix(";"))
        return lines

    # --- operands ---

    def slot(self, name):
        """Where a register lies."""
        if name not in self.registers:
            self.registers[name] = 8 * len(self.registers)
        kind = self.register_kind(name)
        stored = I8 if kind == I1 else kind
        place = self.at_start.gep(self.frame, [I64(self.registers[name])])
        return self.at_start.bitcast(place, stored.as_pointer())

    def register_kind(self, name):
        if name == "%temp":
            return I32
        return REGISTERS[re.fullmatch(r"%([a-z]+)\d+", name).group(1)]

    def get(self, text, kind):
        """An operand as a value of this kind."""
        b = self.builder
        if text in SPECIAL:
            value = b.load(b.gep(self.special, [I64(SPECIAL.index(text))]))
        elif text.startswith("%"):
            value = b.load(self.slot(text))
            if self.register_kind(text) == I1:
                value = b.trunc(value, I1)
        elif text in self.shared:
            value = I64(self.shared[text])
        elif text in self.parameters:
            value = b.add(b.ptrtoint(self.given, I64), I64(self.parameters[text]))
        elif text[:2] in ("0f", "0F"):
            return ir.Constant(F32, struct.unpack(">f", bytes.fromhex(text[2:]))[0])
        elif text[:2] in ("0d", "0D"):
            return ir.Constant(F64, struct.unpack(">d", bytes.fromhex(text[2:]))[0])
        else:
            return ir.Constant(kind, int(text.removesuffix("U"), 0))
        return self.as_kind(value, kind)

    def as_kind(self, value, kind, signed=False):
        """The same bits, or the lower ones, or more of them."""
        b, given = self.builder, value.type
        if given == kind:
            return value
        if not isinstance(given, ir.IntType):
            value = b.bitcast(value, ir.IntType(bits_of(given)))
        wanted = ir.IntType(bits_of(kind))
        if value.type.width > wanted.width:
            value = b.trunc(value, wanted)
        elif value.type.width < wanted.width:
            value = b.sext(value, wanted) if signed else b.zext(value, wanted)
        return value if wanted == kind else b.bitcast(value, kind)

    def put(self, name, value, signed=False):
        if name == "_":
            return
        kind = self.register_kind(name)
        value = self.as_kind(value, kind, signed)
        self.builder.store(self.builder.zext(value, I8) if kind == I1 else value, self.slot(name))

    def address(self, text, space):
        """The pointer in brackets, as a number."""
        base, _, offset = text.strip("[]").partition("+")
        b = self.builder
        place = b.add(self.get(base, I64), I64(int(offset or 0)))
        return b.add(b.ptrtoint(self.memory, I64), place) if space == "shared" else place

    def pointer(self, text, space, kind, count=1):
        """The same as a pointer; the thread stops where it does not suit the word."""
        b = self.builder
        place = self.address(text, space)
        size = bits_of(kind) // 8 * count
        if size > 1:
            wrong = b.icmp_unsigned("!=", b.and_(place, I64(size - 1)), I64(0))
            with b.if_then(wrong, likely=False):
                b.ret(I32(MISALIGNED))
        return b.inttoptr(place, kind.as_pointer())

    # --- instructions ---

    def translate(self):
        kind = ir.FunctionType(I32, [POINTER, POINTER, POINTER, I32.as_pointer(), I32])
        function = ir.Function(self.module, kind, "thread")
        self.frame, self.given, self.memory, self.special, resume = function.args
        start = function.append_basic_block("start")
        self.at_start = ir.IRBuilder(start)
        self.labels = {line[:-1]: function.append_basic_block(line[1:-1]) for line in self.lines if line.endswith(":")}
        first = function.append_basic_block("first")
        self.builder = ir.IRBuilder(first)
        for k, line in enumerate(self.lines):
            if line.endswith(":"):
                if not self.builder.block.is_terminated:
                    self.builder.branch(self.labels[line[:-1]])
                self.builder.position_at_end(self.labels[line[:-1]])
            else:
                if self.builder.block.is_terminated:
                    self.builder.position_at_end(function.append_basic_block("never"))
                self.begin_line(k)
                self.instruction(line)
        if not self.builder.block.is_terminated:
            self.builder.ret(I32(DONE))
        begin = self.at_start.switch(resume, first)
        for k, block in enumerate(self.barriers):
            begin.add_case(I32(k + 1), block)
        return function

    def begin_line(self, k):
        """Count that a thread has come to a line."""
        count = self.builder.gep(self.taken, [I32(0), I32(k)])
        self.builder.store(self.builder.add(self.builder.load(count), I64(1)), count)

    def instruction(self, line):
        guard = re.match(r"@(!?)(%p\d+)\s+(.*)", line)
        b = self.builder
        if not guard:
            self.plain(line)
            return
        truth = self.get(guard.group(2), I1)
        if guard.group(1):
            truth = b.not_(truth)
        rest = guard.group(3)
        after = b.function.append_basic_block("after")
        if rest.startswith("bra"):
            b.cbranch(truth, self.labels[rest.split()[-1]], after)
        else:
            there = b.function.append_basic_block("guarded")
            b.cbranch(truth, there, after)
            b.position_at_end(there)
            self.plain(rest)
            if not b.block.is_terminated:
                b.branch(after)
        b.position_at_end(after)

    def plain(self, line):
        code, _, rest = line.partition(" ")
        name, *words = code.split(".")
        args = [part.strip() for part in re.findall(r"\{[^}]*\}|\[[^\]]*\]|[^,\s]+", rest)]
        getattr(self, f"do_{name}")(words, args)

    def do_ret(self, words, args):
        self.builder.ret(I32(DONE))

    def do_bra(self, words, args):
        self.builder.branch(self.labels[args[-1]])

    def do_bar(self, words, args):
        self.barriers.append(self.builder.function.append_basic_block("barrier"))
        self.builder.ret(I32(len(self.barriers)))
        self.builder.position_at_end(self.barriers[-1])

    def words_at(self, words, text):
        """Of an access: the type of its words, and where each of them lies."""
        kind = kind_of(words[-1])
        count = int(words[-2][1:]) if re.fullmatch(r"v\d", words[-2]) else 1
        base = self.pointer(text, words[0], kind, count)
        return kind, [self.builder.gep(base, [I64(k)]) for k in range(count)]

    def do_ld(self, words, args):
        _, places = self.words_at(words, args[1])
        for name, place in zip(re.findall(r"[%\w]+", args[0]), places, strict=True):
            self.put(name, self.builder.load(place), signed=words[-1][0] == "s")

    def do_st(self, words, args):
        kind, places = self.words_at(words, args[0])
        for name, place in zip(re.findall(r"[%\w-]+", args[1]), places, strict=True):
            self.builder.store(self.get(name, kind), place)

    def do_atom(self, words, args):
        space, operation, word = words
        kind = kind_of(word)
        base = self.pointer(args[1], space, kind)
        self.put(args[0], self.builder.atomic_rmw(operation, base, self.get(args[2], kind), "monotonic"))

    def do_membar(self, words, args):
        """Blocks run one after the other."""

    def do_mov(self, words, args):
        kind = kind_of(words[-1])
        b = self.builder
        if args[1].startswith("{"):
            parts = re.findall(r"[%\w]+", args[1])
            size = bits_of(kind) // len(parts)
            whole = ir.Constant(ir.IntType(bits_of(kind)), 0)
            for k, part in enumerate(parts):
                value = b.zext(self.get(part, ir.IntType(size)), whole.type)
                whole = b.or_(whole, b.shl(value, ir.Constant(whole.type, k * size)))
            self.put(args[0], whole)
        elif args[0].startswith("{"):
            names = re.findall(r"[%\w]+", args[0])
            size = bits_of(kind) // len(names)
            whole = self.get(args[1], ir.IntType(bits_of(kind)))
            for k, name in enumerate(names):
                part = b.lshr(whole, ir.Constant(whole.type, k * size))
                self.put(name, b.trunc(part, ir.IntType(size)))
        else:
            self.put(args[0], self.get(args[1], kind))

    def do_cvta(self, words, args):
        assert words[0] == "to", "an address of no known space"
        self.put(args[0], self.get(args[1], I64))

    def do_cvt(self, words, args):
        b = self.builder
        *how, to, given = words
        value = self.get(args[1], kind_of(given))
        kind = kind_of(to)
        floats = to[0] == "f", given[0] == "f"
        if floats == (True, True):
            if "sat" in how:
                value = self.call("maxnum", value, ir.Constant(kind, 0.0))
                value = self.call("minnum", value, ir.Constant(kind, 1.0))
            elif bits_of(kind) != bits_of(value.type):
                value = b.fpext(value, kind) if bits_of(kind) > bits_of(value.type) else b.fptrunc(value, kind)
            self.put(args[0], value)
        elif floats == (True, False):
            self.put(args[0], b.sitofp(value, kind) if given[0] == "s" else b.uitofp(value, kind))
        elif floats == (False, True):
            assert "rzi" in how
            self.put(args[0], b.fptosi(value, kind) if to[0] == "s" else b.fptoui(value, kind))
        else:
            self.put(args[0], self.as_kind(value, kind, given[0] == "s"), to[0] == "s")

    def call(self, name, *values):
        """An operation that LLVM has for floats."""
        kind = values[0].type
        function = cgutils.get_or_insert_function(
            self.module, ir.FunctionType(kind, [kind] * len(values)), f"llvm.{name}.f{bits_of(kind)}"
        )
        return self.builder.call(function, values)

    def binary(self, words, args, on_floats, on_ints):
        kind = kind_of(words[-1])
        x, y = self.get(args[1], kind), self.get(args[2], kind)
        self.put(args[0], (on_floats if words[-1][0] == "f" else on_ints)(x, y))

    def do_add(self, words, args):
        if "rz" in words:
            x, y = (self.builder.fpext(self.get(part, F32), F64) for part in args[1:])
            self.put(args[0], self.rounded(self.builder.fadd(x, y), "rz"))
        else:
            self.binary(words, args, self.builder.fadd, self.builder.add)

    def rounded(self, exact, how):
        """A float64 as a float32, rounded down or towards zero."""
        b = self.builder
        near = b.fptrunc(exact, F32)
        back = b.fpext(near, F64)
        beyond = b.fcmp_ordered(">", back, exact)
        bits = b.bitcast(near, I32)
        negative = b.icmp_signed("<", bits, I32(0))
        if how == "rz":
            beyond = b.select(negative, b.fcmp_ordered("<", back, exact), beyond)
            less = b.sub(bits, I32(1))
        else:
            less = b.select(negative, b.add(bits, I32(1)), b.sub(bits, I32(1)))
        return b.bitcast(b.select(beyond, less, bits), F32)

    def do_sub(self, words, args):
        self.binary(words, args, self.builder.fsub, self.builder.sub)

    def do_mul(self, words, args):
        b = self.builder
        if words[0] in ("wide", "hi"):
            kind = kind_of(words[-1])
            extend = b.sext if words[-1][0] == "s" else b.zext
            double = ir.IntType(2 * kind.width)
            product = b.mul(*[extend(self.get(part, kind), double) for part in args[1:]])
            if words[0] == "hi":
                product = b.trunc(b.lshr(product, ir.Constant(double, kind.width)), kind)
            self.put(args[0], product)
        else:
            self.binary(words, args, b.fmul, b.mul)

    def do_mad(self, words, args):
        b = self.builder
        kind = kind_of(words[-1])
        x, y = (self.get(part, kind) for part in args[1:3])
        if words[0] == "wide":
            double = ir.IntType(2 * kind.width)
            extend = b.sext if words[-1][0] == "s" else b.zext
            self.put(args[0], b.add(b.mul(extend(x, double), extend(y, double)), self.get(args[3], double)))
        else:
            self.put(args[0], b.add(b.mul(x, y), self.get(args[3], kind)))

    def do_fma(self, words, args):
        b = self.builder
        kind = kind_of(words[-1])
        parts = [self.get(part, kind) for part in args[1:]]
        if words[0] == "rm":
            x, y, z = (b.fpext(part, F64) for part in parts)
            self.put(args[0], self.rounded(b.fadd(b.fmul(x, y), z), "rm"))
        else:
            self.put(args[0], self.call("fma", *parts))

    def do_div(self, words, args):
        b = self.builder
        self.binary(words, args, b.fdiv, b.sdiv if words[-1][0] == "s" else b.udiv)

    def do_rem(self, words, args):
        b = self.builder
        self.binary(words, args, b.frem, b.srem if words[-1][0] == "s" else b.urem)

    def do_rcp(self, words, args):
        value = self.get(args[1], kind_of(words[-1]))
        self.put(args[0], self.builder.fdiv(ir.Constant(value.type, 1.0), value))

    def of_float(self, name, words, args):
        self.put(args[0], self.call(name, self.get(args[1], kind_of(words[-1]))))

    def do_sqrt(self, words, args):
        self.of_float("sqrt", words, args)

    def do_ex2(self, words, args):
        self.of_float("exp2", words, args)

    def do_abs(self, words, args):
        if words[-1][0] == "f":
            self.of_float("fabs", words, args)
        else:
            b, value = self.builder, self.get(args[1], kind_of(words[-1]))
            less = b.icmp_signed("<", value, ir.Constant(value.type, 0))
            self.put(args[0], b.select(less, b.neg(value), value))

    def do_neg(self, words, args):
        b = self.builder
        value = self.get(args[1], kind_of(words[-1]))
        self.put(args[0], b.fneg(value) if words[-1][0] == "f" else b.neg(value))

    def do_not(self, words, args):
        self.put(args[0], self.builder.not_(self.get(args[1], kind_of(words[-1]))))

    def extreme(self, words, args, name, sign):
        b = self.builder
        compare = b.icmp_signed if words[-1][0] == "s" else b.icmp_unsigned
        self.binary(words, args, lambda x, y: self.call(name, x, y), lambda x, y: b.select(compare(sign, x, y), x, y))

    def do_max(self, words, args):
        self.extreme(words, args, "maxnum", ">")

    def do_min(self, words, args):
        self.extreme(words, args, "minnum", "<")

    def do_and(self, words, args):
        self.binary(words, args, None, self.builder.and_)

    def do_or(self, words, args):
        self.binary(words, args, None, self.builder.or_)

    def do_xor(self, words, args):
        self.binary(words, args, None, self.builder.xor)

    def shift(self, words, args, move):
        """By at most all bits: what is beyond is 0, or the sign."""
        b = self.builder
        kind = kind_of(words[-1])
        value, by = self.get(args[1], kind), self.get(args[2], I32)
        far = b.icmp_unsigned(">=", by, I32(kind.width))
        most = b.select(far, I32(kind.width - 1), by)
        most = b.trunc(most, kind) if kind.width < 32 else b.zext(most, kind) if kind.width > 32 else most
        moved = move(value, most)
        signed = words[-1][0] == "s"
        self.put(args[0], moved if signed else b.select(far, ir.Constant(kind, 0), moved), signed)

    def do_shl(self, words, args):
        self.shift(words, args, self.builder.shl)

    def do_shr(self, words, args):
        self.shift(words, args, self.builder.ashr if words[-1][0] == "s" else self.builder.lshr)

    def do_bfi(self, words, args):
        """Some bits of the first among those of the second, from a place on."""
        b = self.builder
        kind = kind_of(words[-1])
        place, count = (int(part) for part in args[3:])
        mask = (1 << count) - 1
        part = b.shl(b.and_(self.get(args[1], kind), ir.Constant(kind, mask)), ir.Constant(kind, place))
        rest = b.and_(self.get(args[2], kind), ir.Constant(kind, ~(mask << place) & (2**kind.width - 1)))
        self.put(args[0], b.or_(part, rest))

    def do_setp(self, words, args):
        b = self.builder
        sign, word = words
        x, y = (self.get(part, kind_of(word)) for part in args[1:])
        if sign in ("nan", "num"):
            truth = b.fcmp_unordered("uno", x, y) if sign == "nan" else b.fcmp_ordered("ord", x, y)
        elif word[0] == "f":
            compare = b.fcmp_unordered if len(sign) == 3 else b.fcmp_ordered
            truth = compare(COMPARE[sign[:2]], x, y)
        else:
            truth = (b.icmp_signed if word[0] == "s" else b.icmp_unsigned)(COMPARE[sign], x, y)
        self.put(args[0], truth)

    def do_selp(self, words, args):
        kind = kind_of(words[-1])
        x, y = (self.get(part, kind) for part in args[1:3])
        self.put(args[0], self.builder.select(self.get(args[3], I1), x, y))

    # --- all threads ---

    def garbage(self, b):
        return I8(GARBAGE)

    def begin(self, b, level, number):
        """Called where a block, a round of its threads up to a barrier, or a thread begins: levels 0, 1 and 2."""

    def runner(self, thread):
        """A function that runs all blocks, in each all threads from barrier to barrier, in the orders it is given."""
        kinds = [POINTER, I32.as_pointer(), POINTER, I32.as_pointer(), POINTER, I32.as_pointer(), I32.as_pointer()]
        b, function = self._function("run", I32, kinds)
        given, special, frames, resume, memory, block_order, thread_order = function.args
        size = [b.load(b.gep(special, [I64(k)])) for k in range(6, 12)]
        threads = b.mul(b.mul(size[0], size[1]), size[2])
        blocks = b.mul(b.mul(size[3], size[4]), size[5])
        frame = I64(8 * len(self.registers))

        def place(number, first, axes):
            """The numbers along the axes of a thread or a block."""
            for k, axis in enumerate(axes):
                b.store(b.urem(number, axis), b.gep(special, [I64(first + k)]))
                number = b.udiv(number, axis)

        with cgutils.for_range(b, blocks) as turn:
            block = b.load(b.gep(block_order, [turn.index]))
            place(block, 3, size[3:])
            self.begin(b, 0, block)
            with cgutils.for_range(b, I32(max(self.room, 1))) as byte:
                b.store(self.garbage(b), b.gep(memory, [byte.index]))
            with cgutils.for_range(b, threads) as one:
                b.store(I32(0), b.gep(resume, [one.index]))
            again = b.append_basic_block("again")
            over = b.append_basic_block("over")
            b.branch(again)
            b.position_at_end(again)
            self.begin(b, 1, I32(0))
            first = cgutils.alloca_once(b, I32)
            with cgutils.for_range(b, threads) as one:
                index = b.load(b.gep(thread_order, [one.index]))
                place(index, 0, size[:3])
                self.begin(b, 2, index)
                where = b.gep(resume, [index])
                own = b.gep(frames, [b.mul(frame, b.zext(index, I64))])
                found = b.call(thread, [own, given, memory, special, b.load(where)])
                b.store(found, where)
                with b.if_then(b.icmp_signed("==", one.index, I32(0))):
                    b.store(found, first)
                with b.if_then(b.icmp_signed("<", found, I32(DONE))):
                    b.ret(found)
                with b.if_then(b.icmp_signed("!=", found, b.load(first))):
                    b.ret(I32(LEFT_ALONE))
            b.cbranch(b.icmp_signed("!=", b.load(first), I32(DONE)), again, over)
            b.position_at_end(over)
        b.ret(I32(0))

    def _function(self, name, result, kinds):
        function = ir.Function(self.module, ir.FunctionType(result, kinds), name)
        return ir.IRBuilder(function.append_basic_block("entry")), function


@functools.cache
def machine(opt):
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_default_triple().create_target_machine(opt=opt)


@functools.cache
def program_of(text, kind=Translator):
    """A kernel of PTX as code of this CPU."""
    translator = kind(text)
    thread = translator.translate()
    translator.runner(thread)
    module = llvm.parse_assembly(str(translator.module))
    module.verify()
    engine = llvm.create_mcjit_compiler(module, machine(kind.opt))
    engine.finalize_object()
    run = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 7)(engine.get_function_address("run"))
    counts = ctypes.c_int64 * len(translator.lines)
    taken = counts.from_address(engine.get_global_value_address("taken"))
    sizes = 8 * len(translator.registers), translator.room, translator.size
    return Program(run, *sizes, taken, (engine, module))


def run(text, grid, block, words, kind=Translator, block_order=None, thread_order=None):
    """Start a kernel; what its words say of arrays is memory of the host.  How many instructions its threads took.

    The last block runs first, and the first thread, where no order is given.
    """
    program = program_of(text, kind)
    ctypes.memset(program.taken, 0, ctypes.sizeof(program.taken))
    assert program.parameters == 8 * len(words), "other parameters than the code has"
    blocks, threads = math.prod(grid), math.prod(block)
    given = struct.pack(f"{len(words)}q", *words)
    special = (ctypes.c_int32 * 12)(*[0] * 6, *block, *grid)
    frames = ctypes.create_string_buffer(threads * program.frame + 8)
    memory = ctypes.create_string_buffer(program.shared + 16)
    aligned = -ctypes.addressof(memory) % 16
    resume = (ctypes.c_int32 * threads)()
    block_order = (ctypes.c_int32 * blocks)(*(range(blocks)[::-1] if block_order is None else block_order))
    thread_order = (ctypes.c_int32 * threads)(*(range(threads) if thread_order is None else thread_order))
    place = ctypes.c_void_p(ctypes.addressof(memory) + aligned)
    found = program.run(given, special, frames, resume, place, block_order, thread_order)
    assert found != MISALIGNED, "an address that does not suit a machine word"
    assert found != LEFT_ALONE, "some threads of a block wait for others that do not come"
    assert found == 0, "a thread has stopped"
    return sum(program.taken)
