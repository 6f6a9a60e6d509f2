"""Arrays that a structure hands out are never those that kernels walk over, whatever is done to them."""

import dataclasses

import numpy as np
import oracle
import pytest

import seqformats as sf

# NumPy is about to take these setters away.
pytestmark = pytest.mark.filterwarnings("ignore:Setting the:DeprecationWarning")
LENGTHS = [3, 0, 2, 7]
CHANGES = {
    "dtype": lambda x: setattr(x, "dtype", np.int8),
    "shape": lambda x: setattr(x, "shape", (1, -1)),
    "strides": lambda x: setattr(x, "strides", (0,)),
}


def batches():
    x = sf.Ragged(np.arange(12.0), LENGTHS)
    made = {name: lambda name=name: sf.convert(x, getattr(sf, name)) for name in ("Masked", "Padded", "Packed", "List")}
    return {
        "Ragged": lambda: sf.Ragged(np.arange(12.0), LENGTHS),
        "LoD": lambda: sf.LoD(np.arange(12.0), [[0, 1, 4], [0, 3, 3, 5, 12]]),
        "Chunks": lambda: sf.chunk(x, 2, 1),
        "Padded, wide": lambda: sf.convert(x, sf.Padded, width=9),
        "left": lambda: sf.convert(x, sf.Masked, side="left"),
        "chosen": lambda: x[[3, 1, 0]],
        "sliced": lambda: x[1:],
        "reduced": lambda: sf.reverse(sf.Ragged(np.arange(12.0), LENGTHS)),
        **made,
    }


def numbers_in(found):
    """The arrays of whole numbers that something is made of."""
    if isinstance(found, np.ndarray):
        return [found] if found.dtype.kind == "i" else []
    if isinstance(found, (tuple, list)):
        return [array for part in found for array in numbers_in(part)]
    return []


def readers(x):
    """Every public way to an array of a structure: attributes, and methods and functions that take nothing more."""
    names = [name for name in dir(x) if not name.startswith("_") and name not in ("data", "items", "T", "mT")]
    for name in names:
        try:
            found = getattr(x, name)
            if callable(found):
                found()
        except Exception:
            continue
        yield name, lambda x, name=name: value if not callable(value := getattr(x, name)) else value()
    for function in (sf.lengths, sf.segment_ids, sf.position_ids, sf.cu_seqlens):
        yield function.__name__, function
    yield (
        "np.asarray of each field",
        lambda x: [value for field in dataclasses.fields(x) for value in numbers_in(getattr(x, field.name))],
    )


def results(x):
    """Return results of kernels by every way that a structure goes: fast paths, Python, the order."""
    made = [sf.convert(x, list), sf.convert(sf.reverse(x), list), np.asarray(sf.reduce_sum(x)).tolist(), len(x)]
    made += [sf.convert(sf.convert(x, kind), list) for kind in (sf.Ragged, sf.Masked, sf.Padded, sf.Packed)]
    made += [sf.convert(x[[0, len(x) - 1]], list), sf.convert(x[1:], list), sf.convert(sf.repeat(x, 2), list)]
    return made + [np.asarray(a).tolist() for _, read in readers(x) for a in numbers_in(read(x))]


@pytest.mark.parametrize("how", CHANGES)
@pytest.mark.parametrize("name", batches())
def test_a_change_of_what_is_handed_out_changes_nothing(name, how):
    x = batches()[name]()
    expected = results(x)
    handed = [(which, array) for which, read in readers(x) for array in numbers_in(read(x))]
    assert handed
    for which, array in handed:
        try:
            CHANGES[how](array)
        except (AttributeError, ValueError, TypeError):
            continue  # not to be had of such an array
        assert results(x) == expected, which


@pytest.mark.parametrize("name", batches())
def test_none_is_an_array_of_the_structure(name):
    """Else the changes above would have to be those that there are."""
    x = batches()[name]()
    results(x)
    kept = [array for level in x._levels for array in own_arrays(level)]
    if isinstance(x, sf.Chunks):
        kept += [x._origin.starts, *own_arrays(x._origin.whole)]
    kept = {id(array) for array in kept}
    for which, read in readers(x):
        for array in numbers_in(read(x)):
            assert id(array) not in kept, which
            assert not array.flags.writeable or not np.shares_memory(array, x._structure.offsets), which


def own_arrays(structure):
    slots = [getattr(structure, name, None) for name in ("lengths", "offsets", "columns", "order", "flat", "begins")]
    return numbers_in([[*slot] if isinstance(slot, tuple) else slot for slot in slots])


def test_fields_are_set_by_constructors_alone():
    x = sf.Ragged(np.arange(12.0), LENGTHS)
    for name in ("lengths", "data"):
        with pytest.raises((dataclasses.FrozenInstanceError, AttributeError)):
            setattr(x, name, x.lengths)
    oracle.assert_bits(x.lengths, np.array(LENGTHS))


def test_beam_states_hand_out_views():
    scores = np.log([[0.1, 0.5, 0.4], [0.6, 0.3, 0.1], [0.2, 0.2, 0.6]])

    def search(change):
        decoder = sf.BeamDecoder(np.zeros((2, 3)), start=np.array([1, 2]), end=0, beam_size=2, max_new_tokens=5)
        while decoder.active:
            state = decoder.state
            rows = scores[state.tokens]
            for name in ("tokens", "source", "parents", "lengths"):
                change(getattr(state, name))
            change(state.prefixes.lengths)
            change(state.prefixes.offsets)
            decoder.step(rows, state.memory)
        return decoder.result().tokens.to_nested()

    expected = search(lambda x: None)
    for change in CHANGES.values():
        assert search(change) == expected
