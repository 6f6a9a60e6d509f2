"""What this library imports of PyTorch: names that PyTorch keeps, and a list of the others, each with its reason."""

import ast
import re
from pathlib import Path

import seqformats

HOME = Path(seqformats.__file__).parent
KEPT = {  # no public name does the same
    ("__init__.py", "torch._dynamo"),  # whose import is waited for, as a text; nothing is asked of it
    ("arrays/torch.py", "torch._C._are_functorch_transforms_active"),  # is this within torch.func?
    ("arrays/torch.py", "torch._functorch.pyfunctorch"),  # tensors within torch.func, asked for where they are met
    ("torch/citizen.py", "torch.utils._pytree"),  # public as torch.utils.pytree in later releases alone
    ("torch/citizen.py", "torch.utils.data._utils.collate"),  # where PyTorch's own guide enters types into its table
}


def private_names(tree):
    """The dotted names of PyTorch in a file, as imports, attributes or texts, that have a part with an underscore."""
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.ImportFrom) and not node.level and (node.module or "").split(".")[0] == "torch":
            names = [node.module, *[f"{node.module}.{alias.name}" for alias in node.names]]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.Attribute):
            names = [ast.unparse(node)]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            names = [node.value]
        for name in names:
            if re.fullmatch(r"torch(\.\w+)*\._[a-z]\w*(\.\w+)*", name):
                yield name


def test_no_private_name_of_pytorch_but_the_listed():
    found = set()
    for path in HOME.rglob("*.py"):
        found |= {(path.relative_to(HOME).as_posix(), name) for name in private_names(ast.parse(path.read_text()))}
    least = {(file, name) for file, name in found if not any((file, name.rpartition(".")[0]) == one for one in KEPT)}
    assert least == KEPT


def test_a_private_name_is_seen():
    code = "import torch._inductor\nfrom torch.utils import _pytree\ntorch._C._x\nf('torch._dynamo')\ntorch.compile"
    assert len(list(private_names(ast.parse(code)))) == 4
