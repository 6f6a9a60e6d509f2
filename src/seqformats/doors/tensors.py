"""What doors have to know of tensors: the last words of the common world, see `native.words`."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from .. import registry
from ..arrays import Library
from ..later import loading
from ..native import words
from ..native.words import KEY, TENSOR_NUMBER, TENSOR_NUMBERS
from ..reading.functions import IS_NEG, KEYS, STORAGE, TANGENT, WANTS_GRAD, Functions, is_watched
from ..reading.tensors import functions_of
from .door import of_tensors

_FUNCTIONS = {
    words.STORAGE_SIZE: STORAGE[0],
    words.STORAGE_OFFSET: STORAGE[1],
    words.IS_NEG: IS_NEG,
    words.WANTS_GRAD: WANTS_GRAD,
    words.GRAD_IS_ON: "_ZN3c108GradMode10is_enabledEv",  # bool c10::GradMode::is_enabled()
    words.TANGENT: TANGENT,
    # bool c10::impl::tls_is_dispatch_key_included(c10::DispatchKey)
    words.IS_INCLUDED: "_ZN3c104impl28tls_is_dispatch_key_includedENS_11DispatchKeyE",
    words.NEW_TENSOR: "aoti_torch_empty_strided",
    words.DATA_OF: "aoti_torch_get_data_ptr",
    words.WRAP: "_Z16THPVariable_WrapRKN2at10TensorBaseE",  # PyObject* THPVariable_Wrap(at::TensorBase const&)
    words.UNWRAP: "aoti_torch_delete_tensor_object",
}
_TYPES = (words.TENSOR, words.PARAMETER)
_DTYPES = (
    *("bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64"),
    *("float16", "bfloat16", "float32", "float64"),
    *("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"),
)
"""Those of plain numbers: complex ones may be conjugated."""

_known: dict[Library, bool] = {}


@registry.provides("tensors_are_known")
def tensors_are_known(library: Library) -> bool:
    """Is there, in the common world, what there is to know of the tensors of this library?  It is written at first."""
    try:
        return _known[library]
    except KeyError:
        with loading:
            if library not in _known:
                written = _write(library)
                if written is None:
                    return False
                _known[library] = written
            return _known[library]


def _write(library: Library) -> bool | None:
    """Did that succeed?  None while a mode or a transformation is active, which would be given tensors of ours."""
    world: np.ndarray = registry.service("common_world")()
    try:
        if is_watched(sys.modules[library.name]):
            return None
        functions = functions_of(library)
        if functions is None:
            return False
        dtypes = {getattr(functions.torch, name): _in_numpy(name) for name in _DTYPES if hasattr(functions.torch, name)}
        found = _found(functions, list(dtypes))
    except Exception:  # another version may lack anything that is asked for here
        return False
    for word in sorted(found, key=_TYPES.__contains__):  # types last, since with them doors begin to look
        world[word] = found[word]
    of_tensors.update(dtypes)
    return True


def _found(functions: Functions, dtypes: list[Any]) -> dict[int, int]:
    """All words, by their places."""
    torch = functions.torch
    sample = torch.zeros(2, device="cpu")
    found = {word: functions.address(name) for word, name in _FUNCTIONS.items()}
    found[words.LOOK], found[words.INSIDE] = functions.look, functions.inside
    found[words.NO_TANGENT] = functions.no_tangent(sample)
    things = {
        words.SHAPE_OF_TENSORS: torch.Size,
        words.TENSOR_DTYPE: torch.dtype,
        words.TENSOR_INT64: torch.int64,
        words.TENSOR_BOOL: torch.bool,
        words.TENSOR: torch.Tensor,
        words.PARAMETER: torch.nn.Parameter,
    }
    _kept.extend(things.values())
    for k, key in enumerate(KEYS):
        found[KEY + k] = int(getattr(torch._C.DispatchKey, key))
    numbers = [functions.about(dtype) for dtype in dtypes]
    found[words.TENSOR_DTYPES] = len(numbers)
    for k, number in enumerate(numbers):
        place = TENSOR_NUMBERS + TENSOR_NUMBER * k
        found.update(zip(range(place, place + TENSOR_NUMBER), number, strict=True))
    return found | {word: id(thing) for word, thing in things.items()}


def _in_numpy(name: str) -> np.dtype[Any] | None:
    """What NumPy has for a dtype, if anything."""
    try:
        return np.dtype(name)
    except TypeError:
        return None


_kept: list[object] = []  # whose addresses are in the world
