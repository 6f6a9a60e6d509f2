"""What pictures of a batch show: each item where it lies, in letters and in boxes, and never more than fits."""

import io
import string
import subprocess
import sys
import textwrap
from xml.etree import ElementTree as ET

import numpy as np
import oracle
import pytest
from hypothesis import given
from hypothesis import strategies as st

import seqformats as sf
from seqformats.formats.pictures import picture, rows_of_letters, svg

SVG = "{http://www.w3.org/2000/svg}"
every_encoding = pytest.mark.parametrize("to", oracle.ENCODINGS, ids=lambda to: to.__name__)


@pytest.fixture
def plain(monkeypatch):
    """As without rich."""
    monkeypatch.setitem(sys.modules, "rich", None)
    monkeypatch.setitem(sys.modules, "rich.console", None)


def drawn(x):
    stream = io.StringIO()
    sf.show(x, file=stream)
    return stream.getvalue().split("\n")[:-1]


def whose(lengths):
    """A batch whose items say which sequence they are of."""
    return sf.Ragged(np.repeat(np.arange(len(lengths)), lengths), lengths)


def options(to, side):
    return {"fill": -1, "side": side} if to is sf.Masked else {"fill": -1} if to is sf.Padded else {}


def laid_out(x):
    """The sequence in each place of memory, -1 for padding, as rows of a picture."""
    if isinstance(x, sf.List):
        wide = max(map(len, x.items), default=0)
        return [[*item.tolist(), *[-1] * (wide - len(item))] for item in x.items] if wide else []
    if x.data.ndim == 2:
        return x.data.tolist() if x.data.size else []
    return [x.data.tolist()] if x.data.size else []


small = st.lists(st.integers(0, 9), max_size=7)


@every_encoding
@given(lengths=small, side=st.sampled_from(["right", "left"]))
def test_letters_are_where_items_lie(to, lengths, side):
    x = sf.convert(whose(lengths), to, **options(to, side))
    assert [[sequence for _, sequence in line] for line in rows_of_letters(picture(x))] == laid_out(x)


@every_encoding
@given(lengths=small, side=st.sampled_from(["right", "left"]))
def test_boxes_have_the_area_of_the_items(to, lengths, side):
    of = picture(sf.convert(whose(lengths), to, **options(to, side)))
    found = np.zeros(len(lengths), np.int64)
    for box in of.boxes:
        found[box.sequence] += box.width * box.height
    assert found.tolist() == lengths
    root = ET.fromstring(svg(of))
    assert len(root.findall(f"{SVG}rect")) == len(of.boxes) + of.padded


def test_levels_are_lines_below(plain):
    x = sf.LoD(np.arange(7), [[0, 2, 2, 3], [0, 2, 3, 4], [0, 1, 2, 6, 7]])
    assert drawn(x)[1:] == ["  abccccd", "  └┘└──┘│", "  └────┘│"]
    assert drawn(x)[0] == "LoD: 4 sequences of 1 to 4 items, 3 levels, int64, cpu"


def test_members_have_names(plain):
    x = {"ids": [[1, 2], []], "label": np.zeros(2), "pair": sf.Pairs(whose([1, 2]), whose([2, 0]))}
    assert [line for line in drawn(x) if ":" in line] == [
        "ids LoD: 2 sequences of 0 to 2 items, int64, cpu",
        "pair one Ragged: 2 sequences of 1 to 2 items, int64, cpu",
        "pair two Ragged: 2 sequences of 0 to 2 items, int64, cpu",
    ]


@pytest.mark.parametrize("lengths", [[], [0], [0, 0, 0]])
@every_encoding
def test_nothing_to_draw(to, lengths, plain):
    x = sf.convert(whose(lengths), to)
    assert len(drawn(x)) == 1
    ET.fromstring(x._repr_html_())


@pytest.mark.parametrize("lengths", [[3] * 10_000, [100_000], [0, 5_000, *[1] * 1_000], [1_000] * 300])
@every_encoding
def test_pictures_are_bounded(to, lengths, plain):
    x = sf.convert(whose(lengths), to)
    lines = drawn(x)
    assert len(lines) <= 17
    assert max(map(len, lines[1:])) <= 74
    html = x._repr_html_()
    assert len(html) < 50_000
    root = ET.fromstring(html).find(f"{SVG}svg")
    assert float(root.get("width")) <= 642
    assert float(root.get("height")) <= 242


def test_what_is_left_out_is_said(plain):
    assert drawn(whose([1] * 1_000))[0].endswith("; drawn: 128 of 1000")
    assert drawn(sf.convert(whose([2] * 1_000), sf.Packed))[0].endswith("; drawn: the first 256 items")
    assert "drawn" not in drawn(whose([1] * 128))[0]


def test_padding_is_said_and_drawn():
    x = sf.Masked(np.zeros((2, 4)), [1, 3])
    assert "50 % padding" in x._repr_html_()
    assert "padding" not in whose([1, 3])._repr_html_()


def test_names_are_escaped():
    x = sf.Ragged(np.array(["<b>"] * 2), [2])
    root = ET.fromstring(x._repr_html_())
    assert "<U3" in root.find("div/small").text


def test_what_is_not_drawn():
    skeleton = sf.Ragged(np.arange(3), [1, 2]).__copy__()
    made = type(skeleton).__new__(type(skeleton))
    for name in ("lengths", "_structure", "_shape", "_dtype"):
        object.__setattr__(made, name, getattr(skeleton, name))
    object.__setattr__(made, "data", "a placeholder")
    assert made._repr_html_() is None


@pytest.mark.parametrize("wrong", [3, "text", None, np.zeros(3)])
def test_what_is_no_batch(wrong):
    with pytest.raises(TypeError, match="no encoding"):
        sf.show(wrong)


def test_nothing_is_printed_before_what_is_refused():
    stream = io.StringIO()
    with pytest.raises(TypeError, match="no encoding"):
        sf.show({"ids": [[1]], "wrong": 3}, file=stream)
    assert not stream.getvalue()


def test_a_file_that_is_none():
    with pytest.raises(TypeError, match="file must be a text stream, not 'out'"):
        sf.show(whose([1]), file="out")


@pytest.mark.passes("compiled", reason="the structure is the same in every pass")
@pytest.mark.skipif(sys.platform == "win32", reason="memory that cannot be read is made as POSIX has it")
def test_no_item_is_read():
    script = """
        import io, mmap
        import numpy as np
        import seqformats as sf

        closed = np.frombuffer(mmap.mmap(-1, 1 << 16, prot=0), np.float64)
        for x in (sf.Ragged(closed[:7], [2, 4, 1]), sf.Masked(closed[:12].reshape(3, 4), [2, 4, 1])):
            sf.show(x, file=io.StringIO())
            assert x._repr_html_()
        """
    subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=True)


@pytest.mark.peers
def test_colours_of_rich():
    pytest.importorskip("rich")
    x = whose([2, 4, 1])
    assert drawn(sf.convert(x, sf.Masked))[1:] == ["  aa··", "  bbbb", "  c···"]

    class Terminal(io.StringIO):
        def isatty(self):
            return True

    stream = Terminal()
    sf.show(x, file=stream)
    letters = "".join(c for c in stream.getvalue().split("\n")[1] if c in string.ascii_lowercase)
    assert set("abc") <= set(letters)
