"""What the messages of errors advise works: each piece of advice is followed, in a call that has met its error.

The end of a message, behind a semicolon, says what to do.  All of them are found in the sources; one that is new needs
a call in `FOLLOWED`, or a line in `ELSEWHERE` that says why it has none here.
"""

import ast
import pathlib
import re

import numpy as np
import pytest

import seqformats as sf
from seqformats.kernels import locate

pytestmark = pytest.mark.passes("compiled", reason="messages are the same in every pass")

SOURCES = pathlib.Path(sf.__file__).parent

# Ends that say what there is, not what to do.
FACTS = re.compile(
    r"^(those|there (are|is)|the options are|options there|they cannot|only dense|its (columns|first|results|members)|"
    r"the (first|columns)|it has|it returned|for coverage|scores are|no sequence|one at least|does one|row \{|"
    r"what has |"
    r'relative offsets|sequences end|a mask is|all must|GPUs here|numba-cuda|offsets must|where several|"\{\}" stops|'
    r'"longest_first"|with prompts|result\(\) has|these must|the (ids|tokenizer)|a (tuple|batch|fast) |flatten|'
    r"start \{|hidden is|"
    r"kernels for|base is|logits are|q is|x is|floats and complex|an array of targets|it is built|pip install|"
    r"\{\} (has|positions)|$)"
)

x = sf.Ragged(np.array([3.0, 1.0, 2.0]), [2, 1])
ids = sf.Ragged(np.array([3, 1, 2]), [2, 1])
two = sf.LoD.from_lengths(np.arange(3), [[1, 1], [2, 1]])
pairs = sf.Pairs(x, ids)
masked = np.ma.array([1.0, 2.0], mask=[True, False])


def times(x, factor, out, at, width, lo, hi):
    """A kernel of a user."""
    for u in range(lo, hi):
        _, first, length = locate(at, u)
        for p in range(first * width, (first + length) * width):
            out[p] = x[p] * factor[0]


# The end of a message: a call that meets it, and the one that it advises.
FOLLOWED = {
    "sf.to(x, {}) brings a batch there": (lambda: x.to("numpy"), lambda: sf.to(x, "numpy")),
    "sf.where(mask, number, base) puts one number everywhere": (
        lambda: sf.masked_scatter(x, x > 1, 0.0),
        lambda: sf.where(x > 1, 0.0, x),
    ),
    "give weights=, which have one": (
        lambda: sf.vjp(sf.bincount, ids, 4),
        lambda: sf.vjp(sf.bincount, ids, 4, weights=x),
    ),
    "sf.select(x, bools, level=-1) keeps whole sequences": (
        lambda: sf.filter(x, np.array([True, False])),
        lambda: sf.select(x, np.array([True, False]), level=-1),
    ),
    "give [text]": (lambda: sf.from_text("ab"), lambda: sf.from_text(["ab"])),
    "say seed=": (
        lambda: sf.attention(*[sf.Ragged(np.ones((2, 1)), [2])] * 3, dropout=0.5),
        lambda: sf.attention(*[sf.Ragged(np.ones((2, 1)), [2])] * 3, dropout=0.5, seed=1),
    ),
    "x.data is the array, sf.with_array(fn)(x) calls a function of it": (
        lambda: np.fft.fft(x),
        lambda: [np.fft.fft(x.data), sf.with_array(np.fft.fft)(x)],
    ),
    "sf.reduce_sum(x * y) is one of vectors item by item, sf.map_sequences(fn, x) a function of every sequence": (
        lambda: x @ x,
        lambda: [sf.reduce_sum(x * x), sf.map_sequences(len, x)],
    ),
    "take x.sequences(), whose elements are arrays, or sf.join_batches(list)": (
        lambda: sf.with_list(lambda a: [2 * one for one in a])(x),
        lambda: [sf.with_list(lambda a: [2 * one for one in a.sequences()])(x), sf.join_batches(list(x))],
    ),
    "x.sequences() has the arrays of a batch": (
        lambda: sf.List([x[0], x[1]]),
        lambda: sf.List(list(x.sequences())),
    ),
    "sf.where(mask, a, b) chooses between two results": (
        lambda: np.exp(x, where=True),
        lambda: sf.where(x > 0, np.exp(x), 0),
    ),
    "sf.expand_as(rows, x) repeats row i for each item of sequence i, sf.Ragged(rows, x.lengths) has a row for each "
    "item": (
        lambda: x + np.ones(3),
        lambda: [x + sf.expand_as(np.ones(2), x), x + sf.Ragged(np.ones(3), x.lengths)],
    ),
    "sf.expand_as(rows, x) repeats a row for each item of a sequence, sf.reduce_sum(x) adds items up": (
        lambda: x + x[[1, 0]],
        lambda: [sf.expand_as(np.ones(2), x), sf.reduce_sum(x)],
    ),
    "sf.Ragged(mask, x.lengths) is one": (
        lambda: sf.where(x.data > 1, x, 0),
        lambda: sf.where(sf.Ragged(x.data > 1, x.lengths), x, 0),
    ),
    "mask != 0 does": (lambda: sf.where(ids, x, 0), lambda: sf.where(ids != 0, x, 0)),
    "Masked.from_mask(data, mask) takes a mask": (
        lambda: sf.Masked(np.ones((1, 2)), mask=[[1, 0]]),
        lambda: sf.Masked.from_mask(np.ones((1, 2)), np.array([[1, 0]])),
    ),
    "seed= shuffles the batches of each window": (
        lambda: sf.batches(iter([[1], [2]]), max_items=4, shuffle=True),
        lambda: list(sf.batches(iter([[1], [2]]), max_items=4, seed=1)),
    ),
    'give integers, or mode="put"': (
        lambda: sf.scatter([[True]], [[0]], [[False]]),
        lambda: sf.scatter([[True]], [[0]], [[False]], mode="put"),
    ),
    "give candidates": (
        lambda: sf.maxsim([np.ones((2, 3))], [np.ones((1, 3))] * 2),
        lambda: sf.maxsim([np.ones((2, 3))], [np.ones((1, 3))] * 2, [[0, 1]]),
    ),
    "sf.Masked(base, [m] * n) makes one of an array": (
        lambda: sf.scatter(np.zeros((2, 3)), [[0], [2]], [[1.0], [1.0]], mode="put"),
        lambda: sf.scatter(sf.Masked(np.zeros((2, 3)), [3] * 2), [[0], [2]], [[1.0], [1.0]], mode="put"),
    ),
    "give the items a float dtype": (
        lambda: sf.vjp(sf.reduce_sum, ids),
        lambda: sf.vjp(sf.reduce_sum, sf.astype(ids, "float32")),
    ),
    "np.asarray(...) makes one": (lambda: sf.Ragged("ab", [2]), lambda: sf.Ragged(np.asarray([1, 2]), [2])),
    "give x.filled(value) or x.data": (
        lambda: sf.Ragged(masked, [2]),
        lambda: [sf.Ragged(masked.filled(0), [2]), sf.Ragged(masked.data, [2])],
    ),
    "give a value of that dtype": (
        lambda: sf.convert(ids, sf.Masked, fill=0.5),
        lambda: sf.convert(ids, sf.Masked, fill=7),
    ),
    "give truncate=True or a width of at least {}": (
        lambda: sf.convert(x, sf.Masked, width=1),
        lambda: [sf.convert(x, sf.Masked, width=1, truncate=True), sf.convert(x, sf.Masked, width=2)],
    ),
    "give normalised=False for logits, and the logarithms of probabilities": (
        lambda: sf.ctc_greedy(sf.Ragged(np.full((2, 3), 0.5), [2])),
        lambda: [
            sf.ctc_greedy(sf.Ragged(np.full((2, 3), 0.5), [2]), normalised=False),
            sf.ctc_greedy(sf.Ragged(np.log(np.full((2, 3), 0.5)), [2])),
        ],
    ),
    "sf.Ragged({}, sf.lengths({})) makes one of rows": (
        lambda: sf.rl.ratios(x, np.ones(3)),
        lambda: sf.rl.ratios(x, sf.Ragged(np.ones(3), sf.lengths(x))),
    ),
    "sf.Ragged(where, lengths) is one": (
        lambda: sf.rl.token_rewards(np.ones(2), np.ones(3, bool)),
        lambda: sf.rl.token_rewards(np.ones(2), sf.Ragged(np.ones(3, bool), [2, 1])),
    ),
    "give where= as a batch": (
        lambda: sf.rl.returns(np.ones(2)),
        lambda: sf.rl.returns(np.ones(2), where=sf.Ragged(np.ones(3, bool), [2, 1])),
    ),
    "give {} != 0, or another comparison": (
        lambda: sf.filter(x, np.ones(3)),
        lambda: sf.filter(x, np.ones(3) != 0),
    ),
    "give x != 0, or another comparison": (
        lambda: sf.recurrence(x, 0.5, where=np.ones(3)),
        lambda: sf.recurrence(x, 0.5, where=np.ones(3) != 0),
    ),
    "give group= a key per sample where sizes differ": (
        lambda: sf.rl.group_advantages(np.ones(3), 2),
        lambda: sf.rl.group_advantages(np.ones(3), group=["a", "a", "b"]),
    ),
    "take y.one or y.two": (lambda: sf.convert_like(pairs, x), lambda: sf.convert_like(pairs.one, x)),
    "give their real part": (
        lambda: sf.astype(sf.Ragged(np.ones(2, complex), [2]), "float64"),
        lambda: sf.astype(sf.Ragged(np.ones(2, complex).real, [2]), "float64"),
    ),
    "give dtype= to force one": (
        lambda: sf.LoD.from_nested([[1, "a"]]),
        lambda: sf.LoD.from_nested([[1, "a"]], dtype="U3"),
    ),
    "take that of their real and imaginary parts": (
        lambda: sf.reduce_norm(x.astype(complex)),
        lambda: [sf.reduce_norm(sf.with_array(part)(x.astype(complex))) for part in (np.real, np.imag)],
    ),
    "[[labels.index(name) for name in names] for names in tags] are": (
        lambda: sf.tags_to_spans([["O", "B-X"]], ["O", "B-X"]),
        lambda: sf.tags_to_spans([[["O", "B-X"].index(name) for name in names] for names in [["O", "B-X"]]]),
    ),
    "sf.filter(tags, tags != {}) leaves such items out": (
        lambda: sf.tags_to_spans(ids - 2),
        lambda: sf.tags_to_spans(sf.filter(ids - 2, ids - 2 != -1)),
    ),
    "add up those of their real and imaginary parts": (
        lambda: sf.reduce_var(sf.Ragged(np.ones(2, complex), [2])),
        lambda: sf.reduce_var(sf.Ragged(np.ones(2, complex).real, [2])),
    ),
    "make the outer one with nest": (
        lambda: sf.minimum_bayes_risk(ids),
        lambda: sf.minimum_bayes_risk(sf.nest(ids, [2])),
    ),
    "give both the same outer levels, or none, as sf.convert(x, sf.Ragged) has": (
        lambda: sf.cross(two, sf.LoD.from_lengths(np.arange(3), [[2], [2, 1]])),
        lambda: sf.cross(sf.convert(two, sf.Ragged), sf.Ragged(np.arange(3), [2, 1])),
    ),
    "weigh their real and imaginary parts": (
        lambda: sf.reduce_mean(sf.Ragged(np.ones(2, complex), [2]), weights=[[1.0, 2.0]]),
        lambda: sf.reduce_mean(sf.Ragged(np.ones(2, complex).real, [2]), weights=[[1.0, 2.0]]),
    ),
    "select on a level column by column": (
        lambda: sf.select({"a": x}, [0], level=1),
        lambda: sf.select(two, [0], level=1),
    ),
    'give empties="left" or "right", or relative offsets': (
        lambda: sf.LoD.from_absolute(np.arange(3), [[0, 0, 3], [0, 0, 3]]),
        lambda: [
            sf.LoD.from_absolute(np.arange(3), [[0, 0, 3], [0, 0, 3]], empties="left"),
            sf.LoD.from_absolute(np.arange(3), [[0, 0, 3], [0, 0, 3]], empties="right"),
        ],
    ),
    "np.asarray(sf.convert(x, sf.Ragged)) is one": (
        lambda: np.asarray(sf.convert(x, sf.List)),
        lambda: np.asarray(sf.convert(sf.convert(x, sf.List), sf.Ragged)),
    ),
    "a list of arrays or of lists comes in by sf.convert(x, sf.Ragged)": (
        lambda: sf.Ragged([[1, 2], [3]]),
        lambda: sf.convert([[1, 2], [3]], sf.Ragged),
    ),
    'too_long="drop" leaves such sequences out, "alone" gives each a batch of its own': (
        lambda: sf.torch.BucketSampler([9, 1], 4),
        lambda: [list(sf.torch.BucketSampler([9, 1], 4, too_long=word)) for word in ("drop", "alone")],
    ),
    'too_long="cut" cuts it into parts': (
        lambda: sf.pack([[1, 2, 3]], 2),
        lambda: sf.pack([[1, 2, 3]], 2, too_long="cut"),
    ),
    "divide them by a number": (
        lambda: sf.balance([1, 1], 2, cost=[1.7e308] * 2),
        lambda: sf.balance([1, 1], 2, cost=np.array([1.7e308] * 2) / 1e300),
    ),
    "give both": (
        lambda: sf.buckets([1, 2], 4, cost=(1, 1)),
        lambda: sf.buckets([1, 2], 4, cost=(1, 1), max_cost=9),
    ),
    'too_long="drop" leaves such rows out': (
        lambda: list(sf.batches([[1] * 9, [2]], max_items=4)),
        lambda: list(sf.batches([[1] * 9, [2]], max_items=4, too_long="drop")),
    ),
    "give what can be read again, a list or a dataset say": (
        lambda: [list(b) for b in [sf.batches(iter([[1]]), max_items=4)] * 2],
        lambda: [list(b) for b in [sf.batches([[1]], max_items=4)] * 2],
    ),
    "give all in one dtype": (
        lambda: list(sf.batches([sf.convert([[1]], sf.LoD), sf.convert([[1.5]], sf.LoD)], max_items=9)),
        lambda: list(sf.batches([sf.convert([[1.0]], sf.LoD), sf.convert([[1.5]], sf.LoD)], max_items=9)),
    ),
    "give empty=0.0 or another value for it": (
        lambda: sf.reduce_max(sf.Ragged(np.zeros(1), [1, 0]), empty="raise"),
        lambda: sf.reduce_max(sf.Ragged(np.zeros(1), [1, 0]), empty=0.0),
    ),
    'give result="item"': (
        lambda: sf.map_sequences(lambda s: s.sum(), x, result="sequence"),
        lambda: sf.map_sequences(lambda s: s.sum(), x, result="item"),
    ),
    "sf.split(x, where) takes bools instead": (
        lambda: sf.split_at(sf.Ragged(np.array([True, False]), [2]), [1]),
        lambda: sf.split(sf.Ragged(np.array([True, False]), [2]), sf.Ragged(np.array([True, False]), [2])),
    ),
    "sf.split_at takes tokens": (lambda: sf.split(ids, ids), lambda: sf.split_at(ids, [1])),
    "give vocabulary=, how many ids there are, or which": (
        lambda: sf.mask_tokens(ids, mask_id=9, seed=1),
        lambda: [sf.mask_tokens(ids, mask_id=9, seed=1, vocabulary=v) for v in (10, [1, 2, 3])],
    ),
    "give bools, True where a word begins": (
        lambda: sf.mask_tokens(ids, mask_id=9, seed=1, vocabulary=10, whole=True),
        lambda: sf.mask_tokens(ids, mask_id=9, seed=1, vocabulary=10, whole=sf.astype(ids, "bool")),
    ),
    "a rule without transpose= may have several": (
        lambda: sf.operation(lambda a, b: a, lambda a, b: a, inputs=2),
        lambda: sf.operation(lambda a, b: (a, lambda dy: (dy, None)), inputs=2)(x, x),
    ),
    "give integers": (
        lambda: sf.scatter(np.zeros((1, 2), bool), [[0]], [[True]]),
        lambda: sf.scatter(np.zeros((1, 2), int), [[0]], [[1]]),
    ),
}

# Advice that has no call here: by the beginning of its file, or by itself, where it is followed or why it is not.
FOLDERS = {
    "arrays/cupy": "CuPy",
    "arrays/jax": "JAX",
    "arrays/numba": "a GPU",
    "arrays/torch": "PyTorch",
    "arrow/": "bridges/test_lying_columns and bridges/test_arrow",
    "awkward": "bridges/test_awkward",
    "bench/": "test_bench: options of the command",
    "hf/": "bridges/test_hf, with transformers",
    "launch/": "a GPU, or JAX",
    "native/": "pip",
    "numba_types/": "numba_types/test_njit: refused while a function is compiled",
    "plot/": "bridges/test_plot",
    "thinc/": "Thinc",
    "torch/": "PyTorch",
    "wrapping/": "test_wrap",
    "loading/sampler": "bridges/test_torch_loaders",
    "loading/sources": "bridges: datasets",
    "beam/joining": "beam/test_beam_continuous",
    "beam/memory": "beam/test_beam_memory",
}
ELSEWHERE = {
    "{}": "hints, which test_hints follows",
    "take x.one or x.two": "formats/test_formats",
    'sf.to(x, "cupy") or sf.to(x, "torch") can': "a GPU",
    'sf.to(x, "{}") brings one to the library of the other': "PyTorch",
    "sf.to_device(x, device) moves one": "two devices",
    "import cupy, or give a torch tensor of it": "a GPU",
    "sf.to_device(dy, {}) moves it": "gradients/test_grad: two devices",
    "leave it out": "beam/test_beam_continuous",
    "start a new search": "beam/test_beam_continuous",
    "give it for those that are added too": "beam/test_beam_continuous",
    "give it replacement=False, or change what may be drawn with on_scores": "beam/test_sampling",
    "give scores.detach(), or call it under torch.no_grad()": "PyTorch",
    "give data.detach()": "PyTorch",
    "let each end with a token that is nowhere else": "ctc/test_ctc_search",
    "NGrams.read reads one from a file": "ctc/test_ngrams",
    "build_ctcdecoder makes one of labels": "ctc/test_ctc_decoder",
    "give its unigram_encoding": "ctc/test_ctc_decoder",
    "call as_pyctcdecode before that": "bridges/test_wav2vec2_with_lm",
    "build a new one": "formats/test_formats: data that was changed behind a batch",
    "give dtype={}": "PyTorch's names of dtypes",
    "sf.to(x, {}) brings it there": "PyTorch",
    'sf.to(x, "torch") has{}': "PyTorch",
    "x.to(dtype) gives them another dtype": "PyTorch",
    "leave it out, or give lists of numbers": "converters/test_trees",
    "give the others detached": "PyTorch",
    "give it detached": "torch_models/test_rl_in_torch",
    "leave out create_graph=True": "torch_models/test_rl_in_torch",
    "give both in one library, on one device": "torch_models/test_rl_in_torch",
    "a linear function is made an operation with its transpose: sf.operation(function, transpose)": "gradients/"
    "test_own_operation",
    'workers="divide" divides the batches among them, workers="each" is for a source that differs from worker to '
    "worker": "bridges/test_torch_loaders",
    "give state_dict(taken=...), or save the state of a StatefulDataLoader": "bridges/test_training_loops",
    "split the batch": "2^31 rows",
    "leave out= away, or give x.detach()": "PyTorch",
    "convert it first, or give it without its gradient": "PyTorch",
    "give arrays in all cases": "operations/test_map_sequences",
    "give a plain one": "operations/test_map_sequences: compiled functions of tensors",
    "give data.detach(), or a plain function of tensors": "PyTorch",
    "leave out create_graph=True, or take the items apart": "PyTorch",
    "give like": "operations/test_steps",
    "convert it to one of them": "operations/test_storage",
    "give them a float dtype": "PyTorch",
    "convert with level=-1, or keep the lengths": "converters/test_convert",
    "x[sf.lengths(x) > 0] leaves the empty ones out": "PyTorch",
    "sf.operation gives it one": "PyTorch",
}


def words(node):
    """The text of a message, {} in the place of what is not known."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
    return words(node.left) + words(node.right) if isinstance(node, ast.BinOp) else ""


def advice():
    """The end of each message, and the file that it is in."""
    for path in sorted(SOURCES.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id.isupper() and node.args:
                end = words(node.args[0]).partition("; ")[2]
                if end and not FACTS.search(end):
                    yield end, path.relative_to(SOURCES).as_posix()


def test_each_piece_of_advice_is_followed_somewhere():
    missing = [
        (end, file)
        for end, file in advice()
        if end not in FOLLOWED and end not in ELSEWHERE and not any(file.startswith(folder) for folder in FOLDERS)
    ]
    assert not missing, "\n".join(f"{file}: {end}" for end, file in missing)
    known = {end for end, _ in advice()}
    assert not {*FOLLOWED, *ELSEWHERE} - known, "advice that no message gives"


@pytest.mark.parametrize("end", FOLLOWED)
def test_following_it_works(end):
    wrong, right = FOLLOWED[end]
    with pytest.raises((sf.SeqFormatError, TypeError, IndexError, ValueError)) as found:
        wrong()
    assert re.search(re.escape(end).replace(r"\{\}", ".+"), str(found.value)), found.value
    right()
