"""Encodings of tensors behave as users of PyTorch expect: they go where tensors go."""

import copy
import dataclasses
import io
import pickle
import subprocess
import sys

import numpy as np
import pytest

import seqformats as sf

pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("ignore:.*LeafSpec.*:FutureWarning")]
torch = pytest.importorskip("torch")

from torch.distributed.utils import _apply_to_tensors  # noqa: E402  where torch is there
from torch.utils import _pytree  # noqa: E402

LENGTHS = [2, 0, 4, 1]


def ragged(item=(3,)):
    return sf.Ragged(torch.arange(7.0 * int(np.prod(item))).reshape(7, *item), LENGTHS)


def batches(item=(3,)):
    x = ragged(item)
    made = [sf.convert(x, kind) for kind in (sf.List, sf.Ragged, sf.Masked, sf.Padded, sf.Packed)]
    made.append(sf.convert(x, sf.Masked, side="left", width=6))
    made.append(sf.LoD(x.data, [[0, 1, 1, 4], x.offsets]))
    made.append(sf.chunk(x, 3, 1))
    made.append(sf.List((), like=torch.zeros(0, 2)))
    made.append(sf.Ragged(torch.zeros(0, *item), []))
    return made


def named(x):
    return type(x).__name__


every_batch = pytest.mark.parametrize("x", [*batches(), *batches(())], ids=named)
PAIRS = sf.Pairs(ragged(), torch.arange(4.0))
with_pairs = pytest.mark.parametrize("x", [*batches(), PAIRS], ids=named)


def saved_and_loaded(x, **options):
    file = io.BytesIO()
    torch.save(x, file)
    file.seek(0)
    return torch.load(file, **options)


# --------------------------------------------------------------------------------------------------------- to


@every_batch
@pytest.mark.parametrize(
    ("args", "options"),
    [
        ((torch.float16,), {}),
        (("cpu", torch.float16), {}),
        ((torch.device("cpu"),), {"dtype": torch.float16, "non_blocking": True}),
        ((None, torch.float16, True), {}),
        ((), {"dtype": "float16"}),
        ((torch.zeros(1, dtype=torch.float16),), {}),
        ((sf.Ragged(torch.zeros(1, dtype=torch.float16), [1]),), {}),
        ((), {"other": torch.zeros(1, dtype=torch.float16)}),
    ],
)
def test_to(x, args, options):
    y = x.to(*args, **options)
    assert type(y) is type(x)
    assert y.dtype is torch.float16
    assert y._structure is x._structure
    assert sf.equal(y, sf.astype(x, torch.float16))


@with_pairs
def test_what_changes_nothing_is_the_same(x):
    assert x.to("cpu") is x.to(torch.float32) is x.cpu() is x.to() is x
    assert x.is_pinned() is False
    y = x.to(torch.float32, copy=True)
    for one, two in zip(x._leaves(), y._leaves(), strict=True):
        assert torch.equal(one, two)
        assert one.numel() == 0 or one.data_ptr() != two.data_ptr()


def test_to_another_device():
    x = ragged()
    assert x.to("meta").device == "meta"
    assert x.to("meta")._structure is x._structure
    with pytest.raises(sf.DeviceError):
        x.to("nowhere")
    if not torch.cuda.is_available():
        for use in (x.cuda, lambda: x.cuda(1), lambda: PAIRS.cuda()):
            with pytest.raises(sf.DeviceError, match="cuda"):
                use()


@pytest.mark.parametrize(
    ("use", "said"),
    [
        (lambda x: x.to("float16"), "dtype='float16'"),
        (lambda x: x.to("cpu", torch.float16, False, False, 1), "at most 4"),
        (lambda x: x.to(torch.float16, dtype=torch.float32), "dtype twice"),
        (lambda x: x.to(other=x, device="cpu"), "either other"),
        (lambda x: x.to(memory_format=torch.preserve_format), "memory format"),
        (lambda x: x.to(np.zeros(2)), "of numpy"),
        (lambda x: x.to("cpu", non_blocking="no"), "non_blocking must be"),
        (lambda x: x.to(other="cpu"), "other must be"),
        (lambda x: sf.Ragged(x.data.long(), x.lengths).requires_grad_(), "no gradient"),
    ],
)
def test_wrong_calls(use, said):
    with pytest.raises(TypeError, match=said):
        use(ragged())


def test_to_is_in_the_graph():
    x = ragged().requires_grad_()
    sf.reduce_sum(x.to(torch.float64)).sum().backward()
    assert torch.equal(x.data.grad, torch.ones(7, 3))


@with_pairs
def test_detach_and_requires_grad(x):
    y = x.to(torch.float64).requires_grad_()
    assert all(leaf.requires_grad for leaf in y._leaves())
    z = y.detach()
    assert not any(leaf.requires_grad for leaf in z._leaves())
    for one, two in zip(y._leaves(), z._leaves(), strict=True):
        assert one.data_ptr() == two.data_ptr()
    assert y.requires_grad_(False) is y


def test_a_list_of_several_is_moved_as_a_whole():
    x = sf.convert(ragged(), sf.List)
    assert [item.dtype for item in x.to(torch.int64).items] == [torch.int64] * 4


def test_other_libraries():
    x = sf.Ragged(np.arange(3.0), [1, 2])
    assert x.to(np.float32).dtype == np.float32
    assert x.to(torch.float32).dtype == np.float32  # a dtype of another library by its name
    assert x.detach() is x.cpu() is x
    for use in (x.pin_memory, x.requires_grad_, x.share_memory_, lambda: x.record_stream(None)):
        with pytest.raises(TypeError, match=r'sf\.to\(x, "torch"\)'):
            use()


# ---------------------------------------------------------------------------------------------------- structure


def test_lengths_and_offsets_as_tensors():
    for x in batches()[:6]:
        assert x.lengths_tensor().tolist() == LENGTHS
        assert x.offsets_tensor().tolist() == [0, 2, 2, 6, 7]
        assert x.offsets_tensor().dtype is torch.int64
        assert x.lengths_tensor(dtype=torch.int32).dtype is torch.int32
    x = sf.LoD(torch.zeros(7), [[0, 1, 4], [0, 2, 2, 6, 7]])
    assert x.lengths_tensor(level=0).tolist() == [1, 3]
    assert x.offsets_tensor(level=0).tolist() == [0, 1, 4]


def test_on_the_host_they_are_the_callers_own():
    x = ragged()
    x.lengths_tensor().numpy()[:] = 9
    x.lengths_tensor().add_(1)
    assert x.lengths_tensor().tolist() == LENGTHS


def test_elsewhere_they_are_kept_until_they_are_written():
    x = ragged()
    first = x.lengths_tensor(device="meta")
    assert x.lengths_tensor(device="meta") is first
    assert sf.convert(x, sf.Masked).lengths_tensor(device="meta") is first
    assert x.lengths_tensor(device="meta", dtype=torch.int32) is not first
    with torch.inference_mode():
        inside = x.offsets_tensor(device="meta")
    assert x.offsets_tensor(device="meta") is inside
    first.add_(1)
    assert x.lengths_tensor(device="meta") is not first


def test_wrong_tensors_of_lengths():
    x = ragged()
    with pytest.raises(TypeError, match="are integers"):
        x.lengths_tensor(dtype=torch.float32)
    with pytest.raises(sf.StructureError, match="up to 300"):
        sf.Ragged(torch.zeros(300), [300]).lengths_tensor(dtype=torch.uint8)
    with pytest.raises(sf.DeviceError):
        x.lengths_tensor(device="nowhere")
    with pytest.raises(TypeError, match="PyTorch"):
        sf.Ragged(np.zeros(3), [3]).offsets_tensor()
    with pytest.raises(IndexError):
        x.lengths_tensor(level=1)


# ------------------------------------------------------------------------------------------------------- pytrees


@with_pairs
def test_a_function_of_leaves(x):
    y = _pytree.tree_map(lambda leaf: leaf * 2, {"x": [x]})["x"][0]
    assert type(y) is type(x)
    for one, two in zip(x._leaves(), y._leaves(), strict=True):
        assert torch.equal(one * 2, two)
    z = _pytree.tree_map(torch.add, x, x)
    assert all(torch.equal(one, two) for one, two in zip(y._leaves(), z._leaves(), strict=True))


@with_pairs
@pytest.mark.parametrize("make", [lambda t: None, lambda t: t.sum(), lambda t: 1.5, lambda t: "text", lambda t: str])
def test_leaves_that_are_no_arrays_are_held(x, make):
    y = _pytree.tree_map(make, x)
    leaves, spec = _pytree.tree_flatten(y)
    assert spec == _pytree.tree_structure(x)
    assert list(map(str, leaves)) == [str(make(leaf)) for leaf in _pytree.tree_leaves(x)]
    assert repr(y)


def test_what_does_not_fit_is_read_by_nobody():
    x = ragged()
    for make in (lambda t: t[:2], lambda t: t.sum(), lambda t: None, lambda t: t.tolist()):
        for kind in (sf.Ragged, sf.Masked, sf.Packed, sf.List):
            y = _pytree.tree_map(make, sf.convert(x, kind))
            for use in (sf.reduce_sum, lambda z: sf.convert(z, sf.LoD), lambda z: z[[0, 2]]):
                with pytest.raises((TypeError, sf.SeqFormatError, AttributeError)):
                    use(y)


def test_leaves_with_other_items():
    y = _pytree.tree_map(lambda t: t.half()[:, :2], ragged())
    assert (y.item_shape, y.dtype) == ((2,), torch.float16)
    turned = _pytree.tree_map(lambda t: t.transpose(1, 2), ragged((2, 3)))
    assert turned.item_shape == (3, 2)
    assert torch.equal(sf.reduce_sum(turned), sf.reduce_sum(ragged((2, 3))).transpose(1, 2))


@with_pairs
def test_the_structure_is_the_context(x):
    leaves, spec = _pytree.tree_flatten(x)
    assert _pytree.treespec_loads(_pytree.treespec_dumps(spec)) == spec
    assert pickle.loads(pickle.dumps(spec)) == spec
    assert hash(pickle.loads(pickle.dumps(spec))) == hash(spec)
    assert sf.equal(_pytree.tree_unflatten(leaves, spec), x)
    with_keys, _ = _pytree.tree_flatten_with_path(x)
    assert [leaf for _, leaf in with_keys] == leaves


def test_other_lengths_are_another_context():
    x = ragged()
    specs = [_pytree.tree_structure(y) for y in batches()]
    specs.append(_pytree.tree_structure(sf.Ragged(x.data, [1, 1, 4, 1])))
    for i, one in enumerate(specs):
        assert [k for k, two in enumerate(specs) if one == two] == [i]
    with pytest.raises(ValueError, match="context mismatch"):
        _pytree.tree_map(torch.add, x, sf.Ragged(x.data, [1, 1, 4, 1]))
    assert _pytree.tree_structure(ragged((3, 1))) == _pytree.tree_structure(x)


# ------------------------------------------------------------------------------------------- saving, collating


@with_pairs
def test_load_with_weights_only(x):
    y = saved_and_loaded({"batch": x}, weights_only=True)["batch"]
    assert type(y) is type(x)
    assert sf.equal(x, y)


def test_in_a_fresh_process_in_either_order(tmp_path):
    torch.save(ragged(), tmp_path / "x.pt")
    for first in ("import torch, seqformats as sf", "import seqformats as sf, torch"):
        script = f"{first}\nx = torch.load({str(tmp_path / 'x.pt')!r})\nprint(sf.lengths(x).tolist(), x.rows)"
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
        assert done.stdout == "[2, 0, 4, 1] 7\n"


def test_a_forged_file_is_no_encoding():
    from seqformats.formats.encoding import restored

    for forged in ((sf.Ragged, torch.zeros(3), b"12345678"), (sf.Ragged, torch.zeros(3), b"1"), (dict, ())):
        with pytest.raises((TypeError, sf.StructureError)):
            restored(*forged)


@with_pairs
def test_default_collate(x):
    from torch.utils.data import default_collate

    joined = default_collate([{"x": x, "y": 1}, {"x": x, "y": 2}])
    assert joined["y"].tolist() == [1, 2]
    assert len(joined["x"]) == 2 * len(x)
    assert sf.equal(joined["x"][: len(x)], x) or isinstance(x, (sf.Pairs, sf.Chunks))


def test_default_collate_gives_tensors():
    from torch.utils.data import DataLoader

    samples = [{"ids": sf.Ragged(np.arange(k), [k])} for k in (2, 3, 1)]
    (batch,) = DataLoader(samples, batch_size=3)
    assert sf.equal(batch["ids"], sf.Ragged(torch.tensor([0, 1, 0, 1, 2, 0]), [2, 3, 1]))


def test_pinning_by_a_loader_calls_the_method():
    from torch.utils.data._utils.pin_memory import pin_memory

    class Tensor(torch.Tensor):
        def pin_memory(self, *device):
            return self.as_subclass(torch.Tensor) + 1

    x = sf.Ragged(torch.zeros(3).as_subclass(Tensor), [1, 2])
    assert pin_memory({"x": x, "y": sf.Pairs(x, x)})["x"].data.tolist() == [1, 1, 1]
    assert pin_memory([sf.Pairs(x, x)])[0].two.data.tolist() == [1, 1, 1]


@with_pairs
def test_inputs_of_parallel_models_are_rebuilt(x):
    y = _apply_to_tensors(lambda t: t.double(), {"x": x})["x"]
    assert type(y) is type(x)
    assert all(leaf.dtype is torch.float64 for leaf in y._leaves())
    assert sf.equal(dataclasses.replace(x), x)


# ------------------------------------------------------------------------------------------------------ processes


def add_one(queue, back):
    x = queue.get()
    for leaf in x._leaves():
        leaf.add_(1)
    back.put(sf.lengths(x).tolist())
    queue.get()


@pytest.mark.parametrize("x", [ragged(), sf.convert(ragged(), sf.Padded), sf.convert(ragged(), sf.List)], ids=named)
def test_another_process_gets_the_same_memory(x):
    context = torch.multiprocessing.get_context("fork")
    queue, back = context.SimpleQueue(), context.SimpleQueue()
    process = context.Process(target=add_one, args=(queue, back))
    before = [leaf.clone() for leaf in x._leaves()]
    assert x.share_memory_() is x
    process.start()
    queue.put(x)
    assert back.get() == LENGTHS
    queue.put(None)
    process.join()
    assert all(torch.equal(leaf, old + 1) for leaf, old in zip(x._leaves(), before, strict=True))
    assert all(leaf.is_shared() for leaf in x._leaves())


def test_copies_keep_the_layout():
    x = sf.convert(ragged(), sf.Masked, side="left", width=9)
    y = pickle.loads(pickle.dumps(x))
    assert torch.equal(x.data, y.data)
    assert x.side == y.side


# ------------------------------------------------------------------------------------------------- deep copies


@with_pairs
def test_deep_copies_of_leaves_share_nothing(x):
    leaves = sf.formats.leaves.leaves(x)
    y = copy.deepcopy(x)
    assert sf.equal(x, y)
    theirs = sf.formats.leaves.leaves(y)
    assert not {t.data_ptr() for t in leaves if t.numel()} & {t.data_ptr() for t in theirs}
    again = copy.deepcopy([x, x])
    assert again[0] is again[1]


def test_deep_copies_of_parameters_train():
    x = sf.Ragged(torch.rand(3, requires_grad=True), [2, 1])
    y = copy.deepcopy(x)
    assert y.data.is_leaf
    assert y.data.requires_grad


@with_pairs
def test_deep_copies_inside_a_graph_name_what_works(x):
    leaves = sf.formats.leaves.leaves(x)
    if not leaves:
        return
    y = x._with_leaves([t.detach().clone().requires_grad_() * 2 for t in leaves])
    with pytest.raises(RuntimeError, match=r"copy\.deepcopy\(x\.detach\(\)\)") as caught:
        copy.deepcopy(y)
    assert "\n" not in str(caught.value)
    assert type(y).__name__ in str(caught.value) or type(y) is sf.Pairs
    assert sf.equal(copy.deepcopy(y.detach()), y.detach())
