"""Parts of kernels: they import this package and nothing else of the library (`Layout` comes through it).

But those of decoding, which know by `beam.rows` and `ctc.rows` the names of what they take.

- `options`   how they are compiled
- `building`  machine code of them, in files
- `common`    plain functions, on every device
- `moves`     bytes and addresses
- `heap`      the best of many candidates
- `drivers`   loops over columns, made of what a kernel does with some
- `vectors`   the exponential function, and blocks of float32
- `blocks`    the largest of each block of a row, by limits
- `lanes`     some columns of a row, in registers
- `lane_items`  one of them, and those that lie apart
- `sums`      sums of many rows
- `windows`   rows that lie side by side, added up
- `tiles`     products of small matrices
- `attending` which keys the queries of attention see, and the terms of their scores
- `gates`     the steps of recurrent layers, sigmoid and tanh of lanes
- `order`     the items of a column in order
- `prefixes`  one frame of a prefix search
- `edits`     what edit distances begin with
- `paths`     what the paths of a label have together
- `prefix_search`  all of its frames
- `ngrams`    an n-gram model as an automaton
- `speech`    models of words in a search
- `texts`     one frame of a search for texts
- `warping`   what may be drawn of a row of scores
- `choosing`  the best candidates of a beam
- `advancing` what becomes of them
- `code`      words for writing LLVM instructions
- `random`    random numbers by counters
- `record`    what a kernel says of itself
- `groups`    arguments that belong together in several kernels
- `loops`     loops over what is a thread's own on a GPU
- `names`     names of what `gpu` has
- `compiler`  the one file that names the CUDA package, which it loads, so nothing here imports it
- `gpu`       what kernels for CUDA share, made of that
"""

from ...layout import Constants, Layout
from . import powers  # exponentials and logarithms of lanes
from .advancing import advance
from .attending import (
    Queries,
    Sight,
    Tiles,
    add_bias_slopes,
    change_scores,
    draw_tile,
    draw_weights,
    first_seen,
    give_sink_slopes,
    keeps,
    last_seen,
    look,
    prefix_of,
    seen_lanes,
)
from .blocks import leave_masked_out, leave_out
from .choosing import choose_candidates
from .code import Item
from .columns import (
    LARGEST,
    column_powers,
    column_slopes,
    column_sum,
    eight_ahead,
    eight_at,
    eight_from,
    eight_of,
    four_along,
    four_of,
    has_one,
    mean_of_first,
    powers_of,
    put_some,
    put_total,
    rescaling,
    share_of,
    short_sum,
    slopes_of,
    softmax_slope,
    some_of,
    sums_along,
    tree_sum,
)
from .common import (
    Columns,
    allows,
    along,
    apply_limits,
    begin_of,
    candidate_value,
    dot,
    edit,
    is_better,
    item_at,
    locate,
    part_of,
    place_of,
    put,
    worth,
)
from .device import (
    columns_of_grid,
    find,
    first_column,
    first_of_block,
    first_of_line,
    first_unit,
    four_rows,
    max_of_block,
    move_four,
    run_on,
    sum_of_block,
    units_of_grid,
    word_of_line,
)
from .drivers import block_per_sequence, by_columns, columns_of, thread_per_column
from .edits import (
    count_equal,
    fill_table,
    fill_wide_table,
    next_column,
    next_column_of_strip,
    next_column_of_strips,
    place_in_table,
    place_in_wide_table,
    slot_of_token,
    small_tokens,
    trimmed_behind,
)
from .gates import Inputs, enter, sigmoid, step_at, tanh
from .groups import Chunks, Compared, Course, Joined, LayerSteps, Pairs, Strides
from .halves import load_half, store_half
from .heap import in_order, keep, least_kept, least_of_best, merge
from .keys import added_group, came_last, candidate_key, count_larger, merge_rows, tree_powers, value_of_key
from .lane_items import lane_of, with_lane
from .lanes import (
    choose,
    columns_at_once,
    conjugate,
    each,
    flip_order,
    in_any,
    in_lanes,
    larger,
    largest_lane,
    load,
    log,
    nonzero,
    pointer,
    prefetch,
    root,
    store,
    unknown,
)
from .meeting import scale_of, score_of, sees
from .moments import block_moments, moments_of, put_variance, sums_beside, total_of
from .moves import (
    at_least,
    at_most,
    clear,
    move,
    move_row,
    move_run,
    move_square,
    peek_byte,
    repeat_words,
    will_read,
    will_write,
)
from .names import (
    better,
    bits_of,
    float_of,
    greater,
    item_in,
    ln,
    load_word,
    move_word,
    natural,
    no_word,
    number_in,
    quick_exp,
    search,
    store_word,
    wide,
    zero_in,
)
from .ngrams import find_arc, follow_word
from .options import compiled, shared
from .order import (
    find_merged_row,
    key_of,
    least_of,
    numbers_of,
    put_between,
    put_in_order,
    put_ordered,
    rank_of_level,
    select,
    sort_columns,
)
from .random import draw, draw_integer, one_of, philox
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
    Bytes,
    Integers,
    KernelSpec,
    Singles,
    Table,
    alike,
)
from .sums import add_block, add_chunk, centre, in_turn, room, round_sum, scratch, total, total_by_rows, total_columns
from .tiles import (
    Product,
    add_row,
    clear_rows,
    copy_numbers,
    fold_add,
    fold_each,
    give_row,
    mirror,
    multiply,
    multiply_few,
    pack_row,
    turn,
)
from .vectors import best_known, exp, largest, maximum, place_in, powers_of_any, powers_of_row, sum_of_powers
from .warping import beside_best, list_tokens
from .windows import fold_windows
