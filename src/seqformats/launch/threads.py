"""The thread pool: a few daemon threads, shared by all callers, gone and regrown after a fork.

A caller never waits for a thread that has not started: whoever comes first, caller or helper, takes the next block.
So nested calls, dead helpers and an interpreter that shuts down cost time, never a deadlock.

An exception may come up between any two instructions of a thread (Ctrl-C in the main one).  So nothing that counts is
ever taken out of a queue: each block has a slot of its own, in which its owner and its end are marked; whoever waits
looks at the slots, and can begin again at any time; and a task keeps the arrays behind its addresses alive.
"""

import contextlib
import operator
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from queue import SimpleQueue
from typing import Any

import numpy as np

from ..errors import RANGE, WHOLE, quote

_chosen: int | None = None
_default: int | None = None
_inside = threading.local()

# More threads than any machine has CPUs cost memory and gain nothing.
_MOST = max(256, os.cpu_count() or 1)

MAX_GPU_UNITS = 1 << 14
"""Units of work on a GPU, a thread each, where each has memory of its own."""
MAX_WORKSPACE_BYTES = 1 << 28
"""Bytes that all units of work have to themselves, if more than one has."""


class _Pool:
    """The threads of one process and the queue they wait on."""

    def __init__(self) -> None:
        self.tickets: SimpleQueue[_Ticket] = SimpleQueue()
        # the thread in each place, or the number of the one that is about to start it
        self.places: dict[int, threading.Thread | int] = {}

    def grow(self, wanted: int) -> int:
        """Have so many helpers, if that is possible; how many there are.

        No lock is held, which an exception could leave locked: a place is claimed by writing one's number there.
        """
        own = threading.get_ident()
        try:
            for k in range(wanted):
                if self.places.setdefault(k, own) == own:  # nobody's yet, or claimed by this thread before
                    thread = threading.Thread(target=_helper, args=(self.tickets,), daemon=True, name="seqformats")
                    thread.start()
                    self.places[k] = thread
        except RuntimeError:  # the interpreter shuts down, or no more threads: the caller does it all
            pass
        return sum(type(place) is threading.Thread for place in list(self.places.values()))


_pool = _Pool()


def _reset_after_fork() -> None:
    """The child has none of the threads, and any lock may have been held; a worker process works alone."""
    global _pool, _default
    _pool = _Pool()
    _default = 1
    _tell()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_after_fork)


def _count_default() -> int:
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    for name in ("SEQFORMATS_NUM_THREADS", "OMP_NUM_THREADS"):
        given = os.environ.get(name, "")
        if given.isdecimal() and int(given) > 0:
            return min(count, int(given))
    return count


def num_threads() -> int:
    """Return the number of threads that a large operation may use.

    The number given to `set_num_threads`, else the CPUs this process may run on, capped by the environment's
    SEQFORMATS_NUM_THREADS or OMP_NUM_THREADS, else 1 in a forked child (a DataLoader worker, say).

    >>> import seqformats as sf
    >>> sf.num_threads() >= 1
    True
    """
    global _default
    if _chosen is not None:
        return _chosen
    if _default is None:
        _default = _count_default()
    return _default


def set_num_threads(k: int | None) -> None:
    """Let large operations use `k` threads, at most 256 or as many as there are CPUs; None goes back to the default.

    Raises TypeError for anything but an integer and ConversionError for one below 1.

    >>> import seqformats as sf
    >>> sf.set_num_threads(1)
    >>> sf.num_threads()
    1
    >>> sf.set_num_threads(None)
    """
    global _chosen
    if k is not None:
        try:
            number = None if isinstance(k, (bool, np.bool_)) else operator.index(k)
        except TypeError:  # an array of several has the method too
            number = None
        if number is None:
            raise WHOLE(f"the number of threads must be an integer or None, not {type(k).__name__}")
        k = number
        if k < 1:
            raise RANGE(f"the number of threads must be at least 1, not {quote(k)}")
        k = min(k, _MOST)
    _chosen = k
    _tell()


_followers: list[Callable[[int], None]] = []


def follow(function: Callable[[int], None]) -> None:
    """Call `function` with the number of threads, now and whenever it changes."""
    _followers.append(function)
    function(num_threads())


def _tell() -> None:
    for function in _followers:
        function(num_threads())


class _Task:
    """One call of `run`: what to do, and a slot for each block."""

    __slots__ = ("args", "bell", "cuts", "ended", "errors", "keep", "kernel", "owners", "threads")

    def __init__(
        self, kernel: Callable[..., None], args: tuple[Any, ...], cuts: Sequence[int], keep: Any, threads: int
    ) -> None:
        self.kernel: Callable[..., None] | None = kernel
        self.args = args
        self.cuts = cuts
        self.keep = keep
        self.threads = threads
        self.owners: dict[int, _Ticket] = {}
        self.ended = [False] * (len(cuts) - 1)
        self.errors: list[BaseException] = []
        self.bell = threading.Lock()  # rung by a helper that leaves; nothing depends on hearing it
        self.bell.acquire()

    def blocks(self, part: int) -> Iterator[int]:
        """All blocks: one's own part of them, then the others', each from its end.

        Threads begin far from each other: new memory comes in huge pages, for each of which one thread waits for
        another.
        """
        count, threads = len(self.ended), self.threads
        yield from range(count * part // threads, count * (part + 1) // threads)
        for k in range(part + 1, part + threads):
            k %= threads
            yield from reversed(range(count * k // threads, count * (k + 1) // threads))

    def drain(self, ticket: "_Ticket") -> None:
        """Run blocks until none is left."""
        for i in self.blocks(ticket.part):
            if self.owners.setdefault(i, ticket) is ticket and not self.ended[i]:
                try:
                    self.kernel(*self.args, self.cuts[i], self.cuts[i + 1])  # type: ignore[misc]
                except BaseException as error:
                    self.errors.append(error)
                finally:
                    self.ended[i] = True

    def wait(self, ticket: "_Ticket") -> None:
        """Return when nobody works on a block, and nobody will."""
        for i in range(len(self.ended)):
            self.owners.setdefault(i, ticket)
        while not all(ended or self.owners[i].left for i, ended in enumerate(self.ended)):
            self.bell.acquire(timeout=0.1)

    def finish(self) -> None:
        """Run what a helper had begun when an exception from outside ended it."""
        for i, ended in enumerate(self.ended):
            if not ended:
                self.kernel(*self.args, self.cuts[i], self.cuts[i + 1])  # type: ignore[misc]


class _Ticket:
    """Permission for a thread to work on a task, once."""

    __slots__ = ("left", "part", "task")

    def __init__(self, task: _Task, part: int, left: bool = False) -> None:
        self.task = task
        self.part = part
        self.left = left  # is its thread done with the task?

    def leave(self) -> None:
        """Say that this thread is done with the task."""
        self.left = True
        with contextlib.suppress(RuntimeError):  # rung already
            self.task.bell.release()


def _helper(tickets: "SimpleQueue[_Ticket]") -> None:
    _inside.busy = True
    ticket: _Ticket | None = None
    while True:
        try:
            while True:
                ticket = None
                ticket = tickets.get()
                try:
                    ticket.task.drain(ticket)
                finally:
                    ticket.leave()
        except BaseException:  # from outside, a block's own are kept in the task: whoever waits must not wait for ever
            if ticket is not None:
                ticket.leave()


def run(kernel: Callable[..., None], args: tuple[Any, ...], cuts: Sequence[int], keep: object = None) -> None:
    """Call ``kernel(*args, start, stop)`` for each neighbouring pair of `cuts`; return when all have ended.

    The first error is raised after the last block has ended, so no thread writes into an array that was given up.
    `keep` is what owns the memory behind addresses among `args`: it stays alive as long as a thread works there.
    """
    wanted = 0 if getattr(_inside, "busy", False) else min(num_threads(), len(cuts) - 1) - 1
    if wanted <= 0:
        kernel(*args, cuts[0], cuts[-1])
        return
    pool = _pool
    threads = min(wanted, pool.grow(wanted)) + 1
    task = _Task(kernel, args, cuts, keep, threads)
    own = _Ticket(task, 0, left=True)
    interrupt: BaseException | None = None
    while True:
        try:
            if interrupt is None:
                for part in range(1, threads):
                    pool.tickets.put(_Ticket(task, part))
                task.drain(own)
            task.wait(own)
            if interrupt is None and not task.errors:
                task.finish()
            break
        except BaseException as caught:  # wait for the others first: they still write
            interrupt = caught
    error = next(iter(task.errors), None) if interrupt is None else interrupt
    # a ticket that nobody has taken yet keeps nothing alive
    task.kernel, task.args, task.keep = None, (), None
    task.errors.clear()
    if error is not None:
        try:
            raise error
        finally:
            del error, interrupt  # which its traceback would keep alive
