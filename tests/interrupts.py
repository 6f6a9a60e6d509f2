"""Interrupts of what a test does, of which none is left behind: one that comes up later would end the whole run."""

import gc
import signal


class Interrupt(BaseException):
    """What Ctrl-C raises, under a name for which no test runner ends."""


def interrupted(work, times, after=0.0005):
    """Call `work` again and again, and interrupt that so many times; how many interrupts came out of it.

    The first comes `after` so many seconds, others up to eight times as late.  A timer is set for one signal, and the
    next one only when that has come.  What others have the garbage collector call is left out meanwhile: what comes up
    there is written to stderr, and lost.
    """
    came, seen = [], 0
    called = gc.callbacks[:]

    def interrupt(*_):
        came.append(True)
        raise Interrupt

    old = signal.signal(signal.SIGALRM, interrupt)
    gc.callbacks.clear()
    try:
        for k in range(times):
            try:
                signal.setitimer(signal.ITIMER_REAL, after * (1 + k % 8))
                while len(came) == k:
                    work()
            except Interrupt:
                seen += 1
    finally:  # where `work` has failed there may be one to come
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
        gc.callbacks[:] = called
    return seen
