"""The array libraries that tests run on: `arrays`, a parameter of every test that asks for it, and `gpu`.

A test of conversions or operations draws a batch of NumPy arrays, calls through ``arrays.on(function)`` or
``arrays.vjp(function, ...)``, and looks at NumPy arrays again. Its turns are:

- NumPy, everywhere and with the most examples;
- Numba's device arrays, in the simulator of CUDA in the interpreted pass, and where there is a GPU;
- tensors on the host, where PyTorch is installed, with the mark ``peers``;
- tensors and CuPy's arrays on a GPU, where there is one.
"""

import ctypes
import importlib.util
import os

import numpy as np
import pytest
import strategies

import seqformats as sf
from seqformats.arrays import is_array, library_of
from seqformats.formats.leaves import leaves, rebuild

SIMULATED = os.environ.get("NUMBA_ENABLE_CUDASIM", "0") not in ("", "0")


def need_gpu():
    """Skip the test where there is neither a GPU nor the simulator."""
    pytest.importorskip("numba.cuda")
    from seqformats.launch.cuda import devices

    if not devices():
        pytest.skip("there is no GPU")


def there_is_a_gpu():
    """A question to the driver, which takes less time than to import a library that asks it."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    count = ctypes.c_int(0)
    return driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0 and count.value > 0


def leaves_of(x):
    """The arrays of items in a batch, an array, a `TensorArray`, or lists of those."""
    if isinstance(x, (list, tuple, sf.TensorArray)):
        return [leaf for part in x for leaf in leaves_of(part)]
    return leaves(x)


class OnNumPy:
    """NumPy's arrays: everything as it is."""

    first = True  # the library that tests show the most examples
    simulated = False  # does it start kernels in the simulator of CUDA?
    dtypes = strategies.DTYPES

    def runs(self, folder, file):
        """Do the tests of this file run on it?"""
        return True

    def examples(self, wanted):
        """Of so many examples, how many it is shown."""
        return wanted

    def up(self, x):
        """`x` with its arrays in the library."""
        return x

    def down(self, x):
        """`x` with its arrays in NumPy's memory."""
        return x

    def beside(self, x, other):
        """An array where the arrays of `x` go, if it has any: bare lists of numbers stay what they are."""
        return self.up(other) if leaves_of(x) else other

    def on(self, function):
        """`function` of NumPy's arrays to NumPy's arrays, calculated in the library."""
        return function

    def vjp(self, function, *args, **options):
        """`sf.vjp` of NumPy's arrays to NumPy's arrays, calculated in the library."""
        return sf.vjp(function, *args, **options)

    def need_products(self):
        """Skip the test where the library has no product of matrices, nor any other arithmetic."""

    def multiplied(self, dtypes):
        """Those of these dtypes that it has a product of matrices for."""
        return self.of(dtypes)

    def held(self, x):
        """Does the library hold some of it?"""
        return True

    def of(self, dtypes):
        """Those of these dtypes that the library has."""
        return [dtype for dtype in dtypes if dtype in self.dtypes]


class OnOther(OnNumPy):
    """Arrays of another library, or elsewhere; what is calculated from them stays there."""

    first = False

    def examples(self, wanted):
        return min(wanted, max(3 if SIMULATED else 5, wanted // 4))

    def up(self, x):
        if isinstance(x, sf.List) and not x.items:
            return x if x.like is None else sf.List([], self.up(x.like))
        if isinstance(x, (list, tuple)):
            return type(x)([self.up(part) for part in x])
        if isinstance(x, sf.TensorArray):
            return x.with_steps(self.up(list(x)))
        return rebuild(x, [self.array(leaf) for leaf in leaves(x)])

    def down(self, x):
        if isinstance(x, (list, tuple)):
            return type(x)([self.down(part) for part in x])
        if isinstance(x, sf.TensorArray):
            return x.with_steps(self.down(list(x)))
        if isinstance(x, sf.List) and not x.items:
            return x if x.like is None else sf.List([], self.down(x.like))
        return rebuild(x, [self.numpy(leaf) for leaf in leaves(x)])

    def sent(self, args):
        """The arguments of an operation, of which only the first may be an array of items."""
        return [x if k and is_array(x) else self.up(x) for k, x in enumerate(args)]

    def options(self, options):
        """Options, of which those that are arrays may be of any library."""
        return options

    def held(self, x):
        return any(self.holds(leaf) for leaf in leaves_of(x))

    def checked(self, found):
        """What is calculated from arrays of the library consists of such."""
        assert all(self.holds(leaf) for leaf in leaves_of(found)), found
        return found

    def on(self, function):
        def called(*args, **options):
            there = self.sent(args)
            if not self.held(there):  # bare lists of numbers
                return function(*args, **options)
            found = self.checked(function(*there, **self.options(options)))
            for given, x in zip(args, there, strict=True):
                if found is x:
                    return given
            return self.down(found)

        return called

    def vjp(self, function, *args, **options):
        there = self.sent(args)
        if not self.held(there):
            return sf.vjp(function, *args, **options)
        y, pullback = sf.vjp(function, *there, **self.options(options))

        def pulled(dy):
            slopes = self.up(dy)
            dx = pullback(slopes)
            return self.down(self.checked(dx) if self.held(slopes) else dx)  # else bare lists without numbers

        return self.down(self.checked(y)), pulled

    def holds(self, leaf):
        """Is it an array of the library, where the library calculates?"""
        return library_of(leaf).kind(leaf) == "cuda"


class OnNumba(OnOther):
    """Numba's device arrays, which take every dtype."""

    simulated = SIMULATED

    def need(self):
        need_gpu()

    def need_products(self):
        pytest.skip("Numba's arrays have no matrix product")

    def array(self, leaf):
        return sf.to_device(leaf, "cuda")

    def numpy(self, leaf):
        return sf.to_device(leaf, "cpu")


class OnPtx(OnOther):
    """Memory of the host that pretends to be on a GPU, whose kernels run as PTX on the CPU, see `of_ptx`.

    With ``SEQFORMATS_PTX=1`` all tests of GPUs run on it, most of whose time goes to compiling kernels.
    """

    def __init__(self, driver=None):
        self.driver = driver

    def need(self):
        importlib.import_module("of_ptx").install()

    def array(self, leaf):
        if os.environ.get("SEQFORMATS_PTX"):
            self.need()
        return np.array(leaf).view(importlib.import_module("elsewhere").There)

    def numpy(self, leaf):
        return leaf.view(np.ndarray)


class OnTorch(OnOther):
    """Tensors, on a device or on the host."""

    codes = "? u1 u2 u4 u8 i1 i2 i4 i8 f2 f4 f8 c8 c16"

    def __init__(self, device="cuda"):
        self.device = device

    @property
    def dtypes(self):
        return [*map(np.dtype, self.codes.split()), strategies.BFLOAT16]

    @property
    def library(self):
        return pytest.importorskip("torch")

    def need(self):
        need_gpu()
        if not self.library.cuda.is_available():
            pytest.skip("torch sees no GPU")

    def multiplied(self, dtypes):
        return [dtype for dtype in self.of(dtypes) if self.device == "cpu" or dtype.kind not in "biu"]

    def options(self, options):
        """PyTorch does not know NumPy's bfloat16."""
        new = {name: self.up(x) for name, x in options.items() if getattr(x, "dtype", None) == strategies.BFLOAT16}
        return {**options, **new}

    def array(self, leaf):
        if isinstance(leaf, self.library.Tensor):
            return leaf
        leaf = np.array(leaf)
        if leaf.dtype == strategies.BFLOAT16:
            tensor = self.library.from_numpy(leaf.view("i2")).view(self.library.bfloat16)
        else:
            tensor = self.library.from_numpy(leaf)
        return tensor.to(self.device)

    def numpy(self, leaf):
        if not isinstance(leaf, self.library.Tensor):
            return leaf
        leaf = leaf.detach().cpu()
        if leaf.dtype is self.library.bfloat16:
            return leaf.view(self.library.int16).numpy().view(strategies.BFLOAT16)
        return leaf.numpy()

    def holds(self, leaf):
        return isinstance(leaf, self.library.Tensor) and leaf.device.type == self.device


class OnCuPy(OnOther):
    """CuPy's arrays."""

    dtypes = [np.dtype(code) for code in OnTorch.codes.split()]

    @property
    def library(self):
        return pytest.importorskip("cupy")

    def need(self):
        self.library, need_gpu()

    def array(self, leaf):
        return self.library.asarray(leaf)

    def numpy(self, leaf):
        return self.library.asnumpy(leaf)


class OnJax(OnOther):
    """JAX's arrays on the host, with 64 bits."""

    dtypes = [*map(np.dtype, OnTorch.codes.split()), strategies.BFLOAT16]
    files = ("test_cut", "test_elementwise", "test_expand", "test_filter", "test_join", "test_order", "test_pick")
    files = (*files, "test_weighted")

    @property
    def library(self):
        jax = pytest.importorskip("jax")
        jax.config.update("jax_enable_x64", True)
        return jax

    def runs(self, folder, file):
        return folder in ("converters", "formats", "gradients") or file in self.files

    def examples(self, wanted):
        return min(wanted, 2)

    def array(self, leaf):
        return sf.to(leaf, "jax") if self.library else leaf

    def numpy(self, leaf):
        return np.array(leaf)  # which may be written

    def holds(self, leaf):
        return isinstance(leaf, self.library.Array)


NUMPY = OnNumPy()

# Numbers in the simulator are NumPy's, which warn where a GPU goes on.
QUIET = [pytest.mark.filterwarnings("ignore::RuntimeWarning")]

GPUS, HOSTS = [], [pytest.param(NUMPY, id="numpy")]
if SIMULATED:
    GPUS.append(pytest.param(OnNumba(), id="numba", marks=QUIET))
elif there_is_a_gpu():
    GPUS.append(pytest.param(OnNumba(), id="numba", marks=[pytest.mark.cuda]))
    for library, on in (("torch", OnTorch()), ("cupy", OnCuPy())):
        if importlib.util.find_spec(library):
            GPUS.append(pytest.param(on, id=f"{library}-cuda", marks=[pytest.mark.cuda]))
elif os.environ.get("SEQFORMATS_PTX"):
    GPUS.append(pytest.param(OnPtx(), id="ptx"))
if importlib.util.find_spec("torch"):
    HOSTS.append(pytest.param(OnTorch("cpu"), id="torch", marks=[pytest.mark.peers]))

if importlib.util.find_spec("jax"):
    HOSTS.append(pytest.param(OnJax(), id="jax", marks=[pytest.mark.jax]))

on_each_library = pytest.mark.parametrize("gpu", GPUS)


def busy(torch, device="cuda"):
    """Keep the current stream at work for some milliseconds, so that whoever does not wait for it comes too early."""
    matrix = torch.full((2048, 2048), 1e-3, device=device)
    for _ in range(30):
        matrix = matrix @ matrix
    return matrix
