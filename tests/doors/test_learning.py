"""How doors learn: all by one mechanism, so each kind of door is put through the same."""

import gc
import weakref

import numpy as np
import pytest
from closed_doors import closed_doors

import seqformats as sf
from seqformats.doors.door import LIVE, Comparing, Plan, closed, is_plain, same
from seqformats.launch.kernel import kernel, variant_of
from seqformats.operations.distance import _DOOR

pytestmark = pytest.mark.passes("compiled", reason="doors are machine code")


@pytest.fixture(scope="module", autouse=True)
def without_limits():
    """Here they are tested."""


F4 = np.dtype("f4")
I8 = np.dtype("i8")
EDITS = Plan((I8, I8), kernel("count_edits"), variant_of(*["int64"] * 4), I8)


def batch():
    return sf.Ragged(np.arange(10, dtype=F4).reshape(5, 2), [2, 0, 3])


def arrays():
    return sf.List([np.ones((2, 3)), np.ones((1, 3))])


def edits(x):
    """The call and its result, of a batch of numbers."""
    y = sf.Ragged(np.arange(x.rows), x.lengths)
    return (y, y), sf.levenshtein(y, y)


MARKS = np.array([True, False, True, True, True])
DOORS = {
    "compare": (lambda: Comparing(_DOOR.numbers), edits, EDITS),
}


def learn(name, door=None):
    """A door that has been told of what the general way has made; and the call."""
    make, general, plan = DOORS[name]
    with closed_doors():
        args, result = general(batch())
    door = make() if door is None else door
    door.enter(*args)
    door.learn(args, result, plan)
    return door, args, result


def kernels_of(name, door):
    plan = DOORS[name][2]
    own = list(door.kernels.values())
    return own + ([plan.kernel] if plan else [])


def passes(name, door, args, result):
    """Does this call go through, with this result?"""
    made = door.enter(*args)
    return made is not None and same(made, result)


@pytest.mark.parametrize("name", DOORS)
def test_a_call_goes_through_after_it_was_learned(name):
    door, args, result = learn(name)
    assert not door.wrong
    assert len(door.known) == 1
    assert passes(name, door, args, result)


@pytest.mark.parametrize("name", DOORS)
def test_whoever_makes_anything_else_is_closed_for_good(name):
    make, general, plan = DOORS[name]
    door = make()
    with closed_doors():
        args, result = general(batch())
    tried = door.tried
    door.tried = lambda *given: [*tried(*given), "anything else"]
    door.enter(*args)
    door.learn(args, result, plan)
    assert door.wrong
    assert door.enter is closed
    assert not door.known
    del door.tried
    door.close()
    learn(name, door)
    assert door.enter is closed


@pytest.mark.parametrize("name", DOORS)
def test_a_kernel_that_is_replaced_closes_it_until_there_is_machine_code(name, monkeypatch):
    door, args, result = learn(name)
    for used in kernels_of(name, door):
        assert passes(name, door, args, result), used.name
        way = door.enter
        with monkeypatch.context() as patched:
            patched.setitem(used.functions, "cpu", lambda *_: None)
            used.forget()
            assert not door.known, used.name
            assert way(*args) is None
            door.learn(args, result, DOORS[name][2])
            assert not door.wrong
            assert door.enter(*args) is None, used.name
        used.forget()
        assert not door.known
        for _ in range(3):
            door, args, result = learn(name, door)
    assert passes(name, door, args, result)


@pytest.mark.parametrize("name", DOORS)
def test_what_is_not_plain_is_tried_less_and_less(name):
    make, general, plan = DOORS[name]
    door, trials = make(), []
    with closed_doors():
        args, result = general(batch())
    tried, odd = door.tried, True

    def counted(*given):
        trials.append(call)
        return (None,) if odd else tried(*given)

    door.tried = counted
    for call in range(1, 101):  # noqa: B007  the trial takes it
        door.enter(*args)
        door.learn(args, result, plan)
    assert trials == [1, 2, 4, 8, 16, 32, 64]
    assert not door.known
    odd = False
    for call in range(101, 129):  # noqa: B007
        assert not passes(name, door, args, result)
        door.learn(args, result, plan)
    assert trials[7:] == [128]
    assert passes(name, door, args, result)
    for _ in range(300):
        door.learn(args, result, plan)
    assert len(trials) == 8


class Own(np.ndarray):
    pass


def are_numbers(found):
    """Is there nothing but numbers, and letters for dtypes?"""
    if isinstance(found, dict):
        return all(map(are_numbers, found.items()))
    return all(map(are_numbers, found)) if isinstance(found, (tuple, list, set)) else isinstance(found, (int, str))


@pytest.mark.parametrize("name", DOORS)
def test_what_it_remembers_are_numbers(name):
    class Batch(sf.Ragged):
        __slots__ = ()

    door, args, _ = learn(name)
    general, plan = DOORS[name][1:]
    marked = np.zeros((5, 2), np.dtype("f4", metadata={"a": 1}))
    for x in (
        Batch(marked, [2, 0, 3]),
        sf.Ragged(marked, [2, 0, 3]),
        sf.Masked(np.resize(marked, (3, 5, 2)), [2, 0, 3]),
    ):
        with closed_doors():
            args, result = general(x)
        door.enter(*args)
        door.learn(args, result, plan and plan._replace(dtypes=(x.dtype,), made=x.dtype))
    assert len(door.known) >= 1
    assert are_numbers([door.known, door.refused, getattr(door, "dtypes", [])])
    there = weakref.ref(x._structure)
    del x, args, result
    gc.collect()
    assert there() is None


@pytest.mark.parametrize(
    ("found", "is_one"),
    [(np.zeros(2), True), (np.zeros(2).view(Own), False), (batch, True), (arrays, True), (3, False), ((), False)],
    ids=["array", "subclass", "Ragged", "List", "number", "nothing"],
)
def test_is_plain(found, is_one):
    found = found() if callable(found) else found
    assert is_plain(found) is is_one
    assert is_plain((found, None)) is is_one


def test_without_machine_code_it_stays_closed(monkeypatch):
    door = Comparing(_DOOR.numbers)
    monkeypatch.setattr("seqformats.doors.door.door_of", lambda page: None)
    learn("compare", door)
    assert door.wrong
    assert door.enter is closed
    assert not door.worlds[LIVE].any()
