"""Columns of Hugging Face's: what a tokenizer and a data set give goes in as it is."""

import numpy as np
import pytest

import seqformats as sf

pytestmark = pytest.mark.bridges

IDS = [[101, 7, 102], [101, 102], [101, 8, 9, 102]]


def test_a_batch_encoding():
    transformers = pytest.importorskip("transformers")
    batch = transformers.BatchEncoding({"input_ids": IDS, "attention_mask": [[1] * len(ids) for ids in IDS]})
    y = sf.convert(batch, sf.Masked, fill={"input_ids": 5}, library="torch")
    assert type(y) is dict
    assert y["input_ids"].data.tolist() == [[101, 7, 102, 5], [101, 102, 5, 5], [101, 8, 9, 102]]
    assert y["attention_mask"].data.tolist()[1] == [1, 1, 0, 0]
    padded = transformers.BatchEncoding({"input_ids": np.zeros((2, 3), int), "attention_mask": np.ones((2, 3), int)})
    with pytest.raises(TypeError, match="from_mask"):
        sf.convert(padded, sf.Ragged)
    assert sf.select(padded, [1])["input_ids"].shape == (1, 3)


def test_a_model_s_output():
    transformers = pytest.importorskip("transformers")
    outputs = pytest.importorskip("transformers.modeling_outputs")
    torch = pytest.importorskip("torch")

    def model(batch):
        hidden = batch["ids"].data.to(torch.float32)
        return outputs.TokenClassifierOutput(loss=hidden.sum(), logits=hidden.unsqueeze(-1) * torch.ones(2))

    ids = sf.convert(IDS, sf.Ragged, library="torch")
    found = sf.with_masked(model)({"ids": ids})
    assert type(found) is dict
    assert type(found["logits"]) is sf.Ragged
    assert found["logits"].data.shape == (9, 2)
    assert float(found["loss"]) == sum(map(sum, IDS))
    assert transformers is not None


def test_rows_of_a_data_set():
    datasets = pytest.importorskip("datasets")
    data = datasets.Dataset.from_dict({"ids": IDS, "label": [0, 1, 0]})
    assert sf.convert(data[:2], sf.Masked)["ids"].data.tolist() == [[101, 7, 102], [101, 102, 0]]
    seen = []

    def batched(rows):
        seen.append(type(rows))
        return sf.convert(sf.select(rows, [0]), list)

    mapped = data.map(batched, batched=True, batch_size=2, remove_columns=data.column_names)
    assert mapped[:] == {"ids": [IDS[0], IDS[2]], "label": [0, 0]}


def test_columns_of_arrow():
    """They are read, and options of what is read are theirs too."""
    pa = pytest.importorskip("pyarrow")
    columns = {"ids": pa.array(IDS), "text": pa.array(["a", "bc", ""]), "deep": pa.array([[[1], []], [], [[2, 3]]])}
    plain = sf.convert(columns, list)
    assert plain["ids"] == IDS
    assert plain["text"] == [[97], [98, 99], []]
    assert plain["deep"] == [[[1], []], [], [[2, 3]]]
    y = sf.convert(columns, sf.Masked, library="torch", dtype={"ids": "int32"}, level=0)
    assert str(y["ids"].dtype) == "torch.int32"
    assert str(y["text"].dtype) == "torch.uint8"
    assert y["deep"].data.tolist() == [[1, 0], [0, 0], [2, 3]]
    with pytest.raises(TypeError, match="batch"):
        sf.to_arrow(columns)
