"""torch.func and forward mode: every operation beside a loop over the plain ones, and beside autograd."""

import pytest

import seqformats as sf

torch = pytest.importorskip("torch")
trained = pytest.importorskip("trained")

# what torch imports for forward mode warns of itself
pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("ignore:.*torch.jit.script")]

func, forward_ad = torch.func, torch.autograd.forward_ad
OPERATIONS = trained.OPERATIONS
UNMAPPED = {"topk"}  # which items it takes is found out before, from the items themselves
every_operation = pytest.mark.parametrize("name", OPERATIONS)
SOME = [sf.Ragged, sf.Padded, sf.Masked, sf.LoD]


def drawn(*shape, seed=0):
    return torch.rand(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def loss_of(name, kind=sf.Ragged):
    """A number that depends on every item, of rows alone: the batch is built inside."""

    def loss(rows):
        y = trained.tensor_of(OPERATIONS[name](sf.convert(sf.Ragged(rows, trained.LENGTHS), kind)))
        return (y.reshape(-1) * torch.linspace(0.5, 2.0, y.numel(), dtype=y.dtype)).pow(2).sum()

    return loss


def gradient(loss, rows):
    rows = rows.detach().requires_grad_()
    return torch.autograd.grad(loss(rows), rows)[0]


def close(a, b):
    torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)


@every_operation
def test_every_operation_is_transformed(name):
    """`grad`, `vjp`, `jvp`, `vmap`, and one inside the other, are what autograd and a loop give."""
    loss, rows, tangent = loss_of(name), drawn(6, 2), drawn(6, 2, seed=1)
    wanted = gradient(loss, rows)
    close(func.grad(loss)(rows), wanted)
    value, pullback = func.vjp(loss, rows)
    close(value, loss(rows))
    close(pullback(torch.tensor(2.0, dtype=torch.float64))[0], 2 * wanted)
    value, pushed = func.jvp(loss, (rows,), (tangent,))
    close(value, loss(rows))
    close(pushed, (wanted * tangent).sum())
    several = drawn(3, 6, 2, seed=2)
    if name in UNMAPPED:
        with pytest.raises(TypeError, match=r"torch\.func\.vmap"):
            func.vmap(loss)(several)
        return
    close(func.vmap(loss)(several), torch.stack([loss(rows) for rows in several]))
    each = torch.stack([gradient(loss, rows) for rows in several])
    close(func.vmap(func.grad(loss))(several), each)
    close(func.grad(lambda many: func.vmap(loss)(many).sum())(several), each)


@pytest.mark.parametrize("name", ["reduce_sum", "reduce_max", "reduce_var", "softmax", "cumsum", "window", "concat"])
def test_second_derivatives_by_every_way(name):
    loss, rows = loss_of(name), drawn(6, 2)
    wanted = torch.autograd.functional.hessian(loss, rows)
    jacobians = func.jacrev, func.jacfwd
    for outer in jacobians:
        for inner in jacobians:
            close(outer(inner(loss))(rows), wanted)
    close(func.hessian(loss)(rows), wanted)


@pytest.mark.parametrize("kind", SOME, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("in_dim", [0, 1, 2, -1])
def test_the_mapped_axis_may_be_any(kind, in_dim):
    several = drawn(3, 6, 2)
    loss = loss_of("softmax", kind)
    close(func.vmap(loss, in_dims=in_dim)(several.movedim(0, in_dim)), torch.stack([loss(rows) for rows in several]))


def test_maps_in_maps():
    several = drawn(2, 3, 6, 2)
    loss = loss_of("reduce_max", sf.Masked)
    close(func.vmap(func.vmap(loss))(several), torch.stack([torch.stack([loss(r) for r in one]) for one in several]))
    crossed = func.vmap(func.vmap(lambda a, b: loss(a * b), (0, None)), (None, 0))(several[0], several[1])
    close(crossed, torch.stack([torch.stack([loss(a * b) for a in several[0]]) for b in several[1]]))


def test_the_axis_goes_to_the_items_and_nothing_is_repeated(monkeypatch):
    """One kernel for all that is mapped, not one each."""
    from seqformats.launch import kernel as launch

    started = []
    start = launch.Kernel.start

    def counted(self, *args, **options):
        started.append(self.name)
        start(self, *args, **options)

    monkeypatch.setattr(launch.Kernel, "start", counted)
    rows = drawn(50, 6, 2)
    func.vmap(lambda r: sf.softmax(sf.Ragged(r, trained.LENGTHS)).data)(rows)
    assert started.count("softmax_rows") == 1


def test_tangents_without_torch_func():
    for name in OPERATIONS:
        loss, rows, tangent = loss_of(name), drawn(6, 2), drawn(6, 2, seed=1)
        with forward_ad.dual_level():
            value, pushed = forward_ad.unpack_dual(loss(forward_ad.make_dual(rows, tangent)))
        close(value, loss(rows))
        close(pushed, (gradient(loss, rows) * tangent).sum())


def test_lists_and_wrappers():
    linear = torch.nn.Linear(2, 2, dtype=torch.float64)

    @sf.with_masked
    def layer(x):
        return torch.tanh(linear(x.data))

    def loss(rows):
        parts = [rows[:3], rows[3:3], rows[3:4], rows[4:]]
        return sf.reduce_sum(layer(sf.convert(parts, sf.Ragged))).pow(2).sum()

    rows, several = drawn(6, 2), drawn(3, 6, 2)
    close(func.grad(loss)(rows), gradient(loss, rows))
    with torch.no_grad():
        close(func.vmap(loss)(several), torch.stack([loss(r) for r in several]))
    params = dict(linear.named_parameters())

    def of_parameters(params, rows):
        made = sf.with_masked(lambda x: torch.func.functional_call(linear, params, (x.data,)))
        return sf.reduce_mean(made(sf.Ragged(rows, trained.LENGTHS))).pow(2).sum()

    each = func.vmap(func.grad(of_parameters), (None, 0))(params, several)
    for i, rows in enumerate(several):
        wanted = torch.autograd.grad(of_parameters(params, rows), list(params.values()))
        for one, name in zip(wanted, params, strict=True):
            close(each[name][i], one)


def test_weights_of_each_map():
    weights, several = drawn(3, 6), drawn(3, 6, 2)

    def loss(rows, w):
        return sf.reduce_mean(sf.Ragged(rows, trained.LENGTHS), weights=w).pow(2).sum()

    close(func.vmap(loss)(several, weights), torch.stack([loss(r, w) for r, w in zip(several, weights, strict=True)]))
    close(func.vmap(loss, (0, None))(several, weights[0]), torch.stack([loss(r, weights[0]) for r in several]))


def test_what_has_no_gradient():
    rows = drawn(6, 2)
    x = sf.Ragged(rows, trained.LENGTHS)

    def found(r):
        return sf.argmax(sf.Ragged(r, trained.LENGTHS)), sf.reduce_sum(sf.Ragged(r, trained.LENGTHS)).sum()

    _, places = func.vjp(lambda r: found(r)[::-1], rows, has_aux=True)[1:]
    assert places.tolist() == sf.argmax(x).tolist()
    counts = torch.arange(12).reshape(2, 6)
    sums = func.vmap(lambda r: sf.reduce_sum(sf.Ragged(r, trained.LENGTHS)))(counts)
    assert sums.tolist() == [sf.reduce_sum(sf.Ragged(c, trained.LENGTHS)).tolist() for c in counts]


@pytest.mark.parametrize(
    "operation",
    [
        lambda x: sf.argmax(x),
        lambda x: sf.reduce_any(x),
        lambda x: sf.filter(x, x.data[:, 0] > 0.5).data,
        lambda x: sf.Ragged(x.data, x.data[:, 0].long()),
        lambda x: sf.convert(sf.Ragged(x.data[:, 0], x.lengths), list),
    ],
    ids=["argmax", "any", "filter", "lengths", "lists"],
)
def test_what_depends_on_the_items_says_so_under_vmap(operation):
    with pytest.raises((TypeError, sf.StructureError), match=r"torch\.func\.vmap"):
        func.vmap(lambda rows: operation(sf.Ragged(rows, trained.LENGTHS)))(drawn(3, 6, 2))


def test_nothing_is_left_behind():
    """After a transformation plain calls go the plain way, whatever was raised in it."""
    with pytest.raises(ZeroDivisionError):
        func.grad(lambda rows: sf.reduce_sum(sf.Ragged(rows, trained.LENGTHS)).sum() / 0 * (1 // 0))(drawn(6, 2))
    rows = drawn(6, 2).requires_grad_()
    y = sf.reduce_sum(sf.Ragged(rows, trained.LENGTHS))
    assert type(y.grad_fn).__name__ == "OperationBackward"
