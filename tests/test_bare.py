"""A process without ml_dtypes, PyTorch, JAX or Arrow, and one that has ml_dtypes and has not imported it."""

import subprocess
import sys
import textwrap

import pytest
from pages import DOCS, ROOT, blocks_of, script_of, without_torch

pytestmark = pytest.mark.passes("compiled", reason="what is imported is the same in every pass")

OTHERS = {"cupy", "datasets", "jax", "ml_dtypes", "pyarrow", "thinc", "torch", "transformers"}
BLOCKED = f"""
import importlib.abc
import sys

class Blocked(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {sorted(OTHERS)}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Blocked())
"""
AT_THE_END = f"assert not {sorted(OTHERS)!r} & sys.modules.keys(), sys.modules.keys()\n".replace("[", "{").replace(
    "]", "}"
)


def succeeds(script):
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.fixture(params=["without them", "before they are imported"])
def begin(request):
    """What a script begins with."""
    return BLOCKED if request.param == "without them" else "import sys\n"


@pytest.mark.parametrize(
    "use",
    [
        "import pydoc; assert 'reduce_sum' in pydoc.render_doc(sf)",
        "import inspect; assert dict(inspect.getmembers(sf))['Ragged'] is sf.Ragged",
        "assert hasattr(sf, 'jax') in (True, False)",
        "assert {'Ragged', 'beam_search'} <= set(dir(sf))",
        "from seqformats import *; assert Trie is sf.Trie",
    ],
    ids=["help", "members", "hasattr", "dir", "star"],
)
def test_looking_at_the_package(begin, use):
    succeeds(f"{begin}\nimport seqformats as sf\n{use}\n")


@pytest.mark.parametrize("page", [ROOT / "README.md", DOCS / "tour.md"], ids=lambda page: page.stem)
def test_pages_of_the_core(begin, page):
    succeeds(begin + script_of(without_torch(blocks_of(page))) + AT_THE_END)


def test_every_dtype_of_numpy(begin):
    succeeds(
        begin
        + textwrap.dedent("""
        import numpy as np
        import seqformats as sf
        for code in "?bhilqBHILQefd":
            x = sf.Ragged(np.ones(6, code), [2, 0, 4])
            for kind in (sf.Padded, sf.Packed, sf.Masked, sf.LoD, sf.List):
                assert sf.equal(sf.convert(sf.convert(x, kind), sf.Ragged), x)
            assert sf.reduce_sum(x).tolist() == [2, 0, 4]
        """)
        + AT_THE_END
    )


def test_what_is_blocked_cannot_be_imported():
    succeeds(
        BLOCKED
        + "try:\n    import ml_dtypes\nexcept ImportError:\n    pass\nelse:\n    raise SystemExit('it was there')\n"
    )
