"""What kernels are made of: they import this package and nothing else of the library (`Layout` comes through it).

But those of decoding, which know by `beam.rows` the names of what they take.

- `options`   how they are compiled
- `cache`     where they are kept, and whose files are read
- `common`    plain functions, on every device
- `moves`     bytes and addresses
- `objects`   Python objects
- `vectors`   the exponential function, and blocks of float32
- `lanes`     some columns of a row, in registers
- `sums`      sums of many rows
- `code`      words for writing LLVM instructions
- `record`    what a kernel says of itself
- `gpu`       what kernels for CUDA share; it loads the CUDA package, so nothing here imports it
"""

from ...layout import Layout
from . import powers  # noqa: F401  exponentials and logarithms of lanes
from .common import Columns, along, begin_of, best_of_column, beyond, edit, item_at, limited, locate, put
from .lanes import (
    choose,
    columns_at_once,
    conjugated,
    each,
    in_any,
    in_lanes,
    larger,
    load,
    log,
    mirrored,
    pointer,
    prefetch,
    store,
    unknown,
)
from .moves import (
    at_least,
    at_most,
    clear,
    fold_windows,
    move,
    move_row,
    move_run,
    move_square,
    repeat_words,
    will_read,
    will_write,
)
from .objects import call, give, give_room, peek, peek_byte, peek_int
from .options import compiled, compiled_with_gil, shared
from .record import (
    CALCULATES,
    COMPLEX,
    FLOATS,
    MEANS,
    MOVES,
    NUMBERS,
    SIGNED,
    STREAMS,
    SUMS,
    UNSIGNED,
    Array,
    Integers,
    KernelSpec,
    alike,
)
from .sums import add_block, room, rounded, total, total_by_rows
from .vectors import exp, powers_of_row

__all__ = [
    "CALCULATES",
    "COMPLEX",
    "FLOATS",
    "MEANS",
    "MOVES",
    "NUMBERS",
    "SIGNED",
    "STREAMS",
    "SUMS",
    "UNSIGNED",
    "Array",
    "Columns",
    "Integers",
    "KernelSpec",
    "Layout",
    "add_block",
    "alike",
    "along",
    "at_least",
    "at_most",
    "begin_of",
    "best_of_column",
    "beyond",
    "call",
    "choose",
    "clear",
    "columns_at_once",
    "compiled",
    "compiled_with_gil",
    "conjugated",
    "each",
    "edit",
    "exp",
    "fold_windows",
    "give",
    "give_room",
    "in_any",
    "in_lanes",
    "item_at",
    "larger",
    "limited",
    "load",
    "locate",
    "log",
    "mirrored",
    "move",
    "move_row",
    "move_run",
    "move_square",
    "peek",
    "peek_byte",
    "peek_int",
    "pointer",
    "powers_of_row",
    "prefetch",
    "put",
    "repeat_words",
    "room",
    "rounded",
    "shared",
    "store",
    "total",
    "total_by_rows",
    "unknown",
    "will_read",
    "will_write",
]
