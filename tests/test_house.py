"""The laws of the house: who imports whom, where Numba is, what every public name and kernel has."""

import ast
import inspect
import pathlib
import re

import pytest

import seqformats as sf

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
    "steps",
    "attention",
    "batch",
    "expand",
    "sequence",
    "reduce",
    "select",
    "nested",
]
ORDER += [
    "grad",
    "_rows",
    "convert",
    "_flow",
    "_cuda",
    "_launch",
    "formats",
    "lists",
    "tensors",
    "structure",
    "arrays",
    "registry",
    "_threads",
    "hints",
    "limits",
    "errors",
]
NUMBA = {"_cuda", "_kernel", "kernels"}  # what loads Numba

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
        if other in NUMBA:
            assert path.stem in NUMBA, f"{path.stem} imports {other}, and with it Numba"
        else:
            assert ORDER.index(other) > ORDER.index(path.stem), f"{path.stem} imports {other}"


def test_no_import_cycle():
    """Whatever the layers say."""
    graph = {
        path.stem: {n.lstrip(".").partition(".")[0] for n in imports(path) if n.startswith(".")} for path in MODULES
    }
    done, path = set(), []

    def visit(name):
        assert name not in path, " -> ".join([*path, name])
        if name in done or name not in graph:
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
        known = ("typing", "..", "math", "numpy", "..arrays", "..layout", "..beam.rows")
        assert name in known or name.startswith((".._kernel", ".._cuda")), name


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
    text = (SOURCE / "kernels" / "__init__.py").read_text(encoding="utf-8")
    for path in KERNELS:
        assert f"`{path.stem}`" in text, path.stem


@every_module
def test_numba_is_loaded_in_its_places_alone(path):
    if path.stem == "_cuda" or path.parent.name in ("_kernel", "kernels"):
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
