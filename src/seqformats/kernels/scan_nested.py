"""Read nested Python lists of numbers through the public C layout of the objects.

Asking each of a million numbers for its type and value in Python costs more than all the rest.  The layouts are those
of CPython's ``listobject.h``, ``tupleobject.h``, ``floatobject.h`` and ``longintrepr.h``: the value of a float lies
behind the object header; so do the size of an int and then its digits of 30 bits; a bool is known by its address.
"""

from .parts import (
    Integers,
    KernelSpec,
    Table,
    at_least,
    compiled_with_gil,
    peek,
    peek_int,
)


@compiled_with_gil
def cpu(
    items: int, n: int, known: Integers, tagged: int, leaf: int, walk: Table, lengths: Integers, leaves: Integers
) -> int:
    """Walk the `n` lists and tuples whose object pointers begin at `items`, depth first; once to count, once to write.

    ``known``: the size of an object header, that of a tuple without items, then the addresses of list, tuple, float,
    int, bool, True.  Where `tagged` is 0, the size of an int is the number of its digits, negative for a negative int,
    else that number above three bits, of which the low two are 2 for a negative int.

    ``walk (4, most + 1)``: on each level, the outermost being 0, where the next item of the list in hand lies, where
    its last one ends, how many lists there have been, and how many there may be.

    With `leaf` 0 the result is the place in `known` of the type of the first leaf, or 0 where there is none; the number
    of leaves comes to ``walk[2, 0]``, and nothing else is written.  With `leaf` as that result all leaves must be of
    that type and are written to `leaves`, a float as its bits, and the length of list i on level k to ``lengths[i]``,
    where i counts from the third of `walk`.  Then the result is the number of leaves.

    -1 for anything else: another type, a list beside a leaf, an int over 63 bits, more of something than there is room
    for.  The caller holds a reference to the outermost tuple.
    """
    head, inside = known[0], known[1]
    level, deepest, bottom = 0, 0, -1  # of the list in hand, of all lists, of those with leaves
    at, end = items, items + 8 * n
    total = 0
    found = leaf
    while True:
        if at == end:
            if level == 0:
                break
            level -= 1
            at, end = walk[0, level], walk[1, level]
            continue
        sequence = peek(at)
        at += 8
        kind = peek(sequence + 8)
        if kind == known[2]:
            inner = peek(sequence + head + 8)
        elif kind == known[3]:
            inner = sequence + inside
        else:
            return -1
        size = peek(sequence + head)
        if level + 1 == walk.shape[1] or walk[2, level + 1] == walk[3, level + 1]:
            return -1
        if leaf != 0:
            lengths[walk[2, level + 1]] = size
        walk[2, level + 1] += 1
        deepest = at_least(deepest, level + 1)
        if size == 0:
            continue
        kind = peek(peek(inner) + 8)
        if kind == known[2] or kind == known[3]:
            walk[0, level], walk[1, level] = at, end
            level += 1
            at, end = inner, inner + 8 * size
            continue
        if bottom != -1 and bottom != level + 1:
            return -1
        bottom = level + 1
        if leaf == 0:
            if found == 0:
                found = 4
                while found < 7 and kind != known[found]:
                    found += 1
                if found == 7:
                    return -1
            total += size
            continue
        if total + size > leaves.size:
            return -1
        stop = inner + 8 * size
        if leaf == 4:
            while inner != stop:
                item = peek(inner)
                if peek(item + 8) != known[4]:
                    return -1
                leaves[total] = peek(item + head)
                total += 1
                inner += 8
        elif leaf == 5:
            while inner != stop:
                item = peek(inner)
                if peek(item + 8) != known[5]:
                    return -1
                digits = peek(item + head)
                if tagged:
                    negative = digits & 3 == 2
                    digits >>= 3
                else:
                    negative = digits < 0
                    digits = abs(digits)
                value = 0
                if digits == 1:
                    value = peek_int(item + head + 8)
                elif digits > 1:
                    value = peek_int(item + head + 8) | peek_int(item + head + 12) << 30
                    if digits == 3:
                        top = peek_int(item + head + 16)
                        if top > 7:
                            return -1
                        value |= top << 60
                    elif digits > 3:
                        return -1
                leaves[total] = -value if negative else value
                total += 1
                inner += 8
        else:
            while inner != stop:
                item = peek(inner)
                if peek(item + 8) != known[6]:
                    return -1
                leaves[total] = int(item == known[7])
                total += 1
                inner += 8
    if bottom != -1 and bottom != deepest:
        return -1
    walk[2, 0] = total
    return found if leaf == 0 else total


KERNEL = KernelSpec(cpu)
