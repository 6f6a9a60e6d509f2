"""The codes of errors: every mistake has one, and a section that shows it."""

import ast
import copy
import pickle
import re
from pathlib import Path

import numpy as np
import pytest
from laws import every

import seqformats as sf
from seqformats import errors

ROOT = Path(__file__).parent.parent
SOURCES = sorted((ROOT / "src/seqformats").rglob("*.py"))
PAGE = (ROOT / "docs" / "reference/error-codes.md").read_text(encoding="utf-8")
MISTAKES = {name: value for name, value in vars(errors).items() if isinstance(value, errors.Mistake)}
CODES = {mistake.code: mistake for mistake in MISTAKES.values()}

# The first digit of a code says the class.
GROUPS = {
    "1": sf.StructureError,
    "2": sf.ConversionError,
    "3": TypeError,
    "4": IndexError,
    "5": sf.DeviceError,
    "6": ValueError,
}
CLASSES = {kind.__name__ for kind in GROUPS.values()} | {"OutOfMemory"}

# Where an error is made without a mistake: what no caller sees, and what runs where there is no Python.
INSIDE = {
    "core/absent.py": "kernels are called by the library alone",
    "native/loading.py": "a file that cannot be loaded is compiled anew",
    "native/signature.py": "kernels are called by the library alone",
    "kernels/parts/building.py": "a kernel that is not what it says of itself",
    "kernels/parts/cubins.py": "what cannot be compiled for a GPU, which native/cubins.py gives a code",
    "kernels/parts/maps.py": "functions of the user that Numba cannot compile, in its words",
    "errors.py": "the mistakes themselves",
}
COMPILED = "numba_types/constructors.py"  # compiled code raises classes alone, so the codes are in the words


def place(path):
    return path.relative_to(ROOT / "src/seqformats").as_posix()


def made(path):
    """Every error that a file makes of a class alone: the line, and what it is made of."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in CLASSES:
            yield node.lineno, node
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Name) and node.exc.id in CLASSES:
            yield node.lineno, node.exc


def sections():
    """The code, the title and the example of each section of the page."""
    found = re.findall(r"^\((SF\d+)\)=\n### (SF\d+): ([^\n]+)\n(.*?)(?=^\(SF|^## |\Z)", PAGE, re.M | re.S)
    for label, code, title, body in found:
        assert label == code
        (example,) = re.findall(r"^```python\n(.*?)^```$", body, re.M | re.S)
        yield code, title, example


EXAMPLES = {code: example for code, _, example in sections()}


@pytest.mark.passes("compiled", reason="it reads sources")
@every(SOURCES, place)
def test_every_error_has_a_code(path):
    for line, node in made(path):
        where = f"{place(path)}:{line}"
        if place(path) == COMPILED:
            words = "".join(ast.literal_eval(arg) for arg in node.args[:1])
            assert re.search(r" \[(SF\d{3})\]$", words)[1] in CODES, where
        else:
            assert place(path) in INSIDE, f"{where} raises a class; give it a mistake of errors.py"


def test_an_error_without_a_code_would_be_found(tmp_path):
    file = tmp_path / "wrong.py"
    file.write_text("def f():\n    raise TypeError('no')\n\n\ndef g():\n    raise StructureError\n", encoding="utf-8")
    assert sorted(line for line, _ in made(file)) == [2, 6]


@pytest.mark.passes("compiled", reason="it reads sources")
def test_every_mistake_is_made_somewhere():
    text = "".join(path.read_text(encoding="utf-8") for path in SOURCES if place(path) != "errors.py")
    assert [name for name in MISTAKES if not re.search(rf"\b{name}(\.of)?\(|mistake = .*\b{name}\b", text)] == []


def test_codes_are_unique_and_say_the_class():
    assert len(CODES) == len(MISTAKES)
    for code, mistake in CODES.items():
        assert re.fullmatch(r"SF\d{3}", code)
        assert issubclass(mistake.kind, GROUPS[code[2]]), code


def test_the_page_has_a_section_for_each():
    assert [(code, title) for code, title, _ in sections()] == [(code, CODES[code].title) for code in sorted(CODES)]


# The pass in which there is the library that an example needs.
PASSES = {
    "jax": pytest.mark.jax,
    "pyarrow": pytest.mark.bridges,
    "torch": pytest.mark.peers,
    "transformers": pytest.mark.bridges,
}


def needed(code):
    """The libraries that the example of a code imports."""
    return tuple(re.findall(r"^import (\w+)", EXAMPLES.get(code, ""), re.M))


@pytest.mark.parametrize(
    "needs",
    [
        pytest.param(needs, marks=[PASSES[name] for name in needs], id=" ".join(needs) or "nothing")
        for needs in sorted(set(map(needed, CODES)))
    ],
)
def test_the_example_of_each_raises_it(needs):
    every([code for code in sorted(CODES) if needed(code) == needs])(raises_it)()


def raises_it(code):
    known = {"np": np, "sf": sf, "x": sf.Ragged(np.arange(5.0), [2, 0, 3])}
    with pytest.raises(CODES[code].kind) as caught:
        exec(compile(EXAMPLES[code], code, "exec"), known)
    assert caught.value.code == code
    assert str(caught.value).endswith(f" [{code}]")
    assert str(caught.value).count("[SF") == 1


def test_the_first_example_of_the_page(capsys):
    first = re.search(r"^```python\n(.*?)^```$", PAGE, re.M | re.S)[1]
    exec(compile(first, "first", "exec"), {})
    assert capsys.readouterr().out == "SF102\n"


@pytest.mark.parametrize("use", [lambda: sf.Ragged(np.zeros(2), [3]), lambda: sf.convert(5, sf.Ragged)])
def test_a_code_outlives_pickle_and_copy(use):
    with pytest.raises((sf.StructureError, TypeError)) as caught:
        use()
    for again in (pickle.loads(pickle.dumps(caught.value)), copy.copy(caught.value)):
        assert type(again) is caught.type
        assert again.code == caught.value.code != ""
        assert str(again) == str(caught.value)


def test_what_is_said_in_more_words_keeps_its_code():
    for first in (errors.ROWS("rows"), errors.KIND("a kind")):
        more = errors.again(first, f"column 'a': {first}")
        assert type(more) is type(first)
        assert more.code == first.code
        assert str(more) == f"column 'a': {first}"
        other = errors.MIXED.as_error(type(first), f"sample 0: {first}")
        assert other.code == first.code
        assert str(other).count("[SF") == 1
    assert errors.code_of(ValueError("of another library")) == ""
    assert not hasattr(errors.again(ValueError("no"), "column: no"), "code")
    assert sf.StructureError("{} of {}", 1, 2).code == ""
