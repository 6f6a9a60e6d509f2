# Lists: of arrays, and nested ones of numbers, which are read and written without a step in Python for each item.

cdef extern from "Python.h":
    object PyFloat_FromDouble(double)
    object PyList_New(Py_ssize_t)
    int PyList_SetItem(object, Py_ssize_t, object) except -1               # takes the reference
    Py_ssize_t PyLong_AsSsize_t(object) noexcept
    int PyFloat_CheckExact(object) noexcept
    int PyBool_Check(object) noexcept

cdef cnp.dtype _float64 = np.dtype(np.float64), _bool = np.dtype(np.bool_)


def scan_arrays(tuple items, bint in_graph):
    """Lengths, offsets, addresses and the greatest length of plain arrays alike; None for others.

    They are contiguous, of one library, device, dtype and item shape; if not `in_graph`, none wants a gradient.
    """
    cdef Array sample
    cdef Sequences s
    cdef int64_t* addresses
    if not is_on:
        return None
    block = scan_items(items, &sample, &s, &addresses, in_graph, True)
    if block is None:
        return None
    return view(block, 0, s.n), view(block, s.n, s.n + 1), view(block, 2 * s.n + 1, s.n), s.longest


def common_flags(tuple items):
    """The flags that all of some NumPy arrays have, as a number; None where something else is among them."""
    cdef int common = -1
    if not is_on:
        return None
    for x in items:
        if not cnp.PyArray_Check(x):
            return None
        common &= cnp.PyArray_FLAGS(<cnp.ndarray>x)
    return common


# --- nested lists of numbers ------------------------------------------------------------------------------------------

cdef enum:
    NONE, FLOAT, INT, BOOL               # what the leaves are
    DEEPEST = 16                         # levels that are walked here
    MOST_LISTS = 1 << 28                 # on a level; a few objects, one in the other many times, may be that many

cdef inline PyObject* item_of(object x, Py_ssize_t i) noexcept:
    """An item of a list or tuple, by the call that the stable ABI has for it."""
    return PyList_GET_ITEM(x, i) if PyList_CheckExact(x) else PyTuple_GET_ITEM(x, i)


cdef struct Walk:
    int leaf                             # what the leaves are
    int bottom, deepest                  # levels: of the lists of leaves, and of all lists
    int64_t lists[DEEPEST + 1]           # how many there have been on each level
    int64_t leaves                       # how many there have been
    int64_t* lengths                     # of the lists, one level after the other; NULL while they are counted
    char* out                            # where leaves are written
    int64_t ends[DEEPEST + 1]            # places in `lengths` where a level ends; the first is 0
    int64_t most                         # leaves that there is room for


def read_numbers(tuple items, bint wanted):
    """The leaves of nested lists in an array, and the lengths of the lists on each level; see `reading.read_numbers`.

    Where they are not wanted, an empty array and no lengths.  None for anything but plain lists and tuples, equally
    deep, of floats alone, of ints of 64 bits, or of bools.
    """
    cdef Walk walk
    cdef int k, levels
    cdef int64_t total = 0
    cdef bytes lengths
    if not is_on:
        return None
    memset(&walk, 0, sizeof(walk))
    if not walk_lists(items, 0, &walk) or walk.leaf == NONE or walk.bottom != walk.deepest:
        return None
    levels = walk.deepest
    if not wanted:
        return view(integers(0), 0, 0), []
    for k in range(1, levels + 1):
        walk.ends[k] = total + walk.lists[k]
        walk.lists[k], total = total, walk.ends[k]
    lengths = integers(total)
    dtype = _float64 if walk.leaf == FLOAT else _int64 if walk.leaf == INT else _bool
    leaves = new_array(False, <PyObject*>dtype, DLDataType(0, 0, 0), 1, &walk.leaves, &walk.out)
    walk.lengths = numbers_of(lengths)
    walk.most, walk.leaves, walk.bottom, walk.deepest = walk.leaves, 0, 0, 0
    # what finds garbage, or another thread, may have changed the lists meanwhile
    if not walk_lists(items, 0, &walk) or walk.leaves != walk.most or walk.deepest != levels:
        return None
    for k in range(1, levels + 1):
        if walk.lists[k] != walk.ends[k]:
            return None
    return leaves, [view(lengths, walk.ends[k - 1], walk.ends[k] - walk.ends[k - 1]) for k in range(1, levels + 1)]


cdef inline object held(object items):
    """Hold the items of a list or tuple, where another thread could change the list."""
    return tuple(items) if FREE_THREADED and PyList_CheckExact(items) else items


cdef bint walk_lists(object given, int level, Walk* walk) except -1:
    """Count or write all lists in a list or tuple, which is on this level; False where they are not as they should be."""
    cdef object above = held(given)
    cdef Py_ssize_t i, size, count = PyList_GET_SIZE(above) if PyList_CheckExact(above) else PyTuple_GET_SIZE(above)
    cdef int below = level + 1
    cdef PyObject* first
    cdef object inner
    if below > DEEPEST:
        return False
    for i in range(count):
        inner = held(<object>item_of(above, i))
        if PyList_CheckExact(inner):
            size = PyList_GET_SIZE(inner)
        elif PyTuple_CheckExact(inner):
            size = PyTuple_GET_SIZE(inner)
        else:
            return False
        first = item_of(inner, 0) if size else NULL
        if walk.lengths != NULL:
            if walk.lists[below] >= walk.ends[below]:
                return False
            walk.lengths[walk.lists[below]] = size
        walk.lists[below] += 1
        if walk.lists[below] > MOST_LISTS:
            return False
        walk.deepest = max(walk.deepest, below)
        if first == NULL:
            continue
        if PyList_CheckExact(<object>first) or PyTuple_CheckExact(<object>first):
            if not walk_lists(inner, below, walk):
                return False
        elif not take_leaves(inner, size, below, <object>first, walk):
            return False
    return True


cdef bint take_leaves(object inner, Py_ssize_t size, int level, object first, Walk* walk) except -1:
    """Count or write the numbers of a list or tuple; False where they are no numbers, or lists lie as deep."""
    cdef Py_ssize_t i
    cdef PyObject* item
    cdef double* reals = <double*>walk.out + walk.leaves
    cdef int64_t* numbers = <int64_t*>reals
    cdef char* bools = walk.out + walk.leaves
    if walk.bottom not in (0, level):
        return False
    walk.bottom = level
    if walk.leaf == NONE:
        walk.leaf = (FLOAT if PyFloat_CheckExact(first) else BOOL if PyBool_Check(first)
                     else INT if PyLong_CheckExact(first) else NONE)
        if walk.leaf == NONE:
            return False
    walk.leaves += size
    if walk.lengths == NULL:
        return True
    if walk.leaves > walk.most:
        return False
    if walk.leaf == FLOAT:
        for i in range(size):
            item = item_of(inner, i)
            if not PyFloat_CheckExact(<object>item):
                return False
            reals[i] = PyFloat_AsDouble(<object>item)
    elif walk.leaf == INT:
        for i in range(size):
            item = item_of(inner, i)
            if not PyLong_CheckExact(<object>item):
                return False
            numbers[i] = PyLong_AsSsize_t(<object>item)
            if numbers[i] == -1 and not whole(<object>item, &numbers[i]):
                PyErr_Clear()            # which it has raised, being of more than 64 bits
                return False
    else:
        for i in range(size):
            item = item_of(inner, i)
            if not PyBool_Check(<object>item):
                return False
            bools[i] = <object>item is True
    return True


def write_numbers(x, tuple offsets):
    """Nested lists of the numbers of an array, float64 or int64, cut at the offsets of each level; None for others."""
    cdef Array data, cuts
    cdef int64_t a, b, i, k
    cdef bint real
    if not is_on or not look(x, &data, False, False) or data.tensor or data.ndim != 1:
        return None
    real = data.dtype == <PyObject*>_float64
    if not real and data.dtype != <PyObject*>_int64:
        return None
    rows = None
    for each in reversed(offsets):
        if not look(each, &cuts, False, False) or cuts.ndim != 1 or cuts.dtype != <PyObject*>_int64 or not cuts.shape[0]:
            return None
        made = PyList_New(cuts.shape[0] - 1)
        for k in range(cuts.shape[0] - 1):
            a, b = (<int64_t*>cuts.data)[k], (<int64_t*>cuts.data)[k + 1]
            if a < 0 or b < a or b > (data.shape[0] if rows is None else PyList_GET_SIZE(rows)):
                return None
            inner = PyList_New(b - a)
            for i in range(a, b):
                if rows is not None:
                    item = <object>PyList_GET_ITEM(rows, i)
                elif real:
                    item = PyFloat_FromDouble((<double*>data.data)[i])
                else:
                    item = PyLong_FromLongLong((<int64_t*>data.data)[i])
                Py_INCREF(item)          # which the list takes
                PyList_SetItem(inner, i - a, item)
            Py_INCREF(inner)
            PyList_SetItem(made, k, inner)
        rows = made
    return rows
