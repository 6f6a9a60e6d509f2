"""Private slots that somebody has emptied or filled otherwise: an error of Python, and never the end of the process."""

import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

import seqformats as sf

pytestmark = pytest.mark.passes("compiled", reason="it is about machine code")
WRONG = {
    **{f"no {slot}": f"del s.{slot}" for slot in ("lengths", "offsets", "n", "rows", "longest", "stable")},
    **{f"{slot} is None": f"s.{slot} = None" for slot in ("lengths", "offsets", "n", "rows", "longest")},
    **{
        f"{name} is None": f'object.__setattr__(x, "{name}", None)'
        for name in ("_shape", "_structure", "_dtype", "DATA")
    },
    "_shape is a list": 'object.__setattr__(x, "_shape", [3])',
    "_structure is an array": 'object.__setattr__(x, "_structure", np.zeros(9))',
}
CALLS = """
x = sf.convert(sf.Ragged(np.arange(5.0), [3, 0, 2]), sf.KIND)
calls = {
    "index": lambda x: x[[0, 2]],
    "slice": lambda x: x[1:],
    "repeat": lambda x: sf.repeat(x, 2),
    "sum": sf.reduce_sum,
    "softmax": sf.softmax,
    "expand": lambda x: sf.expand(np.ones(3), x),
    "convert": lambda x: sf.convert(x, sf.Padded),
    "sort": sf.sort,
    "chunk": lambda x: sf.chunk(x, 2, 1),
    "cut": lambda x: sf.truncate(x, 1),
    "filter": lambda x: sf.filter(x, np.ones(5, bool)),
    "concat": lambda x: sf.concat([x, x]),
    "repr": repr,
}
for _ in range(3):
    for call in calls.values():
        call(x)
"""


def tried(kind):
    """Break it in each way, in a child, and make all calls: each is right, or one of Python's errors."""
    known = {"np": np, "sf": sf}
    exec(CALLS.replace("KIND", kind), known)
    for name, wrong in WRONG.items():
        child = os.fork()
        if child:
            status = os.waitpid(child, 0)[1]
            if status:
                print(name, "ends with", status)
            continue
        x = known["x"]
        wrong = wrong.replace("DATA", "items" if kind == "List" else "data")
        exec(wrong, {"x": x, "s": x._structure, "np": np})
        for call in known["calls"].values():
            try:
                call(x)
            except SystemError:
                os._exit(1)
            except Exception:
                continue
            len([1] * 3)  # an error that was left pending would come out here
        os._exit(0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="each way has a process of its own, which is forked")
@pytest.mark.parametrize("kind", ["Ragged", "Masked", "Padded", "Packed", "LoD", "List"])
def test_calls_of_a_batch_with_wrong_slots(kind):
    here = pathlib.Path(__file__).parent
    script = f"import sys; sys.path[:0] = [{str(here)!r}, {str(here.parent)!r}]\n"
    script += f"import test_private_slots as t\nt.tried({kind!r})"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
