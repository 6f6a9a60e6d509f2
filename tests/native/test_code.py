"""Machine code of kernels: the same results as the Python functions, nothing but the right arguments, and where it is
from."""

import contextlib
import ctypes
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest
from conftest import INTERPRETED, flag

import seqformats as sf
from seqformats import core
from seqformats.core import absent
from seqformats.launch.kernel import Kernel, kernel
from seqformats.layout import Layout
from seqformats.native import code, cpu, linking, loading, ship, store
from seqformats.native.shipped_files import Shipped
from seqformats.native.signature import kinds_of, signature_of, text_of

compiled_only = pytest.mark.passes("compiled", reason="it runs in processes without checks of bounds")
machine_code = pytest.mark.skipif(INTERPRETED, reason="interpreted kernels are Python functions")
WITHOUT = {"SEQFORMATS_CACHE", "SEQFORMATS_CACHE_DIR", "SEQFORMATS_GUARD", "NUMBA_CACHE_DIR", *cpu.CHANGES_CODE}
JIT = {"SEQFORMATS_JIT": "1"}


def python(*command, **environment):
    """A fresh process, which takes nothing from the wheel of these sources if it is not told to."""
    env = {key: value for key, value in os.environ.items() if key not in WITHOUT} | JIT | environment
    return subprocess.run(
        [sys.executable, "-W", "error", *command], env=env, capture_output=True, text=True, timeout=600, check=False
    )


def said(*command, **environment):
    done = python(*command, **environment)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def copy_of_the_source(folder):
    here = pathlib.Path(sf.__file__).parent
    shutil.copytree(here, folder / "seqformats", ignore=shutil.ignore_patterns("__pycache__", "shipped"))
    return folder


# --- importing -------------------------------------------------------------------------------------------------------

UNWANTED = """
import sys
import threading
found = {'numba', 'llvmlite', 'torch', 'cupy', 'ml_dtypes'} & set(sys.modules)
sys.exit(', '.join(sorted(found)) or None)
"""


def test_importing_loads_no_numba():
    done = python("-c", "import seqformats" + UNWANTED)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_names_and_tables_load_no_numba():
    """Neither do help, the table of conversions, or the command that prints it need a kernel to be there."""
    done = python("-c", "import seqformats as sf; sf.conversions(); repr(sf.Ragged); sf.num_threads()" + UNWANTED)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


# --- results ---------------------------------------------------------------------------------------------------------

# Arrays that they write, and numbers that they return: what is moved, calculated, and works on the host.
LENGTHS = np.array([2, 0, 3, 1])
CUM = np.array([0, 2, 2, 5, 6])
AT = Layout(CUM, CUM, CUM, -1, 0, 1, 0)


def of_sums(dtype, out):
    return "sum_rows", (np.arange(12).astype(dtype), np.zeros(8, out), AT, 0, 2, 0, 4)


def not_to_be_opened(path):
    raise OSError("nothing may be executed from there")


CALLS = {
    "offsets": lambda: ("check_lengths", (LENGTHS.copy(), np.zeros(5, np.int64), 6)),
    "wrong lengths": lambda: ("check_lengths", (-LENGTHS, np.zeros(5, np.int64), 6)),
    "float32": lambda: of_sums("f4", "f4"),
    "float64": lambda: of_sums("f8", "f8"),
    "int8": lambda: of_sums("i1", "i8"),
    "uint8": lambda: of_sums("u1", "u8"),
    "mean of int32": lambda: of_sums("i4", "f8"),
}


@machine_code
@pytest.mark.parametrize("by_llvm", [False, True])
@pytest.mark.parametrize("name", CALLS)
def test_what_the_python_function_does(name, by_llvm, monkeypatch):
    kernel_name, args = CALLS[name]()
    again = CALLS[name]()[1]
    monkeypatch.setattr(code, "loaded", {})
    if by_llvm:
        monkeypatch.setattr(loading, "open_shared", not_to_be_opened)
    found = code.code_of(kernel_name, signature_of(args))
    results = [found.run(*args), kernel(kernel_name).function("cpu")(*again)]
    assert results[0] == results[1]
    for own, others in zip(args, again, strict=True):
        if isinstance(own, np.ndarray):
            assert own.tobytes() == others.tobytes()


@machine_code
def test_code_is_loaded_once():
    args = CALLS["offsets"]()[1]
    found = code.code_of("check_lengths", signature_of(args))
    assert code.code_of("check_lengths", signature_of(args)) is found
    assert found.origin in ("shipped", "kept", "compiled")
    assert Kernel("check_lengths").run(*args) == found.run(*args)


@machine_code
def test_bounds_are_checked_where_that_is_wanted(by):
    run = code.code_of("check_lengths", ("i8", "i8", "i")).run
    if flag("NUMBA_BOUNDSCHECK"):
        with pytest.raises(IndexError, match="out of bounds"):
            run(LENGTHS, np.zeros(2, np.int64), 6)
    else:
        assert run(LENGTHS, np.zeros(5, np.int64), 6) == 3


# --- arguments -------------------------------------------------------------------------------------------------------


@pytest.fixture(params=["the extension", "Python"])
def by(request, monkeypatch):
    """Call kernels by the extension, or by what stands for it."""
    monkeypatch.setattr(core, "Entry", core.Entry if request.param == "the extension" else absent.Entry)
    monkeypatch.setattr(code, "loaded", {})


class Odd:
    def __index__(self):
        raise KeyError("odd")


SHORT = np.zeros(4, np.int64)
WRONG = [
    (),
    (LENGTHS,),
    (LENGTHS, SHORT, 6, 6),
    (LENGTHS, SHORT, None),
    (LENGTHS, SHORT, 1.5),
    (LENGTHS, SHORT, "6"),
    (LENGTHS, SHORT, SHORT),
    (LENGTHS, None, 6),
    (LENGTHS, 6, 6),
    (6, SHORT, 6),
    ([1, 2], SHORT, 6),
    (LENGTHS.tolist(), SHORT, 6),
    (LENGTHS.astype("i4"), SHORT, 6),
    (LENGTHS.astype("u8"), SHORT, 6),
    (LENGTHS.astype("f8"), SHORT, 6),
    (LENGTHS.astype("M8[s]"), SHORT, 6),
    (LENGTHS.astype(object), SHORT, 6),
    (LENGTHS.reshape(2, 2), SHORT, 6),
    (np.array(3), SHORT, 6),
    (np.int64(3), SHORT, 6),
    (np.ma.masked_array(LENGTHS), SHORT, 6),
    (memoryview(LENGTHS), SHORT, 6),
    (b"12345678", SHORT, 6),
    (type, SHORT, 6),
]


@machine_code
@pytest.mark.parametrize("args", WRONG, ids=lambda args: text_of(tuple([type(x).__name__ for x in args])))
def test_wrong_arguments_are_refused(args, by):
    run = code.code_of("check_lengths", ("i8", "i8", "i")).run
    for _ in range(3):
        with pytest.raises(TypeError):
            run(*args)
    assert run(LENGTHS, np.zeros(5, np.int64), 6) == 3


@machine_code
def test_numbers_that_are_too_large_or_fail(by):
    run = code.code_of("check_lengths", ("i8", "i8", "i")).run
    with pytest.raises(OverflowError):
        run(LENGTHS, np.zeros(5, np.int64), 2**63)
    with pytest.raises(KeyError, match="odd"):
        run(LENGTHS, np.zeros(5, np.int64), Odd())
    assert run(LENGTHS, np.zeros(5, np.int64), -1) == -1  # which CPython says with errors too
    assert run(LENGTHS, np.zeros(5, np.int64), np.int64(6)) == 3


@machine_code
def test_wrong_named_tuples_are_refused(by):
    name, (x, out, at, *numbers) = of_sums("f4", "f4")
    run = code.code_of(name, signature_of((x, out, at, *numbers))).run
    for other in (None, (), at[:-1], (*at, 0), list(at), (*at[:2], at[2].astype("i4"), *at[3:]), ("a",) * 7, x):
        with pytest.raises(TypeError):
            run(x, out, other, *numbers)
    run(x, out, tuple(at), *numbers)
    assert out[:2].tolist() == [2, 4]


@machine_code
def test_references_are_as_they_were():
    """Results and errors, 100,000 of them."""
    lengths, offsets, rows = LENGTHS.copy(), np.zeros(5, np.int64), 10**15
    run = code.code_of("check_lengths", ("i8", "i8", "i")).run
    name, args = of_sums("f4", "f4")
    add = code.code_of(name, signature_of(args)).run
    watched = [lengths, offsets, rows, np.ndarray, lengths.dtype, *args[:3], TypeError, run]

    def calls():
        for _ in range(25_000):
            run(lengths, offsets, rows)
            add(*args)
            for wrong in ((lengths, offsets, None), (lengths, None, rows)):
                with contextlib.suppress(TypeError):
                    run(*wrong)

    calls()
    before = [sys.getrefcount(x) for x in watched]
    calls()
    after = [sys.getrefcount(x) for x in watched]
    assert [b - a for a, b in zip(before, after, strict=True)] == [0] * len(watched)


@compiled_only
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no nanosleep")
def test_from_which_size_on_other_threads_run(by):
    """The system's nanosleep takes seconds and nanoseconds as a kernel takes its words."""
    address = ctypes.cast(ctypes.CDLL(None).nanosleep, ctypes.c_void_p).value
    ran, done, interval = [], threading.Event(), sys.getswitchinterval()

    def other():
        while not done.wait(0.001):
            ran.append(1)

    def have_run(size, limit):
        run, array = core.Entry(address, kinds_of(("i", "i", "u1")), 1, limit), np.zeros(size, np.uint8)
        before = len(ran)
        run(0, 50_000_000, array)
        return len(ran) > before

    sys.setswitchinterval(100)  # nobody is interrupted
    thread = threading.Thread(target=other)
    thread.start()
    try:
        least = loading.MIN_BYTES_WITHOUT_GIL
        found = [have_run(size, limit) for limit in (least, 0, 1 << 62) for size in (10, least)]
    finally:
        sys.setswitchinterval(interval)
        done.set()
        thread.join()
    assert found == [False, True, True, True, False, False]


def told(*command):
    """The lines of a tool for object files."""
    if not shutil.which(command[0]):
        pytest.skip(f"{command[0]} is not there")
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


linking_here = pytest.mark.skipif(not linking.linker(), reason="there is no C compiler")


@compiled_only
@linking_here
def test_what_is_linked(tmp_path):
    """Check that it asks for libraries of C and mathematics alone, changes no code when loaded, and names kernels."""
    jobs = [job for name in ("copy_blocks", "log_probabilities") for job in ship.jobs([name]) if job.signature]
    for job in jobs:
        (tmp_path / f"{job.symbol}.o").write_bytes(code.compile_now(job.name, job.signature).code)
    out = tmp_path / "kernels.so"
    linking.link(sorted(tmp_path.glob("*.o")), out, linking.linker())
    dynamic = told("readelf", "--dynamic", "--wide", str(out))
    assert not [line for line in dynamic if "TEXTREL" in line]
    assert {line.split("[")[1].split(".")[0] for line in dynamic if "(NEEDED)" in line} <= {"libc", "libm"}
    symbols = {tuple(line.split()[1:]) for line in told("nm", str(out))}
    assert {("T", "sf_copy_blocks"), ("t", "sf_copy_blocks.body")} <= symbols
    library = loading.open_shared(out)
    assert all(loading.address_in(library, job.symbol) for job in jobs)
    assert not loading.address_in(library, "sf_nothing")
    with pytest.raises(RuntimeError, match="has linked nothing"):
        linking.link([tmp_path / "missing.o"], out, linking.linker())


@compiled_only
@linking_here
def test_where_nothing_links(monkeypatch, tmp_path):
    """Code is kept as an object file all the same, and loaded by LLVM."""
    assert origin(tmp_path, PATH="") == ["compiled", "2"]
    assert origin(tmp_path, PATH="") == ["kept", "1"]
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("CC", "")
    assert linking.linker() == []
    monkeypatch.setenv("CC", f"{sys.executable} -c pass")  # which writes no file
    assert linking.linker() == []
    assert linking.link_object(b"code", ["no such command"]) == b""


@compiled_only
def test_symbols_are_of_one_kernel_each():
    symbols = {}
    for job in ship.jobs():
        if job.signature:
            assert symbols.setdefault(job.symbol, job.text) == job.text
    assert symbols["sf_sum_rows_f4_f4"].startswith("sum_rows(f4,f4,")


def test_all_kernels_are_listed():
    folder = pathlib.Path(sf.__file__).parent / "kernels"
    assert ship.names() == [path.stem for path in sorted(folder.glob("*.py")) if path.stem != "__init__"]


@compiled_only
def test_the_same_code_every_time():
    job = ship.jobs(["check_order"])[0]
    found = [code.compile_now(job.name, job.signature) for _ in range(2)]
    assert found[0] == found[1]
    assert not any(str(pathlib.Path(sf.__file__).parent).encode() in entry.code for entry in found)


@machine_code
def test_a_function_that_is_nowhere():
    with pytest.raises(ValueError, match="no object file"):
        loading.load(None, b"", ["f"])
    with pytest.raises(LookupError, match="no function is called g"):
        loading.load(None, code.compile_now("check_lengths", ("i8", "i8", "i")).code, ["g"])


# --- where it does not fit -------------------------------------------------------------------------------------------


@pytest.fixture
def anew(monkeypatch):
    """What is asked once in a process is asked again, before and afterwards."""
    asked = (code._bundle, cpu.level)
    for question in asked:
        question.cache_clear()
    monkeypatch.setattr(code, "loaded", {})
    monkeypatch.setenv("SEQFORMATS_JIT", "1")
    yield
    for question in asked:
        question.cache_clear()


@machine_code
@pytest.mark.parametrize("where", ["build", "load"])
def test_a_kernel_that_cannot_be_made_is_left_to_numba(anew, monkeypatch, where):
    from seqformats.kernels.parts import building

    def fails(*args, **options):
        raise RuntimeError("an unknown kind of machine")

    monkeypatch.setenv("SEQFORMATS_CACHE", "0")
    monkeypatch.setattr(*((building, "build") if where == "build" else (code, "load")), fails)
    check, offsets = Kernel("check_lengths"), np.zeros(5, np.int64)
    assert check.run(LENGTHS, offsets, 6) == 3
    assert offsets.tolist() == CUM.tolist()
    assert check.code[None].__name__ == "cpu"
    assert check.code[None].signatures, "it was compiled"
    assert not code.loaded


def test_no_kernel_of_that_name():
    with pytest.raises(sf.DeviceError, match="no kernel is called nonsense"):
        Kernel("nonsense").run()


def several(x: int) -> tuple[int, int, int]:
    return x + 1000, x + 2000, x + 3000


@compiled_only
def test_a_result_of_several_numbers(by):
    from seqformats.kernels.parts import building

    (address,) = loading.load(None, building.build(several, ("i",), "several"), ["several"])
    run = core.Entry(address, kinds_of(("i",)), 3, loading.MIN_BYTES_WITHOUT_GIL)
    assert run(1) == (1001, 2001, 3001)


# --- where it is from ------------------------------------------------------------------------------------------------


@pytest.fixture
def shipped(anew, monkeypatch, tmp_path):
    """A folder of shipped code, in which there is nothing yet, for a process that looks there."""
    monkeypatch.setattr(code, "is_interpreted", lambda: False)
    monkeypatch.setattr(code, "SHIPPED", tmp_path / "shipped")
    monkeypatch.setattr(cpu, "level", lambda: "x86-64-v3")
    monkeypatch.setenv("SEQFORMATS_CACHE_DIR", str(tmp_path / "cache"))
    for name in (*cpu.CHANGES_CODE, "SEQFORMATS_JIT", "SEQFORMATS_CACHE"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "shipped"


def bundled(folder, **facts):
    """A bundle of a level that has nothing but a table, of kernels about which this is known."""
    folder.mkdir(exist_ok=True)
    (folder / "x86-64-v3.so").write_bytes(b"\x7fELF and so on")
    Shipped.write(folder / "x86-64-v3.so", facts, code.made_by())
    code._bundle.cache_clear()


def test_where_code_is_from_in_words(shipped, monkeypatch):
    assert "(none was shipped with this installation)" in code.whence()
    shipped.mkdir()
    assert "(none is there for x86-64-v3" in code.whence()
    traits = list(code.Traits.from_spec(code.spec_of("check_lengths")))
    bundled(shipped, check_lengths={"traits": traits, "stamp": code.stamp("check_lengths")})
    assert code.whence() == "shipped for x86-64-v3"
    assert code.is_there("check_lengths", "check_lengths")
    assert not code.is_there("check_lengths", "check_lengths(f4)")
    assert code.traits_of("check_lengths") == code.Traits(*traits)
    monkeypatch.setenv("SEQFORMATS_JIT", "1")
    assert not code.is_there("check_lengths", "check_lengths")
    assert "compiled at first use" in code.whence()
    monkeypatch.setenv("SEQFORMATS_CACHE", "0")
    assert "in each process and not cached: SEQFORMATS_CACHE=0 (SEQFORMATS_JIT is set)" in code.whence()


def test_shipped_code_that_is_damaged(shipped, caplog):
    """One of another size is not opened; of the same size, opening or its digest says so."""
    bundled(shipped, check_lengths={"stamp": code.stamp("check_lengths")}, **{"check_lengths(i8,i8,i)": {}})
    (shipped / "x86-64-v3.so").write_bytes(b"\x7fELF and so oN")
    assert code.damage() == f"{shipped / 'x86-64-v3.so'} is damaged"
    assert code.code_of("check_lengths", ("i8", "i8", "i")).origin != "shipped"
    for damage in (b"\x7fELF", b""):
        code._bundle.cache_clear()
        (shipped / "x86-64-v3.so").write_bytes(damage)
        assert "or it is damaged" in code.whence()
    code._bundle.cache_clear()
    (shipped / "x86-64-v3.table").write_text("x86-64-v4\t0\t0\tnobody\n")
    assert "or it is damaged" in code.whence()
    (told,) = {record.getMessage().partition(":")[0] for record in caplog.records}
    assert told == "kernels that came with seqformats are damaged and are compiled instead"


def test_traits_are_kept(shipped):
    found = code.traits_of("check_lengths")
    assert code._find_kept("check_lengths", "check_lengths").facts["traits"] == list(found)
    assert code.traits_of("check_lengths") == found == code.Traits.from_spec(code.spec_of("check_lengths"))


def test_what_keeps_code_apart(shipped, monkeypatch):
    """Text, sources, flags, CPU and LLVM, and Numba."""
    keys = {code.key_of("check_lengths", "a"), code.key_of("check_lengths", "b"), code.key_of("sort_lengths", "a")}
    flags = ("BOUNDSCHECK", "OPT", "CPU_NAME", "CPU_FEATURES", "DEBUGINFO")
    for name in flags:
        monkeypatch.setenv(f"NUMBA_{name}", "0")
        keys.add(code.key_of("check_lengths", "a"))
    monkeypatch.setattr(cpu, "host", lambda: "another")
    keys.add(code.key_of("check_lengths", "a"))
    monkeypatch.setattr(code, "compiler", lambda _: "another")
    keys.add(code.key_of("check_lengths", "a"))
    assert len(keys) == 5 + len(flags)
    assert all(len(key) == 64 for key in keys)


USE = """
import numpy as np, sys
from seqformats.launch.kernel import kernel
from seqformats.native.code import loaded
offsets = np.empty(3, np.int64)
assert kernel("check_lengths").run(np.array([1, 2]), offsets, 3) == 2
assert offsets.tolist() == [0, 1, 3]
print(*{found.origin for name, found in loaded.items() if name.startswith("check_lengths")})
print(len({"numba", "llvmlite"} & set(sys.modules)))
"""
KEPT = ["kept", "0" if linking.linker() else "1"]


def origin(folder, **environment):
    """Tell where a fresh process with this cache has a kernel from, and how many of Numba and llvmlite it loads."""
    return said("-c", USE, SEQFORMATS_CACHE_DIR=str(folder), **environment).split()


@compiled_only
def test_the_cache_can_be_turned_off(tmp_path):
    assert origin(tmp_path, SEQFORMATS_CACHE="0") == ["compiled", "2"]
    assert list(tmp_path.iterdir()) == []


@compiled_only
@pytest.mark.parametrize("file", ["kernels/parts/drivers.py", "layout.py", "beam/rows.py", "kernels/check_lengths.py"])
def test_an_edit_of_what_kernels_are_made_of_is_seen(tmp_path, file):
    env = {"PYTHONPATH": str(copy_of_the_source(tmp_path / "src")), "PYTHONDONTWRITEBYTECODE": "1"}
    cache = tmp_path / "cache"
    assert origin(cache, **env) == ["compiled", "2"]
    assert origin(cache, **env) == KEPT
    with (tmp_path / "src" / "seqformats" / file).open("a") as opened:
        opened.write("\n# an edit\n")
    assert origin(cache, **env) == ["compiled", "2"]


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The environment of an installation that has some kernels shipped with it, and where they are."""
    source = copy_of_the_source(tmp_path_factory.mktemp("installed"))
    script = """
import pathlib, sys
from seqformats.native import code, cpu, ship
if __name__ == "__main__":
    ship.names = lambda: ["check_lengths"]
    ship.ship(pathlib.Path(sys.argv[1]), cpu.levels_of(sys.argv[2]), print, 2)
    code.compile_now = None  # what was compiled is kept, so that nothing is compiled again, and is the same
    before = {path.name: path.read_bytes() for path in pathlib.Path(sys.argv[1]).iterdir()}
    ship.ship(pathlib.Path(sys.argv[1]), cpu.levels_of(sys.argv[2]), print, 2)
    assert before == {path.name: path.read_bytes() for path in pathlib.Path(sys.argv[1]).iterdir()}
"""
    file = source / "make.py"
    file.write_text(script)
    shipped = source / "seqformats" / "native" / "shipped"
    if not cpu.level() or not linking.linker():
        pytest.skip("no code is shipped for this CPU, or nothing links it")
    env = {"PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1", "SEQFORMATS_JIT": ""}
    kept = {"SEQFORMATS_CACHE_DIR": str(source / "kept")}
    text = said(str(file), str(shipped), os.uname().machine, **env, **kept)
    assert text.count("check_lengths(") == 2 * len(cpu.levels_of(os.uname().machine))
    return env, shipped


@compiled_only
def test_what_is_shipped_is_used(installed, tmp_path):
    env, shipped = installed
    assert {path.stem for path in shipped.iterdir()} == set(cpu.levels_of(os.uname().machine))
    assert origin(tmp_path, **env) == ["shipped", "0"]
    assert list(tmp_path.iterdir()) == []
    assert f"machine code: shipped for {cpu.level()}\n" in said("-m", "seqformats", **env)


WITHOUT_EXECUTABLE_MEMORY = """
import ctypes, sys
if ctypes.CDLL(None).prctl(65, 1, 0, 0, 0):  # PR_SET_MDWE: no memory becomes executable from now on
    print("skip")
    sys.exit()
"""


@compiled_only
@pytest.mark.skipif(sys.platform != "linux", reason="a switch of Linux")
def test_where_no_memory_becomes_executable(installed, tmp_path):
    """Check that what was shipped, or linked and kept, runs; what is to be compiled is an error of the library."""
    env, _ = installed
    cases = {"shipped": env, "kept": {}}
    assert origin(tmp_path) == ["compiled", "2"]
    for whence, more in cases.items():
        found = said("-c", WITHOUT_EXECUTABLE_MEMORY + USE, SEQFORMATS_CACHE_DIR=str(tmp_path), **more).split()
        if found == ["skip"]:
            pytest.skip("this kernel of Linux has no such switch")
        assert found == [whence, "0"]
    for call in (
        'kernel("sort_lengths").run()',
        "import seqformats as sf; sf.kernel(lambda x, y, at, n, lo, hi: None)",
    ):
        script = f"{WITHOUT_EXECUTABLE_MEMORY}\nfrom seqformats.launch.kernel import kernel\n{call}"
        done = python("-c", script, SEQFORMATS_CACHE_DIR=str(tmp_path), **env)
        assert done.returncode == 1
        assert "DeviceError: this process may not have memory for machine code" in done.stderr


@compiled_only
def test_what_is_shipped_is_not_used_where_something_else_is_wanted(installed, tmp_path):
    env, _ = installed
    for wanted in ("SEQFORMATS_JIT", "NUMBA_BOUNDSCHECK"):
        more = env | {wanted: "1"}
        assert origin(tmp_path / wanted, **more) == ["compiled", "2"]
        about = said("-m", "seqformats", SEQFORMATS_CACHE_DIR=str(tmp_path / wanted), **more)
        assert f"compiled at first use, kept in {tmp_path / wanted} ({wanted}" in about


@compiled_only
@pytest.mark.parametrize("other", ["sources", "system"])
def test_shipped_code_of_something_else(installed, tmp_path, other):
    source = shutil.copytree(installed[0]["PYTHONPATH"], tmp_path / "other")
    env = installed[0] | {"PYTHONPATH": str(source)}
    if other == "sources":
        with (source / "seqformats" / "layout.py").open("a") as opened:
            opened.write("\n# an edit\n")
    for path in (source / "seqformats" / "native" / "shipped").glob("*.table") if other == "system" else ():
        path.write_text(path.read_text().replace(cpu.system(), "sparc-sunos"))
    assert origin(tmp_path, **env) == ["compiled", "2"]
    if other == "system":
        assert "it was made for sparc-sunos" in said("-m", "seqformats", **env)


# --- the command -----------------------------------------------------------------------------------------------------


@compiled_only
def test_the_cache_is_filled_by_a_command(tmp_path):
    command = ("-m", "seqformats", "compile", "--processes", "2", "check_lengths", "sort_lengths")
    found = [python(*command, SEQFORMATS_CACHE_DIR=str(tmp_path)) for _ in range(2)]
    assert [done.returncode for done in found] == [0, 0], found
    assert all(done.stdout == f"kernel cache: {tmp_path}\n" for done in found)
    assert "0 of 4 there already" in found[0].stderr
    assert "check_lengths(i8,i8,i)" in found[0].stderr
    assert "4 of 4 there already" in found[1].stderr
    assert "0 compiled" in found[1].stderr
    assert origin(tmp_path) == KEPT


@compiled_only
def test_code_for_gpus_is_compiled_where_there_is_none(tmp_path):
    """All that launchers ask of a kernel; a process finds it there, and imports neither Numba nor its package."""
    pytest.importorskip("numba_cuda", reason="it compiles the kernels")
    from seqformats.kernels.parts.cubins import signatures_of

    gpus = ("--gpu", "9.0", "--gpu", "8.0", "--gpu", "9.0")
    command = ("-m", "seqformats", "compile", *gpus, "--processes", "2", "logsumexp_rows")
    wanted = list(signatures_of(code.spec_of("logsumexp_rows")))
    assert {variant for variant, _ in wanted} == {"", ".short"}
    found = [python(*command, SEQFORMATS_CACHE_DIR=str(tmp_path)) for _ in range(2)]
    assert [done.returncode for done in found] == [0, 0], found
    assert f"0 of {2 * len(wanted)} there already" in found[0].stderr
    assert "logsumexp_rows.short.sm_80(f4x4.32,f4x4.32," in found[0].stderr
    assert f"{2 * len(wanted)} of {2 * len(wanted)} there already" in found[1].stderr
    use = f"""
import sys
import threading
from seqformats.native import cubins
images = [cubins.image_of("logsumexp_rows" + variant, None, one, (9, 0), True) for variant, one in {wanted!r}]
print({{(image.origin, image.data[:4]) for image in images}}, "numba" in sys.modules)
"""
    assert said("-c", use, SEQFORMATS_CACHE_DIR=str(tmp_path)) == "{('kept', b'\\x7fELF')} False\n"


WITHOUT_COMPILER = """
import sys
sys.modules["numba.cuda"] = None
import seqformats as sf
from seqformats.kernels import mean_sums
from seqformats.kernels.parts import gpu
from seqformats.native import cubins
assert gpu.gpu is None
assert (gpu.better(1, 2, 0), gpu.greater(1.0, 2.0), gpu.bits_of(1.0)) == (2, 2.0, 0x3F800000)
assert gpu.bind(mean_sums.cuda).__globals__["p"].zero_in is gpu.zero_in is gpu._zero_in
try:
    cubins.image_of("mean_sums", lambda: mean_sums.cuda, ("f8",), (9, 0), False)
except sf.DeviceError as error:
    print(error)
"""


@compiled_only
def test_without_a_compiler_for_gpus_the_parts_of_kernels_are_plain_functions(tmp_path):
    found = said("-c", WITHOUT_COMPILER, SEQFORMATS_CACHE_DIR=str(tmp_path))
    assert found.startswith("the kernel mean_sums is not compiled yet for GPUs of compute capability 9.0, and numba")


@compiled_only
def test_what_the_command_refuses_of_gpus(tmp_path):
    pytest.importorskip("numba_cuda", reason="it compiles the kernels")
    done = python("-m", "seqformats", "compile", "--gpu", "9.0", NUMBA_ENABLE_CUDASIM="1")
    assert done.returncode == 1
    assert done.stderr == "nothing is compiled for GPUs where NUMBA_ENABLE_CUDASIM is set\n"
    for words, text in [
        (["--gpu", "9"], "a compute capability such as 9.0, or here, not 9"),
        (["--gpu", "3.0"], "there is no code for compute capability 3.0, but for 7.5, 8.0"),
        (["--gpu", "9.0", "sort_lengths"], "the kernel sort_lengths runs on the host alone"),
        (["--gpu", "9.0", "nonsense"], "no kernel is called nonsense"),
    ]:
        done = python("-m", "seqformats", "compile", *words, SEQFORMATS_CACHE_DIR=str(tmp_path))
        assert done.returncode == 2
        assert text in done.stderr
        assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


@compiled_only
def test_what_the_command_refuses(tmp_path):
    for words, environment, text in [
        (["nonsense"], {}, "no kernel is called nonsense"),
        (["--processes", "0"], {}, "a whole number from 1 on, not 0"),
        ([], {"SEQFORMATS_CACHE": "0"}, "kernels are not cached: SEQFORMATS_CACHE=0"),
        ([], {"NUMBA_DISABLE_JIT": "1"}, "interpreted: NUMBA_DISABLE_JIT is set"),
    ]:
        done = python("-m", "seqformats", "compile", *words, **{"SEQFORMATS_CACHE_DIR": str(tmp_path), **environment})
        assert done.returncode != 0
        assert text in done.stderr
        assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


SMALL = ("check_lengths", "check_offsets", "check_order", "join_lengths", "chunk_counts", "pick_sequences")


@compiled_only
@pytest.mark.skipif(sys.platform == "win32", reason="signals are others there")
def test_an_interrupt_leaves_nothing_half_done(tmp_path):
    """What was compiled by then is kept, and is used afterwards."""
    env = {key: value for key, value in os.environ.items() if key not in WITHOUT}
    process = subprocess.Popen(
        [sys.executable, "-m", "seqformats", "compile", "--processes", "2", *SMALL],
        env=env | JIT | {"SEQFORMATS_CACHE_DIR": str(tmp_path)},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # it is ignored in what a shell starts aside
    )
    with process:
        for line in process.stderr:
            if "[ 2/" in line:
                os.killpg(process.pid, signal.SIGINT)  # as a terminal does
                break
        rest = process.stderr.read()
    assert process.returncode == 130
    assert "interrupted; what has been compiled is kept" in rest
    assert "Traceback" not in rest
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names
    assert all(name.endswith(".so") for name in names)
    again = python("-m", "seqformats", "compile", *SMALL, SEQFORMATS_CACHE_DIR=str(tmp_path))
    assert again.returncode == 0
    assert f"{len(names)} of" in again.stderr


@compiled_only
def test_an_error_in_another_process_is_named(monkeypatch, tmp_path):
    """A folder in place of the file of a kernel."""
    (job, *_) = ship.jobs(["check_lengths"])
    monkeypatch.setenv("SEQFORMATS_JIT", "1")
    monkeypatch.setenv("SEQFORMATS_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "cache").mkdir(mode=0o755)
    (tmp_path / "cache" / store._file(job.text, code.key_of(job.name, job.text))).mkdir()
    lines = []
    assert not ship.fill_cache(["check_lengths"], lines.append, 1)
    assert [line for line in lines if line.startswith("not compiled: check_lengths(i8,i8,i)")]


@compiled_only
def test_what_cannot_be_compiled_is_not_shipped(monkeypatch, tmp_path):
    monkeypatch.setattr(ship, "jobs", lambda: [ship.Job("check_lengths", ("i8",))])
    monkeypatch.setenv("SEQFORMATS_CACHE_DIR", str(tmp_path / "cache"))
    with pytest.raises(RuntimeError, match=r"1 kernels were not compiled for .*\ncheck_lengths"):
        ship.ship(tmp_path, cpu.levels_of(os.uname().machine)[-1:], lambda line: None, 1)
    assert not list(tmp_path.glob("*.so"))


def test_levels():
    assert cpu.levels_of("x86_64") == cpu.levels_of("AMD64") == ("x86-64-v4", "x86-64-v3")
    assert cpu.levels_of("arm64") == cpu.levels_of("aarch64") == ("aarch64",)
    assert cpu.levels_of("riscv64") == ()
    assert "+avx512f" in cpu.numba_options("x86-64-v4")["NUMBA_CPU_FEATURES"].split(",")
    assert "+avx2" in cpu.numba_options("x86-64-v4")["NUMBA_CPU_FEATURES"].split(",")
    assert "avx512" not in cpu.numba_options("x86-64-v3")["NUMBA_CPU_FEATURES"]
    assert cpu.numba_options("aarch64")["NUMBA_CPU_NAME"] == "generic"


def level_with(monkeypatch, **features):
    cpu.level.cache_clear()
    monkeypatch.setattr(cpu.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(cpu, "_read_features", lambda: lambda feature: features.get(feature, True))
    return cpu.level()


def test_what_linux_says_of_a_cpu():
    known, features = cpu._read_features(), cpu._features()
    for feature in [feature for names in cpu.CPU_LEVELS.values() for feature in names]:
        assert known(feature) == features.get(feature, False), feature
    assert not known("no such feature")


def test_where_linux_says_nothing(monkeypatch, tmp_path):
    for path, text in ((tmp_path / "none", None), (tmp_path / "other", "processor : 0\n")):
        if text:
            path.write_text(text)
        monkeypatch.setattr(cpu, "_CPUS", path)
        known = cpu._read_features()
        assert known("avx2") == cpu._features().get("avx2", False)
        assert not known("no such feature")
        assert len(cpu._said_of_cpu()) > 1, "what LLVM says"


def test_the_level_of_a_cpu(monkeypatch, anew):
    assert level_with(monkeypatch) == "x86-64-v4"
    assert level_with(monkeypatch, avx512dq=False) == "x86-64-v3"
    assert level_with(monkeypatch, fma=False) == ""
    monkeypatch.setattr(cpu.platform, "machine", lambda: "aarch64")
    cpu.level.cache_clear()
    assert cpu.level() == "aarch64"
