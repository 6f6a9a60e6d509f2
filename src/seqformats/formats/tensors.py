"""Encodings for PyTorch: their structure in tensors, a nested tensor."""

from __future__ import annotations

from typing import Any

from .. import registry
from ..arrays import DType


class InPyTorch:
    """The methods of an encoding that lead there; the library is imported by what they call."""

    __slots__ = ()

    def lengths_tensor(self, *, dtype: DType = None, device: object = None, level: int = -1) -> Any:
        """The lengths of the sequences as a tensor of PyTorch.

        Parameters
        ----------
        dtype : optional
            A dtype of integers; int64 if it is not given.
        device : optional
            Without it that of the items.
        level : int
            The level of a `LoD`; negative numbers count from the innermost level.

        Returns
        -------
        Tensor ``(n,)``
            In the caller's order.  On the host a new one each time.  On other devices one that is kept with the
            structure, so that it is uploaded once, for all encodings that share that; it is made anew after somebody
            has written into it.

        Raises
        ------
        TypeError
            Where the items are not in PyTorch, and for a dtype that is none of integers.
        StructureError
            For a length that the dtype cannot hold.
        DeviceError
            If the device does not exist.
        IndexError
            If the level does not exist.

        See Also
        --------
        seqformats.lengths : The same as a NumPy array, which nobody may write into.
        seqformats.cu_seqlens : Offsets as attention kernels take them.

        Examples
        --------
        >>> import numpy as np
        >>> import seqformats as sf
        >>> x = sf.Ragged(np.arange(3), [1, 2])
        >>> x.lengths_tensor()
        Traceback (most recent call last):
            ...
        TypeError: lengths_tensor is for items in PyTorch; sf.lengths(x) is an array, sf.to(x, "torch") has them [SF312]
        """
        return registry.service("tensors").structure_tensor(self, "lengths", dtype, device, level)

    def offsets_tensor(self, *, dtype: DType = None, device: object = None, level: int = -1) -> Any:
        """Offsets of the sequences, as a tensor of PyTorch.

        Parameters
        ----------
        dtype, device, level
            As in `lengths_tensor`.

        Returns
        -------
        Tensor ``(n + 1,)``
            0 first, the rows (of an outer level of a `LoD` the sequences of the next) last; kept as that of
            `lengths_tensor` is.

        Raises
        ------
        TypeError, StructureError, DeviceError, IndexError
            As in `lengths_tensor`.

        See Also
        --------
        seqformats.cu_seqlens : The same in int32.

        Examples
        --------
        >>> import numpy as np
        >>> import seqformats as sf
        >>> sf.Ragged(np.arange(3), [1, 2]).offsets_tensor()
        Traceback (most recent call last):
            ...
        TypeError: offsets_tensor is for items in PyTorch; sf.lengths(x) is an array, sf.to(x, "torch") has them [SF312]
        """
        return registry.service("tensors").structure_tensor(self, "offsets", dtype, device, level)

    def to_njt(self) -> Any:
        """A nested tensor of PyTorch with jagged layout; see `seqformats.torch.to_njt`.

        Returns
        -------
        Tensor ``(n, lengths, *item)``

        Raises
        ------
        TypeError
            Where the items are not in PyTorch.

        See Also
        --------
        seqformats.from_njt : The way back.

        Examples
        --------
        >>> import numpy as np
        >>> import seqformats as sf
        >>> sf.Ragged(np.arange(3), [1, 2]).to_njt()
        Traceback (most recent call last):
            ...
        TypeError: to_njt is for items in PyTorch, not in numpy; sf.to(x, "torch") brings them there [SF312]
        """
        return registry.service("tensors").to_njt(self)
