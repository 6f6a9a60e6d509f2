"""Malformed input by the ten thousand: each gives the documented error, and nothing reaches a kernel.

`judge` says in plain Python what the contract says of a constructor's arguments: the error kinds that fit, none where
they are valid. The loop draws valid arguments and spoils them in one or two places.
"""

import contextlib
import copy
import dataclasses
import decimal
import fractions
import itertools
import os
import pathlib
import pickle
import re
import subprocess
import sys
import warnings

import hostile
import numpy as np
import oracle
import pytest
import strategies
from passes import INTERPRETED

import seqformats as sf

CASES = 3_000 if INTERPRETED else 30_000
DOCUMENTED = (sf.StructureError, sf.ConversionError, sf.DeviceError, TypeError, IndexError)
INT64 = np.iinfo(np.int64)

every_encoding = pytest.mark.parametrize("kind", oracle.ENCODINGS, ids=oracle.format_name)


# ------------------------------------------------------------------------------------- what the contract says


def judge_ints(values, numbers):
    """The error kinds that fit a structure field; its numbers are appended to `numbers`."""
    if isinstance(values, np.ma.MaskedArray) and np.ma.getmaskarray(values).any():
        return {TypeError}
    kinds = set()
    if isinstance(values, np.ndarray):
        if values.dtype.kind not in "iu" and values.size:
            kinds.add(TypeError)
        if values.ndim != 1:
            kinds.add(sf.StructureError)
    elif isinstance(values, (list, tuple, range)):
        if any(isinstance(v, (bool, np.bool_)) or not isinstance(v, (int, np.integer)) for v in values):
            kinds.add(TypeError)
    else:
        kinds.add(TypeError)
    if kinds:
        return kinds
    found = [int(v) for v in values]
    if any(not INT64.min <= v <= INT64.max for v in found):
        return {sf.StructureError}
    numbers.extend(found)
    return set()


def judge_data(data, axes):
    if not isinstance(data, np.ndarray) or data.dtype.hasobject:
        return {TypeError}
    if isinstance(data, np.ma.MaskedArray) and np.ma.getmaskarray(data).any():
        return {TypeError}
    return {sf.StructureError} if data.ndim < axes else set()


def judge(builder, fields):
    """The error kinds that fit these arguments; empty where they are valid."""
    return JUDGES[builder](**fields)


def fits(valid):
    return set() if valid else {sf.StructureError}


def judge_ragged(data, lengths):
    n = []
    return judge_data(data, 1) | judge_ints(lengths, n) or fits(all(k >= 0 for k in n) and sum(n) == len(data))


def judge_offsets(data, offsets):
    n = []
    return judge_data(data, 1) | judge_ints(offsets, n) or fits(are_offsets(n, len(data)))


def are_offsets(numbers, end):
    return bool(numbers) and numbers[0] == 0 and numbers[-1] == end and numbers == sorted(numbers)


def judge_masked(data, lengths, side):
    n = []
    kinds = judge_data(data, 2) | judge_ints(lengths, n)
    if not isinstance(side, str):
        kinds |= {TypeError}
    elif side not in ("left", "right"):
        kinds |= {sf.StructureError}
    return kinds or fits(len(n) == data.shape[0] and all(0 <= k <= data.shape[1] for k in n))


def judge_mask(data, mask):
    kinds = judge_data(data, 2) | judge_data(mask, 0)
    if not kinds and mask.dtype.kind not in "biu":
        kinds = {TypeError}
    if kinds or mask.shape != data.shape[:2] or any(v not in (0, 1) for v in mask.reshape(-1).tolist()):
        return kinds or {sf.StructureError}
    rows = [[bool(v) for v in row] for row in mask.tolist()]
    return fits(any(all(row == sorted(row, reverse=way) for row in rows) for way in (True, False)))


def judge_order(data, size_at_t, lengths, indices, axes):
    sizes, n, order = [], [], []
    kinds = judge_data(data, axes) | judge_ints(size_at_t, sizes) | judge_ints(lengths, n) | judge_ints(indices, order)
    if kinds:
        return kinds
    if sorted(order) != list(range(len(n))) or any(k < 0 for k in n) or n != sorted(n, reverse=True):
        return {sf.StructureError}
    if n and n[0] > len(sizes):
        return {sf.StructureError}
    return fits(sizes == oracle.sizes_of(n, len(sizes)))


def judge_padded(data, size_at_t, lengths, indices):
    kinds = judge_order(data, size_at_t, lengths, indices, 2)
    return kinds or fits(data.shape[:2] == (len(size_at_t), len(lengths)))


def judge_packed(data, size_at_t, lengths, indices):
    return judge_order(data, size_at_t, lengths, indices, 1) or fits(sum(map(int, lengths)) == len(data))


def judge_levels(given, levels):
    """The numbers of every level of a tuple of levels."""
    if isinstance(given, np.ndarray) and given.ndim == 2 and not isinstance(given, np.ma.MaskedArray):
        given = list(given)
    if not isinstance(given, (list, tuple)):
        return {TypeError}
    kinds = set() if given else {sf.StructureError}
    for level in given:
        levels.append([])
        kinds |= judge_ints(level, levels[-1])
    return kinds


def judge_lod(data, lod):
    levels = []
    kinds = judge_data(data, 1) | judge_levels(lod, levels)
    if kinds:
        return kinds
    ends = [len(level) - 1 for level in levels[1:]] + [len(data)]
    return fits(all(are_offsets(level, end) for level, end in zip(levels, ends, strict=True)))


def judge_lod_lengths(data, lengths):
    levels = []
    kinds = judge_data(data, 1) | judge_levels(lengths, levels)
    if kinds:
        return kinds
    ends = [len(level) for level in levels[1:]] + [len(data)]
    return fits(all(sum(n) == end and all(k >= 0 for k in n) for n, end in zip(levels, ends, strict=True)))


def judge_absolute(data, lod, empties):
    levels = []
    kinds = judge_data(data, 1) | judge_levels(lod, levels)
    if not (isinstance(empties, str) and empties in ("raise", "left", "right")):
        kinds |= {sf.StructureError, TypeError}
    if kinds:
        return kinds
    if not all(are_offsets(level, len(data)) for level in levels):
        return {sf.StructureError}
    for outer, inner in itertools.pairwise(levels):
        times = [inner.count(boundary) for boundary in outer]
        if len(outer) == 1 < len(inner):  # no one owns the inner sequences
            return {sf.StructureError}
        if 0 in times or (empties == "raise" and any(k > 1 for k in times[1:-1])):
            return {sf.StructureError}
    return set()


def judge_list(items, like):
    if not isinstance(items, (list, tuple)):
        return {TypeError}
    arrays = [*items] if like is None else [like, *items]
    kinds = set().union(*(judge_data(array, 1) for array in arrays))
    good = [array for array in arrays if not judge_data(array, 1)]
    return kinds | fits(len({(array.dtype, array.shape[1:]) for array in good}) <= 1)


JUDGES = {
    sf.Ragged: judge_ragged,
    sf.Padded: judge_padded,
    sf.Packed: judge_packed,
    sf.Masked: judge_masked,
    sf.List: judge_list,
    sf.LoD: judge_lod,
    sf.Ragged.from_offsets: judge_offsets,
    sf.Masked.from_mask: judge_mask,
    sf.LoD.from_lengths: judge_lod_lengths,
    sf.LoD.from_absolute: judge_absolute,
}
BUILDERS = list(JUDGES)


# -------------------------------------------------------------------------------------------- drawing cases


class Indexed:
    """Something with __index__ that is no number."""

    def __index__(self):
        return 1.0

    def __repr__(self):
        return "Indexed()"


STRANGE = [1.0, 2.5, float("nan"), float("inf"), True, False, None, "1", b"1", [1], (), np.float64(1), np.bool_(True)]
STRANGE += [fractions.Fraction(1), decimal.Decimal(1), 1j, Indexed(), {}, np.datetime64(1, "s"), np.str_("1")]
EXTREME = [
    -1,
    -2,
    -(2**31),
    2**31,
    2**32,
    2**62,
    2**63 - 1,
    -(2**63),
    2**63,
    2**64,
    2**100,
    -(2**100),
    np.uint64(2**63),
]


def pick(rng, choices):
    return choices[rng.integers(len(choices))]


def quiet(values, dtype):
    """An array of that dtype, whatever becomes of the values; the values themselves where they cannot be cast."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return np.array(values).astype(dtype)
        except (TypeError, ValueError, OverflowError):
            return np.array([0.5])


def spoil_ints(rng, values):
    """A structure field with one fault (or, by chance, without)."""
    values = [int(v) for v in values]
    at = int(rng.integers(len(values) + 1))
    way = rng.integers(12)
    if way < 4 and values:
        at = min(at, len(values) - 1)
        old = values[at]
        values[at] = pick(rng, [old + 1, old - 1, old + int(rng.integers(-9, 9)), *EXTREME, *STRANGE])
    elif way == 4:
        values.insert(at, pick(rng, [0, 0, 1, *EXTREME, *STRANGE]))
    elif way == 5:
        del values[at : at + 1]
    elif way == 6:
        rng.shuffle(values)
    elif way == 7:  # sums that overflow, and overflow back to something small
        values[at:at] = pick(rng, [[2**63 - 1] * 2, [2**62] * 4, [2**63 - 1, 1], [-1, 1], [2**63 - 1, -(2**63), 1]])
    elif way == 8:
        return pick(
            rng, [None, 3, 1.5, "0 2", b"\0", {}, set(values), iter(values), object(), values.append, Indexed()]
        )
    elif way == 9:
        dtype = pick(rng, ["f8", "f4", "?", "c16", "O", "U3", "M8[s]", "u8", "i1", "V8"])
        return quiet(values, dtype)
    elif way == 10:
        array = np.array(values, np.int64)
        return pick(rng, [array[None], array[:, None], np.array(4), [array], np.ma.array(array, mask=True)])
    else:
        return pick(rng, [tuple(values), np.array(values, np.int32), np.array(values, "u8"), np.array(values, ">i8")])
    return values


def spoil_data(rng, data):
    more = np.concatenate([data, data[:1], data[:1]])
    return pick(
        rng,
        [data[1:], more, data[:0], data[None], data[..., None], data.T, data.reshape(-1), np.array(1.0), data[:, None]]  # noqa: RUF005
        + [None, 3, "data", data.tolist(), object(), np.float64(1), {}, data.astype(object), np.ndarray]
        + [np.ma.array(data, mask=True), np.ma.array(data), np.zeros((*data.shape[:1], 2), "i4,O"), memoryview(b"ab")],
    )


def spoil_levels(rng, lod):
    levels = [list(map(int, level)) for level in lod]
    at = int(rng.integers(len(levels)))
    way = rng.integers(6)
    if way < 3:
        levels[at] = spoil_ints(rng, levels[at])
    elif way == 3:
        del levels[at]
    elif way == 4:
        levels.insert(at, pick(rng, [levels[at], [0], [], [0, 1], [0, 0], None, 3, "ab", [[0]], b"ab"]))
    else:
        return pick(rng, [None, 3, {}, "ab", levels[0], [None], [3], [[]], [], np.zeros((1, 1, 1), int), iter(levels)])
    return levels


def spoil_list(rng, items):
    items = list(items)
    at = int(rng.integers(len(items) + 1))
    if rng.integers(5) == 0:
        return pick(rng, [None, 3, "ab", {}, np.zeros((2, 2)), iter(items), set(), object(), range(2)])
    if items and rng.integers(2):
        at = min(at, len(items) - 1)
        items[at] = spoil_data(rng, items[at])
    else:
        items.insert(
            at, pick(rng, [np.zeros(1, "i1"), np.zeros((1, 2, 2)), np.zeros(()), None, [1], "a", 1, 1.5, np.int8(1)])
        )
    return items


def draw_fields(rng, builder):
    """Valid arguments for a constructor or builder."""
    levels = int(rng.integers(1, 4)) if builder in (sf.LoD, sf.LoD.from_lengths, sf.LoD.from_absolute) else 1
    nesting = draw_nesting(rng, levels)
    dtype = pick(rng, strategies.DTYPES)
    item_shape = pick(rng, [(), (), (2,), (0,), (2, 3)])
    truth = strategies.truth_from(nesting, dtype, item_shape, False, levels)
    if builder in oracle.FIELDS:
        fields = oracle.FIELDS[builder](truth)
        return {**fields, "like": None} if builder is sf.List and truth.nest else fields
    data = truth.data()
    offsets = [oracle.offsets_of(level) for level in truth.counts()]
    if builder == sf.Ragged.from_offsets:
        return {"data": data, "offsets": offsets[0]}
    if builder == sf.LoD.from_lengths:
        return {"data": data, "lengths": truth.counts()}
    if builder == sf.LoD.from_absolute:
        for k in range(levels - 2, -1, -1):
            offsets[k] = [offsets[k + 1][i] for i in offsets[k]]
        return {"data": data, "lod": offsets, "empties": pick(rng, ["raise", "left", "right"])}
    fields = oracle.masked_fields(
        truth, side=pick(rng, ["left", "right"]), width=truth.longest() + int(rng.integers(2))
    )
    place = np.arange(fields["data"].shape[1])
    n = np.array(fields["lengths"], int)[:, None]
    mask = place < n if fields["side"] == "right" else place >= place.size - n
    return {"data": fields["data"], "mask": mask.astype(pick(rng, ["?", "i8", "u1"]))}


def draw_nesting(rng, levels):
    count = int(rng.integers(0, 5))
    return [int(rng.integers(0, 5)) if levels == 1 else draw_nesting(rng, levels - 1) for _ in range(count)]


def spoil_mask(rng, mask):
    mask = mask.copy()
    if mask.size:
        at = tuple(int(rng.integers(k)) for k in mask.shape)
        mask[at] = not mask[at]
    return pick(rng, [mask, mask, mask.astype(int) * 2, mask.astype(float), mask.T, mask[:1], mask.tolist(), None, 1])


def spoil(rng, fields):
    name = pick(rng, list(fields))
    value = fields[name]
    if name == "lod" or (name == "lengths" and value and isinstance(value[0], list)):
        value = spoil_levels(rng, value) if value else [[1]]
    elif name in ("lengths", "indices", "size_at_t", "offsets"):
        value = spoil_ints(rng, value)
    elif name == "items":
        value = spoil_list(rng, value)
    elif name == "mask":
        value = spoil_mask(rng, value)
    elif name in ("side", "empties"):
        value = pick(rng, ["top", "", None, 1, "RIGHT", b"left", ["left"], True])
    elif name == "like":
        value = pick(rng, [np.zeros((0, 9)), np.zeros(()), 3, [1], "like", None])
    else:
        value = spoil_data(rng, value)
    return {**fields, name: value}


def attempt(builder, fields):
    """Build, and compare what happens with the judge's word; the arguments stay as they were."""
    allowed = judge(builder, fields)
    before = repr(fields)
    try:
        x = builder(**fields)
    except (*DOCUMENTED,) as error:
        assert any(type(error) is kind for kind in allowed), (
            f"{type(error).__name__}: {error}; expected {allowed or 'success'}"
        )
        message = str(error)
        assert any(re.search(rf"\b{name}\b", message) for name in fields), f"no argument is named: {message}"
        result = type(error)
    else:
        assert not allowed, f"{x!r} was built; expected {allowed}"
        oracle.read(x)
        assert_given(x, fields)
        result = None
    assert repr(fields) == before, "the arguments were changed"
    return result


def assert_given(x, fields):
    """What was built holds the numbers that were given."""
    for name, value in fields.items():
        if name == "lod":
            offsets = x.absolute() if "empties" in fields else x.lod
            assert [level.tolist() for level in offsets] == [list(map(int, level)) for level in value]
        elif name == "lengths" and isinstance(x, sf.LoD):
            assert x.lengths() == [list(map(int, level)) for level in value]
        elif name in ("lengths", "indices", "size_at_t", "offsets"):
            assert getattr(x, name).tolist() == list(map(int, value))
        elif name == "mask":
            assert x.mask.tolist() == value.astype(bool).tolist()
        elif name == "data":
            assert np.shares_memory(x.data, value) or x.data.tobytes() == value.tobytes()


def hammer(seed, count):
    """Draw, spoil and try `count` cases; how often each kind of end was met."""
    rng = np.random.default_rng(seed)
    met = {}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for case in range(count):
            builder = BUILDERS[case % len(BUILDERS)]
            fields = draw_fields(rng, builder)
            for _ in range(int(rng.integers(0, 3)) or 1):
                with contextlib.suppress(Exception):  # what is spoiled already cannot always be spoiled again
                    fields = spoil(rng, fields)
            if rng.integers(20) == 0:
                fields = draw_fields(rng, builder)
            try:
                end = attempt(builder, fields)
            except BaseException as error:
                error.add_note(f"case {case} of seed {seed}: {builder.__qualname__} {fields}")
                raise
            met[builder.__qualname__, end] = met.get((builder.__qualname__, end), 0) + 1
    return met


# ----------------------------------------------------------------------------------------------- construction


def test_malformed_structures(capfd):
    met = hammer(1, CASES)
    for builder in BUILDERS:
        for end in (None, TypeError, sf.StructureError):
            assert met.get((builder.__qualname__, end), 0) > CASES // 1000, f"{builder.__qualname__} never met {end}"
    assert capfd.readouterr() == ("", ""), "something was printed"


def test_the_judge_is_not_blind():
    """`attempt` notices a constructor that takes what is wrong, and one that refuses what is right."""
    JUDGES["tolerant"] = judge_ragged
    try:
        for wrong in ({"data": np.zeros(2), "lengths": [1, 2]}, {"data": np.zeros(2), "lengths": [1, 1]}):
            with pytest.raises((AssertionError, KeyError)):
                attempt_with("tolerant", wrong)
    finally:
        del JUDGES["tolerant"]


def attempt_with(name, fields):
    """`attempt` with a constructor that does the opposite of what it should."""

    def opposite(data, lengths):
        if sum(lengths) == len(data):
            raise sf.StructureError("lengths")
        return sf.Ragged(data, [len(data)])

    JUDGES[opposite] = JUDGES[name]
    try:
        attempt(opposite, fields)
    finally:
        del JUDGES[opposite]


def test_is_valid_lod_agrees_with_the_judge():
    rng = np.random.default_rng(5)
    verdicts = []
    for _ in range(CASES // 10):
        fields = draw_fields(rng, sf.LoD)
        lod = spoil_levels(rng, fields["lod"]) if rng.integers(3) else fields["lod"]
        rows = len(fields["data"]) + int(rng.integers(9) == 0)
        wanted = not judge_lod(np.zeros(rows), lod)
        assert sf.is_valid_lod(lod, rows) is wanted, (lod, rows)
        verdicts.append(wanted)
    assert 0 < sum(verdicts) < len(verdicts)


def test_sums_that_overflow_without_any_memory():
    """Rows of no bytes can be as many as int64 counts, and more together."""
    wide = np.empty((2**62, 0), "i1")
    x = sf.Ragged(wide, [2**61, 2**61])
    assert x.rows == 2**62
    with pytest.raises(sf.StructureError, match="int64"):
        sf.List([wide, wide, wide])
    with pytest.raises((sf.ConversionError, MemoryError)):
        sf.convert(x, sf.Padded)
    assert sf.convert(sf.convert(x, sf.List), sf.Ragged).rows == 2**62


@pytest.mark.parametrize("member", [None, 3, "ab", object(), np.float64(1), {}, np.ndarray])
def test_pairs_refuse(member):
    x = sf.Ragged(np.zeros(3), [1, 2])
    for one, two in ((x, member), (member, x)):
        with pytest.raises(TypeError, match="one|two"):
            sf.Pairs(one, two)
    with pytest.raises(sf.StructureError, match="2 sequences"):
        sf.Pairs(x, np.zeros(3))
    with pytest.raises((sf.StructureError, TypeError)):
        sf.Pairs(np.zeros(()), np.zeros(()))


# -------------------------------------------------------------------------- arrays that are not what they say


class Interface:
    def __init__(self, interface):
        self.__array_interface__ = interface


class Capsule:
    def __init__(self, device=(1, 0), given=None):
        self.device, self.given = device, given

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, **options):
        if isinstance(self.given, Exception):
            raise self.given
        return self.given


HOSTILE = {
    "interface is a number": Interface(5),
    "interface is empty": Interface({}),
    "interface without data": Interface({"shape": (2,), "typestr": "<f8", "version": 3}),
    "interface with a wrong type": Interface({"shape": (2,), "typestr": "nonsense", "data": (0, True), "version": 3}),
    "interface with a negative shape": Interface({"shape": (-2,), "typestr": "<f8", "data": b"", "version": 3}),
    "capsule is nothing": Capsule(),
    "capsule raises": Capsule(given=BufferError("gone")),
    "capsule raises strangely": Capsule(given=KeyError("gone")),
    "capsule without a device": Capsule(device=None),
    "capsule on an odd device": Capsule(device=("x",)),
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE)
def test_objects_that_only_look_like_arrays(data):
    for make in (
        lambda: sf.Ragged(data, [2]),
        lambda: sf.List([data]),
        lambda: sf.List([np.zeros(1), data]),
        lambda: sf.Ragged(np.zeros(2), data),
        lambda: sf.convert([data], sf.Ragged),
        lambda: sf.Pairs(data, data),
        lambda: sf.with_array(lambda rows: rows)(sf.Ragged(np.zeros(2), data)),
    ):
        with pytest.raises((TypeError, sf.DeviceError, sf.StructureError)):
            make()


def test_sequences_that_lie_about_their_length():
    class Liar(list):
        def __len__(self):
            return 1

    for lengths in (Liar([1, 1, 1]), Liar([2**62, 5, 1]), Liar()):
        with contextlib.suppress(*DOCUMENTED):
            oracle.read(sf.Ragged(np.zeros(3), lengths))
        with contextlib.suppress(*DOCUMENTED):
            oracle.read(sf.List(Liar([np.zeros(2), np.zeros(1)])))


# -------------------------------------------------------------------------------- data changed afterwards


def owner(kind, item_shape=(2,)):
    """An encoding whose arrays own their memory, so that they can be resized."""
    truth = strategies.truth_from([2, 0, 3], "f8", item_shape)
    return oracle.build(kind, truth, form=np.array)


def resized(array, by):
    array.resize((array.shape[0] + by, *array.shape[1:]), refcheck=False)


def reshaped(array, shape):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        array.shape = shape


def retyped(array, dtype):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        array.dtype = dtype


CHANGES = {
    "shorter": lambda array: resized(array, -1),
    "longer": lambda array: resized(array, 1),
    "empty": lambda array: array.resize((0, *array.shape[1:]), refcheck=False),
    "flat": lambda array: reshaped(array, (array.size,)),
    "one axis more": lambda array: reshaped(array, (*array.shape, 1)),
    "0-d": lambda array: array.resize((), refcheck=False),
    "bytes": lambda array: retyped(array, np.uint8),
    "another dtype": lambda array: retyped(array, np.int64),
    "axes swapped": lambda array: reshaped(array, (array.shape[-1], *array.shape[1:-1], array.shape[0])),
}

USES = {
    **{f"convert to {kind.__name__}": lambda x, kind=kind: sf.convert(x, kind) for kind in oracle.FORMATS},
    "convert with options": lambda x: sf.convert(x, sf.Masked, width=9, side="left"),
    "first": lambda x: x[0],
    "last": lambda x: x[-1],
    "slice": lambda x: x[1:],
    "backwards": lambda x: x[::-1],
    "mask": lambda x: x[np.array([True, False, True])],
    "several": lambda x: x[[2, 0, 2]],
    "iteration": list,
    "sum": sf.reduce_sum,
    "mean": sf.reduce_mean,
    "equal": lambda x: sf.equal(x, x),
    "like a Masked": lambda x: sf.convert_like(x, sf.Masked(np.zeros((3, 4, 2)), [2, 0, 3])),
    "like itself": lambda x: sf.convert_like(sf.Ragged(np.zeros((5, 2)), [2, 0, 3]), x),
    "gradient": lambda x: sf.vjp(sf.convert, x, sf.Padded)[1](np.zeros((3, 3, 2))),
    "wrapper": sf.with_ragged(lambda r: r.data * 2),
    "rows": sf.with_array(lambda rows: rows * 2),
    "steps": sf.with_padded(lambda p: p.data * 2),
    "copy": copy.copy,
    "deep copy": copy.deepcopy,
    "pickle": lambda x: pickle.loads(pickle.dumps(x)),
    "own copy": lambda x: sf.convert(x, type(x), copy=True),
    "array": np.asarray,
    "repr": repr,
    "lengths": sf.lengths,
    "nested": lambda x: x.to_nested(),
    "part": lambda x: x.sub(0, 2),
    "mask of": lambda x: x.mask,
    "device": lambda x: sf.to_device(x, "cpu"),
}
MOVES = [f"convert to {kind.__name__}" for kind in oracle.FORMATS] + ["sum", "mean", "several", "backwards", "mask of"]
MOVES += ["convert with options", "rows", "steps", "gradient", "equal", "iteration", "nested"]
OWN = {"rows": (sf.Ragged, sf.Packed), "steps": sf.Padded, "gradient": sf.Padded, "equal": sf.Ragged}  # nothing moves


@pytest.mark.parametrize("change", CHANGES)
@every_encoding
def test_data_changed_after_construction(kind, change, capfd):
    """An array can be resized under us; what reads it says so."""
    for name, use in USES.items():
        x = owner(kind)
        array = x.items[2] if kind is sf.List else x.data
        CHANGES[change](array)
        if array.shape == (owner(kind).items[2] if kind is sf.List else owner(kind).data).shape and array.dtype == "f8":
            continue  # a square, swapped
        absent = {"nested": sf.LoD, "part": sf.LoD, "mask of": sf.Masked}.get(name, kind) is not kind
        if absent:
            continue
        moves = name in MOVES and name != f"convert to {kind.__name__}" and not issubclass(kind, OWN.get(name, ()))
        try:
            result = use(x)
        except (sf.StructureError, TypeError) as error:
            assert name == "array" or not isinstance(error, TypeError), name
            assert not moves or "now" in str(error), f"{name}: {error}"
        except Exception as error:
            error.add_note(name)
            raise
        else:
            assert not moves, f"{name} gave {result!r}"
            if isinstance(result, oracle.ENCODINGS) and result is not x and name not in ("device", "own copy"):
                oracle.read(result)
    assert capfd.readouterr() == ("", "")


def test_an_array_of_pairs_changed_after_construction():
    rows = np.zeros((3, 2))
    x = sf.Pairs(sf.Ragged(np.zeros(3), [1, 0, 2]), rows)
    rows.resize((1, 2), refcheck=False)
    with pytest.raises((sf.StructureError, IndexError)):
        x[2]


def test_a_like_changed_after_construction():
    like = np.zeros((4, 3))
    x = sf.List([], like)
    reshaped(like, (3, 4))
    with contextlib.suppress(sf.StructureError):
        y = sf.convert(x, sf.Ragged)
        assert y.item_shape == x.item_shape == (3,)


# ---------------------------------------------------------------------------------------------- pickles


class Crafted:
    """Something whose pickle says what it likes."""

    def __init__(self, *reduced):
        self.reduced = reduced

    def __reduce__(self):
        return self.reduced


def crafted(*reduced):
    return pickle.loads(pickle.dumps(Crafted(*reduced)))


def test_pickles_with_other_arguments(capfd):
    rng = np.random.default_rng(11)
    met = set()
    for _ in range(CASES // 10):
        kind = pick(rng, oracle.ENCODINGS)
        fields = draw_fields(rng, kind)
        with contextlib.suppress(Exception):  # what is spoiled already cannot always be spoiled again
            fields = spoil(rng, fields)
        try:
            pickle.dumps(fields)
        except (TypeError, AttributeError, pickle.PicklingError):
            continue
        allowed = judge(kind, fields)
        order = [field.name for field in dataclasses.fields(kind)]
        try:
            x = crafted(kind, tuple(fields[name] for name in order))
        except DOCUMENTED as error:
            assert type(error) in allowed, error
        else:
            assert not allowed, x
            oracle.read(x)
        met |= allowed or {None}
    assert met == {None, TypeError, sf.StructureError}
    assert capfd.readouterr() == ("", "")


STATES = {
    sf.Ragged: [np.zeros(2), np.array([10**9])],
    sf.Padded: [np.zeros((2, 2)), np.array([9, 9]), np.array([9, 9]), np.array([7, 10**9])],
    sf.Packed: [np.zeros(4), np.array([9, 9]), np.array([9, 9]), np.array([7, 10**9])],
    sf.Masked: [np.zeros((2, 2)), np.array([10**9, 2]), "left"],
    sf.List: [(np.zeros(2), np.zeros((2, 2))), None],
    sf.LoD: [np.zeros(2), (np.array([0, 1]), np.array([0, 10**9]))],
}


@every_encoding
@pytest.mark.parametrize("form", ["list", "dict", "slots"])
def test_a_pickle_cannot_change_a_valid_object(kind, form):
    """A pickle may hand a state to the object that the constructor has made."""
    names = [field.name for field in dataclasses.fields(kind)]
    good = oracle.build(kind, strategies.truth_from([[1, 1], [2]], "f8", (), levels=2) if kind is sf.LoD else TWO)
    named = dict(zip(names, STATES[kind], strict=True))
    state = {"list": STATES[kind], "dict": named, "slots": (None, named)}[form]
    fields = tuple(getattr(good, name) for name in names)
    with pytest.raises((*DOCUMENTED, AttributeError, pickle.UnpicklingError)):
        crafted(kind, fields, state)


TWO = strategies.truth_from([2, 2], "f8", ())


@every_encoding
def test_a_pickle_without_a_constructor(kind):
    """An empty object holds nothing that a kernel could read."""
    x = crafted(object.__new__, (kind,))
    target = sf.Packed if kind is sf.Ragged else sf.Ragged
    for use in (lambda: sf.convert(x, target), lambda: x[0], lambda: sf.reduce_sum(x), lambda: sf.equal(x, x)):
        with pytest.raises((*DOCUMENTED, AttributeError)):
            use()


# -------------------------------------------------------------------------------------- options and arguments

NOTHING = object()
JUNK = [
    None,
    True,
    -1,
    0,
    7,
    2**62,
    2**63,
    3.0,
    float("nan"),
    1j,
    "3",
    "top",
    b"x",
    [],
    [1],
    [[1], 2],
    {},
    set(),
    object(),
]
JUNK += [np.zeros(()), np.zeros(2), np.zeros((2, 2), int), np.array(["a"]), np.array([None]), np.float32(2), np.ndarray]
JUNK += [
    int,
    list,
    sf.Ragged,
    sf,
    lambda: 1,
    [None],
    [np.zeros(1), 3],
    ["ab"],
    [[["x"]], 1],
    range(3),
    slice(None),
    ...,
]
JUNK += [[np.zeros(1), np.zeros((1, 2))], (np.zeros(()),), [[], [[]]], [np.array([None])], NotImplemented, Interface(5)]


def sample(kind=sf.Ragged):
    return oracle.build(kind, strategies.truth_from([2, 0, 3], "f4", (2,)))


def wrong(use, *, allow=()):
    """Run with junk: success with a valid result, or a documented error with words."""
    try:
        result = use()
    except (*DOCUMENTED, *allow) as error:
        assert str(error), f"{type(error).__name__} without words"
        return type(error)
    if isinstance(result, oracle.ENCODINGS):
        oracle.read(result)
    return None


OPTIONS = ["fill", "width", "multiple_of", "truncate", "side", "level", "copy"]


@pytest.mark.parametrize("target", oracle.FORMATS, ids=oracle.format_name)
@every_encoding
def test_absurd_options(kind, target):
    x = sample(kind)
    for name in OPTIONS:
        met = set()
        for junk in JUNK:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                met.add(wrong(lambda name=name, junk=junk: sf.convert(x, target, **{name: junk}), allow=(MemoryError,)))
        if name != "fill":
            assert TypeError in met, f"{name} took everything"
    oracle.assert_same(x, sample(kind))


def test_copy_is_true_or_false():
    for copy_ in ("yes", 1, None, np.zeros(2)):
        with pytest.raises(TypeError, match="copy"):
            sf.convert(sample(), sf.Masked, copy=copy_)


@pytest.mark.parametrize("item_shape", [(), (2,), (0,)])
@pytest.mark.parametrize("lengths", [[], [0], [2, 1]])
@pytest.mark.parametrize("target", oracle.PADDED, ids=oracle.format_name)
def test_a_width_past_all_memory(target, lengths, item_shape):
    x = sf.Ragged(np.zeros((sum(lengths), *item_shape)), lengths)
    for width in (2**62, 2**63 - 1, 2**63, 2**64 + 1):
        try:
            y = sf.convert(x, target, width=width)
        except (sf.ConversionError, MemoryError):
            continue
        assert lengths == [] or item_shape == (0,), "an impossible rectangle was made"
        assert oracle.read(y).lengths() == lengths


# -------------------------------------------------------------------------------------- every public operation

CALLS = int(os.environ.get("SEQFORMATS_FUZZ_CALLS") or (600 if INTERPRETED else 6_000))


def test_hostile_calls():
    """Every public operation with arguments of every odd kind; `SEQFORMATS_FUZZ_CALLS=100000` makes so many."""
    seed = int(os.environ.get("SEQFORMATS_FUZZ_SEED", "0"))
    found = hostile.failures(seed, CALLS)
    assert not found, "\n".join([f"{len(found)} of {CALLS} calls of seed {seed}:", *found])


@pytest.mark.peers
def test_hostile_calls_with_torch():
    pytest.importorskip("torch")
    seed = int(os.environ.get("SEQFORMATS_FUZZ_SEED", "0"))
    found = hostile.failures(seed, CALLS, torch=True)
    assert not found, "\n".join([f"{len(found)} of {CALLS} calls of seed {seed}:", *found])


def test_public_names_are_all_called():
    source = (pathlib.Path(__file__).parent / "hostile.py").read_text()
    classes = {"BeamDecoder", "BeamResult", "BeamState", "BeamTrace", "CTCAlignment", "CTCResult", "CTCState"}
    classes |= {"ConversionError", "DeviceError", "OutOfMemory", "StructureError", "SeqFormatError"}
    classes |= {"MaskedTokens", "NGrams", "SpanCorrupted", "TagSpans", "Templated", "TopK", "Unique"}
    classes |= {"from_arrow", "from_awkward", "from_njt", "from_table", "to_arrow", "to_awkward"}  # in tests/bridges
    classes |= {"batches"}  # in tests/loading
    classes |= {"Balance", "EditCounts", "Packs"}  # results
    settings = {"doctor", "keep_memory", "kept_memory", "num_threads", "set_num_threads"}
    named = {*re.findall(r"sf\.(\w+)", source), *hostile.REDUCTIONS}
    missing = set(sf.__all__) - named - classes - {"conversions", *settings}
    assert not missing


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda rng: sf.Ragged(np.zeros(2), [3]), None),
        (lambda rng: sf.Ragged(), None),
        (lambda rng: {}["key"], "KeyError"),
        (lambda rng: np.zeros(1).astype("f4") / 0, "RuntimeWarning"),
        (lambda rng: sf.convert_like(sf.Ragged(np.zeros(0), []), sf.Ragged(np.zeros(0), []))[None], None),
        (lambda rng: float(10**400), "OverflowError"),
    ],
)
def test_the_verdict_is_not_blind(call, words, monkeypatch):
    monkeypatch.setattr(hostile, "CALLS", {"call": call})
    said = hostile.verdict(0, 0)
    assert said is None if words is None else words in said


@pytest.mark.passes("compiled", reason="it tests the judge")
def test_crashes_and_hangs_are_named(monkeypatch, tmp_path):
    script = tmp_path / "hostile.py"
    text = (pathlib.Path(__file__).parent / "hostile.py").read_text()
    script.write_text(
        text.replace("def verdict(seed, call):", "def verdict(seed, call):\n    call == 3 and os.abort()", 1)
    )
    monkeypatch.setattr(hostile, "HERE", script)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([*sys.path]))
    found = hostile.failures(5, 6)
    assert [line.partition(":")[0] for line in found] == ["call 3 of seed 5"]
    assert "exit -6" in found[0]


# ------------------------------------------------------------------------------------------- nothing crashes

IN_A_PROCESS = """
import faulthandler, sys
faulthandler.enable()
import test_fuzz
test_fuzz.hammer(2, {cases})
for kind in test_fuzz.oracle.ENCODINGS:
    for change in test_fuzz.CHANGES.values():
        for use in test_fuzz.USES.values():
            x = test_fuzz.owner(kind)
            change(x.items[2] if kind is test_fuzz.sf.List else x.data)
            try:
                use(x)
            except (AttributeError, TypeError, ValueError, IndexError):
                pass
print("done")
"""


@pytest.mark.passes("compiled", "guarded", reason="kernels run as Python raise where others crash")
def test_nothing_crashes():
    """The same in a process of its own, where a crash shows in the exit code."""
    code = IN_A_PROCESS.format(cases=CASES // 3)
    here = pathlib.Path(__file__).parent
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=here, capture_output=True, text=True, timeout=600, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")
