"""Tests are left out of the passes that they are not for."""

import pytest
from conftest import PASS, PASSES, passes_of


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.passes(name, reason="it")) for name in PASSES])
def test_each_runs_in_its_own(name):
    assert name == PASS


@pytest.mark.passes("interpreted", "guarded", reason="it")
class TestAllOfThese:
    def test_here(self):
        assert PASS != "compiled"

    @pytest.mark.passes("compiled", reason="the nearest marker decides")
    def test_there(self):
        assert PASS == "compiled"


@pytest.mark.parametrize(
    "mark",
    [
        pytest.mark.passes(reason="no pass"),
        pytest.mark.passes("compiled"),
        pytest.mark.passes("compiled", "interpreted", "guarded", reason="all of them"),
        pytest.mark.passes("jit", reason="no such pass"),
    ],
)
def test_what_a_marker_must_say(mark):
    with pytest.raises(pytest.UsageError, match="compiled.*interpreted.*guarded.*reason"):
        passes_of(mark.mark)
