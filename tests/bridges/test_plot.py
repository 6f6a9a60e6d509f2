"""Pictures by matplotlib: what is drawn, that it is bounded, and that nothing is read that was not to be read."""

import doctest
import importlib
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import seqformats as sf
from seqformats import plot

pytestmark = pytest.mark.bridges

ROOT = Path(__file__).parents[2]
X = sf.Ragged(np.arange(12), [2, 5, 1, 4])
LOD = sf.LoD(np.arange(12), [[0, 2, 4], [0, 2, 7, 8, 12]])
TABLE = np.log([[0.1, 0.5, 0.4], [0.6, 0.3, 0.1], [0.9, 0.05, 0.05]])


@pytest.fixture(autouse=True)
def pyplot():
    mpl = pytest.importorskip("matplotlib")
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    yield plt
    plt.close("all")


def search(trace=True, start=(1, 2)):
    return sf.beam_search(
        lambda state: (TABLE[state.tokens], None),
        None,
        start=np.array(start),
        end=0,
        beam_size=2,
        max_new_tokens=5,
        trace=trace,
    )


def labels():
    rng = np.random.default_rng(0)
    frames = np.log(rng.dirichlet(np.ones(4), 9))
    return sf.ctc_beam_search(sf.Ragged(frames, [4, 5]), beam_size=4, n_best=3)


DRAW = {
    "layout": lambda **more: plot.layout(X, **more),
    "lengths": lambda **more: plot.lengths(X, **more),
    "padding": lambda **more: plot.padding(X, max_items=10, **more),
    "buckets": lambda **more: plot.buckets(X, sf.buckets(X, 10), **more),
    "mask": lambda **more: plot.mask(X, **more),
    "block_mask": lambda **more: plot.block_mask(X, **more),
    "lattice": lambda **more: plot.lattice(search(), **more),
    "prefixes": lambda **more: plot.prefixes(labels(), **more),
    "times": lambda **more: plot.times([("mean", "NumPy", 1, 3), ("mean", "PyTorch", 2.0, 1.0)], **more),
}
every_picture = pytest.mark.parametrize("name", DRAW)


def test_every_picture_is_tried():
    assert set(DRAW) == set(plot.__all__)


@every_picture
def test_axes_are_given_back(name, pyplot):
    own = pyplot.subplots()[1]
    before = len(pyplot.get_fignums())
    assert DRAW[name](ax=own) is own
    assert len(pyplot.get_fignums()) == before
    other = DRAW[name]()
    assert other is not own
    assert len(pyplot.get_fignums()) == before + 1
    other.figure.canvas.draw()
    own.figure.canvas.draw()


@every_picture
@pytest.mark.parametrize("ax", [5, "ax", object()])
def test_what_are_no_axes(name, ax):
    with pytest.raises(TypeError, match="ax must be axes of matplotlib"):
        DRAW[name](ax=ax)


@pytest.mark.parametrize("module", ["plot", "plot.batches", "plot.searches", "plot.races"])
def test_the_examples_run(module):
    assert doctest.testmod(importlib.import_module(f"seqformats.{module}")).failed == 0


@pytest.mark.parametrize("kind", [sf.List, sf.Ragged, sf.Padded, sf.Packed, sf.Masked, sf.LoD])
def test_layouts(kind):
    ax = plot.layout(sf.convert(X, kind))
    assert ax.get_title(loc="left").startswith(f"{kind.__name__}: 4 sequences of 1 to 5 items")
    items = ax.collections[-1]
    area = sum(path.get_extents().width * path.get_extents().height for path in items.get_paths())
    assert round(area) == X.rows
    assert len(ax.collections) == 1 + (kind in (sf.Padded, sf.Masked))


def test_outer_levels_are_lines():
    assert len(plot.layout(LOD).lines) == 2


@pytest.mark.parametrize("x", [sf.Ragged(np.zeros(0), []), sf.Ragged(np.zeros(0), [0, 0]), [], [[]]])
def test_empty_batches(x):
    for draw in (plot.layout, plot.lengths, plot.padding, plot.mask, plot.block_mask):
        draw(x).figure.canvas.draw()
    plot.buckets(x, sf.buckets(x, 4)).figure.canvas.draw()


def test_no_sequence_and_no_source():
    result = sf.beam_search(
        lambda state: (TABLE[state.tokens], None),
        None,
        start=np.zeros(0, int),
        end=0,
        beam_size=2,
        max_new_tokens=3,
        trace=True,
    )
    with pytest.raises(IndexError, match="there is no source 0; there are 0"):
        plot.lattice(result)


def test_lengths_are_counted():
    ax = plot.lengths([3, 3, 1, 0])
    assert {round(bar.get_x()): bar.get_height() for bar in ax.patches} == {0: 1, 1: 1, 2: 0, 3: 2}
    ax = plot.lengths(np.arange(1000), bins=10)
    assert len(ax.patches) == 10
    assert sum(bar.get_height() for bar in ax.patches) == 1000


def test_padding_is_what_the_layouts_have():
    rng = np.random.default_rng(0)
    lengths = rng.integers(0, 30, 200)
    ax = plot.padding(lengths, max_items=100, multiple_of=4)
    shares = dict(zip([text.get_text() for text in ax.get_yticklabels()], ax.patches, strict=True))
    width = 4 * -(-lengths.max() // 4)
    assert shares["Masked, Padded"].get_width() == pytest.approx(100 * (1 - lengths.sum() / (200 * width)))
    batches = sf.convert(sf.buckets(lengths, 100, multiple_of=4), list)
    places = sum(4 * -(-max(lengths[k] for k in batch) // 4) * len(batch) for batch in batches)
    (found,) = [bar for name, bar in shares.items() if name.endswith("by buckets")]
    assert found.get_width() == pytest.approx(100 * (1 - lengths.sum() / places))
    (inline,) = [bar for name, bar in shares.items() if name.endswith("in this order")]
    assert inline.get_width() > found.get_width()


def test_bars_of_batches():
    ax = plot.buckets([1, 5, 2, 5, 1], sf.buckets([1, 5, 2, 5, 1], max_items=10))
    filled, items = ax.containers
    assert [bar.get_height() for bar in filled] == [10, 6]
    assert [bar.get_height() for bar in items] == [10, 4]
    assert len(plot.buckets([1, 5], [[0], [1]]).patches) == 4


@pytest.mark.parametrize("side", ["right", "left"])
def test_masks(side):
    x = sf.convert(X, sf.Masked, side=side, width=6)
    assert plot.mask(x).images[0].get_array().tolist() == x.mask.tolist()
    assert plot.mask(x.mask).images[0].get_array().tolist() == x.mask.tolist()
    assert plot.mask([2, 1]).images[0].get_array().tolist() == sf.mask([2, 1]).tolist()


@pytest.mark.parametrize("causal", [False, True])
def test_block_masks(causal):
    made = sf.block_mask(X, causal=causal)
    ax = plot.block_mask(X, causal=causal)
    assert ax.images[0].get_array().tolist() == made.tolist()
    assert ax.get_title(loc="left") == f"12 x 12, {100 * made.mean():.0f} % True"


def test_pictures_are_bounded():
    lengths = np.full(1_000_000, 3)
    assert plot.mask(lengths).images[0].get_array().shape == (512, 3)
    assert plot.block_mask(lengths).images[0].get_array().shape == (512, 512)
    ax = plot.buckets(lengths, sf.buckets(lengths, 6))
    assert len(ax.patches) == 2 * 128
    assert "drawn: the first 128" in ax.get_title(loc="left")
    assert len(plot.lengths(np.arange(100_000)).patches) <= 40
    assert len(plot.layout(sf.Ragged(np.zeros(3_000_000, np.int8), lengths)).collections[0].get_paths()) <= 256


def test_a_lattice_has_what_was_kept():
    found = search()
    for source in range(2):
        ax = plot.lattice(found, source, words="xyz")
        kept = [np.concatenate([np.ravel(part) for part in step.to_nested()[source]]) for step in found.trace.ids]
        assert len(ax.texts) == sum(step.size for step in kept)
        assert len(ax.lines) == sum(step.size for step in kept[1:])
        best = ["xyz"[token] for token in found.tokens.to_nested()[source][0]]
        on = [line for line in ax.lines if line.get_linewidth() == 2]
        ends = {(line.get_xdata()[1], line.get_ydata()[1]) for line in on}
        coloured = [text.get_text() for text in ax.texts if text.get_position() in ends]
        assert coloured == best


def test_labels_stand_at_their_frames():
    found = labels()
    for source in range(2):
        ax = plot.prefixes(found, source)
        tokens, times = found.tokens.to_nested()[source], found.times.to_nested()[source]
        wanted = [
            (time, line, str(token))
            for line, (at, words) in enumerate(zip(times, tokens, strict=True))
            for time, token in zip(at, words, strict=True)
        ]
        assert [(*text.get_position(), text.get_text()) for text in ax.texts] == wanted
    assert plot.prefixes(sf.ctc_greedy(sf.Ragged(TABLE, [3]))).get_title(loc="left") == "source 0: 1 label"


def test_a_path_goes_from_parent_to_child():
    """The same token follows two others."""
    from seqformats.plot.searches import _Node, _path

    steps = [[_Node(1, 0)], [_Node(5, 0), _Node(6, 0)], [_Node(7, 0), _Node(7, 1)]]
    assert _path(steps, [6, 7]) == [0, 1, 1]
    assert _path(steps, [5, 7]) == [0, 0, 0]
    assert _path(steps, [6, 8]) == [0, 1]


def test_times_are_ratios():
    ax = DRAW["times"]()
    assert [bar.get_width() for bar in ax.patches] == [3.0, 0.5]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["NumPy", "PyTorch"]
    assert len(plot.times([("mean", "NumPy", 1, 2)] * 1000).patches) == 64


def test_the_command_draws_what_it_has_measured(tmp_path):
    from seqformats.__main__ import main

    (tmp_path / "lengths.txt").write_text("3 1 2")
    given = ["bench", "--like", str(tmp_path / "lengths.txt"), "--rounds", "1", "--picture"]
    assert main([*given, str(tmp_path / "times.svg")]) == 0
    assert "<svg" in (tmp_path / "times.svg").read_text(encoding="utf-8")
    assert main([*given, str(tmp_path / "times.nonsense")]) == 2


@pytest.mark.parametrize("words", [str, {1: "a"}, ["a"], lambda token: "a long name of a token"])
def test_words(words):
    for text in plot.lattice(search(), words=words).texts:
        assert 0 < len(text.get_text()) <= 12


WRONG = [
    (lambda: plot.layout(np.zeros(3)), TypeError, "is no encoding"),
    (lambda: plot.layout(sf.Pairs(X, X)), TypeError, "give x.one or x.two"),
    (lambda: plot.lengths([1, -2]), sf.StructureError, "must not be negative"),
    (lambda: plot.lengths([1.5]), TypeError, "must be integers"),
    (lambda: plot.lengths([1], bins=0), sf.ConversionError, "bins must be at least 1"),
    (lambda: plot.padding([3], max_items=2), sf.StructureError, "more than max_items=2"),
    (lambda: plot.padding([3], multiple_of=0), sf.ConversionError, "multiple_of must be at least 1"),
    (lambda: plot.buckets([3], [[0.5]]), TypeError, "batches must hold positions, integers on the host"),
    (lambda: plot.buckets([3], 5), TypeError, "is no encoding"),
    (lambda: plot.buckets([3], sf.Ragged(np.array([1]), [1])), sf.StructureError, "but there are 1 lengths"),
    (lambda: plot.buckets([3], sf.Ragged(np.zeros((1, 2), int), [1])), sf.StructureError, "one position per item"),
    (lambda: plot.mask(np.zeros((2, 2))), TypeError, "a mask must hold bools, not float64"),
    (lambda: plot.mask(np.zeros((2, 2, 2), bool)), sf.StructureError, "two axes"),
    (lambda: plot.mask([1], copy=1), TypeError, "copy must be True or False"),
    (lambda: plot.block_mask([1], causal=1), TypeError, "causal must be True or False"),
    (lambda: plot.lattice(X), TypeError, "the result of sf.beam_search"),
    (lambda: plot.lattice(search(trace=False)), sf.ConversionError, "give trace=True"),
    (lambda: plot.lattice(search(), 2), IndexError, "there is no source 2; there are 2"),
    (lambda: plot.lattice(search(), 1.0), TypeError, "source must be an integer"),
    (lambda: plot.lattice(search(), copy=None), TypeError, "copy must be True or False"),
    (lambda: plot.prefixes(search()), TypeError, "the result of sf.ctc_beam_search"),
    (lambda: plot.times([]), sf.StructureError, "there are no times"),
    (lambda: plot.times([5]), TypeError, "times are (operation, arrays, own, other)"),
    (lambda: plot.times([("mean", "NumPy", "a", 1)]), TypeError, "seconds as numbers"),
    (lambda: plot.times([("mean", "NumPy", 0, 1)]), sf.ConversionError, "seconds must be above 0"),
    (lambda: plot.prefixes(labels(), -1), IndexError, "there is no source -1; there are 2"),
]


@pytest.mark.parametrize(("use", "kind", "words"), WRONG, ids=[words for *_, words in WRONG])
def test_mistakes(use, kind, words):
    with pytest.raises(kind, match=re.escape(words)) as caught:
        use()
    assert caught.value.code.startswith("SF")


def test_what_lies_on_a_gpu_is_refused(monkeypatch):
    """The library is told that it is somewhere else."""
    from seqformats.arrays import NUMPY

    mask = sf.mask([1, 2])
    monkeypatch.setattr(type(NUMPY), "kind", lambda self, x: "cuda")
    with pytest.raises(sf.DeviceError, match="copy=True brings it to the host"):
        plot.mask(mask)
    assert plot.mask(mask, copy=True).images[0].get_array().tolist() == mask.tolist()


def test_matplotlib_is_imported_with_the_first_picture():
    script = """
import sys
import seqformats as sf
sf.plot.layout
assert "matplotlib" not in sys.modules

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name == "matplotlib":
            raise ModuleNotFoundError("no such module", name=name)

sys.meta_path.insert(0, Absent())
try:
    sf.plot.lengths([1, 2])
except ModuleNotFoundError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "matplotlib is needed here; pip install 'seqformats[plot]'\n"


def test_the_page_is_drawn():
    """Each of its blocks ends with axes, and is the same picture when it is drawn again, in the colours of the page."""
    sys.path.insert(0, str(ROOT / "docs" / "_extensions"))
    pictures = pytest.importorskip("pictures")
    page = (ROOT / "docs" / "seeing.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```\{plot\}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert len(blocks) >= len(plot.__all__)
    assert {name for name in plot.__all__ if f"sf.plot.{name}(" in "".join(blocks)} == set(plot.__all__)
    names = {}
    for block in blocks:
        drawn = pictures.svg_of(block, names)
        assert drawn.startswith("<svg")
        assert "currentColor" in drawn
        assert "#010203" not in drawn
        assert pictures.svg_of(block, names) == drawn
