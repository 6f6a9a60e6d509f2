"""Compile all kernels, in several processes: for a level of CPUs, to be shipped with the package, or for this user.

Each process compiles with Numba, which reads once what it compiles for; so a process works for one level.
"""

from __future__ import annotations

import functools
import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import KERNEL
from ..lazy_import import import_now
from . import code, cpu, cubins, linking, store
from .code import names
from .linking import link, linker
from .shipped_files import Images, Shipped, compress
from .signature import Signature, symbol_of, text_of

SLOW = ("attend_back", "attend_rows", "alike_rows", "sum_rows", "sum_copies", "quantile_rows", "softmax_rows")
"""The kernels that take longest to compile, which are begun with: so all processes end at about the same time."""

Said = Callable[[str], object]
"""Where a line about the progress goes."""


class Job(NamedTuple):
    """A kernel for arguments of some types; None for its traits alone."""

    name: str
    signature: Signature | None

    @property
    def text(self) -> str:
        """Name of its code."""
        return self.name if self.signature is None else f"{self.name}({text_of(self.signature)})"

    @property
    def symbol(self) -> str:
        """Name of its code in a shared object."""
        return symbol_of(self.name, self.signature or ())


class GpuJob(NamedTuple):
    """Variant of a kernel for GPUs, or ".short" for short sequences there, for arguments of some types."""

    name: str
    variant: str
    signature: Signature
    capability: cubins.Capability

    @property
    def text(self) -> str:
        """Name of its code."""
        return cubins.text_for(self.name + self.variant, self.signature, self.capability)


def jobs(wanted: Iterable[str] = ()) -> list[Job]:
    """Everything that there is to compile of these kernels, all without any, the slow ones first; this loads Numba."""
    building = import_now("..kernels.parts.building", __package__)
    order = sorted(wanted or names(), key=lambda name: (SLOW.index(name) if name in SLOW else len(SLOW), name))
    signatures = [Job(name, one) for name in order for one in building.signatures_of(code.spec_of(name))]
    return [*signatures, *(Job(name, None) for name in order)]


def gpu_jobs(wanted: Iterable[str], capabilities: Iterable[cubins.Capability]) -> list[GpuJob]:
    """List the jobs for GPUs of some compute capabilities; this loads Numba's package for CUDA.

    DeviceError where that is not there, or makes no code for them.
    """
    try:
        parts = import_now("..kernels.parts.cubins", __package__)
        known = parts.list_capabilities()
    except ImportError as error:
        raise KERNEL(
            f'numba-cuda, which compiles kernels for GPUs, is not there ({error}); pip install "seqformats[cuda13]" '
            "(or cuda12)"
        ) from None
    found = []
    for capability in capabilities:
        if capability < known[0]:
            raise KERNEL(
                f"there is no code for compute capability {cubins.format_capability(capability)}, but for "
                f"{', '.join(map(cubins.format_capability, known))} and what comes after"
            )
        for name in sorted(wanted or names()):
            spec = code.spec_of(name)
            found += [GpuJob(name, variant, one, capability) for variant, one in parts.signatures_of(spec)]
            if wanted and spec.cuda is None:
                raise KERNEL(f"the kernel {name} runs on the host alone")
    return found


def processes_here() -> int:
    """Return the number of processes that can work at the same time."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


# --- to be shipped ---------------------------------------------------------------------------------------------------


def ship(folder: Path, levels: Sequence[str], said: Said, processes: int | None = None) -> None:
    """Compile all kernels for some levels and link them into a folder, the same files each time.

    What this user's cache has of the same sources, flags and compiler is not compiled again, and what is compiled is
    kept there.

    Parameters
    ----------
    folder : Path
        Where to; made if it is not there.
    levels : sequence of str
        As `cpu.levels_of` names them; those of this kind of machine.
    said : function
        Given a line for each kernel.
    processes : int, optional
        How many work at the same time; as many as there are CPUs if not given.

    Raises
    ------
    RuntimeError
        Some kernel was not compiled, or they were not linked; the error says which, and why.
    """
    todo = [job for job in jobs() if job.signature is not None]
    facts: dict[str, dict[str, Any]] = {job.text: {} for job in todo} | {name: _facts(name) for name in names()}
    for level in levels:
        begun, failed = time.monotonic(), []
        begin = functools.partial(_for_level, level)
        with tempfile.TemporaryDirectory(prefix="seqformats-") as place:
            objects: dict[str, Path] = {}
            for job, found in _results(_object, todo, processes, f"{level} ", said, begin):
                if isinstance(job, Job) and isinstance(found, bytes):
                    objects[job.symbol] = Path(place, f"{job.symbol}.o")
                    objects[job.symbol].write_bytes(found)
                else:
                    failed.append(f"{job.text}: {found}")
            if failed:
                lines = [f"{len(failed)} kernels were not compiled for {level}:", *sorted(failed)]
                raise RuntimeError("\n".join(lines))
            if len(objects) < len(todo):
                raise RuntimeError(f"{len(todo) - len(objects)} kernels are called as others are in a shared object")
            folder.mkdir(parents=True, exist_ok=True)
            out = folder / f"{level}.so"
            link([path for _, path in sorted(objects.items())], out, linker(zig=True))
        Shipped.write(out, facts, code.made_by())
        size = sum(path.stat().st_size for path in folder.glob(f"{level}.*"))
        said(f"{level}: {len(objects)} functions, {size / 1e6:.1f} MB, {time.monotonic() - begun:.0f} s")


def ship_images(
    folder: Path,
    said: Said,
    capabilities: Sequence[cubins.Capability] = cubins.SHIPPED_FOR,
    wanted: Iterable[str] = (),
    processes: int | None = None,
) -> None:
    """Compile kernels for GPUs, all without names, into the files of a package; see `cubins`.

    Parameters
    ----------
    folder : Path
        Where to.
    said : function
        Given a line for each kernel.
    capabilities : sequence of pairs of int
        The compute capabilities, in order, that get cubins; later ones get PTX.
    wanted : iterable of str
        Names of kernels.
    processes : int, optional
        How many work at the same time, as of `ship`.

    Raises
    ------
    RuntimeError
        Some kernel was not compiled; the error says which, and why.
    """
    begun = time.monotonic()
    todo = gpu_jobs(wanted, capabilities[:1])
    work = functools.partial(_images, tuple(capabilities))
    made, failed = [], []
    for job, found in _results(work, todo, processes, "GPUs ", said, _alone):
        if isinstance(found, str):
            failed.append(f"{job.text}: {found}")
        else:
            made.append(found)
    if failed:
        raise RuntimeError("\n".join([f"{len(failed)} kernels were not compiled for GPUs:", *sorted(failed)]))
    stamps = {job.name: {"stamp": code.stamp(job.name)} for job in todo}
    Images.write(folder, stamps, made, f"numba-cuda {version('numba-cuda')}")
    size = sum(path.stat().st_size for path in folder.glob("kernels.*"))
    said(f"GPUs: {len(made)} functions, {size / 1e6:.1f} MB, {time.monotonic() - begun:.0f} s")


def _images(
    capabilities: Sequence[cubins.Capability], job: GpuJob
) -> tuple[str, dict[str, Any], dict[cubins.Capability | str, bytes]]:
    """The code of a kernel for all of these, as `Images.write` takes it."""
    parts = import_now("..kernels.parts.cubins", __package__)
    made = parts.for_shipping(_function(job), job.signature, capabilities, job.name + job.variant)
    images: dict[Any, bytes] = {one: compress(cubin) for one, cubin in made.cubins.items()}
    images["ptx"] = compress(made.ptx.encode())
    return cubins.shipped_name(job.name + job.variant, job.signature), {"entry": made.entry}, images


def _function(job: GpuJob) -> Any:
    spec = code.spec_of(job.name)
    return spec.short if job.variant else spec.cuda


def _facts(name: str) -> dict[str, Any]:
    """Collect what is to be known of a kernel that is shipped."""
    spec = code.spec_of(name)
    return {"stamp": code.stamp(name), "traits": list(code.Traits.from_spec(spec)), **code.facts_of(spec)}


def _for_level(level: str) -> None:
    """Let a process compile for a level, whatever its environment says."""
    for name in (*cpu.CHANGES_CODE, "NUMBA_DISABLE_JIT"):
        os.environ.pop(name, None)
    os.environ.update(cpu.numba_options(level))
    _alone()


def _alone() -> None:
    """Ctrl-C is for the process that has begun this one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _entry(job: Job) -> store.Entry:
    if job.signature is None:
        return code.entry_of_traits(job.name)
    return code.compile_now(job.name, job.signature)


def _object(job: Job) -> bytes:
    """Code of the same sources, flags and compiler, or compiled now, and then kept."""
    key = code.key_of(job.name, job.text)
    found = store.read(job.text, key)
    if found is None:
        found = _entry(job)
        store.write(job.text, key, found)
    return found.code


# --- into the cache of this user -------------------------------------------------------------------------------------


def fill_cache(
    wanted: Iterable[str], said: Said, processes: int | None = None, capabilities: Sequence[cubins.Capability] = ()
) -> bool:
    """Compile kernels for this CPU, or for GPUs, those that are neither shipped nor kept, and keep them.

    Parameters
    ----------
    wanted : iterable of str
        Names of kernels; none for all.
    said : function
        Given a line for each kernel, and some about the whole.
    processes : int, optional
        How many work at the same time, as of `ship`.
    capabilities : sequence of pairs of int
        The compute capabilities of the GPUs; none for this CPU.

    Returns
    -------
    bool
        Is all there now?

    Raises
    ------
    DeviceError
        There is no kernel of such a name, or no code for such GPUs.
    """
    begun = time.monotonic()
    todo: Sequence[Job | GpuJob] = gpu_jobs(wanted, capabilities) if capabilities else jobs(wanted)
    left = [job for job in todo if not _is_there(job)]
    if not capabilities:
        said(f"machine code: {code.whence()}")
    said(f"{len(todo) - len(left)} of {len(todo)} there already")
    failed = 0
    for job, found in _results(_keep, left, processes, "", said, _alone):
        if found is not True:
            failed += 1
            said(f"not compiled: {job.text}: {found or 'it could not be written'}")
    said(f"{len(left) - failed} compiled in {time.monotonic() - begun:.1f} s")
    return not failed


def _is_there(job: Job | GpuJob) -> bool:
    if isinstance(job, GpuJob):
        return cubins.is_kept(job.name + job.variant, job.text)
    return code.is_there(job.name, job.text)


def _keep(job: Job | GpuJob) -> bool:
    """Nothing is half done: a file gets its name when it is complete."""
    if isinstance(job, GpuJob):
        return cubins.keep(job.name + job.variant, _function(job), job.signature, job.capability)
    entry = _entry(job)
    linked = linking.link_object(entry.code) if entry.code else b""
    return store.write(job.text, code.key_of(job.name, job.text), entry._replace(linked=linked))


# --- the processes ---------------------------------------------------------------------------------------------------


def _results(
    work: Callable[[Any], Any],
    todo: Sequence[Job | GpuJob],
    processes: int | None,
    word: str,
    said: Said,
    begin: Callable[[], None],
) -> Iterator[tuple[Job | GpuJob, Any]]:
    """Yield the result of `work` for each job, or the words of its error, in the order in which they end."""
    if not todo:
        return
    count, wide = min(processes or processes_here(), len(todo)), len(str(len(todo)))
    # not forks, since this process may have threads, and has loaded Numba for its own CPU
    pool = ProcessPoolExecutor(count, mp_context=get_context("spawn"), initializer=begin)
    try:
        waiting: dict[Future[Any], Job | GpuJob] = {pool.submit(work, job): job for job in todo}
        for number, done in enumerate(as_completed(waiting), 1):
            job, error = waiting[done], done.exception()
            said(f"{word}[{number:{wide}}/{len(todo)}] {_short(job.text)}")
            yield job, done.result() if error is None else f"{type(error).__name__}: {error}"
    finally:
        pool.shutdown(cancel_futures=True)


def _short(text: str, width: int = 100) -> str:
    return text if len(text) <= width else text[: width - 3] + "..."
