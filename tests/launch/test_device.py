"""A device of one's own: an array type, its library, a launcher and kernels, and everything runs there."""

import numpy as np
import oracle
import pytest

import seqformats as sf
from seqformats import arrays
from seqformats.arrays import lookup
from seqformats.launch import kernel as launch
from seqformats.native.code import code_of
from seqformats.native.signature import signature_of


class ToyArray:
    """Memory of a device that the host cannot look into (here it can, but only the launcher below does)."""

    def __init__(self, memory):
        self.memory = memory

    @property
    def shape(self):
        return self.memory.shape

    @property
    def dtype(self):
        return self.memory.dtype

    def __len__(self):
        return len(self.memory)

    def __getitem__(self, index):
        return ToyArray(self.memory[index])

    def reshape(self, *shape):
        return ToyArray(self.memory.reshape(*shape))


class ToyLibrary(arrays.Library):
    name = "toy"
    arithmetic = False

    def adopt(self, x, what):
        return x

    def kind(self, x):
        return "toy"

    def device(self, x):
        return "toy:0"

    def contiguous(self, x):
        return x.memory.flags.c_contiguous

    def empty(self, shape, dtype, like):
        return ToyArray(np.empty(shape, dtype))

    def zeros(self, shape, dtype, like):
        return ToyArray(np.zeros(shape, dtype))

    def address(self, x):
        return arrays.NUMPY.address(x.memory)

    def astype(self, x, dtype):
        return x if x.dtype == dtype else ToyArray(x.memory.astype(dtype))

    def item(self, fill, dtype, item_shape):
        return arrays.NUMPY.item(fill, dtype, item_shape)

    def to_numpy(self, x):
        return x.memory

    def from_host(self, x, like):
        return ToyArray(np.array(x))


STARTED = []


def start(kernel, library, inputs, outputs, args, size, work, structure):
    does = kernel.load().does
    STARTED.append(does)
    if does == "moves":
        src = inputs[0]
        source = 0
        if not isinstance(src, tuple):
            source = arrays.NUMPY.address(src if isinstance(src, np.ndarray) else src.memory)
        data = (source, library.address(outputs[0]))
    else:
        data = [arrays.NUMPY.operand(x if isinstance(x, np.ndarray) else x.memory) for x in inputs]
        data += [arrays.NUMPY.result(x.memory) for x in outputs]
    kernel.function("toy")(*data, *args, size, 0, work.units)


@pytest.fixture
def toy(monkeypatch):
    """The device is known while a test runs."""
    library = ToyLibrary()
    monkeypatch.setattr(lookup, "_KNOWN", [*lookup._KNOWN, lambda kind: library if kind is ToyArray else None])
    saved = [(table, dict(table)) for table in (lookup._by_type, lookup._array_types, launch._launchers)]
    saved += [(found.functions, dict(found.functions)) for found in launch._kernels.values()]
    lookup._array_types.pop(ToyArray, None)
    STARTED.clear()
    yield library
    for table, before in saved:
        table.clear()
        table.update(before)


def with_kernels():
    launch.add_launcher("toy", launch.Launcher(start))
    for name in NEEDED:
        launch.add_kernel(name, "toy", on_the_host(name))


def on_the_host(name):
    """What runs a kernel of the library on the host."""

    def run(*args):
        found = code_of(name, signature_of(args))
        return (launch.kernel(name).function("cpu") if found is None else found.run)(*args)

    return run


NEEDED = [
    "copy_blocks",
    "blocks_to_steps",
    "steps_to_blocks",
    "pad_blocks",
    "end_rows",
    "repeat_rows",
    "reverse_rows",
    "sum_rows",
    "max_rows",
    "spread_rows",
    "softmax_rows",
    "cumsum_rows",
    "logsumexp_rows",
    "number_rows",
]


def there(x):
    """A batch on the host as one on the device."""
    return sf.Ragged(ToyArray(x.data.copy()), x.lengths)


def here(x):
    """What came back, on the host."""
    if isinstance(x, ToyArray):
        return x.memory
    return type(x)(*[f.memory if isinstance(f, ToyArray) else f for f in (getattr(x, n) for n in x.__match_args__)])


HOST = sf.Ragged(np.arange(18, dtype=np.float32).reshape(6, 3) % 7, [2, 0, 3, 1])


@pytest.mark.parametrize("middle", [sf.Padded, sf.Packed, sf.Masked, sf.LoD], ids=oracle.format_name)
def test_conversions_run_there(toy, middle):
    with_kernels()
    x = sf.convert(there(HOST), middle)
    assert x.device == "toy:0"
    assert sf.equal(here(x), sf.convert(HOST, middle))
    for kind in (sf.Ragged, sf.Padded, sf.Packed, sf.Masked):
        assert sf.equal(here(sf.convert(x, kind)), sf.convert(HOST, kind))
    assert "moves" in STARTED


@pytest.mark.parametrize(
    "operation",
    [
        sf.reduce_sum,
        sf.reduce_mean,
        sf.reduce_max,
        sf.reduce_first,
        sf.reduce_logsumexp,
        sf.softmax,
        sf.cumsum,
        sf.reverse,
        sf.position_ids,
        sf.segment_ids,
    ],
    ids=lambda operation: operation.__name__,
)
@pytest.mark.parametrize("kind", [sf.Ragged, sf.Padded, sf.Packed, sf.Masked], ids=oracle.format_name)
def test_operations_run_there(toy, operation, kind):
    """Arithmetic as well as moves, by the launcher alone."""
    with_kernels()
    found, expected = operation(sf.convert(there(HOST), kind)), operation(sf.convert(HOST, kind))
    if isinstance(expected, np.ndarray):
        assert isinstance(found, ToyArray)
        assert found.memory.tolist() == expected.tolist()
    else:
        assert found.device == "toy:0"
        assert sf.equal(here(found), expected)


def test_gradients_run_there(toy):
    with_kernels()
    _, pullback = sf.vjp(sf.reduce_mean, there(HOST))
    _, expected = sf.vjp(sf.reduce_mean, HOST)
    dy = np.ones((4, 3), np.float32)
    STARTED.clear()
    assert sf.equal(here(pullback(ToyArray(dy))), expected(dy))
    assert STARTED == ["calculates"]


def test_a_device_without_a_launcher(toy):
    for operation in (sf.reduce_sum, lambda x: sf.convert(x, sf.Padded)):
        with pytest.raises(sf.DeviceError, match="'toy'.*cpu, cuda"):
            operation(there(HOST))
    assert "toy" not in launch._launchers


def test_a_device_without_a_kernel(toy):
    launch.add_launcher("toy", launch.Launcher(start))
    for operation, name in ((sf.reduce_sum, "sum_rows"), (lambda x: sf.convert(x, sf.Masked), "copy_blocks")):
        with pytest.raises(sf.DeviceError, match=f"no kernel {name} for the device 'toy'; there is one for: cpu, cuda"):
            operation(there(HOST))
    assert "copy_blocks" in sf.explain(sf.Ragged, sf.Masked, "toy")
