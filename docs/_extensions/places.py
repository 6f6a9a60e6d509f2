"""Where links lead on the site that lead to files in a checkout."""

import re


def examples(app, docname, content):
    """A program is shown on the page of examples."""
    content[0] = re.sub(r"\]\((?:\.\./)*examples/(\w+)\.py\)", r"](examples.md#\1py)", content[0])


def root(app, path, docname, content):
    """Files of the root, which pages include, have links that begin there; a path as text becomes the page's title."""
    if path.parent.name != "..":
        return
    examples(app, docname, content)
    text = re.sub(r"\[docs/[^\]]+\]\(docs/", "[](", content[0])
    text = text.replace("](docs/", "](").replace("](CHANGELOG.md)", "](changelog.md)")
    content[0] = re.sub(r"\]\((LICENSE|CITATION\.cff)\)", r"](../\1)", text)


def setup(app):
    """What Sphinx calls."""
    app.connect("source-read", examples)
    app.connect("include-read", root)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
