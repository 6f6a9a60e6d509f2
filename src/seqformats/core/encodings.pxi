# Encodings and structures: where their slots are, what is in them, and new ones.

cdef enum:
    RAGGED, MASKED, PADDED, PACKED, LOD, LIST, COUNT_OF_KINDS
    BARE = COUNT_OF_KINDS                # a list or tuple of arrays

cdef Py_ssize_t slot_of(type kind, str name) except -1:
    """Bytes from the address of an object to a slot of it: where what is put into the slot can be found."""
    cdef Py_ssize_t place
    sample, value = object.__new__(kind), object()
    object.__setattr__(sample, name, value)
    for place in range(sizeof(PyObject), kind.__basicsize__ - sizeof(PyObject*) + 1, sizeof(PyObject*)):
        if slot(sample, place)[0] == <PyObject*>value:
            return place
    raise LookupError(name)


cdef inline PyObject** slot(object x, Py_ssize_t place) noexcept:
    return <PyObject**>(<char*><PyObject*>x + place)


cdef inline object get(object x, Py_ssize_t place):
    """Return what is in a slot that is known to be filled."""
    return <object>slot(x, place)[0]


cdef inline void put(object x, Py_ssize_t place, object value) noexcept:
    """Fill a slot of an object that no other thread has; there may be something in it."""
    cdef PyObject* old = slot(x, place)[0]
    Py_INCREF(value)
    slot(x, place)[0] = <PyObject*>value
    Py_XDECREF(old)


cdef inline object new_object(type kind):
    return PyType_GenericAlloc(<PyTypeObject*>kind, 0)


cdef class Kind:
    """An encoding of the library, and where its slots are."""
    cdef type of
    cdef int number, lead, count
    cdef bint gapped
    cdef Py_ssize_t structure, shape, dtype, data, lengths, side, sizes, indices, levels, items, like
    cdef Py_ssize_t all[16]

    def __init__(self, int number, type of):
        self.of, self.number, self.lead, self.gapped = of, number, of._lead, of._gapped
        names = {name for base in of.__mro__ for name in vars(base).get("__slots__", ()) if name != "__weakref__"}
        for name in sorted(names):
            self.all[self.count] = slot_of(of, name)
            self.count += 1
        self.structure, self.shape, self.dtype = [slot_of(of, name) for name in ("_structure", "_shape", "_dtype")]
        self.data = self.lengths = self.side = self.sizes = self.indices = self.levels = self.items = self.like = 0
        if "data" in names:
            self.data = slot_of(of, "data")
        if "lengths" in names:
            self.lengths = slot_of(of, "lengths")
        if "side" in names:
            self.side = slot_of(of, "side")
        if "size_at_t" in names:
            self.sizes, self.indices = slot_of(of, "size_at_t"), slot_of(of, "indices")
        if "_levels" in names:
            self.levels = slot_of(of, "_levels")
        if "items" in names:
            self.items, self.like = slot_of(of, "items"), slot_of(of, "like")

    cdef bint is_filled(self, object x) noexcept:
        """Has the constructor run?  A pickle, or a copy, may have made an empty one."""
        cdef int k
        for k in range(self.count):
            if slot(x, self.all[k])[0] == NULL:
                return False
        return PyTuple_Check(get(x, self.shape))


cdef list _kinds_of_encodings = []
cdef PyObject* _types[COUNT_OF_KINDS]
cdef PyObject* _kinds_by_number[COUNT_OF_KINDS]
cdef int _count_of_kinds = 0
cdef type _Structure, _Order
cdef Py_ssize_t _lengths, _offsets, _n, _rows, _longest, _stable, _order


def use_encodings(encodings, structure, order):
    """Tell of the classes: `Ragged`, `Masked`, `Padded`, `Packed`, `LoD`, `List`, and those of structures."""
    global _count_of_kinds, _Structure, _Order, _lengths, _offsets, _n, _rows, _longest, _stable, _order
    kinds = [Kind(number, of) for number, of in enumerate(encodings)]
    _lengths, _offsets, _n = slot_of(structure, "lengths"), slot_of(structure, "offsets"), slot_of(structure, "n")
    _rows, _longest = slot_of(structure, "rows"), slot_of(structure, "longest")
    _stable, _order = slot_of(structure, "stable"), slot_of(structure, "order")
    _Structure, _Order = structure, order
    _kinds_of_encodings[:] = kinds
    for number, of in enumerate(encodings):
        _types[number], _kinds_by_number[number] = <PyObject*>of, <PyObject*>kinds[number]
    _count_of_kinds = len(kinds)


cdef Kind kind_of(object x):
    """Return the kind of an encoding of the library; None for anything else, and where its constructor has not run."""
    cdef Kind kind = kind_to_fill(x)
    return kind if kind is not None and kind.is_filled(x) else None


cdef Kind kind_to_fill(object x):
    """The same, whether the constructor has run or not."""
    cdef PyObject* given = <PyObject*>Py_TYPE(x)
    cdef int k
    for k in range(_count_of_kinds):
        if given == _types[k]:
            return <Kind>_kinds_by_number[k]
    return None


# --- structures -------------------------------------------------------------------------------------------------------


cdef struct Sequences:
    int64_t n, rows, longest
    int64_t* lengths
    int64_t* offsets


cdef bint read(object structure, Sequences* s) noexcept:
    """Read a structure; False for what is none, or is still on a device, or was changed by somebody."""
    if <PyObject*>Py_TYPE(structure) != <PyObject*>_Structure:
        return False
    if slot(structure, _lengths)[0] == NULL or slot(structure, _offsets)[0] == NULL:
        return False
    if not (cnp.PyArray_CheckExact(get(structure, _lengths)) and cnp.PyArray_CheckExact(get(structure, _offsets))):
        return False
    s.lengths = <int64_t*>cnp.PyArray_DATA(<cnp.ndarray>get(structure, _lengths))
    s.offsets = <int64_t*>cnp.PyArray_DATA(<cnp.ndarray>get(structure, _offsets))
    return (
        number_in(structure, _n, &s.n) and number_in(structure, _rows, &s.rows)
        and number_in(structure, _longest, &s.longest)
    )


cdef inline bint number_in(object x, Py_ssize_t place, int64_t* number) noexcept:
    return slot(x, place)[0] != NULL and whole(get(x, place), number)


cdef bint is_stable(object structure) noexcept:
    return slot(structure, _stable)[0] != NULL and get(structure, _stable) is True


cdef object new_structure(bytes block, int64_t n, int64_t rows, int64_t longest):
    """Make a structure of a block of n lengths and, behind them, n + 1 offsets."""
    return structure_of(view(block, 0, n), view(block, n, n + 1), n, rows, longest)


cdef object structure_of(object lengths, object offsets, int64_t n, int64_t rows, int64_t longest):
    made = new_object(_Structure)
    put(made, _lengths, lengths)
    put(made, _offsets, offsets)
    put(made, _n, n)
    put(made, _rows, rows)
    put(made, _longest, longest)
    put(made, _stable, True)
    return made


cdef object order_of(object structure, Sequences* s):
    """The sequences by falling length, found now if nobody has asked for it; once, whoever asks at the same time.

    None where the kernel for it is not loaded.
    """
    if not is_known(SORT_LENGTHS) and slot(structure, _order)[0] == NULL:
        return None
    with cython.critical_section(structure):
        if slot(structure, _order)[0] == NULL:
            order = new_order(s)         # a long one lets other threads run, which may have been quicker
            if slot(structure, _order)[0] == NULL:
                put(structure, _order, order)
        return checked_order(get(structure, _order))


cdef object known_order(object structure):
    """The same, None if nobody has asked for it."""
    with cython.critical_section(structure):
        return None if slot(structure, _order)[0] == NULL else checked_order(get(structure, _order))


cdef object checked_order(object order):
    return order if <PyObject*>Py_TYPE(order) == <PyObject*>_Order else None


cdef object new_order(Sequences* s):
    cdef int64_t count = 2 * s.n + 2 * s.longest + 1
    cdef bytes block = integers(count)
    cdef SortLengths call = SortLengths(s.lengths, s.n, s.longest, numbers_of(block), count)
    run(kernels[SORT_LENGTHS], &call, 8 * count)
    made = PyType_GenericAlloc(<PyTypeObject*>_Order, 4)
    cdef int64_t begin = 0, size
    cdef int k
    for k in range(4):
        size = s.n if k < 2 else s.longest + k - 2
        part = view(block, begin, size)
        Py_INCREF(part)                  # which the tuple takes
        PyTuple_SET_ITEM(made, k, part)
        begin += size
    return made


cdef inline object part_of(object order, int k):
    """Return a part of an order: the lengths, the indices, the sizes of steps, the rows before each."""
    return <object>PyTuple_GET_ITEM(order, k)


# --- encodings --------------------------------------------------------------------------------------------------------


cdef bint look_at_data(Kind kind, object x, Array* a) except -1:
    """The array of an encoding, if it is plain and still what was validated; no graph may want to hear of it."""
    if not look(get(x, kind.data), a, False, True) or a.dtype != slot(x, kind.dtype)[0]:
        return False
    if a.tensor and not torch_is_quiet():
        return False
    return has_shape(get(x, kind.shape), a, 0)


cdef bint has_shape(object shape, Array* a, int first) noexcept:
    """Has the array this shape, from axis `first` on?"""
    cdef int64_t length
    cdef int k
    if PyTuple_GET_SIZE(shape) != a.ndim:
        return False
    for k in range(first, a.ndim):
        if not whole(<object>PyTuple_GET_ITEM(shape, k), &length) or length != a.shape[k]:
            return False
    return True


cdef bint is_side(object side) noexcept:
    return type(side) is str and (side == "left" or side == "right")


cdef object layout_of(Kind kind, object x, object structure, int64_t* shape, Sequences* s, Layout* at):
    """Describe where rows lie; return what holds that memory, or None where it is unknown.  `shape` is that of data."""
    if kind.number == RAGGED or kind.number == LOD:
        put_blocks(at, s.offsets, s.offsets, s.n, -1)
        return structure
    if kind.number == MASKED:
        if not is_side(get(x, kind.side)):
            return None
        put_blocks(at, s.offsets, s.offsets, s.n, shape[1])
        at.left = get(x, kind.side) == "left"
        return structure
    order = known_order(structure)
    if order is not None:
        put_steps(at, order, s, s.n if kind.number == PADDED else 0)
    return order


cdef void put_steps(Layout* at, object order, Sequences* s, int64_t step) noexcept:
    """By steps of `step` places each; packed where it is 0."""
    cdef cnp.ndarray indices = part_of(order, 1), steps = part_of(order, 3)
    at.starts, at.n_starts = <int64_t*>cnp.PyArray_DATA(indices), s.n
    at.cum, at.n_cum = s.offsets, s.n + 1
    at.steps, at.n_steps = <int64_t*>cnp.PyArray_DATA(steps), cnp.PyArray_DIM(steps, 0)
    at.stride, at.left, at.step, at.absolute = -1, 0, step, 0


cdef object new_batch(Kind kind, object data, object shape, object dtype, object structure, object order):
    """An encoding over new data; `order` is for those that lie by steps."""
    made = new_object(kind.of)
    put(made, kind.data, data)
    put(made, kind.structure, structure)
    put(made, kind.shape, shape)
    put(made, kind.dtype, dtype)
    lengths = get(structure, _lengths)
    if kind.number == PADDED or kind.number == PACKED:
        lengths = part_of(order, 0)
        put(made, kind.indices, part_of(order, 1))
        put(made, kind.sizes, part_of(order, 2))
    elif kind.number == MASKED:
        put(made, kind.side, "right")
    put(made, kind.lengths, lengths)
    return made


cdef object with_data(Kind kind, object x, object data, object shape, object dtype):
    """Make an encoding like this one over other data of the same leading shape."""
    cdef int k
    made = new_object(kind.of)
    for k in range(kind.count):
        put(made, kind.all[k], get(x, kind.all[k]))
    put(made, kind.data, data)
    put(made, kind.shape, shape)
    put(made, kind.dtype, dtype)
    return made
