"""What all measured passes have run of the sources together: one figure a folder, and one for all.

    COVERAGE_FILE=.cache/measured python tests/measured.py 85

Ends with status 1 where all together are less than so many per cent of lines and branches.
"""

import collections
import json
import sys
import tempfile
from pathlib import Path

import coverage


def counts(report):
    """Of each folder, how many lines and branches there are, and how many have been run."""
    found = collections.defaultdict(lambda: [0, 0])
    for name, file in report["files"].items():
        parts = Path(name).parts
        inside = parts[parts.index("seqformats") + 1 :]
        folder = "/".join(inside[:-1]) or "(top)"
        summary = file["summary"]
        for key in (folder, "all"):
            found[key][0] += summary["num_statements"] + summary.get("num_branches", 0)
            found[key][1] += summary["covered_lines"] + summary.get("covered_branches", 0)
    return found


def main(least):
    measured = coverage.Coverage()
    measured.load()
    with tempfile.NamedTemporaryFile() as file:
        measured.json_report(outfile=file.name)
        report = json.loads(Path(file.name).read_text(encoding="utf-8"))
    found = counts(report)
    for folder in sorted(found, key=lambda name: (name == "all", name)):
        there, run = found[folder]
        print(f"{folder:24} {there:7} {100 * run / max(there, 1):6.1f} %")
    there, run = found["all"]
    if 100 * run < least * there:
        sys.exit(f"less than {least} % of all lines and branches have been run")


if __name__ == "__main__":
    main(float(sys.argv[1]))
