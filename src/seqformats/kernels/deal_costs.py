"""Deal sequences of falling cost to bins, each to the one that costs least so far and has room.

The bins are a heap by cost, equal ones by number (R. L. Graham, "Bounds on multiprocessing timing anomalies", 1969).
One whose room a sequence does not fit waits in another heap, by falling room, until a sequence comes that does.
"""

from . import parts as p
from .parts import Array, Integers


@p.shared
def lower(keys: Array, heap: Integers, count: int, at: int) -> None:
    """Let the bin at place `at`, whose key has risen, sink to where it belongs."""
    b = heap[at]
    down = 2 * at + 1
    while down < count:
        one, two = heap[down], heap[min(down + 1, count - 1)]
        if keys[two] < keys[one] or (keys[two] == keys[one] and two < one):
            down += 1
            one = two
        if keys[b] < keys[one] or (keys[b] == keys[one] and b < one):
            break
        heap[at] = one
        at = down
        down = 2 * at + 1
    heap[at] = b


@p.shared
def lift(keys: Array, heap: Integers, at: int) -> None:
    """Let the bin at the last place `at`, which is new, rise to where it belongs."""
    b = heap[at]
    while at > 0:
        up = heap[(at - 1) >> 1]
        if keys[up] < keys[b] or (keys[up] == keys[b] and up < b):
            break
        heap[at] = up
        at = (at - 1) >> 1
    heap[at] = b


@p.compiled
def cpu(costs: Array, sizes: Integers, loads: Array, room: Array, left: Integers, heaps: Integers, of: Integers) -> int:
    """Write the bin of each sequence to ``of (n,)``; returns 1, or 0 where one finds no room.

    ``costs (n,)`` falls.  ``loads (bins,)`` is what the bins cost before, and ``heaps (2 * bins,)`` begins with them by
    rising cost, those that cost alike by rising number.  With ``sizes (n,)``, which may be empty instead, ``room
    (bins,)`` says how many items each bin still takes, as a negative number, and ``left (bins,)`` how many sequences.
    """
    count, parked = loads.size, 0
    heap, parking = heaps[:count], heaps[count:]
    for k in range(costs.size):
        if sizes.size:
            while parked > 0 and -room[parking[0]] >= sizes[k]:
                heap[count] = parking[0]
                lift(loads, heap, count)
                count += 1
                parked -= 1
                parking[0] = parking[parked]
                lower(room, parking, parked, 0)
            while count > 0 and (-room[heap[0]] < sizes[k] or left[heap[0]] < 1):
                b = heap[0]
                count -= 1
                heap[0] = heap[count]
                lower(loads, heap, count, 0)
                if left[b] > 0:  # else nothing comes into it any more
                    parking[parked] = b
                    lift(room, parking, parked)
                    parked += 1
            if count == 0:
                return 0
            room[heap[0]] += sizes[k]
            left[heap[0]] -= 1
        of[k] = heap[0]
        loads[heap[0]] += costs[k]
        lower(loads, heap, count, 0)
    return 1


KERNEL = p.KernelSpec(cpu, takes=(("f8", "f8", "f8"),))
