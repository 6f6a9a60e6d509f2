"""Recurrences and losses of policies in PyTorch's graph: first and second derivatives, and what is refused."""

import numpy as np
import pytest

import seqformats as sf

pytestmark = pytest.mark.peers
LENGTHS, ROWS = [3, 0, 1, 5], 9
WHERE = np.array([True, False, True, True, True, False, True, True, False])


def asking(*shape):
    import torch

    generator = torch.Generator().manual_seed(len(shape) + sum(shape))
    return torch.randn(shape, dtype=torch.double, generator=generator).requires_grad_()


def batch(rows, kind):
    return sf.convert(sf.Ragged(rows, LENGTHS), kind)


def rows(y):
    return sf.convert(y, sf.Ragged).data


@pytest.mark.parametrize("kind", [sf.Ragged, sf.Padded, sf.List])
@pytest.mark.parametrize(
    "options", [{}, {"reverse": True, "where": WHERE}, {"exclusive": True, "where": WHERE}], ids=str
)
@pytest.mark.parametrize("shape", [(), (ROWS,), (ROWS, 2), (1, 2)], ids=str)
def test_recurrence_has_two_derivatives(kind, options, shape):
    from torch.autograd import gradcheck, gradgradcheck

    def run(x, decay, initial):
        y, final = sf.recurrence(batch(x, kind), decay, initial=initial, final=True, **options)
        return rows(y), final

    given = asking(ROWS, 2), asking(*shape), asking(4, 2)
    assert gradcheck(run, given)
    assert gradgradcheck(run, given)


@pytest.mark.parametrize("kind", [sf.Masked, sf.List])
def test_gradients(kind):
    from torch.autograd import gradcheck, gradgradcheck

    x, v, outcome = asking(ROWS), asking(ROWS), asking(4)
    old, each = asking(ROWS).detach(), asking(4).detach()
    of = {"where": batch(np.array(WHERE), kind)}
    linear = [
        (
            lambda x, v, o: tuple(map(rows, sf.rl.gae(batch(x, kind), batch(v, kind), gamma=0.9, bootstrap=o, **of))),
            (x, v, outcome),
        ),
        (lambda o, v: rows(sf.rl.gae(o, batch(v, kind), lam=0.9, **of).advantages), (outcome, v)),
        (lambda o, x: rows(sf.rl.token_rewards(o, of["where"], kl=batch(x, kind), beta=0.3)), (outcome, x)),
        (lambda x: rows(sf.rl.returns(batch(x, kind), gamma=0.9, done=WHERE)), (x,)),
        (lambda x: rows(sf.rl.traces(batch(x, kind), gamma=0.9, done=WHERE)), (x,)),
        (lambda x: rows(sf.ema(batch(x, kind), 0.7, adjust=True, **of)), (x,)),
        (lambda x: sf.rl.mean_loss(batch(x, kind), per="sequence", **of), (x,)),
    ]
    for call, given in linear:
        assert gradcheck(call, given)
        assert gradgradcheck(call, given)
    others = [
        (
            lambda x: rows(sf.rl.policy_loss(batch(x, kind), batch(old, kind), each, dual=1.5, level="sequence", **of)),
            x,
        ),
        (lambda x: rows(sf.rl.ratios(batch(x, kind), batch(old, kind), **of)), x),
        (lambda x: rows(sf.standardize(batch(x, kind), center="others", **of)), x),
        (lambda x: rows(sf.rl.whiten(batch(x, kind), **of)), x),
        (lambda x: sf.rl.moments(batch(x, kind), **of), x),
        (lambda o: sf.rl.group_advantages(o, [1, 2, 2, 1]), outcome),
    ]
    for call, given in others:
        assert gradcheck(call, (given,))


def test_no_gradient_is_lost_without_a_word():
    import torch

    x = sf.Ragged(asking(ROWS), LENGTHS)
    for call in (
        lambda: sf.rl.policy_loss(x, x, torch.ones(4)),
        lambda: sf.rl.policy_loss(x, x.detach(), asking(4)),
        lambda: sf.rl.gae(x, x, gamma=asking(4)),
        lambda: sf.rl.whiten(x, moments=asking(3)),
        lambda: sf.ema(x, asking()),
        lambda: sf.rl.whiten(x, eps=asking()),
    ):
        with pytest.raises(TypeError, match="give it detached"):
            call()
    losses = sf.rl.policy_loss(x, x.detach(), torch.ones(4))
    with pytest.raises(TypeError, match="leave out create_graph=True"):
        torch.autograd.grad(losses.data.sum(), x.data, create_graph=True)
    with pytest.raises(sf.DeviceError, match="give both in one library"):
        sf.rl.gae(x, sf.Ragged(np.ones(ROWS), LENGTHS))


def test_numbers_of_sequences_may_be_on_either_side():
    import torch

    x = sf.Ragged(torch.ones(3, dtype=torch.float64), [2, 1])
    halves = [np.full(2, 0.5), [0.5, 0.5], torch.full((2,), 0.5), 0.5, np.full(2, 0.5, ">f8")]
    for gamma in halves:
        for lam in halves:
            assert sf.rl.traces(x, gamma=gamma, lam=lam).data.tolist() == [1, 1.25, 1]
    swapped = np.array([3.0, 4.0], ">f8")
    assert sf.rl.returns(x, bootstrap=swapped).data.tolist() == [5, 4, 5]
    assert sf.recurrence(x, 0.5, initial=swapped).data.tolist() == [2.5, 2.25, 3]


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_tensors_that_are_no_numbers():
    import torch

    x = sf.Ragged(torch.ones(3), [2, 1])
    nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(1)])
    for value in (torch.ones((), device="meta"), nested, torch.ones((), dtype=torch.complex64)):
        with pytest.raises((sf.ConversionError, TypeError), match=r"(?s)decay must be a number.*\[SF"):
            sf.ema(x, value)
    with pytest.raises(TypeError, match="old is a nested tensor"):
        sf.rl.ratios(x, nested)


def test_half_precision_is_added_up_in_float32_by_autocast():
    import torch

    x = sf.Ragged(torch.ones(300, dtype=torch.bfloat16), [300])
    assert sf.recurrence(x, 1.0).data.dtype == torch.bfloat16
    with torch.autocast("cpu"):
        y = sf.recurrence(x, 1.0)
    assert y.data.dtype == torch.float32
    assert y.data[-1] == 300


def test_memory_is_that_of_the_tokens():
    """A step of training on 1,000 short rollouts beside a long one allocates a few arrays as long as the tokens."""
    import tracemalloc

    lengths = np.array([*[3] * 1000, 100_000])
    total = int(lengths.sum())
    x = sf.Ragged(np.zeros(total, "f4"), lengths)
    where = sf.Ragged(np.ones(total, bool), lengths)

    def step():
        losses, back = sf.vjp(sf.rl.policy_loss, x, x, np.zeros(1001, "f4"), where=where)
        mean, to_losses = sf.vjp(sf.rl.mean_loss, losses, where=where)
        back(to_losses(np.ones((), mean.dtype)))

    step()  # loads what it needs
    tracemalloc.start()
    step()
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 6 * 4 * total  # padded it would be 1,000 times that
