"""Object files placed without LLVM: they do what LLVM makes them do, and what they do not know they refuse."""

import ctypes
import platform
import struct
import sys
from pathlib import Path

import pytest
from conftest import INTERPRETED
from hypothesis import given, settings
from hypothesis import strategies as st

from seqformats.native import elf, loading

pytestmark = [
    pytest.mark.skipif(INTERPRETED, reason="interpreted kernels are Python functions"),
    pytest.mark.skipif(sys.platform != "linux" or platform.machine() != "x86_64", reason="LLVM loads the code there"),
]

BY_PLACES = """
define i64 @first(i64 %a) {
  %b = call i64 @second(i64 %a)
  %c = mul i64 %b, 10
  ret i64 %c
}
define i64 @second(i64 %a) {
  %size = call i64 @strlen(i8* getelementptr ([4 x i8], [4 x i8]* @text, i64 0, i64 0))
  %at = getelementptr [3 x i64], [3 x i64]* @numbers, i64 0, i64 %size
  %before = getelementptr i64, i64* %at, i64 -1
  %b = load i64, i64* %before
  %c = add i64 %a, %b
  ret i64 %c
}
@text = private constant [4 x i8] c"abc\\00"
@numbers = private constant [3 x i64] [i64 5, i64 6, i64 700]
declare i64 @strlen(i8*)
"""
ALIGNED = """
@wide = private constant [8 x i64] [i64 1, i64 2, i64 3, i64 4, i64 5, i64 6, i64 7, i64 8], align 64
define i64 @first(i64 %a) {
  %place = ptrtoint [8 x i64]* @wide to i64
  %off = and i64 %place, 63
  %b = add i64 %a, %off
  ret i64 %b
}
"""
VARIABLE = """
@count = internal global i64 3
define i64 @first(i64 %a) {
  %b = load i64, i64* @count
  %c = add i64 %a, %b
  store i64 %c, i64* @count
  ret i64 %c
}
"""
REFUSED = "relocation|section|x86-64|headers|unpack"
ZEROS = VARIABLE.replace("i64 3", "i64 0")


def made(text, model="large", name="first"):
    """An object file of LLVM's language, whose function gets a name of its own: LLVM keeps all names for ever."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_triple(llvm.get_process_triple())
    machine = target.create_target_machine(codemodel=model, reloc="static")
    return machine.emit_object(llvm.parse_assembly(text.replace("@first", f"@{name}")))


def at(address):
    return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(address)


def refuse(name):
    raise LookupError(name)


def test_calls_texts_and_constants():
    (first,) = elf.place(made(BY_PLACES), ["first"], loading.address_of)
    assert at(first)(1) == 7010


def test_functions_in_the_order_of_their_names():
    for names in (["first", "second"], ["second", "first"]):
        found = dict(zip(names, elf.place(made(BY_PLACES), names, loading.address_of), strict=True))
        assert at(found["first"])(1) == 7010
        assert at(found["second"])(1) == 701


def test_constants_lie_as_they_want_to():
    """Kernels read them in vectors of 64 bytes, at such addresses."""
    (first,) = elf.place(made(ALIGNED), ["first"], loading.address_of)
    assert at(first)(1) == 1


def test_addresses_that_are_not_in_the_file():
    """They are not passed over."""
    data = bytearray(made(BY_PLACES))
    begin, (size, count) = struct.unpack_from("<Q", data, 40)[0], struct.unpack_from("<HH", data, 58)
    headers = [begin + k * size for k in range(count)]
    (wanted,) = [
        at for at in headers if struct.unpack_from("<I", data, at + 4)[0] == 4 and is_of_code(data, at, headers)
    ]
    struct.pack_into("<Q", data, wanted + 24, len(data))
    with pytest.raises(ValueError, match="ends behind the file"):
        elf.place(bytes(data), ["first"], loading.address_of)


def is_of_code(data, at, headers):
    """Are these addresses to be filled in where there is code?"""
    target = headers[struct.unpack_from("<I", data, at + 44)[0]]
    return struct.unpack_from("<Q", data, target + 8)[0] & 4 != 0


@pytest.mark.parametrize(("text", "model"), [(VARIABLE, "large"), (ZEROS, "large"), (BY_PLACES, "small")])
def test_llvm_takes_what_is_not_done_here(text, model):
    """Variables, and calls over short distances."""
    name = f"first_of_{len(text)}_{model}"
    data = made(text.replace("@second", f"@second_of_{name}"), model, name)
    with pytest.raises(ValueError, match=REFUSED):
        elf.place(data, [name], loading.address_of)
    if model == "large":
        (first,) = loading.load(data, [name], ["strlen"])
        assert at(first)(1) == 4 - 3 * (text is ZEROS)


def test_a_missing_function():
    with pytest.raises(LookupError, match="no function is called third"):
        elf.place(made(BY_PLACES), ["first", "third"], loading.address_of)
    with pytest.raises(LookupError, match="strlen"):
        elf.place(made(BY_PLACES), ["first"], refuse)


@pytest.mark.parametrize("data", [b"", b"\x7fELF", b"\xcf\xfa\xed\xfe" + bytes(200), b"\x64\x86" + bytes(200)])
def test_no_object_file_of_this_machine(data):
    with pytest.raises(ValueError, match=REFUSED):
        elf.place(data, ["first"], loading.address_of)


@pytest.mark.parametrize(("place", "value"), [(4, 1), (5, 2), (16, 3), (18, 183), (58, 60)])
def test_another_kind_of_file(place, value):
    """Of 32 bits, of the other order of bytes, a library, of ARM, and of headers of another size."""
    data = bytearray(made(BY_PLACES))
    data[place] = value
    with pytest.raises(ValueError, match=REFUSED):
        elf.place(bytes(data), ["first"], loading.address_of)


@given(st.data())
@settings(max_examples=300, deadline=None)
def test_damaged_files(data):
    """An error or a place: nothing is read or written outside.  The code is not run."""
    good = DAMAGED.get("good") or DAMAGED.setdefault("good", made(BY_PLACES))
    bad = bytearray(good)
    headers = struct.unpack_from("<Q", good, 40)[0]
    for _ in range(data.draw(st.integers(1, 4))):
        begin = data.draw(st.sampled_from([0, headers]))
        place = data.draw(st.integers(begin, min(begin + 700, len(good) - 1)))
        bad[place] = data.draw(st.integers(0, 255))
    whole = data.draw(st.sampled_from([len(good), data.draw(st.integers(0, len(good)))]))
    try:
        found = elf.place(bytes(bad[:whole]), ["first"], loading.address_of)
    except (ValueError, LookupError, OSError):
        return
    assert len(found) == 1


DAMAGED = {}


def test_memory_with_code_is_not_written_any_more():
    elf.place(made(BY_PLACES), ["first"], loading.address_of)
    begin = ctypes.addressof(ctypes.c_char.from_buffer(elf._kept[-1]))
    ranges = [line.split()[:2] for line in Path("/proc/self/maps").read_text().splitlines()]
    inside = [mode for span, mode in ranges if int(span.split("-")[0], 16) <= begin < int(span.split("-")[1], 16)]
    assert inside == ["r-xp"]
