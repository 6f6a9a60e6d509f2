"""Structures that stay on a device until the host asks for them."""

import copy

import numpy as np
import oracle
import pytest
from libraries import SIMULATED, on_each_library

import seqformats as sf
from seqformats.formats.device_structure import LateStructure
from seqformats.formats.leaves import leaves

pytestmark = [
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
    pytest.mark.passes("compiled", "interpreted", reason="Numba checks no bounds on CUDA"),
]

LENGTHS = [3, 0, 5, 1, 2]
MANY = [*LENGTHS, *range(40)]


def numbers(lengths=LENGTHS, item=(3,)):
    return sf.Ragged(np.random.default_rng(0).normal(0, 1, (sum(lengths), *item)).astype("f4"), lengths)


@pytest.fixture
def waits(monkeypatch):
    """How many structures have come to the host."""
    arrived, found = LateStructure.to_host, []

    def noted(structure):
        if structure.late:
            found.append(structure)
        return arrived(structure)

    monkeypatch.setattr(LateStructure, "to_host", noted)
    return found


def by_offsets(gpu, x, dtype="i8", longest=None):
    offsets = gpu.up(x.offsets.astype(dtype))
    return sf.Ragged.from_offsets(gpu.up(x.data), offsets, longest=longest or x.max_length, trusted=True)


def by_lengths(gpu, x, dtype="i8"):
    lengths = gpu.up(x.lengths.astype(dtype))
    return sf.Ragged.from_row_lengths(gpu.up(x.data), lengths, longest=x.max_length, trusted=True)


def by_mask(gpu, x, dtype="?"):
    return sf.Masked.from_mask(gpu.up(x.data), gpu.up(x.mask.astype(dtype)), side=x.side, trusted=True)


def assert_same(gpu, found, wanted):
    for one, other in zip(leaves(gpu.down(found)), leaves(wanted), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


WITHOUT_WAITING = {
    "masked": lambda x: sf.convert(x, sf.Masked),
    "left": lambda x: sf.convert(x, sf.Masked, side="left", width=7, fill=2),
    "sum": sf.reduce_sum,
    "mean": sf.reduce_mean,
    "max": sf.reduce_max,
    "var": sf.reduce_var,
    "first": sf.reduce_first,
    "logsumexp": sf.reduce_logsumexp,
    "median": sf.reduce_median,
    "mode": sf.reduce_mode,
    "nunique": sf.reduce_nunique,
    "topk_mean": lambda x: sf.topk_mean(x, [1, 3]),
    "softmax": lambda x: sf.softmax(x).data,
    "cumsum": lambda x: sf.cumsum(x).data,
    "expand": lambda x: sf.expand(sf.reduce_sum(x), x),
    "expand_as": lambda x: sf.expand_as(sf.reduce_sum(x), x).data,
    "mask": lambda x: sf.convert(x, sf.Masked).mask,
    "gradient of a sum": lambda x: sf.vjp(sf.reduce_sum, x)[1](sf.reduce_sum(x)).data,
    "gradient of a median": lambda x: sf.vjp(sf.reduce_median, x)[1](sf.reduce_median(x)).data,
    "gradient of softmax": lambda x: sf.vjp(sf.softmax, x)[1](sf.softmax(x)).data,
}


@on_each_library
@pytest.mark.parametrize("come", [by_offsets, by_lengths])
@pytest.mark.parametrize("name", list(WITHOUT_WAITING))
def test_nothing_waits(gpu, name, come, waits):
    call, x = WITHOUT_WAITING[name], numbers()
    late = come(gpu, x)
    found = call(late)
    assert len(late) == len(x)
    assert late.rows == x.rows
    assert not waits
    wanted = call(x)
    if isinstance(wanted, sf.Masked):
        assert found.side == wanted.side
        oracle.assert_bits(found.lengths, wanted.lengths)  # which come from the host now
        assert len(waits) == 1
    assert_same(gpu, found, wanted)


@on_each_library
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("dtype", ["?", "u1", "i1", "i4", "i8"])
def test_masks(gpu, side, dtype, waits):
    x = sf.convert(numbers([*LENGTHS, 11, 34] if SIMULATED else MANY, ()), sf.Masked, side=side)
    late = by_mask(gpu, x, dtype)
    assert_same(gpu, sf.reduce_sum(late), sf.reduce_sum(x))
    assert_same(gpu, sf.softmax(late).data, sf.softmax(x).data)
    assert_same(gpu, sf.expand_as(sf.reduce_max(late), late).data, sf.expand_as(sf.reduce_max(x), x).data)
    for name in ("median", "mode", "nunique"):
        assert_same(gpu, getattr(sf, f"reduce_{name}")(late), getattr(sf, f"reduce_{name}")(x))
    oracle.assert_bits(gpu.down(late.mask), x.mask)
    assert not waits
    oracle.assert_layout(gpu.down(sf.convert(late, sf.Ragged)), sf.convert(x, sf.Ragged))
    oracle.assert_bits(late.lengths, x.lengths)
    assert late.rows == x.rows
    assert len(waits) == 1


@on_each_library
@pytest.mark.parametrize("come", [by_offsets, by_lengths])
@pytest.mark.parametrize("dtype", ["i4", "i8"])
@pytest.mark.parametrize("lengths", [[], [0], LENGTHS, MANY])
def test_who_asks_waits_once(gpu, come, dtype, lengths, waits):
    x = numbers(lengths, (2,))
    late = come(gpu, x, dtype)
    for kind in oracle.ENCODINGS:
        oracle.assert_layout(gpu.down(sf.convert(late, kind)), sf.convert(x, kind))
    assert sf.equal(gpu.down(late), x)
    assert late._structure.same_lengths(x._structure)
    oracle.assert_bits(late.lengths, x.lengths)
    oracle.assert_bits(late.offsets, x.offsets)
    assert repr(late).endswith(repr(x).split("cpu")[1])
    assert type(late) is sf.Ragged
    assert len(waits) == 1


@on_each_library
def test_a_copy_is_of_its_own_class(gpu):
    copied = copy.copy(by_offsets(gpu, numbers()))
    assert type(copied) is sf.Ragged
    oracle.assert_bits(copied.lengths, numbers().lengths)


@on_each_library
def test_more_than_the_longest_has(gpu, waits):
    x = numbers()
    late = by_offsets(gpu, x, longest=9)
    assert late.max_length == 9
    assert_same(gpu, sf.reduce_max(late), sf.reduce_max(x))
    wide = sf.convert(late, sf.Masked)
    assert wide.data.shape == (5, 9, 3)
    assert not waits
    for kind in (sf.Packed, sf.Ragged, sf.LoD):
        oracle.assert_layout(gpu.down(sf.convert(late, kind)), sf.convert(x, kind))
    for i in range(5):
        assert_same(gpu, late[i].data, x[i].data)


@on_each_library
def test_what_is_wrong_is_found_when_it_comes(gpu):
    data = gpu.up(np.zeros((4, 2), "f4"))
    for offsets, longest, words in (
        ([0, 3, 1, 4], 3, "must never fall"),
        ([0, 3, 4], 2, "the longest sequence has 3 rows, but longest is 2"),
        ([0, 3, 5], 3, "offsets must end with 4"),
        ([1, 4], 3, "must begin with 0"),
    ):
        late = sf.Ragged.from_offsets(data, gpu.up(np.array(offsets)), longest=longest, trusted=True)
        for _ in range(2):
            with pytest.raises(sf.StructureError, match=words):
                late.lengths  # noqa: B018


@on_each_library
def test_data_of_the_host_wants_the_lengths(gpu, waits):
    x = numbers()
    late = sf.Ragged.from_offsets(x.data, gpu.up(x.offsets), longest=5, trusted=True)
    assert len(waits) == 1
    oracle.assert_layout(sf.convert(late, sf.Packed), sf.convert(x, sf.Packed))
    there = by_offsets(gpu, x)
    rows = np.arange(5.0)
    oracle.assert_bits(sf.expand(rows, there), sf.expand(rows, x))
    assert len(waits) == 2
    there = by_offsets(gpu, x)
    oracle.assert_bits(sf.expand_as(rows, there).data, sf.expand_as(rows, x).data)


def test_on_the_host_all_is_checked():
    data, x = np.zeros((4, 2)), numbers([3, 1])
    assert sf.Ragged.from_offsets(data, [0, 3, 4], longest=3, trusted=True).max_length == 3
    assert sf.Ragged.from_offsets(data, [0, 3, 4], longest=7).max_length == 3
    with pytest.raises(sf.StructureError, match="the longest sequence has 3 rows, but longest is 2"):
        sf.Ragged.from_offsets(data, [0, 3, 4], longest=2, trusted=True)
    with pytest.raises(sf.StructureError, match="must never fall"):
        sf.Ragged.from_offsets(data, [0, 5, 4], longest=5, trusted=True)
    with pytest.raises(sf.StructureError, match="trusted=True needs longest="):
        sf.Ragged.from_row_lengths(data, [3, 1], trusted=True)
    with pytest.raises(sf.StructureError, match="longest must not be negative, but is -1"):
        sf.Ragged.from_row_lengths(data, [3, 1], longest=-1)
    with pytest.raises(TypeError, match="longest must be an integer"):
        sf.Ragged.from_row_lengths(data, [3, 1], longest=3.5)
    masked = sf.convert(x, sf.Masked, side="left")
    assert sf.Masked.from_mask(masked.data, masked.mask, side="left", trusted=True).side == "left"
    with pytest.raises(sf.StructureError, match="must have its padding on the right in every row"):
        sf.Masked.from_mask(masked.data, masked.mask, side="right")
    with pytest.raises(sf.StructureError, match="trusted=True needs side="):
        sf.Masked.from_mask(masked.data, masked.mask, trusted=True)
    with pytest.raises(sf.StructureError, match='side must be "right" or "left"'):
        sf.Masked.from_mask(masked.data, masked.mask, side="up")
    full = np.ones((2, 3), bool)
    assert sf.Masked.from_mask(np.zeros((2, 3)), full).side == "right"
    assert sf.Masked.from_mask(np.zeros((2, 3)), full, side="left").side == "left"


@on_each_library
def test_wrong_arrays_there(gpu):
    data = gpu.up(np.zeros((4, 2), "f4"))
    with pytest.raises(TypeError, match="offsets must be integers, not float32"):
        sf.Ragged.from_offsets(data, gpu.up(np.zeros(3, "f4")), longest=3, trusted=True)
    with pytest.raises(sf.StructureError, match=r"offsets must have one axis, but have shape \(3, 1\)"):
        sf.Ragged.from_offsets(data, gpu.up(np.zeros((3, 1), int)), longest=3, trusted=True)
    with pytest.raises(sf.StructureError, match="offsets must begin with 0"):
        sf.Ragged.from_offsets(data, gpu.up(np.zeros(0, int)), longest=3, trusted=True)
    with pytest.raises(sf.StructureError, match=r"mask has shape \(4, 3\)"):
        sf.Masked.from_mask(data, gpu.up(np.zeros((4, 3), bool)), side="left", trusted=True)
    with pytest.raises(TypeError, match="mask must be bool"):
        sf.Masked.from_mask(data, gpu.up(np.zeros((4, 2), "f4")), side="left", trusted=True)


def test_other_names_are_missing_as_before():
    x = numbers()
    assert not hasattr(x, "lenghts")
    with pytest.raises(AttributeError, match="'Ragged' object has no attribute 'lenghts'"):
        x.lenghts  # noqa: B018
