"""Names of functions say what they do or return: none is a preposition or a participle alone.

The name of a constant has one meaning in the package.
"""

import ast
import pathlib
import re

import pytest

import seqformats as sf

pytestmark = pytest.mark.passes("compiled", reason="the sources are the same in every pass")

SOURCE = pathlib.Path(sf.__file__).parent
PREPOSITION = re.compile(
    "about|above|across|after|against|along|alongside|amid|among|apart|around|as|at|before|behind|"
    "below|beneath|beside|between|beyond|by|down|during|except|for|from|in|inside|into|near|of|off|"
    "on|onto|out|outside|over|past|per|since|through|to|together|toward|under|until|up|upon|via|"
    "with|within|without"
)
# Irregular ones; those that are the verb as well, such as `cut`, `put`, `read`, `set` and `split`, are verbs here.
PARTICIPLE = re.compile(
    "begun|bought|bound|brought|built|caught|chosen|dealt|done|drawn|driven|eaten|fallen|felt|fought|"
    "found|frozen|given|gone|grown|heard|held|hidden|kept|known|laid|led|left|lent|lost|made|meant|"
    "met|own|paid|risen|said|seen|sent|shown|sold|spent|spoken|stood|sung|sunk|taken|taught|"
    "thought|thrown|told|understood|woken|won|worn|written"
)
NO_PARTICIPLE = re.compile("bed|embed|exceed|feed|need|proceed|red|seed|shed|speed|succeed")
ALLOWED = {
    # public
    "beam/decoder.py:BeamDecoder.agreed",
    "ctc/speech.py:_Model.after",
    "formats/moving.py:Movable.to",
    "kernels/parts/common.py:along",
    "operations/library.py:to",
    "operations/search.py:searchsorted",
    "operations/template.py:Template.added",
    # decorators, which say what a function is
    "kernels/parts/options.py:compiled",
    "kernels/parts/options.py:shared",
    # written in files: pickles, and code that Numba keeps
    "formats/encoding.py:restored",
    "numba_types/lists.py:built",
    # an adjective: the tokens so far as the data of a `Ragged`
    "beam/hypotheses.py:Live.ragged",
}
ENCODINGS = ["masked", "nested", "packed", "padded", "ragged", "unpadded"]
"""Modules that are called as the batches of which they are."""
SAME = {"NAMES": {"core/__init__.py", "core/absent.py"}}
"""Constants that have one meaning in several files: `core.absent` has what the extension has, where there is none."""


def is_no_verb(name):
    """Tell whether a name is a preposition or a participle alone."""
    word = name.strip("_")
    if PREPOSITION.fullmatch(word) or PARTICIPLE.fullmatch(word):
        return True
    return re.fullmatch("[a-z]+ed", word) is not None and not NO_PARTICIPLE.fullmatch(word)


def functions(node, above=""):
    """Yield the functions of a tree with the names of what they are in; names of the language are left out."""
    for child in ast.iter_child_nodes(node):
        inner = above
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            inner = f"{above}.{child.name}".lstrip(".")
            if not isinstance(child, ast.ClassDef):
                yield child.name, inner
        yield from functions(child, inner)


def offenders(text, place):
    """List the functions of a source that are named by no verb and no noun."""
    return [f"{place}:{whole}" for name, whole in functions(ast.parse(text)) if is_no_verb(name)]


def found():
    """List all such functions."""
    paths = sorted(SOURCE.rglob("*.py"))
    return [
        one
        for path in paths
        for one in offenders(path.read_text(encoding="utf-8"), path.relative_to(SOURCE).as_posix())
    ]


def sources():
    """Give the text of each module but kernels, by its place."""
    paths = [path for path in sorted(SOURCE.rglob("*.py")) if SOURCE / "kernels" not in path.parents]
    return {path.relative_to(SOURCE).as_posix(): path.read_text(encoding="utf-8") for path in paths}


def constants(text):
    """Give the constants that a module defines and others may import; a letter alone is a type variable."""
    nodes, targets = ast.parse(text).body, []
    while nodes:
        node = nodes.pop()
        if isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets += getattr(node, "targets", None) or [node.target]
        elif isinstance(node, (ast.If, ast.Try, ast.ExceptHandler, ast.With, ast.For)):
            nodes += ast.iter_child_nodes(node)
    names = [name for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)]
    return {x.id for x in names if isinstance(x.ctx, ast.Store) and re.fullmatch("[A-Z][A-Z0-9_]+", x.id)}


def ambiguous(texts):
    """List the constants that several modules define, with these modules."""
    places = {}
    for place, text in texts.items():
        for name in constants(text):
            places.setdefault(name, set()).add(place)
    return {name: found for name, found in places.items() if len(found) > 1}


def test_constants_have_one_meaning():
    """A constant is defined in one module, or has a leading underscore; all that are in several at once."""
    assert ambiguous(sources()) == SAME


def test_what_several_modules_define_would_be_listed():
    texts = {
        "a.py": "ONE, (TWO, *REST) = 1, (2, 3)\nif x:\n  DEEP: int = 1\ndef f(): INNER = 1\n_OWN = T = x.y[KEY] = 0",
        "b.py": "TWO = DEEP = REST = 0\nT = _OWN = INNER = KEY = ONE\nfrom c import DEEP as FAR\nf(FAR)",
        "c.py": "try:\n  ONE += 1\nexcept E:\n  TWO = 1",
    }
    two, deep, rest = {"a.py", "b.py", "c.py"}, {"a.py", "b.py"}, {"a.py", "b.py"}
    assert ambiguous(texts) == {"TWO": two, "DEEP": deep, "REST": rest}


def test_functions_are_verbs_or_nouns():
    """All that are not at once; what is allowed must be there."""
    there = set(found())
    assert sorted(there - ALLOWED) == []
    assert sorted(ALLOWED - there) == []


def test_modules_are_verbs_or_nouns():
    names = [path.stem for path in sorted(SOURCE.rglob("*.py"))]
    assert [name for name in names if is_no_verb(name) and name not in ENCODINGS] == []


def test_what_is_named_by_no_verb_would_be_listed():
    text = "def take(): ...\ndef of(): ...\nclass A:\n  def _taken(self):\n    def beside(): ...\n  def need(self): ..."
    assert offenders(text, "a.py") == ["a.py:of", "a.py:A._taken", "a.py:A._taken.beside"]
