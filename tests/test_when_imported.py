"""What waits for a library is told once, after it is there, whatever way it comes in."""

import subprocess
import sys
import textwrap

import pytest

pytestmark = pytest.mark.passes("compiled", reason="no kernel runs")


def python(tmp_path, script):
    """What a fresh process prints, with a module `late` to import, and a module `told` of this package."""
    (tmp_path / "late.py").write_text("ready = True\n")
    start = """
        import sys, types, warnings
        sys.path.insert(0, sys.argv[1])
        from seqformats.post_import_hook import when_imported

        class Told:
            def find_spec(self, name, path=None, target=None):
                from importlib.machinery import ModuleSpec
                return ModuleSpec(name, self) if name.startswith("seqformats.told") else None
            def create_module(self, spec):
                return None
            def exec_module(self, module):
                print("told", sys.modules["late"].ready)
                if module.__name__.endswith("badly"):
                    raise ValueError("no")
        sys.meta_path.append(Told())
        before = list(sys.meta_path)
        """
    source = textwrap.dedent(start) + textwrap.dedent(script)
    done = subprocess.run([sys.executable, "-c", source, str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\n")[:-1]


def test_after_the_import(tmp_path):
    script = """
        when_imported("late", ".told")
        print("waiting")
        import late
        print(type(late.__loader__).__name__, late.__spec__.loader is late.__loader__, sys.meta_path == before)
        import importlib
        importlib.reload(late)
        """
    assert python(tmp_path, script) == ["waiting", "told True", "SourceFileLoader True True"]


def test_at_once_where_it_is_there(tmp_path):
    script = """
        import late
        when_imported("late", ".told")
        print(sys.meta_path == before)
        """
    assert python(tmp_path, script) == ["told True", "True"]


def test_others_are_let_alone(tmp_path):
    script = """
        when_imported("late", ".told")
        import json.tool
        import importlib.util
        print(importlib.util.find_spec("late").origin.endswith("late.py"), "late" in sys.modules)
        try:
            import nowhere_at_all
        except ModuleNotFoundError:
            print("missing")
        """
    assert python(tmp_path, script) == ["True False", "missing"]


def test_an_error_is_a_warning(tmp_path):
    script = """
        when_imported("late", ".told_badly")
        when_imported("late", ".told")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            import late
        print(caught[0].category.__name__, "told of seqformats" in str(caught[0].message), late.ready)
        """
    assert python(tmp_path, script) == ["told True", "told True", "RuntimeWarning True True"]


def test_an_error_at_once_is_a_warning_too(tmp_path):
    script = """
        import late
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            when_imported("late", ".told_badly")
        print(caught[0].category.__name__)
        """
    assert python(tmp_path, script) == ["told True", "RuntimeWarning"]
