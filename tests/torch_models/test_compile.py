"""Models that use encodings under ``torch.compile``: as eager, in few graphs; what cannot be in a graph ends it."""

import functools
import inspect
import pickle
import subprocess
import sys
import warnings

import every_call
import numpy as np
import pytest
from graph_calls import asking, assert_same, batch, one_head
from graph_calls import one as of_one

import seqformats as sf

pytestmark = pytest.mark.peers

# So many sequences, the longest so long; the compiler makes a graph of its own for a size of 0 or 1
SHAPES = [
    (2, 9),
    (5, 4),
    (3, 17),
    (9, 3),
    (4, 30),
    (16, 6),
    (7, 11),
    (2, 2),
    (12, 25),
    (6, 8),
]


@pytest.fixture(autouse=True)
def fresh():
    import torch
    from torch._dynamo.utils import counters

    torch.compiler.reset()
    counters.clear()
    yield
    torch.compiler.reset()


def graphs():
    from torch._dynamo.utils import counters

    return counters["stats"]["unique_graphs"]


def fresh_process(code, *args):
    command = [sys.executable, "-W", "ignore", "-c", code, *args]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def random_ids(n, most, seed=0):
    import torch

    rng = np.random.default_rng([n, most, seed])
    lengths = rng.integers(0, most + 1, n)
    lengths[0] = most
    return sf.Ragged(torch.from_numpy(rng.integers(0, 50, lengths.sum())), lengths)


@functools.cache
def model_class():
    import torch

    class Model(torch.nn.Module):
        """As a user would write it, without a word about graphs."""

        def __init__(self, closure=False):
            super().__init__()
            self.emb = torch.nn.Embedding(50, 8)
            self.attention = torch.nn.MultiheadAttention(8, 2, batch_first=True)
            self.linear = torch.nn.Linear(8, 6)
            self.project = sf.with_array(self.linear)
            self.out = torch.nn.Linear(6, 3)
            self.mix = sf.with_masked(self.attend)
            self.closure = closure

        def attend(self, m):
            return self.attention(m.data, m.data, m.data, key_padding_mask=~m.mask, need_weights=False)[0]

        def forward(self, x):
            x = sf.Ragged(self.emb(x.data), x.lengths)
            if self.closure:

                @sf.with_masked(side="left", multiple_of=4)
                def mix(m):
                    return self.attend(m)

                h = mix(x)
            else:
                h = self.mix(x)
            h = self.project(h)
            mean = sf.reduce_mean(h)
            weights = sf.softmax(h)
            spread = sf.expand_as(mean, h)
            same = sf.expand(mean, h)
            y = sf.Ragged(weights.data * spread.data + same, h.lengths)
            return self.out(mean) + self.out(sf.reduce_max(y, empty=0.5))

    return Model


class Tensors:
    """The same model of tensors."""

    def __new__(cls, model):
        import torch

        class OfTensors(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.model = model

            def forward(self, data, lengths):
                return self.model(sf.Ragged(data, lengths))

        return OfTensors()


def check_model(model, args_of, backend, shapes):
    """Values, gradients and graphs."""
    import torch

    compiled = torch.compile(model, fullgraph=True, backend=backend)
    for n, most in shapes:
        args = args_of(random_ids(n, most))
        found = []
        for run in (model, compiled):
            model.zero_grad()
            y = run(*args)
            y.square().sum().backward()
            found.append([y.detach(), *[p.grad.clone() for p in model.parameters()]])
        for eager, in_graph in zip(*found, strict=True):
            torch.testing.assert_close(in_graph, eager, rtol=1e-4, atol=1e-5, equal_nan=True)
    assert graphs() <= 2


@pytest.mark.parametrize("closure", [False, True])
def test_a_model_of_encodings(closure):
    import torch

    torch.manual_seed(0)
    check_model(model_class()(closure), lambda x: (x,), "eager", SHAPES)


def test_a_model_of_tensors():
    """Their lengths are known when the graph runs alone."""
    import torch

    torch.manual_seed(0)
    model = Tensors(model_class()())
    check_model(model, lambda x: (x.data, torch.tensor(x.lengths)), "eager", SHAPES)


@pytest.mark.filterwarnings("ignore")  # PyTorch's own, about its parts
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_backends_that_trace_gradients(backend):
    import torch

    torch.manual_seed(0)

    class Small(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(3, 4)
            self.project = sf.with_array(self.linear)

        def forward(self, x):
            m = sf.convert(sf.softmax(self.project(x)), sf.Masked)
            return m.data.square().sum(1) + sf.reduce_mean(m)

    check_model(Small(), lambda x: (sf.Ragged(torch.randn(x.rows, 3), x.lengths),), backend, SHAPES[:4])


# --- encodings in and out ---------------------------------------------------------------------------------------------

KINDS = (sf.Ragged, sf.Masked, sf.Padded, sf.Packed)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("To", KINDS)
def test_what_leaves_a_graph_is_an_encoding(kind, To):
    """It can be converted, indexed, pickled, sent through another graph; in few graphs; with its gradient."""
    import torch

    def function(x):
        return sf.convert(x, To), sf.reverse(x)

    compiled = torch.compile(function, fullgraph=True, backend="eager")
    for lengths in ((3, 0, 2, 6), (1, 5, 0), (2, 2), (0, 7, 3, 3, 1)):
        x = asking(batch(lengths, kind=kind))
        for found, wanted in zip(compiled(x), function(x), strict=True):
            assert_same(found, wanted)
            assert type(found._structure) is type(wanted._structure)
            assert np.array_equal(found.lengths, wanted.lengths)
            assert not found.lengths.flags.writeable
            (slope,) = torch.autograd.grad(found.data.square().sum(), x.data)
            (other,) = torch.autograd.grad(wanted.data.square().sum(), x.data)
            torch.testing.assert_close(slope, other)
            detached = found._with_data(found.data.detach())
            assert sf.equal(pickle.loads(pickle.dumps(detached)), detached)
    assert graphs() <= 2
    assert sf.equal(compiled(detached)[1], sf.reverse(detached))


def test_attributes_in_a_graph():
    import torch

    def function(r, m, p):
        assert isinstance(m, sf.Masked)
        assert not isinstance(r, sf.Masked)
        assert m.side == "left"
        assert r.item_shape == (2,)
        assert r.dtype is torch.float32
        assert r.device == "cpu"
        numbers = torch.as_tensor(r.lengths), torch.as_tensor(r.offsets), torch.as_tensor(p.lengths)
        others = torch.as_tensor(p.indices), torch.as_tensor(p.size_at_t), torch.as_tensor(sf.lengths(p))
        return *numbers, *others, m.mask, torch.arange(len(r) + r.rows + m.max_length)

    x = batch((3, 0, 2, 4))
    args = x, sf.convert(x, sf.Masked, side="left", width=6), sf.convert(x, sf.Padded)
    found = torch.compile(function, fullgraph=True, backend="eager")(*args)
    wanted = (x.lengths, x.offsets, args[2].lengths, args[2].indices, args[2].size_at_t, x.lengths)
    for one, two in zip(found, (*wanted, args[1].mask, range(17)), strict=True):
        assert one.tolist() == list(two) if isinstance(two, range) else one.tolist() == two.tolist()


def test_built_in_a_graph():
    """Of lengths from anywhere; those that do not fit are an error when the graph runs."""
    import torch

    def function(data, lengths):
        return (sf.Ragged(data, lengths),)

    compiled = torch.compile(function, fullgraph=True, backend="eager")
    for lengths in ([2, 3], [0, 5, 1], [1, 1, 1, 1]):
        data = torch.randn(sum(lengths), 2)
        for x in compiled(data, torch.tensor(lengths)):
            assert_same(x, sf.Ragged(data, lengths))
    with pytest.raises(sf.StructureError, match="add up to 7"):
        compiled(torch.randn(9, 2), torch.tensor([4, 3, 0]))
    listed = torch.compile(lambda data: sf.Ragged(data, [2, 1]), fullgraph=True, backend="eager")
    assert_same(listed(data[:3]), sf.Ragged(data[:3], [2, 1]))


def test_lengths_that_depend_on_the_items():
    import torch

    def function(t):
        kept = sf.erase(t, [1, 3, 5])
        return kept, sf.reduce_sum(kept), sf.convert(kept, sf.Masked)

    compiled = torch.compile(function, fullgraph=True, backend="eager")
    for lengths in ((3, 0, 2, 4), (1, 5, 0), (6, 6)):
        t = batch(lengths, item=(), dtype="int64")
        for found, wanted in zip(compiled(t), function(t), strict=True):
            assert_same(found, wanted)
    assert graphs() <= 2


def test_two_batches_and_a_wrapped_function_of_keywords():
    import torch

    @sf.with_masked
    def mixed(m, scale, other=None):
        return m.data * scale + other.data, scale

    def function(x, y):
        return mixed(x, 2.0, other=y)

    x = batch((3, 0, 2))
    y = sf.softmax(x)
    found, scale = torch.compile(function, fullgraph=True, backend="eager")(x, y)
    assert scale == 2.0
    assert_same(found, function(x, y)[0])


@pytest.mark.parametrize("dtype", ["float32", "bool"])
@pytest.mark.parametrize("kind", [sf.Masked, sf.Padded])
def test_a_rectangle_keeps_zeros_in_its_padding(kind, dtype):
    import torch

    wrap = sf.with_masked if kind is sf.Masked else sf.with_padded
    function = wrap(lambda m: torch.ones_like(m.data))
    m = batch((3, 0, 2), kind=kind, dtype=dtype, width=5)
    m = sf.convert(m, kind, side="left") if kind is sf.Masked else m
    found, wanted = torch.compile(function, fullgraph=True, backend="eager")(m), function(m)
    assert_same(found, wanted)
    assert torch.equal(found.data, wanted.data)


@pytest.mark.parametrize("kind", [sf.Masked, sf.Padded])
@pytest.mark.parametrize("whole", [True, False])
def test_a_rectangle_keeps_its_width(kind, whole):
    """Where another side, fill or multiple is asked for; a width that is asked for is too small where it is outside."""
    import torch

    x = batch((3, 0, 2), kind=kind, width=6)
    asked = [{"fill": -1}, {"multiple_of": 4}, {"width": 3}, {"width": 9}, {"width": 4, "multiple_of": 5}]
    if kind is sf.Masked:
        x = sf.convert(x, sf.Masked, side="left")
        asked += [{"side": "right"}, {"side": "right", "multiple_of": 4}, {"side": "left", "fill": 2}]
    for options in asked:
        torch.compiler.reset()
        compiled = torch.compile(lambda x, o=options: sf.convert(x, kind, **o), fullgraph=whole, backend="eager")
        assert_same(compiled(x), sf.convert(x, kind, **options))
    for options in ({"width": 2}, {"width": 2, "multiple_of": 4}):
        torch.compiler.reset()
        compiled = torch.compile(lambda x, o=options: sf.convert(x, kind, **o), fullgraph=whole, backend="eager")
        with pytest.raises(sf.ConversionError, match="too small"):
            compiled(x)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("whole", [True, False])
def test_a_layer_over_an_argument(kind, whole):
    """The result has the structure of the argument, of which nothing in the graph has asked."""
    import torch

    layer = sf.with_array(torch.nn.Linear(2, 3))
    compiled = torch.compile(lambda x: layer(x), fullgraph=whole, backend="eager")
    for lengths in ((3, 0, 2), (1, 5, 0, 4), (6, 6)):
        x = asking(batch(lengths, kind=kind))
        found, wanted = compiled(x), layer(x)
        assert_same(found, wanted)
        assert found.data.requires_grad
    assert graphs() <= 2


@pytest.mark.parametrize("kind", KINDS)
def test_a_wrapped_function_may_build_its_result(kind):
    """Of the lengths that it is given, or of others, in one graph."""
    import torch

    same = sf.with_ragged(lambda r: sf.Ragged(r.data * 2, r.lengths))
    other = sf.with_ragged(lambda r: sf.concat([r, r]))
    compiled = torch.compile(lambda x: (same(x), other(x)), fullgraph=True, backend="eager")
    for lengths in ((3, 0, 2), (1, 5, 0, 4), (6, 6)):
        x = batch(lengths, kind=kind)
        for found, wanted in zip(compiled(x), (same(x), other(x)), strict=True):
            assert_same(found, wanted)
    assert graphs() <= 2


def test_lengths_of_a_batch_are_an_argument():
    """The compiler takes no view of an array that nobody may write to, so these are copies of their own."""
    import torch

    x = batch((3, 0, 2))
    compiled = torch.compile(lambda data, lengths: sf.Ragged(data, lengths), fullgraph=True, backend="eager")
    for lengths in (x.lengths, sf.lengths(x)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of PyTorch, that it could write to them
            assert_same(compiled(x.data, lengths), x)


def test_functions_that_the_compiler_leaves_alone_are_what_they_were():
    import torch._dynamo

    assert torch._dynamo is not None
    assert next(iter(inspect.signature(sf.chunk).parameters)) == "x"
    assert pickle.loads(pickle.dumps(sf.chunk)) is sf.chunk
    with pytest.raises(TypeError, match="chunk"):
        sf.chunk()
    assert list(inspect.signature(sf.attention).parameters)[:3] == ["q", "k", "v"]
    x = batch((1, 2))
    with pytest.raises(TypeError) as caught:
        x + "one"
    for entry in caught.traceback:  # as a debugger asks
        assert isinstance(entry.locals, dict)


def test_gradients_of_arguments_by_keyword_go_where_they_belong():
    import torch

    one, two, three = [asking(batch((3, 0, 2), item=(2, 4))) for _ in range(3)]
    slopes = []
    for run in (sf.attention, torch.compile(sf.attention, backend="eager", fullgraph=True)):
        y = run(v=three, q=one, k=two, causal=True)
        slopes.append(torch.autograd.grad(y.data.square().sum(), [one.data, two.data, three.data]))
    for eager, in_graph in zip(*slopes, strict=True):
        torch.testing.assert_close(in_graph, eager)


FIRST_CALL = """
import sys
import seqformats as sf
import torch

layer = torch.nn.Linear(3, 2)
rows = torch.ones(4, 3)


def function(rows):
    return sf.convert(sf.Ragged(layer(rows), [3, 1]), sf.Masked).data.sum()


compiled = torch.compile(function, backend=sys.argv[1], fullgraph=sys.argv[2] == "whole")
for _ in range(2):
    layer.weight.grad = None
    y = compiled(rows)
    assert y.requires_grad
    y.backward()
    assert layer.weight.grad.tolist() == [[4.0] * 3] * 2
"""


@pytest.mark.parametrize("whole", ["whole", "parts"])
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_the_first_call_of_a_process_keeps_its_gradient(backend, whole):
    """Nothing of this library has been called before."""
    fresh_process(FIRST_CALL, backend, whole)


# --- attention, positions, losses -------------------------------------------------------------------------------------

ASKED = {
    "position_ids": lambda x: (sf.position_ids(x), sf.position_ids(x, 3)),
    "segment_ids": lambda x: (sf.segment_ids(x),),
    "cu_seqlens": lambda x: (sf.cu_seqlens(x),),
    "mask": lambda x: (sf.mask(x),),
    "block_mask": lambda x: (sf.block_mask(x), sf.block_mask(x, causal=True)),
    "varlen": lambda x: (*sf.torch.varlen(x).values(), *sf.torch.varlen(x, x, names="torch").values()),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ASKED)
def test_what_attention_asks_for(name, kind):
    """In one graph, as eager to the bit and the type, and in two graphs for all shapes."""
    import torch

    compiled = torch.compile(ASKED[name], fullgraph=True, backend="eager")
    for lengths in ((3, 0, 2), (1, 5, 0, 4), (6, 6), (2, 3, 4, 5, 6)):
        x = batch(lengths, kind=kind)
        for found, wanted in zip(compiled(x), ASKED[name](x), strict=True):
            assert type(found) is type(wanted)
            if isinstance(wanted, torch.Tensor):
                assert found.dtype is wanted.dtype
                assert torch.equal(found, wanted)
            else:
                assert found == wanted
    assert graphs() <= 2


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_model_with_attention_positions_and_a_loss(backend):
    import torch

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.places = torch.nn.Embedding(50, 8), torch.nn.Embedding(64, 8)
            self.three, self.mix = torch.nn.Linear(8, 24), torch.nn.Linear(8, 8)
            self.score, self.last = sf.with_array(torch.nn.Linear(8, 5)), torch.nn.Linear(8, 5)

        def forward(self, x, tags):
            h = self.words(x.data) + self.places(sf.position_ids(x))
            q, k, v = [sf.Ragged(part.contiguous(), x.lengths) for part in self.three(h).reshape(-1, 3, 2, 4).unbind(1)]
            mixed = sf.attention(q, k, v, causal=True)
            y = sf.Ragged(h + self.mix(mixed.data.reshape(-1, 8)), x.lengths)
            whole = sf.linear_cross_entropy(y, self.last.weight, tags, bias=self.last.bias)
            return sf.cross_entropy(self.score(y), tags).mean() + sf.reduce_mean(y).square().mean() + whole.mean()

    torch.manual_seed(0)
    check_model(Model(), lambda x: (x, sf.Ragged(x.data % 5, x.lengths)), backend, SHAPES)


# --- operators --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("kind", KINDS)
def test_functions_of_items(kind, backend):
    """In one graph, over the rows alone: nothing of what is padding gets into a gradient."""
    import torch

    def function(x):
        y = torch.exp(x / 30) / (x * x + 2.0) - sf.softmax(x)
        return (
            torch.where(y > 0.1, 2 * y, -y),
            sf.where(x > 4, x, 1.0),
            1 / (x + 1),
            x != x,
            x.astype(torch.float64),
            sf.astype(x, "float16"),
        )

    compiled = torch.compile(function, fullgraph=True, backend=backend)
    for lengths in ((3, 0, 2), (1, 5, 0, 4), (6, 6)):
        x = asking(batch(lengths, kind=kind))
        found, wanted = compiled(x), function(x)
        for one, two in zip(found, wanted, strict=True):
            assert_same(one, two)
        slopes = [torch.autograd.grad(sum(y.data.sum() for y in ys), x.data)[0] for ys in (found, wanted)]
        torch.testing.assert_close(*slopes)
    assert graphs() <= 2


def other(x):
    """The same lengths in a structure of its own, as rows."""
    rows = sf.convert(x, sf.Ragged)
    return sf.Ragged(rows.data * 2, sf.cu_seqlens(x).diff())


def matrix():
    import torch

    return torch.linspace(-1, 1, 6).reshape(2, 3)


OPERANDS = {
    "products": lambda x: (FUNCTIONS.matmul(x, matrix()), FUNCTIONS.matmul(matrix().T, x), x @ matrix()[:, 0]),
    "arrays": lambda x: (x - matrix()[:, 0], matrix()[:, 1] / (x + 1), x + sf.reduce_sum(x).sum()),
    "structures": lambda x: (x - other(x), other(x) * x, sf.where(x > 3, x, other(x))),
    "ranks": lambda x: (x - of_one(x),),
    "places": lambda x: (x[1:], x[[1, 0]], x[0], x[-1], x[sf.cu_seqlens(x)[1:] * 0]),
    "prefix": lambda x: (sf.attention(*[one_head(x)] * 3, causal=True, prefix=sf.cu_seqlens(x).diff()),),
    "bias": lambda x: (sf.attention(*[one_head(x)] * 3, bias=matrix()[0, :1]),),
    "advantages": lambda x: (*sf.rl.gae(of_one(x), of_one(x)), sf.topk(x, 2).values),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", OPERANDS)
def test_operands_and_places(name, kind):
    """Values and gradients as eager, in two graphs for all shapes."""
    import torch

    global FUNCTIONS
    FUNCTIONS = torch
    compiled = torch.compile(OPERANDS[name], fullgraph=True, backend="eager")
    for lengths in ((3, 0, 2), (1, 5, 0, 4), (6, 6)):
        x = asking(batch(lengths, kind=kind))
        for found, wanted in zip(compiled(x), OPERANDS[name](x), strict=True):
            assert_same(found, wanted)
            sums = found.data.square().sum(), wanted.data.square().sum()
            torch.testing.assert_close(*[torch.autograd.grad(y, x.data, retain_graph=True)[0] for y in sums])
    assert graphs() <= 2


# --- what cannot be in a graph ----------------------------------------------------------------------------------------


def test_steps_end_the_graph():
    """How often a loop over time steps runs depends on the batch."""
    import torch

    def function(x):
        return sf.with_padded(rnn)(x)

    cell = torch.nn.RNN(2, 2)

    def rnn(p):
        return torch.cumsum(p.data, 0) + cell(p.data)[0]

    compiled = torch.compile(function, backend="eager")
    for lengths in ((3, 0, 2), (1, 5, 0, 4), (6, 6)):
        x = batch(lengths)
        assert_same(compiled(x), function(x))


# What a model may do that no graph holds, as a function of a batch of vectors, and how the sentence names it
ENDS = {
    "product": (lambda x: x @ x.data.new_ones(2, 3), "matmul"),
    "rows": (lambda x: x + x.data, "item by item"),
    "pairs": (lambda x: sf.Pairs(x, x).two, "Pairs"),
    "chunk": (lambda x: sf.chunk(x, 2), "chunk"),
    "nested": (lambda x: x.to_nested(), "to_nested"),
    "list": (lambda x: sf.with_list(lambda y: y.items)(x), "with_list"),
    "flatten": (lambda x: sf.with_flatten(lambda rows: [2 * row for row in rows])(x), "with_flatten"),
    "lists": (lambda x: (x.data + 1, SHOUT(WORDS))[1], "with_flatten"),
    "option": (lambda x: sf.with_masked(lambda m: m.data, sides="left")(x), "here: an option"),
    "level": (lambda x: sf.convert(x, sf.LoD), "LoD|option"),
    "recurrent": (lambda x: CELL(x), "Recurrent"),
}
CELL = FUNCTIONS = None
SHOUT, WORDS = sf.with_flatten(lambda words: [word.upper() for word in words]), [["to", "be"], [], ["or"]]


@pytest.mark.parametrize("name", ENDS)
def test_what_ends_a_graph_says_so_and_is_as_eager(name):
    import torch

    function, said = ENDS[name]
    global CELL
    CELL = sf.torch.Recurrent(torch.nn.GRU(2, 2)) if name == "recurrent" else None
    x = batch((3, 0, 2), item=(2,))
    with pytest.raises(torch._dynamo.exc.Unsupported, match=f"seqformats.*({said})"):
        torch.compile(function, backend="eager", fullgraph=True)(x)
    torch.compiler.reset()
    try:
        wanted = function(x)
    except (TypeError, sf.StructureError) as error:
        with pytest.raises(type(error)):
            torch.compile(function, backend="eager")(x)
        return
    found = torch.compile(function, backend="eager")(x)
    if isinstance(wanted, sf.Ragged):
        assert_same(found, wanted)
    else:
        assert repr(found) == repr(wanted)


def test_columns_in_an_order_of_their_own_end_the_graph():
    """Columns of one length in another order than the caller's: offsets alone do not tell."""
    import torch

    data = torch.arange(8.0).reshape(2, 4)
    x = sf.Padded(data, [4, 4], [2, 2, 2, 2], [3, 1, 2, 0])
    assert_same(torch.compile(sf.reduce_sum, backend="eager")(x), sf.reduce_sum(x))
    assert_same(torch.compile(lambda x: sf.convert(x, sf.Ragged), backend="eager")(x), sf.convert(x, sf.Ragged))
    torch.compiler.reset()
    with pytest.raises(torch._dynamo.exc.Unsupported):
        torch.compile(lambda x: sf.softmax(x), backend="eager", fullgraph=True)(x)


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor")  # which the compiler asks behind a graph break
@pytest.mark.parametrize("name", ["ratios", "policy_loss", "moments"])
def test_constants_that_ask_for_a_gradient(name):
    """An error as outside, which ends a graph; but for moments not where no gradient is wanted."""
    import torch

    def function(x, constant):
        if name == "moments":
            return sf.rl.whiten(x, moments=constant[:3])
        old = sf.Ragged(constant, x.lengths)
        return sf.rl.ratios(x, old) if name == "ratios" else sf.rl.policy_loss(x, x, constant[: len(x)])

    x, constant = batch((1, 2, 3), item=()), torch.ones(6, requires_grad=True)
    for whole, error in ((False, TypeError), (True, torch._dynamo.exc.Unsupported)):
        torch.compiler.reset()
        with pytest.raises(error, match="constant|seqformats ends the graph here"):
            torch.compile(function, backend="eager", fullgraph=whole)(x, constant)
    if name != "moments":
        with torch.no_grad():
            torch.compiler.reset()
            assert_same(torch.compile(function, backend="eager", fullgraph=True)(x, constant), function(x, constant))


def test_errors_are_those_of_eager():
    import torch

    x = batch((3, 0, 2))
    for function, error in (
        (lambda x: sf.softmax(3), TypeError),
        (lambda x: sf.convert(x, int), sf.ConversionError),
        (lambda x: sf.reduce(x, "nothing"), Exception),
        (lambda x: sf.expand_as(torch.zeros(5), x), sf.StructureError),
        (lambda x: sf.Ragged(x.data, [1, 1]), sf.StructureError),
    ):
        torch.compiler.reset()
        with pytest.raises(error):
            torch.compile(function, backend="eager")(x)


@pytest.mark.parametrize("number", range(2))
def test_every_public_function_without_fullgraph(number):
    """Whatever the encoding: a graph ends before what it cannot hold, and results are those of eager, to the bit."""
    import torch

    rng = np.random.default_rng([3, number])
    calls = list(every_call.draw(rng, ["f4"] if number else ["i8"], longest=5))
    for k, call in enumerate(calls):
        if k % 3 != number and call.name.startswith("gradient"):
            continue
        args = every_call.in_torch(call.args)
        wanted = call.on(args)()

        def called(*args, function=call.function):
            return function(*args)

        torch.compiler.reset()
        found = call._replace(function=torch.compile(called, backend="eager", dynamic=False)).on(args)()
        if every_call.failed(wanted):
            assert every_call.failed(found), call.name
            continue
        assert len(found) == len(wanted), call.name
        for one, two in zip(found, wanted, strict=True):
            if not isinstance(two, str):
                assert np.asarray(one).tobytes() == np.asarray(two).tobytes(), call.name


# --- elsewhere --------------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore")  # of PyTorch, about addresses
def test_tensors_without_items():
    """Outside of the compiler a tensor that only stands for another is an error in one line."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.proxy_tensor import make_fx

    with FakeTensorMode(), pytest.raises(TypeError, match="without"):
        sf.Ragged(torch.zeros(3, 2), [1, 2])
    with pytest.raises(TypeError, match="without"):
        make_fx(lambda data: sf.reduce_sum(sf.Ragged(data, [1, 2])), tracing_mode="fake")(torch.zeros(3, 2))
    with pytest.raises(TypeError, match="meta"):
        sf.Ragged(torch.zeros(3, 2, device="meta"), [1, 2])


@pytest.mark.parametrize("first", ["torch._dynamo", "seqformats"])
def test_whatever_is_imported_first(first):
    code = f"""
import {first}, torch, seqformats as sf, sys
function = torch.compile(lambda x: sf.reduce_sum(x), backend="eager", fullgraph=True)
assert function(sf.Ragged(torch.ones(3), [1, 2])).tolist() == [1.0, 2.0]
"""
    fresh_process(code)


def test_who_never_compiles_loads_nothing():
    code = """
import seqformats as sf, torch, sys
sf.reduce_sum(sf.Ragged(torch.ones(3), [1, 2]))
assert "seqformats.torch.graph" not in sys.modules
"""
    fresh_process(code)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_autocast(backend):
    """A graph may run outside of the region that it was read in."""
    import torch

    def summed(x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return sf.reduce_sum(x), sf.softmax(x).data, sf.reduce(x, "mean"), sf.convert(x, sf.Masked).data

    def leaf():
        return torch.arange(12.0).reshape(6, 2).bfloat16().requires_grad_()

    one, two = leaf(), leaf()
    expected = summed(sf.Ragged(one, [2, 1, 3]))
    found = torch.compile(summed, backend=backend, fullgraph=True)(sf.Ragged(two, [2, 1, 3]))
    assert [x.dtype for x in found] == [x.dtype for x in expected] == [torch.float32] * 3 + [torch.bfloat16]
    assert all(map(torch.equal, found, expected))
    (expected[0].sum() + expected[1].std()).backward()
    (found[0].sum() + found[1].std()).backward()
    assert two.grad.dtype is torch.bfloat16
    assert torch.equal(one.grad, two.grad)
