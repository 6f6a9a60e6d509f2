"""Arrays for doors: those of NumPy, and tensors of PyTorch that lie on the host.

An array is an address at which words lie as they do in an object of NumPy's: that object itself, or for a tensor
`seen`, some words on the stack.  So pages read both alike; they hold, drop and give away the object behind it, `owner`.
What a tensor is like is told by the DLPack exchange API and by PyTorch itself, see `reading.functions`.
"""

from __future__ import annotations

from ...native.words import (
    DATA_OF,
    GRAD_IS_ON,
    INSIDE,
    INT64,
    IS_INCLUDED,
    IS_NEG,
    KEY,
    KEYS,
    LOOK,
    MOST,
    NDARRAY,
    NEW_ARRAY,
    NEW_TENSOR,
    NO_TANGENT,
    NUMBER_BYTES,
    NUMBER_CODE,
    NUMBER_KIND,
    NUMBER_TYPE,
    PARAMETER,
    SET_BASE,
    SHAPE_OF_TENSORS,
    STORAGE_OFFSET,
    STORAGE_SIZE,
    TANGENT,
    TENSOR,
    TENSOR_DTYPE,
    TENSOR_DTYPES,
    TENSOR_INT64,
    TENSOR_NUMBER,
    TENSOR_NUMBERS,
    UNWRAP,
    WANTS_GRAD,
    WRAP,
)
from .language import (
    TUPLE_SIZE,
    TYPE_OF,
    at,
    call,
    call_with_three,
    clear_error,
    empty_strided,
    inside,
    keep,
    let_go,
    new_from_descr,
    new_named,
    new_number,
    new_tuple,
    number_of,
    out_of_memory,
    peek,
    peek_int,
    poke,
    shared,
    stack,
)

ARRAY, AXES, DIMENSIONS, DESCR, FLAGS = 16, 24, 32, 56, 64
OWNER, NUMBER_SIZE, OWN_SHAPE = 0, 72, 80  # of a tensor alone, whose type is 0
DTYPE_FLAGS, ITEM_SIZE = 32, 40  # in a dtype of NumPy
PLAIN = 0x101  # C-contiguous and aligned
WRITABLE = 0x400
ROOM = 128  # bytes that `seen` may write
MOST_AXES = 32  # of an array; there is room for twice as many
MOST_AXES_OF_TENSORS = 5  # with more its shape lies outside of the C++ object
CPU = 1  # a device, as DLPack and PyTorch's C functions have it: kind 1 or 0, number 0
INT = 0xFFFFFFFF
BYTE = 0xFF


# --- what is given ---------------------------------------------------------------------------------------------------


@shared
def seen(common: int, x: int, room: int) -> int:
    """An object as an array, if it is a plain one, and no graph or transformation is to hear of it; else 0.

    `room`, which has to live as long as the array, is for `ROOM` bytes.
    """
    return _unwatched(common, shown(common, x, room))


@shared
def seen_number(common: int, x: int, room: int) -> int:
    """The same, where a tensor may be one number, without an axis."""
    kind = peek(x + TYPE_OF)
    if kind == at(common, TENSOR):
        return _unwatched(common, _tensor(common, x, room, 0))
    return seen(common, x, room)


@shared
def _unwatched(common: int, array: int) -> int:
    """An array, if no graph or transformation is to hear of it; else 0."""
    if array == 0 or not is_tensor(array) or not (_wants_grad(common, array) or has_tangent(common, array)):
        return array
    return 0


@shared
def _wants_grad(common: int, array: int) -> bool:
    """Is what is done with a tensor to be written down, for its gradient?"""
    wants = call(at(common, WANTS_GRAD), peek(array + DIMENSIONS) - at(common, INSIDE), 0) & BYTE
    return wants != 0 and call(at(common, GRAD_IS_ON), 0, 0) & BYTE != 0


@shared
def has_tangent(common: int, array: int) -> bool:
    """Has a tensor one, in forward mode?"""
    tensor = stack(1)
    poke(tensor, peek(array + DIMENSIONS) - at(common, INSIDE))  # the C++ object, and here a C++ tensor
    return peek(call_with_three(at(common, TANGENT), peek(tensor), 0, tensor)) != at(common, NO_TANGENT)


@shared
def shown(common: int, x: int, room: int) -> int:
    """The same, whatever else PyTorch knows of a tensor: it may want a gradient."""
    kind = peek(x + TYPE_OF)
    if kind == at(common, NDARRAY):
        return x if peek_int(x + FLAGS) & PLAIN == PLAIN else 0
    if kind == at(common, TENSOR) or kind == at(common, PARAMETER):
        return _tensor(common, x, room, 1)
    return 0


@shared
def _tensor(common: int, x: int, room: int, least: int) -> int:
    """A tensor of so many axes, or more, whose items lie in its memory on the host one after the other."""
    words = stack(2)
    for k in range(KEYS):
        if call(at(common, IS_INCLUDED), at(common, KEY + k), 0) & BYTE:
            return 0  # a mode or a transformation is active, and wants to see what is done
    if call(at(common, LOOK), x, words) & INT:
        clear_error()
        return 0
    axes, kind, shape = at(words, 2) & INT, at(words, 2) >> 32, at(words, 3)
    number = 0
    for k in range(at(common, TENSOR_DTYPES)):
        place = common + 8 * (TENSOR_NUMBERS + TENSOR_NUMBER * k)
        if at(place, NUMBER_KIND) == kind:
            number = place
    if number == 0 or at(words, 1) != CPU or not least <= axes <= MOST_AXES_OF_TENSORS:
        return 0
    items, contiguous = 1, True
    for j in range(axes):
        k = axes - 1 - j
        size = at(shape, k)
        contiguous &= size == 1 or at(at(words, 4), k) == items
        items *= size
    size = at(number, NUMBER_BYTES)
    tensor, found, data = words + 64, words + 72, at(words, 0) + at(words, 5)
    poke(tensor, shape - at(common, INSIDE))
    if call(at(common, IS_NEG), tensor, 0) & BYTE:
        return 0
    if items != 0:
        if data == 0 or not contiguous or call(at(common, STORAGE_SIZE), tensor, found) & INT:
            return 0
        held = peek(found)
        if call(at(common, STORAGE_OFFSET), tensor, found) & INT or held < (peek(found) + items) * size:
            return 0
    return _put_tensor(room, x, data, axes, shape, at(number, NUMBER_TYPE), size)


@shared
def _put_tensor(room: int, owner: int, data: int, axes: int, shape: int, descr: int, size: int) -> int:
    poke(room + OWNER, owner)
    poke(room + TYPE_OF, 0)
    poke(room + ARRAY, data)
    poke(room + AXES, axes)
    poke(room + DIMENSIONS, shape)
    poke(room + DESCR, descr)
    poke(room + FLAGS, PLAIN | WRITABLE)
    poke(room + NUMBER_SIZE, size)
    return room


# --- what an array is like -------------------------------------------------------------------------------------------


@shared
def is_tensor(array: int) -> int:
    """1 of a tensor, 0 of an array of NumPy."""
    return 1 if peek(array + TYPE_OF) == 0 else 0


@shared
def owner(array: int) -> int:
    """The object behind an array."""
    return peek(array + OWNER) if is_tensor(array) else array


@shared
def is_of_tensors(common: int, descr: int) -> int:
    """1 of a dtype of PyTorch, else 0."""
    return 1 if peek(descr + TYPE_OF) == at(common, TENSOR_DTYPE) else 0


@shared
def hold(array: int) -> int:
    """Keep its object."""
    return keep(owner(array))


@shared
def drop(array: int) -> int:
    """Let its object go."""
    return let_go(owner(array))


@shared
def number_size(array: int) -> int:
    """The bytes of a number in it."""
    return peek(array + NUMBER_SIZE) if is_tensor(array) else peek(peek(array + DESCR) + ITEM_SIZE)


@shared
def int64_beside(common: int, array: int) -> int:
    """The dtype int64 of the library of an array."""
    return at(common, TENSOR_INT64 if is_tensor(array) else INT64)


@shared
def most_of(common: int, array: int) -> int:
    """How many bytes of such an array a door reads and writes."""
    return at(common, MOST + is_tensor(array))


@shared
def has_objects(array: int) -> bool:
    """Are the items of an array Python's objects, at least in part?"""
    return not is_tensor(array) and peek(peek(array + DESCR) + DTYPE_FLAGS) & 1 == 1


@shared
def has_shape(common: int, shape: int, array: int) -> bool:
    """Has the array the shape that a tuple says?"""
    axes = peek_int(array + AXES)
    if peek(shape + TUPLE_SIZE) != axes:
        return False
    dimensions = peek(array + DIMENSIONS)
    for k in range(axes):
        if number_of(peek(inside(common, shape) + 8 * k)) != at(dimensions, k):
            return False
    return True


@shared
def shape_of(common: int, array: int) -> int:
    """The shape of an array, a new tuple as its library has it; 0 with an error set."""
    axes = peek_int(array + AXES)
    made = new_named(common, at(common, SHAPE_OF_TENSORS), axes) if is_tensor(array) else new_tuple(axes)
    return _with_lengths(common, made, array, 0)


@shared
def shape_of_items(common: int, array: int) -> int:
    """The same of a list of such arrays: a plain tuple, whose first length is -1; 0 with an error set."""
    return _with_lengths(common, new_tuple(peek_int(array + AXES)), array, 1)


@shared
def _with_lengths(common: int, made: int, array: int, first: int) -> int:
    """The lengths of the axes of an array in a tuple that has been made; of those before `first` -1."""
    if made == 0:
        return 0
    dimensions = peek(array + DIMENSIONS)
    for k in range(peek_int(array + AXES)):
        number = new_number(at(dimensions, k) if k >= first else -1)
        if number == 0:
            let_go(made)
            return 0
        poke(inside(common, made) + 8 * k, number)
    return made


# --- new ones --------------------------------------------------------------------------------------------------------


@shared
def new_array(common: int, descr: int, axes: int, shape: int, room: int) -> int:
    """A new array of this dtype of a library, `axes` lengths beginning at `shape`; 0 with an error set.

    `room` as for `seen`, and 8 bytes more for each axis above 5.
    """
    if is_of_tensors(common, descr):
        return _new_tensor(common, descr, axes, shape, room)
    return new_with_data(common, descr, axes, shape, 0, 0)


@shared
def new_with_data(common: int, descr: int, axes: int, shape: int, data: int, flags: int) -> int:
    """An array of NumPy over items that are there, with these flags, or with new memory; 0 with an error set."""
    keep(descr)
    words = stack(5)
    poke(words, at(common, NDARRAY))
    poke(words + 8, descr)
    poke(words + 16, axes)
    poke(words + 24, shape)
    poke(words + 32, 0)
    poke(words + 40, data)
    poke(words + 48, flags)
    poke(words + 56, 0)
    return new_from_descr(at(common, NEW_ARRAY), words)


@shared
def new_view(common: int, base: int, descr: int, axes: int, shape: int, data: int, flags: int) -> int:
    """An array of NumPy over a part of another; 0 with an error set."""
    view = new_with_data(common, descr, axes, shape, data, flags)
    if view != 0:
        keep(base)
        call(at(common, SET_BASE), view, base)
    return view


@shared
def _new_tensor(common: int, descr: int, axes: int, shape: int, room: int) -> int:
    words, strides, handle, number = stack(2), stack(3), stack(4), 0
    for k in range(at(common, TENSOR_DTYPES)):
        place = common + 8 * (TENSOR_NUMBERS + TENSOR_NUMBER * k)
        if at(place, NUMBER_TYPE) == descr:
            number = place
    items = 1
    for j in range(axes):
        k = axes - 1 - j
        poke(strides + 8 * k, items)
        poke(room + OWN_SHAPE + 8 * k, at(shape, k))
        items *= max(at(shape, k), 1)
    poke(words, axes)
    poke(words + 8, shape)
    poke(words + 16, strides)
    poke(words + 24, at(number, NUMBER_CODE))
    poke(words + 32, 0)  # the host, whose number is 0
    poke(words + 40, 0)
    poke(words + 48, handle)
    if empty_strided(at(common, NEW_TENSOR), words) & INT:
        return out_of_memory()  # 0
    wrong = call(at(common, DATA_OF), peek(handle), handle + 8) & INT
    made = 0 if wrong else call(at(common, WRAP), peek(handle), 0)
    call(at(common, UNWRAP), peek(handle), 0)
    if made == 0:
        return out_of_memory() if wrong else 0
    return _put_tensor(room, made, at(handle, 1), axes, room + OWN_SHAPE, descr, at(number, NUMBER_BYTES))
