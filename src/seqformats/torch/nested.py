"""Nested tensors of PyTorch, in and out."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from ..arrays import Array, library_of
from ..converters.convert import convert
from ..errors import ITEMS, LIBRARY, ROWS, import_extra
from ..formats import List, Ragged
from ..formats.ragged import gather_rows
from ..formats.structure import Structure
from ..operations.annotations import Batch
from .structure import keep, keep_with

Tensor: TypeAlias = Any  # torch.Tensor, of a package that need not be there


def from_njt(nt: Tensor) -> Ragged:
    """A nested tensor as a `Ragged`.

    Parameters
    ----------
    nt : nested Tensor ``(n, lengths, *item)``
        With jagged layout, the ragged axis being the one after that of the sequences; or with strided layout, its parts
        alike but for their first axis.

    Returns
    -------
    Ragged
        Over the memory of the nested tensor, where its layout is jagged and there are no holes between its sequences
        (as ``torch.nested.narrow`` leaves them); else over a copy without them.  Gradients flow back.

    Raises
    ------
    TypeError
        For what is no nested tensor, and for another ragged axis.
    StructureError
        For parts of different item shapes, and for offsets that lead out of the values.

    See Also
    --------
    seqformats.torch.to_njt : The way back; its result can be added to `nt`.

    Notes
    -----
    Lengths are on the host here, so those of a nested tensor on a GPU are copied, which waits for the GPU.

    ``sf.convert(nt, sf.Masked)`` and every other function that takes a batch takes a nested tensor by this one.

    Examples
    --------
    >>> import seqformats as sf
    >>> import torch
    >>> nt = torch.nested.nested_tensor([torch.tensor([1, 2]), torch.tensor([3])], layout=torch.jagged)
    >>> x = sf.from_njt(nt)
    >>> x.data, x.lengths
    (tensor([1, 2, 3]), array([2, 1]))
    >>> x.data.data_ptr() == nt.values().data_ptr()
    True
    """
    torch = import_extra("torch", "torch")
    if not isinstance(nt, torch.Tensor) or not nt.is_nested:
        hint = "; sf.Ragged(data, lengths) takes rows with their lengths" if isinstance(nt, torch.Tensor) else ""
        raise ITEMS(f"from_njt takes a nested tensor, not {type(nt).__name__}{hint}")
    if nt.layout is not torch.jagged:
        parts = tuple(nt.unbind())
        return convert(List(parts, torch.empty(0, dtype=nt.dtype, device=nt.device) if not parts else None), Ragged)
    if nt._ragged_idx != 1:
        raise ITEMS(
            f"the ragged axis of a nested tensor must be 1, but is {nt._ragged_idx}; give "
            f"x.transpose(1, {nt._ragged_idx})"
        )
    values, lengths = nt.values(), nt.lengths()
    offsets: Array = _on_host(nt.offsets())
    if lengths is None and (offsets.size < 2 or (offsets[0] == 0 and offsets[-1] == values.shape[0])):
        structure = Structure.of_offsets(offsets)
        if structure.rows != values.shape[0]:
            raise ROWS(f"offsets end with {structure.rows}, but there are {values.shape[0]} rows")
        keep(structure, ("njt", str(values.device)), nt.offsets())
        library = library_of(values)
        return Ragged._freeze(library.adopt(values, "values"), structure)
    return _without_holes(values, offsets, None if lengths is None else _on_host(lengths))


def _on_host(numbers: Tensor) -> Array:
    """A private copy."""
    return np.array(numbers.detach().cpu().numpy(), np.int64)


def _without_holes(values: Tensor, offsets: Array, lengths: Array | None) -> Ragged:
    """Sequences that begin at `offsets`, between which there are rows of none."""
    starts = offsets[:-1].copy()
    structure = Structure.of_lengths(np.diff(offsets) if lengths is None else lengths)
    rows = values.shape[0]
    beyond = (starts < 0) | (starts > rows - structure.lengths)
    if beyond.any():
        i = int(beyond.argmax())
        raise ROWS(f"sequence {i} has {structure.lengths[i]} rows from {starts[i]} on, but there are {rows}")
    library = library_of(values)
    data = library.adopt(values, "values")
    return gather_rows(library, data, tuple(data.shape[1:]), structure, starts)


def to_njt(x: Batch) -> Tensor:
    """A batch as a nested tensor with jagged layout.

    Parameters
    ----------
    x : an encoding or a list of tensors
        For a `LoD`, its innermost sequences.

    Returns
    -------
    Tensor ``(n, lengths, *item)``
        Over the memory of a `Ragged` or `LoD`; any other encoding is converted first.  Gradients flow back.

    Raises
    ------
    TypeError
        Where the items are not in PyTorch.

    See Also
    --------
    seqformats.from_njt : The way back.

    Notes
    -----
    The minimum and the maximum length are passed on, so that nothing waits for a GPU to find them.  Batches with one
    structure give nested tensors with one ragged axis, which can be added and attend to each other.

    Examples
    --------
    >>> import seqformats as sf
    >>> import torch
    >>> nt = sf.torch.to_njt(sf.Ragged(torch.arange(3), [2, 1]))
    >>> [part.tolist() for part in nt.unbind()]
    [[0, 1], [2]]
    """
    r = convert(x, Ragged)
    r._look()
    library = library_of(r.data)
    if library.name != "torch":
        raise LIBRARY(f'to_njt is for items in PyTorch, not in {library.name}; sf.to(x, "torch") brings them there')
    torch = import_extra("torch", "torch")
    data: Any = r.data
    structure = r._structure
    offsets = keep_with(
        structure,
        ("njt", str(data.device)),
        lambda: torch.from_numpy(structure.offsets.copy()).to(data.device),
    )
    least = int(structure.lengths.min()) if structure.n else 0
    return torch.nested.nested_tensor_from_jagged(data, offsets, min_seqlen=least, max_seqlen=structure.longest)
