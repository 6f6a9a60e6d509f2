"""The thread pool: a few daemon threads, shared by all callers, gone and regrown after a fork.

A caller never waits for a thread that has not started: whoever comes first, caller or helper, takes the next block.
So nested calls, dead helpers and an interpreter that shuts down cost time, never a deadlock.
"""

import logging  # noqa: F401  its own fork hook must be registered before the one below, see there
import os
import sys
import threading
from collections.abc import Callable, Sequence
from itertools import pairwise
from queue import SimpleQueue
from typing import Any

_Block = tuple[Callable[..., None], tuple[Any, ...]]
_Task = tuple[list[list[_Block]], int, "SimpleQueue[BaseException | None]"]

_chosen: int | None = None
_default: int | None = None
_inside = threading.local()


class _Pool:
    """The threads of one process and the queue they wait on."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.tasks: SimpleQueue[_Task] = SimpleQueue()
        self.helpers = 0


_pool = _Pool()


def _forked() -> None:
    """The child has none of the threads, and any lock may have been held; a worker process works alone."""
    global _pool, _default
    _pool = _Pool()
    _default = 1


# What a thread holds while another forks stays held in the child for ever: so whoever forks waits until no thread is
# importing a kernel or compiling, here or in the caller's own code.
loading = threading.RLock()
"""Held while a kernel's file is imported and while the kernel is called for the first time."""

_held: list[Any] = []


def _before_fork() -> None:
    compiler = getattr(sys.modules.get("numba.core.compiler_lock"), "global_compiler_lock", None)
    for lock in (loading, compiler):
        if lock is not None:
            lock.acquire()
            _held.append(lock)


def _after_fork() -> None:
    held = _held[:]
    _held.clear()  # before the first release, which lets another thread fork
    for lock in reversed(held):
        lock.release()


def _after_fork_in_child() -> None:
    _after_fork()
    _forked()


# Hooks run before a fork in the reverse order of registration.  `logging` has one that takes its lock, which a
# compiling thread may want: so ours, registered later, waits for that thread first, with no lock held.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork_in_child)


def _count_default() -> int:
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    for name in ("SEQFORMATS_NUM_THREADS", "OMP_NUM_THREADS"):
        given = os.environ.get(name, "")
        if given.isdecimal() and int(given) > 0:
            return min(count, int(given))
    return count


def num_threads() -> int:
    """How many threads a large operation may use.

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
    """Let large operations use `k` threads; None goes back to the default.

    Raises TypeError for anything but an integer and ValueError for one below 1.

    >>> import seqformats as sf
    >>> sf.set_num_threads(1)
    >>> sf.num_threads()
    1
    >>> sf.set_num_threads(None)
    """
    global _chosen
    if k is not None:
        if isinstance(k, bool) or not hasattr(k, "__index__"):
            raise TypeError(f"the number of threads must be an integer or None, not {type(k).__name__}")
        k = k.__index__()
        if k < 1:
            raise ValueError(f"the number of threads must be at least 1, not {k}")
    _chosen = k


def _drain(parts: list[list[_Block]], own: int, done: "SimpleQueue[BaseException | None]") -> None:
    """Run blocks until none is left, those of one part first; one entry in `done` a block.

    Threads begin far from each other: new memory comes in huge pages, for each of which one thread waits for another.
    """
    for k in range(len(parts)):
        part = parts[(own + k) % len(parts)]
        while True:
            try:
                kernel, args = part.pop(0 if k == 0 else -1)
            except IndexError:
                break
            error: BaseException | None = None
            try:
                kernel(*args)
            except BaseException as caught:
                error = caught
            del args  # the arrays are free before the caller goes on
            done.put(error)


def _helper(tasks: "SimpleQueue[_Task]") -> None:
    _inside.busy = True
    while True:
        parts, own, done = tasks.get()
        _drain(parts, own, done)
        del parts, done


def run(kernel: Callable[..., None], args: tuple[Any, ...], cuts: Sequence[int]) -> None:
    """Call ``kernel(*args, start, stop)`` for each neighbouring pair of `cuts`; return when all have ended.

    The first error is raised after the last block has ended, so no thread writes into an array that was given up.
    """
    global _pool
    pool = _pool
    wanted = 0 if getattr(_inside, "busy", False) else min(num_threads(), len(cuts) - 1) - 1
    if wanted <= 0:
        kernel(*args, cuts[0], cuts[-1])
        return
    if pool.helpers < wanted:
        with pool.lock:
            try:
                while pool.helpers < wanted:
                    threading.Thread(target=_helper, args=(pool.tasks,), daemon=True, name="seqformats").start()
                    pool.helpers += 1
            except RuntimeError:  # the interpreter shuts down, or no more threads: the caller does it all
                pass
    blocks = [(kernel, (*args, start, stop)) for start, stop in pairwise(cuts)]
    count, threads = len(blocks), min(wanted, pool.helpers) + 1
    parts = [blocks[count * k // threads : count * (k + 1) // threads] for k in range(threads)]
    del blocks  # which nobody must keep
    done: SimpleQueue[BaseException | None] = SimpleQueue()
    for own in range(1, threads):
        pool.tasks.put((parts, own, done))
    _drain(parts, 0, done)
    interrupt: BaseException | None = None
    errors: list[BaseException | None] = []
    while len(errors) < count:
        try:
            errors.append(done.get())
        except KeyboardInterrupt as caught:  # wait for the others first: they still write
            interrupt = caught
    for error in (interrupt, *errors):
        if error is not None:
            raise error
