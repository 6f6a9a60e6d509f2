"""Public names on the site: where they are described, and links to them.

The directive `names` lists public names, each of which stands on one page of docs/reference. They are shown as a table
of first sentences, and below it in full::

    ```{names}
    convert
    convert_like
    ```

With `:module: seqformats.hf` they are those of another module. A name with `*` at its end stands for all others that
begin so. The directive `every-name` is a table of all names.

The words of other libraries (`seqformats.aliases`) are in the index of the search, each where its name is described.

A name in single backticks in a docstring is a link if it is public, and code if it is not, a parameter say. In the code
of a line on the pages names after `sf.` are links.
"""

import fnmatch
import importlib
import inspect
import re
import sys
from pathlib import Path
from types import FunctionType
from typing import ClassVar

from docutils import nodes
from sphinx import addnodes
from sphinx.transforms import SphinxTransform
from sphinx.util.docutils import SphinxDirective, SphinxRole

import seqformats
from seqformats.aliases import ALIASES

PACKAGE = "seqformats"
METHODS = (FunctionType, classmethod, staticmethod, property)
MODULES = ("beam", "ctc", "engines", "hf", "rl", "thinc", "torch")
ELSEWHERE = ("RULES", "Rule")
"""Exported names that the pages explain where they are used."""
BARE = ("pipelines", "tour")
"""Pages whose tables have names without `sf.`, all of this package."""


class Names(SphinxDirective):
    """The names in the block, one a line."""

    has_content = True
    option_spec: ClassVar = {"module": str}

    def run(self):
        module = self.options.get("module", PACKAGE)
        names = complete(module, [line.strip() for line in self.content if line.strip()])
        lines = [f".. currentmodule:: {module}", "", ".. autosummary::", "   :nosignatures:", ""]
        lines += [f"   {name}" for name in names]
        lines += ["", *stability(module, names)]
        for name in names:
            lines += ["", *words_for(module, name), *described(module, name)]
        return self.parse_text_to_nodes("\n".join(["````{eval-rst}", *lines, "````"]))


def complete(module, names):
    """The names, and where one ends in `*` all others of the module that begin so."""
    known = [name for name in importlib.import_module(module).__all__ if name not in names]
    return [found for name in names for found in (fnmatch.filter(known, name) if name.endswith("*") else [name])]


class EveryName(SphinxDirective):
    """All public names with their first sentences, by module."""

    def run(self):
        lines = []
        for module in [PACKAGE, *(f"{PACKAGE}.{part}" for part in sorted({*MODULES, "plot"}))]:
            names = importlib.import_module(module).__all__
            names = sorted(names if module == PACKAGE else {*names} - {*seqformats.__all__, *ELSEWHERE})
            lines += [f".. rubric:: {module.replace(PACKAGE, 'sf')}", "", f".. currentmodule:: {module}", ""]
            lines += [".. autosummary::", "   :nosignatures:", "", *(f"   {name}" for name in names), ""]
        return self.parse_text_to_nodes("\n".join(["````{eval-rst}", *lines, "````"]))


def stable_names():
    """The names of the package that stay, as the page about that lists them."""
    page = (Path(__file__).parents[1] / "stability.md").read_text(encoding="utf-8")
    return set(re.findall(r"`(\w+)`", re.search(r"^## Stable\n.*?^-(.*?)^## ", page, re.DOTALL | re.MULTILINE)[1]))


def stability(module, names):
    """A line about which names of a group may change."""
    loose = [name for name in names if module != PACKAGE or name not in stable_names()]
    if not loose or module == f"{PACKAGE}.formats":
        return []
    which = "All of these are" if len(loose) == len(names) else ", ".join(f"`{name}`" for name in loose) + ":"
    return [f"{which} :doc:`experimental </stability>`.", ""]


def words_for(module, name):
    """The entries of the index with the words that others have for a name."""
    full = f"{module}.{name}".removeprefix(f"{PACKAGE}.")
    words = [word for word, target in ALIASES.items() if target == full]
    return [".. index::", *(f"   ! single: {word}" for word in words), ""] if words else []


def described(module, name):
    """The directive that shows a name in full."""
    thing = importlib.import_module(module)
    owner = None
    for part in name.split("."):
        owner, thing = thing, inspect.getattr_static(thing, part, None) or getattr(thing, part)
    if inspect.isclass(owner):
        return [f".. auto{'property' if isinstance(thing, property) else 'method'}:: {name}"]
    if not inspect.isclass(thing):
        return [f".. auto{'function' if callable(thing) else 'data'}:: {name}"]
    if issubclass(thing, Exception):
        return [f".. autoexception:: {name}", "   :show-inheritance:"]
    return [f".. autoclass:: {name}", *([] if is_foreign(thing) else ["   :members:"])]


def is_foreign(kind):
    """Has it methods for another library, which describes them?"""
    own = {PACKAGE, *sys.stdlib_module_names}
    return any(base.__module__.partition(".")[0] not in own for base in kind.__mro__)


def target_of(text, module=PACKAGE):
    """Under which full name the site describes what a text means, or None where it means no public name.

    It is looked for in the module that is being described, then in the package, then in those where a name of the
    package has helpers of its own.
    """
    name = re.sub(r"^(sf|seqformats)\.", "", text)
    place, _, rest = name.partition(".")
    if place in MODULES and rest:
        return described_as(f"{PACKAGE}.{place}", rest)
    places = dict.fromkeys([module, PACKAGE, f"{PACKAGE}.beam"])
    return next(filter(None, (described_as(place, name) for place in places)), None)


def described_as(module, name):
    """The full name of what a module exports, or of one of its methods."""
    found = importlib.import_module(module)
    head, _, member = name.partition(".")
    if head not in getattr(found, "__all__", ()):
        return None
    thing = getattr(found, head)
    home = PACKAGE if getattr(seqformats, head, None) is thing else module
    if not member:
        return f"{home}.{head}"
    if not isinstance(inspect.getattr_static(thing, member, None), METHODS):
        return None
    return f"{home}.{head}.{member}" if member in vars(thing) else f"{PACKAGE}.formats.Encoding.{member}"


def link(env, target, shown):
    """A link to the description of a name, which must be there."""
    place = {"refdomain": "py", "reftype": "obj", "refdoc": env.current_document.docname}
    return addnodes.pending_xref("", shown, reftarget=target, refexplicit=True, **place)


class Name(SphinxRole):
    """What single backticks mean in docstrings."""

    def run(self):
        target = target_of(self.text, self.env.ref_context.get("py:module") or PACKAGE)
        if target is None:
            return [nodes.literal(self.text, self.text)], []
        found = link(self.env, target, nodes.literal(self.text, self.text, classes=["xref", "py", "py-obj"]))
        self.set_source_info(found)
        return [found], []


class LinkNames(SphinxTransform):
    """`sf.name` in the code of a line leads to its description; in the tables of some pages bare names do."""

    default_priority = 5

    def apply(self, **options):
        if not self.document["source"].endswith(".md"):
            return
        for node in list(self.document.findall(nodes.literal)):
            if linked(node):
                continue
            bare = self.env.current_document.docname in BARE and isinstance(node.parent.parent, nodes.entry)
            parts = re.split(r"^(\w+)$" if bare else r"(?<![\w.])(sf(?:\.\w+)+)", node.astext())
            found = [self.part(node, text, k % 2 == 1) for k, text in enumerate(parts) if text]
            if any(isinstance(part, nodes.Element) for part in found):
                node.clear()
                node.extend(found)

    def part(self, node, text, named):
        """A name with its link, or other text."""
        target = target_of(text) if named else None
        if target is None:
            return nodes.Text(text)
        found = link(self.env, target, nodes.inline(text, text))
        found.source, found.line = node.source, node.line
        return found


def linked(node):
    """Is it a link, or in a heading, already?"""
    while node is not None:
        if isinstance(node, (nodes.title, nodes.reference, addnodes.pending_xref, addnodes.desc_signature)):
            return True
        node = node.parent
    return False


def by_public_name(app, env, node, content):
    """What "See Also" names: under the name that the site has for it."""
    target = target_of(node["reftarget"], node.get("py:module") or PACKAGE) if node.get("refdomain") == "py" else None
    if target is None:
        return None
    python = env.domains.python_domain
    return python.resolve_xref(env, node["refdoc"], app.builder, "obj", target, node, content)


def parameters_are_code(app, what, name, obj, options, lines):
    """A parameter that is called like a function is not that function."""
    try:
        names = set(inspect.signature(obj).parameters)
    except (TypeError, ValueError):
        return
    for k, line in enumerate(lines):
        lines[k] = re.sub(r"(?<!`)`(\w+)`(?!`)", lambda m: f"``{m[1]}``" if m[1] in names else m[0], line)


def no_signature_of_results(app, what, name, obj, options, signature, back):
    """Classes without a section of parameters are given to users, not built by them."""
    if (
        signature
        and what in ("class", "exception")
        and not re.search(r"^\s*Parameters\n\s*---", obj.__doc__ or "", re.MULTILINE)
    ):
        return "", back
    return None


def bases_by_public_names(app, name, obj, options, bases):
    """Errors are public in the package, not in the file where they are written."""
    bases[:] = [
        f":py:exc:`{PACKAGE}.{base.__name__}`" if base.__module__.startswith(PACKAGE) else base for base in bases
    ]


def without_repetitions(app, what, name, obj, skip, options):
    """What a search asks of every limit is described once, by `Constraint`; fields of a named tuple by its text."""
    asked = name == "begin" and getattr(obj, "__qualname__", "") != "Constraint.begin"
    return True if asked or type(obj).__name__ == "_tuplegetter" else None


def setup(app):
    """What Sphinx calls."""
    app.setup_extension("sphinx.ext.autodoc")
    app.add_directive("names", Names)
    app.add_directive("every-name", EveryName)
    app.add_role("name", Name())
    app.add_transform(LinkNames)
    app.connect("autodoc-process-docstring", parameters_are_code, priority=400)
    app.connect("autodoc-process-signature", no_signature_of_results)
    app.connect("autodoc-process-bases", bases_by_public_names)
    app.connect("autodoc-skip-member", without_repetitions)
    app.connect("missing-reference", by_public_name)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
