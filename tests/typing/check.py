"""What a type checker tells users: ``mypy --strict`` over the code of README and tour, the examples and `contract.py`.

    python tests/typing/check.py

The blocks of a page are one module, as a reader would type them one after the other.  Exits 1 where mypy finds
something; it names the page's own lines.
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
FENCE = re.compile(r"^```(python)?$", re.MULTILINE)

PAGES = ("README.md", "docs/tour.md")
# Functions on the pages have no annotations, and names are used again.
ALLOWED = ("redefinition", "incomplete-defs", "untyped-defs", "untyped-calls", "untyped-decorators")
LENIENT = "# mypy: " + ", ".join(f"allow-{name}" for name in ALLOWED)
# Arithmetic on NumPy's arrays is Any to mypy: a function that returns it is found, which is not what this library says.
# An option against that would be another one than the sources are checked with, whose cache is used here.
NOT_OURS = "[no-any-return]"


def code_of(text: str) -> str:
    """The code that the Python blocks of a page show, on the lines where it stands; all else is empty lines."""
    lines, inside = [], False
    for line in text.splitlines():
        fence = FENCE.fullmatch(line)
        if fence:
            inside = fence[1] is not None
        lines.append(line[4:] if inside and line.startswith((">>> ", "... ")) else "")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Check all of them; 0 where nothing is found."""
    folder = ROOT / ".cache" / "typing"
    folder.mkdir(parents=True, exist_ok=True)
    pages = {page: folder / Path(page).with_suffix(".py").name.lower() for page in PAGES}
    for page, path in pages.items():
        path.write_text(code_of((ROOT / page).read_text(encoding="utf-8")) + LENIENT + "\n", encoding="utf-8")
    files = [*pages.values(), *sorted((ROOT / "examples").glob("*.py")), HERE / "contract.py", HERE / "check.py"]
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", *map(str, files)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    found = "".join(line for line in done.stdout.splitlines(keepends=True) if not line.endswith(f"{NOT_OURS}\n"))
    for page, path in pages.items():
        found = found.replace(str(path.relative_to(ROOT)), page)
    print(found or "README.md, docs/tour.md, examples/ and tests/typing/contract.py: no issues found\n", end="")
    print(done.stderr, end="", file=sys.stderr)
    return 1 if found or done.stderr else 0


if __name__ == "__main__":
    sys.exit(main())
