# What Python implementations are made of: a kernel that writes a structure, rows in another layout, a kernel that moves
# rows of a batch, and objects without their constructor.


def build_structure(run, int64_t n, int64_t extra, *args):
    """Have a kernel write n lengths, n + 1 offsets and so many more numbers into a table, which is its last argument.

    Returns the structure, None where the kernel returns a negative number; the other numbers; and what it returns, the
    greatest length.
    """
    cdef int64_t count = 2 * n + 1 + extra, longest
    cdef char* data
    table = new_array(False, <PyObject*>_int64, DLDataType(0, 0, 0), 1, &count, &data)
    cdef int64_t* numbers = <int64_t*>data
    longest = run(*args, table)
    PyArray_CLEARFLAGS(<cnp.ndarray>table, cnp.NPY_ARRAY_WRITEABLE)
    made = None
    if longest >= 0:
        lengths, offsets = numbers_at(table, numbers, n), numbers_at(table, numbers + n, n + 1)
        made = structure_of(lengths, offsets, n, numbers[2 * n], longest)
    return made, numbers_at(table, numbers + 2 * n + 1, extra), longest


def make_object(type kind, **slots):
    """Make an object of a frozen dataclass with these slots, without its constructor."""
    made = new_object(kind)
    for name, value in slots.items():
        PyObject_GenericSetAttr(made, name, value)
    return made


def lay_out(source, kind, form, padding):
    """Lay rows out as an encoding: `formats.rows.lay_out` of the fields of a `Source`; None where Python has to do it.

    `padding` are the bytes of an item, () for zeros.
    """
    cdef Rows rows
    cdef Kind target = None
    cdef int64_t width = -1
    cdef Array item_of_padding
    if not is_on:
        return None
    if not PyTuple_Check(source) or PyTuple_GET_SIZE(source) != 7 or not PyTuple_CheckExact(form):
        return None
    for each in _kinds_of_encodings:
        if (<Kind>each).of is kind and (<Kind>each).number <= PACKED:
            target = <Kind>each
    side = "right"
    if target is None:
        return None
    if target.number == MASKED and PyTuple_GET_SIZE(form) == 2:
        side = <object>PyTuple_GET_ITEM(form, 1)
        if not whole(<object>PyTuple_GET_ITEM(form, 0), &width) or not is_side(side):
            return None
    elif PyTuple_GET_SIZE(form):
        return None
    data, at = <object>PyTuple_GET_ITEM(source, 1), <object>PyTuple_GET_ITEM(source, 2)
    structure, item = <object>PyTuple_GET_ITEM(source, 3), <object>PyTuple_GET_ITEM(source, 5)
    if <object>PyTuple_GET_ITEM(source, 6) is not None or not PyTuple_Check(item) or not read(structure, &rows.s):
        return None
    if target.number < PADDED and not is_stable(structure):
        return None
    if not look(data, &rows.sample, False, True) or not read_layout(at, &rows.at) or rows.at.absolute:
        return None
    if rows.sample.tensor and not torch_is_quiet():
        return None
    rows.lead, rows.data = rows.sample.ndim - <int>PyTuple_GET_SIZE(item), rows.sample.data
    rows.padding = NULL
    if not PyTuple_CheckExact(padding):
        if not look(padding, &item_of_padding, False, False):
            return None
        if row_of(&item_of_padding, 0) != row_of(&rows.sample, rows.lead):
            return None
        rows.padding = item_of_padding.data
    if width >= 0 and width < rows.s.longest:
        return None
    return laid_out(&rows, target, structure, rows.at.step != 1, width, side)


def move_by_kernel(size_t address, x, structure, *args):
    """Move rows of an encoding by the kernel at this address, which takes `args` behind the layout of `x`.

    The result is laid out as `x`, or with a `structure` a `Ragged` of that; None where Python has to do it.
    """
    cdef Kind kind = kind_of(x), made = kind
    cdef Array data
    cdef Sequences s, to
    cdef Layout at
    cdef int64_t shape[MOST_AXES]
    cdef int64_t words[MOST_WORDS]
    cdef int64_t row, places = 1, size
    cdef int k, lead, count = 2
    cdef char* out
    if not is_on or address == 0 or kind is None or kind.number == LIST:
        return None
    own = get(x, kind.structure)
    if not read(own, &s) or not look_at_data(kind, x, &data):
        return None
    row = row_of(&data, kind.lead)
    for k in range(kind.lead):
        places *= data.shape[k]
        shape[k] = data.shape[k]
    lead = kind.lead
    if structure is None:
        to = s
    else:
        if kind.number == PADDED or kind.number == PACKED or not read(structure, &to) or not is_stable(structure):
            return None
        made, lead = <Kind>_kinds_of_encodings[RAGGED], 1
        shape[0] = places = to.rows
    if s.n == 0 or places == 0 or row == 0 or places > most[data.tensor] // row or s.rows > most[data.tensor] // row:
        return None
    held = layout_of(kind, x, own, data.shape, &s, &at)
    if held is None:
        return None
    memcpy(shape + lead, data.shape + kind.lead, (data.ndim - kind.lead) * sizeof(int64_t))
    size = places * row
    result = new_like(&data, lead + data.ndim - kind.lead, shape, &out)
    if structure is None and kind.gapped and s.rows != places:
        memset(out, 0, size)
    words[0], words[1] = <int64_t>data.data, <int64_t>out
    memcpy(words + count, &at, sizeof(Layout))
    count += sizeof(Layout) // sizeof(int64_t)
    put_words(args, words, &count)
    words[count], words[count + 1], words[count + 2] = row, 0, to.n
    run(<Kernel>address, words, size)
    shape_made = shape_of(data.tensor, lead + data.ndim - kind.lead, shape)
    if structure is None:
        return with_data(kind, x, result, shape_made, <object>data.dtype)
    return new_batch(made, result, shape_made, <object>data.dtype, structure, None)


def data_alike(given, at, like):
    """The data of a batch, a number an item, that lies exactly as the batch `at`, whose data need not be there.

    With an array `like` it is of that array's library, and both are on the host.  None where Python has to find out.
    """
    cdef Kind kind = kind_of(given)
    cdef Array data, other
    cdef Sequences s, t
    if not is_on or kind is None or kind.number > PACKED or <PyObject*>Py_TYPE(at) != <PyObject*>kind.of:
        return None
    if not kind.is_filled(at) or not read(get(given, kind.structure), &s) or not read(get(at, kind.structure), &t):
        return None
    if get(given, kind.structure) is not get(at, kind.structure):
        if kind.number >= PADDED or s.n != t.n or memcmp(s.lengths, t.lengths, 8 * s.n):
            return None
    if not look_at_data(kind, given, &data) or data.ndim != kind.lead:
        return None
    if kind.number == MASKED:
        shape = get(at, kind.shape)
        if PyTuple_GET_SIZE(shape) < 2 or <object>PyTuple_GET_ITEM(shape, 1) != data.shape[1]:
            return None
        if get(given, kind.side) != get(at, kind.side):
            return None
    if like is not None and (not look(like, &other, True, True) or other.tensor != data.tensor):
        return None
    return get(given, kind.data)


cdef bint read_layout(object at, Layout* l) except -1:
    """Read a `Layout` of Python; False for anything else."""
    cdef Array part
    cdef int64_t* numbers[3]
    cdef int64_t counts[3]
    cdef int k
    if not PyTuple_Check(at) or PyTuple_GET_SIZE(at) != 7:
        return False
    for k in range(3):
        if not look(<object>PyTuple_GET_ITEM(at, k), &part, False, True) or part.ndim != 1 or part.tensor:
            return False
        if part.itemsize != 8:
            return False
        numbers[k], counts[k] = <int64_t*>part.data, part.shape[0]
    l.starts, l.n_starts, l.cum, l.n_cum = numbers[0], counts[0], numbers[1], counts[1]
    l.steps, l.n_steps = numbers[2], counts[2]
    return (
        whole(<object>PyTuple_GET_ITEM(at, 3), &l.stride) and whole(<object>PyTuple_GET_ITEM(at, 4), &l.left)
        and whole(<object>PyTuple_GET_ITEM(at, 5), &l.step) and whole(<object>PyTuple_GET_ITEM(at, 6), &l.absolute)
    )


cdef int put_words(tuple args, int64_t* words, int* count) except -1:
    """Write arguments of a kernel one after the other: arrays of NumPy's and integers."""
    cdef cnp.ndarray array
    cdef int k
    for x in args:
        if count[0] > MOST_WORDS - 8:
            raise TypeError("a kernel takes fewer arguments")
        if cnp.PyArray_CheckExact(x):
            array = <cnp.ndarray>x
            words[count[0]] = <int64_t>cnp.PyArray_DATA(array)
            for k in range(cnp.PyArray_NDIM(array)):
                words[count[0] + 1 + k] = cnp.PyArray_DIM(array, k)
            count[0] += 1 + cnp.PyArray_NDIM(array)
        else:
            words[count[0]] = x
            count[0] += 1
    return 0
