"""How `make docs` builds the site: Sphinx over the pages of this folder and the docstrings of the package."""

import sys
from pathlib import Path

from numpydoc.xref import DEFAULT_LINKS

import seqformats

sys.path.insert(0, str(Path(__file__).parent / "_extensions"))

project = "seqformats"
author = "The seqformats authors"
copyright = author
version = release = seqformats.__version__

extensions = [
    "myst_parser",
    "names",
    "numpydoc",
    "pictures",
    "places",
    "quantities",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_copybutton",
    "sphinx_design",
]
exclude_patterns = ["_*", "**/__pycache__"]

# A link that leads nowhere is a warning, and a warning is an error.
nitpicky = True
default_role = "name"
smartquotes = False

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3

# Types stand in the sections of the docstrings, in words.
autodoc_typehints = "none"
autodoc_preserve_defaults = True
autodoc_member_order = "bysource"
autosummary_generate = False
numpydoc_show_class_members = False
# Among the words of a type, classes and errors of the package are links; those of Python and NumPy are words.
DEFAULT_LINKS.clear()
numpydoc_xref_param_type = True
numpydoc_xref_ignore = "all"
numpydoc_xref_aliases = {name: f"seqformats.{name}" for name in seqformats.__all__ if name[0].isupper()}
add_module_names = False
maximum_signature_line_length = 80
toc_object_entries_show_parents = "hide"

copybutton_prompt_text = r">>> |\.\.\. "
copybutton_prompt_is_regexp = True

html_theme = "furo"
html_title = "seqformats"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_show_copyright = False
html_show_sourcelink = False
html_copy_source = False
pygments_dark_style = "github-dark"
