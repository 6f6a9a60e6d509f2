# One kernel that gives every item of an encoding what is its sequence's, or its own: repetitions, and gradients.


cdef class Spread(OneKernel):
    """An encoding laid out as another, of arrays: ``enter(shape, *arrays)``; the data of `shape` need not be there.

    Parameters
    ----------
    numbers : what the kernel takes behind the layout
    moves : does it move rows of bytes?
    arrays : how many there are
    laid : which of these are laid out as the result, by their places, and do not have one row a sequence
    alike : must dtype and item of the first be those of `shape`?
    flat : is the result an array of all rows, one sequence after the other?
    cleared : are there items that the kernel does not write, which are zeros?
    """
    cdef int arrays
    cdef bint laid[MOST_ARRAYS]
    cdef bint alike, flat, cleared

    def __init__(self, numbers=(), *, bint moves=False, int arrays=1, laid=(), bint alike=False, bint flat=False,
                 bint cleared=False):
        OneKernel.__init__(self, numbers, moves=moves, by_item=True)
        self.arrays, self.alike, self.flat, self.cleared = arrays, alike, flat, cleared
        for k in laid:
            self.laid[k] = True

    def enter(self, shape=absent, one=absent, two=absent, three=absent, *others):
        """The result; None where Python has to do it."""
        if not is_on or self.count == 0 or others:
            return None
        if one is absent or (two is not absent) + (three is not absent) + 1 != self.arrays:
            return None
        return self.spread(shape, one, two, three)

    cdef object spread(self, object x, object one, object two, object three):
        cdef Kind kind = kind_of(x)
        cdef Array arrays[MOST_ARRAYS]
        cdef PyObject* dtypes[MOST_ARRAYS]
        cdef Sequences s
        cdef Layout at
        cdef int64_t shape[MOST_AXES]
        cdef int64_t words[MOST_WORDS]
        cdef int64_t width = 1, places = 1, size
        cdef int k, j, head, begin, axes = 0, out_at, count = 0
        cdef char* out
        if kind is None or kind.number == LIST:
            return None
        structure, known = get(x, kind.structure), get(x, kind.shape)
        if not read(structure, &s) or PyTuple_GET_SIZE(known) < kind.lead:
            return None
        for k in range(kind.lead):
            if not whole(<object>PyTuple_GET_ITEM(known, k), &shape[k]):
                return None
            places *= shape[k]
        held = layout_of(kind, x, structure, shape, &s, &at)
        if held is None:
            return None
        for k in range(MOST_ARRAYS):
            dtypes[k] = NULL
            if k >= self.arrays:
                continue
            array = self.array_of(kind, x, one if k == 0 else two if k == 1 else three, k)
            if array is None or not look(array, &arrays[k], False, False):
                return None
            begin = kind.lead if self.laid[k] else 1
            if k == 0:
                axes = arrays[0].ndim - begin
                if arrays[0].tensor and not torch_is_quiet():
                    return None
            if axes < 0 or kind.lead + axes > MOST_AXES or arrays[k].ndim != begin + axes:
                return None
            if arrays[k].tensor != arrays[0].tensor and not is_int64_of_numpy(&arrays[k]):
                return None
            for j in range(begin):
                if arrays[k].shape[j] != (shape[j] if self.laid[k] else s.n):
                    return None
            for j in range(axes):
                if arrays[k].shape[begin + j] != arrays[0].shape[(kind.lead if self.laid[0] else 1) + j]:
                    return None
            dtypes[k] = arrays[k].dtype
        cdef Plan* plan = self.plan_for(dtypes[0], dtypes[1], dtypes[2])
        if plan == NULL:
            return None
        begin = kind.lead if self.laid[0] else 1
        if self.alike and not self.is_alike(kind, x, known, &arrays[0], begin):
            return None
        head = kind.lead
        if self.flat:
            places, head, shape[0] = s.rows, 1, s.rows
            put_blocks(&at, s.offsets, s.offsets, s.n, -1)
        for j in range(axes):
            shape[head + j] = arrays[0].shape[begin + j]
            width *= shape[head + j]
        if s.n * s.rows * width == 0 or places > most[arrays[0].tensor] // plan.itemsize // width:
            return None
        size = places * width * plan.itemsize
        result = new_array(arrays[0].tensor, plan.made, plan.kind, head + axes, shape, &out)
        if self.cleared or (not self.flat and kind.gapped and s.rows != places):
            memset(out, 0, size)
        for k in range(self.arrays):
            words[count] = <int64_t>arrays[k].data
            words[count + 1] = (places if self.laid[k] else s.n) * width
            count += 1 if self.moves else 2
        words[count], words[count + 1] = <int64_t>out, places * width
        count += 1 if self.moves else 2
        memcpy(words + count, &at, sizeof(Layout))
        count += sizeof(Layout) // sizeof(int64_t)
        dtype = <object>plan.made        # before other threads run, one of which may forget the plan
        self.run_over(plan, words, count, width * (plan.itemsize if self.moves else 1), s.n, size)
        if self.flat:
            return result
        shape_made = shape_of(arrays[0].tensor, head + axes, shape)
        return with_data(kind, x, result, shape_made, dtype)

    cdef object array_of(self, Kind kind, object x, object given, int k):
        """The array of an argument, which may be an encoding over the very same sequences where it is laid out so."""
        cdef Array data
        if not self.laid[k] or <PyObject*>Py_TYPE(given) != <PyObject*>kind.of:
            return given
        if not kind.is_filled(given) or slot(given, kind.structure)[0] != slot(x, kind.structure)[0]:
            return None
        if kind.side and get(given, kind.side) != get(x, kind.side):
            return None
        return get(given, kind.data) if look_at_data(kind, given, &data) else None

    cdef bint is_alike(self, Kind kind, object x, object known, Array* a, int begin) except -1:
        """Are dtype and item of an array those of an encoding?"""
        cdef int64_t length
        cdef int k
        if a.dtype != slot(x, kind.dtype)[0] or PyTuple_GET_SIZE(known) - kind.lead != a.ndim - begin:
            return False
        for k in range(begin, a.ndim):
            if not whole(<object>PyTuple_GET_ITEM(known, kind.lead + k - begin), &length) or length != a.shape[k]:
                return False
        return True


cdef bint is_int64_of_numpy(Array* a) noexcept:
    return not a.tensor and a.dtype == <PyObject*>_int64
