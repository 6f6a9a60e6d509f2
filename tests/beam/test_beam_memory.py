"""The memories of a search: what follows the hypotheses, what is told of them, what is carried, and what is refused."""

import decimal
import enum
import gc
import types
import weakref
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pytest

import seqformats as sf

WORDS = 6
OPTIONS = {"start": np.array([1, 2, 3]), "end": 0, "beam_size": 3, "max_new_tokens": 5, "n_best": 3}
TABLE = np.random.default_rng(7).normal(size=(3, WORDS, WORDS)).astype(np.float32)


def scores_of(state):
    """Of each row by its source and its last token, so that hypotheses change places."""
    return TABLE[np.asarray(state.source), np.asarray(state.tokens)]


def paths(state, less=0):
    """What each row has seen: its source and its tokens, all or without the last ones."""
    items = [tokens.tolist() for tokens in sf.convert(state.prefixes, sf.List).items]
    return [f"{s}{tokens[: len(tokens) - less]}" for s, tokens in zip(state.source.tolist(), items, strict=True)]


class Row:
    """An opaque object of one row."""

    def __init__(self, path):
        self.path = path


@dataclass
class Note:
    path: str
    before: Any = None
    both: list = field(default_factory=list)


class Cache:
    """As transformers has them: everything is moved in place."""

    def __init__(self, rows):
        self.rows = list(rows)
        self.moves = []

    def reorder_cache(self, beam_idx):
        self.moves.append(beam_idx)
        self.rows = [self.rows[i] for i in beam_idx.tolist()]


class Renewed(Cache):
    """One that gives back another object."""

    def reorder_cache(self, beam_idx):
        return Renewed([self.rows[i] for i in beam_idx.tolist()])


class Follower:
    """One that is told of every step."""

    def __init__(self, rows):
        self.rows = list(rows)
        self.told = []

    def follow(self, parents):
        self.told.append(parents.tolist())
        self.rows = [self.rows[i] for i in parents.tolist()]


class Both(NamedTuple):
    """A record: it has fields and not rows."""

    text: Any
    width: int = 3


# Made of one text per row, and the texts taken out of it again.
FORMS = {
    "list": (list, lambda m: m),
    "tuple": (tuple, lambda m: m),
    "beside an array": (lambda t: {"h": np.arange(len(t)), "text": t}, lambda m: m["text"]),
    "in a tuple with an array": (lambda t: (np.arange(len(t)), t, 5), lambda m: m[1]),
    "in a named tuple": (Both, lambda m: m.text),
    "objects": (lambda t: [Row(path) for path in t], lambda m: [row.path for row in m]),
    "dataclasses": (lambda t: [Note(path) for path in t], lambda m: [note.path for note in m]),
    "dicts": (lambda t: {"rows": [{"path": path} for path in t]}, lambda m: [row["path"] for row in m["rows"]]),
    "lists": (lambda t: [[path, len(path)] for path in t], lambda m: [path for path, _ in m]),
    "sets": (lambda t: [{path} for path in t], lambda m: [path for (path,) in m]),
    "some None": (lambda t: [path if i else None for i, path in enumerate(t)], None),
    "functions": (lambda t: [lambda path=path: path for path in t], lambda m: [function() for function in m]),
    "a cache": (Cache, lambda m: m.rows),
    "a cache beside an array": (lambda t: (np.arange(len(t)), Cache(t)), lambda m: m[1].rows),
    "a cache in place of another": (lambda t: {"cache": Renewed(t)}, lambda m: m["cache"].rows),
    "caches of layers": (lambda t: [Cache(t), Cache(t)], lambda m: m[1].rows),
    "a follower": (lambda t: {"matcher": Follower(t)}, lambda m: m["matcher"].rows),
    "a follower alone": (Follower, lambda m: m.rows),
}


@pytest.mark.parametrize("first", [True, False], ids=["from the first", "none at first"])
@pytest.mark.parametrize("form", FORMS)
def test_objects_follow_the_rows(form, first):
    make, texts = FORMS[form]
    moved = []

    def step(state):
        if state.t:
            wanted = paths(state, less=1)
            if texts is None:
                assert set(state.memory) <= {*wanted, None}
                assert len(state.memory) == len(wanted)
            else:
                assert list(texts(state.memory)) == wanted
            moved.append(state.parents.tolist())
        return scores_of(state), make(paths(state))

    memory = make(["0[]", "1[]", "2[]"])
    result = sf.beam_search(step, memory if first else None, **OPTIONS)
    plain = sf.beam_search(lambda state: (scores_of(state), None), None, **OPTIONS)
    assert sf.equal(result.tokens, plain.tokens)
    assert any(parents != sorted(set(parents)) for parents in moved), "no row has changed its place"


def test_what_lies_in_a_memory_twice_is_moved_once():
    cache, texts, h = Cache(["a"]), ["a"], np.arange(1)
    decoder = sf.BeamDecoder(None, start=[1], end=0, beam_size=2, max_new_tokens=3)
    decoder.step(np.zeros((1, 4), np.float32), {"one": (cache, texts, h), "two": [cache, (texts, h)]})
    one, two = decoder.state.memory["one"], decoder.state.memory["two"]
    assert one[0] is two[0] is cache
    assert one[1] is two[1][0]
    assert one[2] is two[1][1]
    assert (cache.rows, one[1], one[2].tolist()) == (["a", "a"], ["a", "a"], [0, 0])
    assert len(cache.moves) == 1


def test_a_step_in_which_no_row_moves():
    """A cache is left alone, which costs nothing; who is told of every step hears of this one."""
    scores = np.array([[0.0, 5.0, 4.0, -9.0]], np.float32)
    cache, follower, texts = Cache(["a"]), Follower(["a"]), ["a"]
    memory = {"cache": cache, "follower": follower, "texts": texts}
    decoder = sf.BeamDecoder(memory, start=[1], end=3, beam_size=1, max_new_tokens=3)
    decoder.step(scores, memory)
    assert decoder.active
    assert cache.moves == []
    assert follower.told == [[0]]
    assert decoder.state.memory is memory
    assert memory["texts"] is texts


def test_a_cache_gets_numbers_beside_the_scores_and_a_follower_those_of_the_state():
    cache, follower = Cache([0]), Follower([0])
    decoder = sf.BeamDecoder((cache, follower), start=[1], end=0, beam_size=2, max_new_tokens=3)
    decoder.step(np.zeros((1, 4), np.float32), (cache, follower))
    (beam_idx,) = cache.moves
    assert (type(beam_idx), beam_idx.dtype, beam_idx.tolist()) == (np.ndarray, np.int64, [0, 0])
    assert follower.told == [decoder.state.parents.tolist()]


def test_a_hook_that_is_a_memory_too_is_told_once():
    class Hook(Follower):
        def __call__(self, scores, state):
            return scores

    hook = Hook([0])
    decoder = sf.BeamDecoder(hook, start=[1], end=0, beam_size=2, max_new_tokens=3, on_scores=hook)
    decoder.step(np.zeros((1, 4), np.float32), hook)
    assert hook.told == [[0, 0]]


class Color(enum.Enum):
    RED = 1


class Module:
    """A stand-in for a network, which can be called."""

    def __call__(self):
        return 0


def test_what_is_carried():
    constant = {
        "text": "abc",
        "bytes": b"abc",
        "numbers": {"a": 3, "b": 2.5, "c": True, "d": None, "e": np.float32(1), "f": decimal.Decimal(1), "g": 1j},
        "function": len,
        "class": Row,
        "follower": Follower,  # the class, which has no rows
        "module": Module(),
        "python": types,
        "nothing": (),
        "empty": [],
        "record": Both(None),
        "note": Note("abc"),
    }
    memory = {"h": np.arange(3), "constant": constant}
    decoder = sf.BeamDecoder(memory, **OPTIONS)
    decoder.step(scores_of(decoder.state), memory)
    assert len(decoder.state.memory["h"]) == 9
    assert decoder.state.memory["constant"] is constant


OPAQUE = {
    "an object": Row("a"),
    "an enum": Color.RED,
    "a set": {1, 2, 3},
    "a generator": (i for i in range(3)),
    "a range": range(3),
    "keys": {"a": 1}.keys(),
    "a namespace": types.SimpleNamespace(rows=3),
    "beside an array": {"h": np.arange(3), "x": Row("a")},
    "deep": {"a": [np.arange(3), Note("a", before={"x": Row("b")})]},
}


@pytest.mark.parametrize("memory", OPAQUE.values(), ids=list(OPAQUE))
def test_an_object_of_which_nothing_is_known(memory):
    with pytest.raises(
        TypeError, match=r"memory holds a \w+, .*one object per row.*reorder_cache\(beam_idx\) or follow"
    ):
        sf.BeamDecoder(memory, **OPTIONS)
    ran = []
    hook = [lambda scores, state: ran.append(1) or scores]
    decoder = sf.BeamDecoder(None, **OPTIONS, on_scores=hook)
    with pytest.raises(TypeError, match="memory holds a"):
        decoder.step(scores_of(decoder.state), memory)
    assert ran == []
    decoder.step(scores_of(decoder.state))  # nothing has been half done
    assert decoder.state.t == 1
    assert sf.BeamDecoder(None, **OPTIONS, shared=memory).state.shared is memory  # which follows nothing


@pytest.mark.parametrize("wrong", [["a", "b"], ("a",) * 4, [Row("a")], [None] * 2, [1, 2, 3, 4], [[], []]])
def test_a_list_that_has_not_one_object_a_row(wrong):
    words = f"holds a {type(wrong).__name__} of {len(wrong)} Python objects, but has 3 rows"
    with pytest.raises(sf.StructureError, match=words):
        sf.BeamDecoder({"h": np.arange(3), "x": wrong}, **OPTIONS)
    with pytest.raises(sf.StructureError, match=f"start has 3 tokens, but the memories are for {len(wrong)}"):
        sf.BeamDecoder(wrong, **OPTIONS)
    decoder = sf.BeamDecoder(None, **OPTIONS)
    with pytest.raises(sf.StructureError, match=words):
        decoder.step(scores_of(decoder.state), {"x": wrong})
    decoder.step(scores_of(decoder.state), {"x": ["a", "b", "c"]})
    assert len(decoder.state.memory["x"]) == 9


def test_a_list_says_how_many_sources_there_are():
    decoder = sf.BeamDecoder(["a", "b"], start=1, end=0, beam_size=2, max_new_tokens=2)
    assert len(decoder.state.tokens) == 2


def in_itself():
    x = [np.arange(3)]
    x.append(x)
    yield x
    y = []
    y.append(y)
    yield y
    z = {"h": np.arange(3)}
    z["z"] = z
    yield z
    a = Note("a")
    a.before = {"a": a, "h": np.arange(3)}
    yield a
    rows = ["a", "b", "c"]
    rows[1] = ([[rows]],)
    yield rows


@pytest.mark.parametrize("memory", list(in_itself()), ids=["list", "list alone", "dict", "dataclass", "row"])
def test_what_holds_itself(memory):
    with pytest.raises(sf.StructureError, match="holds itself"):
        sf.BeamDecoder(memory, **OPTIONS)
    decoder = sf.BeamDecoder(None, **OPTIONS)
    with pytest.raises(sf.StructureError, match="holds itself"):
        decoder.step(scores_of(decoder.state), memory)
    shared = {"h": np.arange(3), "x": memory}
    with pytest.raises(sf.StructureError, match="holds itself"):
        sf.BeamDecoder(None, **OPTIONS, shared=shared)


def test_objects_of_rows_may_know_each_other():
    """Nodes of a tree, of which each knows the one before and those behind it."""
    notes = [Note(path) for path in "abc"]
    for note in notes:
        note.before = notes[0]
        notes[0].both.append(note)
    decoder = sf.BeamDecoder(notes, **OPTIONS)
    decoder.step(scores_of(decoder.state), notes)
    assert [note.path for note in decoder.state.memory] == list("aaabbbccc")


def test_a_long_chain_in_a_row_and_what_is_too_deep():
    chain = None
    for _ in range(5000):
        chain = Note("a", before=chain)
    decoder = sf.BeamDecoder([chain] * 3, **OPTIONS)
    decoder.step(scores_of(decoder.state), [chain] * 3)
    assert len(decoder.state.memory) == 9
    deep = np.arange(3)
    for _ in range(5000):
        deep = {"h": deep}
    with pytest.raises(sf.StructureError, match="more than 100 containers"):
        sf.BeamDecoder(deep, **OPTIONS)


def test_containers_met_on_many_ways_are_looked_at_once():
    """Two to the power of sixty ways lead to the array."""
    rows, arrays = ["a", "b", "c"], np.arange(3)
    for _ in range(60):
        rows, arrays = [rows, rows, rows], {"one": arrays, "two": arrays}
    decoder = sf.BeamDecoder((rows, arrays), **OPTIONS)
    decoder.step(scores_of(decoder.state), (rows, arrays))
    assert len(decoder.state.memory[0]) == 9
    assert decoder.state.memory[1]["one"] is decoder.state.memory[1]["two"]


def test_nothing_keeps_a_memory_that_is_gone():
    """Not even until the next run of the garbage collector: memories are the largest arrays of a model."""
    decoder = sf.BeamDecoder(None, **OPTIONS)
    gone = []
    gc.collect()
    gc.disable()
    try:
        for _ in range(4):
            memory = {"h": [np.zeros((len(decoder.state.tokens), 2))], "rows": [Row("a") for _ in decoder.state.tokens]}
            gone.append([weakref.ref(memory["h"][0]), weakref.ref(memory["rows"][0])])
            decoder.step(scores_of(decoder.state), memory)
            del memory
        decoder.step(scores_of(decoder.state))
        assert [made() for pair in gone for made in pair] == [None] * 8
    finally:
        gc.enable()


# --- the caches of transformers --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def gpt2():
    """A tiny network with random weights, and prompts of different lengths, padded on the left."""
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    torch.manual_seed(5)
    config = transformers.GPT2Config(
        vocab_size=40, n_positions=64, n_embd=32, n_layer=2, n_head=2, bos_token_id=1, eos_token_id=0, pad_token_id=0,
        initializer_range=0.7,
    )  # fmt: skip
    model = transformers.GPT2LMHeadModel(config).eval()
    prompts = torch.tensor([[0, 0, 5, 6], [7, 8, 9, 10], [0, 11, 12, 13]])
    return model, prompts, torch.tensor([[0, 0, 1, 1], [1, 1, 1, 1], [0, 1, 1, 1]])


def searched(gpt2, form, **options):
    import torch
    import transformers
    from hf_models import cache_name

    model, prompts, seen = gpt2
    cache, name = transformers.DynamicCache(), cache_name(model)
    lengths = seen.sum(1)
    devices = []

    def step(state):
        known = {"alone": lambda m: m, "beside an array": lambda m: m["cache"], "none at first": lambda m: m}[form](
            state.memory
        )
        if known is None:  # the cache of the prompts, which the first step makes
            known = first()
        ones = torch.ones((len(state.source), state.t + 1), dtype=torch.int64)
        mask = torch.cat([seen[state.source][:, :-1], ones], 1)
        places = (lengths[state.source] - 1 + state.t)[:, None]
        out = model(state.tokens[:, None], **{name: known}, attention_mask=mask, position_ids=places)
        devices.append(type(state.tokens))
        memory = getattr(out, name)
        return out.logits[:, -1], {"cache": memory, "sum": out.logits[:, 0, :2]} if "array" in form else memory

    def first():
        places = (seen.cumsum(1) - 1).clamp(min=0)[:, :-1]
        out = model(prompts[:, :-1], **{name: cache}, attention_mask=seen[:, :-1], position_ids=places)
        return getattr(out, name)

    with torch.no_grad():
        memory = None if form == "none at first" else first()
        memory = {"cache": memory, "sum": torch.zeros(3, 2)} if "array" in form else memory
        found = sf.beam_search(step, memory, start=prompts[:, -1], end=0, **options)
    assert set(devices) == {torch.Tensor}
    return found


@pytest.mark.peers
@pytest.mark.parametrize("early_stopping", [False, True])
@pytest.mark.parametrize("form", ["alone", "beside an array", "none at first"])
def test_a_dynamic_cache_follows(gpt2, form, early_stopping):
    model, prompts, seen = gpt2
    options = {"max_new_tokens": 8, "length_penalty": 0.7, "early_stopping": early_stopping}
    theirs = model.generate(
        prompts, attention_mask=seen, num_beams=4, num_return_sequences=2, do_sample=False,
        return_dict_in_generate=True, output_scores=True, **options,
    )  # fmt: skip
    mine = searched(gpt2, form, beam_size=4, n_best=2, **options)
    np.testing.assert_allclose(mine.scores.numpy(), theirs.sequences_scores.numpy(), rtol=1e-4, atol=1e-5)
    found = [tokens for source in mine.tokens.to_nested() for tokens in source]
    assert found == [row[: len(ours)] for ours, row in zip(found, theirs.sequences[:, 4:].tolist(), strict=True)]


@pytest.mark.peers
def test_the_cache_of_an_encoder_and_a_decoder():
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    from hf_models import cache_name

    torch.manual_seed(2)
    config = transformers.T5Config(
        vocab_size=30, d_model=24, d_kv=8, d_ff=32, num_layers=1, num_heads=3, decoder_start_token_id=0, eos_token_id=1,
        pad_token_id=0,
    )  # fmt: skip
    model = transformers.T5ForConditionalGeneration(config).eval()
    words = torch.randint(2, 30, (3, 6))
    seen, name = torch.ones_like(words), cache_name(model)

    def step(state):
        out = model(
            encoder_outputs=(state.shared[state.source],),
            attention_mask=seen[state.source],
            decoder_input_ids=state.tokens[:, None],
            **{name: state.memory},
        )
        return out.logits[:, -1], getattr(out, name)

    with torch.no_grad():
        encoded = model.encoder(words, attention_mask=seen).last_hidden_state
        mine = sf.beam_search(step, None, shared=encoded, start=0, end=1, beam_size=3, n_best=3, max_new_tokens=7)
        theirs = model.generate(
            words, attention_mask=seen, num_beams=3, num_return_sequences=3, max_new_tokens=7, do_sample=False,
            return_dict_in_generate=True, output_scores=True,
        )  # fmt: skip
    np.testing.assert_allclose(mine.scores.numpy(), theirs.sequences_scores.numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.peers
def test_the_greedy_search_of_transformers(gpt2):
    """It is what a beam of one is, if that stops at the first end; and the rule of its name."""
    model, prompts, seen = gpt2
    theirs = model.generate(prompts, attention_mask=seen, max_new_tokens=8, num_beams=1, do_sample=False)
    for rule in ({"early_stopping": True}, {"rule": "greedy"}):
        mine = searched(gpt2, "alone", beam_size=1, max_new_tokens=8, **rule)
        found = [tokens for (tokens,) in mine.tokens.to_nested()]
        assert found == [row[: len(ours)] for ours, row in zip(found, theirs[:, 4:].tolist(), strict=True)]
