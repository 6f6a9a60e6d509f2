"""Eight threads that call at once on tiny batches: nobody gives the interpreter away, to wait for it again.

That costs many times what the call does, and only while another core is free, so no clock tells it reliably.  Switches
are counted instead: those that a thread asks for, because it waits.
"""

import pathlib
import time

import pytest

ROOT = pathlib.Path(__file__).parents[2]
LIMIT = 0.02  # switches a call
ATTEMPTS = 4

pytestmark = [
    pytest.mark.passes("compiled", reason="kernels run as Python let no other thread run, and checks say no more"),
    pytest.mark.skipif(not (ROOT / "benchmarks").is_dir(), reason="what counts them comes with the source alone"),
]
resource = pytest.importorskip("resource", reason="this system counts no switches")


@pytest.fixture(scope="module")
def calls():
    from benchmarks import counts

    return counts.calls()


def worst(call):
    """Switches a call in the worst of some trials; the least of some attempts, since whatever else runs adds to it."""
    from benchmarks import counts

    least = 1e9
    for _ in range(ATTEMPTS):
        least = min(least, max(counts.switches(call, trials=4)))
        if least <= LIMIT:
            break
    return least


def test_switches_are_counted():
    """A call that lets go of the interpreter and waits is seen, one that keeps it is not."""
    assert worst(lambda: time.sleep(1e-6)) > 0.5
    assert worst(lambda: len("")) <= LIMIT


@pytest.mark.parametrize(
    "name",
    [
        "list -> ragged",
        "list -> padded",
        "ragged -> masked",
        "reduce_sum",
        "reduce_first",
        "expand_as",
        "softmax",
        "select by index",
        "Ragged(data, lengths)",
        "with_ragged on Ragged",
    ],
)
def test_tiny_calls_keep_the_interpreter(calls, name):
    assert worst(calls[name]) <= LIMIT
