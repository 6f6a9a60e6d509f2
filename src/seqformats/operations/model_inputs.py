"""Inputs of a language model: rectangles of tokens, and beside them masks, positions and labels."""

from __future__ import annotations

from ..arrays import NUMPY, Array, Library, library_named, library_of
from ..converters.layouts import check_at_least
from ..converters.library import cast, change_arrays, in_library
from ..errors import CHOICE, EXACT, OVERFLOW, SHAPE, WHOLE, quote
from ..formats import Encoding
from ..formats.structure import INT64, MAX_INT64, flag, whole
from ..gradients.operation import operand
from ..launch.kernel import Work, kernel
from ..memory_checks import allocate
from .annotations import Batch
from .calculation import in_one_array, name_of
from .choices import Rectangle

fill_inputs = kernel("fill_inputs")

_SIDES = ("left", "right")
_NAMES = ("input_ids", "attention_mask", "position_ids", "labels")


def model_inputs(
    ids: Batch,
    *,
    side: str = "left",
    pad_id: int = 0,
    multiple_of: int = 1,
    most: int | None = None,
    truncation_side: str = "right",
    labels: bool = True,
    ignore: int = -100,
    library: str | None = "torch",
) -> dict[str, Array]:
    """Token ids as the arguments of a language model.

    Parameters
    ----------
    ids : nested lists, an encoding or a list of arrays
        Integers with item shape ().
    side : "left" or "right"
        Where the padding is: on the left to generate from, on the right to train with most models.
    pad_id : int
        The token that pads; the mask hides it.
    multiple_of : int
        A number that divides the width, 8 say for tensor cores.
    most : int, optional
        Longer sequences are cut to so many tokens.
    truncation_side : "right" or "left"
        From where they are cut: from their end, or from their beginning.
    labels : bool
        True for labels too.
    ignore : int
        The label of padding; the losses of PyTorch leave out -100.
    library : "torch", "numpy", ... or None
        Whose arrays come back, see `to`; None: those of `ids`.

    Returns
    -------
    dict
        ``input_ids``, ``attention_mask`` (1 for a token, 0 for padding), ``position_ids`` (from 0 in every sequence, 0
        in padding) and ``labels`` (the ids, `ignore` in padding): arrays ``(n, width)`` int64, on the device of `ids`.

    Raises
    ------
    TypeError
        If the items are not integers.
    StructureError
        For items with a shape, and ids beyond int64.
    ConversionError
        For an impossible option, and a library that is not installed.

    See Also
    --------
    cu_seqlens : For a model that takes sequences without padding.
    convert : A `Masked` alone, of items of any kind.

    Notes
    -----
    One pass writes all of it.  The labels are not shifted; models of the transformers library do that themselves.  Of
    a `LoD` with more levels every innermost sequence is a row.

    Examples
    --------
    >>> import seqformats as sf
    >>> batch = sf.model_inputs([[5, 3], [8, 3, 9]], library="numpy")
    >>> batch["input_ids"]
    array([[0, 5, 3],
           [8, 3, 9]])
    >>> batch["attention_mask"]
    array([[0, 1, 1],
           [1, 1, 1]])
    >>> batch["position_ids"]
    array([[0, 0, 1],
           [0, 1, 2]])
    """
    for name, value in (("side", side), ("truncation_side", truncation_side)):
        if not isinstance(value, str) or value not in _SIDES:
            raise CHOICE(f'{name} must be "left" or "right", not {quote(value)}')
    flag(labels, "labels")
    pad, ignored = _int64(pad_id, "pad_id"), _int64(ignore, "ignore")
    step = check_at_least(multiple_of, "multiple_of", 1)
    most = MAX_INT64 if most is None else check_at_least(most, "most", 0)
    x = _tokens(ids)
    data, structure = x.data, x._structure
    target = library_of(data) if library is None else library_named(library)
    if library_of(data).kind(data) == "cpu":  # NumPy's arrays are the quickest to get, and any library takes them
        made: Library = NUMPY
        data = library_of(data).to_numpy(data)
    else:
        made = target
        data = change_arrays(data, in_library(target.name))
    n, longest = structure.n, min(structure.longest, most)
    shape = (n, -(-longest // step) * step)
    dtype = made.dtype("int64")
    outs = [allocate(made.empty, shape, dtype, data) for _ in range(4 if labels else 3)]
    nothing = [] if labels else [made.empty((0,), dtype, data)]
    args = (x._layout(), Rectangle(most, int(truncation_side == "left"), int(side == "left"), pad, ignored))
    fill_inputs.start(made, (data,), (*outs, *nothing), args, shape[1], structure, Work(n, n))
    if made is not target:
        outs = [target.import_array(out, made) for out in outs]
    return dict(zip(_NAMES, outs, strict=False))


def _int64(value: object, what: str) -> int:
    number = whole(value, what)
    if not -MAX_INT64 <= number <= MAX_INT64:
        raise EXACT(f"{what} must fit int64, but is {quote(number)}")
    return number


def _tokens(ids: Batch) -> Encoding:
    """The ids in one array of int32 or int64."""
    x: Encoding = operand(ids).own
    if x.item_shape:
        raise SHAPE(f"model_inputs is for tokens, items of shape (), but they have shape {x.item_shape}")
    x = in_one_array(x)
    if x.dtype is INT64:
        return x
    library, kind = library_of(x.data), name_of(x)
    if not kind.startswith(("int", "uint")) and x.rows:
        raise WHOLE(f"tokens are integers, but the items have dtype {kind}")
    if kind == "uint64" and x.rows and int(library.to_numpy(x.data).max()) > MAX_INT64:
        raise OVERFLOW("tokens must fit int64, but one of them does not")
    if kind in ("int32", "int64") and getattr(x.dtype, "isnative", True):
        return x
    wanted = library.dtype("int64")
    tokens: Encoding = change_arrays(x, lambda own, array: cast(own, array, wanted))
    return tokens
