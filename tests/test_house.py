"""The laws of the house: who imports whom, where Numba is, what every public name and kernel has."""

import ast
import inspect
import pathlib
import re

import pytest

import seqformats as sf
from seqformats.launch.kernel import kernel

pytestmark = pytest.mark.passes("compiled", reason="the sources are the same in every pass")

SOURCE = pathlib.Path(sf.__file__).parent
MODULES = sorted(SOURCE.rglob("*.py"))
KERNELS = sorted(path for path in (SOURCE / "kernels").glob("*.py") if path.stem != "__init__")
PUBLIC = sorted(name for name in vars(sf) if not name.startswith("_") and not inspect.ismodule(getattr(sf, name)))

# Each module imports only what stands after it.
ORDER = [
    "__main__",
    "__init__",
    "wrap",
    "beam",
    "operations",
    "gradients",
    "conversion",
    "formats",
    "reading",
    "launch",
    "arrays",
    "registry",
    "hints",
    "limits",
    "errors",
    "layout",
]
NUMBA = {"kernels"}  # what loads Numba; so does launch/cuda.py

every_module = pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
every_kernel = pytest.mark.parametrize("path", KERNELS, ids=lambda path: path.stem)
every_name = pytest.mark.parametrize("name", PUBLIC)


def tree(path):
    return ast.parse(path.read_text(encoding="utf-8"))


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
    nodes = ast.walk(tree(path)) if everywhere else tree(path).body
    return [name for node in nodes for name in imported(node)]


@pytest.mark.parametrize("path", [path for path in MODULES if path.parent == SOURCE], ids=lambda path: path.stem)
def test_imports_point_one_way(path):
    """At the top of a module; what loads Numba is imported where it is used."""
    for name in imports(path):
        other = name.lstrip(".").partition(".")[0]
        if not name.startswith(".") or (not other and path.stem == "__main__"):
            continue
        if other in NUMBA or ".cuda" in name:
            assert path.stem in NUMBA, f"{path.stem} imports {other}, and with it Numba"
        else:
            assert ORDER.index(other) > ORDER.index(path.stem), f"{path.stem} imports {other}"


def dotted(path):
    """The name of a module below this package; "" is the package itself."""
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


def modules_imported(path):
    """The modules of this package that a module imports at its top; not the packages that it is in."""
    own = path.relative_to(SOURCE).parts[:-1]
    names = {dotted(path) for path in MODULES}
    found = set()
    for node in tree(path).body:
        if isinstance(node, ast.ImportFrom) and node.level:
            base = [*own[: len(own) - node.level + 1], *filter(None, [node.module])]
            inner = {".".join([*base, alias.name]) for alias in node.names}
            found |= inner & names or {".".join(base)}
    return {name for name in found if not f"{dotted(path)}.".startswith(f"{name}.") and name}


def test_no_import_cycle():
    """Whatever the layers say."""
    graph = {dotted(path): modules_imported(path) for path in MODULES}
    done, path = set(), []

    def visit(name):
        assert name not in path, " -> ".join([*path, name])
        if name in done:
            return
        path.append(name)
        for other in sorted(graph[name]):
            visit(other)
        path.pop()
        done.add(name)

    for name in graph:
        visit(name)


@every_kernel
def test_kernels_import_the_house_options_alone(path):
    """Numba's cache does not see an edit in another file, so a kernel never takes code from one."""
    for name in imports(path, everywhere=True):
        assert name in ("typing", "math", "numpy", "..beam.rows") or name.startswith(".parts"), name


def test_what_decoding_kernels_take_imports_nothing():
    """They import it, and know it by names alone."""
    assert imports(SOURCE / "beam" / "rows.py") == ["__future__", "typing"]


def test_parts_of_kernels_import_nothing_above_them():
    """But where rows lie."""
    for path in (SOURCE / "kernels" / "parts").glob("*.py"):
        for name in imports(path, everywhere=True):
            assert name == "...layout" or not name.startswith(".."), f"{path.stem} imports {name}"


def test_launch_imports_no_kernel():
    """But the launcher of CUDA, which is imported where a kernel is started there."""
    for path in (SOURCE / "launch").glob("*.py"):
        typing = {name for node in ast.walk(tree(path)) if is_for_types(node) for name in imports_of(node)}
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
    for node in ast.walk(tree(path)):
        assert not isinstance(node, (ast.Raise, ast.Assert, ast.Global, ast.Lambda)), ast.unparse(node)
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            assert not re.search(r"\b(np|numpy)\.(empty|zeros|ones|full|arange|array|concatenate)", name), name


def test_every_kernel_is_listed():
    """Under what it says of itself."""
    text = (SOURCE / "kernels" / "__init__.py").read_text(encoding="utf-8")
    parts = re.split(r"\nArithmetic|\nStructure, which", text)
    listed = dict(
        zip(("moves", "calculates", "host"), (set(re.findall(r"`(\w+)`", part)) for part in parts), strict=True)
    )
    for path in KERNELS:
        does = kernel(path.stem).load().does
        assert path.stem in listed[does], f"{path.stem} {does}"
    assert set.union(*listed.values()) == {path.stem for path in KERNELS}


@every_module
def test_numba_is_loaded_in_its_places_alone(path):
    if path.parent.name in ("parts", "kernels"):
        return
    found = [name for name in imports(path, everywhere=True) if re.match(r"(numba|llvmlite|cuda)\b", name)]
    assert not found


@every_module
def test_no_array_library_is_imported(path):
    """Only the caller does that."""
    found = [
        name for name in imports(path, everywhere=True) if re.match(r"(torch|cupy|ml_dtypes|jax|thinc|paddle)\b", name)
    ]
    assert not found


# Where an array library but NumPy may be named: a file of its own, the table of the libraries, what is a fact about
# that library alone, or a table of words.
NAMES_A_LIBRARY = {
    "arrays/torch.py": {"torch"},
    "arrays/cupy.py": {"cupy"},
    "arrays/known.py": {"torch", "cupy"},
    "reading/tensors.py": {"torch"},
    "formats/packed.py": {"torch"},
    "hints.py": {"torch"},
    "__main__.py": {"torch", "cupy"},
}


@every_module
def test_array_libraries_are_named_in_their_files_alone(path):
    """So that adding one is a file in arrays/ and a line in its table."""
    words = set()
    for node in ast.walk(tree(path)):
        if isinstance(node, (ast.Name, ast.Attribute, ast.arg)):
            words.add(getattr(node, "id", None) or getattr(node, "attr", None) or getattr(node, "arg", None))
        elif isinstance(node, ast.Constant):
            words.add(node.value)
    allowed = NAMES_A_LIBRARY.get(path.relative_to(SOURCE).as_posix(), set())
    assert {word for word in words if isinstance(word, str)} & {"torch", "cupy", "jax"} <= allowed


@every_module
def test_nothing_is_printed(path):
    calls = [ast.unparse(node.func) for node in ast.walk(tree(path)) if isinstance(node, ast.Call)]
    assert not {"print", "warnings.warn", "breakpoint", "exec", "eval"} & set(calls)
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


def test_exports():
    """What `__init__` imports without an underscore is the public interface."""
    names = [
        alias.asname or alias.name
        for node in tree(SOURCE / "__init__.py").body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    ]
    public = [name for name in names if not name.startswith("_")]
    assert len(public) == len(set(public))
    assert set(public) == set(PUBLIC)
    if hasattr(sf, "__all__"):
        assert list(sf.__all__) == sorted(sf.__all__)
        assert set(sf.__all__) - {"__version__"} == set(public)


def test_the_front_door_is_a_door():
    """Imports and names, nothing else."""
    for node in tree(SOURCE / "__init__.py").body:
        assert isinstance(node, (ast.Import, ast.ImportFrom, ast.Assign, ast.Expr)), ast.unparse(node)


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
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.ClassDef) and any(
                re.search(r"Error$|Exception$", ast.unparse(b)) for b in node.bases
            ):
                assert path.stem == "errors", f"{path.stem}.{node.name}"


def test_numba_options_live_in_one_file():
    for path in KERNELS:
        assert not re.search(r"\b(njit|jit|prange|fastmath|parallel|cuda\.jit)\b", code_of(path)), path.stem


def code_of(path):
    """The source without docstrings and comments."""
    module = tree(path)
    for node in ast.walk(module):
        if isinstance(node, (ast.Module, ast.FunctionDef, ast.ClassDef)) and ast.get_docstring(node):
            node.body = node.body[1:] or [ast.Pass()]
    return ast.unparse(module)


def test_typed():
    assert (SOURCE / "py.typed").exists()
