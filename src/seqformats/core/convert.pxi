# From a list of arrays, or from an encoding, to another encoding: `formats.rows.lay_out` without options.

cdef struct Rows:                        # to be laid out
    Array sample                         # of whose dtype and item the rows are
    int lead                             # axes of the sample before those of an item
    char* data                           # NULL where the layout has addresses
    Layout at
    Sequences s
    char* padding                        # the bytes of an item; NULL for zeros


cdef class Conversion:
    """Conversions without options to one encoding: ``convert(x)``, of what has been allowed."""
    cdef Kind target
    cdef bint allowed[COUNT_OF_KINDS + 1]

    def __init__(self, type target):
        for kind in _kinds_of_encodings:
            if (<Kind>kind).of is target and (<Kind>kind).number <= PACKED:
                self.target = kind

    def allow(self, type source):
        """Let in what is of this class; without `allow` nothing is, since users may have conversions of their own."""
        if source is list or source is tuple:
            self.allowed[BARE] = self.target is not None
        for kind in _kinds_of_encodings:
            if (<Kind>kind).of is source and (<Kind>kind).number != LOD:
                self.allowed[(<Kind>kind).number] = self.target is not None

    def convert(self, x):
        """The encoding; None where Python has to do it."""
        cdef Kind kind
        if not is_on:
            return None
        if PyList_CheckExact(x) or PyTuple_CheckExact(x):
            return _of_items(tuple(x), self.target) if self.allowed[BARE] else None
        kind = kind_of(x)
        if kind is not None and kind is self.target:
            return x
        if kind is None or not self.allowed[kind.number]:
            return None
        return _of_list(kind, x, self.target) if kind.number == LIST else _of_encoding(kind, x, self.target)


cdef object _of_items(tuple items, Kind target):
    cdef Rows rows
    cdef int64_t* addresses
    block = scan_items(items, &rows.sample, &rows.s, &addresses, False, False)
    if block is None:
        return None
    _at_addresses(&rows, addresses)
    return laid_out(&rows, target, new_structure(block, rows.s.n, rows.s.rows, rows.s.longest), False, -1, "right")


cdef object _of_list(Kind kind, object x, Kind target):
    cdef Rows rows
    structure = get(x, kind.structure)
    if not read(structure, &rows.s) or (target.number < PADDED and not is_stable(structure)):
        return None
    cdef bytes block = integers(rows.s.n)
    cdef int64_t* addresses = numbers_of(block)
    items = get(x, kind.items)           # kept, whatever happens to the list
    if not look_at_items(kind, x, &rows.s, &rows.sample, addresses):
        return None
    _at_addresses(&rows, addresses)
    return laid_out(&rows, target, structure, False, -1, "right")


cdef void _at_addresses(Rows* rows, int64_t* addresses) noexcept:
    rows.lead, rows.data, rows.padding = 1, NULL, NULL
    put_blocks(&rows.at, addresses, rows.s.offsets, rows.s.n, -1)
    rows.at.n_starts, rows.at.absolute = rows.s.n, 1


cdef object _of_encoding(Kind kind, object x, Kind target):
    cdef Rows rows
    structure, data = get(x, kind.structure), get(x, kind.data)
    if not read(structure, &rows.s) or not look_at_data(kind, x, &rows.sample):
        return None
    if target.number < PADDED and not is_stable(structure):
        return None
    held = layout_of(kind, x, structure, rows.sample.shape, &rows.s, &rows.at)
    if held is None:
        return None
    rows.lead, rows.data, rows.padding = kind.lead, rows.sample.data, NULL
    return laid_out(&rows, target, structure, kind.number >= PADDED, -1, "right")


cdef object laid_out(Rows* r, Kind target, object structure, bint from_steps, int64_t width, object side):
    """The rows in the layout of the target; a `Masked` is so wide, or with -1 as its longest sequence."""
    cdef int64_t shape[MOST_AXES]
    cdef int64_t row = row_of(&r.sample, r.lead), free, places = r.s.rows
    cdef int64_t limit = most[r.sample.tensor]
    cdef int k, lead = 1, axes, number
    cdef bint to_steps = target.number == PADDED or target.number == PACKED, left = side == "left"
    cdef char* out
    cdef Pad pad
    if row == 0 or r.s.rows == 0 or r.s.rows > limit // row:
        return None
    shape[0] = r.s.rows
    if target.number == MASKED or target.number == PADDED:
        lead = 2
        if width < 0:
            width = r.s.longest
        shape[0], shape[1] = (r.s.n, width) if target.number == MASKED else (width, r.s.n)
        if r.s.n > limit // row // width:
            return None
        places = r.s.n * width
    free = places - r.s.rows
    axes = lead + r.sample.ndim - r.lead
    order = order_of(structure, &r.s) if to_steps or from_steps else None
    if axes > MOST_AXES or (free and not is_known(PAD_BLOCKS)) or ((to_steps or from_steps) and order is None):
        return None
    if (to_steps or from_steps) and cnp.PyArray_DIM(<cnp.ndarray>part_of(order, 3), 0) != r.s.longest + 1:
        return None                      # a batch from elsewhere has steps without a row
    for k in range(r.lead, r.sample.ndim):
        shape[lead + k - r.lead] = r.sample.shape[k]
    number = kernel_between(from_steps, to_steps, row)
    if not is_known(number):
        return None
    data = new_like(&r.sample, axes, shape, &out)
    move_rows(kernels[number], r, target, order, from_steps, row, out, width, left)
    if free:
        pad = Pad(r.padding, out, r.s.offsets, r.s.n + 1, shape[1], left, row, 0, shape[0])
        if target.number == PADDED:
            pad.cum, pad.n_cum = <int64_t*>cnp.PyArray_DATA(<cnp.ndarray>part_of(order, 3)), shape[0] + 1
        run(kernels[PAD_BLOCKS], &pad, free * row)
    shape_made = shape_of(r.sample.tensor, axes, shape)
    made = new_batch(target, data, shape_made, <object>r.sample.dtype, structure, order)
    if left:
        put(made, target.side, side)
    return made


cdef int kernel_between(bint from_steps, bint to_steps, int64_t row) noexcept:
    """Choose the kernel that moves rows of so many bytes; two are between blocks and steps, see `formats.rows.move`."""
    cdef bint words = row == 1 or row == 2 or row == 4 or row == 8
    if from_steps == to_steps:
        return COPY_BLOCKS
    if to_steps:
        return WORDS_TO_STEPS if words else BLOCKS_TO_STEPS
    return STEPS_TO_WORDS if words else STEPS_TO_BLOCKS


cdef void move_rows(
    Kernel kernel, Rows* r, Kind target, object order, bint from_steps, int64_t row, char* out, int64_t width, bint left
) noexcept:
    """Move all rows to where they belong."""
    cdef Layout write
    cdef Move move
    cdef MoveFromSteps back
    cdef int64_t units = r.s.n
    if target.number == PADDED or target.number == PACKED:
        put_steps(&write, order, &r.s, r.s.n if target.number == PADDED else 0)
        if from_steps:                   # on both sides a step is a block
            units = r.s.longest
            put_blocks(&r.at, r.at.steps, r.at.steps, units, r.at.step if r.at.step else -1)
            put_blocks(&write, write.steps, write.steps, units, write.step if write.step else -1)
    else:
        put_blocks(&write, r.s.offsets, r.s.offsets, r.s.n, -1 if target.number == RAGGED else width)
        write.left = left
        if from_steps:
            back = MoveFromSteps(r.data, out, r.at.steps, r.at.n_steps, r.at, write, row, 0, units)
            run(kernel, &back, r.s.rows * row)
            return
    move = Move(r.data, out, r.at, write, row, 0, units)
    run(kernel, &move, r.s.rows * row)
