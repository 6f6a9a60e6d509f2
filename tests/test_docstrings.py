"""The examples in docstrings do what they say."""

import doctest
import sys

import pytest

import seqformats as sf
from seqformats.formats import Encoding
from seqformats.formats.moving import Movable
from seqformats.formats.tensors import InPyTorch

# These examples need libraries that only the environment of the bridges has.
NEEDS = {
    "from_arrow": "pyarrow",
    "from_awkward": "awkward",
    "from_njt": "torch",
    "from_table": "pyarrow",
    "to_arrow": "pyarrow",
    "to_awkward": "awkward",
}
NAMES = sorted(set(sf.__all__) - {"__version__"})
FINDER = doctest.DocTestFinder()
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def examples_of(thing, name):
    """Of a function, or of a class and its methods."""
    # the module of an encoding is where users find it, that of its methods where they are written
    return [test for test in FINDER.find(thing, name, module=False, globs={}) if test.examples]


def check(thing, name):
    found = examples_of(thing, name)
    runner = doctest.DocTestRunner(verbose=False, optionflags=FLAGS)
    said = []
    for test in found:
        runner.run(test, out=said.append)
    assert not runner.failures, "".join(said)
    return len(found)


@pytest.mark.passes("compiled", "guarded", reason="the same values in every pass")
@pytest.mark.parametrize("name", [name for name in NAMES if name not in NEEDS])
def test_public_names(name, tables):
    thing = getattr(sf, name)
    assert check(thing, name) or issubclass(thing, Exception)


@pytest.mark.passes("compiled", reason="the same values in every pass")
@pytest.mark.parametrize("thing", [Encoding, Movable, InPyTorch])
def test_what_encodings_inherit(thing, tables):
    assert check(thing, thing.__name__)


@pytest.mark.parametrize("name", ["WordModel", "TokenModel", "build_ctcdecoder"])
def test_models_of_ctc(name):
    assert check(getattr(sf.ctc, name), name)


@pytest.mark.bridges
@pytest.mark.parametrize("name", sorted(NEEDS))
def test_public_names_of_bridges(name, tables):
    pytest.importorskip(NEEDS[name])
    assert check(getattr(sf, name), name)


@pytest.mark.bridges
@pytest.mark.parametrize("name", ["hf", "torch", "engines"])
def test_modules_of_bridges(name, tables):
    module = getattr(sf, name)
    assert module.__all__
    for key in module.__all__:
        assert check(getattr(module, key), f"{name}.{key}"), key


def test_a_wrong_example_would_be_seen():
    def wrong():
        """Two.

        >>> 1 + 2
        2
        """

    assert wrong.__module__ in sys.modules
    with pytest.raises(AssertionError, match=r"Expected:\s+2\s+Got:\s+3"):
        check(wrong, "wrong")
