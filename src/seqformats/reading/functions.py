"""The functions in C by which machine code reads torch tensors, and makes them.

A tensor's layout comes from the DLPack exchange API, a table of C functions that torch.Tensor has from PyTorch 2.10 on.
It tells nothing of gradients, of a sign that is still to be changed, and of memory that has been taken away.  For these
PyTorch's own functions are asked, by the address of a tensor's C++ object, which holds the shape that DLPack shows.
"""

import ctypes
import struct
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np

WORDS = 8
"""Of 8 bytes, where a DLTensor is written, and two more."""
SHAPE = 3
"""The word of a DLTensor for where its shape is."""
STORAGE = "aoti_torch_get_storage_size", "aoti_torch_get_storage_offset"
"""Of PyTorch's stable C functions, of a tensor: an error code, and what is written."""
IS_NEG = "_ZN2at6native6is_negERKNS_6TensorE"
"""bool at::native::is_neg(at::Tensor const&)."""
WANTS_GRAD = "_ZNK3c1010TensorImpl13requires_gradEv"
"""bool c10::TensorImpl::requires_grad() const."""
KEYS = ("Python", "AutocastCPU", "FuncTorchDynamicLayerFrontMode")
"""The dispatch keys of modes in Python, of autocast, and of transformations of functions."""
_MOST = 512  # bytes of a C++ object before its shape
_TABLE = b"dlpack_exchange_api"  # the name of the capsule that holds the address of the C functions


class Functions:
    """Addresses of functions of this process, of torch and of CPython.

    Parameters
    ----------
    torch : module
    samples : tuple of torch.Tensor
        Of at most 5 axes, on the host.

    Raises
    ------
    Exception
        An exception of any kind, where there is no such function, or it does something else: another torch may lack
        anything.
    """

    def __init__(self, torch: ModuleType, samples: tuple[Any, ...]) -> None:
        self.torch = torch
        self.loaded = ctypes.CDLL(torch._C.__file__)  # it finds what the libraries hold that this one needs
        pointer_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
            ("PyCapsule_GetPointer", ctypes.pythonapi)
        )
        table = pointer_of(torch.Tensor.__dlpack_c_exchange_api__, _TABLE)
        (major,) = struct.unpack("I", ctypes.string_at(table, 4))
        self.look = ctypes.c_void_p.from_address(table + 40).value or 0  # dltensor_from_py_object_no_sync
        if major != 1 or not self.look:
            raise ValueError
        self._fill = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p)(self.look)
        inside = {self.words_of(x)[SHAPE] - x._cdata for x in (*samples, *_of_all_ranks(samples[0]))}
        (self.inside,) = inside
        """How many bytes of a C++ object are before its shape."""
        if not 0 < self.inside < _MOST:
            raise ValueError

    def words_of(self, x: Any) -> list[int]:
        """The words of a DLTensor, of a tensor."""
        words = np.zeros(WORDS, np.int64)
        if self._fill(x, words.ctypes.data):
            raise ValueError
        found: list[int] = words.tolist()
        return found

    def address(self, name: str) -> int:
        """Return the address of a function of torch."""
        return ctypes.cast(self.loaded[name], ctypes.c_void_p).value or 0


def is_watched(torch: ModuleType) -> bool:
    """Tell whether a mode or a transformation is active, which would be given all tensors that are made now."""
    keys = torch._C.DispatchKey
    return any(torch._C._dispatch_tls_is_dispatch_key_included(getattr(keys, key)) for key in KEYS)


def _of_all_ranks(block: Any) -> Iterator[Any]:
    """Tensors with 1 to 5 axes."""
    for rank in range(1, 6):
        yield block.reshape(-1, *[1] * (rank - 1))
        yield block.reshape(*[1] * (rank - 1), -1).double()
