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


def sequence_expand(case):
    x, y = inputs(case)
    assert_output(case, sf.expand(x, y, level=case["attrs"]["ref_level"]))


def sequence_expand_as(case):
    x, y = inputs(case)
    assert_output(case, sf.expand_as(x, y))


def sequence_pool(case):
    (x,) = inputs(case)
    attrs = case["attrs"]
    assert_output(case, sf.reduce(x, attrs["pooltype"], empty=attrs["pad_value"]), assert_close)


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


def sequence_softmax(case):
    (x,) = inputs(case)
    assert_output(case, sf.softmax(x), assert_close)


def sequence_reverse(case):
    (x,) = inputs(case)
    assert_output(case, sf.reverse(x))


def sequence_concat(case):
    assert_output(case, sf.concat(inputs(case)))


def sequence_slice(case):
    assert_output(case, sf.slice(*inputs(case)))


def sequence_reshape(case):
    (x,) = inputs(case)
    width = case["attrs"]["new_dim"]
    if "raises" in case:
        with pytest.raises(sf.StructureError, match="sequence 0 .* rows of 4"):
            sf.reshape(x, width)
        return
    assert_output(case, sf.reshape(x, width))


def sequence_enumerate(case):
    (x,) = inputs(case)
    assert_output(case, sf.ngrams(x, case["attrs"]["win_size"], fill=case["attrs"]["pad_value"]))


def sequence_erase(case):
    (x,) = inputs(case)
    assert_output(case, sf.erase(x, case["attrs"]["tokens"]))


def sequence_scatter(case):
    base, index, updates = inputs(case)
    updates = sf.LoD(updates.data[:, 0], updates.lod)  # a place of base is one number
    assert_output(case, sf.scatter(base, index, updates), assert_close)


# --- gradients -------------------------------------------------------------------------------------------------------


def assert_gradients(case, op, *args, **options):
    _, pullback = sf.vjp(op, *args, **options)
    dy = array(case["dout"], np.float32)
    found = pullback(dy)
    found = found if isinstance(found, tuple) else (found,)
    for one, wanted in zip(found, case["grads"].values(), strict=True):
        assert_close(one, batch({**wanted, "dtype": "float32"}))


def grad_expand(case):
    x, y = inputs(case)
    assert_gradients(case, sf.expand, x, y, level=case["attrs"]["ref_level"])


def grad_expand_as(case):
    assert_gradients(case, sf.expand_as, *inputs(case))


def grad_pool(case):
    (x,) = inputs(case)
    assert_gradients(case, sf.reduce, x, case["attrs"]["pooltype"], empty=case["attrs"]["pad_value"])


def grad_softmax(case):
    assert_gradients(case, sf.softmax, *inputs(case))


def grad_pad(case):
    (x,) = inputs(case)
    assert_gradients(case, sf.convert, x, sf.Masked, **padding(case))


def grad_unpad(case):
    _, pullback = sf.vjp(sf.convert, rectangle(case), sf.LoD)
    found = pullback(array(case["dout"], np.float32))
    assert isinstance(found, sf.Masked)
    assert_close(found.data, batch(case["grads"]["x"]))


def grad_reverse(case):
    assert_gradients(case, sf.reverse, *inputs(case))


def grad_concat(case):
    assert_gradients(case, sf.concat, inputs(case))


def grad_slice(case):
    assert_gradients(case, sf.slice, *inputs(case))


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
    "lod_check": lod_check,
    "to_abs": to_abs,
    "sub_lod": sub_lod,
    "append_lod": append_lod,
    "merge_lod": merge_lod,
    "split_lod": split_lod,
    "sequence_expand": sequence_expand,
    "sequence_expand_as": sequence_expand_as,
    "sequence_pool": sequence_pool,
    "sequence_pad": sequence_pad,
    "sequence_unpad": sequence_unpad,
    "sequence_mask": sequence_mask,
    "sequence_softmax": sequence_softmax,
    "sequence_reverse": sequence_reverse,
    "sequence_concat": sequence_concat,
    "sequence_slice": sequence_slice,
    "sequence_reshape": sequence_reshape,
    "sequence_enumerate": sequence_enumerate,
    "sequence_erase": sequence_erase,
    "sequence_scatter": sequence_scatter,
    "grad:sequence_expand": grad_expand,
    "grad:sequence_expand_as": grad_expand_as,
    "grad:sequence_pool": grad_pool,
    "grad:sequence_softmax": grad_softmax,
    "grad:sequence_pad": grad_pad,
    "grad:sequence_unpad": grad_unpad,
    "grad:sequence_reverse": grad_reverse,
    "grad:sequence_concat": grad_concat,
    "grad:sequence_slice": grad_slice,
    "lod_tensor_to_array": lod_tensor_to_array,
    "lod_pack": lod_pack,
    "reorder_by_rank": reorder_by_rank,
    "static_input": static_input,
    "shrink_rnn_memory": shrink_rnn_memory,
    "beam_search": beam_search,
    "beam_search_decode": beam_search_decode,
    "beam_e2e": beam_e2e,
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


# --- what Paddle refuses or answers otherwise, beside the records -----------------------------------------------------


def test_a_batch_of_no_sequences():
    """Paddle takes [0] for no level at all."""
    x = sf.LoD(np.zeros((0, 3), np.float32), [[0]])
    assert len(x) == 0
    assert sf.reduce_sum(x).shape == (0, 3)
    assert_equal(sf.TensorArray.unpack(x).pack(), x)


@pytest.mark.parametrize(("lengths", "wanted"), [([0, 1], [7, 1]), ([0, 0, 0], [7, 7, 7]), ([0, 0], [7, 7])])
def test_more_sequences_than_rows_are_reduced(lengths, wanted):
    """Paddle wants a row for each."""
    x = sf.LoD.from_lengths(np.ones((sum(lengths), 1), np.float32), [lengths])
    assert sf.reduce(x, "sum", empty=7.0)[:, 0].tolist() == wanted


def test_any_number_of_levels_is_reduced():
    """Paddle has two."""
    x = sf.LoD(np.arange(4.0), [[0, 1, 2], [0, 1, 2], [0, 2, 3], [0, 1, 2, 4]])
    assert sf.reduce_sum(x).to_nested() == [[[[0, 1]]], [[[5]]]]


def test_a_softmax_of_large_scores():
    """Paddle's is NaN."""
    assert sf.softmax(sf.LoD(np.array([100.0, 1000.0]), [[0, 2]])).data.tolist() == [0, 1]


@pytest.mark.parametrize("items", [[np.nan, 2, 3], [1, np.nan, 3], [1, 2, np.nan]])
def test_a_maximum_with_nan(items):
    """In Paddle it depends on where the NaN is."""
    assert np.isnan(sf.reduce_max(sf.LoD(np.array(items), [[0, 3]]))).all()


def test_concat_keeps_the_outer_level():
    """Paddle loses the inner one."""
    x = sf.LoD(np.arange(4), [[0, 1, 2], [0, 1, 4]])
    y = sf.LoD(np.arange(10, 12), [[0, 1, 2], [0, 2, 2]])
    assert sf.concat([x, y]).to_nested() == [[[0, 10, 11]], [[1, 2, 3]]]


def test_a_batch_of_empty_sequences_comes_back_from_its_steps():
    """Paddle cannot, there being no step."""
    x = sf.LoD(np.zeros((0, 2)), [[0, 0, 0]])
    steps = sf.TensorArray.unpack(x)
    assert len(steps) == 0
    assert_equal(steps.pack(), x)


def test_no_memory_is_alive_past_the_longest():
    """Paddle leaves its output as it was."""
    like = sf.Ragged(np.zeros(3), [2, 1])
    assert sf.shrink(np.arange(2), like, 5).tolist() == []


def test_a_wrong_record_would_be_seen():
    wrong = json.loads(json.dumps(CASES["sequence_reverse:doc"]))
    wrong["outputs"][0]["data"][0][0] += 1
    with pytest.raises(AssertionError):
        sequence_reverse(wrong)
    wrong = json.loads(json.dumps(CASES["sequence_pool:doc:average-2lvl"]))
    wrong["outputs"][0]["lod"] = [[0, 1, 2, 5]]
    with pytest.raises(AssertionError):
        sequence_pool(wrong)
