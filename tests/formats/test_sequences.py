"""`sequences()` and `to_nested()` of every encoding."""

import numpy as np
import oracle
import pytest
import strategies
from hypothesis import given
from hypothesis import strategies as st

import seqformats as sf

every_encoding = pytest.mark.parametrize("kind", oracle.ENCODINGS, ids=oracle.format_name)
VIEWS = (sf.List, sf.Ragged, sf.Masked, sf.Padded, sf.LoD)


@every_encoding
@given(data=st.data())
def test_sequences(arrays, kind, data):
    truth, x = data.draw(strategies.encoded(kind, kinds=arrays.dtypes))
    wanted = [truth.array(sequence) for sequence in truth.sequences()]
    found = arrays.up(x).sequences()
    assert len(found) == len(wanted)
    for array, other in zip(arrays.down(list(found)), wanted, strict=True):
        oracle.assert_bits(array, other)
    if wanted:
        i = data.draw(strategies.positions(len(wanted)))
        oracle.assert_bits(arrays.down([found[i]])[0], wanted[int(i)])
    index = data.draw(strategies.slices(len(wanted)))
    some = found[index]
    assert isinstance(some, tuple)
    for array, other in zip(arrays.down(list(some)), wanted[index], strict=True):
        oracle.assert_bits(array, other)


@every_encoding
def test_views(kind):
    truth = strategies.truth_from([3, 0, 1], "f8", (2,))
    x = oracle.build(kind, truth)
    assert all(oracle.shares(x, array) == (kind in VIEWS and array.size > 0) for array in x.sequences())
    assert oracle.shares(x, x.sequences()[0]) == (kind in VIEWS)
    assert "sequences of" in repr(x.sequences())


@every_encoding
def test_indices_that_do_not_exist(kind):
    found = oracle.build(kind, strategies.truth_from([3, 0], "f8")).sequences()
    for wrong in (2, -3, 2**70):
        with pytest.raises(IndexError, match="out of range for 2 sequences"):
            found[wrong]
    for wrong in (1.0, None, "a", [0]):
        with pytest.raises(TypeError, match="an index must be"):
            found[wrong]
    with pytest.raises(IndexError, match="step"):
        found[::0]


def test_data_that_has_changed_since():
    x = sf.Ragged(np.arange(6), [2, 4])
    found = x.sequences()
    x.data.resize(4, refcheck=False)
    for use in (lambda: found[0], lambda: list(found), x.sequences):
        with pytest.raises(sf.StructureError, match="build a new one"):
            use()


@every_encoding
@given(data=st.data())
def test_to_nested(arrays, kind, data):
    _, x = data.draw(strategies.encoded(kind, kinds=arrays.dtypes))
    oracle.assert_nested(arrays.down(arrays.up(x).to_nested()), sf.convert(x, list))
    oracle.assert_nested(arrays.down(arrays.up(x).to_nested()), sf.convert(sf.convert(x, sf.LoD), list))
