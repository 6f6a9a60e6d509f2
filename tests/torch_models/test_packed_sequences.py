"""PyTorch's PackedSequence as a batch: an argument of functions, and what a wrapped function may give."""

import dataclasses

import numpy as np
import pytest
import valid_calls

import seqformats as sf

pytestmark = pytest.mark.peers
torch = pytest.importorskip("torch")
rnn = torch.nn.utils.rnn

ITEMS = [torch.randn(n, 3) for n in (2, 4, 1)]
RAGGED = sf.convert(ITEMS, sf.Ragged)
USES = {
    "like": lambda x: sf.convert_like(RAGGED, x),
    "wrapper": sf.with_masked(lambda m: m.data * 2),
    "keyword": lambda x: sf.with_ragged(lambda a, b: a.data + b.data)(RAGGED, b=x),
    "rnn": lambda x: sf.torch.rnn(torch.nn.GRU(3, 2).requires_grad_(False), x)[0],
    "vjp": lambda x: sf.vjp(sf.reduce_mean, x)[1](torch.ones(3, 3)),
    "tree": lambda x: sf.select({"x": x, "y": [1, 2, 3]}, [2, 0])["x"],
    "two": lambda x: sf.map_sequences(lambda a, b: a + b, x, x),
    "batches": lambda x: sf.join_batches(list(sf.batches(x, max_items=9, to=sf.Ragged))),
    "columns": lambda x: sf.join_batches([b["a"] for b in sf.batches({"a": x}, max_items=9, to=sf.Ragged)]),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("sorted_", [False, True])
def test_arguments(use, sorted_):
    """They are what the `Packed` of the same data is."""
    items = sorted(ITEMS, key=len, reverse=True) if sorted_ else ITEMS
    packed = rnn.pack_sequence(items, enforce_sorted=sorted_)
    torch.manual_seed(0)
    found = USES[use](packed)
    torch.manual_seed(0)
    wanted = USES[use](sf.Packed.from_torch(packed))
    assert type(found) is type(wanted)
    if isinstance(found, np.ndarray):
        assert np.array_equal(found, wanted)
    elif isinstance(found, torch.Tensor):
        assert torch.equal(found, wanted)
    else:
        assert sf.equal(found, wanted)


def to_packed(x):
    return sf.convert(x, sf.Packed).to_torch()


def parts_of(y):
    """All that a result holds, batches as their rows."""
    if isinstance(y, sf.LoD) or hasattr(y, "lengths") or hasattr(y, "batch_sizes") or getattr(y, "is_nested", False):
        x = sf.convert(y, sf.LoD)
        return [x.lengths(), x.data.tolist()]
    if dataclasses.is_dataclass(y):  # of results
        return parts_of(
            vars(y) if hasattr(y, "__dict__") else [getattr(y, field.name) for field in dataclasses.fields(y)]
        )
    if isinstance(y, (dict, list, tuple)):
        return [part for each in (y.values() if isinstance(y, dict) else y) for part in parts_of(each)]
    return [y.tolist() if hasattr(y, "tolist") else y]


CALLS = valid_calls.CALLS.keys() - {"equal", "show", "to_arrays", "gather", "scatter", "slice"}


@pytest.mark.parametrize("way", [sf.Ragged.to_njt, to_packed], ids=["nt", "packed"])
@pytest.mark.parametrize("name", sorted(CALLS | valid_calls.OF_MODULES.keys()))
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors is in prototype stage")
def test_every_function_takes_them(name, way, monkeypatch):
    """In the place of each batch, and of all: the result is that of the batch."""
    monkeypatch.setattr(valid_calls, "LENGTHS", [2, 1, 2])  # a PackedSequence has no empty sequence
    makers = valid_calls.CALLS | valid_calls.OF_MODULES
    given = makers[name]()
    batches = [key for key, x in given.items() if isinstance(x, sf.Ragged)]
    if not batches:
        return

    def called(changed):
        torch.manual_seed(0)
        new = {key: way(x) if key in changed else x for key, x in sent.items()}
        return parts_of(valid_calls.run(name, new))

    sent = {key: sf.to(x, "torch") if hasattr(x, "data") and not isinstance(x, type) else x for key, x in given.items()}
    wanted = called([])
    for changed in [*[[key] for key in batches], batches]:
        assert called(changed) == wanted


FLAT = sf.Ragged(torch.tensor([1.0, 2.0, 0.5, 3.0, 1.5, 2.5, 0.25]), [2, 4, 1])
FLAGS, TOKENS = FLAT._with_data(FLAT.data > 1), FLAT._with_data(torch.tensor([1, 0, 2, 1, 1, 2, 0]))
BESIDE = {
    "concat": lambda x, n: sf.concat([x, n(RAGGED)]),
    "labels": lambda x, n: sf.ctc_loss(x, n(sf.Ragged(torch.tensor([1, 2, 1]), [1, 1, 1])), normalised=False),
    "wrapper": lambda x, n: sf.with_masked(lambda a, b: a.data * b.data[..., None])(x, n(FLAT)),
    "gradient": lambda x, n: sf.vjp(sf.softmax, x)[1](n(RAGGED)),
}


@pytest.mark.parametrize("way", [sf.Ragged.to_njt, to_packed], ids=["nt", "packed"])
@pytest.mark.parametrize("use", BESIDE)
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors is in prototype stage")
def test_arguments_beside_another_batch(use, way):
    """Nested tensors, too, are what their rows are."""
    found, wanted = BESIDE[use](way(RAGGED), way), BESIDE[use](RAGGED, lambda x: x)
    assert all(torch.equal(a, b) for a, b in zip(leaves_of(found), leaves_of(wanted), strict=True))


def leaves_of(y):
    return [sf.convert(y, sf.Ragged).data if hasattr(y, "lengths") else torch.as_tensor(y)]


@pytest.mark.parametrize("kind", [sf.Ragged, sf.List, sf.Masked, sf.Packed])
def test_results(kind):
    """A wrapped layer of PyTorch: the batch comes back as the caller's, what stands beside it as it is."""
    lstm, x = torch.nn.LSTM(3, 2).requires_grad_(False), sf.convert(RAGGED, kind)
    wanted, states = lstm(rnn.pack_sequence(ITEMS, enforce_sorted=False))
    y = sf.with_packed(lambda p: lstm(p.to_torch())[0])(x)
    assert type(y) is kind
    assert torch.equal(torch.cat(rnn.unpack_sequence(wanted)), sf.convert(y, sf.Ragged).data)
    again, (h, c) = sf.with_packed(lambda p: lstm(p.to_torch()))(x)
    assert sf.equal(again, y)
    assert torch.equal(h, states[0])
    assert torch.equal(c, states[1])


@pytest.mark.parametrize("wrap", [sf.with_masked, sf.with_packed, sf.with_list, sf.with_array])
def test_a_bare_layer_is_an_error_that_says_what_works(wrap):
    gru = torch.nn.GRU(3, 2).requires_grad_(False)
    with pytest.raises(TypeError, match=r"(does not take|for one sequence); sf\.torch\.rnn\(module, x\).*SF301"):
        wrap(gru)
    assert sf.equal(sf.torch.Recurrent(gru)(RAGGED), sf.torch.rnn(gru, RAGGED)[0])


def test_tuples_of_pytorch_keep_their_type():
    found = sf.with_ragged(lambda r: torch.return_types.max((r.data * 2, "places")))(RAGGED)
    assert type(found) is torch.return_types.max
    assert sf.equal(found.values, RAGGED * 2)
    assert found.indices == "places"


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors is in prototype stage")
def test_nested_tensors_come_back():
    y = sf.with_ragged(lambda r: r.to_njt())(RAGGED.to_njt())
    assert sf.equal(y, RAGGED)
