"""What a step of training costs beside autograd itself, in Python functions called; times are in docs/benchmarks.md."""

import sys

import pytest

import seqformats as sf
import seqformats.launch.plans  # as in a process that has used a GPU, whichever tests ran before

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.peers

LENGTHS = [5] * 8
TARGETS = torch.arange(40) % 16
# Forward and backward, what torch calls of its own left out: at most.  A number that must rise is to be explained;
# what a graph calls is tried by the fast paths.
CALLS = {
    "reduce_sum": (sf.reduce_sum, 38),
    "reduce_mean": (sf.reduce_mean, 38),
    "reduce_max": (sf.reduce_max, 63),  # one of them: are sequences so long that a GPU does them in pieces?
    "softmax": (lambda x: sf.softmax(x).data, 60),
    "cross_entropy": (lambda x: sf.cross_entropy(x, TARGETS, reduction="mean"), 192),
    "convert": (lambda x: sf.convert(x, sf.Masked).data, 68),
}


def calls_of(function):
    """Python functions of this library that it calls."""
    count = 0

    def count_one(frame, event, _):
        nonlocal count
        count += (
            event == "call" and "seqformats" in frame.f_code.co_filename and "/tests/" not in frame.f_code.co_filename
        )

    sys.setprofile(count_one)
    try:
        function()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("name", CALLS)
def test_calls_of_a_step(name):
    operation, most = CALLS[name]
    like = sf.Ragged(torch.rand(40, 16), LENGTHS)
    slopes = torch.ones_like(operation(like))

    def step():
        rows = like.data.detach().requires_grad_()
        operation(like._with_data(rows)).backward(slopes)
        return rows.grad

    step(), step()
    # once PyTorch's compiler is there, public functions ask first whether they are in a graph
    in_graphs = 3 * ("seqformats.torch.graph" in sys.modules)
    assert min(calls_of(step) for _ in range(3)) <= most + in_graphs  # the collector may call, too


def test_plain_tensors_are_not_asked_whether_they_are_wrapped(monkeypatch):
    """The one predicate for wrapped and fake tensors is for those that cannot show their memory."""
    from seqformats.arrays import library_of

    rows = torch.rand(40, 16, requires_grad=True)
    asked = []
    monkeypatch.setattr(type(library_of(rows)), "is_wrapped", lambda _, x: asked.append(x))
    sf.reduce_max(sf.softmax(sf.convert(sf.Ragged(rows, LENGTHS), sf.Masked))).sum().backward()
    assert rows.grad is not None
    assert not asked


def test_inputs_that_need_no_gradient_get_none():
    """Only those that ask have one, wherever they stand."""
    one, two = torch.rand(3, 2, requires_grad=True), torch.rand(2, 2)
    y = sf.concat([sf.Ragged(one, [1, 2]), sf.Ragged(two, [2, 0])])
    y.data.sum().backward()
    assert one.grad.tolist() == [[1, 1]] * 3
    assert two.grad is None


def test_gradients_of_any_kind_are_taken():
    """Expanded, negated and conjugated ones are read as they look, and undefined ones are zeros."""
    rows = torch.rand(6, 2, dtype=torch.complex128, requires_grad=True)
    y = sf.reduce_sum(sf.Ragged(rows, [1, 2, 3]))
    for slopes in (torch.ones(1, 2, dtype=y.dtype).expand(3, 2), (1j * torch.rand(3, 2)).to(y.dtype).conj()):
        (found,) = torch.autograd.grad(y, rows, slopes, retain_graph=True)
        assert torch.equal(found, slopes.resolve_conj().repeat_interleave(torch.tensor([1, 2, 3]), 0))
    real = torch.rand(6, 2, requires_grad=True)
    z = sf.reduce_sum(sf.Ragged(real, [1, 2, 3]))
    negated = torch.rand(3, 2, dtype=torch.complex64).conj().imag
    (found,) = torch.autograd.grad(z, real, negated)
    assert torch.equal(found, negated.resolve_neg().repeat_interleave(torch.tensor([1, 2, 3]), 0))
