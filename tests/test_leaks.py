"""The count of what calls leave behind finds each kind of loss."""

import ctypes

import leaks
import pytest

pytestmark = pytest.mark.passes("compiled", reason="it is about Python and the system")
THING, LOST = object(), []
LOSSES = {"a reference": lambda: LOST.append(THING), "an object": lambda: LOST.append(float(len(LOST)))}
if leaks.is_told:
    MALLOC = ctypes.CDLL(None).malloc
    LOSSES["memory of the system"] = lambda: MALLOC(16)


def test_a_call_that_loses_nothing():
    leaks.assert_nothing_is_left(lambda: [THING], [THING])


@pytest.mark.parametrize("call", LOSSES.values(), ids=LOSSES)
def test_what_is_lost_is_found(call):
    with pytest.raises(AssertionError):
        leaks.assert_nothing_is_left(call, [THING])
