"""How time grows with the batch and shrinks with threads, and how fast a device copies."""

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

import seqformats as sf

from .cells import Clock, Effort, Limit, Peer, in_turns, passes
from .data import Batch, log_normal
from .peers import ops, set_threads, torch

SIZES = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
THREADED = ("wide", "many")
CALLED = ("tiny", "small", "wide")
CALLERS = 8


def growth(effort: Effort) -> list[dict[str, Any]]:
    """Microseconds a sequence of one thread, for batches of 1,000 to 1,000,000 sequences of about 5 x 4 numbers."""
    set_threads(1)
    found = []
    for n in SIZES:
        lengths = log_normal(n, 5)
        flat = np.random.default_rng(1).standard_normal((int(lengths.sum()), 4), np.float32)
        items = np.split(flat, np.cumsum(lengths)[:-1])
        index = np.random.default_rng(2).permutation(n)
        x = sf.Ragged(flat, lengths)

        def fresh(flat: Any = flat, lengths: Any = lengths) -> sf.Ragged:
            return sf.Ragged(flat, lengths)

        operations: dict[str, Callable[[], Any]] = {
            "list -> ragged": lambda items=items: sf.convert(items, sf.Ragged),
            "ragged -> padded": lambda fresh=fresh: sf.convert(fresh(), sf.Padded),
            "ragged -> masked": lambda fresh=fresh: sf.convert(fresh(), sf.Masked),
            "ragged -> packed": lambda fresh=fresh: sf.convert(fresh(), sf.Packed),
            "select": lambda x=x, index=index: x[index],
            "reduce_sum": lambda x=x: sf.reduce_sum(x),
            "softmax": lambda x=x: sf.softmax(x),
            "plain copy (NumPy)": flat.copy,
        }
        if ops:
            operations["Thinc: list2padded"] = lambda items=items: ops.list2padded(items)
        candidates = {name: Peer(function) for name, function in operations.items()}
        times = in_turns(candidates, Clock("cpu"), Effort(effort.seconds, min(effort.rounds, 5)))
        found.append({"sequences": n, "items": int(lengths.sum()), "times": times})
        print(f"growth: {n:,} sequences", flush=True)
    set_threads(None)
    return found


def scaling(effort: Effort) -> list[dict[str, Any]]:
    """The same with one thread, two, and so on to the number of CPUs."""
    most = sf.num_threads()
    counts = [k for k in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64) if k < most] + [most]
    found = []
    for shape in THREADED:
        b = Batch(shape, "NumPy")
        x, index = b.ragged, np.random.default_rng(2).permutation(b.n)
        operations: dict[str, Callable[[], Any]] = {
            "list -> ragged": lambda b=b: sf.convert(b.items, sf.Ragged),
            "ragged -> padded": lambda x=x: sf.convert(x, sf.Padded),
            "padded -> ragged": lambda b=b: sf.convert(b.padded, sf.Ragged),
            "select": lambda x=x, index=index: x[index],
            "reduce_sum": lambda x=x: sf.reduce_sum(x),
            "reduce_logsumexp": lambda x=x: sf.reduce_logsumexp(x),
            "softmax": lambda x=x: sf.softmax(x),
        }
        for k in counts:
            set_threads(k)
            copies = passes(Limit(b.bytes, b.bytes), "cpu")
            times = in_turns({name: Peer(f) for name, f in (operations | copies).items()}, Clock("cpu"), effort)
            found.append({"shape": shape, "threads": k, "times": times})
        print(f"threads: {shape}", flush=True)
    set_threads(None)
    return found


def callers(effort: Effort) -> list[dict[str, Any]]:
    """As many calls from one Python thread, and shared among eight that call at once."""
    set_threads(None)
    found = []
    for shape in CALLED:
        b = Batch(shape, "NumPy")
        x = b.ragged
        operations: dict[str, Callable[[], Any]] = {
            "list -> ragged": lambda b=b: sf.convert(b.items, sf.Ragged),
            "ragged -> padded": lambda x=x: sf.convert(x, sf.Padded),
            "reduce_sum": lambda x=x: sf.reduce_sum(x),
            "softmax": lambda x=x: sf.softmax(x),
        }
        if ops:
            operations["Thinc: list2padded"] = lambda b=b: ops.list2padded(b.items)
        operations["plain copy (NumPy)"] = lambda padded=b.padded.data: padded.copy()
        for name, function in operations.items():
            function()
            once = Clock("cpu")(Peer(function))
            calls = max(6, int(effort.seconds / once / CALLERS))  # the first ones get their memory from the system

            def alone(function: Any = function, calls: int = calls) -> None:
                for _ in range(calls * CALLERS):
                    function()

            def together(function: Any = function, calls: int = calls) -> None:
                def some() -> None:
                    for _ in range(calls):
                        function()

                threads = [threading.Thread(target=some) for _ in range(CALLERS)]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()

            pair = {"one": Peer(alone), "eight": Peer(together)}
            times = in_turns(pair, Clock("cpu"), Effort(4 * effort.seconds, 5))
            each = {key: t["median"] / (calls * CALLERS) for key, t in times.items()}
            found.append({"operation": name, "shape": shape, "calls": calls * CALLERS, "times": each})
        print(f"eight callers: {shape}", flush=True)
    return found


def device_copy() -> dict[str, float]:
    """Bytes a second that the device copies in its own memory, reading and writing counted, for a gigabyte."""
    x = torch.ones(1 << 28, device="cuda")
    y = torch.empty_like(x)
    times = in_turns({"copy": Peer(lambda: y.copy_(x))}, Clock("cuda"), Effort(0.5, 21))["copy"]
    return {"bytes a second": 2 * x.nbytes / times["median"], **times}
