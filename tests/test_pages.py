"""The pages: their examples give what is shown, and wrong ones would be seen."""

import ast
import doctest

import pytest
from pages import DOCS, blocks_of, broken, failures

import seqformats as sf

PAGES = {
    "events": ("[[2, 3, 4], [1]]", "[[2, 3, 3], [1]]"),
    "packing": ("[1.077, 1.016]", "[1.016, 1.077]"),
    "recommenders": ("[[3, 1], [], [5, 9]]", "[[3, 1], [], [9, 5]]"),
    "reinforcement-learning": ("[2., 4., 0., 6.]", "[4., 4., 0., 6.]"),
    "retrieval": ("array([0, 2, 0])", "array([0, 1, 0])"),
    "speech": ("82, 77)", "77, 82)"),
    "text": ("'evïan'", "'evian'"),
    "tour": ("array([3., 1., 7.])", "array([1., 3., 7.])"),
}
OF_PEERS = {
    "gradients": ("array([3., 2., 2.])", "array([2., 2., 3.])"),
    "models": ("tensor([2., 3., 3.])", "tensor([3., 3., 2.])"),
    "recurrent": ("torch.Size([6, 32])", "torch.Size([6, 16])"),
    "thinc": ("[[0.5], [0.5]]", "[[0.0], [1.0]]"),
}
OF_BRIDGES = {
    "pipelines": ("array([7, 0, 9])", "array([7, 0, 8])"),
    "transformers": ("(array([2, 3, 1]),", "(array([2, 3, 2]),"),
}
MARKED = (
    *PAGES.items(),
    *(pytest.param(*page, marks=pytest.mark.peers) for page in OF_PEERS.items()),
    *(pytest.param(*page, marks=pytest.mark.bridges) for page in OF_BRIDGES.items()),
)
OF_JAX = [block for block in blocks_of(DOCS / "models.md") if "jax" in block]


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors is in prototype stage")
@pytest.mark.parametrize(("page", "mistake"), MARKED)
def test_pages_show_what_comes(page, mistake):
    blocks = [block for block in blocks_of(DOCS / f"{page}.md") if block not in OF_JAX]
    assert failures(blocks, page) == []
    assert len(failures(broken(blocks, *mistake), page)) == 1


RECIPES = {
    "cookbook": [],
    "events": [],
    "packing": ["batch.data", "batch.documents.data", "batch.documents.data"],  # what a model and its attention take
    "recommenders": [],
    "reinforcement-learning": [],
    "retrieval": [],
    "speech": [],
    "text": [],
}


def shown(node):
    """The parts of an expression that its output shows: the last attributes, methods and elements of it."""
    yield node
    parts = {ast.Attribute: "value", ast.Subscript: "value", ast.Call: "func", ast.Expr: "value"}
    if isinstance(node, ast.Tuple) or (isinstance(node, ast.Call) and ast.unparse(node.func) in ("print", "tuple")):
        for part in node.elts if isinstance(node, ast.Tuple) else node.args:
            yield from shown(part)
    elif type(node) in parts:
        yield from shown(getattr(node, parts[type(node)]))


@pytest.mark.parametrize("page", RECIPES)
def test_recipes_work_on_batches(page):
    """They take the array out of a batch where it is shown, and where a model is called."""
    examples = doctest.DocTestParser().get_examples("\n".join(blocks_of(DOCS / f"{page}.md")))
    nodes = [node for example in examples for node in ast.walk(ast.parse(example.source))]
    seen = {id(part) for node in nodes if isinstance(node, ast.Expr) for part in shown(node)}
    arrays = [
        node for node in nodes if isinstance(node, ast.Attribute) and node.attr == "data" and id(node) not in seen
    ]
    assert RECIPES[page] == [ast.unparse(node) for node in arrays if id(node) not in seen]


@pytest.mark.jax
def test_blocks_of_jax_show_what_comes():
    """As a user has JAX, whatever other tests have switched on."""
    import jax

    with jax.enable_x64(False):
        assert failures(OF_JAX) == []
        assert len(failures(broken(OF_JAX, "(True, (3, 2))", "(True, (2, 3))"))) == 1


def test_devices_show_what_comes():
    """In the simulator, and where there is a GPU."""
    from libraries import GPUS

    if not GPUS:
        pytest.skip("there is neither a GPU nor the simulator")
    blocks = blocks_of(DOCS / "devices.md")
    assert failures(blocks) == []
    assert len(failures(broken(blocks, "array([1., 9.]", "array([9., 1.]"))) == 1


@pytest.mark.peers
def test_each_recipe_runs_alone():
    """Behind the imports that all share; and it is short."""
    imports, *recipes = blocks_of(DOCS / "cookbook.md")
    assert len(recipes) == 18
    for recipe in recipes:
        assert recipe.count("\n") <= 30
        assert failures([imports, recipe]) == []


@pytest.mark.peers
def test_every_layer_of_thinc_is_on_its_page():
    page = (DOCS / "thinc.md").read_text(encoding="utf-8")
    assert [name for name in sf.thinc.__all__ if f"`{name}" not in page] == ["SequenceOps"]
