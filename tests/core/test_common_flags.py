"""The flags that all arrays of a list have, which the extension and Python read alike."""

import contextlib

import numpy as np
import pytest

from seqformats import core
from seqformats.reading import common_flags


@pytest.mark.parametrize("way", [contextlib.nullcontext, core.python_only], ids=["extension", "Python"])
def test_flags_are_those_that_all_have(way):
    plain, frozen, odd = np.ones(2), np.ones(2), np.zeros(17, np.uint8)[1:].view(np.float64)
    frozen.flags.writeable = False
    own = plain.view(type("Own", (np.ndarray,), {}))
    with way():
        assert common_flags(()) == -1
        for items in [(plain,), (plain, frozen), (frozen, odd, plain), (plain, own, odd)]:
            expected = -1
            for item in items:
                expected &= item.flags.num
            assert common_flags(items) == expected
        with pytest.raises(TypeError, match="no array of NumPy"):
            common_flags((np.ones(2), 1.0))
