"""Token ids as the inputs of a language model."""

import numpy as np
import oracle
import pipeline_oracle
import pytest
import strategies
from hypothesis import given
from hypothesis import strategies as st

import seqformats as sf

every_format = pytest.mark.parametrize("kind", oracle.FORMATS, ids=oracle.format_name)
KINDS = [np.dtype(code) for code in ("i8", "i4", "u1", "i2", "u8", ">i4")]
OPTIONS = {
    "side": strategies.sides(),
    "pad_id": st.integers(-3, 9),
    "multiple_of": st.integers(1, 5),
    "most": st.one_of(st.none(), st.integers(0, 9)),
    "truncation_side": strategies.sides(),
    "ignore": st.sampled_from([-100, 0, 2**62]),
}


@every_format
@given(data=st.data(), options=st.fixed_dictionaries(OPTIONS))
def test_model_inputs(arrays, kind, data, options):
    truth, x = data.draw(strategies.encoded(kind, kinds=arrays.of(KINDS), shapes=[()]))
    if kind is list and truth.dtype.kind == "f" and truth.rows():
        return
    sequences = [[int(item) % 2**31 for item in sequence] for sequence in truth.sequences()]
    x = sf.with_array(lambda rows: rows % 2**31)(x) if truth.dtype == np.uint64 and kind is not list else x
    if any(int(item) % 2**31 != int(item) for sequence in truth.sequences() for item in sequence):
        sequences = [[int(item) for item in sequence] for sequence in truth.sequences()]
        if any(item >= 2**63 for sequence in sequences for item in sequence):
            return
    found = arrays.on(lambda y: list(sf.model_inputs(y, library=None, **options).values()))(x)
    wanted = pipeline_oracle.model_inputs(sequences, **options)
    for array, (name, rows) in zip(found, wanted.items(), strict=True):
        assert type(array) is np.ndarray
        oracle.assert_bits(array, np.array(rows, np.int64).reshape(array.shape), name)
        assert array.shape[0] == len(sequences)
        assert array.flags.writeable


def test_without_labels():
    found = sf.model_inputs([[1, 2], [3]], labels=False, library="numpy")
    assert list(found) == ["input_ids", "attention_mask", "position_ids"]


@pytest.mark.parametrize("x", [[], [[]], [[], []], sf.List([]), [np.zeros(0)]], ids=repr)
def test_no_tokens(x):
    found = sf.model_inputs(x, library="numpy", multiple_of=8)
    for array in found.values():
        assert array.shape == (len(x), 0)
        assert array.dtype == np.int64


def test_a_batch_that_uses_threads():
    lengths = np.random.default_rng(0).integers(0, 900, 2000)
    x = sf.Ragged(np.arange(lengths.sum()), lengths)
    found, masked = sf.model_inputs(x, library="numpy"), sf.convert(x, sf.Masked, side="left")
    oracle.assert_bits(found["input_ids"], masked.data)
    oracle.assert_bits(found["attention_mask"], masked.mask.astype(np.int64))
    assert (found["position_ids"] == np.maximum(masked.mask.cumsum(1) - 1, 0)).all()
    assert (found["labels"] == np.where(masked.mask, masked.data, -100)).all()


ERRORS = {
    sf.ConversionError: {
        "side must be": {"side": "up"},
        "truncation_side must be": {"truncation_side": 1},
        "multiple_of must be at least 1": {"multiple_of": 0},
        "most must be at least 0": {"most": -1},
        "pad_id must fit int64": {"pad_id": 2**70},
        "library must be one of": {"library": "abacus"},
    },
    TypeError: {
        "labels must be": {"labels": 1},
        "ignore must be an integer": {"ignore": 0.5},
        "tokens are integers, but": {"ids": [[0.5]]},
        "tokens are integers": {"ids": [[True]]},
        "no single batch": {"ids": 3},
    },
    sf.StructureError: {
        "items of shape": {"ids": [np.zeros((2, 1), int)]},
        "must fit int64": {"ids": [np.array([2**63], "u8")]},
    },
    sf.OutOfMemory: {"no memory": {"multiple_of": 2**62}},
}
ERRORS = [(error, said, options) for error, calls in ERRORS.items() for said, options in calls.items()]


@pytest.mark.parametrize(("error", "said", "options"), ERRORS, ids=[said for _, said, _ in ERRORS])
def test_errors(error, said, options):
    with pytest.raises(error, match=said):
        sf.model_inputs(**{"ids": [[1, 2]], "library": "numpy", **options})


@pytest.mark.peers
def test_as_a_tokenizer_pads():
    torch = pytest.importorskip("torch")
    pad_sequence = torch.nn.utils.rnn.pad_sequence
    lists = [[5, 3, 8], [], [7]]
    found = sf.model_inputs(lists, pad_id=9)
    ids = pad_sequence([torch.tensor(row, dtype=torch.int64) for row in lists], True, 9, "left")
    mask = pad_sequence([torch.ones(len(row), dtype=torch.int64) for row in lists], True, 0, "left")
    positions = (mask.cumsum(-1) - 1).masked_fill(mask == 0, 0)  # as `generate` of transformers does
    labels = ids.masked_fill(mask == 0, -100)
    for array, wanted in zip(found.values(), (ids, mask, positions, labels), strict=True):
        assert isinstance(array, torch.Tensor)
        assert torch.equal(array, wanted)
