"""Methods of tensors that batches of them have too: to another device or dtype, pinned, detached, shared.

And what encodings have alone: their structure may go to a device ahead of the kernels that need it there.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np

from .. import hints, registry
from ..arrays import TITLES, Array, DType, Library, device_name, dtype_in, is_array, library_of
from ..errors import KIND, LIBRARY, NO_GRADIENT, OPTION, quote
from ..launch.kernel import launcher
from .annotations import Shaped
from .structure import Pieces, flag

if TYPE_CHECKING:
    from ..layout import Layout
    from .structure import Structure


class Wanted(NamedTuple):
    """Wishes of a call of `to`; None: as it is."""

    device: object
    dtype: DType
    non_blocking: bool
    copy: bool


class Movable:
    """The methods that take tensors to where they are wanted, of whatever holds arrays.

    ``_sample()``, ``_leaves()`` and ``_with_leaves(leaves)`` are those of an encoding.  What shares the structure of a
    batch shares one object, so nothing is checked or sorted again.
    """

    __slots__ = ()

    _look: Callable[[], object]
    _sample: Callable[[], Array]
    _leaves: Callable[[], list[Any]]
    _with_leaves: Callable[[Sequence[Shaped]], Self]
    _with_data: Callable[[Shaped], Self]

    def to(self, *args: object, **options: object) -> Self:
        """Move the batch to another device, or cast it to another dtype, as ``tensor.to`` does.

        Parameters
        ----------
        *args
            ``to(device=None, dtype=None, non_blocking=False, copy=False)``, ``to(dtype, non_blocking=False,
            copy=False)`` or ``to(other, non_blocking=False, copy=False)``, where `other` is an array or a batch of the
            same library, whose device and dtype are meant.
        **options
            The same by name: `device`, `dtype`, `other`, `non_blocking`, `copy`.

        Returns
        -------
        the same encoding
            `x` itself where nothing changes and no `copy` is asked for.  The structure is shared.  Tensors stay in
            their graph.

        Raises
        ------
        TypeError
            For other arguments, for a dtype that the library does not have, and for an `other` of another library.
        DeviceError
            If the device does not exist, or if the library cannot reach it.

        See Also
        --------
        seqformats.to : Also to another array library.

        Notes
        -----
        A string is a device, as PyTorch has it; ``to(dtype="float16")`` takes names of dtypes.  Other libraries than
        PyTorch do not know of `non_blocking`: their copies are there when the method returns.

        Examples
        --------
        >>> import numpy as np
        >>> import seqformats as sf
        >>> x = sf.Ragged(np.arange(3), [1, 2])
        >>> x.to(np.float32).dtype, x.to("cpu") is x
        (dtype('float32'), True)
        """
        library = library_of(self._sample())
        wanted = _read_wanted(library, args, dict(options))
        if wanted.device is None and wanted.dtype is None and not wanted.copy:
            return self
        return self._each(lambda leaf: _send(library_of(leaf), leaf, wanted))

    def cpu(self) -> Self:
        """Move the batch to the host: ``x.to("cpu")``.

        Returns
        -------
        the same encoding
            `x` itself where it is there.

        See Also
        --------
        Ragged.to : To any device.

        Examples
        --------
        >>> import numpy as np
        >>> import seqformats as sf
        >>> sf.Ragged(np.arange(3), [1, 2]).cpu().device
        'cpu'
        """
        return self.to("cpu")

    def cuda(self, device: object = None, non_blocking: bool = False) -> Self:
        """Move the batch to a GPU: ``x.to("cuda")``.

        Parameters
        ----------
        device : optional
            Which one, by its number or as `to` takes it.
        non_blocking : bool
            As `to` takes it.

        Returns
        -------
        the same encoding

        Raises
        ------
        DeviceError
            Where there is none.

        See Also
        --------
        Ragged.to : To any device.
        """
        where = "cuda" if device is None else f"cuda:{device}" if type(device) is int else device
        return self.to(where, non_blocking=non_blocking)

    def detach(self) -> Self:
        """Take the batch out of the graph of its gradients; its memory is shared.

        Returns
        -------
        the same encoding
            `x` itself, of arrays of a library that has no graph.

        Examples
        --------
        >>> import numpy as np
        >>> import seqformats as sf
        >>> x = sf.Ragged(np.arange(3.0), [1, 2])
        >>> x.detach() is x
        True
        """
        return self._each(lambda leaf: leaf.detach() if hasattr(leaf, "detach") else leaf)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Let the tensors that hold the items ask for a gradient, or no longer.

        Parameters
        ----------
        requires_grad : bool

        Returns
        -------
        `x` itself

        Raises
        ------
        TypeError
            For arrays of a library without a graph, and for items that can have no gradient.
        RuntimeError
            What a tensor says that is a result, and so cannot stop to ask.

        See Also
        --------
        seqformats.vjp : Gradients of arrays of every library.

        Examples
        --------
        >>> import numpy as np
        >>> import seqformats as sf
        >>> sf.Ragged(np.arange(3.0), [1, 2]).requires_grad_()
        Traceback (most recent call last):
            ...
        TypeError: ndarray has no requires_grad_; sf.to(x, "torch") has, sf.vjp gives gradients of it [SF312]
        """
        leaves = self._check_leaves("requires_grad_", ", sf.vjp gives gradients of it")
        for leaf in leaves if requires_grad else ():
            name = library_of(leaf).dtype_name(leaf.dtype)
            if not name.startswith(("float", "bfloat", "complex")):
                raise NO_GRADIENT(f"items of {name} have no gradient; x.to(dtype) gives them another dtype")
        for leaf in leaves:
            leaf.requires_grad_(requires_grad)
        return self

    def pin_memory(self, device: object = None) -> Self:
        """Move the batch to page-locked memory, from which tensors go to a GPU while the host goes on.

        Parameters
        ----------
        device : optional
            As the tensors' own method takes it.

        Returns
        -------
        the same encoding

        Raises
        ------
        TypeError
            For arrays that have no such method; those of PyTorch have.

        Notes
        -----
        ``DataLoader(pin_memory=True)`` calls it.  Without a GPU it does what the tensors do.

        Examples
        --------
        >>> import numpy as np
        >>> import seqformats as sf
        >>> sf.Ragged(np.arange(3), [1, 2]).pin_memory()
        Traceback (most recent call last):
            ...
        TypeError: ndarray has no page-locked memory; sf.to(x, "torch") has [SF312]
        """
        self._check_leaves("pin_memory", what="page-locked memory")
        where = () if device is None else (device,)
        return self._each(lambda leaf: leaf.pin_memory(*where))

    def is_pinned(self) -> bool:
        """Tell whether all of it is in page-locked memory.

        Returns
        -------
        bool
            False for arrays of a library that has none.

        Examples
        --------
        >>> import numpy as np
        >>> import seqformats as sf
        >>> sf.Ragged(np.arange(3), [1, 2]).is_pinned()
        False
        """
        leaves = self._leaves()
        return bool(leaves) and all(hasattr(leaf, "is_pinned") and leaf.is_pinned() for leaf in leaves)

    def record_stream(self, stream: object) -> None:
        """Keep the memory of its tensors from being taken again before `stream` is done with them.

        Parameters
        ----------
        stream : as ``tensor.record_stream`` takes it

        Raises
        ------
        TypeError
            For arrays that have no such method; those of PyTorch have, on a GPU.

        Notes
        -----
        For a batch that has been moved on a stream of its own and is used on another.

        Examples
        --------
        >>> import numpy as np
        >>> import seqformats as sf
        >>> sf.Ragged(np.arange(3), [1, 2]).record_stream(None)
        Traceback (most recent call last):
            ...
        TypeError: ndarray has no record_stream; sf.to(x, "torch") has [SF312]
        """
        for leaf in self._check_leaves("record_stream"):
            leaf.record_stream(stream)

    def share_memory_(self) -> Self:
        """Move its tensors to memory that other processes can reach, in place.

        Returns
        -------
        `x` itself
            On a GPU nothing changes.

        Raises
        ------
        TypeError
            For arrays that have no such method; those of PyTorch have.

        Notes
        -----
        ``torch.multiprocessing`` calls it for what goes through a queue or a pipe, so a batch arrives there without a
        copy of its items, and what one process writes into them the other reads.

        Examples
        --------
        >>> import numpy as np
        >>> import seqformats as sf
        >>> sf.Ragged(np.arange(3), [1, 2]).share_memory_()
        Traceback (most recent call last):
            ...
        TypeError: ndarray has no share_memory_; sf.to(x, "torch") has [SF312]
        """
        for leaf in self._check_leaves("share_memory_"):
            leaf.share_memory_()
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        """Copy as pickles do, through the constructor; in PyTorch only the leaves of a graph can be copied so."""
        reduced: Any = self.__reduce__()
        make, values = reduced[:2]
        try:
            values = copy.deepcopy(values, memo)
        except RuntimeError:
            if all(getattr(leaf, "is_leaf", True) for leaf in self._leaves()):
                raise
            raise RuntimeError(
                f"the items of this {type(self).__name__} come from an operation with a gradient, and PyTorch copies "
                "only the leaves of a graph so; copy.deepcopy(x.detach()) copies the items without their graph"
            ) from None
        copied: Self = make(*values)
        return copied

    def _each(self, change: Callable[[Any], Any]) -> Self:
        """Change every array, and give itself where none changes; shapes stay."""
        self._look()
        leaves = self._leaves()
        if not leaves:  # a list of no arrays, which says what they would be
            sample = self._sample()
            new = change(sample)
            return self if new is sample else self._with_data(new)
        changed = [change(leaf) for leaf in leaves]
        same = all(new is leaf for new, leaf in zip(changed, leaves, strict=True))
        return self if same else self._with_leaves(changed)

    def _check_leaves(self, method: str, more: str = "", what: str = "") -> list[Any]:
        """List the arrays, which have this method; else TypeError."""
        self._look()
        leaves = self._leaves()
        for leaf in leaves or [self._sample()]:
            if not hasattr(leaf, method):
                raise LIBRARY(f'{type(leaf).__name__} has no {what or method}; sf.to(x, "torch") has{more}')
        return leaves


class Resident:
    """The method of an encoding that brings it there."""

    __slots__ = ()

    if TYPE_CHECKING:
        _structure: Structure
        _in_one_array: ClassVar[bool]

        def _sample(self) -> Array: ...
        def _layout(self) -> Layout: ...

    def structure_to(self, device: object, *, order: bool = False) -> Self:
        """Bring the structure to a device, where it stays: no kernel that needs it there sends it any more.

        Parameters
        ----------
        device : str or a device of the items' library
            Where kernels will be started: ``"cuda"``, ``"cuda:1"``, ``x.device``.  The host has the structure always,
            so nothing happens for ``"cpu"``.
        order : bool
            Also the order by falling length, which conversions to `Padded` and `Packed` need.  It goes along without
            this where it is known already.

        Returns
        -------
        `x` itself
            Its items stay where they are.  All encodings that share its structure find it on the device.

        Raises
        ------
        DeviceError
            For a device that there is not, or that the items' library does not reach; and while a CUDA graph is
            captured, if something of the structure is not there yet.

        See Also
        --------
        seqformats.to_device : The items.

        Notes
        -----
        Without it the first kernel brings what it needs.  It is for what must not be sent later: in a CUDA graph, whose
        capture no copy from the host may become part of, and where the first call should take no longer than others.
        A graph takes up to 31 KB, some two thousand sequences, along with its kernels, and writes them at each replay.
        What is there already is not sent again, and nothing waits for the copy.

        Of a `LoD` this is the innermost level; those further out are sent with each call that goes over them.  Arrays
        of CuPy find it on the stream that is current now alone, since CuPy gives memory back in the order of a stream.

        Examples
        --------
        >>> import numpy as np
        >>> import seqformats as sf
        >>> x = sf.Ragged(np.arange(3), [1, 2])
        >>> x.structure_to(x.device) is x
        True
        >>> x.structure_to("tpu")
        Traceback (most recent call last):
            ...
        seqformats.errors.DeviceError: NumPy arrays go to "cuda", as Numba device arrays, but not to 'tpu' [SF501]
        """
        if order:
            _ = self._structure.order  # calculated when it is first asked for
        if device_name(device) == "cpu":
            return self
        sample = self._sample()
        own = library_of(sample)
        there = own.to_device(own.empty((0,), own.dtype("uint8"), sample), device)
        library = library_of(there)
        kind = library.kind(there)
        if kind != "cpu":
            structure = self._structure
            keep = launcher(kind).keep
            keep(library, structure, there)
            if structure.longest > Pieces.LONG:  # and so that of its pieces
                at = self._layout() if self._in_one_array else structure.flat
                if at.step == 1:
                    structure.pieces.find_layout(at)
                keep(library, structure.pieces.each, there)
                keep(library, structure.pieces.whole, there)
        return self


_NAMES = ("device", "dtype", "other", "non_blocking", "copy")


def _read_wanted(library: Library, args: Sequence[object], options: dict[str, object]) -> Wanted:
    """The arguments of `to`, by what the first of them is."""
    for name in options:
        if name not in _NAMES:
            own = "; items have no memory format of their own"
            hint = own if name == "memory_format" else hints.suggest(name, _NAMES)
            raise OPTION(f"to has no option {name!r}; there are: {', '.join(_NAMES)}{hint}")
    first = args[0] if args else None
    of_another = is_array(first) or isinstance(first, Movable)
    of_dtype = not of_another and (isinstance(first, type) or hasattr(first, "itemsize"))
    names = ("other",) if of_another else ("dtype",) if of_dtype else ("device", "dtype")
    names = (*names, "non_blocking", "copy")
    if len(args) > len(names):
        raise OPTION(f"to takes at most {len(names)} arguments, {', '.join(names)}, but got {len(args)}")
    for name, value in zip(names, args, strict=False):
        if name in options:
            raise OPTION(f"to got {name} twice")
        options[name] = value
    switches = [flag(options.get(name, False), name) for name in ("non_blocking", "copy")]
    device, dtype, other = (options.get(name) for name in ("device", "dtype", "other"))
    if other is not None:
        if device is not None or dtype is not None:
            raise OPTION("to takes either other or device and dtype")
        device, dtype = _like(library, other)
    if type(device) is str and device in np.sctypeDict:
        raise KIND(f"a string is a device, and {quote(device)} a dtype; give dtype={quote(device)}")
    if type(device) is str and device in TITLES:
        raise KIND(
            f"a string is a device, and {quote(device)} a library; sf.to(x, {quote(device)}) brings a batch there"
        )
    meant = None if dtype is None else dtype_in(library, dtype)
    return Wanted(device, meant, *switches)


def _like(library: Library, other: Any) -> tuple[str, DType]:
    """The device and dtype of another array or batch."""
    sample = other._sample() if isinstance(other, Movable) else other
    if not is_array(sample):
        raise KIND(f"other must be an array or a batch, not {quote(other)}")
    own = library_of(sample)
    if own is not library:
        raise LIBRARY(f"other is of {own.name}, but x of {library.name}; sf.to(x, {own.name!r}) brings it there")
    return own.device(sample), sample.dtype


def _send(library: Library, leaf: Array, wanted: Wanted) -> Array:
    """One array where it is wanted."""
    sent = leaf
    if wanted.device is not None:
        sent = library.send(sent, wanted.device, wanted.non_blocking)
    if wanted.dtype is not None:
        sent = registry.service("converters").cast(library_of(sent), sent, wanted.dtype)
    return library_of(sent).copy(sent) if wanted.copy and sent is leaf else sent
