"""Where, in arrays of int64, a door finds what it has to know of this process: of types, functions and objects.

So the machine code of a door holds no address, and may be kept in a file.  Each door has a world of its own, whose
first word is the address of what all have in common.
"""

(
    NONE,
    TRUE,
    NDARRAY,  # types
    LIST,
    TUPLE,
    STRUCTURE,
    ORDERED,  # an `Order`
    TUPLE_ITEMS,  # how many bytes behind the address of a tuple its items begin
    WHOLE,  # the type of whole numbers
    INT64,  # dtypes
    BOOL,
    LEFT,  # words
    RIGHT,
    NEW_ARRAY,  # PyArray_NewFromDescr
    SET_BASE,  # PyArray_SetBaseObject
    MOST,  # bytes of what a door reads and writes: more is for the general way, which may use several threads
    MOST_OF_TENSORS,  # the same of tensors: large ones get their memory from NumPy, which asks for huge pages
    LENGTHS,  # slots of a `Structure`: how many bytes behind its address
    OFFSETS,
    COUNT,
    ROWS,
    LONGEST,
    STABLE,
    ORDER,
    LIST_OF,  # the type `List`, and its slots
    LIST_ITEMS,
    LIST_LIKE,
    LIST_STRUCTURED,
    LIST_SHAPE,
    LIST_DTYPE,
    PAIRS_OF,  # the type `Pairs`, and its slots
    PAIR_ONE,
    PAIR_TWO,
    KINDS,  # here what is known of each encoding begins, with so many words for each:
) = range(34)

WIDE = 24
ENCODINGS = ("Ragged", "Masked", "Padded", "Packed")
RAGGED, MASKED, PADDED, IN_STEPS = range(4)
(
    TYPE,
    LEAD,  # axes of data before those of an item
    GAPPED,  # may there be places that no row takes?
    DATA,  # slots of an encoding
    STRUCTURED,
    SHAPE,
    DTYPE,
    SIDE,  # of a Masked, else 0
    LENGTHS_OF,  # the field `lengths`
    SIZES,  # the fields `size_at_t` and `indices` of Padded and Packed, else 0
    INDICES,
    FIELDS,  # how many slots there are, and then all of them
) = range(12)

# What is known of PyTorch, all 0 until a door has seen a tensor; see `doors.tensors`.
(
    TENSOR,  # types
    PARAMETER,
    SHAPE_OF_TENSORS,
    TENSOR_DTYPE,
    TENSOR_INT64,  # dtypes
    TENSOR_BOOL,
    LOOK,  # functions: what writes a DLTensor
    STORAGE_SIZE,
    STORAGE_OFFSET,
    IS_NEG,
    WANTS_GRAD,
    GRAD_IS_ON,
    TANGENT,
    IS_INCLUDED,  # is a dispatch key among those of this thread?
    NEW_TENSOR,
    DATA_OF,
    WRAP,  # a C++ tensor in an object
    UNWRAP,  # lets a C++ tensor go
    INSIDE,  # how many bytes of a C++ object are before its shape
    NO_TANGENT,  # the C++ object of a tensor that is none
    KEY,  # the dispatch keys of modes and transformations
    *_,
    TENSOR_DTYPES,  # how many dtypes, and what there is to know of each:
    TENSOR_NUMBERS,
) = range(KINDS + len(ENCODINGS) * WIDE, KINDS + len(ENCODINGS) * WIDE + 25)
KEYS = 3
NUMBER_TYPE, NUMBER_KIND, NUMBER_BYTES, NUMBER_CODE = range(4)
"""The dtype, its words in a DLTensor, the bytes of a number, and PyTorch's own number for it."""
TENSOR_NUMBER = 4
MOST_TENSOR_DTYPES = 20

COMMON = TENSOR_NUMBERS + TENSOR_NUMBER * MOST_TENSOR_DTYPES

# Of doors that run a kernel over sequences, `calculate` and `spread`: first what is of the operation, then the plans,
# one for the dtypes of what is given.
(
    FIRST,  # the address of what all doors have in common
    MOVES,  # are rows moved as bytes?
    NUMBERS,  # how many the kernel takes after the layout, at most four
    NUMBER,
    *_,
    # of `calculate`
    BY_ITEM,  # is the result an item an item, or one a sequence?
    DEFAULT,  # the object that has to come last; 0 for none
    NARROW,  # are items to be single numbers?
    WIDENS,  # do two numbers come after the batch: how many neighbours before and after it an item gets?
    # of `spread`
    CLEARED,  # zeros where the kernel writes nothing?
    FLAT,  # is the result an array of all rows, in the caller's order, or an encoding?
    ALIKE,  # must items be as those of the encoding are, in shape and dtype?
    ARRAYS,  # how many come after the encoding, at most `MOST_ARRAYS`
    LAID,  # bits: which of them are laid out as it, the others being one row a sequence
    # of `mask`
    NAMED,  # the type of its results
    # of `losses`
    HOLDS,  # does what the gradient needs come with a loss?
) = range(18)
MOST_ARRAYS = 3
LOD = 18  # the words of a `LoD`, as those of `ENCODINGS`, and then:
LEVELS = LOD + WIDE  # its slot of levels
LEARNED = LEVELS + 1  # how many plans there are
PLANS = LEARNED + 1
(
    GIVEN,  # the dtypes of what is given
    GIVEN_SECOND,
    GIVEN_THIRD,
    KERNEL,  # its function
    MADE,  # the dtype of the result
    SIZE,  # bytes of one number of the result
    KERNEL_SECOND,  # the functions of others that it needs
    KERNEL_THIRD,
    PLAN,  # the words of one
) = range(9)
MOST_PLANS = 16
OF_KERNEL = PLANS + PLAN * MOST_PLANS

# Of all other doors, which are opened form by form: behind FIRST stand
(
    KNOWN,  # a bit for each form of a call whose result was that of the general way
    KNOWN_OF_TENSORS,
    FORM,  # the form of the last call; of tensors `FORMS` more
) = range(1, 4)
FORMS = 64

# Of `lay`, where a form is the way to a result: what it makes, and the kernels.
(
    TARGET,  # the place among `ENCODINGS`
    SCAN_LIST,
    SORT_LENGTHS,
    COPY_BLOCKS,
    PAD_BLOCKS,
    BLOCKS_TO_STEPS,
    WORDS_TO_STEPS,
    STEPS_TO_BLOCKS,
    STEPS_TO_WORDS,
) = range(4, 13)
LAY = 13
IN_WORDS, WITH_GAPS, NOT_IN_ORDER, FROM = 1, 2, 4, 8
"""Of a way: are rows single words, is there padding to be written, has an order to be found; and times the last one,
what is read: 0 for a list, 1 + the place of an encoding, or 5 for a `List`."""

# Of `construct`, where a form is an encoding: a kernel.
CHECK_LENGTHS = 4
CONSTRUCT = 5
IN_TENSOR = 8
"""Of a form: lengths are in a tensor."""

# Of `items`, which has one form: a kernel.
SCAN_ITEMS = 4
GATHER = 5

# Of doors that take items out of batches.
(
    RANGE,  # the type of slices
    MODE,  # which of the operations that a door serves
    MOVER,  # the functions of kernels: what moves rows
    COUNTER,  # what says how many are taken of each sequence
    PLACER,  # what says where those are that do not lie side by side
    PICKER,  # what moves these
) = range(4, 10)
TAKE = PICKER + 1

# Of those that put items in order, behind these: first what is of the operation, then the table of dtypes.
(
    FALSE,
    PAIR,  # the type of the largest and their places
    ORDERS,  # how many dtypes
    ORDER_PLANS,
) = range(TAKE, TAKE + 4)
(
    ORDER_DTYPE,
    ORDER_KERNEL,  # the functions of kernels: what sorts, and what marks the first of equal items
    STARTER,
    BITS,  # the form in which it takes them
    LEAST,
) = range(5)
ORDER_WIDE = 5
MOST_ORDERS = 14
ORDERING = ORDER_PLANS + ORDER_WIDE * MOST_ORDERS
