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
    LAYOUT,
    INT64,  # a dtype
    LEFT,  # words
    RIGHT,
    NEW_ARRAY,  # PyArray_NewFromDescr
    SET_BASE,  # PyArray_SetBaseObject
    MOST,  # bytes of what a door reads and writes: more is for the general way, which may use several threads
    LENGTHS,  # slots of a `Structure`: how many bytes behind its address
    OFFSETS,
    COUNT,
    ROWS,
    LONGEST,
    STABLE,
    BY_STEPS,
    PACKED,
    ORDER,
    KINDS,  # here what is known of each encoding begins, with so many words for each:
) = range(23)

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
    FIELDS,  # how many slots there are, and then all of them
) = range(10)

COMMON = KINDS + len(ENCODINGS) * WIDE

# Of `calculate`: first what is of the operation, then the table of dtypes.
(
    FIRST,  # the address of what all doors have in common
    MOVES,  # are rows moved as bytes?
    BY_ITEM,  # is the result an item an item, or one a sequence?
    NUMBERS,  # how many there are after the layout, at most four
    NUMBER,
) = range(5)
LEARNED = NUMBER + 4  # how many dtypes
PLANS = LEARNED + 1
(
    GIVEN,  # the dtype of data
    KERNEL,  # its function
    MADE,  # the dtype of the result
    SIZE,  # bytes of one number of the result
) = range(4)
MOST_PLANS = 8
NARROW = PLANS + 4 * MOST_PLANS  # are items only numbers?
CALCULATE = NARROW + 1

# Of doors that take items out of batches: what is of the operation.
# FIRST stands before these, too.
(
    KNOWN,  # a bit for each form of a call whose result was that of the general way
    FORM,  # the form of the last call
    WHOLE,  # types: whole numbers
    RANGE,  # slices
    BOOL,  # a dtype
    MODE,  # which of the operations that a door serves
    MOVER,  # the functions of kernels: what moves rows
    COUNTER,  # what says how many are taken of each sequence
) = range(1, 9)
TAKE = COUNTER + 1

# Of those that put items in order, behind these: first what is of the operation, then the table of dtypes.
(
    FALSE,
    PAIR,  # the type of the largest and their places
    ORDERS,  # how many dtypes
    ORDER_PLANS,
) = range(TAKE, TAKE + 4)
(
    ORDERED,  # the dtype
    ORDER_KERNEL,  # the functions of kernels: what sorts, and what marks the first of equal items
    STARTER,
    BITS,  # the form in which it takes them
    LEAST,
) = range(5)
ORDER_WIDE = 5
MOST_ORDERS = 7
ORDERING = ORDER_PLANS + ORDER_WIDE * MOST_ORDERS
