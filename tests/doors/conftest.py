import pytest

from seqformats.doors.door import Door


@pytest.fixture(scope="module", autouse=True)
def without_limits():
    """Every call that does not go through teaches, whatever came before it in this process."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Door, "is_due", lambda *_: True)
        yield
