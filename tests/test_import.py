"""What `import seqformats` loads, and that everything else comes when its name is first asked for."""

import os
import pathlib
import re
import subprocess
import sys
import textwrap

import pytest
import table_of_names

import seqformats as sf
from seqformats import names, registry

pytestmark = pytest.mark.passes("compiled", reason="what is imported is the same in every pass")

SOURCE = pathlib.Path(sf.__file__).parent

MODULES = 56  # of this package, after the import, and after a first conversion too, with kernels from a wheel
# Those of them that are in a package are in one of these.
PACKAGES = {"arrays", "converters", "core", "formats", "launch", "native", "reading"}
# Of the standard library, which NumPy does without, and which take long.
COSTLY = {"asyncio", "ctypes.util", "difflib", "hashlib", "json", "logging", "pkgutil", "subprocess", "sysconfig"}
OTHERS = {"awkward", "jax", "llvmlite", "numba", "pandas", "pyarrow", "scipy", "thinc", "torch"}
# Services of modules that are loaded once a library is there.
ONCE_THERE = {"lengths_tensor", "numba_type"}

FORK = pytest.mark.skipif(not hasattr(os, "fork"), reason="each name has a process of its own, which is forked")


def python(script):
    """What a fresh process prints, in words."""
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_what_the_import_loads():
    script = """
        import sys
        import numpy
        before = set(sys.modules)
        import seqformats as sf
        sf.Ragged, sf.convert
        print(*sorted(set(sys.modules) - before))
        """
    found = python(script)
    own = [name.split(".") for name in found if name.partition(".")[0] == "seqformats"]
    assert {parts[1] for parts in own if len(parts) > 2} <= PACKAGES
    assert len(own) <= MODULES, own
    assert not COSTLY.intersection(found)
    assert not OTHERS.intersection(found)


@pytest.mark.parametrize("given", ["[np.zeros((2, 3))] * 3", "[[1, 2], [3]]"], ids=["arrays", "numbers"])
def test_what_the_first_conversion_loads(given):
    """What has been compiled before, without Numba, and little else of this package."""
    script = f"""
        import sys
        import numpy as np
        bare = set(sys.modules)
        import seqformats as sf
        before = set(sys.modules)
        sf.convert({given}, sf.Ragged)
        print(len([name for name in set(sys.modules) - bare if name.startswith("seqformats")]))
        print(*{OTHERS} & set(sys.modules))
        print(*sorted(name for name in set(sys.modules) - before if name.startswith("seqformats.")))
        """
    python(script)  # which may compile
    count, *found = python(script)
    loaded = {name.split(".")[1] for name in found if name.startswith("seqformats.")}
    assert loaded <= {"arrays", "core", "kernels", "launch", "native", "numba_types"}
    assert int(count) <= MODULES, found
    assert not OTHERS.intersection(found)


def places():
    """Of each public name that is loaded later the module that the stub names to type checkers."""
    later = {module: found for module, found in names.PUBLIC_NAMES.items() if module not in names.EAGER_MODULES}
    return {name: module for module, found in later.items() for name in found.split()}


@FORK
def test_each_name_alone():
    """In a process where nothing else has been asked for, as by its module, and found at once from then on."""
    script = f"""
        import importlib
        import os
        import sys
        import traceback
        import seqformats

        places = {places()!r}
        assert not set(places) & set(vars(seqformats)), "loaded by the import"
        for name in seqformats.__all__:
            child = os.fork()
            if not child:
                try:
                    assert name in dir(seqformats)
                    namespace = {{}}
                    exec(f"from seqformats import {{name}}", namespace)
                    found = namespace[name]
                    assert vars(seqformats)[name] is getattr(seqformats, name) is found
                    if name in places:
                        assert getattr(importlib.import_module("." + places[name], "seqformats"), name) is found
                        assert vars(seqformats)[name] is found
                except BaseException:
                    print(name)
                    traceback.print_exc()
                    sys.stderr.flush()
                sys.stdout.flush()
                os._exit(0)
            os.waitpid(child, 0)
        """
    assert python(script) == []


def test_the_table_of_names_is_that_of_the_stub():
    assert (SOURCE / "names.py").read_text(encoding="utf-8") == table_of_names.text(), "run tests/table_of_names.py"
    assert sf.__all__ == sorted(set(sf.__all__))
    assert sorted(dir(sf)) == sorted({*sf.__all__, *names.MODULES, "__version__"})


def test_no_name_is_that_of_a_module():
    """A module would take the place of the name once it is loaded."""
    modules = {path.stem for path in SOURCE.iterdir()}
    assert not modules & set(sf.__all__)
    assert not [name for name in names.MODULES if name not in modules]


def test_modules_are_imported_by_their_names():
    script = """
        import seqformats.operations.reduce
        import seqformats.wrap
        from seqformats.operations.filter import filter
        from seqformats.gradients.operation import operation
        assert seqformats.filter is filter
        assert callable(seqformats.reduce) and callable(seqformats.operation) and callable(seqformats.convert)
        assert seqformats.with_padded is seqformats.wrap.with_padded
        assert seqformats.operation is not operation
        """
    assert python(script) == []


def test_no_import_runs_a_kernel(tmp_path):
    """Nor compiles one: the folder for what is compiled stays empty."""
    script = f"""
        import os
        os.environ["SEQFORMATS_CACHE_DIR"] = {str(tmp_path)!r}
        import seqformats as sf
        for name in sf.__all__:
            getattr(sf, name)
        """
    assert python(script) == []
    assert list(tmp_path.iterdir()) == []


def test_names_are_asked_for_by_many_threads():
    script = """
        import threading
        import seqformats as sf

        found = [None] * 8
        start = threading.Barrier(8)

        def work(i):
            names = sf.__all__[i * 11 :] + sf.__all__[: i * 11]
            start.wait()
            found[i] = {name: getattr(sf, name) for name in names}

        threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for each in found:
            assert each == found[0] and len(each) == len(sf.__all__)
        """
    assert python(script) == []


def test_the_table_of_gradients_is_whole():
    script = """
        import seqformats as sf
        from seqformats import registry

        table = registry.gradients()
        for name in sf.__all__:
            getattr(sf, name)
        assert table.keys() == registry._gradients.keys()
        assert {sf.convert, sf.convert_like, sf.reduce_max, sf.concat, sf.attention, sf.select} < table.keys()
        """
    assert python(script) == []


def test_an_error_knows_all_operations():
    script = """
        import seqformats as sf

        def softmaxx(x):
            return x

        try:
            sf.vjp(softmaxx, [[1.0]])
        except TypeError as error:
            print(error)
        """
    assert "sf.softmax;" in python(script)


def test_the_table_of_conversions_is_whole():
    script = """
        import seqformats as sf

        table = sf.conversions()
        for name in sf.__all__:
            getattr(sf, name)
        assert table == sf.conversions()
        assert (list, sf.LoD) in table and (sf.LoD, list) in table
        """
    assert python(script) == []


def test_services_are_there_when_they_are_asked_for():
    text = "".join(path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py"))
    asked = set(re.findall(r"\.service\(\"(\w+)\"", text)) - ONCE_THERE
    assert asked >= {"converters", "select"}
    assert len(asked | ONCE_THERE) <= 8
    script = f"""
        import seqformats
        from seqformats import registry

        for name in {sorted(asked | registry._MODULES.keys())}:
            assert registry.service(name), name
        """
    assert python(script) == []


# Every library that is not required, hidden where it is installed.
HIDDEN = """
    import sys

    class Hidden:
        def find_spec(self, name, path=None, target=None):
            if name.partition(".")[0] in {hidden!r}:
                raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

    sys.meta_path.insert(0, Hidden())
    """
OPTIONAL = ["awkward", "cupy", "datasets", "jax", "matplotlib", "pyarrow", "spacy", "thinc", "torch", "transformers"]


@pytest.mark.parametrize("hidden", [OPTIONAL, []], ids=["no other library", "what is installed"])
def test_tools_that_ask_for_every_attribute(hidden):
    """`help`, `inspect`, `copy` and completion meet no error but an AttributeError, which says what to install."""
    script = textwrap.dedent(HIDDEN).format(hidden=hidden) + textwrap.dedent("""
        import doctest, inspect, pydoc, rlcompleter, unittest.mock
        import seqformats as sf

        modules = [sf, *[getattr(sf, name) for name in sf._MODULES if hasattr(sf, name)]]
        for module in modules:
            pydoc.render_doc(module)
            inspect.getmembers(module)
            unittest.mock.create_autospec(module)
            doctest.DocTestFinder().find(module)
            for name in {*dir(module), *getattr(module, "__all__", ()), "no_such_name"}:
                try:
                    getattr(module, name)
                except AttributeError as error:
                    assert name == "no_such_name" or "pip install" in str(error), error
                    assert error.name == name
        completer = rlcompleter.Completer({"sf": sf})
        assert completer.complete("sf.", 0) and completer.complete("sf.", 150)
        assert not hasattr(sf, "no_such_name")
        present = {name: hasattr(sf, name) for name in sf._MODULES}
        print(*[name for name in present if not present[name]])
        """)
    absent = python(script)
    assert absent == ["jax"] if hidden else absent in ([], ["jax"])


def test_the_error_of_what_needs_a_library():
    """Attributes say what to install; so does the import, in the class that an import has."""
    script = textwrap.dedent(HIDDEN).format(hidden=OPTIONAL) + textwrap.dedent("""
        import seqformats as sf

        for name, extra in (("jax", "jax"), ("thinc.use", "thinc"), ("thinc.with_array", "thinc")):
            module, _, rest = name.partition(".")
            try:
                getattr(getattr(sf, module), rest or "register")
            except AttributeError as error:
                assert f"pip install 'seqformats[{extra}]'" in str(error), error
                assert isinstance(error.__cause__, ModuleNotFoundError)
            else:
                raise AssertionError(name)
            try:
                exec(f"from seqformats.{module} import {rest or 'register'}")
            except ImportError as error:
                assert extra in str(error)
            else:
                raise AssertionError(name)
        """)
    assert python(script) == []
