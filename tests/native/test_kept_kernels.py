"""Functions of `sf.kernel` are compiled once: other processes find the code, unless anything that is in it changes."""

import os
import subprocess
import sys
import textwrap
import uuid

import pytest

import seqformats as sf

pytestmark = pytest.mark.passes("compiled", reason="nothing is compiled in the others")

BODY = """
import numpy as np
from numba import njit
import helpers
from helpers import doubled
from seqformats.kernels import along, locate
UNIQUE = {unique}
{before}
def make({closed}):
    def kernel{number}(x, out, at, width, lo, hi{default}):
        for u in range(lo, hi):
            i, first, length = locate(at, u)
            for k in range(width):
                total = UNIQUE * 0.0
                for t in range(length):
                    total += x[(first + along(at, t)) * width + k]
                out[i * width + k] = {result}
    return kernel{number}
kernel = make({value})
"""
HELPERS = """
from numba import njit
FACTOR = {factor}
@njit
def doubled(x):
    return {doubled} * x
@njit(error_model="numpy")
def by_factor(x):
    return FACTOR * x
@njit
def through(x):
    return by_factor(x) + 1
"""
PLAIN = {"before": "", "closed": "", "default": "", "value": "", "result": "total"}

# What is in the code -> in the file at first and afterwards, or in the file of helpers; and the sums of [1] and [2, 3].
CASES = {
    "the source": ({"result": "total + 1"}, {"result": "total + 2"}, [2, 6], [3, 7]),
    "a value closed over": ({"closed": "s", "value": "2.0", "result": "total * s"}, {"value": "3.0"}, [2, 10], [3, 15]),
    "an array closed over": (
        {"closed": "s", "value": "np.array([1.0, 2.0])", "result": "total * s[1]"},
        {"value": "np.array([1.0, 4.0])"},
        [2, 10],
        [4, 20],
    ),
    "a number": ({"before": "S = 2", "result": "total * S"}, {"before": "S = 3"}, [2, 10], [3, 15]),
    "a tuple": ({"before": "S = (1, 2.0)", "result": "total * S[1]"}, {"before": "S = (1, 3.0)"}, [2, 10], [3, 15]),
    "an array": (
        {"before": "S = np.array([2.0])", "result": "total * S[0]"},
        {"before": "S = np.array([3.0])"},
        [2, 10],
        [3, 15],
    ),
    "a default": ({"default": ", s=2.0", "result": "total * s"}, {"default": ", s=3.0"}, [2, 10], [3, 15]),
    "a function": (
        {"before": "@njit\ndef f(x):\n    return x + 1", "result": "f(total)"},
        {"before": "@njit\ndef f(x):\n    return x + 2"},
        [2, 6],
        [3, 7],
    ),
    "a function closed over": (
        {"closed": "f", "value": "njit(lambda x: x + 1)", "result": "f(total)"},
        {"value": "njit(lambda x: x + 2)"},
        [2, 6],
        [3, 7],
    ),
    "a function of another file": ({"result": "doubled(total)"}, {}, [2, 10], [4, 20]),
    "a function of a module": ({"result": "helpers.doubled(total)"}, {}, [2, 10], [4, 20]),
    "a number of a module": ({"result": "helpers.FACTOR * total"}, {}, [2, 10], [3, 15]),
    "what a function of a function names": ({"result": "helpers.through(total)"}, {}, [3, 11], [4, 16]),
}

# What cannot be known: an overload, which Numba has in a table of its own.
UNKNOWN = {
    "before": "from numba.extending import overload\ndef f(x): pass\n"
    "@overload(f)\ndef _(x):\n    return lambda x: x + {added}",
    "result": "f(total)",
}

RUN = """
import importlib, sys
import numpy as np
from numba.core import event
import seqformats as sf

seen = event.RecordingListener()
event.register("numba:compile", seen)
batch = sf.Ragged(np.array([1.0, 2.0, 3.0]), [1, 2])
for number in range(int(sys.argv[1])):
    total = sf.kernel(importlib.import_module(f"case{number}").kernel, gives="rows")
    for kind in (sf.Ragged, sf.Padded, sf.Masked):
        found = total(sf.convert(batch, kind))
    began = [about.data["dispatcher"].__name__ for _, about in seen.buffer if about.is_start]
    print(f"kernel{number}" in began, *found.tolist())
"""


@pytest.fixture
def run(tmp_path):
    """Write the cases as they are at first or afterwards, and run all of them in a process of their own."""
    unique = uuid.uuid4().int % 10**9  # in each function, so that nobody has compiled it before

    def run(changed, moved=""):
        values = {"factor": 3.0 if changed else 2.0, "doubled": 4.0 if changed else 2.0}
        (tmp_path / "helpers.py").write_text(moved + HELPERS.format(**values))
        added = 2 if changed else 1
        cases = [before | after if changed else before for before, after, *_ in CASES.values()]
        cases.append({name: text.replace("{added}", str(added)) for name, text in UNKNOWN.items()})
        for number, words in enumerate(cases):
            text = BODY.format(number=number, unique=unique, **(PLAIN | words))
            (tmp_path / f"case{number}.py").write_text(moved + text)
        command = [sys.executable, "-c", textwrap.dedent(RUN), str(len(cases))]
        env = os.environ | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
        env |= {"PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
        assert done.returncode == 0, done.stderr
        lines = [line.split() for line in done.stdout.splitlines()]
        *known, unknown = [(line[0] == "True", [float(word) for word in line[1:]]) for line in lines]
        assert unknown == (True, [1.0 + added, 5.0 + added])
        return dict(zip(CASES, known, strict=True))

    return run


def test_code_is_kept_until_something_in_it_changes(run):
    first = {name: right for name, (_, _, right, _) in CASES.items()}
    then = {name: right for name, (_, _, _, right) in CASES.items()}
    assert run(False) == {name: (True, right) for name, right in first.items()}
    assert run(False, moved="# lines that\n# nothing depends on\n") == {k: (False, right) for k, right in first.items()}
    assert run(True) == {name: (True, right) for name, right in then.items()}
    assert run(True) == {name: (False, right) for name, right in then.items()}
    assert run(False) == {name: (False, right) for name, right in first.items()}


def test_functions_that_differ_in_what_they_close_over_stay_apart():
    """Machine code has the names of functions, of which one process may find several that others have made."""
    script = """
    import sys
    import numpy as np
    import seqformats as sf
    from seqformats.kernels import along, locate

    def make(scale, unique):
        def times(x, out, at, width, lo, hi):
            for u in range(lo, hi):
                i, first, length = locate(at, u)
                for p in range(first * width, (first + length) * width):
                    out[p] = scale * x[p] + 0 * unique
        return times

    batch = sf.Ragged(np.array([1.0, 2.0]), [2])
    for scale in sys.argv[2:]:
        print(sf.kernel(make(float(scale), int(sys.argv[1])))(batch).data.tolist()[1])
    """
    unique = str(uuid.uuid4().int % 10**9)
    for scales in (["1", "2"], ["2", "3"], ["3", "1", "2", "4"]):
        command = [sys.executable, "-c", textwrap.dedent(script), unique, *scales]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert [float(line) for line in done.stdout.split()] == [2 * float(scale) for scale in scales]


def test_what_cannot_be_kept_runs_all_the_same():
    """A function that names an object of which nothing is known has no digest."""
    from seqformats.native.dependencies import digest_of

    thing = object()

    def of_thing():
        return thing

    def of_itself(n):
        return of_itself(n - 1)

    assert digest_of(of_thing) == ""
    assert digest_of(lambda x: sf.convert(x)) != digest_of(lambda x: x)
    assert digest_of(of_itself) == digest_of(of_itself) != ""


# A text whose machine code is another with the one word or with the other, which are in nothing but what it names.
PAIRS = {
    "fields of a named tuple": (
        "from collections import namedtuple\nT = namedtuple('T', '{}')\nt = T(1, 2)\ndef f(): return t.a",
        ("a b", "b a"),
    ),
    "fields of an array": (
        "import numpy as np\nt = np.array([(1, 2)], [(name, 'i8') for name in '{}'])\ndef f(): return t[0].a",
        ("ab", "ba"),
    ),
    "fields of a scalar": (
        "import numpy as np\nt = np.array([(1, 2)], [(name, 'i8') for name in '{}'])[0]\ndef f(): return t.a",
        ("ab", "ba"),
    ),
    "another name of a member": (
        "from enum import Enum\nE = Enum('E', [('A', 1), ('B', 2), ('C', {})])\ndef f(): return E.C.value",
        ("1", "2"),
    ),
    "where an error is caught": (
        "def f(g, h):\n try:\n  g()\n{}",
        (
            "  h()\n  return 0\n except ValueError:\n  return 1",
            " except ValueError:\n  return 1\n else:\n  h()\n  return 0",
        ),
    ),
}


def digest_of_text(text):
    from seqformats.native.dependencies import digest_of

    made = {"__name__": "made"}
    exec(text, made)
    return digest_of(made["f"])


@pytest.mark.parametrize("name", PAIRS)
def test_digests_tell_apart(name):
    text, words = PAIRS[name]
    first, again, other = (digest_of_text(text.format(word)) for word in (words[0], *words))
    assert first == again != other
    assert other


def test_no_digest_where_names_are_asked_for():
    assert digest_of_text("import string\ndef f(): return string.digits")
    assert not digest_of_text("import string\ndef f(): return getattr(string, 'digits')")
