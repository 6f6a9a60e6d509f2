"""The documentation site, without building it: what each page shows, and that nothing is left out or shown twice."""

import ast
import fnmatch
import re
from collections import Counter
from pathlib import Path

import pytest

import seqformats as sf
from seqformats.formats import Encoding

pytestmark = pytest.mark.passes("compiled", reason="it reads pages")

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = {
    path.relative_to(DOCS).with_suffix("").as_posix(): path.read_text(encoding="utf-8") for path in DOCS.rglob("*.md")
}
DIRECTIVE = r"^```\{%s\}([^\n]*)\n(.*?)^```$"
OPTION = re.compile(r"^:([\w-]+): ?(.*)$", re.MULTILINE)

# What the names of a module stand for elsewhere: they are names of the package, or of its rules alone.
ELSEWHERE = {"beam": {"RULES", "Rule"}, "torch": {"from_njt"}}


def directives(kind, text):
    """The argument, the options and the lines of every directive of a kind on a page."""
    for argument, body in re.findall(DIRECTIVE % kind, text, re.MULTILINE | re.DOTALL):
        options = {name: value.strip('"') for name, value in OPTION.findall(body)}
        yield argument.strip(), options, [line for line in OPTION.sub("", body).split("\n") if line]


def shown():
    """How often each name is described, by module."""
    found = {}
    for text in PAGES.values():
        for _, options, names in directives("names", text):
            found.setdefault(options.get("module", "seqformats"), Counter()).update(names)
    return found


def included(path):
    """What pages show of a file, by page."""
    text = (ROOT / path).read_text(encoding="utf-8")
    for page, source in PAGES.items():
        for argument, options, _ in directives("include", source):
            if argument == f"../{path}":
                after, before = options.get("start-after", ""), options.get("end-before", "")
                assert text.count(after) == 1 or not after, f"{page}: {after}"
                part = text.partition(after)[2] if after else text
                assert before in part, f"{page}: {before}"
                yield page, after, part.partition(before)[0] if before else part


def test_every_public_name_is_in_one_group():
    names = shown()["seqformats"]
    for pattern in [name for name in names if "*" in name]:  # those that begin so and are nowhere else
        del names[pattern]
        names.update(set(fnmatch.filter(sf.__all__, pattern)) - set(names))
    assert [name for name, times in names.items() if times > 1] == []
    assert sorted(names) == sorted(sf.__all__)


@pytest.mark.parametrize("module", ["beam", "engines", "hf", "plot", "rl", "thinc", "torch"])
def test_every_name_of_a_module_is_in_one_group(module):
    names = shown()[f"seqformats.{module}"]
    assert [name for name, times in names.items() if times > 1] == []
    public = set(getattr(sf, module).__all__) - ELSEWHERE.get(module, set())
    assert set(names) == (public - set(sf.__all__) if module == "beam" else public)


def test_every_method_that_all_encodings_have_is_shown():
    from seqformats.formats import Encoding

    methods = {name for name in dir(Encoding) if not name.startswith("_") and hasattr(Encoding, name)}
    methods -= {"keeps_levels"}
    x = sf.convert([[1.0]], sf.Ragged)
    assert methods < {*dir(x)}
    assert "mean" not in dir(x)
    assert {name.removeprefix("Encoding.") for name in shown()["seqformats.formats"]} == methods


def test_every_page_is_in_one_contents():
    found = Counter()
    for page, text in PAGES.items():
        for _, _, names in directives("toctree", text):
            found.update((Path(page).parent / name).as_posix() for name in names)
    assert [name for name, times in found.items() if times > 1] == []
    assert set(found) == set(PAGES) - {"index"}


def test_the_readme_is_shown_up_to_its_commands():
    """What says what this is; the rest has pages of its own."""
    ((page, after, part),) = included("README.md")
    assert (page, after) == ("index", "")
    assert part == README.partition("## Try it")[0]
    assert re.findall(r"^```python\n.*?^```$", part, re.MULTILINE | re.DOTALL)


def test_every_page_of_the_contents_is_there():
    wanted = "install tour cookbook coming-from/index layouts gradients devices performance"
    assert {*wanted.split(), "reference/index", "architecture", "contributing", "changelog"} <= set(PAGES)


def test_the_changelog_is_shown():
    assert [page for page, _, _ in included("CHANGELOG.md")] == ["changelog"]


def test_every_example_of_the_pages_runs_in_a_test():
    tests = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.py"))
    with_code = {page for page, text in PAGES.items() if re.search(r"^```python$", text, re.MULTILINE)}
    assert "pipelines" in with_code
    alone = [page for page in with_code if "coming-from/" not in page]  # of that folder a test reads every page
    assert [
        page for page in alone if not re.search(rf'/ "{page}\.md"\)(\.read_text|\)?\n)|^    "{page}": \(', tests, re.M)
    ] == []


def test_links_lead_to_files():
    links = {
        (page, link) for page, text in PAGES.items() for link in re.findall(r"\]\(([^)#: ]+\.(?:md|py|svg))", text)
    }
    assert len(links) > 100
    assert [(page, link) for page, link in links if not ((DOCS / page).parent / link).exists()] == []


def test_every_picture_is_of_an_encoding():
    """As the page is built: the blocks of a page share their names, and each ends with what is drawn."""
    found = {page: [lines for _, _, lines in directives("batch", text)] for page, text in PAGES.items()}
    assert len(found["layouts"]) > 5
    for blocks in found.values():
        names = {}
        for *before, last in blocks:
            exec("\n".join(before), names)
            assert isinstance(eval(last, names), Encoding)


def test_every_program_is_shown_with_its_first_sentence():
    said = dict(re.findall(r"^## (\S+)\n\n:::\{dropdown\} (.*)\n", PAGES["examples"], re.MULTILINE))
    programs = {path.name: ast.get_docstring(ast.parse(path.read_text("utf-8"))) for path in ROOT.glob("examples/*.py")}
    assert said == {name: text.partition("\n\n")[0].replace("\n", " ") for name, text in programs.items()}
    sources = [argument for argument, _, _ in directives("literalinclude", PAGES["examples"])]
    assert sorted(sources) == sorted(f"../examples/{name}" for name in programs)


def test_stable_names_are_there_and_do_not_vanish():
    """One that goes needs a `DeprecationWarning` for two releases first, and may leave the page only then."""
    text = PAGES["stability"].partition("## Stable")[2].partition("## Experimental")[0]
    names = re.findall(r"`(\w+)`", text[text.index("- ") :])
    assert len(names) == len(set(names)) == 86
    assert [name for name in names if name not in sf.__all__] == []
