"""`kernel`: a kernel of a user's own over the sequences of any encoding."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from ..arrays import Array, Library, adopt, is_array, library_of, with_autograd
from ..arrays.dtypes import HALF, SUMS_IN, Dtypes
from ..errors import (
    BATCH,
    CHOICE,
    DEVICES,
    DTYPE,
    EXACT,
    KIND,
    NO_GRADIENT,
    SHAPE,
    TOGETHER,
    quote,
)
from ..formats import Encoding
from ..formats.annotations import Given
from ..formats.leaves import wants_grad
from ..formats.structure import MAX_INT64
from ..gradients.operation import Operand, operand
from ..launch.kernel import own_kernel
from .calculation import in_one_array, layout_for, name_of, rows_like
from .reduction import over_levels, rows_or_data


def kernel(
    cpu: Callable[..., None],
    cuda: Callable[..., None] | None = None,
    *,
    takes: Literal["items", "rows"] = "items",
    gives: Literal["items", "rows"] = "items",
    dtype: object = None,
    over: Literal["units", "sequences"] = "units",
) -> Callable[..., Any]:
    """Make a function of batches of a kernel of one's own: compiled, in several threads, and on CUDA.

    Parameters
    ----------
    cpu : function
        ``cpu(x, *arrays, out, at, *numbers, width, lo, hi)``: the units `lo` to `hi`.  A plain function, which
        Numba compiles without the GIL in each process, or one compiled by the user, such as by
        ``numba.njit(cache=True, nogil=True, error_model="numpy")``, which keeps it on disk.
    cuda : function, optional
        ``cuda(x, *arrays, out, at, *numbers, width)``: all units, over the grid.  A function of a module, plain or
        decorated by ``numba.cuda.jit``, which is compiled where it is started first.  Without it the function is for
        data on the host alone.
    takes : "items" or "rows"
        Whether `x` has the items of a batch, or one row per sequence.
    gives : "items" or "rows"
        The same for `out`.
    dtype : dtype or its name, optional
        The dtype of the result, by default that of `x`.
    over : "units" or "sequences"
        The grid on CUDA: a thread for each column of items of a sequence, or a block of threads for each sequence.

    Returns
    -------
    function
        ``run(batch, *args)``; a function that takes rows becomes ``run(rows, like, *args)``, where `like` is a batch
        with the sequences.  The batch is any encoding, a list of arrays or nested lists.  Items come back laid out like
        it, and in its kind; rows as an array ``(n, *item)``, of a `LoD` with more levels as a `LoD` without its
        innermost.
        Each of the `args` is an array of numbers, on the host or beside the batch, or a number: ints come as int64,
        floats as float64.

    Raises
    ------
    TypeError
        If an argument is no function.  The returned function raises it for items that are no numbers, arguments
        that are neither arrays nor numbers, and data that asks for a gradient (see `operation`).
    ConversionError
        For another value of an option, or a dtype that holds no numbers.  The returned function raises it for integers
        too large for int64.
    StructureError
        The returned function raises it if there are not as many rows as sequences.
    DeviceError
        The returned function raises it if there is no kernel for the device, or the arrays are not all on one.

    See Also
    --------
    operation : To give the function a gradient.

    Notes
    -----
    All arrays are flat; `width` is the count of numbers in an item, or in a row.  The `Layout` called `at` says where
    the items of each sequence are, whatever the encoding.  Two functions of `seqformats.kernels` read it: ``i, first,
    length = locate(at, u)`` is the sequence of unit u, the place of its first item in data, counted in items, and how
    many it has; ``first + along(at, t)`` the place of item t.  There are ``at.cum.size - 1`` units, one per sequence,
    in the order in which they lie.  In rows, the one of sequence i begins at ``i * width``.

    float16 and bfloat16 come as float32 and go back; bools come and go as bytes, 0 or 1; other numbers are as they are.
    Padding in `out` is zero already, all else is undefined: a kernel writes it, rows of empty sequences too.  Each unit
    may be the work of another thread.  Nothing checks an index, and one outside of its array may end the process: try a
    kernel with NUMBA_BOUNDSCHECK=1, or as plain Python with NUMBA_DISABLE_JIT=1, for CUDA with NUMBA_ENABLE_CUDASIM=1.

    Examples
    --------
    The sum of every sequence, wherever its items are:

    >>> import numpy as np
    >>> import seqformats as sf
    >>> from seqformats.kernels import along, locate
    >>> def add_up(x, out, at, width, lo, hi):
    ...     for u in range(lo, hi):
    ...         i, first, length = locate(at, u)
    ...         for k in range(width):
    ...             total = 0.0
    ...             for t in range(length):
    ...                 total += x[(first + along(at, t)) * width + k]
    ...             out[i * width + k] = total
    >>> total = sf.kernel(add_up, gives="rows")
    >>> batch = sf.Ragged(np.array([1.0, 2.0, 3.0]), [1, 2])
    >>> total(batch), total(sf.convert(batch, sf.Padded))
    (array([1., 5.]), array([1., 5.]))
    """
    for function, what in ((cpu, "cpu"), *([] if cuda is None else [(cuda, "cuda")])):
        if not callable(function) or isinstance(function, type):
            raise KIND(f"kernel takes functions, but {what} is {quote(function)}")
    if getattr(cuda, "__closure__", None):
        raise KIND(f"a kernel for CUDA reads no variables of a function around it, as {_name_of(cuda)} does")
    for given, what, known in (
        (takes, "takes", ("items", "rows")),
        (gives, "gives", ("items", "rows")),
        (over, "over", ("units", "sequences")),
    ):
        if not (isinstance(given, str) and given in known):
            raise CHOICE(f'{what} must be "{known[0]}" or "{known[1]}", not {quote(given)}')
    if takes == gives == "rows":
        raise TOGETHER("a kernel that takes rows and gives rows has no sequences to go over")
    return _Own(cpu, cuda, takes == "rows", gives == "rows", None if dtype is None else _number_dtype(dtype), over)


class _Own:
    """Operation that `kernel` returns."""

    def __init__(
        self,
        cpu: Callable[..., None],
        cuda: Callable[..., None] | None,
        from_rows: bool,
        to_rows: bool,
        dtype: str | None,
        over: str,
    ) -> None:
        self.kernel = own_kernel(_name_of(cpu), cpu, cuda, over)
        self.__name__ = self.kernel.name
        self.__module__ = getattr(cpu, "__module__", None) or __name__
        self.__doc__ = cpu.__doc__
        self.from_rows, self.to_rows, self.dtype = from_rows, to_rows, dtype

    def __call__(self, x: Given, *args: Any) -> Any:
        if with_autograd and wants_grad((x, args)):
            raise NO_GRADIENT(f"the kernel {self.__name__} has no gradient; sf.operation gives it one")
        if self.from_rows:
            if not args:
                raise BATCH(f"{self.__name__} takes rows, and a batch that has their sequences")
            like, *args = args  # type: ignore[assignment]
            return self.spread(_rows(x), operand(like), args)
        return self.gather(operand(x), args)

    def gather(self, batch: Operand, args: tuple[Any, ...]) -> Any:
        """Run the function from items: to one row per sequence, or to items that lie as they do."""
        given = batch.own
        x = in_one_array(given)
        library = library_of(x.data)
        dtypes = self.dtypes(name_of(x))
        data = library.astype(x.data, dtypes.taken)
        item, n = x.item_shape, x._structure.n
        if self.to_rows:
            out = library.empty((n, *item), library.dtype(dtypes.made), data)
        else:
            out = rows_like(library, x, item, library.dtype(dtypes.made), data)
        self.start(library, data, args, out, x, math.prod(item))
        out = library.astype(out, dtypes.result)
        y = over_levels(out, given) if self.to_rows else given._with_data(out)
        return y if batch.result is None or not isinstance(y, Encoding) else batch.result(y)

    def spread(self, rows: Array, batch: Operand, args: tuple[Any, ...]) -> Any:
        """Spread one row per sequence over its items."""
        like, library = batch.own, library_of(rows)
        dtypes = self.dtypes(library.dtype_name(rows.dtype))
        if len(rows.shape) < 1 or rows.shape[0] != like._structure.n:
            raise SHAPE(f"rows of shape {tuple(rows.shape)} were given for {like._structure.n} sequences")
        data = library.astype(rows, dtypes.taken)
        item, made = tuple(rows.shape[1:]), library.dtype(dtypes.made)
        at = layout_for(like, item, made)
        out = rows_like(library, at, item, made, data)
        self.start(library, data, args, out, at, math.prod(item))
        y = like._with_data(library.astype(out, dtypes.result))
        return y if batch.result is None else batch.result(y)

    def start(self, library: Library, data: Array, args: tuple[Any, ...], out: Array, x: Encoding, width: int) -> None:
        """Start it over the sequences of `x`, in whose layout the items are."""
        arrays: list[Array] = []
        numbers: list[int | float] = []
        for k, value in enumerate(args):
            if isinstance(value, (int, np.integer, np.bool_)):
                if not -MAX_INT64 <= value <= MAX_INT64:
                    raise EXACT(f"argument {k} of {self.__name__} must fit int64, but is {quote(value)}")
                numbers.append(int(value))
            elif isinstance(value, (float, np.floating)):
                numbers.append(float(value))
            elif is_array(value):
                arrays.append(self.move_argument(library, data, value))
            else:
                raise KIND(
                    f"{self.__name__} takes arrays and numbers beside its batch, but argument {k} is {quote(value)}"
                )
        self.kernel.start(library, (data, *arrays), (out,), (x._layout(), *numbers), width, x._structure)

    def move_argument(self, library: Library, data: Array, value: Array) -> Array:
        """An array among the arguments, which is on the host or where data is."""
        other, array = adopt(value, f"an argument of {self.__name__}")
        device, home = other.device(array), library.device(data)
        if device != home and not isinstance(array, np.ndarray):
            raise DEVICES(f"{self.__name__} has a batch on {home}, but an argument on {device}")
        if other is not library and not isinstance(array, np.ndarray):
            raise DEVICES(f"{self.__name__} has a batch of {library.name}, but an argument of {other.name}")
        return other.astype(array, self.dtypes(other.dtype_name(array.dtype)).taken)

    def dtypes(self, name: str) -> Dtypes:
        """Find the dtype in which the kernel takes numbers, that in which it writes them, and that of the result."""
        if name not in SUMS_IN:
            raise DTYPE(f"{self.__name__} calculates with numbers, but was given {name}")
        result = self.dtype or name
        taken, made = ("float32" if kind in HALF else kind for kind in (name, result))
        return Dtypes(taken, made, result)


def _rows(x: Given) -> Array:
    """One row per sequence: an array, a `LoD` of the outer levels, or such lists."""
    if isinstance(x, (list, tuple)):
        x = operand(x).own
    if not isinstance(x, Encoding) and not is_array(x):
        raise KIND(f"rows are an array, or a LoD over the outer levels, not {type(x).__name__}")
    return adopt(rows_or_data(x), "rows")[1]


def _number_dtype(dtype: object) -> str:
    """The NumPy name of a dtype of numbers, of any library; ConversionError for others."""
    name = str(dtype).rpartition(".")[2] if type(dtype).__name__ == "dtype" else ""  # torch.float32
    if isinstance(dtype, (str, np.dtype, type)):
        with contextlib.suppress(TypeError, ValueError):
            name = dtype if isinstance(dtype, str) and dtype in SUMS_IN else np.dtype(dtype).name
    if name not in SUMS_IN:
        raise CHOICE(f"a kernel writes numbers, but dtype is {quote(dtype)}; those: {', '.join(SUMS_IN)}")
    return name


def _name_of(function: object) -> str:
    return getattr(function, "__name__", None) or quote(function)
