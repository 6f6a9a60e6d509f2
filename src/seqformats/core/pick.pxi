# Some sequences of a `Ragged` or `Masked`: x[index], and sequences as often as counts say.


def pick(x=None, index=None, *others):
    """``x[index]`` for a number, a slice of step 1, a list of numbers or an array of int64; else None."""
    return None if not is_on or others else _picked(x, index)


def repeat(x=None, counts=None, *others):
    """Sequence i of `x` ``counts[i]`` times, or ``counts`` times; None where Python has to do it."""
    return None if not is_on or others else _repeated(x, counts)


cdef Kind _kind_to_pick(object x, Array* data, Sequences* s):
    """Describe data and structure of a `Ragged` or `Masked`, and return its kind; else None."""
    cdef Kind kind = kind_of(x)
    if kind is None or kind.number > MASKED or not read(get(x, kind.structure), s):
        return None
    return kind if look_at_data(kind, x, data) else None


cdef object _picked(object x, object index):
    cdef Array data, given
    cdef Sequences s
    cdef int64_t n, start, stop
    cdef Kind kind = _kind_to_pick(x, &data, &s)
    if kind is None:
        return None
    if PyLong_CheckExact(index) or PySlice_Check(index):
        if data.tensor or not bounds_of(index, s.n, &start, &stop):
            return None                  # a part of a tensor is a view, which PyTorch makes
        return _between(kind, x, &data, &s, start, stop)
    items = None
    if PyList_CheckExact(index):
        items = tuple(index)
        n = PyTuple_GET_SIZE(items)
    elif look(index, &given, False, False) and given.ndim == 1 and is_int64(&given) and given.tensor <= data.tensor:
        n = given.shape[0]
    else:
        return None
    if 32 * n > most[data.tensor]:
        return None
    cdef bytes block = integers(4 * n + 2)
    cdef int64_t* where = places_in(block, n)
    if items is None:
        memcpy(where, given.data, 8 * n)
    elif not numbers_in(items, where, n):
        return None
    return _chosen(kind, x, &data, &s, block, n)


cdef int64_t* places_in(bytes block, int64_t n) noexcept:
    """Find where the chosen places are in a block, behind what the kernel writes."""
    return numbers_of(block) + 3 * n + 1


cdef object _chosen(Kind kind, object x, Array* data, Sequences* s, bytes block, int64_t n):
    """The sequences at the n places in the block."""
    cdef int64_t* table = numbers_of(block)
    cdef int64_t* where = places_in(block, n)
    cdef int64_t* starts = table + 2 * n + 1
    cdef int64_t* cum = table + n
    cdef int64_t shape[MOST_AXES]
    cdef int64_t longest, rows, units, row, k
    cdef int j
    cdef char* out
    cdef Move move
    if not is_known(PICK_SEQUENCES) or not is_known(COPY_BLOCKS):
        return None
    structure, array = get(x, kind.structure), get(x, kind.data)
    cdef Pick call = Pick(where, n, s.lengths, s.n, s.offsets, s.n + 1, table, 3 * n + 1)
    longest = run(kernels[PICK_SEQUENCES], &call, 32 * n)
    if longest < 0:
        return None
    rows = table[2 * n]
    units, row = rows, row_of(data, 1)
    if kind.number == MASKED:            # a sequence with its padding is a block
        units, cum = n, where
        for k in range(n):
            starts[k] = where[k] + s.n if where[k] < 0 else where[k]
        for k in range(n + 1):
            cum[k] = k
    if row and units > most[data.tensor] // row:
        return None
    memcpy(shape, data.shape, data.ndim * sizeof(int64_t))
    shape[0] = units
    made = new_like(data, data.ndim, shape, &out)
    if units * row:
        move.source, move.out, move.row, move.lo, move.hi = data.data, out, row, 0, n
        put_blocks(&move.read, starts, cum, n, -1)
        move.read.n_starts = n
        put_blocks(&move.write, cum, cum, n, -1)
        run(kernels[COPY_BLOCKS], &move, units * row)
    return _over(kind, x, data, shape, made, new_structure(block, n, rows, longest))


cdef object _over(Kind kind, object x, Array* data, int64_t* shape, object made, object structure):
    """An encoding like `x` over other sequences."""
    result = with_data(kind, x, made, shape_of(data.tensor, data.ndim, shape), <object>data.dtype)
    put(result, kind.structure, structure)
    put(result, kind.lengths, get(structure, _lengths))
    return result


cdef bint bounds_of(object index, int64_t n, int64_t* start, int64_t* stop) noexcept:
    """The first sequence of a number or slice, and the one behind the last; False where these are for Python."""
    cdef Py_ssize_t first, last, step
    if PySlice_Check(index):
        if PySlice_Unpack(index, &first, &last, &step) < 0:
            PyErr_Clear()
            return False
        PySlice_AdjustIndices(n, &first, &last, step)
        start[0], stop[0] = first, max(first, last)
        return step == 1
    if not whole(index, start) or not -n <= start[0] < n:
        return False
    start[0] += n if start[0] < 0 else 0
    stop[0] = start[0] + 1
    return True


cdef object _between(Kind kind, object x, Array* data, Sequences* s, int64_t start, int64_t stop):
    """A range of sequences, over a view of data."""
    cdef int64_t n = stop - start, k, longest = 0, first
    cdef int64_t shape[MOST_AXES]
    cdef bytes block = integers(n + 1)
    cdef cnp.ndarray own = get(x, kind.data)
    cdef int64_t* moved = numbers_of(block)
    structure = get(x, kind.structure)
    for k in range(n + 1):
        moved[k] = s.offsets[start + k] - s.offsets[start]
        if k:
            longest = max(longest, moved[k] - moved[k - 1])
    memcpy(shape, data.shape, data.ndim * sizeof(int64_t))
    first, shape[0] = (s.offsets[start], moved[n]) if kind.number == RAGGED else (start, n)
    Py_INCREF(<object>data.dtype)        # which NumPy takes
    part = PyArray_NewFromDescr(<PyTypeObject*>cnp.ndarray, <cnp.dtype>data.dtype, data.ndim, <cnp.npy_intp*>shape,
                                NULL, data.data + first * row_of(data, 1),
                                cnp.NPY_ARRAY_CARRAY_RO | (cnp.PyArray_FLAGS(own) & cnp.NPY_ARRAY_WRITEABLE), NULL)
    cnp.set_array_base(part, own)
    lengths = numbers_at(get(structure, _lengths), s.lengths + start, n)
    return _over(kind, x, data, shape, part, structure_of(lengths, view(block, 0, n + 1), n, moved[n], longest))


cdef object _repeated(object x, object counts):
    cdef Array data, given
    cdef Sequences s
    cdef int64_t times = 0, total = 0, i, j = 0, k
    cdef bint each
    cdef Kind kind = _kind_to_pick(x, &data, &s)
    if kind is None:
        return None
    each = not whole(counts, &times)
    if each:
        if not look(counts, &given, False, False) or given.ndim != 1 or not is_int64(&given):
            return None
        if given.shape[0] != s.n or given.tensor > data.tensor:
            return None
    for i in range(s.n):
        k = (<int64_t*>given.data)[i] if each else times
        if not 0 <= k < 1 << 31:
            return None
        total += k
    if times < 0 or 32 * total > most[data.tensor]:
        return None
    cdef bytes block = integers(4 * total + 2)
    cdef int64_t* where = places_in(block, total)
    for i in range(s.n):
        k = (<int64_t*>given.data)[i] if each else times
        if not 0 <= k <= total - j:      # another thread has changed it
            return None
        for _ in range(k):
            where[j] = i
            j += 1
    return _chosen(kind, x, &data, &s, block, total) if j == total else None
