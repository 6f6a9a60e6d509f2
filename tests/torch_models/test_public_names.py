"""Names of PyTorch that this library uses: those that PyTorch keeps, and a list of the others, with reasons."""

import ast
import re
from pathlib import Path

import seqformats

HOME = Path(seqformats.__file__).parent
SOURCES = {".py", ".pyi", ".pyx", ".pxi"}
ATTRIBUTE = re.compile(r"[\w.]*\w\._[a-zA-Z]\w*(?:\.\w+)*")
TEXT = re.compile(r"(torch[\w.]*\.)?_[a-zA-Z]\w\w+(\.\w+)*")
OTHERS = {"_asdict", "_fields", "_make", "_replace"}  # of named tuples, documented
OTHERS |= {"_attn_implementation", "_can_set_attn_implementation"}  # of transformers
OTHERS |= {"_length", "_new_tokens"}  # ends of names
KEPT = {  # no public name does the same
    "__init__.py": {"torch._dynamo"},  # whose import is waited for, as a text; nothing is asked of it
    "arrays/functions.py": {"_is_zerotensor"},  # gradients that are zeros without memory
    "arrays/torch.py": {
        "torch._C._are_functorch_transforms_active",  # is this within torch.func? and what stands behind its tensors
        "torch._C._functorch.is_functorch_wrapped_tensor",
        "torch._functorch.pyfunctorch",
        "torch._C._is_fwd_grad_enabled",  # is this within forward-mode differentiation?
        "_current_level",
        "torch._C._len_torch_dispatch_stack",  # are there modes? where there is no such name, none is asked
        "torch._C._cuda_getCurrentRawStream",  # a tenth of what a stream object takes, which is the way without it
    },
    "core/tensors.pxi": {  # the fast path asks the same; it lets no tensors in where one of these is missing
        "torch._C._are_functorch_transforms_active",
        "torch._C._len_torch_dispatch_stack",
        "_current_level",
    },
    "torch/citizen.py": {
        "torch.utils._pytree",  # public as torch.utils.pytree in later releases alone
        "torch.utils.data._utils.collate.default_collate_fn_map",  # into which PyTorch's own guide enters types
    },
    "torch/nested.py": {"_ragged_idx"},  # which axis of a nested tensor is ragged
    "torch/recurrent.py": {  # hooks of a layer and of all layers, which are PyTorch's to call
        *("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks"),
        "_global",
    },
}


def names_in(text, cython=False):
    """The dotted names of a file as imports, attributes and texts have them."""
    if cython:
        return [name for line in text.splitlines() for name in ATTRIBUTE.findall(line.partition("#")[0])]
    names = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and not node.level:
            names += [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.Attribute):
            names.append(ast.unparse(node))
        elif isinstance(node, ast.Call) and len(node.args) > 1 and isinstance(node.args[1], ast.Constant):
            names.append(f"{ast.unparse(node.args[0])}.{node.args[1].value}")  # of getattr
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and TEXT.fullmatch(node.value):
            names.append(node.value if node.value.startswith("torch") else f"x.{node.value}")
    return names


def own_names(text):
    """The names with an underscore that a file gives to something; what is called so elsewhere is not told from it."""
    for node in ast.walk(ast.parse(text)):
        names = [getattr(node, field, None) for field in ("asname", "arg", *["name"] * (type(node) is not ast.alias))]
        if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Store):
            names.append(ast.unparse(node).rpartition(".")[2])
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__slots__":
            names += re.findall(r"\w+", ast.unparse(node.value))
        yield from [name for name in names if isinstance(name, str) and name.startswith("_")]


def private_names(names, own):
    """Find private names: those of PyTorch in full, of others the part with an underscore; the longest of each."""
    found = set()
    for name in names:
        parts = name.split(".")
        private = [part for part in parts[1:] if re.fullmatch(r"_[a-zA-Z]\w*", part) and part not in own | OTHERS]
        if private and all(part.isidentifier() for part in parts):
            found.add(".".join(parts[parts.index("torch") :]) if "torch" in parts[:-1] else private[0])
    return {name for name in found if not any(f".{name}." in f".{other}." for other in found - {name})}


def test_no_private_name_of_pytorch_but_the_listed():
    """In every file that speaks of PyTorch, those of the fast paths among them."""
    texts = {
        path.relative_to(HOME).as_posix(): path.read_text() for path in HOME.rglob("*.p[yx]*") if path.suffix in SOURCES
    }
    own = {name for file, text in texts.items() if file.endswith(".py") for name in own_names(text)}
    found = {}
    for file, text in texts.items():
        if re.search(r"\btorch\b", text) and not file.endswith(".pyi"):
            found[file] = private_names(names_in(text, not file.endswith(".py")), own)
    assert {file: names for file, names in found.items() if names} == KEPT


def test_a_private_name_is_seen():
    code = (
        "import torch._inductor\nfrom torch.utils import _pytree\nself.torch._C._x\nf('torch._dynamo')\ntorch.compile\n"
        "getattr(torch._C, '_y', 0)\nx._own\nx._version\nhooks = '_forward_hooks'\nnamed._replace(a=1)"
    )
    names = {"torch._inductor", "torch.utils._pytree", "torch._C._x", "torch._dynamo", "torch._C._y", "_version"}
    assert private_names(names_in(code), {"_own"}) == names | {"_forward_hooks"}
    assert private_names(names_in("f(torch._C._z)  # torch._no\ng(x._level)", True), set()) == {"torch._C._z", "_level"}
