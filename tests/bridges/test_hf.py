"""Hugging Face: collators beside those of transformers, encodings beside tokenizers."""

import doctest
import itertools
import pickle
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import seqformats as sf

pytestmark = pytest.mark.bridges
torch = pytest.importorskip("torch")
tokenizers = pytest.importorskip("tokenizers")
transformers = pytest.importorskip("transformers")

TEXTS = ["the cat sat on the mat", "", "a dog", "unbelievable sentences, aren't they?", "cats & dogs"]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def word_pieces():
    """A tokenizer like BERT's, trained here."""
    found = tokenizers.Tokenizer(tokenizers.models.WordPiece(unk_token="[UNK]"))
    found.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    trainer = tokenizers.trainers.WordPieceTrainer(vocab_size=55, special_tokens=SPECIAL, show_progress=False)
    found.train_from_iterator(TEXTS, trainer)
    found.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return found


def wrapped(tokenizer, **options):
    names = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, **{**names, "mask_token": "[MASK]", **options}
    )


@pytest.fixture(scope="module")
def pieces():
    return word_pieces()


@pytest.fixture(scope="module")
def tokenizer(pieces):
    return wrapped(pieces, model_max_length=24)


@pytest.fixture(scope="module")
def left(pieces):
    return wrapped(pieces, padding_side="left", model_max_length=24)


def same(ours, theirs, order=False):
    """Key by key: the type, the dtype, the shape, the values."""
    assert set(ours) == set(theirs)
    assert not order or list(ours) == list(theirs)
    for key, wanted in theirs.items():
        found = ours[key]
        assert type(found) is type(wanted), key
        if isinstance(wanted, int):
            assert found == wanted
            continue
        assert found.dtype == wanted.dtype, key
        assert found.shape == wanted.shape, key
        assert found.tolist() == wanted.tolist(), key


WAYS = {"lists": list, "arrays": np.array, "tensors": torch.tensor, "tuples": tuple, "int32": np.int32}


def rows(rng, n, columns, way="lists", longest=20, shortest=0):
    """Random features."""
    made, to = [], {**WAYS, "int32": lambda x: np.array(x, np.int32)}[way]
    for length in rng.integers(shortest, longest, n).tolist():
        row = {"input_ids": rng.integers(5, 50, length)}
        if "attention_mask" in columns:
            row["attention_mask"] = np.ones(length, int)
        if "token_type_ids" in columns:
            row["token_type_ids"] = rng.integers(0, 2, length)
        if "special_tokens_mask" in columns:
            row["special_tokens_mask"] = rng.integers(0, 2, length)
        if "labels" in columns:
            row["labels"] = rng.integers(-100, 9, length)
        row = {name: to(values.tolist()) for name, values in row.items()}
        if "label" in columns:
            row["label"] = int(rng.integers(0, 9))
        if "score" in columns:
            row["label"] = float(rng.normal())
        if "label_ids" in columns:
            row["label_ids"] = rng.integers(0, 9, 3).tolist()
        made.append(row)
    return made


COLUMNS = st.sets(st.sampled_from(["attention_mask", "token_type_ids", "special_tokens_mask"]))
MULTIPLES = st.sampled_from([None, 1, 4, 8])


@given(
    seed=st.integers(0, 2**32),
    n=st.integers(1, 7),
    columns=COLUMNS,
    label=st.sampled_from([None, "label", "score", "label_ids"]),
    way=st.sampled_from(["lists", "arrays", "tensors", "int32"]),
    multiple=MULTIPLES,
    padding=st.sampled_from([True, "longest", "max_length"]),
    max_length=st.sampled_from([None, 20, 30]),
    side=st.sampled_from(["left", "right"]),
    tensors=st.sampled_from(["pt", "np"]),
)
def test_padding(
    tokenizer, left, seed, n, columns, label, way, multiple, padding, max_length, side, tensors
):  # fmt: skip
    chosen = tokenizer if side == "right" else left
    features = rows(np.random.default_rng(seed), n, columns | {label}, way, shortest=1)
    max_length = max_length if padding == "max_length" else None
    options = {"padding": padding, "max_length": max_length, "pad_to_multiple_of": multiple, "return_tensors": tensors}
    theirs = transformers.DataCollatorWithPadding(chosen, **options)(features)
    ours = sf.hf.Collator(chosen, **options)(features)
    same(ours, theirs)
    assert type(ours) is type(theirs)  # with .to(device)
    # without a tokenizer, what it tells is said
    bare = sf.hf.Collator(pad_token_id=0, padding_side=side, **{**options, "max_length": max_length or 24})
    same(bare(features), theirs)


def test_a_batch_of_empty_rows(tokenizer):
    features = [{"input_ids": []}, {"input_ids": []}]
    batch = sf.hf.Collator(tokenizer, pad_to_multiple_of=4)(features)
    assert batch["input_ids"].shape == batch["attention_mask"].shape == (2, 0)
    assert batch["input_ids"].dtype == torch.int64
    batch = sf.hf.Collator(tokenizer)([{"input_ids": [], "labels": []}, {"input_ids": [4], "labels": [1]}])
    assert batch["input_ids"].tolist() == [[0], [4]]
    assert batch["labels"].tolist() == [[-100], [1]]


@given(
    seed=st.integers(0, 2**32),
    n=st.integers(1, 7),
    columns=COLUMNS,
    way=st.sampled_from(["lists", "arrays", "tensors"]),
    multiple=MULTIPLES,
    side=st.sampled_from(["left", "right"]),
    padding=st.sampled_from([True, "max_length"]),
    tensors=st.sampled_from(["pt", "np"]),
    ignored=st.sampled_from([-100, -1]),
)
def test_labels_of_tokens(tokenizer, left, seed, n, columns, way, multiple, side, padding, tensors, ignored):
    chosen = tokenizer if side == "right" else left
    features = rows(np.random.default_rng(seed), n, columns | {"labels"}, way, shortest=1)
    options = {
        "padding": padding,
        "pad_to_multiple_of": multiple,
        "return_tensors": tensors,
        "label_pad_token_id": ignored,
    }
    theirs = transformers.DataCollatorForTokenClassification(chosen, **options)(features)
    same(sf.hf.Collator(chosen, **options)(features), theirs)


@pytest.fixture(scope="module")
def translator():
    """A model that makes what its decoder begins with of labels; too small to be of use."""
    sizes = {"d_model": 8, "d_ff": 8, "d_kv": 4, "num_heads": 2, "num_layers": 1, "vocab_size": 60}
    return transformers.T5ForConditionalGeneration(
        transformers.T5Config(**sizes, decoder_start_token_id=7, pad_token_id=0)
    )


@pytest.mark.filterwarnings("ignore:Creating a tensor from a list of numpy:UserWarning")  # theirs does
@given(
    seed=st.integers(0, 2**32),
    n=st.integers(1, 6),
    way=st.sampled_from(["lists", "arrays"]),
    multiple=MULTIPLES,
    side=st.sampled_from(["left", "right"]),
    modelled=st.booleans(),
)
def test_labels_of_their_own(tokenizer, left, translator, seed, n, way, multiple, side, modelled):
    chosen, rng = (tokenizer if side == "right" else left), np.random.default_rng(seed)
    features = rows(rng, n, {"attention_mask"}, way, shortest=1)
    for row, target in zip(features, rows(rng, n, (), way, shortest=1), strict=True):
        row["labels"] = target["input_ids"]
    options = {"pad_to_multiple_of": multiple, "model": translator if modelled else None}
    theirs = transformers.DataCollatorForSeq2Seq(chosen, **options)(features)
    same(sf.hf.Collator(chosen, seq2seq=True, **options)(features), theirs)
    if modelled:  # the same without a model
        del options["model"]
        same(sf.hf.Collator(chosen, seq2seq=True, decoder_start_token_id=7, **options)(features), theirs)


@given(
    seed=st.integers(0, 2**32),
    n=st.integers(1, 6),
    columns=COLUMNS,
    multiple=MULTIPLES,
    tensors=st.sampled_from(["pt", "np"]),
)
def test_the_ids_as_labels(tokenizer, left, seed, n, columns, multiple, tensors):
    features = rows(np.random.default_rng(seed), n, columns | {"attention_mask"}, shortest=1)
    features[0]["input_ids"][0] = 0  # what pads, too
    for chosen in (tokenizer, left):
        options = {"mlm": False, "pad_to_multiple_of": multiple, "return_tensors": tensors}
        theirs = transformers.DataCollatorForLanguageModeling(chosen, **options)
        ours = sf.hf.Collator(chosen, **options)
        same(ours(features), theirs(features))
        alone = [row["input_ids"] for row in features]
        found = dict(ours(alone))
        assert found.pop("attention_mask").shape == found["input_ids"].shape  # theirs has none
        same(found, theirs(alone))


@given(
    seed=st.integers(0, 2**32),
    n=st.integers(1, 7),
    labels=st.booleans(),
    way=st.sampled_from(["lists", "arrays", "tensors"]),
    options=st.fixed_dictionaries(
        {
            "return_position_ids": st.booleans(),
            "separator_id": st.sampled_from([-100, -1]),
            "return_flash_attn_kwargs": st.booleans(),
            "return_seq_idx": st.booleans(),
            "position_ids_start": st.sampled_from([0, 2]),
            "return_tensors": st.sampled_from(["pt", "np"]),
        }
    ),
)
def test_flattening(seed, n, labels, way, options):
    columns = {"attention_mask", "labels"} if labels else {"attention_mask"}
    features = rows(np.random.default_rng(seed), n, columns, way, shortest=1)
    ours, theirs = (
        make(**options)(features)
        for make in (partial(sf.hf.Collator, flatten=True), transformers.DataCollatorWithFlattening)
    )
    assert ours["labels"].shape == ours["input_ids"].shape
    same(ours, theirs, order=True)


@given(seed=st.integers(0, 2**32), n=st.integers(1, 7), labels=st.booleans())
def test_flattening_empty_rows(seed, n, labels):
    """They have no tokens, and keep their places in the boundaries and the numbers of the rows."""
    features = rows(np.random.default_rng(seed), n, {"labels"} if labels else set(), longest=3)
    collate = sf.hf.Collator(flatten=True, return_seq_idx=True, return_flash_attn_kwargs=True, return_tensors="np")
    batch = dict(collate(features))
    lengths = np.array([len(row["input_ids"]) for row in features])
    assert batch["cu_seq_lens_q"].tolist() == batch["cu_seq_lens_k"].tolist() == [0, *lengths.cumsum().tolist()]
    assert batch["seq_idx"].tolist() == [np.repeat(np.arange(n), lengths).tolist()]
    kept = [row for row in features if row["input_ids"]]
    if kept:
        alone = collate(kept)
        for name in ("input_ids", "labels", "position_ids"):
            assert batch[name].tolist() == alone[name].tolist()
    else:
        assert batch["input_ids"].shape == batch["labels"].shape == batch["position_ids"].shape == (1, 0)


def test_flattening_keeps_labels_of_texts():
    flat = sf.hf.Collator(flatten=True)([{"input_ids": [1, 2], "label": 1}, {"input_ids": [3], "label": 0}])
    assert flat["labels"].tolist() == [1, 0]


# --- hidden tokens ---------------------------------------------------------------------------------------------------


@given(seed=st.integers(0, 2**32), columns=COLUMNS, multiple=MULTIPLES, rate=st.sampled_from([0.0, 1.0]))
def test_all_tokens_hidden_or_none(tokenizer, seed, columns, multiple, rate):
    """Where nothing is left to chance, it is what transformers does."""
    features = rows(np.random.default_rng(seed), 5, columns | {"attention_mask"}, shortest=1)
    features[0]["input_ids"][:1] = [2]
    options = {"mlm": True, "mlm_probability": rate, "mask_replace_prob": 1, "random_replace_prob": 0}
    options["pad_to_multiple_of"] = multiple
    theirs = transformers.DataCollatorForLanguageModeling(tokenizer, **options)(features)
    same(sf.hf.Collator(tokenizer, **options)(features), theirs)


def test_how_often_tokens_are_hidden(tokenizer):
    rng = np.random.default_rng(3)
    features = [{"input_ids": [2, *rng.integers(5, len(tokenizer), 98).tolist(), 3]} for _ in range(400)]
    ids = torch.tensor([row["input_ids"] for row in features])
    for options in ({}, {"mlm_probability": 0.4, "mask_replace_prob": 0.5, "random_replace_prob": 0.3}):
        counts = []
        for make in (sf.hf.Collator, transformers.DataCollatorForLanguageModeling):
            batch = make(tokenizer, mlm=True, seed=5, **options)(features)
            chosen = batch["labels"] != -100
            assert (batch["labels"][chosen] == ids[chosen]).all()
            assert (batch["input_ids"][~chosen] == ids[~chosen]).all()
            assert not chosen[:, [0, -1]].any()
            hidden = (batch["input_ids"] == 4) & chosen
            other = (batch["input_ids"] != ids) & chosen & ~hidden
            counts.append([float(part.sum()) / (400 * 98) for part in (chosen, hidden, other)])
        assert np.allclose(*counts, atol=0.012), counts


def test_seeds(tokenizer):
    features = [{"input_ids": list(range(5, 50))} for _ in range(8)]

    def drawn(collator, times=3, tensors=None):
        return [collator(features, tensors)["labels"].tolist() for _ in range(times)]

    one = drawn(sf.hf.Collator(tokenizer, mlm=True, seed=1))
    assert one[0] != one[1] != one[2]
    assert one == drawn(sf.hf.Collator(tokenizer, mlm=True, seed=1), tensors="np")
    assert one != drawn(sf.hf.Collator(tokenizer, mlm=True, seed=2))
    free = sf.hf.Collator(tokenizer, mlm=True)
    for tensors in ("pt", "np"):
        transformers.set_seed(4)
        first = drawn(free, tensors=tensors)
        assert first[0] != first[1]
        transformers.set_seed(4)
        assert drawn(free, tensors=tensors) == first


def test_whole_words(tokenizer):
    texts = [text for text in TEXTS if text] * 20
    encoded = tokenizer(texts, return_special_tokens_mask=True, return_offsets_mapping=True)
    features = [{name: encoded[name][i] for name in encoded} for i in range(len(texts))]
    options = {"mlm": True, "whole_word_mask": True, "mlm_probability": 0.4}
    for beside in ("offset_mapping", "word_ids"):
        if beside == "word_ids":
            for i, row in enumerate(features):
                del row["offset_mapping"]
                row["word_ids"] = encoded.word_ids(i)
        batch = sf.hf.Collator(tokenizer, seed=6, **options)(features)
        assert set(batch) == {"input_ids", "attention_mask", "labels"}
        chosen = batch["labels"] != -100
        whole = 0
        for i in range(len(features)):
            of_words = {}
            for word, token in zip(encoded.word_ids(i), chosen[i].tolist(), strict=False):
                of_words.setdefault(word, set()).add(token)
            assert of_words.pop(None) == {False}
            if beside == "offset_mapping":  # as in transformers, a mark that follows a letter is of its word
                continue
            assert all(len(tokens) == 1 for tokens in of_words.values())
            whole += sum(tokens == {True} for tokens in of_words.values())
        assert 0.2 < chosen.sum() / batch["attention_mask"].sum() < 0.5
    assert whole


def test_words_by_offsets_are_those_of_transformers(tokenizer):
    texts = [text for text in TEXTS if text]
    encoded = tokenizer(texts, return_special_tokens_mask=True, return_offsets_mapping=True)
    for i in range(len(texts)):  # one text alone, since theirs cannot pad offsets
        row = {name: encoded[name][i] for name in encoded}
        options = {"mlm": True, "whole_word_mask": True, "mask_replace_prob": 1, "random_replace_prob": 0}
        theirs = transformers.DataCollatorForLanguageModeling(tokenizer, mlm_probability=1, **options)
        word_ids, _ = theirs._calc_word_ids_and_prob_mask(
            np.array([row["offset_mapping"]]), np.array([row["special_tokens_mask"]])
        )
        split = {}
        for seed in range(30):
            labels = sf.hf.Collator(tokenizer, mlm_probability=0.5, seed=seed, **options)([row])["labels"][0]
            for word, token in zip(word_ids[0].tolist(), (labels != -100).tolist(), strict=True):
                split.setdefault((seed, word), set()).add(token)
        assert all(len(tokens) == 1 for tokens in split.values())
        apart = {tuple(split[seed, word] == {True} for seed in range(30)) for word in set(word_ids[0]) - {-1}}
        assert len(apart) == len(set(word_ids[0]) - {-1})


def test_a_special_token_parts_words(tokenizer):
    """Also where no letter is between them."""
    row = {"input_ids": [5, 6, 2, 7, 8], "offset_mapping": [(0, 2), (2, 3), (3, 6), (6, 8), (8, 9)]}
    found = set()
    for seed in range(40):
        collate = sf.hf.Collator(tokenizer, mlm=True, whole_word_mask=True, mlm_probability=0.5, seed=seed)
        found.add(tuple((collate([row])["labels"][0] != -100).tolist()))
    assert found == {(a, a, False, b, b) for a in (False, True) for b in (False, True)}


def test_hidden_and_flattened(tokenizer):
    features = [{"input_ids": list(range(5, 30))}, {"input_ids": [7, 8]}]
    flat = sf.hf.Collator(tokenizer, flatten=True, mlm=True, mlm_probability=1.0)(features)
    assert flat["labels"].tolist() == [[*range(5, 30), 7, 8]]
    assert flat["position_ids"].tolist() == [[*range(25), 0, 1]]


# --- what comes in ---------------------------------------------------------------------------------------------------


def test_whatever_holds_the_rows(tokenizer, pieces):
    import pyarrow as pa

    encoded = tokenizer(TEXTS)
    features = [{name: encoded[name][i] for name in encoded} for i in range(len(TEXTS))]
    wanted = transformers.DataCollatorWithPadding(tokenizer)(features)
    collate = sf.hf.Collator(tokenizer)
    ids = sf.convert(encoded["input_ids"], sf.Ragged)
    table = pa.table(dict(encoded))
    for given_ in (
        encoded,
        dict(encoded),
        {"input_ids": ids},
        {"input_ids": sf.convert(ids, sf.Padded)},
        {"input_ids": sf.to(ids, "torch")},
        {"input_ids": table["input_ids"]},
        table,
        table.to_batches()[0],
        [table.slice(0, 2), table.slice(2, 3)],
        ids,
        list(ids),
        [np.array(row) for row in encoded["input_ids"]],
        [tokenizer(text) for text in TEXTS],
        tuple(features),
    ):
        same(collate(given_), wanted)
    with_types = collate(pieces.encode_batch(TEXTS))
    assert not with_types.pop("token_type_ids").any()
    same(with_types, wanted)
    padded = tokenizer(TEXTS, padding=True, return_tensors="pt")
    same(collate(padded), padded)


def test_what_is_given_stays_as_it_was(tokenizer):
    options = [{}, {"mlm": False}, {"flatten": True}, {"flatten": True, "mlm": True}]
    for kind, chosen in itertools.product((sf.Ragged, sf.Masked), options):
        ids = sf.convert(sf.Masked(np.arange(1, 7).reshape(2, 3), [3, 3]), kind)
        vector = sf.Ragged(np.ones(4), [2, 2])
        given_ = {"input_ids": ids, "labels": np.array([1, 2]), "vector": vector}
        batch = sf.hf.Collator(tokenizer, **chosen)(given_, "np")
        for array in batch.values():
            if isinstance(array, np.ndarray):
                array[...] = -7
        assert ids.to_nested() == [[1, 2, 3], [4, 5, 6]]
        assert given_["labels"].tolist() == [1, 2]
        assert vector.data.tolist() == [1] * 4
        assert list(given_) == ["input_ids", "labels", "vector"]


def test_other_columns(tokenizer):
    features = [
        {"input_ids": [5, 6], "tags": [1, 2], "position_ids": [0, 1], "vector": [0.5, 1.5], "flag": True},
        {"input_ids": [7], "tags": [3], "position_ids": [0], "vector": [2.5, 3.5], "flag": False},
    ]
    batch = sf.hf.Collator(tokenizer, fills={"tags": -1})(features)
    assert batch["tags"].tolist() == [[1, 2], [3, -1]]
    assert batch["position_ids"].tolist() == [[0, 1], [0, 0]]
    assert batch["vector"].tolist() == [[0.5, 1.5], [2.5, 3.5]]
    assert batch["vector"].dtype == torch.float32
    assert batch["flag"].tolist() == [True, False]
    with pytest.raises(sf.StructureError, match="'tags'.*fills"):
        sf.hf.Collator(tokenizer)(features)


def test_labels_that_are_none_are_none(tokenizer):
    batch = sf.hf.Collator(tokenizer)([{"input_ids": [5], "labels": None}, {"input_ids": [6], "labels": None}])
    assert set(batch) == {"input_ids", "attention_mask"}


def test_vectors_as_labels(tokenizer):
    features = [{"input_ids": [5, 6], "labels": [0.0, 1.0, 1.0]}, {"input_ids": [7], "labels": [1.0, 0.0, 0.0]}]
    batch = sf.hf.Collator(tokenizer)(features)
    assert batch["labels"].tolist() == [[0, 1, 1], [1, 0, 0]]
    assert batch["labels"].dtype == torch.float32
    whole = [{**row, "labels": [int(x) for x in row["labels"]]} for row in features]
    with pytest.raises(sf.StructureError, match="'labels': row 0 has 3 items.*2.*label_pad_token_id=None"):
        sf.hf.Collator(tokenizer)(whole)
    assert sf.hf.Collator(tokenizer, label_pad_token_id=None)(whole)["labels"].shape == (2, 3)


BAD = [
    ([], sf.StructureError, "no features"),
    (5, TypeError, "features must be"),
    ([{"input_ids": [1]}, {}], sf.StructureError, "row 1.*input_ids"),
    ([{"input_ids": [1]}, {"input_ids": [1], "labels": 2}], sf.StructureError, "row 1.*labels"),
    ([{"labels": 1}], sf.StructureError, "'input_ids'.*labels"),
    ([{"input_ids": [1], "text": "a"}], TypeError, "'text'.*str.*row 0"),
    ([{"input_ids": "abc"}], TypeError, "'input_ids'.*str"),
    ([{"input_ids": [1]}, {"input_ids": None}], sf.StructureError, "'input_ids': row 1 is None"),
    ([{"input_ids": [0.5]}], TypeError, "'input_ids'.*integers.*float64"),
    ([{"input_ids": [[1], [2, 3]]}], sf.StructureError, "'input_ids'.*one sequence per row"),
    ([{"input_ids": 3}], sf.StructureError, "'input_ids'"),
    ([{"input_ids": [2**63]}], sf.StructureError, "'input_ids'.*int64"),
    ([{"input_ids": [2**70]}], TypeError, "'input_ids'"),
    ([{"input_ids": [1]}, {"input_ids": [1, "a"]}], TypeError, "'input_ids'"),
    ([{"input_ids": [1], "attention_mask": [1, 1]}], sf.StructureError, "'attention_mask': row 0 has 2.*1"),
    ([{"input_ids": [1], "label": 1, "labels": 2}], sf.StructureError, "labels"),
    ({"input_ids": [[1], [2]], "labels": [1]}, sf.StructureError, "'labels' has 1 rows.*2"),
    ({"input_ids": [[1], [2]], "attention_mask": [[1]]}, sf.StructureError, "'attention_mask' has 1 rows.*2"),
    ({"input_ids": [[1], [2]], "score": np.zeros(3)}, sf.StructureError, "'score' has 3 rows.*2"),
    ([{"input_ids": [1], "score": 1j}], TypeError, "'score'.*numbers"),
    ([{"input_ids": [1], "score": {"a": 1}}], TypeError, "'score'.*dict"),
]


@pytest.mark.parametrize(("features", "kind", "words"), BAD)
def test_rows_that_do_not_fit(tokenizer, features, kind, words):
    for options in ({}, {"flatten": True}):
        if options and not words.startswith(("'input_ids'", "no", "features")):
            continue
        with pytest.raises(kind, match=words) as found:
            sf.hf.Collator(tokenizer, **options)(features)
        assert len(str(found.value)) < 400


@pytest.mark.parametrize(
    ("options", "kind", "words"),
    [
        ({"padding": False}, sf.ConversionError, "flatten=True"),
        ({"padding": "do_not_pad"}, sf.ConversionError, "longest"),
        ({"padding_side": "top"}, sf.ConversionError, "padding_side"),
        ({"return_tensors": "tf"}, sf.ConversionError, "return_tensors"),
        ({"pad_to_multiple_of": 0}, sf.ConversionError, "pad_to_multiple_of"),
        ({"max_length": -1}, sf.ConversionError, "max_length"),
        ({"mlm": "yes"}, TypeError, "mlm"),
        ({"flatten": 1}, TypeError, "flatten"),
        ({"fills": 3}, TypeError, "fills"),
        ({"pad_token_id": 0.5}, TypeError, "pad_token_id"),
        ({"mlm": True, "mlm_probability": 1.5}, sf.ConversionError, "rate"),
        ({"mlm": True, "mask_replace_prob": 0.8, "random_replace_prob": 0.5}, sf.ConversionError, "more than 1"),
        ({"mlm": True, "seed": -1}, sf.ConversionError, "seed"),
        ({"whole_word_mask": True}, sf.ConversionError, "mlm=True"),
        ({"seq2seq": True, "flatten": True}, sf.ConversionError, "seq2seq"),
        ({"decoder_start_token_id": 1}, sf.ConversionError, "seq2seq=True"),
        ({"colour": 1}, TypeError, "colour"),
    ],
)
def test_options_that_cannot_be(tokenizer, options, kind, words):
    with pytest.raises(kind, match=words):
        sf.hf.Collator(tokenizer, **options)


def test_options_that_a_batch_shows(tokenizer, pieces):
    with pytest.raises(sf.ConversionError, match="pad_token_id="):
        sf.hf.Collator()
    with pytest.raises(sf.ConversionError, match="pad_token_id="):
        sf.hf.Collator(wrapped(pieces, pad_token=None))
    with pytest.raises(sf.ConversionError, match="mask token"):
        sf.hf.Collator(wrapped(pieces, mask_token=None), mlm=True)
    collate = sf.hf.Collator(tokenizer, padding="max_length", max_length=2)
    with pytest.raises(sf.ConversionError, match="'input_ids': row 1 has 3 tokens.*max_length=2"):
        collate([{"input_ids": [1]}, {"input_ids": [1, 2, 3]}])
    endless = sf.hf.Collator(wrapped(pieces), padding="max_length")
    with pytest.raises(sf.ConversionError, match="max_length="):
        endless([{"input_ids": [1]}])
    with pytest.raises(sf.ConversionError, match="return_tensors"):
        collate([{"input_ids": [1]}], "tf")
    with pytest.raises(sf.StructureError, match="word_ids"):
        sf.hf.Collator(tokenizer, mlm=True, whole_word_mask=True)([{"input_ids": [1]}])


@pytest.mark.parametrize(("start", "times"), [(None, 2), ("fork", 2), ("spawn", 1)])
def test_in_a_loader(tokenizer, start, times):
    """Also in a process of its own, which gets the collator as a pickle; each epoch hides other tokens."""
    collate = sf.hf.Collator(tokenizer, mlm=True, seed=1)
    loader = torch.utils.data.DataLoader(
        [{"input_ids": list(range(5, 40 + i))} for i in range(8)],
        batch_size=4,
        collate_fn=collate,
        num_workers=int(start is not None),
        multiprocessing_context=start,
    )
    epochs = [[batch["labels"].tolist() for batch in loader] for _ in range(times)]
    assert [len(labels) for labels in epochs[0]] == [4, 4]
    assert times == 1 or epochs[0] != epochs[1]


def test_pickles(tokenizer):
    collate = sf.hf.Collator(tokenizer, fills={"tags": 1}, mlm=False)
    again = pickle.loads(pickle.dumps(collate))
    features = [{"input_ids": [5, 6]}, {"input_ids": [7]}]
    same(again(features), collate(features))


def test_a_training_step(tokenizer):
    """A model of transformers takes what comes out, padded or flattened, and finds the same loss."""
    sizes = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = transformers.LlamaConfig(vocab_size=60, **sizes, attn_implementation="eager")
    model = transformers.LlamaForCausalLM(config).eval()
    features = [{"input_ids": [5, 6, 7, 8]}, {"input_ids": [9, 10]}]
    with torch.no_grad():
        padded = model(**sf.hf.Collator(tokenizer, mlm=False)(features)).loss
        alone = [model(input_ids=torch.tensor([row["input_ids"]])).logits[0, :-1] for row in features]
    wanted = torch.nn.functional.cross_entropy(torch.cat(alone), torch.tensor([6, 7, 8, 10]))
    assert torch.allclose(padded, wanted, atol=1e-5)


# --- encodings -------------------------------------------------------------------------------------------------------

FIELDS = ["ids", "type_ids", "attention_mask", "special_tokens_mask", "offsets", "word_ids", "sequence_ids"]


def field_of(encoding, field):
    """Without padding, token by token."""
    kept = [i for i, marked in enumerate(encoding.attention_mask) if marked]
    values = getattr(encoding, field)
    made = [-1 if values[i] is None else values[i] for i in kept]
    return [list(value) for value in made] if field == "offsets" else made


@pytest.fixture
def padding(pieces):
    """Encodings with padding on each side, of each length."""
    yield lambda side: pieces.enable_padding(direction=side, pad_to_multiple_of=8)
    pieces.no_padding()


PAIRS = list(zip(TEXTS, reversed(TEXTS), strict=True))


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("texts", [TEXTS, PAIRS, [], [""]], ids=["texts", "pairs", "none", "empty"])
@pytest.mark.parametrize("side", [None, "left", "right"])
def test_fields_of_encodings(pieces, padding, field, texts, side):
    if side:
        padding(side)
    encodings = pieces.encode_batch(texts)
    x = sf.hf.from_encodings(encodings, field)
    assert x.dtype == np.int64
    assert x.item_shape == ((2,) if field == "offsets" else ())
    found = [row.data.tolist() for row in x]
    assert found == [field_of(encoding, field) for encoding in encodings]


def words_of(encoding):
    """Ids in words, slowly."""
    grouped, before = [], None
    for id_, word, side, marked in zip(
        encoding.ids, encoding.word_ids, encoding.sequence_ids, encoding.attention_mask, strict=True
    ):
        if not marked:
            continue
        if word is None or (word, side) != before:
            grouped.append([])
        grouped[-1].append(id_)
        before = (word, side)
    return grouped


@pytest.mark.parametrize("texts", [TEXTS, PAIRS, [("a", "a")], [""]], ids=["texts", "pairs", "one word", "empty"])
@pytest.mark.parametrize("side", [None, "left", "right"])
def test_words_are_a_level(pieces, padding, texts, side):
    if side:
        padding(side)
    encodings = pieces.encode_batch(texts)
    words = sf.hf.from_encodings(encodings, words=True)
    assert words.to_nested() == [words_of(encoding) for encoding in encodings]
    numbers = sf.hf.from_encodings(encodings, "word_ids", words=True)
    assert sf.reduce_min(numbers).to_nested() == sf.reduce_max(numbers).to_nested()


@pytest.mark.parametrize("texts", [TEXTS, PAIRS, [("a", "a")], ["a", "a"]], ids=["texts", "pairs", "twice", "alike"])
def test_without_special_tokens(pieces, padding, texts):
    encodings = pieces.encode_batch(texts, add_special_tokens=False)
    words = sf.hf.from_encodings(encodings, words=True)
    assert words.to_nested() == [words_of(encoding) for encoding in encodings]
    columns = {
        "input_ids": [encoding.ids for encoding in encodings],
        "word_ids": [encoding.word_ids for encoding in encodings],
        "sequence_ids": [encoding.sequence_ids for encoding in encodings],
    }
    assert sf.equal(sf.hf.from_encodings(columns, words=True), words)
    padding("left")
    whole = pieces.encode_batch(texts)
    for field in ("ids", "offsets", "word_ids"):
        assert sf.equal(
            sf.hf.from_encodings(whole, field, special=False, words=True),
            sf.hf.from_encodings(encodings, field, words=True),
        )
    marked = {"input_ids": [e.ids for e in whole], "special_tokens_mask": [e.special_tokens_mask for e in whole]}
    assert sf.hf.from_encodings(marked, special=False).to_nested() == columns["input_ids"]


def test_vectors_of_words(pieces):
    """From tokens to words and back, each in a line."""
    encodings = pieces.encode_batch(TEXTS)
    words = sf.hf.from_encodings(encodings, words=True)
    vectors = sf.Ragged(torch.randn(words.rows, 3), [len(e.ids) for e in encodings])
    of_words = sf.reduce_mean(sf.LoD(vectors.data, words.lod))
    back = sf.expand_as(of_words, words)
    at = 0
    for i, (encoding, sentence) in enumerate(zip(encodings, words.to_nested(), strict=True)):
        assert len(of_words[i].data) == len(sentence)
        for j, word in enumerate(sentence):
            wanted = vectors.data[at : at + len(word)].mean(0)
            assert torch.allclose(of_words[i].data[j], wanted, atol=1e-6)
            assert torch.equal(back.data[at : at + len(word)], of_words[i].data[j].expand(len(word), 3))
            at += len(word)
        assert at == sum(len(e.ids) for e in encodings[: i + 1]), encoding


def test_what_transformers_gives(tokenizer):
    lists = tokenizer(TEXTS, return_offsets_mapping=True, return_special_tokens_mask=True, return_token_type_ids=True)
    padded = tokenizer(TEXTS, padding=True, return_tensors="pt", return_token_type_ids=True)
    for field, key in (("ids", "input_ids"), ("type_ids", "token_type_ids"), ("attention_mask", "attention_mask")):
        wanted = lists[key]
        assert sf.hf.from_encodings(lists, field).to_nested() == wanted
        assert sf.hf.from_encodings(dict(lists), field).to_nested() == wanted
        assert sf.hf.from_encodings(padded, field).to_nested() == wanted
        assert sf.hf.from_encodings(dict(padded), field).to_nested() == wanted
        assert sf.hf.from_encodings({k: v.numpy() for k, v in padded.items()}, field).to_nested() == wanted
    offsets = sf.hf.from_encodings(dict(lists), "offsets")
    assert offsets.item_shape == (2,)
    assert sf.equal(offsets, sf.hf.from_encodings(lists, "offsets"))
    assert sf.equal(sf.hf.from_encodings(lists, words=True), sf.hf.from_encodings(padded, words=True))
    assert sf.hf.from_encodings({"input_ids": [[5], []]}).to_nested() == [[5], []]
    assert sf.hf.from_encodings({"offset_mapping": [[], []]}, "offsets").item_shape == (2,)


def test_chunks_of_long_texts(tokenizer, pieces):
    options = {"truncation": True, "max_length": 6, "stride": 1, "return_overflowing_tokens": True}
    encoded = tokenizer(TEXTS, **options)
    assert len(encoded["input_ids"]) > len(TEXTS)
    wanted = [[] for _ in TEXTS]
    for row, document in zip(encoded["input_ids"], encoded["overflow_to_sample_mapping"], strict=True):
        wanted[document].append(row)
    chunks = sf.hf.from_encodings(encoded, chunks=True)
    assert chunks.to_nested() == wanted
    assert sf.hf.from_encodings(dict(encoded), chunks=True).to_nested() == wanted
    padded = tokenizer(TEXTS, padding=True, return_tensors="pt", **options)
    assert sf.hf.from_encodings(padded, chunks=True).to_nested() == wanted
    words = sf.hf.from_encodings(encoded, chunks=True, words=True)
    assert len(words.lod) == 3
    assert sf.flatten_levels(words).to_nested() == wanted
    pieces.enable_truncation(6, stride=1)
    try:
        assert sf.hf.from_encodings(pieces.encode_batch(TEXTS), chunks=True).to_nested() == wanted
    finally:
        pieces.no_truncation()


@pytest.mark.parametrize(
    ("arguments", "options", "kind", "words"),
    [
        (([], "tokens"), {}, sf.ConversionError, "field"),
        (([], 3), {}, TypeError, "field"),
        (([],), {"words": 1}, TypeError, "words"),
        ((["a"],), {}, TypeError, r"encodings\[0\]"),
        ((5,), {}, TypeError, "BatchEncoding"),
        (({"a": []},), {}, sf.ConversionError, "'input_ids'.*'a'"),
        (({"input_ids": [[1]]},), {"words": True}, sf.ConversionError, "'word_ids'"),
        (([],), {"special": 1}, TypeError, "special"),
        (({"input_ids": [[1]]},), {"special": False}, sf.ConversionError, "'special_tokens_mask'"),
        (({"input_ids": [[1]]},), {"chunks": True}, sf.ConversionError, "return_overflowing_tokens"),
        (({"input_ids": [[1]], "attention_mask": [[1, 1]]},), {}, sf.StructureError, "different lengths"),
        (({"input_ids": [[0.5]]},), {}, TypeError, "integers"),
        (
            ({"input_ids": [[1], [2]], "overflow_to_sample_mapping": [1, 0]},),
            {"chunks": True},
            sf.StructureError,
            "never falls",
        ),
        (
            ({"input_ids": [[1], [2]], "overflow_to_sample_mapping": [0]},),
            {"chunks": True},
            sf.StructureError,
            "1",
        ),
    ],
)
def test_what_are_no_encodings(arguments, options, kind, words):
    with pytest.raises(kind, match=words):
        sf.hf.from_encodings(*arguments, **options)


def test_one_encoding_is_no_batch(pieces):
    with pytest.raises(TypeError, match=r"\[encoding\]"):
        sf.hf.from_encodings(pieces.encode("a dog"))


@pytest.mark.parametrize("name", ["collator", "datasets", "encodings"])
def test_examples_of_the_documentation(name):
    import importlib

    found = doctest.testmod(importlib.import_module(f"seqformats.hf.{name}"))
    assert found.attempted
    assert not found.failed


# --- odd things ------------------------------------------------------------------------------------------------------

SCALARS = st.sampled_from([0, 1, -5, 2**40, 2**63, 2**70, 1.5, float("nan"), True, None, "a", b"a", 1j, {}, object])
ARRAYS = st.sampled_from(
    [
        np.zeros(0),
        np.arange(3),
        np.arange(3, dtype=np.uint8),
        np.ones((2, 2), int),
        np.array(5),
        np.array(["a"]),
        np.array([None, 1], object),
        np.arange(2, dtype=np.uint64) + 2**63,
        np.zeros(2, "M8[s]"),
        torch.arange(2),
        torch.ones(2, requires_grad=True),
        torch.zeros(0),
        torch.tensor(1),
        torch.ones(2, dtype=torch.bfloat16),
        sf.Ragged(np.arange(3), [3]),
        sf.Ragged(np.arange(3), [1, 2]),
        sf.LoD(np.arange(3), [[0, 2], [0, 1, 3]]),
    ]
)
LISTS = st.lists(SCALARS, max_size=4) | st.lists(st.integers(0, 9), max_size=4)
VALUES = st.one_of(SCALARS, ARRAYS, LISTS, st.lists(LISTS, max_size=3), LISTS.map(tuple))
NAMES = st.sampled_from(
    [
        "input_ids",
        "labels",
        "label",
        "label_ids",
        "attention_mask",
        "special_tokens_mask",
        "word_ids",
        "offset_mapping",
        "x",
    ]
)
ODD = st.one_of(
    st.lists(st.dictionaries(NAMES, VALUES, max_size=4), max_size=3),
    st.dictionaries(NAMES, VALUES | st.lists(VALUES, max_size=3), max_size=4),
    st.lists(VALUES, max_size=3),
    st.lists(st.fixed_dictionaries({"input_ids": LISTS, "labels": VALUES}), max_size=3),
    VALUES,
)
OPTIONS = st.sampled_from(
    [
        {},
        {"mlm": False},
        {"mlm": True, "seed": 1},
        {"mlm": True, "whole_word_mask": True},
        {"flatten": True, "return_seq_idx": True, "return_flash_attn_kwargs": True},
        {"flatten": True, "mlm": True},
        {"seq2seq": True, "decoder_start_token_id": 1},
        {"label_pad_token_id": None, "fills": {"x": 3}},
        {"padding": "max_length", "pad_to_multiple_of": 8},
    ]
)


@given(features=ODD, options=OPTIONS, tensors=st.sampled_from(["pt", "np"]))
def test_odd_features_are_batches_or_errors(tokenizer, features, options, tensors):
    try:
        batch = sf.hf.Collator(tokenizer, **options)(features, tensors)
    except (sf.SeqFormatError, TypeError) as error:
        assert str(error)
        return
    assert "input_ids" in batch


@given(encodings=ODD, field=st.sampled_from(FIELDS), words=st.booleans(), chunks=st.booleans())
def test_odd_encodings_are_batches_or_errors(encodings, field, words, chunks):
    try:
        x = sf.hf.from_encodings(encodings, field, words=words, chunks=chunks)
    except (sf.SeqFormatError, TypeError) as error:
        assert str(error)
        return
    assert x.dtype == np.int64
