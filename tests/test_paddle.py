"""Paddle: the same results as recorded from its operators, where the design does not overrule them."""

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import seqformats as sf

RECORDED = json.loads((Path(__file__).parent / "cases" / "paddle.json").read_text(encoding="utf-8"))
CASES = {f"{case['kind']}:{case['id']}": case for case in RECORDED["cases"]}

# What Paddle does and this library, by design, does not: the recorded answer must not be ours.
OVERRULED = {
    "lod_check:own:zero-rows-unchecked-height": "offsets that promise rows are not valid where there are none",
    "beam_search:own:tie-same-row-b1of2": "of equal candidates the earlier one is selected",
    "beam_search:own:tie-rows-b2of3": "of equal candidates that of the earlier prefix is selected",
    "beam_search_decode:own:start-equals-end-dropped": "start tokens stay",
}


# --- recorded data as encodings, and their comparison ----------------------------------------------------------------


def array(data, dtype=None, shape=None):
    found = np.array(data, dtype)
    if dtype is None:
        found = found.astype(np.float32 if found.dtype.kind == "f" else np.int64)
    return found if shape is None else found.reshape(shape)


def batch(part):
    """A `LoD`, or a plain array where Paddle's tensor has no levels."""
    data = array(part["data"], part.get("dtype"), part.get("shape"))
    return sf.LoD(data, part["lod"]) if part["lod"] else data


def inputs(case):
    return [batch(part) for part in case["inputs"].values()]


def lists(lod):
    return [level.tolist() for level in lod]


def assert_equal(found, wanted):
    """The same kind, levels and items, bit by bit."""
    assert type(found) is type(wanted)
    if isinstance(wanted, sf.LoD):
        assert lists(found.lod) == lists(wanted.lod)
        found, wanted = found.data, wanted.data
    assert found.dtype == wanted.dtype
    np.testing.assert_array_equal(found, wanted)


def assert_close(found, wanted):
    """The same kind and levels, and items as near as float32 sums in another order come."""
    if isinstance(wanted, sf.LoD):
        assert isinstance(found, sf.LoD)
        assert lists(found.lod) == lists(wanted.lod)
        found, wanted = found.data, wanted.data
    assert found.dtype == wanted.dtype == np.float32
    np.testing.assert_allclose(found, wanted, rtol=2e-6, atol=2e-6)


def assert_output(case, found, compare=assert_equal):
    wanted = case["outputs"][0]
    compare(found, batch({**wanted, "dtype": "float32" if found.dtype == np.float32 else None}))


# --- LoD itself ------------------------------------------------------------------------------------------------------


def lod_check(case):
    lod, rows = case["lod"], case["rows"]
    assert sf.is_valid_lod(lod, rows) == case["valid"]
    if not case["valid"]:
        with pytest.raises(sf.StructureError):
            sf.LoD(np.zeros(rows), lod)
        return
    assert sf.LoD(np.zeros(rows), lod).lengths() == case["lens"]
    assert lists(sf.LoD.from_lengths(np.zeros(rows), case["lens"]).lod) == lod


def numbered(lod, start=0):
    return sf.LoD(np.arange(start, start + lod[-1][-1]), lod)


def to_abs(case):
    x = numbered(case["lod"])
    assert lists(x.absolute()) == case["out"]
    assert_equal(sf.LoD.from_absolute(x.data, case["out"]), x)


def sub_lod(case):
    found = numbered(case["lod"]).sub(case["start"], case["end"], level=case["level"])
    assert found.lengths() == case["lens"]
    assert found.data.tolist() == list(range(*case["range"]))


def append_lod(case):
    first = numbered(case["lod"])
    second = sf.LoD.from_lengths(np.arange(first.rows, first.rows + sum(case["lens"][-1])), case["lens"])
    assert_equal(sf.join_batches([first, second]), numbered(case["out"]))


def merge_lod(case):
    ends = np.cumsum([0, *[lod[-1][-1] for lod in case["lods"]]])
    parts = [numbered(lod, start) for lod, start in zip(case["lods"], ends[:-1], strict=True)]
    assert_equal(sf.join_batches(parts), numbered(case["out"]))


def split_lod(case):
    x = numbered(case["lod"])
    parts = sf.split_batches(x, [len(lod[0]) - 1 for lod in case["out"]])
    ends = np.cumsum([0, *[part.rows for part in parts]])
    for found, lod, (start, end) in zip(parts, case["out"], pairwise(ends), strict=True):
        assert_equal(found, numbered(lod, start))
        assert found.rows == end - start
    assert ends[-1] == case["rows"]


# --- expand, reduce, pad ---------------------------------------------------------------------------------------------


def padding(case):
    """Paddle's pad_value is one number or a whole item."""
    value = case["attrs"]["pad_value"]
    fill = value[0] if isinstance(value, list) and len(value) == 1 else np.array(value, np.float32)
    return {"fill": fill, "width": case["attrs"].get("maxlen")}


def sequence_pad(case):
    (x,) = inputs(case)
    found = sf.convert(x, sf.Masked, **padding(case))
    assert_output(case, found.data)
    assert found.lengths.tolist() == case["outputs"][1]["data"]


def rectangle(case):
    """The padded batch; Paddle counts an item without axes as one of a single number."""
    data, lengths = inputs(case)
    return sf.Masked(data[..., None] if data.ndim == 2 else data, lengths)


def sequence_unpad(case):
    if "raises" in case:
        with pytest.raises(sf.StructureError, match=r"lengths\[1\] is 4, but data is only 3 wide"):
            rectangle(case)
        return
    x = rectangle(case)
    assert_output(case, sf.convert(x, sf.LoD))
    np.testing.assert_array_equal(sf.convert(x, sf.Ragged).data, sf.convert(x, sf.LoD).data)


def sequence_mask(case):
    (lengths,) = inputs(case)
    found = sf.mask(lengths, width=case["attrs"]["maxlen"])
    assert found.dtype == bool
    assert_output(case, found.astype(np.int64))


# --- along a sequence ------------------------------------------------------------------------------------------------


def sequence_reshape(case):
    (x,) = inputs(case)
    width = case["attrs"]["new_dim"]
    if "raises" in case:
        with pytest.raises(sf.StructureError, match="sequence 0 .* rows of 4"):
            sf.reshape(x, width)
        return
    assert_output(case, sf.reshape(x, width))


def sequence_scatter(case):
    base, index, updates = inputs(case)
    updates = sf.LoD(updates.data[:, 0], updates.lod)  # a place of base is one number
    assert_output(case, sf.scatter(base, index, updates), assert_close)


# --- gradients -------------------------------------------------------------------------------------------------------


# Operations on the inputs of a case, and their options by its attributes.
CALLS = {
    "sequence_expand": (sf.expand, lambda attrs: {"level": attrs["ref_level"]}),
    "sequence_expand_as": (sf.expand_as, dict),
    "sequence_pool": (sf.reduce, lambda attrs: {"kind": attrs["pooltype"], "empty": attrs["pad_value"]}),
    "sequence_softmax": (sf.softmax, dict),
    "sequence_reverse": (sf.reverse, dict),
    "sequence_concat": (sf.concat, dict),
    "sequence_slice": (sf.slice, dict),
    "sequence_enumerate": (sf.ngrams, lambda attrs: {"size": attrs["win_size"], "fill": attrs["pad_value"]}),
    "sequence_erase": (sf.erase, lambda attrs: {"tokens": attrs["tokens"]}),
}


def call_of(case):
    """The operation, its arguments and its options."""
    operation, options = CALLS[case["kind"].removeprefix("grad:")]
    arguments = [inputs(case)] if operation is sf.concat else inputs(case)
    return operation, arguments, options(case.get("attrs") or {})


def of_call(case):
    operation, arguments, options = call_of(case)
    near = operation in (sf.reduce, sf.softmax)
    assert_output(case, operation(*arguments, **options), assert_close if near else assert_equal)


def gradient_of_call(case):
    operation, arguments, options = call_of(case)
    assert_gradients(case, operation, *arguments, **options)


def assert_gradients(case, op, *args, **options):
    _, pullback = sf.vjp(op, *args, **options)
    dy = array(case["dout"], np.float32)
    found = pullback(dy)
    found = found if isinstance(found, tuple) else (found,)
    for one, wanted in zip(found, case["grads"].values(), strict=True):
        assert_close(one, batch({**wanted, "dtype": "float32"}))


def grad_unpad(case):
    _, pullback = sf.vjp(sf.convert, rectangle(case), sf.LoD)
    found = pullback(array(case["dout"], np.float32))
    assert isinstance(found, sf.Masked)
    assert_close(found.data, batch(case["grads"]["x"]))


# --- time steps ------------------------------------------------------------------------------------------------------


def lod_tensor_to_array(case):
    x = sf.LoD.from_lengths(np.arange(case["rows"]), case["lens"])
    sorted_x, order = sf.sort_by_length(x)
    assert [[i, k] for i, k in zip(order.tolist(), sf.lengths(sorted_x, 0).tolist(), strict=True)] == case["rank_items"]
    steps = sf.TensorArray.unpack(x)
    assert len(steps) == case["max_len"]
    for found, wanted in zip(steps, case["steps"], strict=True):
        assert_equal(found, batch(wanted))
    assert case["roundtrip"]
    assert_equal(steps.pack(), x)


def lod_pack(case):
    steps = sf.TensorArray([batch(step) for step in case["steps"]])
    assert_equal(steps.pack_prefixes(), batch(case["out"]))


def ranked(case):
    """A batch of the lengths that make the rank table, and its order."""
    like = sf.Ragged(np.zeros(sum(case["rank_lens"])), case["rank_lens"])
    return like, sf.sort_by_length(like)[1]


def reorder_by_rank(case):
    assert_equal(sf.reorder(batch(case["x"]), ranked(case)[1]), batch(case["out"]))


def static_input(case):
    like, order = ranked(case)
    x = sf.LoD.from_lengths(array(case["x"]["data"], np.float32), case["x"]["lens"])
    y = sf.reorder(x, order)
    assert_equal(y, batch(case["reordered"]))
    for t, wanted in enumerate(case["shrunk"]):
        assert_equal(sf.shrink(y, like, t), batch(wanted))


def shrink_rnn_memory(case):
    assert_equal(sf.shrink(batch(case["x"]), ranked(case)[0], case["step"]), batch(case["out"]))


# --- decoding --------------------------------------------------------------------------------------------------------


def beam_search(case):
    given = case["inputs"]
    pre_ids, pre_scores = np.array(given["pre_ids"]).reshape(-1), np.array(given["pre_scores"], np.float32).reshape(-1)
    ids = None if given["ids"] is None else np.array(given["ids"])
    step = sf.beam_step(
        pre_ids,
        pre_scores,
        ids,
        sf.LoD(np.array(given["scores"], np.float32), given["lod"]),
        beam_size=given["beam_size"],
        end=given["end_id"],
        accumulated=given["is_accumulated"],
    )
    assert_equal(step.ids, sf.LoD(array(case["selected_ids"], np.int64), case["lod"]))
    assert_close(step.scores, sf.LoD(array(case["selected_scores"], np.float32), case["lod"]))
    assert step.parents.tolist() == case["parent_idx"]


def recorded_steps(case):
    ids = [sf.LoD(array(step["ids"], np.int64), step["lod"]) for step in case["steps"]]
    return ids, [sf.LoD(array(step["scores"], np.float32), step["lod"]) for step in case["steps"]]


def beam_search_decode(case):
    found = sf.beam_backtrace(*recorded_steps(case), beam_size=case["beam_size"], end=case["end_id"])
    assert_in_any_order_of_ties(found, case)


def assert_in_any_order_of_ties(found, case):
    """Paddle's sort is not stable, so hypotheses of one score may come in another order."""
    wanted_ids = sf.LoD(array(case["sentence_ids"], np.int64), case["lod"])
    wanted_scores = sf.LoD(array(case["sentence_scores"], np.float32), case["lod"])
    assert sf.lengths(found.ids, 0).tolist() == sf.lengths(wanted_ids, 0).tolist()
    for of_source, wanted_of_source in zip(
        hypotheses(found.ids, found.scores), hypotheses(wanted_ids, wanted_scores), strict=True
    ):
        finals = [scores[-1] for _, scores in of_source]
        np.testing.assert_allclose(finals, sorted(finals, reverse=True))
        for (ids, scores), (wanted, numbers) in zip(sorted(of_source), sorted(wanted_of_source), strict=True):
            assert ids == wanted
            np.testing.assert_allclose(scores, numbers, rtol=2e-5)


def hypotheses(ids, scores):
    return [list(zip(*both, strict=True)) for both in zip(ids.to_nested(), scores.to_nested(), strict=True)]


def beam_e2e(case):
    """The whole search, step by step as the record's note says."""
    tables = np.array(case["P"], np.float32)
    n = len(tables)
    ids = sf.LoD(np.full(n, case["start"]), [np.arange(n + 1)] * 2)
    steps = [(ids, sf.LoD(np.zeros(n, np.float32), ids.lod))]
    for _ in range(case["maxlen"]):
        ids, scores = steps[-1]
        source = np.repeat(np.arange(n), np.diff(ids.absolute()[0]))
        rows = tables[source, ids.data]
        order = np.argsort(-rows, axis=1, kind="stable")[:, : case["beam_size"] + 1]
        best = np.log(np.take_along_axis(rows, order, 1)) + scores.data[:, None]
        lod = sf.LoD(best, [ids.absolute()[0], np.arange(len(rows) + 1)])
        step = sf.beam_step(ids.data, scores.data, order, lod, beam_size=case["beam_size"], end=case["end_id"])
        if not step.ids.rows:
            break
        steps.append((step.ids, step.scores))
    assert len(steps) == len(case["steps"])
    for (ids, scores), wanted_ids, wanted_scores in zip(steps, *recorded_steps(case), strict=True):
        assert_equal(ids, wanted_ids)
        np.testing.assert_allclose(scores.data, wanted_scores.data, rtol=2e-5, atol=1e-5)
    found = sf.beam_backtrace(*zip(*steps, strict=True), beam_size=case["beam_size"], end=case["end_id"])
    assert_in_any_order_of_ties(found, case)


# --- the tests -------------------------------------------------------------------------------------------------------

ADAPTERS = {
    **dict.fromkeys(CALLS, of_call),
    **{f"grad:{name}": gradient_of_call for name in CALLS if f"grad:{name}" in {one["kind"] for one in CASES.values()}},
    "grad:sequence_pad": lambda case: assert_gradients(case, sf.convert, *inputs(case), sf.Masked, **padding(case)),
    "grad:sequence_unpad": grad_unpad,
    **{
        function.__name__: function
        for function in (
            *(lod_check, to_abs, sub_lod, append_lod, merge_lod, split_lod),
            *(sequence_pad, sequence_unpad, sequence_mask, sequence_reshape, sequence_scatter),
            *(lod_tensor_to_array, lod_pack, reorder_by_rank, static_input, shrink_rnn_memory),
            *(beam_search, beam_search_decode, beam_e2e),
        )
    },
}


@pytest.mark.parametrize("name", CASES)
def test_recorded(name):
    case = CASES[name]
    if name in OVERRULED:
        with pytest.raises(AssertionError):
            ADAPTERS[case["kind"]](case)
    else:
        ADAPTERS[case["kind"]](case)


def test_all_are_there():
    assert len(CASES) == len(RECORDED["cases"]) == 140
    assert set(OVERRULED) <= set(CASES)
    assert {case["kind"] for case in CASES.values()} == set(ADAPTERS)


def test_rows_are_not_promised_where_there_are_none():
    case = CASES["lod_check:own:zero-rows-unchecked-height"]
    assert case["valid"]
    assert not sf.is_valid_lod(case["lod"], case["rows"])
    with pytest.raises(sf.StructureError, match="must end with 0, since data has 0 rows, but end with 5"):
        sf.LoD(np.zeros(0), case["lod"])


def test_a_wrong_record_would_be_seen():
    wrong = json.loads(json.dumps(CASES["sequence_reverse:doc"]))
    wrong["outputs"][0]["data"][0][0] += 1
    with pytest.raises(AssertionError):
        of_call(wrong)
    wrong = json.loads(json.dumps(CASES["sequence_pool:doc:average-2lvl"]))
    wrong["outputs"][0]["lod"] = [[0, 1, 2, 5]]
    with pytest.raises(AssertionError):
        of_call(wrong)
