"""Arrays, and objects of every odd kind, in the place of each argument of everything public: a documented error."""

import contextlib
import importlib.util
import io
import sys
import warnings

import hostile
import numpy as np
import pytest
import valid_calls
from valid_calls import OF_MODULES, OTHERS, WITHOUT

import seqformats as sf
from seqformats.formats.arithmetic import Arithmetic

CALLS = valid_calls.CALLS | OF_MODULES
pytestmark = pytest.mark.passes("compiled", reason="what is refused is refused before a kernel is started")


@pytest.fixture(autouse=True)
def nothing_is_left():
    yield
    sf.set_num_threads(None)
    sf.keep_memory(None)


class Liar:
    """An object that says it is an encoding."""

    __class__ = sf.Ragged


class LiesOfArrays:
    """An object that says it is an array."""

    __class__ = np.ndarray


class NoTruth:
    """An object that can be neither compared nor asked whether it is true."""

    __hash__ = None

    def __eq__(self, other):
        raise ArithmeticError("not to be compared")

    def __bool__(self):
        raise ArithmeticError("not to be asked")


ODD = {
    "integers": lambda: np.array([1, 2, 3]),
    "floats": lambda: np.array([[0.5, 1.5]]),
    "one number": lambda: np.array(1),
    "one float": lambda: np.array([0.5]),
    "bools": lambda: np.array([True, False]),
    "nothing": lambda: np.array([]),
    "words": lambda: np.array(["raise", "empty"]),
    "a word": lambda: np.array("raise"),
    "objects": lambda: np.array([None, "a"], object),
    "a batch": valid_calls.x,
    "a batch of bools": valid_calls.flags,
    "lists": lambda: [[1], [2, 3]],
    "a dict": lambda: {"a": 1},
    "a set": lambda: {1},
    "a liar": Liar,
    "a liar of arrays": LiesOfArrays,
    "no truth": NoTruth,
    "a list of such": lambda: [NoTruth()],
    "a list of liars": lambda: [Liar(), Liar()],
    "a class": lambda: sf.Ragged,
    "NaN": lambda: float("nan"),
    "a word of bytes": lambda: b"raise",
    "a complex number": lambda: 1j,
    "None": lambda: None,
}


def verdict(name, arguments):
    """How a call ends that it should not; "" for a result and for a documented error."""
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("error")
        try:
            valid_calls.run(name, arguments)
        except hostile.KINDS as error:
            coded = hasattr(error, "code") or "argument" in str(error) or isinstance(error, MemoryError)
            return "" if coded else hostile.told(error)
        except Exception as error:
            return "" if getattr(error, "code", "") else hostile.told(error)
    return ""


def test_each_public_function_is_here():
    assert {*valid_calls.CALLS, *WITHOUT, *OTHERS, "conversion", "vjp"} == set(sf.__all__)
    assert {name for name in OF_MODULES if name.startswith("rl.")} == {f"rl.{n}" for n in sf.rl.__all__ if n.islower()}


@pytest.mark.parametrize("name", CALLS)
def test_the_call_itself_is_valid(name):
    if name not in ("BeamState", "CTCState", "Chunks", "NGrams"):  # which nobody makes by hand
        assert verdict(name, CALLS[name]()) == ""
        valid_calls.run(name, CALLS[name]())


@pytest.mark.parametrize("name", CALLS)
def test_odd_arguments(name):
    found = {}
    for argument in CALLS[name]():
        for odd, make in ODD.items():
            said = verdict(name, CALLS[name]() | {argument: make()})
            if said:
                found[argument, odd] = said
    assert not found, "\n".join(f"{key}: {said}" for key, said in found.items())


def test_batches_are_not_compared(monkeypatch):
    """The library asks for identity alone: ``==`` of batches compares items, and its result has no truth."""
    found = set()

    def recorded(name, answer):
        def compare(self, *others):
            frame = sys._getframe(1)
            found.add((name, frame.f_code.co_filename, frame.f_lineno))
            return answer

        monkeypatch.setattr(Arithmetic, name, compare)

    for name, answer in (("__eq__", False), ("__ne__", True), ("__bool__", True)):
        recorded(name, answer)
    assert valid_calls.x() not in [1]
    assert found.pop()[1] == __file__  # so it sees comparisons, this one
    for name in CALLS:
        for argument in CALLS[name]():
            for odd in ("a batch", "a batch of bools"):
                verdict(name, CALLS[name]() | {argument: ODD[odd]()})
    assert not found


TENSORS = {
    "integers": lambda torch: torch.tensor([1, 2, 3]),
    "floats": lambda torch: torch.tensor([[0.5, 1.5]]),
    "one number": lambda torch: torch.tensor(1),
    "one float": lambda torch: torch.tensor([0.5], requires_grad=True),
    "bools": lambda torch: torch.tensor([True, False]),
    "nothing": lambda torch: torch.tensor([]),
    "on no device": lambda torch: torch.empty(2, device="meta"),
    "a batch": lambda torch: sf.to(valid_calls.x(), "torch"),
    "a list": lambda torch: [torch.tensor([1, 2]), torch.tensor(3)],
}


@pytest.mark.bridges
@pytest.mark.parametrize("name", CALLS)
def test_odd_tensors(name):
    torch = pytest.importorskip("torch")
    found = {}
    for argument in CALLS[name]():
        for odd, make in TENSORS.items():
            said = verdict(name, CALLS[name]() | {argument: make(torch)})
            if said:
                found[argument, odd] = said
    assert not found, "\n".join(f"{key}: {said}" for key, said in found.items())


@pytest.mark.bridges
@pytest.mark.parametrize("name", OTHERS)
def test_odd_arguments_beside_objects_of_other_libraries(name):
    if importlib.util.find_spec(OTHERS[name]) is None:
        pytest.skip(f"{OTHERS[name]} is not here")
    found = {}
    valid_calls.run(name, valid_calls.others(name))
    for argument in valid_calls.others(name):
        for odd, make in ODD.items():
            said = verdict(name, valid_calls.others(name) | {argument: make()})
            if said:
                found[argument, odd] = said
    assert not found, "\n".join(f"{key}: {said}" for key, said in found.items())
