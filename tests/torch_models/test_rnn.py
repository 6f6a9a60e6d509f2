"""Recurrent layers: what `nn.LSTM` and `nn.GRU` give on packed sequences, with all gradients, in every encoding."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import seqformats as sf

pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("ignore:.*torch.jit.script")]
torch = pytest.importorskip("torch")
nn, rnn = torch.nn, sf.torch.rnn
KINDS = [sf.List, sf.Ragged, sf.Padded, sf.Packed, sf.Masked, sf.LoD]
LSTM = {"kind": nn.LSTM, "hidden": 5}
GRU = {"kind": nn.GRU, "hidden": 5}
every_cell = pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])


@pytest.fixture(autouse=True)
def _same_numbers():
    torch.manual_seed(0)


@pytest.fixture
def alone(monkeypatch):
    """No layer of PyTorch may run."""
    monkeypatch.setattr(nn.RNNBase, "__call__", lambda *_: pytest.fail("PyTorch's layer has run"))


def states_of(module, n, dtype=torch.float64):
    shape = module.num_layers * (1 + module.bidirectional), n
    widths = (module.proj_size or module.hidden_size, module.hidden_size)[: 1 + isinstance(module, nn.LSTM)]
    return [torch.randn(*shape, width, dtype=dtype, requires_grad=True) for width in widths]


def as_given(states):
    return tuple(states) if len(states) == 2 else states[0]


def by_torch(module, parts, states):
    """Outputs of all rows and final states, by PackedSequence; empty sequences keep their state."""
    there = [k for k, part in enumerate(parts) if len(part)]
    width = (module.proj_size or module.hidden_size) * (1 + module.bidirectional)
    if not there:
        return torch.zeros(0, width, dtype=torch.float64), [s + 0 for s in states]
    packed = nn.utils.rnn.pack_sequence([parts[k] for k in there], enforce_sorted=False)
    y, final = module(packed, as_given([s[:, there] for s in states]))
    rows = nn.utils.rnn.unpack_sequence(y)
    finals = [s.index_copy(1, torch.tensor(there), f) for s, f in zip(states, as_list(final), strict=True)]
    return torch.cat(rows), finals


def as_list(state):
    return list(state) if isinstance(state, tuple) else [state]


def everything(module, lengths, x_of=lambda x: x, given=True):
    """Beside each other: outputs, states and all gradients, ours and PyTorch's."""
    flat = torch.randn(sum(lengths), module.input_size, dtype=torch.float64, requires_grad=True)
    states = states_of(module, len(lengths)) if given else []
    zeros = [torch.zeros_like(s) for s in states_of(module, len(lengths))]
    seed = torch.random.get_rng_state()
    y, final = rnn(module, x_of(sf.Ragged(flat, lengths)), as_given(states) if given else None)
    ours = [sf.convert(y, sf.Ragged).data, *as_list(final)]
    torch.random.set_rng_state(seed)
    with torch.no_grad():  # which keeps less in memory
        again, last = rnn(module, x_of(sf.Ragged(flat, lengths)), as_given(states) if given else None)
    assert all(
        torch.equal(a, b) for a, b in zip(ours, [sf.convert(again, sf.Ragged).data, *as_list(last)], strict=True)
    )
    torch.random.set_rng_state(seed)
    rows, finals = by_torch(module, flat.split(lengths), states if given else zeros)
    theirs = [rows, *finals]
    slopes = [torch.randn_like(t) for t in ours]
    wanted = [flat, *states, *[p for p in module.parameters() if p.requires_grad]]
    found = []
    for results in (ours, theirs):
        total = sum((t * s).sum() for t, s in zip(results, slopes, strict=True))
        gradients = (
            torch.autograd.grad(total, wanted, allow_unused=True) if total.requires_grad else [None] * len(wanted)
        )
        found.append([*results, *[torch.zeros((), dtype=torch.float64) if g is None else g for g in gradients]])
    return y, *found


def same(ours, theirs):
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b.expand_as(a), rtol=1e-10, atol=1e-10)


@given(
    kind=st.sampled_from([nn.LSTM, nn.GRU]),
    lengths=st.lists(st.integers(0, 8), max_size=12),
    encoding=st.sampled_from(KINDS),
    sizes=st.tuples(st.sampled_from([1, 7, 40, 300]), st.sampled_from([1, 5, 32, 33])),
    layers=st.integers(1, 3),
    flags=st.tuples(*[st.booleans()] * 3),
)
def test_equals_packed(kind, lengths, encoding, sizes, layers, flags):
    module = kind(*sizes, layers, bidirectional=flags[0], bias=flags[1], dropout=0.3 * (layers > 1)).double()
    y, ours, theirs = everything(module, lengths, lambda x: sf.convert(x, encoding), flags[2])
    assert type(y) is encoding
    assert np.array_equal(sf.lengths(y), lengths)
    same(ours, theirs)


@every_cell
def test_own_steps_run(kind, alone):
    x = sf.Ragged(torch.randn(6, 3), [2, 0, 4])
    with pytest.raises(pytest.fail.Exception):
        kind(3, 5)(x.data)
    rnn(kind(3, 5), x)
    sf.torch.Recurrent(kind(3, 5))(x)


@every_cell
@pytest.mark.parametrize("lengths", [[], [0, 0], [3, 3]], ids=str)
@pytest.mark.parametrize("first", [False, True])
def test_odd_batches(kind, lengths, first):
    for dtype in (torch.float32, torch.float64):
        module = kind(3, 5, 2, bidirectional=True, batch_first=first, dropout=0.3).to(dtype)
        x, states = (
            sf.Ragged(torch.randn(sum(lengths), 3, dtype=dtype), lengths),
            states_of(module, len(lengths), dtype),
        )
        seed = torch.random.get_rng_state()
        y, final = rnn(module, x, as_given(states))
        torch.random.set_rng_state(seed)
        packed, _ = rnn(module, sf.convert(x, sf.Packed), as_given(states))
        torch.random.set_rng_state(seed)
        torch.testing.assert_close(sf.convert(packed, sf.Ragged).data, y.data)
        assert y.data.shape == (sum(lengths), 10)
        if not sum(lengths):
            assert all(torch.equal(a, b) for a, b in zip(as_list(final), states, strict=True))
        else:
            rows, finals = by_torch(module, x.data.split(lengths), states)
            for a, b in zip([y.data, *as_list(final)], [rows, *finals], strict=True):
                torch.testing.assert_close(a, b)


@every_cell
def test_levels_and_lists(kind):
    module = kind(2, 4)
    flat = torch.randn(6, 2)
    deep = sf.LoD.from_lengths(flat, [[2, 1], [1, 2, 3]])
    y, _ = rnn(module, deep)
    assert [o.tolist() for o in y.lod] == [o.tolist() for o in deep.lod]
    parts, _ = rnn(module, list(flat.split([1, 2, 3])))
    assert type(parts) is list
    assert torch.equal(torch.cat(parts), y.data)
    left, _ = rnn(module, sf.convert(deep, sf.Masked, side="left", width=5))
    assert (left.side, left.data.shape) == ("left", (3, 5, 4))


@every_cell
def test_each_sequence_alone(kind):
    """Bit for bit, whatever stands beside it, and NaN stays where it is."""
    module = kind(7, 20, 2, bidirectional=True)
    lengths = [int(n) for n in np.random.default_rng(1).integers(0, 30, 21)]
    flat = torch.randn(sum(lengths), 7)
    y, _ = rnn(module, sf.Ragged(flat, lengths))
    for part, whole in zip(flat.split(lengths), y.data.split(lengths), strict=True):
        assert torch.equal(rnn(module, sf.Ragged(torch.cat([part, flat[:3]]), [len(part), 3]))[0].data[:-3], whole)
    flat[lengths[0]] = torch.nan
    z = rnn(module, sf.Ragged(flat, lengths))[0].data
    assert torch.equal(z[: lengths[0]], y.data[: lengths[0]])
    assert torch.equal(z[sum(lengths[:2]) :], y.data[sum(lengths[:2]) :])
    assert z[lengths[0] : sum(lengths[:2])].isnan().all()


@every_cell
def test_padding_is_never_read(kind):
    x = sf.convert(sf.Ragged(torch.randn(6, 2), [2, 4]), sf.Masked)
    dirty = sf.Masked(torch.where(x.mask[:, :, None], x.data, torch.nan), x.lengths)
    module = kind(2, 3)
    assert torch.equal(rnn(module, dirty)[0].data, rnn(module, x)[0].data)


@every_cell
def test_threads_change_nothing(kind, monkeypatch):
    steps = pytest.importorskip("seqformats.torch.steps")
    monkeypatch.setattr(steps, "WORTH", 0)
    module = kind(9, 33, bidirectional=True).double()
    found = []
    for count in (1, 3):
        sf.set_num_threads(count)
        torch.manual_seed(3)
        found.append(everything(module, [5, 0, 9, 1, 7, 7, 2, 3] * 4)[1])
    sf.set_num_threads(None)
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))


@every_cell
def test_gradcheck_and_no_second_derivative(kind):
    module = kind(2, 3, 2, bidirectional=True).double()
    leaf = torch.randn(6, 2, dtype=torch.float64, requires_grad=True)
    states = states_of(module, 3)

    def call(x, *states):
        y, final = rnn(module, sf.Ragged(x, [1, 3, 2]), as_given(states))
        return y.data, *as_list(final)

    assert torch.autograd.gradcheck(call, (leaf, *states))
    total = call(leaf, *states)[0].sum()
    first, second = (torch.autograd.grad(total, leaf, retain_graph=True)[0] for _ in range(2))
    assert torch.equal(first, second)
    (slope,) = torch.autograd.grad(total, leaf, create_graph=True)
    for wanted in (leaf, module.weight_hh_l0):
        with pytest.raises(TypeError, match=r"no second derivative.*to_torch.*SF308"):
            torch.autograd.grad(slope.sum(), wanted, retain_graph=True)
    p = sf.convert(sf.Ragged(leaf, [1, 3, 2]), sf.Packed).to_torch()
    (slope,) = torch.autograd.grad(module(p)[0].data.sum(), leaf, create_graph=True)  # what the message advises
    slope.sum().backward()


@every_cell
def test_frozen_and_shared_weights(kind):
    module = kind(5, 5, 2).double()
    module.weight_ih_l0.requires_grad_(False)
    module.bias_hh_l1.requires_grad_(False)
    module.weight_ih_l1 = module.weight_hh_l0
    same(*everything(module, [3, 1, 4])[1:])
    for p in module.parameters():
        p.requires_grad_(False)
    same(*everything(module, [3, 1, 4])[1:])


@every_cell
def test_weights_that_are_no_leaves(kind, alone):
    module = kind(3, 5).double()
    nn.utils.parametrizations.weight_norm(module, "weight_hh_l0")
    flat = torch.randn(5, 3, dtype=torch.float64)
    rnn(module, sf.Ragged(flat, [2, 3]))[0].data.sum().backward()
    slopes = [p.grad for p in module.parameters()]
    other = kind(3, 5).double()
    names = [name for name, _ in other.named_parameters()]
    fresh = [getattr(module, name).detach().requires_grad_() for name in names]
    y = torch.func.functional_call(
        sf.torch.Recurrent(other),
        {f"module.{n}": w for n, w in zip(names, fresh, strict=True)},
        (sf.Ragged(flat, [2, 3]),),
    )
    y.data.sum().backward()
    assert all(w.grad is not None for w in fresh)
    assert all(g is not None and g.isfinite().all() for g in slopes)


@every_cell
def test_parametrized_weights_are_calculated_once(kind):
    """A spectral norm learns with each calculation."""
    module, calls = kind(3, 5), []
    count = type("Count", (nn.Module,), {"forward": lambda _, w: calls.append(1) or w})()
    nn.utils.parametrize.register_parametrization(module, "weight_ih_l0", count)
    calls.clear()
    rnn(module, BATCH)
    assert len(calls) == 1


@every_cell
def test_weight_norm_equals_packed(kind):
    module = kind(3, 5).double()
    nn.utils.parametrizations.weight_norm(module, "weight_hh_l0")
    same(*everything(module, [2, 0, 3])[1:])


def test_hooks_are_called():
    module, seen = nn.LSTM(3, 5), []
    x = sf.Ragged(torch.randn(5, 3), [2, 3])
    y = rnn(module, x)[0].data
    handle = module.register_forward_hook(lambda *args: seen.append(type(args[1][0])))
    torch.testing.assert_close(rnn(module, x)[0].data, y)
    handle.remove()
    with nn.modules.module.register_module_forward_hook(lambda *args: seen.append(len(args))):
        rnn(module, x)
    assert seen == [nn.utils.rnn.PackedSequence, 3]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@every_cell
def test_half_precision_and_autocast(kind, dtype):
    module, x = kind(3, 5).to(dtype), sf.Ragged(torch.randn(5, 3, dtype=dtype), [2, 0, 3])
    y, final = rnn(module, x)
    rows, _ = by_torch(module, x.data.split([2, 0, 3]), [s.to(dtype) * 0 for s in states_of(module, 3)])
    assert y.dtype is dtype
    assert torch.equal(y.data, rows)
    assert as_list(final)[0].dtype is dtype
    with torch.autocast("cpu", torch.bfloat16):
        module, x = kind(3, 5), sf.Ragged(torch.randn(5, 3), [2, 3])
        packed = sf.convert(x, sf.Packed)
        assert torch.equal(rnn(module, packed)[0].data, module(packed.to_torch())[0].data)
        for other in (torch.float64, torch.int64):  # which autocast leaves as they are
            with pytest.raises(TypeError, match="items must have the dtype of the weights"):
                rnn(module, sf.Ragged(torch.ones(5, 3, dtype=other), [2, 3]))
        assert rnn(module.double(), sf.Ragged(torch.ones(5, 3).double(), [2, 3]))[0].dtype is torch.float64


@pytest.mark.parametrize(
    "module",
    [nn.LSTM(3, 5, 2, proj_size=2, bidirectional=True), nn.RNN(3, 5, 2), type("Own", (nn.GRU,), {})(3, 5)],
    ids=["projection", "RNN", "subclass"],
)
def test_other_layers_are_those_of_torch(module):
    module = copy.deepcopy(module).double()
    for lengths in ([3, 0, 4, 1], [], [0]):
        same(*everything(module, lengths)[1:])


LAYERS = {
    "LSTM": lambda: nn.LSTM(3, 5, 2, bidirectional=True),
    "GRU": lambda: nn.GRU(3, 5, bias=False),
    "projection": lambda: nn.LSTM(3, 5, proj_size=2),
    "RNN": lambda: nn.RNN(3, 5, nonlinearity="relu"),
}


@pytest.mark.parametrize("name", LAYERS)
def test_functional_transforms(name):
    module = LAYERS[name]().double()
    flat = torch.randn(6, 3, dtype=torch.float64)

    def total(flat):
        y, state = rnn(module, sf.Ragged(flat, [2, 0, 4]))
        return y.data.square().sum() + sum((s * s).sum() for s in as_list(state))

    leaf = flat.clone().requires_grad_()
    total(leaf).backward()
    same(
        [torch.func.grad(total)(flat), *torch.func.jvp(total, (flat,), (leaf,))],
        [leaf.grad, total(flat), (leaf.grad * flat).sum()],
    )
    same([torch.func.vmap(total)(torch.stack([flat, flat + 1]))], [torch.stack([total(flat), total(flat + 1)])])


@every_cell
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
def test_compiled(kind):
    """The graph ends before a layer, which PyTorch's compiler takes into none, and goes on behind a module."""
    inner, layer, before, behind = kind(3, 5), sf.torch.Recurrent(kind(3, 5)), nn.Linear(3, 3), nn.Linear(5, 2)
    flat, states, graphs = torch.randn(6, 3), states_of(inner, 3, torch.float32), []

    def by_module(flat, *states):
        x = sf.Ragged(before(flat).tanh(), torch.tensor([2, 0, 4]))
        return [behind(layer(x, as_given(states)).data) * 2]

    def by_function(flat, *states):
        x = sf.Ragged(before(flat).tanh(), torch.tensor([2, 0, 4]))
        y, final = rnn(inner, x, as_given(states))
        return [behind(y.data) * 2, *as_list(final)]

    for model, module in ((by_module, layer), (by_function, inner)):
        graphs.clear()
        compiled, found = torch.compile(model, backend=lambda graph, _: graphs.append(graph) or graph), []
        for run in (model, compiled):
            results = run(flat, *states)
            total = sum((y * y).sum() for y in results)
            found += [[*results, *torch.autograd.grad(total, [before.weight, *states, *module.parameters()])]]
        same(*found)
        assert len(graphs) >= 1 + (module is layer)
        with pytest.raises(RuntimeError, match=r"nn\.LSTM|GRU, or LSTM|ends the graph here: (Recurrent|rnn)"):
            torch.compile(model, fullgraph=True, backend="eager")(flat, *states)


@every_cell
def test_module(kind):
    inner = kind(3, 5, 2, dropout=0.5)
    before = copy.deepcopy(inner.state_dict())
    layer, x = sf.torch.Recurrent(inner), sf.Ragged(torch.randn(6, 3), [2, 0, 4])
    layer(x).data.sum().backward()
    inner.flatten_parameters()
    layer.eval()
    y = layer(x).data
    assert torch.equal(y, rnn(inner, x)[0].data)
    assert all(torch.equal(before[k], w) for k, w in inner.state_dict().items())
    assert list(layer.state_dict()) == [f"module.{k}" for k in before]
    for twin in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert torch.equal(twin(x).data, y)


def broken(module, **values):
    """A layer with other weights, which is what its sizes say no longer."""
    for name, value in values.items():
        setattr(module, name, None if value is None else nn.Parameter(value))
    return module


BATCH = sf.Ragged(torch.randn(5, 3), [2, 3])
SPARSE = torch.zeros(1, 2, 5).to_sparse()
WRONG = [
    (lambda: rnn(nn.Linear(3, 5), BATCH), TypeError, r"nn.LSTM, nn.GRU or nn.RNN, not Linear"),
    (lambda: sf.torch.Recurrent(nn.LSTMCell(3, 5)), TypeError, "Recurrent takes an nn.LSTM"),
    (lambda: rnn(nn.LSTM(3, 5), torch.randn(5, 3)), TypeError, "SF303"),
    (lambda: rnn(nn.LSTM(3, 5), {"a": BATCH}), TypeError, "SF303"),
    (lambda: rnn(nn.LSTM(3, 5), sf.Ragged(np.zeros((5, 3), np.float32), [2, 3])), TypeError, "not in numpy"),
    (lambda: rnn(nn.GRU(4, 5), BATCH), sf.StructureError, r"\(4,\).*\(3,\)"),
    (lambda: rnn(nn.GRU(3, 5), BATCH, torch.zeros(1, 3, 5)), sf.StructureError, r"\(1, 2, 5\).*\(1, 3, 5\)"),
    (lambda: rnn(nn.LSTM(3, 5), BATCH, torch.zeros(1, 2, 5)), TypeError, r"\(h, c\)"),
    (lambda: rnn(nn.LSTM(3, 5), BATCH, (torch.zeros(1, 2, 5), None)), TypeError, r"\(h, c\)"),
    (lambda: rnn(nn.GRU(3, 5), BATCH, np.zeros((1, 2, 5))), TypeError, "one tensor"),
    (
        lambda: rnn(nn.LSTM(3, 5), sf.Ragged(torch.ones(4, 3).long(), [2, 2])),
        TypeError,
        r"items .*float32, not torch.int64",
    ),
    (lambda: rnn(nn.GRU(3, 5).double(), BATCH), TypeError, r"items .*float64, not torch.float32"),
    (
        lambda: rnn(nn.LSTM(3, 5), BATCH, (torch.zeros(1, 2, 5), torch.zeros(1, 2, 5).double())),
        TypeError,
        "c must .*64",
    ),
    (lambda: rnn(nn.GRU(3, 5), BATCH, torch.zeros(1, 2, 5, device="meta")), sf.DeviceError, "meta"),
    (lambda: rnn(nn.GRU(3, 5), BATCH, SPARSE), TypeError, "h is a tensor with layout torch.sparse_coo"),
    (lambda: rnn(nn.LSTM(3, 5), BATCH, (SPARSE.to_dense(), SPARSE)), TypeError, "c is a tensor with layout"),
    (lambda: rnn(nn.RNN(3, 5), BATCH, torch.nested.nested_tensor([torch.zeros(2, 5)])), TypeError, "h is a nested"),
    *[
        (lambda kind=kind: rnn(kind(3, 5, device="meta"), BATCH), sf.DeviceError, "weight_ih_l0 is on meta")
        for kind in (nn.LSTM, nn.GRU, nn.RNN)
    ],
    (
        lambda: rnn(broken(nn.GRU(3, 5), weight_hh_l0=torch.zeros(15, 5).to_sparse()), BATCH),
        TypeError,
        "weight_hh_l0 is a tensor with layout",
    ),
    (
        lambda: rnn(broken(nn.GRU(3, 5), weight_hh_l0=torch.zeros(15, 5).double()), BATCH),
        TypeError,
        "weight_hh_l0 must have the dtype of the weights, torch.float32",
    ),
    (
        lambda: rnn(broken(nn.LSTM(3, 5), weight_hh_l0=torch.zeros(20, 6)), BATCH),
        sf.StructureError,
        r"weight_hh_l0 must have shape \(20, 5\).*\(20, 6\)",
    ),
    (lambda: rnn(broken(nn.GRU(3, 5), bias_ih_l0=None), BATCH), TypeError, "the layer has no bias_ih_l0"),
]


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize(("call", "kind", "words"), WRONG)
def test_mistakes(call, kind, words):
    with pytest.raises(kind, match=words):
        call()


@pytest.mark.parametrize(
    ("name", "value", "kind"),
    [
        ("num_layers", 2, TypeError),
        ("bidirectional", True, TypeError),
        ("hidden_size", 6, sf.StructureError),
        ("proj_size", 2, sf.StructureError),
    ],
)
@pytest.mark.parametrize("lengths", [[2, 3], [3, 3], [0]], ids=str)
def test_sizes_that_are_not_those_of_the_weights(name, value, kind, lengths):
    module = nn.LSTM(3, 5)
    setattr(module, name, value)
    with pytest.raises(kind, match="_l[01]"):
        rnn(module, sf.Ragged(torch.randn(sum(lengths), 3), lengths))


@every_cell
def test_weights_that_are_no_parameters_have_shapes_too(kind):
    module = kind(3, 5)
    del module.weight_ih_l0
    module.weight_ih_l0 = torch.zeros(5, 3)
    with pytest.raises(sf.StructureError, match="weight_ih_l0 must have shape"):
        rnn(module, BATCH)
