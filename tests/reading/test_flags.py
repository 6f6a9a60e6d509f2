"""The flags that all of some arrays have, read natively and in Python."""

import numpy as np
import pytest

from seqformats.reading import arrays, common_flags


@pytest.fixture(params=["natively", "in Python"], autouse=True)
def way(request, monkeypatch):
    if request.param == "in Python":
        monkeypatch.setattr(arrays, "_works", False)
    else:
        monkeypatch.setattr(arrays, "_works", None)  # asked anew


def test_flags_are_those_that_all_have():
    plain, frozen, odd = np.ones(2), np.ones(2), np.zeros(17, np.uint8)[1:].view(np.float64)
    frozen.flags.writeable = False
    own = plain.view(type("Own", (np.ndarray,), {}))
    assert common_flags(()) == -1
    for items in [(plain,), (plain, frozen), (frozen, odd, plain), (plain, own, odd)]:
        expected = -1
        for item in items:
            expected &= item.flags.num
        assert common_flags(items) == expected


def test_other_things_have_none():
    with pytest.raises(TypeError, match="no array of NumPy"):
        common_flags((np.ones(2), 1.0))
