"""What users try with tensors and batches, line by line: it works, or the error says what does."""

import copy
import functools

import numpy as np
import pytest
from checks import words_of

import seqformats as sf

pytestmark = pytest.mark.peers
torch = pytest.importorskip("torch")

from torch.utils import _pytree  # noqa: E402  where torch is there
from torch.utils.data import default_collate  # noqa: E402
from torch.utils.data._utils.pin_memory import pin_memory  # noqa: E402

LENGTHS = [2, 4, 1]


def x():
    return sf.Ragged(torch.arange(21.0).reshape(7, 3), LENGTHS)


def ids():
    return sf.Ragged(torch.arange(7), LENGTHS)


def sentence(kind, use):
    with pytest.raises(kind) as caught:
        use()
    return words_of(caught.value) if hasattr(caught.value, "code") else str(caught.value)  # of PyTorch


def test_columns_come_in():
    assert sf.convert({"input_ids": [[1, 2], [3]]}, sf.Masked)["input_ids"].data.tolist() == [[1, 2], [3, 0]]
    assert list(sf.convert({"a": ids(), "b": x(), "c": ids()}, sf.Masked)) == ["a", "b", "c"]


def test_pinning_asks_the_batch():
    """Without a GPU tensors say that there is none; nothing is left unpinned in silence."""
    if not torch.cuda.is_available():
        with pytest.raises(RuntimeError):
            pin_memory(x())
    else:
        assert pin_memory(x()).is_pinned()


def test_methods_of_tensors():
    assert x().to("cpu").detach().cpu().dtype is torch.float32


def test_pytrees():
    assert _pytree.tree_map(lambda leaf: leaf + 1, x()).data.sum() == x().data.sum() + 21


def test_saving(tmp_path):
    torch.save(x(), tmp_path / "x.pt")
    assert sf.equal(torch.load(tmp_path / "x.pt"), x())


def test_lengths_in_tensors():
    """A warning would be an error here."""
    assert x().lengths_tensor().tolist() == LENGTHS


def test_collating():
    samples = [{"ids": torch.arange(2)}, {"ids": torch.arange(3)}]
    assert "equal size" in sentence(RuntimeError, lambda: default_collate(samples))  # which is not ours to change
    assert sf.torch.collate(samples)["ids"].lengths.tolist() == [2, 3]
    batches = [{"ids": sf.Ragged(sample["ids"], [len(sample["ids"])])} for sample in samples]
    assert default_collate(batches)["ids"].lengths.tolist() == [2, 3]


def test_a_second_list():
    a = [np.arange(2), np.arange(3)]
    assert "sf.List(...)" in sentence(TypeError, lambda: sf.with_masked(lambda p, q: p.data + q.data)(a, a))


def test_lengths_alone():
    assert sf.position_ids(LENGTHS).tolist() == [0, 1, 0, 1, 2, 3, 0]
    assert sf.segment_ids(LENGTHS).tolist() == [0, 0, 1, 1, 1, 1, 2]


@pytest.mark.parametrize("option", ["width", "max_length", "truncation"])
@pytest.mark.parametrize("target", [sf.Ragged, sf.Packed])
def test_cutting(option, target):
    said = sentence(TypeError, lambda: sf.convert(ids(), target, **{option: 2}))
    assert "sf.truncate(x, k)" in said
    assert sf.truncate(ids(), 2).lengths.tolist() == [2, 2, 1]


def test_names_of_encodings_and_options():
    assert "give sf.Masked" in sentence(TypeError, lambda: sf.convert(x(), "masked"))
    assert "width=" in sentence(TypeError, lambda: sf.convert(x(), sf.Masked, max_length=3))


def test_pooling_in_a_wrapper():
    assert "without with_masked" in sentence(sf.StructureError, lambda: sf.with_masked(lambda m: m.data.sum(1))(x()))


def test_a_sequence_that_no_batch_holds():
    assert "9" in sentence(sf.SeqFormatError, lambda: sf.buckets([3, 9], 4))
    sampler = sf.torch.BucketSampler([3, 9, 2], 9, seed=1)
    assert sorted(i for batch in sampler for i in batch) == [0, 1, 2]


def test_a_loader_of_batches():
    samples = [{"ids": np.arange(k), "label": k} for k in (2, 3)]
    loader = torch.utils.data.DataLoader(samples, 2, collate_fn=functools.partial(sf.torch.collate, to=sf.Ragged))
    (batch,) = loader
    assert batch["ids"].lengths_tensor().tolist() == [2, 3]
    assert batch["label"].tolist() == [2, 3]


def test_copies():
    assert sf.equal(copy.deepcopy(x()), x())
    assert sf.equal(copy.copy(x()), x())


def test_hints_about_other_libraries():
    class Array:
        __module__ = "awkward.highlevel"

    Array.__name__ = "Array"
    assert "sf.from_awkward(x)" in sentence(TypeError, lambda: sf.convert(Array(), sf.Ragged))
