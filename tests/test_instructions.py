"""How many instructions calls on tiny batches take, which no load of the machine changes.

Valgrind counts them: the same from run to run but for some tenths of a per cent.  The ceilings are what was counted
and a tenth.  A call that needs more is a change to be explained; where one needs less, its ceiling should be lowered.
"""

import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[1]

pytestmark = [
    pytest.mark.passes("compiled", reason="it counts compiled kernels, in processes of its own"),
    pytest.mark.skipif(not (ROOT / "benchmarks").is_dir(), reason="what counts them comes with the source alone"),
    pytest.mark.skipif(
        sys.implementation.name != "cpython" or sys.version_info[:2] != (3, 11),
        reason="the ceilings are for CPython 3.11: another release takes other instructions",
    ),
]

# Counted with CPython 3.11.7, NumPy 2.4.6, Numba 0.68.1.
CEILINGS = {
    "list -> ragged": 16_350,
    "list -> padded": 46_200,
    "ragged -> masked": 38_600,
    "reduce_sum": 11_750,
    "reduce_first": 6_150,
    "expand_as": 13_900,
    "softmax": 86_600,
    "select by index": 10_900,
    "Ragged(data, lengths)": 10_550,
    "with_ragged on Ragged": 12_100,
}


def test_instructions_of_tiny_calls():
    from benchmarks import counts

    if counts.why_none():
        pytest.skip(counts.why_none())
    found = counts.instructions()
    assert found.keys() == CEILINGS.keys()
    over = {name: f"{taken:,} of {CEILINGS[name]:,}" for name, taken in found.items() if taken > CEILINGS[name]}
    assert not over, f"these take more instructions than they may: {over}; all: {found}"
    assert min(found.values()) > 100, f"a call of Python takes more than that: {found}"
