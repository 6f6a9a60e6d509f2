"""The source documents: every example with numbers, corrected, holds; the uncorrected ones are refused."""

import numpy as np
import pytest

import seqformats as sf


def lists(lod):
    return [level.tolist() for level in lod]


def letters(text):
    """The rows "a1 a2 b1" as an array of strings."""
    return np.array(text.split())


# --- LoDTensor: offsets and lengths ----------------------------------------------------------------------------------

# lengths of every level, offsets of every level, items of two numbers
LOD_EXAMPLES = [
    ([[2, 3]], [[0, 2, 5]], np.arange(1, 11).reshape(5, 2)),
    ([[2, 1], [2, 2, 3]], [[0, 2, 3], [0, 2, 4, 7]], np.arange(1, 15).reshape(7, 2)),
]
every_lod_example = pytest.mark.parametrize(("lengths", "lod", "data"), LOD_EXAMPLES, ids=["one level", "two levels"])


@every_lod_example
def test_lengths_and_offsets_say_the_same(lengths, lod, data):
    by_offsets, by_lengths = sf.LoD(data, lod), sf.LoD.from_lengths(data, lengths)
    assert sf.equal(by_offsets, by_lengths)
    assert lists(by_lengths.lod) == lod
    assert by_offsets.lengths() == lengths
    assert by_offsets.data.shape == (sum(lengths[-1]), 2)


def test_two_sequences_of_two_and_three_items():
    x = sf.LoD.from_lengths(LOD_EXAMPLES[0][2], [[2, 3]])
    assert x[0].data.tolist() == [[1, 2], [3, 4]]
    assert x[1].data.tolist() == [[5, 6], [7, 8], [9, 10]]


def test_two_paragraphs_of_two_and_one_sentences():
    y = sf.LoD(LOD_EXAMPLES[1][2], [[0, 2, 3], [0, 2, 4, 7]])
    assert sf.lengths(y, 0).tolist() == [2, 1]
    assert [sentence.tolist() for sentence in y.to_nested()[0]] == [[[1, 2], [3, 4]], [[5, 6], [7, 8]]]
    assert [sentence.tolist() for sentence in y.to_nested()[1]] == [[[9, 10], [11, 12], [13, 14]]]


def test_offsets_taken_for_lengths_and_lengths_taken_for_offsets():
    data = LOD_EXAMPLES[0][2]
    with pytest.raises(sf.StructureError, match=r"lod\[0\] must begin with 0, but .* is 2"):
        sf.LoD(data, [[2, 3]])
    with pytest.raises(sf.StructureError, match=r"lengths\[0\] must end with 5"):
        sf.LoD.from_lengths(data, [[0, 2, 5]])


def test_the_methods_of_a_lod_tensor():
    x = sf.LoD.from_lengths(np.ones((5, 30)), [[2, 3]])
    assert sf.is_valid_lod(x.lod, x.rows)
    assert lists(x.lod) == [[0, 2, 5]]
    assert x.lengths() == [[2, 3]]
    assert list(x.data.shape) == [5, 30]
    assert np.asarray(x) is x.data


# --- sequence decoder: absolute and relative offsets -----------------------------------------------------------------

ABSOLUTE = [[0, 3, 9], [0, 2, 3, 3, 3, 9]]
RELATIVE = {  # the outer level -> how many of the two empty sequences each outer sequence has
    (0, 2, 5): [0, 2],
    (0, 3, 5): [1, 1],
    (0, 4, 5): [2, 0],
}


def test_absolute_offsets_are_no_relative_ones():
    with pytest.raises(sf.StructureError, match=r"lod\[0\] must end with 5, since lod\[1\] has 5 sequences, but .* 9"):
        sf.LoD(np.arange(9), ABSOLUTE)


@pytest.mark.parametrize(("outer", "empty"), RELATIVE.items())
def test_relative_offsets_tell_where_empty_sequences_are(outer, empty):
    x = sf.LoD(np.arange(9), [outer, ABSOLUTE[1]])
    assert [sum(not sequence for sequence in part) for part in x.to_nested()] == empty
    assert lists(x.absolute()) == ABSOLUTE


def test_absolute_offsets_cannot_tell_where_empty_sequences_are():
    message = r"lod\[0\]\[1\] = 3 occurs 3 times in lod\[1\]: absolute offsets cannot tell whose empty sequences"
    with pytest.raises(sf.StructureError, match=message):
        sf.LoD.from_absolute(np.arange(9), ABSOLUTE)
    left = sf.LoD.from_absolute(np.arange(9), ABSOLUTE, empties="left")
    right = sf.LoD.from_absolute(np.arange(9), ABSOLUTE, empties="right")
    assert left.to_nested() == [[[0, 1], [2], [], []], [[3, 4, 5, 6, 7, 8]]]
    assert right.to_nested() == [[[0, 1], [2]], [[], [], [3, 4, 5, 6, 7, 8]]]


def test_the_printed_relative_offsets_are_refused():
    with pytest.raises(sf.StructureError, match=r"lod\[0\] must end with 5, since lod\[1\] has 5 sequences, but .* 6"):
        sf.LoD(np.arange(9), [[0, 3, 6], [0, 2, 3, 3, 3, 9]])


def test_slices_of_the_corrected_offsets():
    x = sf.LoD(np.arange(9), [[0, 3, 5], [0, 2, 3, 3, 3, 9]])
    assert lists(x[0].lod) == [[0, 3], [0, 2, 3, 3]]
    assert lists(x[1].lod) == [[0, 2], [0, 0, 6]]
    assert x.sub(1, 2).data.tolist() == [3, 4, 5, 6, 7, 8]
    assert x.sub(2, 5, level=1).to_nested() == [[], [], [3, 4, 5, 6, 7, 8]]


# --- sequence decoder: prefixes and candidates -----------------------------------------------------------------------

PREFIXES = letters("a1 a2 a3 a4 a5")
TARGET_WORD = [[0, 1, 5], [0, 2, 4, 7, 9, 12]]


def test_the_decoder_s_memory():
    memory = sf.LoD(PREFIXES, [[0, 1, 3], [0, 1, 3, 5]])
    assert memory.to_nested() == [[["a1"]], [["a2", "a3"], ["a4", "a5"]]]
    assert lists(memory.absolute()) == [[0, 1, 5], [0, 1, 3, 5]]


def test_the_printed_memory_is_refused():
    with pytest.raises(sf.StructureError, match=r"lod\[1\] must end with 5, since data has 5 rows, but end with 6"):
        sf.LoD(PREFIXES, [[0, 1, 3], [0, 1, 3, 6]])


def test_one_and_four_prefixes():
    target = sf.LoD(np.zeros(12), TARGET_WORD)
    assert target.lengths() == [[1, 4], [2, 2, 3, 2, 3]]


def test_the_printed_target_word_is_refused():
    with pytest.raises(sf.StructureError, match=r"lod\[0\] must end with 5, since lod\[1\] has 5 sequences, but .* 6"):
        sf.LoD(np.zeros(12), [[0, 1, 6], [0, 2, 4, 7, 9, 12]])


def test_the_memory_is_expanded_to_the_candidates():
    target = sf.LoD(np.zeros(12), TARGET_WORD)
    expanded = sf.expand_as(PREFIXES, target)
    assert expanded.data.tolist() == letters("a1 a1 a2 a2 a3 a3 a3 a4 a4 a5 a5 a5").tolist()
    assert lists(expanded.lod) == TARGET_WORD
    assert sf.expand(PREFIXES, target).tolist() == expanded.data.tolist()


def test_the_memory_in_its_own_levels_is_expanded_too():
    memory = sf.LoD(PREFIXES, [[0, 1, 3], [0, 1, 3, 5]])
    target = sf.LoD(np.zeros(12), TARGET_WORD)
    assert sf.equal(sf.expand_as(memory, target), sf.expand_as(PREFIXES, target))


def test_a_source_s_context_follows_its_prefixes():
    """The context has one row per source, so it cannot be expanded over prefixes at once."""
    context, target = letters("a b"), sf.LoD(np.zeros(12), TARGET_WORD)
    with pytest.raises(sf.StructureError, match="x has 2 rows, but like has 5 innermost sequences"):
        sf.expand_as(context, target)
    prefixes = sf.expand(context, target, level=0)
    assert prefixes.tolist() == ["a", "b", "b", "b", "b"]
    assert sf.expand_as(prefixes, target).data.tolist() == ["a"] * 2 + ["b"] * 10


STATE = letters("a1 a2 b1 b2 b3 c1")
CANDIDATES = [0, 3, 5, 8, 9, 11, 11]
EXPANDED = letters("a1 a1 a1 a2 a2 b1 b1 b1 b2 b3 b3").tolist()
SOURCES = {"two sources": ([0, 1, 3], [0, 2, 6]), "three sources": ([0, 1, 2, 3], [0, 2, 5, 6])}
every_number_of_sources = pytest.mark.parametrize(("before", "after"), SOURCES.values(), ids=SOURCES)


@every_number_of_sources
def test_the_state_s_levels_change_from_step_to_step(before, after):
    previous = sf.LoD(STATE, [before, [0, 2, 5, 6]])
    assert len(previous) == len(before) - 1
    current = sf.expand_as(previous, sf.LoD(np.zeros(11), [after, CANDIDATES]))
    assert current.data.tolist() == EXPANDED
    assert lists(current.lod) == [after, CANDIDATES]
    assert current.lengths()[1] == [3, 2, 3, 1, 2, 0]  # c1 is dropped, its prefix stays


def test_three_sources_hold_two_three_and_one_candidates():
    previous = sf.LoD(STATE, [[0, 1, 2, 3], [0, 2, 5, 6]])
    assert previous.to_nested() == [[["a1", "a2"]], [["b1", "b2", "b3"]], [["c1"]]]
    current = sf.expand_as(previous, sf.LoD(np.zeros(11), [[0, 2, 5, 6], CANDIDATES]))
    assert current.to_nested()[2] == [[]]


def test_the_printed_state_has_two_sources():
    assert len(sf.LoD(STATE, [[0, 1, 3], [0, 2, 5, 6]])) == 2


def test_the_printed_current_state_is_refused():
    with pytest.raises(sf.StructureError, match=r"lod\[0\] must end with 6, since lod\[1\] has 6 sequences, but .* 7"):
        sf.LoD(np.zeros(11), [[0, 2, 7], CANDIDATES])


def test_the_last_state_of_every_source_sentence():
    states = sf.LoD(np.arange(10.0).reshape(5, 2), [[0, 2, 5]])
    assert sf.reduce_last(states).tolist() == [[2.0, 3.0], [8.0, 9.0]]


def test_selected_ids_of_every_step_are_packed_to_translations():
    """The first level stands for the sources, the second for what was generated."""
    start = sf.LoD(np.array([0, 0]), [[0, 1, 2], [0, 1, 2]])
    first = sf.LoD(np.array([2, 3, 4]), [[0, 1, 2], [0, 2, 3]])
    second = sf.LoD(np.array([5, 6, 7]), [[0, 2, 3], [0, 2, 2, 3]])
    packed = sf.TensorArray([start, first, second]).pack_prefixes()
    assert packed.to_nested() == [[[0, 2, 5], [0, 2, 6], [0, 3]], [[0, 4, 7]]]
    assert lists(packed.lod) == [[0, 3, 4], [0, 3, 6, 8, 11]]


def test_steps_are_unpacked_and_packed():
    x = sf.LoD(np.arange(6), [[0, 2, 3, 6]])
    steps = sf.TensorArray.unpack(x)
    assert [step.tolist() for step in steps] == [[3, 0, 2], [4, 1], [5]]
    assert sf.equal(steps.pack(), x)


# --- sequence_expand -------------------------------------------------------------------------------------------------


def column(*numbers):
    return np.array(numbers, np.float32)[:, None]


def expanded_pairs():
    x = sf.LoD.from_lengths(column(1, 2, 3, 4), [[2, 2]])
    y = sf.LoD.from_lengths(column(1, 2, 3, 4, 5, 6, 7, 8), [[2, 2], [3, 3, 1, 1]])
    return x, y


def test_sequences_expanded_by_an_outer_level():
    x, y = expanded_pairs()
    assert lists(x.lod) == [[0, 2, 4]]
    assert lists(y.lod) == [[0, 2, 4], [0, 3, 6, 7, 8]]
    out = sf.expand(x, y, level=0)
    assert out.lengths() == [[2, 2, 2, 2]]
    assert lists(out.lod) == [[0, 2, 4, 6, 8]]
    assert out.data.shape == (8, 1)
    assert out.dtype == np.float32
    assert out.data[:, 0].tolist() == [1, 2, 1, 2, 3, 4, 3, 4]


def test_only_the_level_asked_for_is_looked_at():
    x, y = expanded_pairs()
    other = sf.LoD(np.array([[0], [0], [1], [1], [1], [1], [1], [0]]), y.lod)
    assert sf.equal(sf.expand(x, other, level=0), sf.expand(x, y, level=0))
    inner = sf.LoD(np.zeros(4), [[0, 2, 4], [0, 1, 2, 3, 4]])
    assert sf.equal(sf.expand(x, inner, level=0), sf.expand(x, y, level=0))


def test_rows_expanded_by_the_innermost_level():
    out = sf.expand(column(1, 2, 3), sf.LoD.from_lengths(np.zeros(5), [[2, 0, 3]]), level=-1)
    assert isinstance(out, np.ndarray)
    assert out.shape == (5, 1)
    assert out[:, 0].tolist() == [1, 1, 3, 3, 3]


def test_the_printed_lengths_are_no_offsets():
    with pytest.raises(sf.StructureError, match=r"lod\[0\] must begin with 0, but .* is 2"):
        sf.LoD(column(1, 2, 1, 2, 3, 4, 3, 4), [[2, 2, 2, 2]])


def test_the_number_of_sequences_must_be_that_of_the_level():
    x, y = expanded_pairs()
    with pytest.raises(sf.StructureError, match="x has 2 sequences, but like has 4 sequences on this level"):
        sf.expand(x, y, level=-1)
    with pytest.raises(sf.StructureError, match="x has 3 rows, but like has 2 sequences on this level"):
        sf.expand(column(1, 2, 3), y, level=0)
    with pytest.raises(IndexError, match="there is no level 2"):
        sf.expand(x, y, level=2)


# --- variable-length sequences in Thinc ------------------------------------------------------------------------------


def sequences():
    return [np.full((7, 5), 1.0), np.full((2, 5), 2.0), np.full((4, 5), 3.0)]


def test_padded():
    padded = sf.convert(sequences(), sf.Padded)
    assert padded.data.shape == (7, 3, 5)
    assert (padded.data[:, 0] == 1).all()
    assert (padded.data[:4, 1] == 3).all()
    assert (padded.data[4:, 1] == 0).all()
    assert (padded.data[:2, 2] == 2).all()
    assert (padded.data[2:, 2] == 0).all()
    assert list(padded.indices) == [0, 2, 1]


def test_the_printed_comparisons_have_no_truth_value():
    padded = sf.convert(sequences(), sf.Padded)
    with pytest.raises(ValueError, match="truth value"):
        bool(padded.data[:, 0] == 1)


def test_the_active_sequences_of_a_step():
    padded = sf.convert(sequences(), sf.Padded)
    assert padded.size_at_t.tolist() == [3, 3, 2, 2, 1, 1, 1]
    active = [padded.data[t, : padded.size_at_t[t]] for t in range(7)]
    assert sum(len(rows) for rows in active) == padded.rows == 13
    assert active[1][:, 0].tolist() == [1, 3, 2]
    assert active[3][:, 0].tolist() == [1, 3]


def test_slices_of_padded_are_sequences_one_and_two():
    padded = sf.convert(sequences(), sf.Padded)
    assert isinstance(padded[0], sf.Padded)
    assert padded[0].data.shape == (7, 1, 5)
    assert sf.equal(padded[1:3], sf.convert(sequences()[1:3], sf.Padded))
    assert padded[1:3].data.shape == (4, 2, 5)


def test_ragged():
    ragged = sf.convert(sequences(), sf.Ragged)
    assert ragged.data.shape == (13, 5)
    assert ragged.data.shape[0] == ragged.lengths.sum()
    assert (ragged.data[:7] == 1).all()
    assert (ragged.data[7:9] == 2).all()
    assert (ragged.data[9:] == 3).all()
    assert ragged.data[7:2].size == 0  # as printed, which compares nothing
    assert isinstance(ragged[0], sf.Ragged)
    assert ragged[0].data.shape == (7, 5)


def test_a_dense_layer_on_the_rows_of_a_ragged():
    ragged, weight = sf.convert(sequences(), sf.Ragged), np.ones((5, 6))
    out = sf.Ragged(ragged.data @ weight, ragged.lengths)
    assert out.data.shape == (13, 6)
    assert sf.equal(sf.with_array(lambda rows: rows @ weight)(ragged), out)
    with pytest.raises(sf.StructureError, match="add up to 13, but data has 12 rows"):
        sf.Ragged((ragged.data @ weight)[1:], ragged.lengths)


def test_a_ragged_keeps_all_axes():
    ragged = sf.convert([np.zeros((5, 6, 7)), np.zeros((10, 6, 7))], sf.Ragged)
    assert ragged.data.shape == (15, 6, 7)
    assert ragged.item_shape == (6, 7)
    assert ragged.data.reshape(15, -1).shape == (15, 42)


def test_reductions_of_a_ragged():
    ragged = sf.convert(sequences(), sf.Ragged)
    assert sf.reduce_sum(ragged)[:, 0].tolist() == [7, 4, 12]
    assert sf.reduce_mean(ragged)[:, 0].tolist() == [1, 2, 3]
    assert sf.reduce_max(ragged)[:, 4].tolist() == [1, 2, 3]


def test_a_hierarchy_needs_no_padding():
    """Texts, paragraphs, sentences, words, characters."""
    texts = [[[[[1, 2, 3], [4]], [[5, 6]]]], [[[[7] * 10]], []]]
    x = sf.LoD.from_nested(texts)
    assert x.lengths() == [[1, 2], [2, 1, 0], [2, 1, 1], [3, 1, 2, 10]]
    assert x.rows == 16
    assert x.to_nested() == texts


def test_a_plain_array_is_no_sequence():
    """Nothing says where its sequences end."""
    with pytest.raises(TypeError, match="give it lengths"):
        sf.reduce_mean(np.zeros((3, 7, 5)))
