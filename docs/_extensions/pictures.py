"""The directives ``batch`` and ``plot``: code that ends with an encoding or with axes, and below it the picture.

That of an encoding is what a notebook would show; that of axes is drawn here, as SVG in the colours of the page.
"""

import ast
import io
import re

from docutils import nodes
from sphinx.util.docutils import SphinxDirective


def value_of(source, names):
    """Run lines of Python; what their last expression is."""
    *before, last = ast.parse(source).body
    exec(compile(ast.Module(before, []), "<page>", "exec"), names)
    return eval(compile(ast.Expression(last.value), "<page>", "eval"), names)


class Batch(SphinxDirective):
    """The blocks of a page share their names."""

    has_content = True

    def draw(self, source, names):
        return value_of(source, names)._repr_html_()

    def run(self):
        source = "\n".join(self.content)
        names = self.env.temp_data.setdefault("pictures", {})
        picture = self.draw(source, names)
        code = nodes.literal_block(source, source, language="python")
        return [code, nodes.raw("", f'<div class="batch">{picture}</div>', format="html")]


# What stands for the colour of the text on the page: matplotlib draws with a colour, which becomes that one.
INK = "#010203"
INKED = ("text.color", "axes.edgecolor", "axes.labelcolor", "axes.titlecolor", "xtick.color", "ytick.color")


def svg_of(source, names):
    """The figure of the axes that some lines end with, light on dark pages and dark on light ones; always the same."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    style = dict.fromkeys(INKED, INK) | {"svg.fonttype": "none", "svg.hashsalt": "", "font.family": "sans-serif"}
    with mpl.rc_context(style):
        figure = value_of(source, names).figure
        file = io.StringIO()
        figure.savefig(file, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
        plt.close(figure)
    svg = file.getvalue()
    svg = svg[svg.index("<svg") :].replace(INK, "currentColor")
    return re.sub(r"<metadata>.*?</metadata>\s*", "", svg, flags=re.DOTALL)


class Plot(Batch):
    """The same of code that ends with axes."""

    def draw(self, source, names):
        return svg_of(source, names)


def setup(app):
    """What Sphinx calls."""
    app.add_directive("plot", Plot)
    app.add_directive("batch", Batch)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
