"""``python -m seqformats``: versions, devices, threads, where machine code comes from, the conversion table.

``python -m seqformats doctor``: whether all that runs as it should, a line per check; with status 1 if not.

``python -m seqformats bench --like my.parquet --column ids``: operations on sequences as long as those, beside others.

``python -m seqformats kernels``: the kernels, by what each says of itself.

``python -m seqformats compile``: compile all kernels, or those named, for this CPU into the cache of this user; with
``--gpu 9.0`` for GPUs of this compute capability, which need not be there, ``--gpu here`` for those that are; with
``--processes N`` in so many processes.
"""

import argparse
import importlib
import pkgutil
import re
import sys
from collections.abc import Sequence

import seqformats
from seqformats import health, registry
from seqformats.errors import import_extra
from seqformats.launch.kernel import kernel
from seqformats.native import code, store


def _table() -> str:
    entries = registry.conversions().values()
    kinds = list(dict.fromkeys(kind for entry in entries for kind in (entry.source, entry.target)))
    direct = {(entry.source, entry.target): entry for entry in entries}
    wide = max(len(registry.label(kind)) for kind in kinds) + 2
    lines = [" " * wide + "".join(registry.label(kind).ljust(wide) for kind in kinds)]
    for source in kinds:
        cells = []
        for target in kinds:
            entry = direct.get((source, target))
            if entry is None:
                cells.append("-" if source is target else f"{len(registry.route(source, target).steps)} steps")
            else:
                cells.append("shares" if entry.shares else "move")
        lines.append(registry.label(source).ljust(wide) + "".join(cell.ljust(wide) for cell in cells))
    return "\n".join("  " + line.rstrip() for line in lines)


def _kernels() -> str:
    from seqformats import kernels

    lines = []
    for found in pkgutil.iter_modules(kernels.__path__):
        if found.ispkg:
            continue
        spec = kernel(found.name).load()
        words = importlib.import_module(f"seqformats.kernels.{found.name}").__doc__ or ""
        where = f"CUDA, {spec.over}" if spec.cuda else "host alone"
        lines.append(f"{found.name:18} {spec.does:11} {where:17} {words.partition(chr(10))[0]}")
    return "\n".join(lines)


def _compile(names: Sequence[str], processes: int | None, gpus: Sequence[str]) -> int:
    """The progress goes to stderr; the exit status says whether all is there now."""
    from seqformats.launch.driver import SIMULATED, capabilities
    from seqformats.native import ship

    if not code.in_use():
        sys.stderr.write(f"nothing can be kept here: {code.whence()}\n")
        return 1
    if gpus and SIMULATED:
        sys.stderr.write("nothing is compiled for GPUs where NUMBA_ENABLE_CUDASIM is set\n")
        return 1
    if reason := store.why_not():
        sys.stderr.write(f"kernels are not cached: {reason}\n")
        return 1
    try:
        found = sorted({pair for word in gpus for pair in (capabilities() if word == "here" else [_pair(word)])})
        done = ship.fill_cache(names, lambda line: sys.stderr.write(f"{line}\n"), processes, found)
    except seqformats.DeviceError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    except KeyboardInterrupt:
        sys.stderr.write("interrupted; what has been compiled is kept\n")
        return 130
    sys.stdout.write(f"kernel cache: {health.cache()}\n")
    return 0 if done else 1


def _bench(options: argparse.Namespace) -> int:
    """Times go to stdout; the exit status says whether the file could be read, and the picture written."""
    from seqformats.bench import files, race

    how = {name: getattr(options, name) for name in ("batch", "width", "rounds", "seed")}
    try:
        if options.picture is not None:
            import_extra("matplotlib", "plot")
        found = race.report(files.lengths_in(options.like, options.column), **how)
        sys.stdout.write(f"{found.text}\n")
        if options.picture is not None:
            seqformats.plot.times(found.times).figure.savefig(options.picture)
    except (ValueError, TypeError, OSError, ModuleNotFoundError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


def _arguments(given: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m seqformats", description="What is installed, and how it runs.")
    commands = parser.add_subparsers(dest="command", metavar="")
    commands.add_parser("kernels", help="list the kernels")
    checking = commands.add_parser("doctor", help="look whether all of it runs as it should")
    checking.add_argument("--cuda", action="store_true", help="open the GPUs and calculate there")
    racing = commands.add_parser("bench", help="measure operations on sequences as long as yours, beside others")
    racing.add_argument("--like", required=True, metavar="FILE", help="lengths, or a column of lists or of text")
    racing.add_argument("--column", metavar="NAME", help="which one, where the file has several")
    racing.add_argument("--batch", type=_count, default=256, metavar="N", help="sequences of the batch (256)")
    racing.add_argument("--width", type=_count, default=16, metavar="N", help="numbers of an item (16)")
    racing.add_argument("--rounds", type=_count, default=15, metavar="N", help="turns of each (15)")
    racing.add_argument("--picture", metavar="FILE", help="draw the times too, into an image such as times.svg")
    racing.add_argument("--seed", type=int, default=0, help="of what is drawn (0)")
    filling = commands.add_parser("compile", help="compile kernels for this CPU into the cache of this user")
    filling.add_argument("names", nargs="*", metavar="kernel", help="one to compile; all if none is named")
    filling.add_argument("--gpu", action="append", type=_capability, default=[], metavar="9.0", help=_FOR_GPUS)
    filling.add_argument("--processes", type=_count, metavar="N", help="compile in so many processes at a time")
    return parser.parse_args(given)


_FOR_GPUS = "for GPUs of this compute capability in place of this CPU; here: for those that are there"


def _capability(text: str) -> str:
    if text != "here" and not re.fullmatch(r"\d+\.\d", text):
        raise argparse.ArgumentTypeError(f"a compute capability such as 9.0, or here, not {text}")
    return text


def _pair(capability: str) -> tuple[int, int]:
    major, minor = capability.split(".")
    return int(major), int(minor)


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"a whole number from 1 on, not {text}")
    return int(text)


def main(arguments: Sequence[str] = ()) -> int:
    """Print what there is, or do what is asked for."""
    options = _arguments(arguments)
    if options.command == "kernels":
        sys.stdout.write(_kernels() + "\n")
        return 0
    if options.command == "doctor":
        found = health.doctor(cuda=options.cuda)
        sys.stdout.write(f"{found!r}\n")
        return 1 if found.problems else 0
    if options.command == "bench":
        return _bench(options)
    if options.command == "compile":
        return _compile(options.names, options.processes, options.gpu)
    lines = [
        health.versions(),
        f"GPUs: {health.gpus()}",
        f"threads: {seqformats.num_threads()}",
        f"machine code: {code.whence()}",
        f"kernel cache: {health.cache()}",
        "conversions, from a row to a column:",
        _table(),
    ]
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
