"""`python -m seqformats compile --gpu` makes all that the launcher asks for, whatever the dtype of the items.

Every operation goes its way up to the start of its kernels, beside a driver that runs none.  Kernels that move rows,
and those whose counts operations wait for, run on the host instead; the results of all others are zeros.
"""

import collections

import every_call
import numpy as np
import pytest
from elsewhere import There
from stand_in import Gpu, StandIn, stand_in

from seqformats.launch import cuda
from seqformats.launch import kernel as kernels
from seqformats.native import cubins
from seqformats.native.code import spec_of
from seqformats.native.signature import text_of
from seqformats.operations.pieces import Pieces

pytestmark = pytest.mark.passes("compiled", reason="the driver stands in for the compiler's, not for the simulator")

DTYPES = ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?", "c8", "c16"]
COUNTING = {"add_lengths", "count_true", "keep_rows", "number_rows", "start_rows"}
# Searches choose among scores, which are floats, and need what no kernel has calculated.
SEARCHES = {"beam_search", "greedy_search", "beam_step"}
LONG = 150  # rows, from which on sequences go in pieces here
LONGEST = (12, 120, 400)


def on_host(x):
    """Arrays that pretend to be on a GPU, as they are."""
    if isinstance(x, np.ndarray):
        return x.view(np.ndarray)
    if isinstance(x, tuple):
        made = [on_host(part) for part in x]
        return type(x)(*made) if hasattr(x, "_fields") else tuple(made)
    return x


def clear(x):
    """Zeros in every array of a result."""
    for part in x:
        if isinstance(part, tuple):
            clear(part)
        elif isinstance(part, np.ndarray) and part.flags.writeable:
            part[...] = 0


def start(kernel, library, inputs, outputs, args, size, work, structure):
    """Ask for the code, and do without it."""
    cuda.start(kernel, library, inputs, outputs, args, size, work, structure)
    if kernel.get_traits().does == "moves" or kernel.name in COUNTING:
        inputs, outputs, args = on_host(inputs), on_host(outputs), on_host(args)
        kernel.start(kernels.NUMPY, inputs, outputs, args, size, structure, work)
    else:
        clear(outputs)


def asked_of(monkeypatch, dtypes, longest):
    """The names and the types that the launcher asks for: the calls in which it does."""
    asked = collections.defaultdict(set)

    def image_of(name, function, signature, capability, kept):
        if kept:
            asked[name, signature].add(call.name)
        return cubins.Image(b"", name, "kept")

    ascending = every_call.ascending
    with monkeypatch.context() as patch, stand_in(patch, StandIn(), image_of):
        patch.setattr(every_call, "ascending", lambda array: ascending(array).view(There))
        patch.setattr(Pieces, "LONG", LONG)
        patch.setitem(kernels._launchers, "cuda", kernels.launcher("cuda")._replace(start=start))
        for dtype in dtypes:
            for seed in range(5):
                for call in every_call.draw(np.random.default_rng(seed), (dtype,), longest=longest):
                    if call.name not in SEARCHES:
                        call.on([every_call.mapped(lambda array: array.view(There), x) for x in call.args])()
    return asked


def test_all_that_is_asked_for_is_compiled_ahead(monkeypatch):
    pytest.importorskip("numba_cuda", reason="it says what kernels are compiled for")
    from seqformats.kernels.parts.cubins import signatures_of

    known, left = {}, {}
    asked = collections.defaultdict(set)
    for longest in LONGEST:
        for pair, calls in asked_of(monkeypatch, DTYPES, longest).items():
            asked[pair] |= calls
    for (name, signature), calls in asked.items():
        kernel = name.partition(".")[0]
        if kernel not in known:
            known[kernel] = {(kernel + variant, one) for variant, one in signatures_of(spec_of(kernel))}
        if (name, signature) not in known[kernel]:
            left[f"{name}({text_of(signature)})"] = sorted(calls)
    assert not left
    assert len(known) > 60, sorted(known)
    assert {"order_rows", "order_rows.short", "ordered_quantiles", "alike_rows"} <= {name for name, _ in asked}
    for name in ("order_rows.short", "key_rows"):  # which take items by their bits
        kinds = {text_of(one).partition(".")[0] for other, one in asked if other == name}
        assert kinds >= {"i1", "i2", "i4", "i8", "u1", "u2", "u4"}, name


def test_the_calls_reach_their_kernels(monkeypatch):
    """Most calls reach their kernels; else the test above would see nothing."""
    asked = asked_of(monkeypatch, ["f4"], 12)
    missing = {"reduce_sum", "sort", "softmax", "window", "topk", "cross_entropy"} - set().union(*asked.values())
    assert not missing


# What asks for items on the host; and calls that have no meaning here: functions of a user without a twin, a list of
# views, and one whose counts nothing has calculated.
TO_HOST = {"to", "convert to list", "to_nested"}
NOT_HERE = {"map_sequences", "masked_scatter", "own_kernels_of_rows", "own_operation"}


def test_items_stay_where_they_are(monkeypatch):
    """No operation brings items to the host, be it for want of a kernel: they are on the device, as are its results."""
    brought, missing, calls = collections.Counter(), {}, set()
    to_numpy = Gpu.to_numpy

    def noted(library, x):
        if isinstance(x, There) and x.dtype.kind in "fc" and not starting:
            brought[call.name] += 1
        return to_numpy(library, x)

    def starting_kernel(*args):
        starting.append(True)
        start(*args)
        starting.clear()

    starting = []
    ascending = every_call.ascending
    with monkeypatch.context() as patch, stand_in(patch, StandIn()):
        patch.setattr(Gpu, "to_numpy", noted)
        patch.setattr(every_call, "ascending", lambda array: ascending(array).view(There))
        patch.setitem(kernels._launchers, "cuda", kernels.launcher("cuda")._replace(start=starting_kernel))
        for call in [call for seed in range(2) for call in every_call.draw(np.random.default_rng(seed), ("f4",), 12)]:
            if call.name in SEARCHES | NOT_HERE:
                continue
            on_host = call()
            there = call.on([every_call.mapped(lambda array: array.view(There), x) for x in call.args])()
            calls.add(call.name)
            if every_call.failed(there) and not every_call.failed(on_host):
                missing[call.name] = there
            if any(isinstance(x, np.ndarray) and x.dtype.kind in "fc" and not isinstance(x, There) for x in there):
                brought[call.name] += 1
    assert missing == {}
    assert set(brought) <= TO_HOST
    assert len(calls) > 190, sorted(calls)
