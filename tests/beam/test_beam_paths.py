"""What a result says of its hypotheses: which have ended, in which rows they lay, and what was kept along them."""

from typing import NamedTuple

import numpy as np
import pytest
from beam_oracle import RULES

import seqformats as sf

WORDS = 7
TABLE = np.random.default_rng(11).normal(size=(4, WORDS, WORDS)).astype(np.float32) * 2
OPTIONS = {"start": np.array([1, 2, 3, 4]), "end": [0, 6], "beam_size": 4, "max_new_tokens": 6, "n_best": 4}


def scores_of(state):
    return TABLE[np.asarray(state.source), np.asarray(state.tokens)]


def seen(state):
    """Of each row a number that no other row of any step has: its source and all its tokens."""
    number = np.asarray(state.source) + 1
    for tokens in np.asarray(state.prefixes.data).reshape(len(number), state.t).T:
        number = number * 10 + tokens
    return number


def wanted(found):
    """The same number for every token of every hypothesis, from the tokens alone."""
    return [
        [[int("".join(map(str, [i + 1, *tokens[:t]]))) for t in range(len(tokens))] for tokens in source]
        for i, source in enumerate(found.tokens.to_nested())
    ]


class Pair(NamedTuple):
    """A container with names."""

    one: object
    two: object


FORMS = {
    "array": (lambda x: x, lambda kept: kept),
    "tuple": (lambda x: (x, x * 2), lambda kept: kept[0]),
    "list": (lambda x: [x * 2, x], lambda kept: kept[1]),
    "dict": (lambda x: {"a": x, "b": {"c": x + 1}}, lambda kept: kept["a"]),
    "named tuple": (lambda x: Pair(None, x), lambda kept: kept.two),
    "vectors": (lambda x: np.stack([x, -x], 1), lambda kept: sf.LoD(kept.data[:, 0], kept.lod)),
    "empty items": (lambda x: (x, np.zeros((len(x), 0))), lambda kept: kept[0]),
    "int32": (lambda x: x.astype(np.int32), lambda kept: kept),
    "strided": (lambda x: np.stack([x, x], 1)[:, 0], lambda kept: kept),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("rule", RULES)
def test_what_is_kept_lies_along_the_hypotheses(rule, form):
    make, take = FORMS[form]
    step = lambda state: (scores_of(state), None, make(seen(state)))  # noqa: E731
    found = sf.beam_search(step, None, rule=rule, **OPTIONS)
    plain = sf.beam_search(lambda state: (scores_of(state), None), None, rule=rule, **OPTIONS)
    assert take(found.kept).to_nested() == wanted(found)
    assert found.tokens.to_nested() == plain.tokens.to_nested()
    assert plain.kept is plain.parents is found.parents is None
    if form == "dict":
        assert found.kept["b"]["c"].data.tolist() == (found.kept["a"].data + 1).tolist()
    if form == "named tuple":
        assert type(found.kept) is Pair
        assert found.kept.one is None
    if form == "empty items":
        assert found.kept[1].data.shape == (found.tokens.rows, 0)
    assert take(found.kept).data.dtype == (np.int32 if form == "int32" else np.int64)


WAYS = {
    "plain": {},
    "groups": {"constraints": sf.DiverseGroups(2, 0.5)},
    "phrases": {"constraints": sf.LexicalConstraints([[2, 3]])},
    "sampling": {"sampling": sf.Stochastic(3)},
    "pruned": {"prune": sf.Prune(absolute=1.0, per_parent=2)},
    "several sizes": {"beam_size": [1, 4, 2, 3], "max_new_tokens": [1, 6, 3, 4]},
}


@pytest.mark.parametrize("way", WAYS)
def test_parents_are_rows_of_the_state(way):
    """And what a user has kept in a list is found by them."""
    numbers = []

    def step(state):
        numbers.append(seen(state))
        return scores_of(state), None

    found = sf.beam_search(step, None, trace=True, **{**OPTIONS, **WAYS[way]})
    assert found.parents.data.dtype == np.int64
    kept = [
        [[numbers[t][row] for t, row in enumerate(rows)] for rows in source] for source in found.parents.to_nested()
    ]
    assert kept == wanted(found)


def test_which_have_ended():
    for rule in RULES:
        found = sf.beam_search(lambda state: (scores_of(state), None), None, rule=rule, **OPTIONS)
        last = [tokens[-1] in (0, 6) for source in found.tokens.to_nested() for tokens in source]
        assert found.ended.tolist() == last
        assert found.ended.dtype == np.bool_
        assert rule == "fairseq" or not all(last) or rule == "gnmt"
        assert any(last)
    assert not sf.beam_search(
        lambda state: (scores_of(state), None), None, **{**OPTIONS, "min_new_tokens": 6}
    ).ended.any()


def test_an_end_is_one_of_its_own_source():
    ends = sf.Ragged(np.array([0, 5, 6]), [1, 0, 2, 0])
    found = sf.beam_search(lambda state: (scores_of(state), None), None, **{**OPTIONS, "end": ends})
    own = [[0], [], [5, 6], []]
    last = [tokens[-1] in own[i] for i, source in enumerate(found.tokens.to_nested()) for tokens in source]
    assert found.ended.tolist() == last
    assert 0 < sum(last) < len(last)


def test_in_the_middle_of_a_search_and_without_any_source():
    decoder = sf.BeamDecoder(None, **OPTIONS)
    assert decoder.result().kept is None
    while decoder.active:
        decoder.step(scores_of(decoder.state), None, seen(decoder.state))
        found = decoder.result()
        assert found.kept.to_nested() == wanted(found)
        assert len(found.ended) == len(found.scores)
    options = {**OPTIONS, "start": np.zeros(0, int)}
    found = sf.beam_search(lambda state: 1 / 0, None, trace=True, **options)
    assert found.parents.to_nested() == found.ended.tolist() == []
    assert found.kept is None


def test_a_source_without_any_hypothesis():
    none = np.full((1, WORDS), -np.inf, np.float32)
    decoder = sf.BeamDecoder(None, start=[1], end=0, beam_size=2, max_new_tokens=3, trace=True)
    decoder.step(none, None, {"a": np.ones((1, 2))})
    found = decoder.result()
    assert found.kept["a"].to_nested() == found.parents.to_nested() == [[]]
    assert found.kept["a"].data.shape == (0, 2)


def test_arrays_may_be_written_again():
    """Those of the memory are, by the decoder, and those of a model may be."""
    buffer = np.zeros(100, np.int64)

    def step(state):
        buffer[: len(state.tokens)] = seen(state)
        memory = seen(state) if state.memory is None else state.memory
        return scores_of(state), memory, (buffer[: len(state.tokens)], memory)

    found = sf.beam_search(step, None, **OPTIONS)
    assert found.kept[0].to_nested() == wanted(found)
    first = [[[tokens[0]] * len(tokens) for tokens in source] for source in wanted(found)]
    assert found.kept[1].to_nested() == first


WRONG = {
    "no array": (lambda n: "a", TypeError, "kept must be arrays, in tuples, lists and dicts, not str"),
    "an object in a dict": (lambda n: {"a": object()}, TypeError, "must be arrays.*not object"),
    "a batch": (lambda n: sf.Ragged(np.zeros(n), [1] * n), TypeError, "must be arrays.*not Ragged"),
    "rows": (lambda n: np.zeros((n + 1, 2)), sf.StructureError, r"must have 4 rows.*shape \(5, 2\)"),
    "a number": (lambda n: np.array(1.0), sf.StructureError, r"must have 4 rows.*shape \(\)"),
}


@pytest.mark.parametrize(("make", "error", "words"), WRONG.values(), ids=list(WRONG))
def test_what_cannot_be_kept(make, error, words):
    decoder = sf.BeamDecoder(None, **OPTIONS)
    with pytest.raises(error, match=words):
        decoder.step(scores_of(decoder.state), None, make(4))
    decoder.step(scores_of(decoder.state))  # nothing has been half done
    assert decoder.state.t == 1


OTHERS = {
    "nothing": (lambda n: None, "the first one has kept 1 arrays, this one 0"),
    "a name": (lambda n: {"b": np.zeros((n, 2))}, "others by their names"),
    "two": (lambda n: {"a": np.zeros((n, 2)), "b": np.zeros(n)}, "the first one has kept 1 arrays, this one 2"),
    "a shape": (lambda n: {"a": np.zeros((n, 3))}, r"items of shape \(2,\) and float64, not \(3,\)"),
    "a dtype": (lambda n: {"a": np.zeros((n, 2), "f4")}, r"and float64, not \(2,\) and float32"),
}


@pytest.mark.parametrize(("make", "words"), OTHERS.values(), ids=list(OTHERS))
def test_every_step_keeps_the_same(make, words):
    decoder = sf.BeamDecoder(None, **OPTIONS)
    decoder.step(scores_of(decoder.state), None, {"a": np.zeros((4, 2))})
    rows = len(decoder.state.tokens)
    with pytest.raises(sf.StructureError, match=words):
        decoder.step(scores_of(decoder.state), None, make(rows))
    decoder.step(scores_of(decoder.state), None, {"a": np.zeros((rows, 2))})
    late = sf.BeamDecoder(None, **OPTIONS)
    late.step(scores_of(late.state))
    with pytest.raises(sf.StructureError, match="the first one has kept 0 arrays, this one 1"):
        late.step(scores_of(late.state), None, np.zeros(len(late.state.tokens)))


@pytest.mark.parametrize("returned", [(1,), (1, 2, 3, 4), [1, 2], None])
def test_a_step_returns_two_or_three(returned):
    with pytest.raises(TypeError, match=r"step must return \(scores, memory\) or \(scores, memory, kept\), not"):
        sf.beam_search(lambda state: returned, None, **OPTIONS)


def test_what_is_not_kept_costs_nothing():
    """A search remembers no step."""
    decoder = sf.BeamDecoder(None, **OPTIONS)
    while decoder.active:
        decoder.step(scores_of(decoder.state))
    assert decoder._paths.nodes == decoder._paths._kept == []


@pytest.mark.peers
def test_tensors():
    torch = pytest.importorskip("torch")

    def step(state):
        scores = torch.from_numpy(scores_of(state))
        return scores, None, {"seen": torch.from_numpy(seen(state)), "half": scores.to(torch.bfloat16)}

    found = sf.beam_search(step, None, trace=True, **{**OPTIONS, "start": torch.tensor([1, 2, 3, 4])})
    assert found.kept["seen"].to_nested() == wanted(found)
    assert found.kept["half"].data.dtype == torch.bfloat16
    assert [type(x) for x in (found.ended, found.parents.data)] == [torch.Tensor] * 2
    assert found.ended.dtype == torch.bool
    decoder = sf.BeamDecoder(None, **OPTIONS)
    with pytest.raises(TypeError, match="no gradient"):
        decoder.step(scores_of(decoder.state), None, torch.zeros(4, requires_grad=True))
    decoder = sf.BeamDecoder(np.zeros(4), **OPTIONS)
    with pytest.raises(sf.DeviceError, match="what is kept is an array of torch"):
        decoder.step(scores_of(decoder.state), np.zeros(4), torch.zeros(4))


@pytest.mark.peers
def test_the_attention_of_a_model():
    """That of `generate`, found by its beam indices."""
    for library in ("torch", "transformers"):
        pytest.importorskip(library)
    import hf_models as hf

    model, sources = hf.made("t5", attn_implementation="eager"), hf.prompts([4, 4])
    given = hf.padded(sources, left=False)
    theirs, out = hf.generated(
        model, given, num_beams=3, num_return_sequences=2, max_new_tokens=6, output_attentions=True
    )
    step = sf.hf.encoder_decoder_step(
        model, keep=lambda out: out.cross_attentions[-1][:, :, -1], output_attentions=True
    )
    found = sf.beam_search(
        step, None, shared=given, start=0, end=hf.END, beam_size=3, n_best=2, max_new_tokens=6, trace=True
    )
    assert [tokens for source in found.tokens.to_nested() for tokens in source] == theirs
    rows = [row for source in found.kept.to_nested() for row in source]
    for ours, beams in zip(rows, out.beam_indices.tolist(), strict=True):
        for t, items in enumerate(ours):
            np.testing.assert_allclose(items, out.cross_attentions[t][-1][beams[t], :, -1], rtol=1e-4, atol=1e-5)
