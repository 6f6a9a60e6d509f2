"""What moves and pads at once does the same as what moves, and then pads."""

import numpy as np
import oracle
import pytest
import strategies

import seqformats as sf
from seqformats.arrays import NUMPY
from seqformats.formats.rows import Source, move_and_pad

LENGTHS = [[3, 0, 1, 4], [5], [0, 0], [0, 2], [2, 2, 2], [40, 1, 0, 7, 33]]
TO = {
    "Masked": (sf.Masked, {}),
    "wide": (sf.Masked, {"width": 41}),
    "left": (sf.Masked, {"width": 41, "side": "left"}),
    "Padded": (sf.Padded, {}),
    "high": (sf.Padded, {"width": 43}),
}


@pytest.mark.parametrize("From", oracle.ENCODINGS, ids=oracle.format_name)
@pytest.mark.parametrize("to", TO)
@pytest.mark.parametrize("fill", [0, 7])
@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
@pytest.mark.parametrize("item", [(), (3,)], ids=str)
def test_on_the_host(From, to, fill, lengths, item):
    x = oracle.build(From, strategies.truth_from(lengths, np.dtype("i4"), item))
    kind, options = TO[to]
    found = x._read()
    source = found if isinstance(found, Source) else Source(*found)
    _, at, gaps = kind._output_spec(source.structure, *options.values())
    wanted = sf.convert(x, kind, fill=fill, **options)
    if gaps is None or not len(lengths):
        pytest.skip("nothing is free")
    out = np.full(wanted.data.shape, -1, "i4")
    filling = np.empty(0, "u1") if fill == 0 else NUMPY.item(fill, out.dtype, item)
    move_and_pad(source, out, at, filling, gaps[1] * gaps[2])
    np.testing.assert_array_equal(out, wanted.data)
