"""Compare what the compilers make of the kernels of two checkouts, up to the names of symbols.

Run it in the one checkout to write what it makes, and in the other to compare:

    python -m benchmarks.same_code --write before.json
    python -m benchmarks.same_code --against before.json softmax_rows sum_rows

Of a kernel for the CPU the machine code and the constants are compared, of one for CUDA its PTX, each for the first
types of arguments, or for all with ``--every``.  Beside it stand the seconds of CPU that compiling took, as a ratio.
"""

import argparse
import hashlib
import json
import re
import time
from pathlib import Path

import llvmlite.binding as llvm

from seqformats.kernels.parts import building
from seqformats.native import code, ship
from seqformats.native.signature import symbol_of, text_of


def machine_code(found):
    """The instructions and constants of an object file."""
    file = llvm.ObjectFileRef.from_data(found)
    return b"".join(s.data() for s in file.sections() if (s.name() or b"").startswith((b".text", b".rodata")))


def plain(ptx):
    """PTX in which each long name is the number of its first place, without what Numba keeps for a function."""
    names = {}
    ptx = re.sub(r"//.*|\.common \.global \.align 8 \.u64 \S+;\n", "", ptx)
    found = re.sub(r"_cudapy_smem_\d+|[\w$]{24,}", lambda m: names.setdefault(m.group(), f"name{len(names)}"), ptx)
    return found.encode()


def pieces(names, every, ptx):
    """Name, and a function that makes it, of everything that is compiled."""
    for name in names or ship.names():
        spec = code.spec_of(name)
        signatures = building.signatures_of(spec)
        for one in signatures if every else signatures[:1]:
            symbol = symbol_of(name, one)
            yield (
                f"{name}({text_of(one)})",
                lambda spec=spec, one=one, s=symbol: machine_code(building.build(spec.cpu, one, s)),
            )
        if not ptx or spec.cuda is None:
            continue
        from seqformats.kernels.parts import cubins

        seen = set()
        for variant, one in cubins.signatures_of(spec):
            if every or variant not in seen:
                seen.add(variant)
                function = spec.short if variant else spec.cuda
                yield (
                    f"{name}{variant}<{text_of(one)}>",
                    lambda f=function, one=one: plain(cubins.ptx_of(f, one, (9, 0))),
                )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--write", type=Path)
    parser.add_argument("--against", type=Path)
    parser.add_argument("--every", action="store_true")
    parser.add_argument("--no-ptx", action="store_true")
    options = parser.parse_args()
    before = json.loads(options.against.read_text()) if options.against else {}
    made, same, took, took_before = {}, 0, 0.0, 0.0
    for name, make in pieces(options.names, options.every, not options.no_ptx):
        begin = time.process_time()
        found = make()
        seconds = time.process_time() - begin
        made[name] = hashlib.blake2b(found, digest_size=16).hexdigest(), len(found), seconds
        if options.write:
            options.write.write_text(json.dumps(made, indent=0))
        if name in before:
            digest, size, ago = before[name]
            same += digest == made[name][0]
            took, took_before = took + seconds, took_before + ago
            if digest != made[name][0]:
                print(f"{name} differs: {size} bytes before, {len(found)} now", flush=True)
        elif before:
            print(f"{name} is new", flush=True)
    if before and took_before:
        print(f"{same} of {len(made)} are the same; compiling takes {took / took_before:.2f} of the time")


if __name__ == "__main__":
    main()
