"""What stays on a device, and streams and captures that meet it, beside a driver that notes what it is asked."""

import contextlib
import gc
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from elsewhere import Elsewhere

import seqformats as sf
from seqformats.launch import driver, parameters, resident

pytestmark = pytest.mark.passes("compiled", reason="nothing here is compiled")


class Noted:
    """A driver whose copies are over when `over` says so."""

    def __init__(self):
        self.log, self.over, self.captured = [], False, False

    def check(self, result, what):
        assert result == 0

    def capturing(self, stream):
        return self.captured

    @contextlib.contextmanager
    def beside_captures(self):
        yield

    def EventCreate(self, found, flags):
        found.value = 7
        return 0

    def EventRecord(self, event, stream):
        self.log.append(("record", stream))
        return 0

    def EventQuery(self, event):
        return 0 if self.over else 600

    def EventSynchronize(self, event):
        self.log.append("synchronize")
        return 0

    def StreamWaitEvent(self, stream, event, flags):
        self.log.append(("wait", stream))
        return 0


@pytest.fixture
def there(monkeypatch):
    monkeypatch.setattr(driver, "_spare", {})
    monkeypatch.setattr(resident, "_of_graphs", [])
    monkeypatch.setattr(parameters, "BYTES_PER_WRITE", 0)
    library, noted = Elsewhere(), Noted()

    def place(stream):
        library.current = stream
        return resident.Place(noted, library, np.zeros(1), 0)

    structure = sf.Ragged(np.zeros(4), [1, 3])._structure

    def call(stream):
        at = place(stream)
        found = resident.Resident.get(structure, at)
        resident.bring([], structure, found, at)
        found.meet(at)

    return SimpleNamespace(noted=noted, library=library, structure=structure, call=call)


def test_a_second_stream_waits_until_the_copy_is_known_to_be_there(there):
    there.call(0)
    there.call(0)
    assert there.noted.log == [("record", 0)]
    there.call(5)
    assert there.noted.log[1:] == [("wait", 5)]
    there.noted.over = True
    there.call(6)
    there.noted.over = False
    there.call(7)
    assert there.noted.log[2:] == []
    assert [stream for _, stream in there.library.shared] == [5, 6, 7]


def test_a_stream_with_the_handle_of_another_waits(there):
    there.call(5)
    there.call(5)
    assert there.noted.log[-1] == ("wait", 5)


def test_a_capture_meets_what_is_there_and_keeps_it(there):
    there.call(5)
    there.noted.captured = True
    there.call(6)
    assert there.noted.log == [("record", 5), ("wait", 5), "synchronize"]
    there.call(6)
    assert len(resident._of_graphs) == 1


def test_nothing_goes_up_in_a_capture(there, monkeypatch):
    monkeypatch.setattr(parameters, "MAX_BYTES_IN_GRAPH", 0)
    there.noted.captured = True
    with pytest.raises(sf.DeviceError, match=r"before the capture x\.structure_to\(device\)"):
        there.call(6)
    there.noted.captured = False
    there.call(6)
    assert there.noted.log == [("record", 6), ("wait", 6)]


def test_events_are_given_back_where_modules_are_empty(there, monkeypatch):
    """At the end of a process Python empties modules before it lets go of what is in them."""
    there.call(0)
    lost = []
    monkeypatch.setattr(sys, "unraisablehook", lost.append)
    structure = there.structure
    spare = driver._spare[0]
    for module in (resident, driver):
        for name in [name for name in vars(module) if not name.startswith("__")]:
            monkeypatch.setattr(module, name, None)
    structure.device.clear()
    gc.collect()
    monkeypatch.undo()
    assert [str(one.exc_value) for one in lost] == []
    assert spare == [7]
