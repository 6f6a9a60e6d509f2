"""Text as batches and back, and what a list of strings is told elsewhere."""

import numpy as np
import oracle
import pytest
from hypothesis import given
from hypothesis import strategies as st

import seqformats as sf

every_encoding = pytest.mark.parametrize("kind", oracle.ENCODINGS, ids=oracle.format_name)
TEXTS = st.lists(st.text(st.characters(codec=None), max_size=9), max_size=5)


@every_encoding
@given(texts=TEXTS, unit=st.sampled_from(["codepoints", "bytes"]))
def test_there_and_back(arrays, kind, texts, unit):
    x = sf.from_text(texts, unit=unit)
    parts = [list(map(ord, t)) if unit == "codepoints" else list(t.encode("utf-8", "surrogatepass")) for t in texts]
    assert x.to_nested() == parts
    assert x.dtype == ("i4" if unit == "codepoints" else "u1")
    assert arrays.on(sf.to_text)(sf.convert(x, kind)) == texts


def test_levels_and_arrays_of_strings():
    assert sf.to_text(sf.nest(sf.from_text(["ab", "", "d"]), [2, 1])) == [["ab", ""], ["d"]]
    assert sf.from_text(np.array(["ab", "c"])).lengths.tolist() == [2, 1]
    assert sf.to_text([[104, 105], []]) == ["hi", ""]


ERRORS = {
    "one str; give": (TypeError, lambda: sf.from_text("ab")),
    "strings must be texts, but number 1 is 7": (TypeError, lambda: sf.from_text(["a", 7])),
    "unit must be 'codepoints' or 'bytes'": (sf.ConversionError, lambda: sf.from_text(["a"], unit="words")),
    "sequence 1 has the item -1, but code points": (sf.ConversionError, lambda: sf.to_text([[1], [-1]])),
    "sequence 1 is no UTF-8: unexpected end": (
        sf.ConversionError,
        lambda: sf.to_text(sf.Ragged(np.array([99, 200], np.uint8), [1, 1])),
    ),
    "items have dtype float64": (TypeError, lambda: sf.to_text([[1.5]])),
    r"items have shape \(2,\)": (sf.StructureError, lambda: sf.to_text(sf.Ragged(np.zeros((1, 2), int), [1]))),
    "a single item; sf.from_text": (sf.StructureError, lambda: sf.convert(["a rose"], sf.Ragged)),
    "str is no encoding; sf.from_text": (TypeError, lambda: sf.convert("a rose", sf.Ragged)),
}


@pytest.mark.parametrize("message", ERRORS)
def test_errors(message):
    kind, call = ERRORS[message]
    with pytest.raises(kind, match=message):
        call()
