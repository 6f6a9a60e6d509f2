"""Lengths and offsets as tensors, where the items are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from ..arrays import Array, DType, dtype_in, library_of
from ..errors import DEVICE, LIBRARY, OVERFLOW, WHOLE, quote
from ..formats import Encoding, level_index
from ..formats.structure import Structure

Tensor: TypeAlias = Any  # torch.Tensor, of a package that need not be there


def structure_tensor(x: Encoding, name: str, dtype: DType, device: object, level: int) -> Tensor:
    """The lengths or offsets of a level; see `Encoding.lengths_tensor`."""
    sample: Any = x._sample()
    library = library_of(sample)
    if library.name != "torch":
        raise LIBRARY(f'{name}_tensor is for items in PyTorch; sf.lengths(x) is an array, sf.to(x, "torch") has them')
    structure = x._levels[level_index(x, level)]
    return tensor_of(structure, name, sample, "int64" if dtype is None else dtype, device)


def tensor_of(structure: Structure, name: str, like: Tensor, dtype: DType, device: object = None) -> Tensor:
    """The array of a structure that is called so as a tensor of this dtype, on this device, else on that of `like`."""
    import torch

    wanted = dtype_in(library_of(like), dtype)
    known = library_of(like).dtype_name(wanted)
    if "int" not in known:
        raise WHOLE(f"{name} are integers, and no {quote(dtype)}")
    host: Array = getattr(structure, name)
    if host.size and (most := int(host.max())) > np.iinfo(known).max:
        raise OVERFLOW(f"{name} go up to {most}, which is more than {known} can count")
    try:
        where = like.device if device is None else torch.device(device)
    except (TypeError, ValueError, RuntimeError) as error:
        raise DEVICE(f"torch knows no device {quote(device)}: {error}") from None
    numbers = host.astype(known)
    if where.type == "cpu":
        return torch.from_numpy(numbers)
    return keep_with(structure, (name, known, str(where)), lambda: _upload(numbers, where))


def _upload(numbers: Array, where: object) -> Tensor:
    import torch

    try:
        return torch.from_numpy(numbers).to(where)
    except (RuntimeError, AssertionError) as error:
        raise DEVICE(f"torch cannot reach the device {quote(where)}: {error}") from None


def keep_with(structure: Structure, key: tuple[str, ...], make: Callable[[], Tensor]) -> Tensor:
    """Keep what `make` gives with the structure until somebody writes into it."""
    import torch

    found = structure.device.get(("tensor", *key))
    if found is not None and found[0]._version == found[1]:
        return found[0]
    with torch.inference_mode(False):  # else it would count no changes, and could be in no graph later
        tensor = make()
    if type(tensor) is torch.Tensor:  # and not one that stands for it while a graph is traced
        keep(structure, key, tensor)
    return tensor


def keep(structure: Structure, key: tuple[str, ...], tensor: Tensor) -> None:
    """Keep a tensor that holds an array of the structure."""
    structure.device["tensor", *key] = tensor, tensor._version
