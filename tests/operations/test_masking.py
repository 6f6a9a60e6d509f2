"""Tokens masked at random, in items, words and spans, against plain Python, and their distribution."""

import itertools
import math

import masking_oracle
import numpy as np
import oracle
import pytest
import strategies
from checks import assert_kept, assert_padding_is_zero, assert_result, mapped
from hypothesis import given
from hypothesis import strategies as st
from libraries import NUMPY

import seqformats as sf
from seqformats.kernels.parts import compiled, philox
from seqformats.launch import threads

every_format = pytest.mark.parametrize("kind", oracle.FORMATS, ids=oracle.format_name)
INTEGERS = [np.dtype(code) for code in ("i8", "u8", "i1", "u1", "i4", "u2", ">i8")]
SHAPES = [(), (1,)]
SEEDS = st.sampled_from([0, 1, 7, 2**32 + 5, 2**63 - 1])

# The vectors that come with the authors' own library, Random123: counter, key, numbers.
VECTORS = [
    ("00000000 00000000 00000000 00000000", "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
]


@compiled
def philox_into(words, out):
    a, b, c, d, e, f = int(words[0]), int(words[1]), int(words[2]), int(words[3]), int(words[4]), int(words[5])
    out[0], out[1], out[2], out[3] = philox(a, b, c, d, e, f)


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector[0][:8])
def test_random_numbers_are_those_of_the_authors(vector):
    counter, key, wanted = ([int(word, 16) for word in part.split()] for part in vector)
    out = np.zeros(4, np.int64)
    philox_into(np.array(counter + key), out)
    assert out.tolist() == wanted
    assert list(philox(*counter, *key)) == wanted
    assert list(masking_oracle.philox(tuple(counter), tuple(key))) == wanted


# ------------------------------------------------------------------------------------------------ masks


def padding_of(x):
    """The places of a rectangle that hold no item."""
    if isinstance(x, sf.Masked):
        return x.data[~x.mask]
    if isinstance(x, sf.Padded):
        return x.data[np.arange(len(x.data))[:, None] >= x.lengths]
    return np.zeros(0)


def lists(items):
    return [item.item() for item in items]


def assert_masked(found, x, truth, of):
    """The three parts against what ``of(items, i)`` has for each sequence."""

    def part(k, dtype):
        def made(items, i):
            return [np.full(truth.item_shape, value, dtype) for value in of(lists(items), i)[k]]

        return mapped(truth, made, dtype=dtype)

    ids, labels, chosen = found
    if isinstance(x, list) and not truth.rows():  # bare lists without items have no dtype
        assert [oracle.read(y).counts() for y in found] == [truth.counts()] * 3
        return
    assert_result(ids, x, part(0, truth.dtype))
    assert_kept(labels, x, part(1, "i8"))
    assert_result(chosen, x, part(2, "?"))


@every_format
@given(data=st.data())
def test_mask_tokens(arrays, kind, data):
    truth, x = data.draw(strategies.encoded(kind, kinds=arrays.of(INTEGERS), shapes=SHAPES))
    values = st.sampled_from([*range(9), *truth.data().reshape(-1).tolist()[:9]]).filter(lambda value: value < 2**63)
    special = data.draw(st.lists(values, max_size=5))
    options = {
        "rate": data.draw(st.sampled_from([0, 0.15, 0.5, 1])),
        "mask_id": data.draw(st.integers(0, 127)),
        "seed": data.draw(SEEDS),
        "split": data.draw(st.sampled_from([(0.8, 0.1, 0.1), (0, 1, 0), (0.5, 0, 0.5), (1, 0, 0)])),
        "ignore": data.draw(st.sampled_from([-100, 0, -(2**63)])),
    }
    vocabulary = data.draw(st.sampled_from([1, 3, 127, [5, 3, 3]]))
    found = arrays.on(lambda x: tuple(sf.mask_tokens(x, special=special, vocabulary=vocabulary, **options)))(x)
    ids = list(range(vocabulary)) if isinstance(vocabulary, int) else vocabulary
    bits = {"special": special, "vocabulary": ids}
    if not (truth.dtype == np.uint64 and truth.rows() and int(truth.data().max()) >= 2**63):
        assert_masked(found, x, truth, lambda items, i: masking_oracle.mask(items, i, **options, **bits))
    assert np.all(padding_of(found[1]) == options["ignore"])


def marks_like(draw, truth, name):
    """Bools over the sequences of a truth, laid out in any way: ``(truth, batch)``."""
    kind = draw(st.sampled_from([sf.Ragged, sf.Padded, sf.Masked, sf.Packed, sf.List]), label=name)
    lengths = truth.lengths()
    rng = np.random.default_rng(draw(st.integers(0, 9)))
    data = rng.integers(0, 3, sum(lengths)) == 0
    return oracle.cut(data, [oracle.offsets_of(lengths)]).nest, sf.convert(sf.Ragged(data, lengths), kind)


@every_format
@given(data=st.data())
def test_mask_words_and_marks(arrays, kind, data):
    truth, x = data.draw(strategies.encoded(kind, kinds=arrays.of(INTEGERS[3:5]), shapes=SHAPES))
    held, special = marks_like(data.draw, truth, "special")
    begins, whole = marks_like(data.draw, truth, "whole")
    options = {"rate": 0.4, "mask_id": 9, "seed": data.draw(SEEDS), "split": (0.5, 0.3, 0.2), "ignore": -100}

    def masked(x, special, whole):
        return tuple(sf.mask_tokens(x, special=special, whole=whole, vocabulary=20, **options))

    if kind is list:  # whose numbers are on the host
        found = arrays.on(lambda x: masked(x, special, whole))(x)
    else:
        found = arrays.on(masked)(x, special, whole)
    given_to = {"vocabulary": list(range(20))}
    assert_masked(
        found,
        x,
        truth,
        lambda items, i: masking_oracle.mask(
            items, i, held=lists(held[i]), begins=lists(begins[i]), **options, **given_to
        ),
    )


@pytest.mark.parametrize("kind", [sf.LoD, list], ids=oracle.format_name)
@given(data=st.data())
def test_mask_words_that_are_sequences(arrays, kind, data):
    """As the same items in sequences of the level above, with marks where words begin."""
    truth, x = data.draw(strategies.encoded(kind, kinds=arrays.of(INTEGERS[:1]), shapes=[()]))
    options = {"rate": 0.5, "mask_id": 9, "seed": data.draw(SEEDS), "vocabulary": 20}
    masked = arrays.on(lambda x: tuple(sf.mask_tokens(x, whole=True, **options)))
    if truth.levels < 2:
        with pytest.raises(sf.StructureError, match="only one level"):
            masked(x)
        return
    outer = sequences_above(truth.nest, truth.levels)
    begins = [[t == 0 for word in words for t in range(len(word))] for words in outer]
    sentences = [np.array([item.item() for word in words for item in word], np.int64) for words in outer]
    flat = sf.List(sentences, np.zeros(0, np.int64))
    marks = sf.List([np.array(part, bool) for part in begins], np.zeros(0, bool))
    wanted = sf.mask_tokens(flat, whole=marks, **options)
    for part, other in zip(masked(x), wanted, strict=True):
        assert oracle.read(part).counts() == truth.counts()
        assert oracle.read(part).data().tolist() == oracle.read(other).data().tolist()


def sequences_above(nest, levels):
    """What contains the innermost sequences."""
    return nest if levels == 2 else [part for child in nest for part in sequences_above(child, levels - 1)]


def batch_of(n=2000, longest=60, seed=0):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(0, longest, n)
    return sf.Ragged(rng.integers(5, 1000, int(lengths.sum())), lengths)


OPTIONS = {"mask_id": 4, "vocabulary": 1000, "seed": 11}


def test_neighbours_change_nothing():
    x = batch_of(40)
    other = sf.convert([np.flip(part.data) if i % 2 else part.data[:3] for i, part in enumerate(x)], sf.Ragged)
    mine = [sf.convert(part, list) for part in sf.mask_tokens(x, rate=0.5, **OPTIONS)]
    theirs = [sf.convert(part, list) for part in sf.mask_tokens(other, rate=0.5, **OPTIONS)]
    for one, two in zip(mine, theirs, strict=True):
        assert [part[:3] for part in one[::2]] == two[::2]
    moved = sf.Ragged(x.data + 7, x.lengths)
    assert np.array_equal(*[sf.mask_tokens(y, rate=0.5, **OPTIONS).chosen.data for y in (x, moved)])


@pytest.mark.passes("compiled", reason="the threads are those of compiled kernels")
def test_threads_change_nothing(monkeypatch):
    x = batch_of(40_000)
    one = sf.mask_tokens(x, **OPTIONS)
    monkeypatch.setattr(threads, "num_threads", lambda: 3)
    for mine, theirs in zip(one, sf.mask_tokens(sf.convert(x, sf.Padded), **OPTIONS), strict=True):
        assert sf.equal(sf.convert(theirs, sf.Ragged), mine)


def chi_square(counts, expected):
    """Pearson's statistic, as so many standard deviations of its distribution, about normal, above its mean."""
    counts, expected = np.array(counts, float), np.array(expected, float)
    freedom = len(counts) - 1
    return (float(((counts - expected) ** 2 / expected).sum()) - freedom) / math.sqrt(2 * freedom)


@pytest.mark.passes("compiled", reason="the other passes have the same numbers, one by one")
def test_distribution():
    """Of a million items, as many are chosen, masked, changed and kept as should be, wherever they stand."""
    x = sf.Ragged(np.full(1_000_000, 7), np.full(10_000, 100))
    y = sf.mask_tokens(x, rate=0.15, mask_id=4, vocabulary=[10, 11, 12, 13], seed=5)
    kinds = [~y.chosen.data, *(y.chosen.data & (y.ids.data == k) for k in (4, 7, 10, 11, 12, 13))]
    parts = np.array([0.85, 0.12, 0.015, *[0.00375] * 4])
    assert chi_square([kind.sum() for kind in kinds], parts * x.rows) < 4
    places = y.chosen.data.reshape(10_000, 100)
    assert chi_square(places.sum(0), np.full(100, 1500.0)) * 0.85 < 4
    beside = (places[:, 1:] & places[:, :-1]).mean()  # of neighbours, both are chosen as often as of any two
    assert abs(beside - 0.0225) < 4 * math.sqrt(0.0225 / places.size)
    assert np.array_equal(y.labels.data, np.where(y.chosen.data, 7, -100))
    words = sf.mask_tokens(
        x, rate=0.15, mask_id=4, vocabulary=9, seed=5, whole=sf.Ragged(np.arange(x.rows) % 4 == 0, x.lengths)
    )
    pieces = words.chosen.data.reshape(-1, 4)
    assert np.array_equal(pieces.any(1), pieces.all(1))
    assert abs(pieces.any(1).mean() - 0.15) < 0.003
    assert abs((words.ids.data == 4).mean() - 0.12 - 0.015 / 9) < 0.003


@pytest.mark.peers
def test_it_masks_as_the_collator_of_transformers_does():
    """The same shares of masked, random and kept tokens, none of them special."""
    transformers, torch = pytest.importorskip("transformers"), pytest.importorskip("torch")

    class Tokenizer(transformers.PreTrainedTokenizer):
        def __init__(self):
            super().__init__(mask_token="[MASK]", pad_token="[PAD]")

        vocab_size = property(lambda self: 1000)

        def get_vocab(self):
            return {"[PAD]": 0, "[MASK]": 4}

        def __len__(self):
            return 1000

        def _convert_token_to_id(self, token):
            return self.get_vocab().get(token, 1)

        def get_special_tokens_mask(self, ids, *_, **__):
            return [int(k < 5) for k in ids]

    torch.manual_seed(1)
    ids = torch.randint(0, 1000, (2000, 100))
    theirs = transformers.DataCollatorForLanguageModeling(Tokenizer(), mlm_probability=0.15).torch_mask_tokens(
        ids.clone()
    )
    x = sf.Masked(ids, np.full(2000, 100))
    mine = sf.mask_tokens(x, rate=0.15, mask_id=4, vocabulary=1000, special=range(5), seed=1)
    shares = []
    for new, labels in (theirs, (mine.ids.data, mine.labels.data)):
        chosen = labels != -100
        assert bool((labels[chosen] >= 5).all())
        assert bool((new[~chosen] == ids[~chosen]).all())
        kinds = [chosen, chosen & (new == 4), chosen & (new == labels), chosen & (new != labels) & (new != 4)]
        shares.append([float(kind.double().mean()) for kind in kinds])
    for one, two in zip(*shares, strict=True):
        assert abs(one - two) < 4 * math.sqrt(2 * one / ids.numel())


# ------------------------------------------------------------------------------------------------ spans


@every_format
@given(data=st.data())
def test_corrupt_spans(arrays, kind, data):
    truth, x = data.draw(strategies.encoded(kind, kinds=arrays.of(INTEGERS), shapes=SHAPES))
    options = {
        "rate": data.draw(st.sampled_from([0.0, 0.15, 0.5, 1.0])),
        "mean": data.draw(st.sampled_from([1, 1.5, 3])),
        "sentinel": data.draw(st.integers(100, 127)),
        "seed": data.draw(SEEDS),
    }
    found = arrays.on(lambda x: tuple(sf.corrupt_spans(x, **options)))(x)
    bare = kind is list and not truth.rows()
    for k, part in enumerate(found):

        def made(items, i, k=k):
            values = masking_oracle.corrupt(lists(items), i, **options)[k]
            return [np.full(truth.item_shape, value).astype(truth.dtype) for value in values]

        if bare:  # without a dtype, but targets have sentinels
            wanted = mapped(truth, made, dtype="i8" if truth.sequences() and k else truth.dtype)
            assert oracle.read(part).counts() == wanted.counts()
        else:
            assert_result(part, x, mapped(truth, made))


@every_format
@given(data=st.data())
def test_spans_go_around_special_items(arrays, kind, data):
    truth, x = data.draw(strategies.encoded(kind, kinds=arrays.of(INTEGERS), shapes=SHAPES))
    options = {"rate": data.draw(st.sampled_from([0.15, 0.5, 1.0])), "mean": data.draw(st.sampled_from([1, 3]))}
    options |= {"sentinel": 127, "seed": data.draw(SEEDS)}
    values = [int(item.reshape(-1)[0]) for sequence in truth.sequences() for item in sequence]
    ids = data.draw(
        st.lists(st.sampled_from([*[value for value in values[:8] if value < 2**63], 99]), min_size=1, max_size=4)
    )
    marks, ends = np.isin(values, ids), oracle.offsets_of([len(sequence) for sequence in truth.sequences()])
    if kind is list and not truth.rows():
        return
    batch = sf.Ragged(marks, np.diff(ends))
    for special in (ids, batch, sf.convert(batch, sf.Masked)):
        found = arrays.on(lambda x, special=special: tuple(sf.corrupt_spans(x, special=special, **options)))(x)
        for k, part in enumerate(found):

            def made(items, i, k=k):
                apart = marks[ends[i] : ends[i + 1]]
                numbers = masking_oracle.corrupt_around(lists(items), i, apart, **options)[k]
                return [np.full(truth.item_shape, number).astype(truth.dtype) for number in numbers]

            assert_result(part, x, mapped(truth, made))


@given(data=st.data())
def test_spans_put_together_are_the_sequence(data):
    lengths = data.draw(st.lists(st.integers(0, 40), max_size=6))
    rate, mean = data.draw(st.sampled_from([0.1, 0.15, 0.5, 0.9])), data.draw(st.sampled_from([1, 2, 3, 10]))
    x = sf.Ragged(np.arange(sum(lengths)), lengths)
    inputs, targets = sf.mask_tokens(x, spans=mean, rate=rate, mask_id=2000, seed=data.draw(SEEDS))
    for i, (sequence, rest, spans) in enumerate(zip(x, inputs, targets, strict=True)):
        items, first = spans.data.tolist(), 2000
        assert items[0] == first
        found = []
        for token in rest.data.tolist():
            if token < 1500:
                found.append(token)
                continue
            assert token == first
            span = list(itertools.takewhile(lambda k: k < 1500, items[items.index(token) + 1 :]))
            assert span
            found += span
            first -= 1
        assert items[-1] == first
        assert found == sequence.data.tolist()
        masked, count = masking_oracle.spans(lengths[i], rate, mean)
        assert (len(items), 2000 - first) == (masked + count + 1, count)


@pytest.mark.passes("compiled", reason="the other passes have the same numbers, one by one")
def test_every_division_into_spans_is_as_likely():
    """Of 8 items 4 in two spans: three divisions of the kept ones, three of the others."""
    x = sf.Ragged(np.tile(np.arange(8), 9000), np.full(9000, 8))
    y = sf.corrupt_spans(x, rate=0.5, mean=2, sentinel=99, seed=3).inputs
    _, counts = np.unique(y.data.reshape(9000, -1), axis=0, return_counts=True)
    assert len(counts) == 9
    assert chi_square(counts, np.full(9, 1000.0)) < 4


@pytest.mark.peers
def test_spans_have_the_lengths_of_t5():
    """The numbers of masked items and spans, as a loop in the words of the paper has them."""
    lengths = np.arange(2, 600)
    y = sf.corrupt_spans(sf.Ragged(np.arange(lengths.sum()), lengths), sentinel=10**7, seed=2)
    masked = np.clip(np.round(lengths * 0.15).astype(int), 1, lengths - 1)
    spans = np.maximum(np.round(masked / 3.0).astype(int), 1)
    assert np.array_equal(y.inputs.lengths, lengths - masked + spans)
    assert np.array_equal(y.targets.lengths, masked + spans + 1)


# ------------------------------------------------------------------------------------------------ errors

X = sf.Ragged(np.array([1, 2, 3], np.int8), [2, 1])


@pytest.mark.parametrize(
    ("error", "match", "options"),
    [
        (sf.ConversionError, "rate must be from 0 to 1", {"rate": 1.5}),
        (sf.ConversionError, "rate must be from 0 to 1", {"rate": math.nan}),
        (TypeError, "rate must be a number", {"rate": "much"}),
        (sf.ConversionError, "mask_id=300 does not fit int8", {"mask_id": 300}),
        (sf.ConversionError, "vocabulary=129 is beyond int8", {"vocabulary": 129}),
        (sf.ConversionError, "do not fit int8", {"vocabulary": [1, 200]}),
        (sf.ConversionError, "wants random ids; give vocabulary", {"vocabulary": None}),
        (sf.ConversionError, "wants random ids", {"vocabulary": []}),
        (sf.ConversionError, "vocabulary must be at least 1", {"vocabulary": 0}),
        (sf.ConversionError, "must add up to 1", {"split": (0.5, 0.1, 0.1)}),
        (sf.ConversionError, "three numbers", {"split": (1, 0)}),
        (sf.ConversionError, "seed must be at least 0", {"seed": -1}),
        (sf.ConversionError, "seed must fit int64", {"seed": 2**64}),
        (TypeError, "seed must be an integer", {"seed": None}),
        (sf.ConversionError, "does not fit int64", {"ignore": 2**70}),
        (sf.StructureError, r"special has sequences of lengths \[3\]", {"special": sf.Ragged(np.ones(3, bool), [3])}),
        (TypeError, "special must hold bools", {"special": sf.Ragged(np.ones(3), [2, 1])}),
        (sf.StructureError, "one bool per item", {"whole": sf.Ragged(np.ones((3, 2), bool), [2, 1])}),
        (sf.StructureError, "only one level", {"whole": True}),
        (TypeError, "special must be", {"special": [1.5]}),
        (sf.ConversionError, "spans are of any items", {"spans": 3, "whole": True}),
    ],
)
def test_masks_that_cannot_be(error, match, options):
    with pytest.raises(error, match=match):
        sf.mask_tokens(X, **{"mask_id": 1, "vocabulary": 9, "seed": 0, **options})


@pytest.mark.parametrize(
    ("error", "match", "options"),
    [
        (sf.ConversionError, "mean must be a finite number", {"mean": 0.5}),
        (sf.ConversionError, "mean must be a finite number", {"mean": math.inf}),
        (sf.ConversionError, "sentinels from 200 down to 199", {"sentinel": 200}),
        (sf.ConversionError, "sentinels from 0 down to -1", {"sentinel": 0}),
        (sf.ConversionError, "sentinel must be at least 0", {"sentinel": -1}),
        (sf.ConversionError, "rate must be", {"rate": -0.1}),
        (TypeError, "special must be", {"special": [1.5]}),
        (TypeError, "special must hold bools", {"special": sf.Ragged(np.ones(3), [2, 1])}),
        (sf.ConversionError, "sentinels from 0 down to -1", {"sentinel": 0, "special": [7]}),
    ],
)
def test_spans_that_cannot_be(error, match, options):
    with pytest.raises(error, match=match):
        sf.corrupt_spans(X, **{"sentinel": 100, "seed": 0, **options})


def test_ids_are_integers():
    for call in (lambda x: sf.mask_tokens(x, **OPTIONS), lambda x: sf.corrupt_spans(x, sentinel=9, seed=0)):
        with pytest.raises(TypeError, match="ids are integers"):
            call(sf.Ragged(np.zeros(2), [2]))
        with pytest.raises(sf.StructureError, match=r"shape \(2,\)"):
            call(sf.Ragged(np.zeros((2, 2), int), [2]))


def test_nothing_is_taken_from_the_caller():
    """Neither the ids nor the marks are written to."""
    x = sf.convert(batch_of(5), sf.Masked)
    before = x.data.copy()
    sf.mask_tokens(x, rate=1, **OPTIONS)
    assert np.array_equal(x.data, before)
    assert_padding_is_zero(x)
    assert NUMPY.up(x) is x
