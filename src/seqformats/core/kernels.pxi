# Kernels, by their addresses.  Each is a function of one argument: an array of 8-byte words, which are the arguments of
# the Numba function in order.  An array is its address and the lengths of its axes, a `Layout` its fields.

ctypedef int64_t (*Kernel)(void*) noexcept nogil

cdef enum:
    CHECK_LENGTHS, SORT_LENGTHS, COPY_BLOCKS, PAD_BLOCKS, BLOCKS_TO_STEPS, WORDS_TO_STEPS, STEPS_TO_BLOCKS
    STEPS_TO_WORDS, PICK_SEQUENCES, COUNT_OF_KERNELS

NAMES = ("check_lengths sort_lengths copy_blocks pad_blocks blocks_to_steps words_to_steps steps_to_blocks "
         "steps_to_words pick_sequences").split()
"""The kernels that several fast paths use, in the order of their numbers above."""
cdef Kernel kernels[COUNT_OF_KERNELS]    # NULL for one that is not loaded, or that a user has replaced

cdef enum:
    MOST_WORDS = 64                      # arguments of a kernel
cdef int64_t SMALL = 1 << 18             # bytes from which on other threads run meanwhile; see `native.loading`
cdef int64_t most[2]                     # bytes up to which fast paths do the work: of arrays, and of tensors
most[0] = most[1] = (1 << 22) - 1


def use_kernel(str name, size_t address):
    """Set the address of a kernel, 0 where it is nowhere any more."""
    kernels[NAMES.index(name)] = <Kernel>address


def use_at_most(int64_t of_arrays, int64_t of_tensors):
    """Larger batches, in bytes, are for Python, which has threads and memory that is used again."""
    most[0], most[1] = of_arrays, of_tensors


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


cdef int64_t run(Kernel kernel, void* arguments, int64_t size) noexcept:
    """Run a kernel over so many bytes; other threads run meanwhile where these are many."""
    if size < SMALL:
        return kernel(arguments)
    with nogil:
        return kernel(arguments)
