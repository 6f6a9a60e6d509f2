"""Prefix beam search with PyTorch: its tensors, and its loss as another way to the same numbers."""

import numpy as np
import pytest
from test_ctc_search import WIDE, by_source, logs_of

import seqformats as sf

pytestmark = pytest.mark.peers


@pytest.mark.parametrize("blank", [0, 2])
@pytest.mark.parametrize("seed", range(4))
def test_scores_are_minus_the_loss(seed, blank):
    """Of every label that a wide beam finds."""
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 6, 3)
    x = sf.Ragged(logs_of(rng, int(lengths.sum()), 3, 1.5), lengths)
    found = by_source(sf.ctc_beam_search(x, blank=blank, beam_size=WIDE, n_best=WIDE))
    for i, ends in enumerate(found):
        frames = torch.tensor(x[i : i + 1].data)[:, None]
        labels = [end[0] for end in ends]
        loss = torch.nn.functional.ctc_loss(
            frames.expand(-1, len(labels), -1),
            torch.tensor([token for label in labels for token in label], dtype=torch.int64),
            torch.full((len(labels),), len(frames)),
            torch.tensor([len(label) for label in labels]),
            blank=blank,
            reduction="none",
        )
        assert len(labels) > 2 or len(frames) == 1
        assert np.allclose([-end[2] for end in ends], loss.numpy(), atol=1e-5)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_tensors(dtype):
    torch = pytest.importorskip("torch")
    x = torch.log_softmax(torch.randn(30, 7, generator=torch.Generator().manual_seed(0)) * 2, 1)
    x = x.to(getattr(torch, dtype))
    options = {"beam_size": 5, "n_best": 3, "blank": 1}
    found = sf.ctc_beam_search(sf.Ragged(x.requires_grad_(), [12, 0, 18]), **options)
    wanted = sf.ctc_beam_search(sf.Ragged(x.detach().double().numpy(), [12, 0, 18]), **options)
    for part in (found.tokens.data, found.times.data, found.scores, found.path_scores):
        assert isinstance(part, torch.Tensor)
        assert not part.requires_grad
    assert found.tokens.to_nested() == wanted.tokens.to_nested()
    assert found.times.to_nested() == wanted.times.to_nested()
    assert found.scores.tolist() == wanted.scores.tolist()


def test_hooks_see_tensors():
    """A model that remembers what it has made of each prefix, one after the other."""
    torch = pytest.importorskip("torch")
    generator = torch.Generator().manual_seed(1)
    step, out = torch.randn(6, 4, generator=generator), torch.randn(4, 6, generator=generator)
    remembered = torch.zeros(0, 4)

    def model(state):
        nonlocal remembered
        before = torch.zeros(len(state.tokens), 4) if state.t == 0 else remembered[state.parents]
        now = torch.tanh(before + step[state.tokens])
        remembered = torch.cat([remembered, now])
        return torch.log_softmax(now @ out, 1)

    def alone(state):
        found = []
        for tokens in state.prefixes.to_nested():
            now = torch.tanh(step[0])
            for token in tokens:
                now = torch.tanh(now + step[token])
            found.append(torch.log_softmax(now @ out, 0))
        return torch.stack(found)

    x = torch.log_softmax(torch.randn(40, 6, generator=generator), 1)
    one, two = (
        sf.ctc_beam_search(sf.Ragged(x, [25, 15]), beam_size=8, n_best=4, on_new=hook) for hook in (model, alone)
    )
    assert one.tokens.to_nested() == two.tokens.to_nested()
    assert torch.allclose(one.scores, two.scores, atol=1e-4)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_alignments_of_tensors(dtype):
    torch = pytest.importorskip("torch")
    x = torch.log_softmax(torch.randn(30, 7, generator=torch.Generator().manual_seed(0)) * 2, 1)
    x = x.to(getattr(torch, dtype))
    labels = [[1, 1, 2, 6, 3], [], [4, 4]]
    targets = sf.Ragged(torch.tensor([token for label in labels for token in label], dtype=torch.int32), [5, 0, 2])
    found = sf.ctc_align(sf.Ragged(x.requires_grad_(), [12, 0, 18]), targets)
    wanted = sf.ctc_align(sf.Ragged(x.detach().double().numpy(), [12, 0, 18]), labels)
    for name in ("tokens", "times", "ends", "frame_scores", "token_scores"):
        part = getattr(found, name)
        assert isinstance(part.data, torch.Tensor)
        assert not part.data.requires_grad
        assert part.to_nested() == getattr(wanted, name).to_nested()
    assert isinstance(found.scores, torch.Tensor)
    assert found.scores.tolist() == wanted.scores.tolist()


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_loss_and_its_gradient_are_those_of_torch(dtype, reduction):
    """Behind log-softmax, where both definitions of the gradient are the same."""
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(len(reduction))
    for zero in (False, True):
        lengths = np.array([60, 3, 41, 7])
        labels = [rng.integers(1, 6, count).tolist() for count in (20, 3, 0, 3)]
        labels[1] = [2, 2, 3] if zero else [1, 2, 3]
        x = torch.tensor(rng.standard_normal((lengths.sum(), 6)) * 3, dtype=getattr(torch, dtype))
        rows, ours = x.clone().requires_grad_(), x.clone().requires_grad_()
        padded = torch.nn.utils.rnn.pad_sequence(rows.log_softmax(1).split(lengths.tolist()))
        wanted = torch.nn.functional.ctc_loss(
            padded,
            torch.tensor([token for label in labels for token in label]),
            torch.tensor(lengths),
            torch.tensor([len(label) for label in labels]),
            reduction=reduction,
            zero_infinity=zero,
        )
        options = {"reduction": reduction, "zero_infinity": zero, "normalised": False}
        found = sf.ctc_loss(sf.Ragged(ours, lengths), labels, **options)
        weights = torch.linspace(-1, 2, wanted.numel(), dtype=wanted.dtype).reshape(wanted.shape)
        near = {"rtol": 1e-9, "atol": 1e-9} if dtype == "float64" else {"rtol": 1e-4, "atol": 1e-5}
        torch.testing.assert_close(found, wanted, **near)
        found.backward(weights)
        wanted.backward(weights)
        torch.testing.assert_close(ours.grad, rows.grad, **near)


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor")  # which the compiler asks behind a graph break
def test_the_loss_in_graphs():
    """Numbers beside its gradient, one graph twice, no gradient of the gradient, halves, `torch.func`, compiled."""
    torch = pytest.importorskip("torch")
    x = torch.randn(9, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    options = {"normalised": False, "reduction": "none"}

    def loss(x, labels=([[1, 2], [3]], [[3, 3], []]), **more):
        return sf.ctc_loss(sf.Ragged(x, [4, 5]), list(labels), **options | more)

    assert torch.autograd.gradcheck(loss, x)
    assert torch.autograd.gradcheck(lambda x: loss(x, [[1, 2], [4]], normalised=True), x)
    found = loss(x, reduction="sum")
    (once,) = torch.autograd.grad(found, x, retain_graph=True)
    kept = once.clone()
    once += 1
    (twice,) = torch.autograd.grad(2 * found, x, create_graph=True)
    torch.testing.assert_close(twice, 2 * kept)
    with pytest.raises(TypeError, match="has no gradient itself"):
        twice.sum().backward()
    torch.testing.assert_close(torch.func.grad(lambda x: loss(x, reduction="sum"))(x.detach()), kept)
    for dtype in (torch.float16, torch.bfloat16):
        half = x.detach().to(dtype).requires_grad_()
        found = loss(half, reduction="sum")
        found.backward()
        assert (found.dtype, half.grad.dtype) == (torch.float32, dtype)
        torch.testing.assert_close(half.grad.double(), kept, rtol=0.1, atol=0.05)
    with torch.no_grad():
        assert not loss(x).requires_grad
    of_both = [lambda x: 2 * sf.ctc_loss(sf.Ragged(torch.tanh(x), [4, 5]), [[1, 2], [3, 3]], normalised=False)] * 2
    one, two = (torch.autograd.grad(call(x), x)[0] for call in (torch.compile(of_both[0], backend="eager"), of_both[1]))
    torch.testing.assert_close(one, two)
