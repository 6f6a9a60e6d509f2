# Several `Ragged` batches as one, sequence by sequence: `concat` and `interleave`.

cdef struct JoinLengths:
    int64_t* cum
    int64_t n_cum
    int64_t* table
    int64_t n_table

cdef struct Join:                        # the arguments of `join_rows` and of `interleave_rows`
    int64_t source
    char* out
    int64_t* bases
    int64_t parts
    int64_t* units
    int64_t parts_again
    int64_t* begins
    int64_t n_begins
    int64_t* cum
    int64_t n_cum
    int64_t* offsets
    int64_t n_offsets
    int64_t absolute, row, lo, hi


def concat(parts=None, *others):
    """The items of all parts one after the other; None where Python has to do it."""
    return None if others else _joined(parts, JOIN_ROWS)


def interleave(batches=None, *others):
    """Item 0 of all batches, item 1 of all batches, and so on; None where Python has to do it."""
    return None if others else _joined(batches, INTERLEAVE_ROWS)


cdef object _joined(object parts, int number):
    cdef Array first, each
    cdef Sequences s
    cdef Kind kind
    cdef int64_t* cum = NULL
    cdef int64_t* bases
    cdef int64_t* offsets
    cdef int64_t k, n = 0, row = 0, rows = 0, longest, count
    cdef char* out
    cdef bytes block = None, table
    if not is_on or not is_known(JOIN_LENGTHS) or not is_known(number):
        return None
    if not (PyList_CheckExact(parts) or PyTuple_CheckExact(parts)):
        return None
    parts = tuple(parts)                 # whoever changes the list meanwhile changes nothing here
    count = PyTuple_GET_SIZE(parts)
    for k in range(count):
        part = <object>PyTuple_GET_ITEM(parts, k)
        kind = kind_of(part)
        if kind is None or kind.number != RAGGED or not read(get(part, kind.structure), &s):
            return None
        if not look_at_data(kind, part, &each):
            return None
        if k == 0:
            first, n, row = each, s.n, row_of(&each, 1)
            if n == 0 or row == 0 or n > most[each.tensor] // (8 * count):
                return None
            block = integers(count * (n + 3))
            cum = numbers_of(block)
            bases = cum + count * (n + 1)
        elif s.n != n or each.dtype != first.dtype or each.tensor != first.tensor or each.ndim != first.ndim:
            return None
        elif memcmp(first.shape + 1, each.shape + 1, (each.ndim - 1) * sizeof(int64_t)):
            return None
        memcpy(cum + k * (n + 1), s.offsets, (n + 1) * sizeof(int64_t))
        bases[k], bases[count + k] = <int64_t>each.data, row
        rows += s.rows
        if rows > most[each.tensor] // row:
            return None
    if rows == 0:
        return None
    table = integers(2 * n + 1)
    offsets = numbers_of(table) + n
    cdef JoinLengths lengths = JoinLengths(cum, count * (n + 1), offsets - n, 2 * n + 1)
    longest = run(kernels[JOIN_LENGTHS], &lengths, 8 * count * (n + 1))
    if longest < 0:
        return None
    first.shape[0] = rows
    made = new_like(&first, first.ndim, first.shape, &out)
    cdef Join call = Join(0, out, bases, count, bases + count, count, cum, count * (n + 1), cum, count * (n + 1),
                          offsets, n + 1, 1, row, 0, n)
    run(kernels[number], &call, rows * row)
    kind = <Kind>_kinds_of_encodings[RAGGED]
    shape = shape_of(first.tensor, first.ndim, first.shape)
    return new_batch(kind, made, shape, <object>first.dtype, new_structure(table, n, rows, longest), None)
