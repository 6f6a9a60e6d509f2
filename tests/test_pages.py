"""The pages that need no other library: their examples run, and wrong ones would be seen."""

import doctest

import pytest
from pages import DOCS, blocks_of, broken, run_blocks

TOUR = blocks_of(DOCS / "tour.md")
DEVICES = blocks_of(DOCS / "devices.md")
SPEECH = blocks_of(DOCS / "speech.md")
PACKING = blocks_of(DOCS / "packing.md")
EVENTS = blocks_of(DOCS / "events.md")
TEXT = blocks_of(DOCS / "text.md")
RECOMMENDERS = blocks_of(DOCS / "recommenders.md")
RETRIEVAL = blocks_of(DOCS / "retrieval.md")


def test_the_tour_runs():
    run_blocks(TOUR, "tour.md")


def test_a_wrong_tour_would_be_seen():
    with pytest.raises(AssertionError):
        run_blocks(broken(TOUR, "[3.0, 1.0, 7.0]", "[1.0, 3.0, 7.0]"))


def test_speech_runs():
    run_blocks(SPEECH, "speech.md")
    with pytest.raises(AssertionError):
        run_blocks(broken(SPEECH, "== (82, 77)", "== (77, 82)"))


def test_devices_run():
    """In the simulator, and where there is a GPU."""
    from libraries import GPUS

    if not GPUS:
        pytest.skip("there is neither a GPU nor the simulator")
    run_blocks(DEVICES, "devices.md")
    with pytest.raises(AssertionError):
        run_blocks(broken(DEVICES, "[1.0, 9.0]", "[9.0, 1.0]"))


def test_reinforcement_learning_runs():
    blocks = blocks_of(DOCS / "reinforcement-learning.md")
    run_blocks(blocks, "reinforcement-learning.md")
    with pytest.raises(AssertionError):
        run_blocks(broken(blocks, "[2.0, 4.0, 0.0, 6.0]", "[4.0, 4.0, 0.0, 6.0]"))


def failures(blocks):
    """Count the outputs of a page that are not those it shows."""
    test = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, "packing.md", None, 0)
    return doctest.DocTestRunner(verbose=False).run(test, out=lambda _: None).failed


def test_packing_shows_what_comes():
    assert failures(PACKING) == 0
    assert failures(broken(PACKING, "[1.077, 1.016]", "[1.016, 1.077]")) == 1


@pytest.mark.parametrize(
    ("blocks", "right", "wrong"),
    [
        (EVENTS, "[[2, 3, 4], [1]]", "[[2, 3, 3], [1]]"),
        (TEXT, "'evïan'", "'evian'"),
        (RECOMMENDERS, "[[3, 1], [], [5, 9]]", "[[3, 1], [], [9, 5]]"),
        (RETRIEVAL, "array([0, 2, 0])", "array([0, 1, 0])"),
    ],
)
def test_guides_show_what_comes(blocks, right, wrong):
    assert failures(blocks) == 0
    assert failures(broken(blocks, right, wrong)) == 1
