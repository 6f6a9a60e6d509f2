"""Every operation that a graph may hold: in a graph, by what PyTorch asks of operators, with its gradient."""

import json

import numpy as np
import pytest
from graph_calls import CALLS, asking, assert_same, batch, tensors_of

import seqformats as sf

pytestmark = pytest.mark.peers

KINDS = (sf.Ragged, sf.Masked, sf.Padded, sf.Packed)


@pytest.fixture(autouse=True)
def fresh():
    import torch

    torch.compiler.reset()
    yield
    torch.compiler.reset()


def both(kind, lengths=(3, 0, 2, 4)):
    """A batch of floats that asks for a gradient, and one of token ids."""
    return asking(batch(lengths, kind=kind)), batch(lengths, item=(), dtype="int64", kind=kind)


def nodes_of(function, *args):
    """The arguments of the nodes of a compiled function, as they are when it runs."""
    import torch

    seen = []

    class Recorder(torch.fx.Interpreter):
        def call_function(self, target, args, kwargs):
            if target is torch.ops.seqformats.call.default:
                seen.append(args)
            return super().call_function(target, args, kwargs)

    def backend(graph, _):
        return lambda *inputs: Recorder(graph).run(*inputs)

    torch.compile(function, backend=backend, fullgraph=True)(*args)
    return seen


def test_every_operation_of_the_table_has_a_call():
    import torch._dynamo

    from seqformats.torch.graph import ops

    assert torch._dynamo is not None
    assert set(CALLS) == set(ops.STRUCTURES)


@pytest.mark.parametrize("name", CALLS)
def test_in_a_graph(name):
    """Values as eager, in one graph; what leaves it is an encoding; the nodes are right by PyTorch's own checks."""
    import torch

    kind = KINDS[sum(map(ord, name)) % 4]
    x, t = both(kind)
    wanted = CALLS[name](x, t)
    seen = nodes_of(CALLS[name], x, t)
    assert name in {json.loads(args[2])[0] for args in seen}
    assert_same(torch.compile(CALLS[name], backend="eager", fullgraph=True)(x, t), wanted)
    for args in seen:
        checks = ("test_schema", "test_autograd_registration", "test_faketensor")
        given = ([leaf.detach().requires_grad_(leaf.requires_grad) for leaf in args[0]], *args[1:])
        torch.library.opcheck(torch.ops.seqformats.call.default, given, test_utils=checks)


@pytest.mark.parametrize("name", CALLS)
def test_gradient(name):
    """The gradient of each is that of eager, through the operator itself."""
    import torch

    x, t = both(sf.Ragged)
    wanted = tensors_of(CALLS[name](x, t))[0]
    if not wanted.requires_grad:
        return
    found = tensors_of(torch.compile(CALLS[name], backend="eager", fullgraph=True)(x, t))[0]
    slopes = torch.linspace(-1, 1, wanted.numel(), dtype=wanted.dtype).reshape(wanted.shape)
    (one,) = torch.autograd.grad(found, x.data, slopes)
    (two,) = torch.autograd.grad(wanted, x.data, slopes)
    torch.testing.assert_close(one, two, rtol=1e-5, atol=1e-5, equal_nan=True)


@pytest.mark.filterwarnings("ignore:The .grad attribute")  # PyTorch's own, where it traces what it traced
@pytest.mark.parametrize("name", ["softmax", "erase", "reduce_max", "convert"])
def test_all_of_pytorchs_checks(name):
    import torch

    x, t = both(sf.Ragged)
    (args, *_) = nodes_of(CALLS[name], x, t)
    torch.library.opcheck(torch.ops.seqformats.call.default, args)
    result = torch.ops.seqformats.call(*args)
    gradients = [torch.ones_like(leaf) for leaf in result]
    if name != "erase":
        detached = [leaf.detach() for leaf in args[0]]
        given = (detached, [leaf.detach() for leaf in gradients], *args[1:])
        torch.library.opcheck(torch.ops.seqformats.pullback.default, given)


def test_lengths():
    import torch
    import torch._dynamo

    made = torch.ops.seqformats.lengths
    torch.library.opcheck(made.default, (torch.zeros(5), torch.tensor([2, 0, 3]), "Ragged"))
    assert made(torch.zeros(5), torch.tensor([2, 0, 3], dtype=torch.int32), "Ragged").tolist() == [2, 0, 3]
    for lengths, shape, kind in (([2, -1], 1, "Ragged"), ([2, 2], 5, "Ragged"), ([3, 2], (2, 2), "Masked")):
        with pytest.raises(sf.StructureError):
            made(torch.zeros(shape), torch.tensor(lengths), kind)
    with pytest.raises(TypeError, match="integers"):
        made(torch.zeros(2), torch.ones(2), "Ragged")


def test_operators_check_what_they_are_given():
    """A node of a graph can be called by anybody; kernels check nothing."""
    import torch
    import torch._dynamo

    call = torch.ops.seqformats.call
    text = '["softmax", [["tensor", 0]], {}, [["KIND", "right", 0, "float32", AXES, false]], false]'
    lengths = torch.tensor([2, 3])
    ragged = text.replace("KIND", "Ragged").replace("AXES", '["rows"]')
    rectangle = text.replace("AXES", '["n", "width"]')
    for of, data in (
        (ragged, torch.zeros(4)),
        (rectangle.replace("KIND", "Masked"), torch.zeros(2, 2)),
        (rectangle.replace("KIND", "Padded").replace('"n", "width"', '"width", "n"'), torch.zeros(2, 2)),
    ):
        with pytest.raises(sf.StructureError, match="is no"):
            call([data, lengths], [], of)
    with pytest.raises(sf.StructureError, match="negative"):
        call([torch.zeros(2), torch.tensor([3, -1])], [], ragged)
    with pytest.raises(ValueError, match="no operation"):
        call([torch.zeros(2), lengths], [], ragged.replace("softmax", "vjp"))


def test_the_structure_that_leaves_a_graph_is_kept_with_its_order():
    import torch
    import torch._dynamo

    from seqformats.torch.graph import ops

    lengths = torch.tensor([2, 3])
    assert ops.structure_over(lengths) is ops.structure_over(lengths.clone())
    assert np.array_equal(ops.structure_over(lengths).offsets, [0, 2, 5])
