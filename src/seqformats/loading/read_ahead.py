"""A thread that runs ahead of whoever asks for what it makes."""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from collections.abc import Callable, Iterator
from queue import Empty, SimpleQueue
from typing import Any, Generic, NamedTuple, TypeVar

T = TypeVar("T")

THREAD_NAME = "seqformats-batches"
_TICK = 1.0  # seconds after which one who waits looks whether there is anyone left to wait for
_PATIENCE = 5.0  # seconds for a thread to end that may be waiting for its source
_STOP = "stop"  # what `stop` puts where places are


class _End(NamedTuple):
    """End of the items: why there is no other one."""

    error: BaseException | None


class _Line(Generic[T]):
    """State that the thread and the one who asks share.

    Queues whose every step is one of C: neither Ctrl-C nor a garbage collection, which may come between any two
    instructions of Python, finds a lock held.
    """

    def __init__(self, source: Iterator[T], count: int) -> None:
        self.source = source
        self.items: SimpleQueue[T | _End] = SimpleQueue()
        self.places: SimpleQueue[object] = SimpleQueue()  # None for each item that may be made; all else is the end
        for _ in range(count):
            self.places.put(None)
        self.stopped = False
        self.process = os.getpid()
        # weak, since `threading` keeps for ever what an interrupted `start` has been given
        self.thread = threading.Thread(target=_work, args=(weakref.ref(self),), name=THREAD_NAME, daemon=True)
        self.asker: Callable[[], object] = _nobody

    def stop(self) -> None:
        """Make no more; at once, whoever calls."""
        if os.getpid() == self.process:
            self.stopped = True
            self.places.put(_STOP)

    def end(self) -> None:
        """Stop, and wait for the thread, but not for ever: its source may never answer."""
        self.stop()
        if os.getpid() == self.process and self.thread.is_alive() and threading.current_thread() is not self.thread:
            self.thread.join(_PATIENCE)


_lines: weakref.WeakSet[_Line[Any]] = weakref.WeakSet()


@atexit.register
def _end_all() -> None:
    """A thread in the code of another library must not meet the end of the interpreter."""
    for line in list(_lines):
        line.end()


def _nobody() -> None:
    """Stand in for a reference to the one who asks."""


def _work(wanted: weakref.ref[_Line[T]]) -> None:
    """Make items while there is a place for one, and somebody to ask for it."""
    line = wanted()
    if line is None:
        return
    error: BaseException | None = None
    try:
        while True:
            if line.places.get() is not None or line.stopped or line.asker() is None:
                break
            line.items.put(next(line.source))
    except StopIteration:
        pass
    except BaseException as found:  # whatever it is, the one who asks gets it
        error = found
    try:
        close = getattr(line.source, "close", None)
        if close is not None:
            close()
    except BaseException as found:
        error = error or found
    line.items.put(_End(error))


class Ahead(Iterator[T]):
    """Items of an iterator, made by a thread of its own before they are asked for.

    Only that thread touches the iterator.  It ends with it, with `close`, and when nobody can ask any more.

    Parameters
    ----------
    source : iterator
    count : int
        How many items may be made and not yet asked for, the one being made among them.
    """

    def __init__(self, source: Iterator[T], count: int) -> None:
        self._line: _Line[T] = _Line(source, count)
        _lines.add(self._line)
        # A function of C, between whose steps nothing can come: Python only prints what interrupts a finalizer.
        self._line.asker = weakref.ref(self, self._line.places.put)
        self._line.thread.start()

    def __next__(self) -> T:
        line = self._line
        if os.getpid() != line.process:
            raise RuntimeError("the thread that makes these batches stayed in the parent of this process; iterate anew")
        if line.stopped:
            raise StopIteration
        found = self._wait()
        if isinstance(found, _End):
            line.end()
            if found.error is not None:
                raise found.error
            raise StopIteration
        line.places.put(None)
        return found

    def _wait(self) -> T | _End:
        line = self._line
        while True:
            try:
                return line.items.get(timeout=_TICK)
            except Empty:
                if not line.thread.is_alive() and line.items.empty():
                    return _End(RuntimeError("the thread that makes batches has died"))

    def close(self) -> None:
        """End the thread; nothing comes any more."""
        self._line.end()
