# Operations that are one kernel over the sequences of a batch, such as reductions, or softmax.

cdef enum:
    MOST_PLANS = 32
    MOST_ARRAYS = 3
    MOST_NUMBERS = 4

cdef struct Plan:                        # for some dtypes
    PyObject* given[MOST_ARRAYS]         # the dtypes, NULL behind the last
    Kernel kernel
    PyObject* made                       # the dtype of the result
    DLDataType kind                      # of a tensor: the same, as DLPack has it
    int64_t itemsize

cdef object absent = object()            # stands for an argument that nobody gave


cdef class OneKernel:
    """An operation that is one kernel: which one, for which dtypes."""
    cdef Plan plans[MOST_PLANS]
    cdef int first, count                # the plans from `first` to `count` are in use
    cdef int64_t numbers[MOST_NUMBERS]   # what the kernel takes behind the layout
    cdef int count_of_numbers
    cdef list kept                       # dtypes, so that their addresses are theirs
    cdef bint moves, by_item             # are rows moved?  Is there an item for each item, or one for a sequence?
    cdef object default
    cdef public object twin              # the same in Python, for `run`

    def __init__(self, numbers=(), *, bint moves=False, bint by_item=False):
        self.moves, self.by_item, self.count_of_numbers, self.kept = moves, by_item, len(numbers), []
        self.default = absent
        for k, number in enumerate(numbers):
            self.numbers[k] = number

    def knows(self, *dtypes):
        """Has it been told of these dtypes?"""
        return self.find(dtypes) != NULL

    def add(self, tuple dtypes, size_t address, made):
        """Tell where the kernel for these dtypes is, and the dtype of what it makes."""
        cdef Plan* plan
        cdef int k, number
        cdef int64_t itemsize
        itemsize, number = made.itemsize, -1 if isinstance(made, np.dtype) else _dtypes.index(made)
        with cython.critical_section(self):
            if self.count == MOST_PLANS or self.find(dtypes) != NULL:
                return
            plan = &self.plans[self.count]
            for k in range(MOST_ARRAYS):
                plan.given[k] = <PyObject*>dtypes[k] if k < len(dtypes) else NULL
            plan.kernel, plan.made, plan.itemsize = <Kernel>address, <PyObject*>made, itemsize
            if number >= 0:
                plan.kind = _kinds[number]
            self.kept.append((dtypes, made))
            publish_count(self.count, self.count + 1)    # last: whoever reads now finds the whole of it

    def forget(self):
        """A kernel has been replaced: nobody is let in until `add` tells of dtypes again."""
        with cython.critical_section(self):
            if FREE_THREADED:            # a thread may be at one of the plans
                publish_count(self.first, self.count)
            else:
                self.count = 0

    def let_default(self, default):
        """An option of the operation; a call that gives any other object is for Python."""
        self.default = default

    cdef Plan* find(self, dtypes) noexcept:
        cdef PyObject* given[MOST_ARRAYS]
        cdef int k
        for k in range(MOST_ARRAYS):
            given[k] = PyTuple_GET_ITEM(dtypes, k) if k < PyTuple_GET_SIZE(dtypes) else NULL
        return self.plan_for(given[0], given[1], given[2])

    cdef Plan* plan_for(self, PyObject* one, PyObject* two, PyObject* three) noexcept:
        cdef int k
        for k in range(read_count(self.first), read_count(self.count)):
            if self.plans[k].given[0] == one and self.plans[k].given[1] == two and self.plans[k].given[2] == three:
                return &self.plans[k]
        return NULL

    cdef void run_over(self, Plan* plan, int64_t* words, int count, int64_t width, int64_t n, int64_t size) noexcept:
        """Run the kernel, for whose first `count` words all is there: its numbers, the width and the units follow."""
        memcpy(words + count, self.numbers, self.count_of_numbers * sizeof(int64_t))
        count += self.count_of_numbers
        words[count], words[count + 1], words[count + 2] = width, 0, n
        run(plan.kernel, words, size)


cdef class Calculate(OneKernel):
    """An operation on one batch: ``enter(x, *options)`` is its result, or None.

    Parameters
    ----------
    numbers : what the kernel takes behind the layout
    moves : does it move rows of bytes, so that its result has the dtype of the batch?
    by_item : does it give an item for each item, or one for a sequence?
    narrow : are items single numbers?
    widens : is an item of the result an item with neighbours, as many as the options say before and after it?
    """
    cdef bint narrow, widens

    def __init__(self, numbers=(), *, bint moves=False, bint by_item=False, bint narrow=False, bint widens=False):
        OneKernel.__init__(self, numbers, moves=moves, by_item=by_item)
        self.narrow, self.widens = narrow, widens

    def enter(self, x=absent, first=absent, second=absent, *others):
        """The result; None where Python has to do it."""
        return self.tried(x, first, second, others)

    def run(self, x=absent, first=absent, second=absent, *others):
        """The result: that of `twin` where Python has to do it."""
        result = self.tried(x, first, second, others)
        if result is not None:
            return result
        if second is not absent:
            return self.twin(x, first, second, *others)
        return self.twin(x) if first is absent else self.twin(x, first)

    cdef object tried(self, object x, object first, object second, object others):
        cdef int64_t before = 0, after = 0
        if not is_on or self.count == 0 or others:
            return None
        if self.widens:
            if not is_few(first, &before) or not is_few(second, &after):
                return None
        elif first is not self.default or second is not absent:
            return None
        return self.calculated(x, before, after)

    cdef object calculated(self, object x, int64_t before, int64_t after):
        cdef Kind kind = kind_of(x)
        cdef Array data
        cdef Sequences s
        cdef Layout at
        cdef int64_t shape[MOST_AXES + 1]
        cdef int64_t words[MOST_WORDS]
        cdef int64_t width = 1, places = 1, size, wide = before + 1 + after
        cdef int k, head = 1, axes, count
        cdef char* out
        if kind is None or kind.number == LIST:
            return None
        if kind.number == LOD and not self.by_item and PyTuple_GET_SIZE(get(x, kind.levels)) != 1:
            return None
        structure, array = get(x, kind.structure), get(x, kind.data)
        if not read(structure, &s) or not look_at_data(kind, x, &data):
            return None
        cdef Plan* plan = self.plan_for(data.dtype, NULL, NULL)
        if plan == NULL or (self.narrow and data.ndim != kind.lead):
            return None
        for k in range(data.ndim):
            if k < kind.lead:
                places *= data.shape[k]
            else:
                width *= data.shape[k]
        if s.n == 0 or places * width == 0:
            return None
        # a move to one item a sequence reads no more than that
        size = (places if self.by_item or not self.moves else s.n) * width * data.itemsize
        if size > most[data.tensor] or (places * wide if self.by_item else s.n) * width > most[data.tensor] // plan.itemsize:
            return None
        held = layout_of(kind, x, structure, data.shape, &s, &at)
        if held is None:
            return None
        if self.by_item:
            head = kind.lead
            memcpy(shape, data.shape, head * sizeof(int64_t))
        else:
            shape[0] = s.n
        axes = head + data.ndim - kind.lead
        memcpy(shape + head, data.shape + kind.lead, (axes - head) * sizeof(int64_t))
        if self.widens:
            if axes == head:
                shape[head] = 1
                axes += 1
            shape[head] *= wide
        if axes > MOST_AXES:
            return None
        result = new_array(data.tensor, plan.made, plan.kind, axes, shape, &out)
        if self.by_item and kind.gapped and s.rows != places:
            memset(out, 0, places * width * wide * plan.itemsize)
        words[0], words[1], count = <int64_t>data.data, <int64_t>out, 2
        if not self.moves:
            words[1], words[2] = places * width, <int64_t>out
            words[3], count = places * width if self.by_item else s.n * width, 4
        memcpy(words + count, &at, sizeof(Layout))
        count += sizeof(Layout) // sizeof(int64_t)
        if self.widens:
            words[count], words[count + 1] = before, after
            count += 2
        dtype = <object>plan.made        # before other threads run, one of which may forget the plan
        self.run_over(plan, words, count, width * (data.itemsize if self.moves else 1), s.n, size)
        if not self.by_item:
            return result
        return with_data(kind, x, result, shape_of(data.tensor, axes, shape), dtype)


cdef bint is_few(object given, int64_t* number) except -1:
    """Is it a number of neighbours?"""
    return whole(given, number) and 0 <= number[0] < 1 << 30
