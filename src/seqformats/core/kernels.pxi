# Kernels, by their addresses.  Each is a function of one argument: an array of 8-byte words, which are the arguments of
# the Numba function in order.  An array is its address and the lengths of its axes, a `Layout` its fields.

ctypedef int64_t (*Kernel)(void*) noexcept nogil

cdef enum:
    CHECK_LENGTHS, SORT_LENGTHS, COPY_BLOCKS, PAD_BLOCKS, BLOCKS_TO_STEPS, WORDS_TO_STEPS, STEPS_TO_BLOCKS
    STEPS_TO_WORDS, PICK_SEQUENCES, GROUP_IDS, JOIN_LENGTHS, JOIN_ROWS, INTERLEAVE_ROWS, COUNT_OF_KERNELS

NAMES = ("check_lengths sort_lengths copy_blocks pad_blocks blocks_to_steps words_to_steps steps_to_blocks "
         "steps_to_words pick_sequences group_ids join_lengths join_rows interleave_rows").split()
"""The kernels that several fast paths use, in the order of their numbers above."""
cdef Kernel kernels[COUNT_OF_KERNELS]    # a thread may still run one that a user has replaced, so its address stays
cdef int in_use[COUNT_OF_KERNELS]        # is it loaded, and has no user replaced it?  See `is_known`

cdef enum:
    MOST_WORDS = 64                      # arguments of a kernel
cdef int64_t SMALL = 1 << 18             # bytes from which on other threads run meanwhile; see `native.loading`
cdef int64_t most[2]                     # bytes up to which fast paths do the work: of arrays, and of tensors
cdef int64_t most_read                   # the same of what is only read
most[0] = most[1] = most_read = (1 << 22) - 1


def use_kernel(str name, size_t address):
    """Set the address of a kernel, 0 where it is nowhere any more."""
    cdef int number = NAMES.index(name)
    if address:
        kernels[number] = <Kernel>address
    publish_count(in_use[number], address != 0)


cdef inline bint is_known(int number) noexcept:
    """Is the address of a kernel there, which then stays?"""
    return read_count(in_use[number]) != 0


def use_at_most(int64_t of_arrays, int64_t of_tensors, int64_t read=(1 << 22) - 1):
    """Larger batches, in bytes, are for Python, which has threads and memory that is used again."""
    global most_read
    most[0], most[1], most_read = of_arrays, of_tensors, read


cdef struct Layout:                      # see `seqformats.layout`
    int64_t* starts
    int64_t n_starts
    int64_t* cum
    int64_t n_cum
    int64_t* steps
    int64_t n_steps
    int64_t stride, left, step, absolute

cdef struct CheckLengths:                # the arguments of the kernel `check_lengths`, and so on
    int64_t* lengths
    int64_t n
    int64_t* offsets
    int64_t n_offsets
    int64_t rows

cdef struct SortLengths:
    int64_t* lengths
    int64_t n
    int64_t longest
    int64_t* order
    int64_t n_order

cdef struct Move:                        # of all kernels that move rows, but for those from time steps to blocks
    char* source
    char* out
    Layout read
    Layout write
    int64_t row, lo, hi

cdef struct MoveFromSteps:
    char* source
    char* out
    int64_t* begins
    int64_t n_begins
    Layout read
    Layout write
    int64_t row, lo, hi

cdef struct Pad:
    char* item
    char* out
    int64_t* cum
    int64_t n_cum
    int64_t room, left, row, lo, hi

cdef struct Pick:
    int64_t* where
    int64_t n
    int64_t* lengths
    int64_t n_lengths
    int64_t* offsets
    int64_t n_offsets
    int64_t* picked
    int64_t n_picked


cdef void put_blocks(Layout* at, int64_t* starts, int64_t* cum, int64_t n, int64_t stride) noexcept:
    """Sequences one after the other, or in rooms of `stride` rows."""
    at.starts, at.n_starts, at.cum, at.n_cum, at.steps, at.n_steps = starts, n + 1, cum, n + 1, cum, n + 1
    at.stride, at.left, at.step, at.absolute = stride, 0, 1, 0


cdef enum:
    INTEGER, REAL, ARRAY, TUPLE          # what an argument is, see `native.signature.kinds_of`
    MOST_KINDS = 256


cdef class Entry:
    """A kernel as a function of arrays of NumPy, numbers and named tuples of these; see `native.code`.

    Parameters
    ----------
    address : where its machine code is, 0 for nowhere
    kinds : what its arguments are
    gives : how many integers it gives; several come as a tuple
    limit : bytes of arrays from which on other threads run meanwhile
    """
    cdef Kernel kernel
    cdef int64_t kinds[MOST_KINDS]
    cdef int count, gives
    cdef int64_t limit

    def __init__(self, size_t address, tuple kinds, int gives, int64_t limit):
        if len(kinds) > MOST_KINDS:
            raise ValueError("a kernel takes fewer arguments")
        self.kernel, self.gives, self.limit, self.count = <Kernel>address, gives, limit, len(kinds)
        for k, kind in enumerate(kinds):
            self.kinds[k] = kind

    def __call__(self, *args):
        """Run it; TypeError for what it was not compiled for."""
        cdef int64_t words[2 * MOST_KINDS]
        cdef int64_t size = 0, found
        cdef int place = 0, count = 0
        for x in args:
            if place >= self.count:
                place = -1
                break
            self.put(x, &place, words, &count, &size)
        if place != self.count:
            raise TypeError(_NOT_COMPILED)
        found = self.go(words, size)
        if self.gives < 2:
            return found if self.gives else None
        return tuple([words[k] for k in range(self.gives)])

    cdef int64_t go(self, int64_t* words, int64_t size) except? -1:
        """Run it over arrays of so many bytes."""
        cdef int64_t found
        if size < self.limit:
            found = self.kernel(words)
        else:
            with nogil:
                found = self.kernel(words)
        pass_on()
        return found

    cdef int put(self, object x, int* place, int64_t* words, int* count, int64_t* size) except -1:
        """Write an argument one word after the other."""
        cdef int64_t kind = self.kinds[place[0]]
        cdef int k, axes
        cdef double real
        cdef cnp.ndarray array
        place[0] += 1
        if count[0] > 2 * MOST_KINDS - 8:
            raise TypeError(_NOT_COMPILED)
        if kind & 3 == ARRAY:
            axes = kind >> 18
            if not cnp.PyArray_CheckExact(x):
                raise TypeError(_NOT_COMPILED)
            array = <cnp.ndarray>x
            if cnp.PyArray_NDIM(array) != axes or cnp.PyArray_ITEMSIZE(array) != (kind >> 10) & 255:
                raise TypeError(_NOT_COMPILED)
            if <unsigned char>(<cnp.dtype><PyObject*>cnp.PyArray_DESCR(array)).kind != (kind >> 2) & 255:
                raise TypeError(_NOT_COMPILED)
            words[count[0]] = <int64_t>cnp.PyArray_DATA(array)
            for k in range(axes):
                words[count[0] + 1 + k] = cnp.PyArray_DIM(array, k)
            count[0] += 1 + axes
            size[0] += cnp.PyArray_NBYTES(array)
        elif kind & 3 == TUPLE:
            if not PyTuple_Check(x) or PyTuple_GET_SIZE(x) != kind >> 2:
                raise TypeError(_NOT_COMPILED)
            for k in range(kind >> 2):
                self.put(<object>PyTuple_GET_ITEM(x, k), place, words, count, size)
        elif kind & 3 == REAL:
            real = PyFloat_AsDouble(x)
            memcpy(&words[count[0]], &real, 8)
            count[0] += 1
        else:
            words[count[0]] = PyLong_AsLongLong(x)
            count[0] += 1
        return 0


cdef struct Given:                       # arguments of a kernel that `start` has seen
    int64_t kinds[MOST_KINDS]            # as of an `Entry`
    int64_t words[2 * MOST_KINDS]
    int count, words_written
    int64_t variant                      # a number that the dtypes of all arrays make, 5 bits each
    int arrays
    int64_t size, itemsize               # bytes of all arrays, and of an item of the first
    bint of_tensors


def start(dict codes, variant, tuple inputs, tuple outputs, tuple args, size, int64_t rows, int64_t units, int64_t limit):
    """Start a kernel that calculates, of plain arrays and on one thread: a part of `launch.kernel.Kernel.start`.

    True, or None where Python has to do it: for other arrays, and for work of `limit` bytes, which has several threads.
    `codes` are an `Entry` for each variant.
    """
    cdef Given g
    cdef int64_t width
    cdef Entry entry
    cdef int k
    g.count = g.words_written = g.arrays = 0
    g.variant = g.size = g.itemsize = 0
    g.of_tensors = False
    if not is_on or not whole(size, &width) or not (put_flat(inputs, &g) and put_flat(outputs, &g)):
        return None
    if rows * width * g.itemsize >= limit or (g.of_tensors and not torch_is_quiet()):
        return None
    code = codes.get(g.variant if variant is None else variant)
    if type(code) is not Entry:
        return None
    entry = <Entry>code
    if entry.count < g.count or entry.gives:
        return None
    for k in range(g.count):
        if g.kinds[k] != entry.kinds[k]:
            return None
    for x in args:
        entry.put(x, &g.count, g.words, &g.words_written, &g.size)
    if g.count != entry.count - 3:
        return None
    g.words[g.words_written], g.words[g.words_written + 1], g.words[g.words_written + 2] = width, 0, units
    entry.go(g.words, g.size)
    return True


cdef bint put_flat(tuple given, Given* g) except -1:
    """Write arrays, named tuples of such and integers one after the other; False where they are not plain."""
    cdef Array a
    for x in given:
        if g.count > MOST_KINDS - 8:
            return False
        if PyTuple_Check(x):
            g.kinds[g.count] = TUPLE | PyTuple_GET_SIZE(x) << 2
            g.count += 1
            if not put_flat(<tuple>x, g):
                return False
        elif whole(x, &g.words[g.words_written]):
            g.kinds[g.count] = INTEGER
            g.count += 1
            g.words_written += 1
        elif not look(x, &a, True, False) or not put_array(&a, g):
            return False
    return True


cdef bint put_array(Array* a, Given* g) noexcept:
    """Write an array as a kernel sees it: flat, bools as bytes."""
    cdef int64_t letter, number, size = row_of(a, 0)
    if a.tensor:
        number = _numbers[number_of_kind(&a.kind)]
        letter = c"i" if a.kind.code == 0 else c"f" if a.kind.code == 2 else c"u"
    else:
        number = (<cnp.dtype>a.dtype).num
        letter = <unsigned char>(<cnp.dtype>a.dtype).kind
    if letter == c"b":
        letter, number = c"u", cnp.NPY_UINT8
    g.kinds[g.count] = ARRAY | letter << 2 | a.itemsize << 10 | 1 << 18
    g.words[g.words_written], g.words[g.words_written + 1] = <int64_t>a.data, size // a.itemsize
    g.count += 1
    g.words_written += 2
    g.variant = g.variant << 5 | number
    g.size += size
    g.itemsize = g.itemsize or a.itemsize
    g.of_tensors |= a.tensor
    g.arrays += 1
    return 0 <= number < 32 and g.arrays < 13


_NOT_COMPILED = "a kernel was given what it was not compiled for"


cdef void pass_on() except *:
    """Raise what a kernel that checks its indices has set."""


cdef int64_t run(Kernel kernel, void* arguments, int64_t size) noexcept:
    """Run a kernel over so many bytes; other threads run meanwhile where these are many."""
    if size < SMALL:
        return kernel(arguments)
    with nogil:
        return kernel(arguments)
