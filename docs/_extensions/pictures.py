"""The directive ``batch``: code that ends with an encoding, and below it the picture that a notebook would show."""

import ast

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

    def run(self):
        source = "\n".join(self.content)
        names = self.env.temp_data.setdefault("pictures", {})
        picture = value_of(source, names)._repr_html_()
        code = nodes.literal_block(source, source, language="python")
        return [code, nodes.raw("", f'<div class="batch">{picture}</div>', format="html")]


def setup(app):
    """What Sphinx calls."""
    app.add_directive("batch", Batch)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
