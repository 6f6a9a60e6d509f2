"""PyTorch: tensors through every conversion, gradients through autograd, the same results as its own tools."""

import itertools
import math

import numpy as np
import pytest

import seqformats as sf

torch = pytest.importorskip("torch")
fake_tensor = pytest.importorskip("torch._subclasses.fake_tensor")
rnn = torch.nn.utils.rnn

pytestmark = pytest.mark.peers

FORMATS = [sf.List, sf.Ragged, sf.Padded, sf.Packed, sf.Masked, sf.LoD]
PAIRS = list(itertools.product(FORMATS, FORMATS))
LENGTHS = [[3, 0, 5, 2], [], [0], [0, 0], [1], [2, 2, 2], [7, 1]]
DTYPES = [
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int64,
    torch.int8,
    torch.uint8,
    torch.bool,
    torch.complex64,
    torch.float8_e4m3fn,
]


def sequences(lengths, item=(), dtype=torch.float32):
    return [(torch.rand(length, *item) * 9).to(dtype) for length in lengths]


def names(pair):
    return pair.__name__


def bits(tensor):
    return tensor.contiguous().view(-1).view(torch.uint8) if tensor.numel() else tensor.new_zeros(0, dtype=torch.uint8)


def tensor_of(x):
    """The items of an encoding as one tensor, connected to its graph."""
    return torch.cat(list(x.items)) if isinstance(x, sf.List) else x.data


# --- moves -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("item", [(), (5,), (0,)], ids=str)
def test_dtypes_that_numpy_has_not(item):
    batch = sf.List(sequences([3, 0, 5, 2], item, torch.float8_e4m3fn))
    for source, target in PAIRS:
        back = sf.convert(sf.convert(sf.convert(batch, source), target), sf.List)
        assert (back.dtype, back.item_shape, len(back)) == (batch.dtype, item, 4)
        for mine, theirs in zip(back.items, batch.items, strict=True):
            assert mine.shape == theirs.shape
            assert torch.equal(bits(mine), bits(theirs)), (source, target)


@pytest.mark.parametrize("target", [sf.Masked, sf.Padded], ids=names)
def test_padding_in_half_precision_is_exact(target):
    x = sf.Ragged(torch.ones(3, dtype=torch.bfloat16), [1, 2])
    assert sf.convert(x, target, fill=-2.5).data.dtype is torch.bfloat16
    with pytest.raises(sf.ConversionError, match="not exact"):
        sf.convert(x, target, fill=0.1)


@pytest.mark.parametrize("item", [(), (1,), (1, 1), (2,), (1, 0)], ids=str)
@pytest.mark.parametrize("target", [sf.Masked, sf.Padded], ids=names)
def test_padding_of_items_of_one_number(target, item):
    x = sf.Ragged(torch.ones(3, *item), [1, 2])
    for fill in (5, 5.0, torch.tensor(5.0), np.full(item, 5.0), torch.full(item, 5.0)):
        y = sf.convert(x, target, fill=fill)
        assert sorted(y.data.flatten().tolist()) == sorted([1.0] * x.data.numel() + [5.0] * math.prod(item))


def test_large_batches_use_lazily_zeroed_memory_and_threads():
    x = sf.Ragged(torch.rand(120_000, 80), [119_000] + [1] * 1000)
    y = sf.convert(x[1:], sf.Masked, width=120)
    assert y.data.numel() * 4 > 1 << 25
    assert torch.equal(sf.convert(y, sf.Ragged).data, x.data[119_000:])
    assert not y.data[:, 1:].any()


def test_strided_conjugated_and_negated_tensors_are_read_as_they_look():
    z = torch.view_as_complex(torch.rand(6, 2))
    for data in (torch.rand(6, 4)[:, ::2], torch.rand(3, 6).T, z.conj(), z.conj().imag, torch.rand(12)[::2]):
        x = sf.convert(sf.Ragged(data, [2, 4]), sf.Masked)
        assert torch.equal(x.data[0, :2], data[:2])
        assert torch.equal(x.data[1], data[2:])


def test_data_is_the_given_tensor():
    data = torch.rand(5)
    assert sf.Ragged(data, [5]).data is data
    assert sf.LoD(data, [[0, 5]]).data is data
    assert sf.convert(sf.Ragged(data, [5]), sf.List).items[0].data_ptr() == data.data_ptr()


def test_lengths_and_masks_may_be_tensors():
    x = sf.Ragged(torch.arange(5), torch.tensor([2, 3], dtype=torch.int32))
    assert x.lengths.tolist() == [2, 3]
    assert isinstance(x.lengths, np.ndarray)
    y = sf.Masked.from_mask(torch.arange(6).view(2, 3), torch.tensor([[1, 1, 0], [1, 0, 0]]))
    assert y.lengths.tolist() == [2, 1]
    assert y.mask.dtype is torch.bool
    assert y.mask.tolist() == [[True, True, False], [True, False, False]]
    assert x[torch.tensor([True, False])].data.tolist() == [0, 1]


@pytest.mark.filterwarnings("ignore:.*quantize:UserWarning", "ignore:.*nested tensors:UserWarning")
def test_tensors_without_plain_items_are_refused():
    for data in (
        torch.zeros(3, 3).to_sparse(),
        torch.empty(3, device="meta"),
        torch.quantize_per_tensor(torch.rand(3), 0.1, 0, torch.qint8),
        torch.nested.nested_tensor([torch.rand(2), torch.rand(3)]),
    ):
        with pytest.raises(TypeError, match="data is a"):
            sf.Ragged(data, [3])


def test_libraries_do_not_mix():
    with pytest.raises(sf.DeviceError, match="torch"):
        sf.List([np.zeros(2), torch.zeros(2)])


def test_a_tensor_that_was_resized_is_noticed():
    data = torch.rand(6)
    x = sf.Ragged(data, [2, 4])
    data.resize_(3)
    with pytest.raises(sf.StructureError, match="build a new one"):
        sf.convert(x, sf.Masked)


# --- gradients -------------------------------------------------------------------------------------------------------

OPTIONS = [{}, {"truncate": True, "width": 2}, {"multiple_of": 4}]


@pytest.mark.parametrize("source", FORMATS, ids=names)
@pytest.mark.parametrize("target", FORMATS, ids=names)
def test_autograd_through_every_conversion(source, target):
    data = torch.rand(7, 2, dtype=torch.float64, requires_grad=True)
    for options in OPTIONS:
        if options and target not in (sf.Masked, sf.Padded):
            continue

        def operation(rows, options=options):
            return tensor_of(sf.convert(sf.convert(sf.Ragged(rows, [3, 0, 4]), source), target, **options))

        assert operation(data).requires_grad
        assert torch.autograd.gradcheck(operation, data)
        assert torch.autograd.gradgradcheck(operation, data)


WRAPPERS = [sf.with_list, sf.with_ragged, sf.with_padded, sf.with_packed, sf.with_masked, sf.with_lod, sf.with_array]


@pytest.mark.parametrize("wrapper", WRAPPERS, ids=names)
@pytest.mark.parametrize("source", FORMATS, ids=names)
def test_autograd_through_every_wrapper(wrapper, source):
    def on_list(x):
        return [item * item.sin() for item in x.items]

    def on_rows(rows):
        return rows * rows.sin()

    def on_data(x):
        return x.data * x.data.sin()

    function = wrapper({sf.with_list: on_list, sf.with_array: on_rows}.get(wrapper, on_data))
    data = torch.rand(7, 2, dtype=torch.float64, requires_grad=True)

    def operation(rows):
        return tensor_of(function(sf.convert(sf.Ragged(rows, [3, 0, 4]), source)))

    assert torch.autograd.gradcheck(operation, data)


def test_autograd_through_levels_and_selection():
    data = torch.rand(7, dtype=torch.float64, requires_grad=True)
    lod = [[0, 2, 3], [0, 3, 3, 7]]
    for operation in (
        lambda rows: sf.reduce_mean(sf.reduce_sum(sf.LoD(rows, lod))),
        lambda rows: sf.convert(sf.LoD(rows, lod), sf.Masked, level=0).data,
        lambda rows: sf.LoD(rows, lod)[[1, 0, 1]].data,
        lambda rows: sf.Ragged(rows, [3, 4])[[1, 0, 1]].data,
        lambda rows: sf.convert(sf.Ragged(rows, [3, 4]), sf.Padded)[[1, 1]].data,
        lambda rows: sf.convert(sf.Ragged(rows, [3, 4]), sf.Packed)[[1, 0, 1]].data,
        lambda rows: sf.convert(sf.Ragged(rows, [3, 4]), sf.Masked)[::-1].data,
    ):
        assert torch.autograd.gradcheck(operation, data)


def test_a_gradient_and_a_conversion_of_integers():
    ids = sf.Ragged(torch.arange(5), [2, 3])
    assert not sf.convert(ids, sf.Padded).data.requires_grad


def test_graph_memory_is_given_back():
    import gc
    import weakref

    data = torch.rand(1000, requires_grad=True)
    y = sf.convert(sf.Ragged(data, [400, 600]), sf.Padded).data
    seen = weakref.ref(y)
    y.sum().backward()
    gc.collect()
    gc.disable()
    try:
        del y
        assert seen() is None
    finally:
        gc.enable()


def test_a_module_trains_under_a_wrapper():
    torch.manual_seed(0)
    gru = torch.nn.GRU(3, 4)

    @sf.with_packed
    def encode(x):
        out, _ = gru(x.to_torch())
        return out.data

    x = sf.convert(sequences([5, 2, 3], (3,)), sf.Masked)
    y = encode(x)
    assert y.data.shape == (3, 5, 4)
    y.data.sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in gru.parameters())
    alone = torch.cat([gru(s[:, None])[0][:, 0] for s in sf.convert(x, sf.List).items])
    assert torch.allclose(sf.convert(y, sf.Ragged).data, alone, atol=1e-6)


# --- the same as torch's own tools -----------------------------------------------------------------------------------

RANDOM = [np.random.default_rng(seed).integers(1, 9, size) for seed, size in enumerate((1, 2, 5, 17))] + [
    np.array([3, 1, 4, 2])
]


@pytest.mark.parametrize("lengths", RANDOM, ids=len)
@pytest.mark.parametrize("item", [(), (4,), (2, 3)], ids=str)
def test_masked_is_pad_sequence(lengths, item):
    batch = sequences(lengths, item)
    for side in ("right", "left"):
        mine = sf.convert(batch, sf.Masked, fill=-1, side=side)
        theirs = rnn.pad_sequence(batch, batch_first=True, padding_value=-1, padding_side=side)
        assert torch.equal(mine.data, theirs)


@pytest.mark.parametrize("lengths", RANDOM, ids=len)
def test_packed_is_pack_sequence(lengths):
    batch = sequences(lengths, (3,))
    mine = sf.convert(batch, sf.Packed)
    theirs = rnn.pack_sequence(batch, enforce_sorted=False)
    assert mine.size_at_t.tolist() == theirs.batch_sizes.tolist()
    again = sf.Packed.from_torch(theirs)
    assert again.data is theirs.data
    assert sf.equal(again, mine)
    if len(set(lengths)) == len(lengths):  # torch does not keep the order of equal lengths
        for name in ("data", "batch_sizes", "sorted_indices", "unsorted_indices"):
            assert torch.equal(getattr(mine.to_torch(), name), getattr(theirs, name))


@pytest.mark.parametrize("lengths", RANDOM, ids=len)
def test_padded_is_pad_packed_sequence(lengths):
    batch = sequences(lengths, (3,))
    data, sizes = rnn.pad_packed_sequence(rnn.pack_sequence(batch, enforce_sorted=False))
    mine = sf.convert(batch, sf.Padded)
    assert torch.equal(mine.data[:, np.argsort(mine.indices)], data)
    assert sf.lengths(mine).tolist() == sizes.tolist()


def test_to_torch_without_a_sequence():
    """What PyTorch's own functions take."""
    x = sf.convert(sf.List([], like=torch.zeros(0, 3)), sf.Packed)
    packed = x.to_torch()
    padded, lengths = rnn.pad_packed_sequence(packed)
    assert (tuple(padded.shape), lengths.tolist()) == ((1, 0, 3), [])
    out, hidden = torch.nn.GRU(3, 4)(packed)
    assert (tuple(out.data.shape), tuple(hidden.shape)) == ((0, 4), (1, 0, 4))
    assert sf.equal(sf.Packed.from_torch(packed), x)


def test_empty_sequences_have_no_place_in_a_packed_sequence():
    """PyTorch takes more indices than sequences, but then none of its functions works."""
    torn = rnn.PackedSequence(torch.rand(5, 3), torch.tensor([2, 2, 1]), torch.tensor([2, 0, 1]))
    with pytest.raises((RuntimeError, IndexError)):
        rnn.pad_packed_sequence(torn)
    with pytest.raises(sf.StructureError, match="there are 3 and 2"):
        sf.Packed.from_torch(torn)
    x = sf.convert(sequences([2, 0, 3, 0], (3,)), sf.Packed)
    kept = x[sf.lengths(x) > 0]
    assert rnn.pad_packed_sequence(kept.to_torch())[1].tolist() == [2, 3]


def test_from_and_to_torch_say_what_does_not_fit():
    with pytest.raises(TypeError, match="PackedSequence"):
        sf.Packed.from_torch(torch.rand(3))
    with pytest.raises(TypeError, match="torch"):
        sf.convert([np.zeros(2)], sf.Packed).to_torch()
    with pytest.raises(sf.StructureError, match="2 of 3 sequences are empty"):
        sf.convert([torch.zeros(0), torch.zeros(2), torch.zeros(0)], sf.Packed).to_torch()
    one = rnn.pack_padded_sequence(torch.rand(4, 2, 3), [4, 2])
    assert sf.lengths(sf.Packed.from_torch(one)).tolist() == [4, 2]


def test_a_dataloader_worker_converts():
    class Batches(torch.utils.data.Dataset):
        def __len__(self):
            return 4

        def __getitem__(self, i):
            return [torch.arange(length) for length in range(1, i + 3)]

    def collate(batch):
        (items,) = batch
        return sf.convert(items, sf.Masked), sf.num_threads()

    sf.convert([torch.arange(3)], sf.Masked)  # compiled before the fork
    loader = torch.utils.data.DataLoader(Batches(), collate_fn=collate, num_workers=2, multiprocessing_context="fork")
    for i, (x, threads) in enumerate(loader):
        assert sf.lengths(x).tolist() == list(range(1, i + 3))
        assert threads == 1


def test_parameters_and_tensors_are_one_library():
    parameter = torch.nn.Parameter(torch.rand(2, 3))
    x = sf.convert([torch.rand(1, 3), parameter], sf.Ragged)
    assert x.data.requires_grad
    assert torch.equal(x.data[1:], parameter)


def test_tensors_whose_memory_was_taken_away():
    for use in (lambda d: sf.convert([d, d], sf.Masked), lambda d: sf.Ragged(d, [3])):
        d = torch.rand(3)
        d.untyped_storage().resize_(0)
        with pytest.raises(TypeError, match="without memory"):
            use(d)
    d = torch.rand(3)
    x = sf.Ragged(d, [3])
    d.untyped_storage().resize_(0)
    with pytest.raises(sf.StructureError, match="build a new one"):
        sf.convert(x, sf.Masked)
    with pytest.raises(TypeError, match="without memory"):
        sf.convert([torch._efficientzerotensor(3)] * 2, sf.Masked)


def test_one_item_with_a_long_stride():
    assert sf.convert(sf.Ragged(torch.arange(10.0)[::5][:1], [1]), sf.Masked).data.tolist() == [[0]]


@pytest.mark.parametrize("kind", [sf.Masked, sf.Padded], ids=names)
def test_padding_has_no_gradient(kind):
    data = torch.ones(3, 3, requires_grad=True)
    x = sf.Masked(data, [3, 1, 0]) if kind is sf.Masked else sf.Padded(data, [2, 1, 1], [3, 1, 0], [0, 1, 2])
    sf.convert(x, kind, fill=0).data.sum().backward()
    assert data.grad.sum() == 4
    bias = torch.zeros((), requires_grad=True)
    wrapper = sf.with_masked if kind is sf.Masked else sf.with_padded
    wrapper(lambda m: m.data + bias)(x).data.sum().backward()
    assert bias.grad == 4


def test_third_derivatives():
    data = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)

    def cube(rows):
        return sf.reduce_sum(sf.Ragged(rows, [2])) ** 3

    def plain(rows):
        return rows.sum(0, keepdim=True) ** 3

    found = []
    for function in (cube, plain):
        (g,) = torch.autograd.grad(function(data).sum(), data, create_graph=True)
        (h,) = torch.autograd.grad((g**2).sum(), data, create_graph=True)
        found.append(torch.autograd.grad(h.sum(), data)[0])
    assert torch.allclose(*found)


def test_a_fill_that_would_lose_its_gradient():
    with pytest.raises(TypeError, match="fill has no gradient"):
        sf.convert([torch.zeros(1), torch.zeros(2)], sf.Masked, fill=torch.zeros((), requires_grad=True))
    y = sf.convert([torch.zeros(1, 2), torch.zeros(2, 2)], sf.Masked, fill=np.arange(2.0)[::-1])
    assert y.data[0, 1].tolist() == [1, 0]


def test_columns_follow_the_lengths_alone():
    """A PackedSequence may order equal lengths as it likes; what comes out of it does not."""
    packed = sf.Packed(torch.tensor([10.0, 20.0, 30.0]), [3], [1, 1, 1], [2, 0, 1])
    ragged = sf.convert(packed, sf.Ragged)
    fresh = sf.Ragged(ragged.data.clone(), ragged.lengths)
    assert sf.convert(ragged, sf.Padded).indices.tolist() == [0, 1, 2]
    for first, second in ((packed, fresh), (fresh, packed), (ragged, fresh)):
        for wrapper in (sf.with_padded, sf.with_packed, sf.with_masked):
            difference = wrapper(lambda p, q: p.data - q.data)(first, second)
            assert not difference.data.any()
    assert sf.with_padded(lambda p: p)(packed).indices.tolist() == [2, 0, 1]
