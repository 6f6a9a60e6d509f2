# Bags: rows of a table that the items of a batch name, added up or the largest, and the gradient of the table.


cdef class Bags:
    """``enter(table, ids, weights, mode)`` reduces rows, ``back(...)`` is the gradient of the table, or each is None.

    Python tells `sums`, `largest` and `slopes` of the kernels for a dtype.
    """
    cdef readonly OneKernel sums, largest, slopes

    def __init__(self):
        self.sums, self.largest, self.slopes = OneKernel(), OneKernel(), OneKernel()

    def enter(self, table, ids, weights, mode):
        """The result for a `Ragged` of int64; None where Python has to do it."""
        cdef Kind kind = kind_of(ids)
        cdef Array rows, places, factors
        cdef Sequences s
        cdef int64_t words[MOST_WORDS]
        cdef int64_t wrong = 0, width, size
        cdef int count
        cdef char* out
        cdef OneKernel one
        if not is_on or kind is None or kind.number != RAGGED or type(mode) is not str:
            return None
        one = self.largest if mode == "max" else self.sums if mode == "sum" or mode == "mean" else None
        if one is None or not read(get(ids, kind.structure), &s) or not look_at_table(table, &rows):
            return None
        if not look_at_data(kind, ids, &places) or not is_int64(&places) or places.ndim != 1:
            return None
        cdef Plan* plan = one.plan_for(rows.dtype, NULL, NULL)
        if plan == NULL or (places.tensor and not rows.tensor) or rows.ndim < 1:
            return None
        width = row_of(&rows, 1) // rows.itemsize
        if s.rows == 0 or width == 0 or rows.shape[0] == 0:
            return None
        # of tensors too, which PyTorch's own function allocates in the same way
        if s.rows > most_read // (width * rows.itemsize) or s.n > most[0] // (width * rows.itemsize):
            return None
        size = s.rows * width * rows.itemsize
        factors = rows
        if weights is not None:
            if mode != "sum" or rows.itemsize < 4:
                return None
            if not look_at_table(weights, &factors) or factors.dtype != rows.dtype:
                return None
            if factors.ndim != 1 or factors.shape[0] != s.rows:
                return None
        height, rows.shape[0] = rows.shape[0], s.n
        result = new_array(rows.tensor, plan.made, plan.kind, rows.ndim, rows.shape, &out)
        words[0], words[1], count = <int64_t>rows.data, height * width, 2
        if one is self.sums:
            words[2], words[3], count = <int64_t>factors.data, s.rows, 4
        words[count], words[count + 1] = <int64_t>places.data, s.rows
        words[count + 2], words[count + 3] = <int64_t>out, s.n * width
        words[count + 4], words[count + 5] = <int64_t>out, s.n          # not written: totals of weights, or places
        words[count + 6], words[count + 7] = <int64_t>&wrong, 1
        words[count + 8], words[count + 9] = <int64_t>s.offsets, s.n + 1
        count += 10
        if one is self.sums:
            words[count], words[count + 1], count = <int64_t>s.offsets, 0, count + 2
        words[count], count = height, count + 1
        if one is self.sums:
            words[count], count = mode == "mean", count + 1
        words[count] = weights is not None and one is self.sums
        one.run_over(plan, words, count + 1, width, s.n, size)
        return None if wrong else result

    def back(self, ids, structure, slopes, height, bint mean, bint sparse):
        """The gradient of a table of `height` rows, of the gradients of bags; `sparse`: which rows, and those of it."""
        cdef Array places, given
        cdef Sequences s
        cdef Plan* plan
        cdef Plan* divided
        cdef bytes table, scaled
        cdef int64_t words[MOST_WORDS]
        cdef int64_t width, rows, named, size, m
        cdef int64_t* grouped
        cdef char* out
        if not is_on or not is_known(GROUP_IDS) or not whole(height, &rows) or not read(structure, &s):
            return None
        if not look_at_table(slopes, &given) or given.ndim < 1 or given.shape[0] != s.n or s.n == 0:
            return None
        if not look(ids, &places, False, True) or not is_int64(&places) or places.ndim != 1 or places.shape[0] != s.rows:
            return None
        plan, divided = self.sums.plan_for(given.dtype, NULL, NULL), self.slopes.plan_for(given.dtype, NULL, NULL)
        width, m = row_of(&given, 1) // given.itemsize, s.rows
        if plan == NULL or (mean and divided == NULL) or width == 0 or m == 0:
            return None
        if (m if sparse else max(rows, m)) > most[0] // (width * given.itemsize):
            return None
        data = given.data
        if mean:
            scaled = integers(1 + s.n * width * given.itemsize // 8)
            words[0], words[1], words[2], words[3] = <int64_t>data, s.n * width, <int64_t>data, s.n * width
            words[4], words[5], words[6], words[7] = <int64_t>data, s.n, <int64_t>numbers_of(scaled), s.n * width
            words[8], words[9], words[10], words[11] = <int64_t>data, s.n, <int64_t>s.offsets, s.n + 1
            words[12], words[13] = 0, width
            self.slopes.run_over(divided, words, 14, 1, s.n, s.n * width * given.itemsize)
            data = <char*>numbers_of(scaled)
        table = integers(6 * m + 2049)
        grouped = numbers_of(table)
        words[0], words[1], words[2], words[3] = <int64_t>places.data, m, <int64_t>s.offsets, s.n + 1
        words[4], words[5], words[6] = rows, <int64_t>grouped, 6 * m + 2049
        named = run(kernels[GROUP_IDS], words, 8 * 7 * m)
        if named < 0:
            return None
        rows = given.shape[0] = named if sparse else rows
        result = new_array(given.tensor, plan.made, plan.kind, given.ndim, given.shape, &out)
        size = rows * width * given.itemsize
        if not sparse:
            memset(out, 0, size)
        words[0], words[1], words[2], words[3] = <int64_t>data, s.n * width, <int64_t>data, s.n * width
        words[4], words[5] = <int64_t>(grouped + 2 * m + 1), m
        words[6], words[7], words[8], words[9] = <int64_t>out, rows * width, <int64_t>out, rows
        words[10], words[11] = <int64_t>&size, 1                         # no id is wrong
        words[12], words[13], words[14], words[15] = <int64_t>(grouped + m), named + 1, <int64_t>grouped, 0 if sparse else named
        words[16], words[17], words[18] = s.n, 0, 0
        self.sums.run_over(plan, words, 19, width, named, m * width * given.itemsize)
        return (view(table, 0, named), result) if sparse else result


cdef bint look_at_table(object x, Array* a) except -1:
    """Describe a plain array, a parameter of a model among them, of which no graph wants to hear."""
    if cnp.PyArray_CheckExact(x):
        return look(x, a, False, False)
    return is_tensor(x, True) and look_at_tensor(x, a, False, False) and torch_is_quiet()
