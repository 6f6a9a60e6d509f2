"""The Python blocks of the pages, run one after the other as a reader would type them."""

import doctest
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"


def blocks_of(page):
    """Its Python blocks, all of them."""
    text = page.read_text(encoding="utf-8")
    found = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert found
    assert text.count("```python") == len(found)
    return found


def without_torch(blocks):
    """Those that a reader without PyTorch can run."""
    return [block for block in blocks if not re.search("import (torch|transformers)", block)]


def run_blocks(blocks, name="page"):
    """The names that they define."""
    names = {"__name__": name}
    for block in blocks:
        exec(compile(block, name, "exec"), names)
    return names


def failures(blocks, name="page"):
    """What is said of each output that is not the one which the page shows."""
    found = []
    test = doctest.DocTestParser().get_doctest("\n".join(blocks), {"__name__": name}, name, None, 0)
    assert test.examples
    doctest.DocTestRunner(verbose=False).run(test, out=found.append, clear_globs=False)
    return found


def script_of(blocks):
    """A program of shown blocks, which ends at the first output that is not the one shown."""
    return (
        f"import doctest\ntest = doctest.DocTestParser().get_doctest({chr(10).join(blocks)!r}, {{}}, 'page', None, 0)\n"
        "doctest.DebugRunner(verbose=False).run(test)\n"
    )


def broken(blocks, right, wrong):
    """The same blocks with something wrong in them."""
    found = [block.replace(right, wrong) for block in blocks]
    assert found != blocks
    return found
