"""The page for those who come from another library: the rows that use that library."""

import pytest
from coming_from import ROWS, holds, label
from laws import every

pytestmark = pytest.mark.bridges
HERE = [row for row in ROWS if row.setup]


@every(HERE, label)
def test_snippet(row):
    assert bool(holds(row.ours, row.setup)) is True


def test_a_wrong_snippet_would_be_seen():
    row = next(row for row in HERE if row.library == "SciPy" and "[3, 0, 7]" in row.ours)
    assert not holds(row.ours.replace("[3, 0, 7]", "[3, 0, 8]"), row.setup)
