"""The laws of the house: who imports whom, where Numba is, what every public name and kernel has."""

import ast
import functools
import inspect
import pathlib
import re
import subprocess
import sys

import pytest
from laws import broken, every

import seqformats as sf
from seqformats.launch.kernel import kernel

pytestmark = pytest.mark.passes("compiled", reason="the sources are the same in every pass")

SOURCE = pathlib.Path(sf.__file__).parent
MODULES = sorted(SOURCE.rglob("*.py"))
KERNELS = sorted(path for path in (SOURCE / "kernels").glob("*.py") if path.stem != "__init__")
PUBLIC = sorted(set(sf.__all__) - {"__version__"})

# A module imports what stands above it here, or beside it; a name stands for all modules in it that have no line of
# their own.  Kernels and their parts have laws of their own.
LAYERS = [
    [
        "after_logging",
        "aliases",
        "core",
        "errors",
        "hints",
        "lazy_import",
        "layout",
        "memory_checks",
        "memory",
        "native",
        "names",
        "once",
        "post_import_hook",
    ],
    ["arrays.dtypes", "arrays.library", "arrays.numpy"],
    ["launch"],
    ["arrays"],
    ["launch.cuda", "reading", "registry"],
    ["arrays.functions", "arrays.torch", "arrays.jax"],
    ["launch.formulas", "launch.program", "launch.recurrences", "launch.sequences", "launch.series"],
    ["formats"],
    ["numba_types"],
    ["converters"],
    ["gradients"],
    ["operations"],
    ["wrapping"],
    ["beam", "wrap"],
    ["ctc", "rl"],
    ["arrow", "awkward"],
    ["loading"],
    ["engines", "hf", "jax", "thinc", "torch"],
    ["bench", "health", "plot"],
    ["__init__", "__main__"],
]
# Modules that speak to other libraries, which they import when they are called.
BRIDGES = {"arrow", "awkward", "engines", "hf", "jax", "loading", "thinc", "torch"}
# Those that are imported only once the library is there: by `when_imported`, or by who asks for what needs it.
ONCE_THERE = {
    **{
        f"hf.unpadded.{name}": "torch transformers"
        for name in [
            "attend",
            "batch",
            "body",
            "calls",
            "heads",
            "masks",
            "pairs",
            "refusals",
            "rows",
            "switch",
            "trial",
        ]
    },
    "arrays.functions": "torch",
    "thinc.inputs": "thinc",
    "thinc.layers": "thinc",
    "thinc.ops": "thinc",
    "thinc.transforms": "thinc",
    "thinc.types": "thinc",
    "torch.cells": "torch",
    "torch.citizen": "torch",
    "torch.graph": "torch",
    "torch.graph.batches": "torch",
    "torch.graph.functions": "torch",
    "torch.graph.ops": "torch",
    "torch.recurrent": "torch",
    "torch.steps": "torch",
}
FOREIGN = {
    "pyarrow",
    "awkward",
    "datasets",
    "transformers",
    "tokenizers",
    "ray",
    "pyspark",
    "polars",
    "duckdb",
    "tqdm",
    "jax",
    "thinc",
}
# What takes something from kernels: their starters, Numba's own arrays, what compiled functions of users call, and the
# command that says what is installed.
IN_COMPILED = {"numba_types.constructors", "numba_types.lists", "numba_types.sequences", "numba_types.types"}
NEAR_KERNELS = {"__main__", "arrays.numba", "launch.cuda", *IN_COMPILED}

# The longest file; the most arguments by place, and how many kernels may take more; how often encodings may be told
# apart outside formats; and the part of annotated arguments that may be anything.
LINES, PARAMETERS, LONG_KERNELS, TYPE_TESTS, ANY = 500, 8, 19, 8, 0.03

every_module = every(MODULES, lambda path: path.relative_to(SOURCE).as_posix())
every_kernel = every(KERNELS, lambda path: path.stem)
every_name = every(PUBLIC)


@functools.cache
def tree(path):
    """The source as a tree, which nobody may change."""
    return ast.parse(path.read_text(encoding="utf-8"))


@functools.cache
def nodes_of(path):
    return list(ast.walk(tree(path)))


def imported(node):
    """The names of modules in an import statement, "." for this package."""
    if isinstance(node, ast.Import):
        return [alias.name.replace("seqformats", ".", 1) for alias in node.names]
    if not isinstance(node, ast.ImportFrom):
        return []
    module = "." * node.level + (node.module or "")
    module = re.sub(r"^seqformats\.?", ".", module)
    return [module + alias.name for alias in node.names] if module == "." else [module]


def imports(path, everywhere=False):
    """What a module imports at its top, or anywhere."""
    nodes = nodes_of(path) if everywhere else tree(path).body
    return [name for node in nodes for name in imported(node)]


def dotted(path):
    """The name of a module below this package."""
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


NAMES = {dotted(path) for path in MODULES}


def modules_imported(path):
    """The modules of this package that a module imports, at its top or later; not the packages that it is in."""
    own = path.relative_to(SOURCE).parts[:-1]
    found = set()
    for node in nodes_of(path):
        if isinstance(node, ast.ImportFrom) and (node.level or (node.module or "").partition(".")[0] == "seqformats"):
            base = [*own[: len(own) - node.level + 1], *filter(None, [node.module])]
            base = base if node.level else node.module.split(".")[1:]
            inner = [".".join([*base, alias.name]) for alias in node.names]
            found |= {name if name in NAMES else ".".join(base) or "__init__" for name in inner}
    return {name for name in found if not f"{dotted(path)}.".startswith(f"{name}.")}


@functools.cache
def graph():
    """What each module imports."""
    return {dotted(path): modules_imported(path) for path in MODULES}


def layer(name):
    """The number of the line above that speaks of this module, of the module itself before the package it is in."""
    while name:
        for number, names in enumerate(LAYERS):
            if name in names:
                return number
        name = name.rpartition(".")[0]
    return None


def in_kernels(name):
    return f"{name}.".startswith("kernels.")


@every_module
def test_imports_point_one_way(path):
    """Wherever they stand, so that what is imported late is no way around."""
    name = dotted(path)
    if in_kernels(name):
        return
    assert layer(name) is not None, f"{name} is in no layer"
    for other in graph()[name]:
        if in_kernels(other):
            assert name in NEAR_KERNELS or other == "kernels.parts.record", f"{name} imports {other}"
        else:
            assert layer(other) <= layer(name), f"{name} imports {other}, which stands higher"


def circles(ways_of):
    """The groups of modules each of which leads to all others of its group."""

    def reached(start):
        seen, waiting = set(), [start]
        while waiting:
            new = ways_of.get(waiting.pop(), set()) - seen
            seen |= new
            waiting += new
        return seen

    ways = {name: reached(name) for name in ways_of}
    groups = {frozenset(other for other in ways[name] if name in ways.get(other, ())) for name in ways_of}
    return sorted(sorted(group) for group in groups if group)


def test_no_import_circle():
    """Late imports and those for types count."""
    assert circles(graph()) == []


def test_a_circle_would_be_found():
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": set()}) == [["a", "b", "c"]]


def imports_in_order(name):
    """The modules of this package that a module imports at its top."""
    place = SOURCE.joinpath(*name.split("."))
    path = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    own = path.relative_to(SOURCE).parts[:-1]
    nodes = [node for node in tree(path).body if isinstance(node, ast.ImportFrom) and node.level]
    return [".".join([*own[: len(own) - node.level + 1], *filter(None, [node.module])]) for node in nodes]


def parts_before_packages(name, loaded, imports=imports_in_order):
    """The parts that are asked for while their package, which asks for the same parts, is not there."""
    if not name or name in loaded:
        return []
    package = name.rpartition(".")[0]
    wrong = parts_before_packages(package, loaded, imports)
    loaded.add(name)
    for other in imports(name):
        parent = other.rpartition(".")[0]
        if parent and parent not in loaded:
            parts_before_packages(parent, by_parent := set(loaded), imports)
            if other in by_parent:
                wrong.append(f"{name} imports {other} before {parent}")
        wrong += parts_before_packages(other, loaded, imports)
    return wrong


@every(sorted(sf._MODULES))
def test_packages_are_imported_before_their_parts(name):
    """Else a thread that imports a part and one that imports the package may each hold what the other waits for."""
    loaded = set()
    parts_before_packages("__init__", loaded)
    assert parts_before_packages(name, loaded) == []


def test_what_breaks_a_law_would_be_listed():
    def law(number):
        assert number % 2, f"{number} is even"

    assert broken(law, range(5), lambda number: f"n{number}").keys() == {"n0", "n2", "n4"}
    assert "2 is even" in broken(law, [2])["2"]
    with pytest.raises(AssertionError, match="4 is even"):
        every([3, 4])(law)()


def test_parts_before_packages_would_be_found():
    imports = {"late": ["late.a"], "late.a": [], "first": ["late.a"], "second": ["late", "late.a"]}
    assert parts_before_packages("first", set(), imports.get) == ["first imports late.a before late"]
    assert parts_before_packages("second", set(), imports.get) == []


def statements_in_functions(path):
    """The imports of parts of this package in functions."""
    functions = [node for node in nodes_of(path) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    inner = [node for function in functions for node in ast.walk(function)]
    return [name for node in inner for name in imported(node) if name.startswith(".")]


@every_module
def test_a_fork_waits_for_what_is_imported_late(path):
    """By `lazy_import.import_now`, which holds a lock; a statement's lock would stay held in a child."""
    name = dotted(path)
    if in_kernels(name) or name in ("__main__", "lazy_import", "post_import_hook", "numba_types"):
        return  # one thread, or imported by the others' ways, or while Numba and others hold locks of their own
    assert statements_in_functions(path) == []
    words = path.read_text(encoding="utf-8")
    assert not re.search(r"import_module\([^)]*(__package__|__name__|[\"']seqformats)", words)


def test_a_statement_in_a_function_would_be_found(tmp_path):
    path = tmp_path / "one.py"
    path.write_text("import a\nfrom . import b\ndef f():\n    import c\n    from .d import e\n")
    assert statements_in_functions(path) == [".d"]


def test_no_module_waits_for_what_is_imported_late():
    """While a statement imports it, a thread that holds the lock may wait for that module."""
    done = subprocess.run([sys.executable, "-c", NO_LOCK], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr


NO_LOCK = """
import importlib, pkgutil, sys, threading

class Watched:
    made = threading.RLock
    def __init__(self):
        self.lock = Watched.made()
    def __getattr__(self, name):
        return getattr(self.lock, name)
    def __enter__(self):
        if sys._getframe(1).f_globals["__name__"].startswith("seqformats"):
            frame, names = sys._getframe(1), []
            while frame:
                names.append(frame.f_globals["__name__"] + "." + frame.f_code.co_name)
                frame = frame.f_back
            if any(name.endswith(".<module>") and name.startswith("seqformats") for name in names):
                taken.append(names)
        return self.lock.__enter__()
    def __exit__(self, *args):
        return self.lock.__exit__(*args)

taken = []
threading.RLock = Watched
import seqformats
threading.RLock = Watched.made
assert isinstance(seqformats.lazy_import.loading, Watched)
for found in pkgutil.walk_packages(seqformats.__path__, "seqformats.", lambda name: None):
    if "kernels" not in found.name and "__main__" not in found.name:
        try:
            importlib.import_module(found.name)
        except (ImportError, AttributeError):  # of a library that is not here, or not loaded yet
            pass
print(taken)
"""


def test_every_layer_is_there():
    """A line that speaks of no module is a leftover."""
    known = {layer_name for names in LAYERS for layer_name in names}
    assert not {name for name in known if not any(f"{module}.".startswith(f"{name}.") for module in NAMES)}
    assert {name for name in NAMES if in_kernels(name)}
    assert graph().keys() >= NEAR_KERNELS


@every_kernel
def test_kernels_import_the_house_options_alone(path):
    """A kernel that is kept does not see an edit in another file (`native.code.stamp`), so none takes code from one."""
    for name in imports(path, everywhere=True):
        assert name in ("typing", "math", "numpy", *ROWS) or name.startswith(".parts"), name


ROWS = "..beam.rows", "..ctc.rows", "..operations.attention_rows", "..operations.choices"


def test_named_tuples_of_kernels_import_nothing():
    """They import it, and know it by names alone."""
    for name in ROWS:
        path = SOURCE.joinpath(*name[2:].split(".")).with_suffix(".py")
        assert imports(path) == ["__future__", "typing"]


def test_parts_of_kernels_import_nothing_above_them():
    """But where rows lie, and what the machine code is called and finds."""
    for path in (SOURCE / "kernels" / "parts").glob("*.py"):
        for name in imports(path, everywhere=True):
            above = name in ("...layout", "...native.objects", "...native.signature")
            assert above or not name.startswith(".."), f"{path.stem} imports {name}"


def test_names_for_gpus_are_no_others():
    """Names of `parts.names` stand for another thing on a GPU, and so would a part that is called the same."""
    parts = SOURCE / "kernels" / "parts"
    of_gpus = {node.target.id for node in tree(parts / "names.py").body if isinstance(node, ast.AnnAssign)}
    nodes = [node for path in parts.glob("*.py") for node in tree(path).body]
    of_parts = {node.name for node in nodes if isinstance(node, ast.FunctionDef)}
    assert of_gpus & of_parts == {"exp"}  # which is the same there, for one number


def test_one_file_of_the_kernels_names_the_compiler_for_gpus():
    """So that another can take its place; and a kernel says where each of its names is from."""
    texts = {path.stem: path.read_text(encoding="utf-8") for path in (SOURCE / "kernels").rglob("*.py")}
    named = r"from numba\.cuda|from numba import .*\bcuda\b|import_module\(\"numba\.cuda|import numba\.cuda"
    assert {name for name, text in texts.items() if re.search(named, text)} == {"compiler"}
    assert {name for name, text in texts.items() if "TYPE_CHECKING" in text} == set()


def test_launch_imports_no_kernel():
    """But the launcher of CUDA, for the simulator."""
    for path in (SOURCE / "launch").glob("*.py"):
        typing = {name for node in nodes_of(path) if is_for_types(node) for name in imports_of(node)}
        for name in set(imports(path, everywhere=True)) - typing:
            assert path.stem == "cuda" or not re.search(r"kernels|cuda", name), f"{path.stem} imports {name}"


def is_for_types(node):
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def imports_of(node):
    return [name for inner in ast.walk(node) for name in imported(inner)]


@every_kernel
def test_every_kernel_has_a_cpu_driver_and_words(path):
    defined = {node.name: node for node in tree(path).body if isinstance(node, ast.FunctionDef)}
    assert "cpu" in defined, f"{path.stem} has no cpu"
    assert ast.get_docstring(tree(path)), f"{path.stem} says nothing"
    assert any("compiled" in ast.unparse(d) for d in defined["cpu"].decorator_list)


@every_kernel
def test_kernels_allocate_nothing_and_raise_nothing(path):
    for node in nodes_of(path):
        assert not isinstance(node, (ast.Raise, ast.Assert, ast.Global, ast.Lambda)), ast.unparse(node)
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            assert not re.search(r"\b(np|numpy)\.(empty|zeros|ones|full|arange|array|concatenate)", name), name


def test_kernels_call_no_function_of_numbas_own_library():
    """Code that was shipped or kept would call an address that is nowhere, and end the process."""
    for path in (SOURCE / "kernels").rglob("*.py"):
        assert not re.search(r"\bmath\.(frexp|ldexp|erf|erfc|gamma|lgamma|hypot|atan2)\(", code_of(path)), path.stem


def test_every_kernel_is_listed():
    """By what it says of itself."""
    text = _main("kernels")
    for path in KERNELS:
        does = kernel(path.stem).load().does
        assert re.search(rf"^{path.stem} +{does} ", text, re.M), path.stem
    assert len(text.splitlines()) == len(KERNELS)


def _main(*arguments):
    command = [sys.executable, "-m", "seqformats", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@every_module
def test_numba_is_loaded_in_its_places_alone(path):
    if path.parent.parent.name == "kernels" or path.parent.name in ("kernels", "numba_types"):  # after Numba alone
        return
    # LLVM loads machine code; it is not Numba, which takes ten times as long to import
    own = r"(numba|cuda)\b" if path.parent.name == "native" else r"(numba|llvmlite|cuda)\b"
    assert not [name for name in imports(path, everywhere=True) if re.match(own, name)]


@every_module
def test_no_array_library_is_imported(path):
    """Only the caller does that, and bridges when they are called, or once it is there."""
    found = [
        name
        for name in imports(path, everywhere=dotted(path).partition(".")[0] not in BRIDGES)
        if re.match(r"(torch|cupy|ml_dtypes|jax|thinc|paddle)\b", name) or name.partition(".")[0] in FOREIGN
    ]
    assert {name.partition(".")[0] for name in found} <= set(ONCE_THERE.get(dotted(path), "").split())


# Where an array library but NumPy may be named: a file of its own, the table of the libraries, what is a fact about
# that library alone, a default, or a table of words.
NAMES_A_LIBRARY = {
    "arrays/torch.py": {"torch"},
    "arrays/functions.py": {"torch"},
    "arrays/cupy.py": {"cupy"},
    "arrays/jax.py": {"jax"},
    "arrays/lookup.py": {"torch", "cupy", "jax"},
    "formats/packed.py": {"torch"},
    "hints.py": {"torch"},
    "names.py": {"jax", "torch"},
    "operations/model_inputs.py": {"torch"},
    "torch/": {"torch"},
    "jax/": {"jax"},
    "launch/formulas.py": {"jax"},
    "launch/program.py": {"jax"},
    "thinc/": {"torch", "cupy", "jax"},
    "hf/collator.py": {"torch"},
    "hf/inputs.py": {"torch"},
    "hf/memory.py": {"torch"},
    "hf/models.py": {"torch"},
    "hf/steps.py": {"torch"},
    "hf/unpadded/": {"torch"},
    "__init__.py": {"torch", "jax"},
    "bench/": {"torch"},
    "health.py": {"torch", "cupy", "jax"},
}


@every_module
def test_array_libraries_are_named_in_their_files_alone(path):
    """So that adding one is a file in arrays/ and a line in its table."""
    words = set()
    for node in nodes_of(path):
        if isinstance(node, (ast.Name, ast.Attribute, ast.arg)):
            words.add(getattr(node, "id", None) or getattr(node, "attr", None) or getattr(node, "arg", None))
        elif isinstance(node, ast.Constant):
            words.add(node.value)
    file = path.relative_to(SOURCE).as_posix()
    folders = [f"{folder.as_posix()}/" for folder in path.relative_to(SOURCE).parents]
    allowed = set().union(*[NAMES_A_LIBRARY.get(name, set()) for name in (file, *folders)])
    assert {word for word in words if isinstance(word, str)} & {"torch", "cupy", "jax"} <= allowed


@every_module
def test_nothing_is_printed(path):
    calls = [ast.unparse(node.func) for node in nodes_of(path) if isinstance(node, ast.Call)]
    banned = {"print", "warnings.warn", "breakpoint", "exec", "eval"}
    if path.stem in ("post_import_hook", "hints"):  # nobody to raise it to; old names
        banned.remove("warnings.warn")
    assert not banned & set(calls)
    assert path.stem == "__main__" or not any(call.startswith("sys.std") for call in calls)


@every_module
def test_no_path_of_a_machine(path):
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"[\"'\s(](/(home|work|tmp|usr|root|Users|mnt)/|[A-Z]:\\)", text)


def test_the_paths_above_would_be_found():
    pattern = r"[\"'\s(](/(home|work|tmp|usr|root|Users|mnt)/|[A-Z]:\\)"
    assert re.search(pattern, 'x = "/' + 'home/someone"')
    assert not re.search(pattern, "a/home/b")


@every_module
def test_every_module_and_function_has_words(path):
    """Public functions and classes, and every module."""
    module = tree(path)
    assert ast.get_docstring(module), path.stem
    for node in module.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith("_"):
            private = any("overload" in ast.unparse(d) for d in node.decorator_list)
            assert private or ast.get_docstring(node), f"{path.stem}.{node.name} says nothing"


NO_BEGINNING = r"(What|The same|Of|As|It|How|Where|Those|These|So|Whether|Do what)\b|[^.:]*\?"
"""Words with which no docstring begins, and questions: it begins with a verb, or with the noun that it explains."""


def test_docstrings_begin_with_a_verb_or_a_noun():
    found = []
    for path in MODULES:
        for node in nodes_of(path):
            if isinstance(node, (ast.Module, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                text = ast.get_docstring(node) or ""
                if re.match(NO_BEGINNING, text):
                    found.append((dotted(path), getattr(node, "name", ""), text.partition("\n")[0]))
    assert not found


def test_what_decodes_is_loaded_when_it_is_asked_for():
    code = """
import sys, seqformats
assert not any(name.startswith("seqformats.beam") for name in sys.modules)
assert "beam_search" in dir(seqformats)
assert seqformats.beam_search is seqformats.beam.beam_search
assert not hasattr(seqformats, "beam_serch")
from seqformats import *
assert Trie is seqformats.Trie
"""
    subprocess.run([sys.executable, "-c", code], check=True)


@every_name
def test_every_public_name_is_described(name):
    thing = getattr(sf, name)
    text = inspect.getdoc(thing) or ""
    assert len(text) > 20, f"{name} says nothing"
    if not (inspect.isclass(thing) and issubclass(thing, Exception)):
        assert ">>>" in text, f"{name} has no example"


@every_name
def test_public_arguments_are_typed(name):
    thing = getattr(sf, name)
    if inspect.isfunction(thing):
        signature = inspect.signature(thing)
        assert signature.return_annotation is not inspect.Signature.empty
        for parameter in signature.parameters.values():
            assert parameter.annotation is not inspect.Parameter.empty, f"{name}({parameter.name})"


def test_error_kinds_live_in_one_file():
    for path in MODULES:
        for node in nodes_of(path):
            if isinstance(node, ast.ClassDef) and any(
                re.search(r"Error$|Exception$", ast.unparse(b)) for b in node.bases
            ):
                assert path.stem == "errors", f"{path.stem}.{node.name}"


def test_numba_options_live_in_one_file():
    for path in KERNELS:
        assert not re.search(r"\b(njit|jit|prange|fastmath|parallel|cuda\.jit)\b", code_of(path)), path.stem


def code_of(path):
    """The source without docstrings and comments."""
    module = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(module):
        if isinstance(node, (ast.Module, ast.FunctionDef, ast.ClassDef)) and ast.get_docstring(node):
            node.body = node.body[1:] or [ast.Pass()]
    return ast.unparse(module)


def test_typed():
    assert (SOURCE / "py.typed").exists()


# --- how long, how wide, how plain -----------------------------------------------------------------------------------

SILENCED = re.compile(r"# (?:noqa|type: ignore)")
ENCODINGS = {"List", "Ragged", "Padded", "Packed", "Masked", "LoD"}


def functions():
    """Every function with the module it is in."""
    for path in MODULES:
        for node in nodes_of(path):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                yield dotted(path), node


def positional(function):
    arguments = [*function.args.posonlyargs, *function.args.args]
    return [argument for argument in arguments if argument.arg not in ("self", "cls")]


def test_no_file_is_long():
    long = {dotted(path): len(path.read_text(encoding="utf-8").splitlines()) for path in MODULES}
    assert {name: lines for name, lines in long.items() if lines > LINES} == {}


def test_functions_take_few_arguments_by_place():
    taken = [(module, f.name, len(positional(f))) for module, f in functions()]
    long = [found for found in taken if found[2] > PARAMETERS]
    assert [found for found in long if not in_kernels(found[0])] == []
    in_them = [found for found in long if in_kernels(found[0])]
    assert len(in_them) <= LONG_KERNELS, in_them


def type_tests(module):
    """Where it is asked which encoding something is, instead of asking the encoding."""
    for node in ast.walk(module):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("isinstance", "issubclass"):
            compared = node.args[1:]
        elif isinstance(node, ast.Compare) and ast.unparse(node.left).startswith("type("):
            compared = node.comparators
        else:
            continue
        if ENCODINGS & {name.id for part in compared for name in ast.walk(part) if isinstance(name, ast.Name)}:
            yield ast.unparse(node)


def test_encodings_are_asked_instead_of_told_apart():
    found = [(dotted(path), test) for path in MODULES for test in type_tests(tree(path))]
    # bridges lead from one encoding to what another library calls it
    found = [(name, test) for name, test in found if name.partition(".")[0] not in ("formats", *BRIDGES)]
    assert len(found) <= TYPE_TESTS, found


def test_few_findings_of_linters_are_silenced():
    """A comment that silences a linter or type checker is for what these cannot know."""
    found = {dotted(path): len(SILENCED.findall(path.read_text(encoding="utf-8"))) for path in MODULES}
    assert sum(found.values()) <= 55, {name: count for name, count in found.items() if count}


def test_type_tests_would_be_found():
    text = "isinstance(x, List)\nisinstance(x, (tuple, LoD))\ntype(x) in (Padded, Packed)\nkind is LoD\nList(x)"
    assert len(list(type_tests(ast.parse(text)))) == 3


def test_annotations_say_something():
    """`Any` is for what can be anything and is used as that."""
    said = [
        ast.unparse(argument.annotation)
        for _, f in functions()
        for argument in [*f.args.posonlyargs, *f.args.args, *f.args.kwonlyargs]
        if argument.annotation is not None
    ]
    assert said.count("Any") < ANY * len(said)
    assert len([text for text in said if re.search(r"\bAny\b", text)]) < 2 * ANY * len(said)
