"""The table of public names by module, made of the stub: run this when a name has come or gone."""

import ast
import re
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src" / "seqformats"
EAGER_MODULES = ("converters.convert", "errors", "formats", "launch.threads", "registry")
"""The modules that importing the package loads anyway."""


def text():
    """What `names.py` has to say."""
    modules, names = [], {}
    for node in ast.parse((SOURCE / "__init__.pyi").read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom) and node.module:
            found = [alias.name for alias in node.names]
            names.setdefault(node.module, []).extend(exported(node.module) if found == ["*"] else found)
        elif isinstance(node, ast.ImportFrom):
            modules += [alias.name for alias in node.names]
    lines = ['"""Public names by their modules, made of `__init__.pyi` by `tests/table_of_names.py`."""', ""]
    lines += [f"MODULES = ({', '.join(map(quoted, modules))})"]
    lines += [f"EAGER_MODULES = ({', '.join(map(quoted, EAGER_MODULES))})", "PUBLIC_NAMES = {"]
    for module, found in names.items():
        lines += [f'    "{module}": """', *wrapped(found), '    """,']
    return "\n".join([*lines, "}", ""])


def exported(module):
    """The names in ``__all__`` of a module, which is not imported."""
    source = (SOURCE / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8")
    text = re.search(r"^__all__ = (\[.*?\])", source, re.DOTALL | re.MULTILINE)[1]
    return ast.literal_eval(text)


def quoted(name):
    return f'"{name}"'


def wrapped(names):
    """The names in lines of at most 120 characters."""
    lines = [" " * 7]
    for name in names:
        if len(lines[-1]) + 1 + len(name) > 120:
            lines.append(" " * 7)
        lines[-1] += f" {name}"
    return lines


if __name__ == "__main__":
    (SOURCE / "names.py").write_text(text(), encoding="utf-8")
