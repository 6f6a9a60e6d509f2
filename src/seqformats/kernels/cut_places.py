"""The places in its sequence of every item that a slice with a step takes."""

from . import parts as p
from .parts import Integers


@p.compiled
def cpu(starts: Integers, bases: Integers, steps: Integers, cum: Integers, places: Integers) -> int:
    """Write ``places (rows,)``, of sequence i those from ``cum[i]`` to ``cum[i + 1]``.

    The first is ``starts[i] - bases[i]``, each other ``steps[i]`` after the one before; `steps` may be one for all.
    """
    one = steps.size == 1
    for i in range(starts.size):
        place = starts[i] - bases[i]
        step = steps[0 if one else i]
        for r in range(cum[i], cum[i + 1]):
            places[r] = place
            place += step  # past the last item it may be anything
    return 0


KERNEL = p.KernelSpec(cpu)
