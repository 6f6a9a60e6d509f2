# The constructors of `Ragged`, `Masked` and `List`.


def construct(x):
    """Check and fill a `Ragged` or `Masked` whose fields are as they were given; True, or None."""
    if not is_on:
        return None
    cdef Kind kind = kind_to_fill(x)
    cdef Array data, given
    cdef int64_t n, longest, limit = 0x7FFFFFFFFFFFFFFF
    if kind is None or kind.number > MASKED or not is_known(CHECK_LENGTHS):
        return None
    if slot(x, kind.data)[0] == NULL or slot(x, kind.lengths)[0] == NULL:
        return None
    array, lengths = get(x, kind.data), get(x, kind.lengths)
    if not look(array, &data, True, False) or data.ndim < kind.lead or (data.tensor and not torch_is_quiet()):
        return None
    of_numbers = PyList_CheckExact(lengths) or PyTuple_CheckExact(lengths)
    if of_numbers:
        lengths = tuple(lengths)         # whoever changes the list meanwhile changes nothing here
        n = PyTuple_GET_SIZE(lengths)
    else:
        if not look(lengths, &given, False, False) or given.ndim != 1 or not is_int64(&given):
            return None
        n = given.shape[0]
    if 8 * n > most[0] or (kind.number == MASKED and (n != data.shape[0] or not is_side(get(x, kind.side)))):
        return None
    cdef bytes block = integers(2 * n + 1)
    cdef int64_t* table = numbers_of(block)
    if not of_numbers:
        memcpy(table, given.data, 8 * n)
    elif not numbers_in(lengths, table, n):
        return None
    if kind.number == RAGGED:
        limit = data.shape[0]
    cdef CheckLengths call = CheckLengths(table, n, table + n, n + 1, limit)
    longest = run(kernels[CHECK_LENGTHS], &call, 16 * n)
    if longest < 0 or (table[2 * n] != data.shape[0] if kind.number == RAGGED else longest > data.shape[1]):
        return None
    structure = new_structure(block, n, table[2 * n], longest)
    put(x, kind.structure, structure)
    put(x, kind.shape, shape_of(data.tensor, data.ndim, data.shape))
    put(x, kind.dtype, <object>data.dtype)
    put(x, kind.lengths, get(structure, _lengths))
    return True


def fill_list(x):
    """Check and fill a `List` whose fields are as they were given; True, or None."""
    cdef Kind kind = kind_to_fill(x)
    if not is_on or kind is None or kind.number != LIST:
        return None
    if slot(x, kind.items)[0] == NULL or slot(x, kind.like)[0] == NULL:
        return None
    items = get(x, kind.items)
    if get(x, kind.like) is not None or not (PyList_CheckExact(items) or PyTuple_CheckExact(items)):
        return None
    return True if _fill_list(kind, x, tuple(items)) else None


def list_of(items):
    """A new `List` of the arrays in a list or tuple; None where these are not plain and alike."""
    if not is_on or not (PyList_CheckExact(items) or PyTuple_CheckExact(items)) or not _kinds_of_encodings:
        return None
    cdef Kind kind = <Kind>_kinds_of_encodings[LIST]
    made = new_object(kind.of)
    put(made, kind.like, None)
    return made if _fill_list(kind, made, tuple(items)) else None


def is_unchanged(x):
    """True where the arrays of a `List` are plain and what they were when it was built; else None."""
    cdef Kind kind = kind_of(x)
    cdef Sequences s
    if not is_on or kind is None or kind.number != LIST or not read(get(x, kind.structure), &s):
        return None
    return True if look_at_items(kind, x, &s, NULL, NULL) else None


cdef bint _fill_list(Kind kind, object x, tuple items) except -1:
    cdef Array sample
    cdef Sequences s
    cdef int64_t* addresses
    block = scan_items(items, &sample, &s, &addresses, True, False)
    if block is None:
        return False
    sample.shape[0] = -1
    put(x, kind.structure, new_structure(block, s.n, s.rows, s.longest))
    put(x, kind.shape, shape_of(False, sample.ndim, sample.shape))
    put(x, kind.dtype, <object>sample.dtype)
    put(x, kind.items, items)
    return True


cdef bytes scan_items(tuple items, Array* sample, Sequences* s, int64_t** addresses, bint in_graph, bint anywhere):
    """Lengths, offsets and addresses of arrays, in a new block; None where these are not plain and alike.

    `sample` is the first of them.
    """
    cdef Array each
    cdef int64_t n = PyTuple_GET_SIZE(items), i
    cdef int k
    if n == 0 or not look_anywhere(items[0], sample, in_graph, False) or sample.ndim < 1:
        return None
    if sample.device.device_type != CPU and not anywhere:
        return None
    if sample.tensor and not torch_is_quiet():
        return None
    cdef bytes block = integers(3 * n + 1)
    s.n, s.longest = n, 0
    s.lengths = numbers_of(block)
    s.offsets = s.lengths + n
    addresses[0] = s.offsets + n + 1
    s.offsets[0] = 0
    for i in range(n):
        if not look_anywhere(<object>PyTuple_GET_ITEM(items, i), &each, in_graph, False):
            return None
        if each.device.device_type != sample.device.device_type or each.device.device_id != sample.device.device_id:
            return None
        if each.dtype != sample.dtype or each.tensor != sample.tensor or each.ndim != sample.ndim:
            return None
        for k in range(1, each.ndim):
            if each.shape[k] != sample.shape[k]:
                return None
        s.lengths[i], addresses[0][i] = each.shape[0], <int64_t>each.data
        s.offsets[i + 1] = s.offsets[i] + each.shape[0]
        s.longest = max(s.longest, each.shape[0])
        if s.offsets[i + 1] < 0:         # arrays without items may be that long
            return None
    s.rows = s.offsets[n]
    return block


cdef bint look_at_items(Kind kind, object x, Sequences* s, Array* sample, int64_t* addresses) except -1:
    """Are the arrays of a `List` plain and what they were?  Their addresses are written where that is not NULL."""
    cdef Array each
    cdef int64_t i
    items, shape = get(x, kind.items), get(x, kind.shape)
    if not PyTuple_CheckExact(items) or PyTuple_GET_SIZE(items) != s.n or s.n == 0:
        return False
    for i in range(s.n):
        if not look(<object>PyTuple_GET_ITEM(items, i), &each, addresses == NULL, True):
            return False
        if each.dtype != slot(x, kind.dtype)[0] or each.ndim < 1 or each.shape[0] != s.lengths[i]:
            return False
        if not has_shape(shape, &each, 1):
            return False
        if addresses != NULL:
            addresses[i] = <int64_t>each.data
            if i == 0:
                sample[0] = each
    return not each.tensor or torch_is_quiet()
