# Functions of single items: of the data of a batch, and of numbers, arrays and batches beside it.

cdef type _scalar = np.generic

cdef enum:
    BATCH = 5                            # of the same class, form and dtype over the same structure
    ITEM = 6                             # an array that broadcasts to each item as it is
    CAST = 7                             # a batch of another dtype
    OTHER = 8


def map_items(function, x, *others):
    """``function(x, *others)`` item by item, of a batch and what lies as it; None where Python has to do it.

    Where there is padding, the structure keeps what `gaps` has found out: where it is, and which numbers go there before
    the function and after it, if a graph records them and if none does.  To choose from a tensor of one such number
    takes less time than to fill with the number.
    """
    cdef Kind kind = kind_of(x)
    cdef Array a
    cdef int k, case, cases = 0
    cdef list arrays
    if not is_on or kind is None or kind.number == LIST or not look_to_map(kind, x, &a):
        return None
    if kind.gapped and not (a.tensor and a.device.device_type == CPU):
        return None
    arrays = [get(x, kind.data)]
    for k in range(PyTuple_GET_SIZE(others)):
        other = <object>PyTuple_GET_ITEM(others, k)
        case = case_of(kind, x, &a, other)
        if case == OTHER:
            return None
        arrays.append(get(other, kind.data) if case == BATCH or case == CAST else other)
        cases = 8 * cases + case
    try:
        made = beside_gaps(function, kind, x, arrays, cases) if kind.gapped else function(*arrays)
        return None if made is None else with_data(kind, x, made, made.shape, made.dtype)
    except Exception:                    # Python raises it once more, with its own words
        return None


cdef int case_of(Kind kind, object x, Array* a, object other) except -1:
    """Which of the cases it is that `gaps.case_of` tells apart."""
    cdef Array b
    cdef double number
    cdef int k
    if type(other) is float or type(other) is int or type(other) is bool:
        if not kind.gapped:
            return 1
        try:
            number = PyFloat_AsDouble(other)
        except OverflowError:
            return OTHER
        if number - number != 0 or number == 0:
            return 1
        return 2 if number < 0 else 3 if number < 1 else 4
    if Py_TYPE(other) == Py_TYPE(x):
        if not kind.is_filled(other) or get(other, kind.structure) is not get(x, kind.structure):
            return OTHER
        if not look_to_map(kind, other, &b) or b.tensor != a.tensor or not has_shape(get(x, kind.shape), &b, 0):
            return OTHER
        if kind.levels and get(x, kind.levels) is not get(other, kind.levels):
            return OTHER
        if kind.side and get(x, kind.side) != get(other, kind.side):
            return OTHER
        return BATCH if b.dtype == a.dtype else CAST
    if not a.tensor and isinstance(other, _scalar):
        return ITEM
    if not look_anywhere(other, &b, True, False) or b.tensor != a.tensor or b.ndim > a.ndim - kind.lead:
        return OTHER
    if b.device.device_type != a.device.device_type or b.device.device_id != a.device.device_id:
        return OTHER
    for k in range(b.ndim):
        if b.shape[k] != a.shape[a.ndim - b.ndim + k]:
            return OTHER
    return ITEM


cdef bint look_to_map(Kind kind, object x, Array* a) except -1:
    """Describe the data of a batch, on any device, as it was validated; a graph may record what is done with it."""
    if not look_anywhere(get(x, kind.data), a, True, True) or a.dtype != slot(x, kind.dtype)[0]:
        return False
    return has_shape(get(x, kind.shape), a, 0) and (not a.tensor or torch_is_quiet())


cdef object beside_gaps(object function, Kind kind, object x, list arrays, int cases):
    """The result with zeros for padding; None where nothing is known of such a call."""
    cdef Py_ssize_t k
    side = get(x, kind.side) if kind.side else None
    plan = get(x, kind.structure).device.get((function, kind.of, get(x, kind.shape), get(x, kind.dtype), side, cases))
    if plan is None:
        return None
    gaps, rows, zero, places, recorded, quiet = <tuple>plan
    fills, clear = <tuple>quiet
    for one in arrays:
        if one is not None and is_tensor(one, True) and not asks_none(one):
            fills, clear = <tuple>recorded
            break
    if fills:
        for at, value in zip(<tuple>places, <tuple>fills):
            one = arrays[at]
            arrays[at] = _chosen_items(rows, one, value) if is_tensor(value, False) else _filled(one, gaps, value)
    made = function(*arrays)
    if made.shape != get(x, kind.shape):
        return None
    if not clear:
        return made
    return _chosen_items(rows, made, zero) if made.dtype is zero.dtype else _filled(made, gaps, 0)
