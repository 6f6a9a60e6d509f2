"""In tables a number and its unit stay on one line, and so does a span from one to another."""

import re

from docutils import nodes
from sphinx.transforms import SphinxTransform


class KeepQuantities(SphinxTransform):
    """Spaces that do not break, within "1.59 ms" and "(1.59 ms to 1.65 ms)"."""

    default_priority = 800

    def apply(self, **options):
        for entry in self.document.findall(nodes.entry):
            for text in list(entry.findall(nodes.Text)):
                kept = re.sub(r"\([^()]* to [^()]*\)|\d (?:s|ms|µs|ns|KB|MB|%)(?!\w)", unbroken, text)
                if kept != text:
                    text.parent.replace(text, nodes.Text(kept))


def unbroken(match):
    """The same text in one line."""
    return match[0].replace(" ", "\N{NO-BREAK SPACE}")


def setup(app):
    """What Sphinx calls."""
    app.add_transform(KeepQuantities)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
