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
    WIDENS,  # do two numbers come after the batch: how many neighbours before and after it an item gets?
    INT,  # their type
    # of `spread`
    CLEARED,  # zeros where the kernel writes nothing?
    FLAT,  # is the result an array of all rows, in the caller's order, or an encoding?
    ALIKE,  # must items be as those of the encoding are, in shape and dtype?
    ARRAYS,  # how many come after the encoding, at most `MOST_ARRAYS`
    LAID,  # bits: which of them are laid out as it, the others being one row a sequence
) = range(16)
MOST_ARRAYS = 3
LOD = 16  # the words of a `LoD`, as those of `ENCODINGS`, and then:
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
    PLAN,  # the words of one
) = range(7)
MOST_PLANS = 16
OF_KERNEL = PLANS + PLAN * MOST_PLANS
