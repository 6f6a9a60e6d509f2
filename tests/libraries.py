"""The array libraries that a test runs on: how to get arrays there and back, and which are here."""

import os

import numpy as np
import pytest
import strategies

import seqformats as sf
from seqformats.formats.leaves import leaves, rebuild

SIMULATED = os.environ.get("NUMBA_ENABLE_CUDASIM", "0") not in ("", "0")


def need_gpu():
    """Skip the test where there is neither a GPU nor the simulator."""
    pytest.importorskip("numba.cuda")
    from seqformats.launch.cuda import devices

    if not devices():
        pytest.skip("there is no GPU")


class OnNumba:
    """Numba's device arrays, which take every dtype."""

    dtypes = strategies.DTYPES

    def need(self):
        need_gpu()

    def up(self, x):
        return sf.to_device(x, "cuda")

    def down(self, x):
        return sf.to_device(x, "cpu")


class OnLibrary:
    """Arrays of a library that has its own dtypes."""

    name = ""
    codes = "? u1 i1 i2 i4 i8 f2 f4 f8 c8 c16"

    @property
    def dtypes(self):
        return [np.dtype(code) for code in self.codes.split()]

    def need(self):
        self.library = pytest.importorskip(self.name)
        need_gpu()
        if not self.library.cuda.is_available():
            pytest.skip(f"{self.name} sees no GPU")

    def up(self, x):
        return rebuild(x, [self.array(leaf) for leaf in leaves(x)])

    def down(self, x):
        return rebuild(x, [self.numpy(leaf) for leaf in leaves(x)])


class OnTorch(OnLibrary):
    name = "torch"

    def array(self, leaf):
        return self.library.from_numpy(np.array(leaf)).cuda()

    def numpy(self, leaf):
        return leaf.detach().cpu().numpy() if isinstance(leaf, self.library.Tensor) else leaf


class OnCuPy(OnLibrary):
    name = "cupy"
    codes = f"{OnLibrary.codes} u2 u4 u8"

    def array(self, leaf):
        return self.library.asarray(leaf)

    def numpy(self, leaf):
        return self.library.asnumpy(leaf)


on_each_library = pytest.mark.parametrize(
    "gpu",
    [
        pytest.param(OnNumba(), id="numba", marks=[] if SIMULATED else [pytest.mark.cuda]),
        pytest.param(OnTorch(), id="torch", marks=[pytest.mark.cuda]),
        pytest.param(OnCuPy(), id="cupy", marks=[pytest.mark.cuda]),
    ],
)


def busy(torch, device="cuda"):
    """Keep the current stream at work for some milliseconds, so that whoever does not wait for it comes too early."""
    matrix = torch.full((2048, 2048), 1e-3, device=device)
    for _ in range(30):
        matrix = matrix @ matrix
    return matrix
