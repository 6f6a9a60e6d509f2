"""Everyday tasks with tokens, by public names alone, in every layout that a user may have."""

import io

import numpy as np
import oracle
import pytest

import seqformats as sf

PAD, CLS, SEP, MASK = 0, 101, 102, 103
DOCUMENTS = [[5, 6, 6, 7, 4, 8], [], [9, 9, 3]]
every_layout = pytest.mark.parametrize("kind", oracle.FORMATS, ids=oracle.format_name)


def documents(kind):
    return sf.convert(DOCUMENTS, kind)


def nested(x):
    return sf.convert(x, list)


@every_layout
def test_drop_stop_words(kind):
    x = documents(kind)
    wanted = sf.with_array(lambda ids: ~np.isin(ids, [4, 9]))(x)
    assert nested(sf.filter(x, wanted)) == [[5, 6, 6, 7, 8], [], [3]]


@every_layout
def test_leave_out_repetitions(kind):
    x = documents(kind)
    assert nested(sf.filter(x, sf.run_starts(x))) == [[5, 6, 7, 4, 8], [], [9, 3]]


@every_layout
def test_long_documents_through_a_model_in_windows(kind):
    """Chunks as rows of a rectangle, and a prediction for every token again, whatever chunk it has seen."""
    chunks = sf.chunk(documents(kind), 3, overlap=1)
    assert chunks.to_nested() == [[[5, 6, 6], [6, 7, 4], [4, 8]], [], [[9, 9, 3]]]
    assert chunks.starts.tolist() == [0, 2, 4, 0]

    @sf.with_masked
    def model(m):  # two scores per token
        return np.stack([m.data, -m.data], axis=-1).astype(np.float32)

    scores = sf.unchunk(model(chunks), how="mean")
    assert scores.lengths() == [[6, 0, 3]]
    assert scores.data[:, 0].tolist() == [5, 6, 6, 7, 4, 8, 9, 9, 3]


@every_layout
def test_question_and_context_in_one_sequence(kind):
    question, context = documents(kind), sf.convert([[1, 2, 3, 4], [1], [2, 2, 2, 2]], kind)
    question, context = sf.truncate_pair(question, context, 5)
    found = sf.Template([CLS, "question", SEP, "context", SEP])(question, context)
    assert nested(found.ids) == [
        [CLS, 5, 6, 6, SEP, 1, 2, SEP],
        [CLS, SEP, 1, SEP],
        [CLS, 9, 9, SEP, 2, 2, 2, SEP],
    ]
    assert nested(found.type_ids)[1] == [0, 0, 1, 1]
    assert nested(found.special)[1] == [True, True, False, True]


@every_layout
def test_labels_of_the_next_token(kind):
    assert nested(sf.shift(documents(kind), -1, fill=-100)) == [[6, 6, 7, 4, 8, -100], [], [9, 3, -100]]


@every_layout
def test_masked_tokens_are_the_same_everywhere(kind):
    found = sf.mask_tokens(documents(kind), rate=0.5, mask_id=MASK, vocabulary=100, seed=1, special=[9])
    wanted = sf.mask_tokens(DOCUMENTS, rate=0.5, mask_id=MASK, vocabulary=100, seed=1, special=[9])
    assert nested(found.ids) == nested(wanted.ids)
    assert nested(found.ids)[2][:2] == [9, 9]
    for ids, labels, chosen, given in zip(*map(nested, (*found, documents(kind))), strict=True):
        assert labels == [token if one else -100 for token, one in zip(given, chosen, strict=True)]
        assert all(one or now == before for now, before, one in zip(ids, given, chosen, strict=True))


@every_layout
def test_sentences_of_a_stream(kind):
    """A level for the sentences, a number for each, and documents again."""
    sentences = sf.split_at(documents(kind), [6, 9])
    assert nested(sentences) == [[[5, 6], [6], [7, 4, 8]], [], [[9], [9], [3]]]
    assert nested(sf.reduce_max(sentences)) == [[6, 6, 8], [], [9, 9, 3]]
    assert nested(sf.flatten_levels(sentences)) == DOCUMENTS


@every_layout
def test_the_best_of_every_sequence(kind):
    best = sf.topk(documents(kind), 2)
    assert nested(best.values) == [[8, 7], [], [9, 9]]
    assert nested(best.places) == [[5, 3], [], [0, 1]]
    assert nested(sf.gather(documents(kind), best.places)) == nested(best.values)


@every_layout
def test_error_rate_of_what_was_decoded(kind):
    wanted = sf.convert([[5, 6, 7, 4, 8], [1], [9, 9, 3]], kind)
    errors = sf.levenshtein(documents(kind), wanted)
    assert np.asarray(errors).tolist() == [1, 1, 0]
    assert errors.sum() / sf.lengths(wanted).sum() == 2 / 9


@every_layout
def test_loss_of_every_sequence_without_padding(kind):
    targets = documents(kind)
    logits = sf.with_array(lambda ids: np.eye(10)[ids] * 3.0)(sf.convert(targets, sf.Masked))
    each = -np.log(np.exp(3) / (np.exp(3) + 9))
    np.testing.assert_allclose(sf.cross_entropy(logits, targets), [each, 0, each])
    np.testing.assert_allclose(sf.cross_entropy(logits, targets, reduction="mean"), each)


@every_layout
def test_what_a_language_model_takes(kind):
    found = sf.model_inputs(documents(kind), library="numpy")
    assert found["input_ids"].tolist() == [[5, 6, 6, 7, 4, 8], [PAD] * 6, [PAD] * 3 + [9, 9, 3]]
    assert found["attention_mask"].sum(1).tolist() == [6, 0, 3]
    assert found["position_ids"][2, 3:].tolist() == [0, 1, 2]
    assert found["labels"][1].tolist() == [-100] * 6


@every_layout
def test_keep_a_batch_in_a_file(kind):
    if kind is list:
        pytest.skip("lists are kept as LoD")
    file = io.BytesIO()
    np.savez(file, **sf.to_arrays(documents(kind)))
    file.seek(0)
    with np.load(file) as kept:
        assert sf.equal(sf.from_arrays(dict(kept)), documents(kind))


@every_layout
def test_a_function_of_one_sequence(kind):
    assert np.asarray(sf.map_sequences(len, documents(kind), result="item")).tolist() == [6, 0, 3]
    turned = sf.map_sequences(lambda ids: ids[::-1], documents(kind), result="sequence")
    assert nested(turned) == [ids[::-1] for ids in DOCUMENTS]


def test_the_rate_of_wrong_letters():
    said, wanted = (
        [np.frombuffer(text.encode(), np.uint8) for text in texts]
        for texts in (["the bat sad", ""], ["the cat sat", "a"])
    )
    assert sf.levenshtein(said, wanted).tolist() == [2, 1]


def test_hypotheses_of_each_source_against_its_reference():
    """Levels stay: sources of some hypotheses each; the least distance is that of the best one."""
    hypotheses = sf.LoD.from_nested([[[3, 4], [3]], [[5, 6, 7]]])
    references = sf.convert([[3, 4], [5, 7]], sf.Ragged, dtype=np.int64)
    errors = sf.levenshtein(hypotheses, sf.expand(references, hypotheses, level=0))
    assert errors.to_nested() == [[0, 1], [1]]
    assert sf.reduce_min(errors).tolist() == [0, 1]
