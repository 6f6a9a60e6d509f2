"""The decoder with the names of pyctcdecode, against what that has answered."""

import math

import numpy as np
import pytest
from recorded_lm import RECORDED, frames_of, write_models

import seqformats as sf

LETTERS = ["<pad>", "|", *"abcdefghijklmnopqrstuvwxyz'"]


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    return write_models(tmp_path_factory.mktemp("recorded"))


def noise(frames, labels=LETTERS, seed=0):
    return np.random.default_rng(seed).standard_normal((frames, len(labels))).astype("f4") * 3


def assert_same(found, wanted):
    for beam, (text, frames, logit_score, score) in zip(found, wanted, strict=False):
        assert (beam.text, [[word, *span] for word, span in beam.text_frames]) == (text, frames)
        assert (beam.logit_score, beam.lm_score) == pytest.approx((logit_score, score), abs=1e-4)


@pytest.mark.passes("compiled", "guarded", reason="interpreted they take minutes")
@pytest.mark.parametrize("case", RECORDED["cases"], ids=lambda case: f"{case['id']}-{case['style']}")
def test_the_recorded_answers(models, case):
    x, options = frames_of(case), case["call"]
    decoder = sf.ctc.build_ctcdecoder(case["labels"], models[case["model"]], **case["build"])
    if case["split"]:
        first = decoder.decode_beams(x[: case["split"]], **options)
        assert_same(first, case["first"])
        found = decoder.decode_beams(x[case["split"] :], lm_start_state=first[0].last_lm_state, **options)
    else:
        found = decoder.decode_beams(x, **options)
        alone = {name: value for name, value in options.items() if name != "prune_history"}
        assert decoder.decode(x, **alone) == case["decode"]
    assert len(found) == case["count"]
    assert_same(found, case["beams"])


def test_batches_and_threads(models):
    decoder = sf.ctc.build_ctcdecoder(LETTERS, models["3"])
    xs = [noise(frames, seed=frames) for frames in (30, 0, 7, 1, 40)]
    beams = decoder.decode_beams_batch(None, xs, beam_width=20, hotwords=["sequence of"])
    alone = [decoder.decode_beams(x, beam_width=20, hotwords=["of", "sequence"]) for x in xs]
    assert [[tuple(beam) for beam in found] for found in beams] == [
        [(one.text, one.text_frames, one.logit_score, one.lm_score) for one in found] for found in alone
    ]
    assert decoder.decode_batch(None, xs) == [decoder.decode(x) for x in xs]
    assert decoder.decode_batch(None, []) == decoder.decode_beams_batch(None, []) == []
    assert decoder.decode(np.zeros((0, len(LETTERS)))) == ""


def test_memory_that_grows(models, monkeypatch):
    decoder, x = sf.ctc.build_ctcdecoder(LETTERS, models["3"]), noise(40)
    options = {"token_min_logp": -30.0, "beam_prune_logp": -1000.0, "beam_width": 30}
    wanted = decoder.decode_beams(x, **options)
    monkeypatch.setattr("seqformats.ctc.texts.FIRST_ROOM", 1)
    assert decoder.decode_beams(x, **options) == wanted


def test_parameters_and_folders(models, tmp_path):
    x, decoder = noise(20), sf.ctc.build_ctcdecoder(LETTERS, models["3"], ["of", "the", "of", "zzz"], alpha=0.3)
    before = decoder.decode_beams(x)
    other = sf.ctc.build_ctcdecoder(LETTERS, models["3"], ["the", "of"], 0.9, 0.5, -2.0, False)
    decoder.reset_params()
    assert decoder.decode_beams(x) == before
    decoder.reset_params(alpha=0.9, beta=0.5, unk_score_offset=-2.0, lm_score_boundary=False)
    assert decoder.decode_beams(x) == other.decode_beams(x) != before
    other.save_to_dir(tmp_path)
    assert (tmp_path / "language_model" / "unigrams.txt").read_text().split() == ["of", "the"]
    again = sf.ctc.BeamSearchDecoderCTC.load_from_dir(tmp_path)
    assert again.decode_beams(x) == other.decode_beams(x)
    again.save_to_dir(tmp_path)
    (tmp_path / "language_model" / "attrs.json").write_text("{}")
    with pytest.raises(sf.StructureError, match="holds no parameters: KeyError"):
        sf.ctc.BeamSearchDecoderCTC.load_from_dir(tmp_path)
    (tmp_path / "language_model" / "more").write_text("")
    with pytest.raises(sf.StructureError, match="must hold attrs.json, unigrams.txt and the file of a model"):
        sf.ctc.BeamSearchDecoderCTC.load_from_dir(tmp_path)
    (tmp_path / "alphabet.json").write_text("[]")
    with pytest.raises(sf.StructureError, match="no alphabet of a decoder"):
        sf.ctc.BeamSearchDecoderCTC.load_from_dir(tmp_path)


def test_a_decoder_without_a_model(tmp_path):
    decoder = sf.ctc.build_ctcdecoder(["a", "b", " "])  # the blank is added at the end
    x = np.log(np.array([[0.7, 0.1, 0.1, 0.1], [0.1, 0.1, 0.1, 0.7], [0.1, 0.1, 0.7, 0.1], [0.1, 0.7, 0.1, 0.1]]))
    assert decoder.decode(x) == "a b"
    assert decoder.decode_beams(x)[0].last_lm_state is None
    assert decoder.decode(x, hotwords=["ab"], beam_width=50, beam_prune_logp=-50.0) == "ab"
    decoder.reset_params(alpha=3.0)
    decoder.save_to_dir(tmp_path)
    assert sf.ctc.BeamSearchDecoderCTC.load_from_dir(tmp_path).decode(x) == "a b"
    with pytest.raises(sf.ConversionError, match="lm_start_state is 0, but there is no language model"):
        decoder.decode(x, lm_start_state=0)


def test_labels_as_models_have_them():
    def labels(given):
        found = sf.ctc.build_ctcdecoder(given)._alphabet
        return found.labels, found.is_bpe

    assert labels(["[PAD]", "a", "|", "[UNK]"]) == (["", "a", " ", "⁇"], False)
    assert labels(["_", "a"]) == (["", "a"], False)
    assert labels(["a", "b"]) == (["a", "b", ""], False)
    assert labels(["##a", "b", "[UNK]", "<s>"]) == (["a", "▁b", "▁⁇▁", "<s>", ""], True)
    assert labels(["▁a", "b", "<unk>"]) == (["▁a", "b", "▁⁇▁", ""], True)
    with pytest.raises(sf.StructureError, match="labels must differ from each other, but 'a' is there more than once"):
        labels(["a", "a", ""])
    with pytest.raises(sf.StructureError, match="but '' is there more than once"):
        labels(["<pad>", "[PAD]"])
    with pytest.raises(sf.StructureError, match="cannot have spaces"):
        labels(["▁a", " "])
    with pytest.raises(TypeError, match="labels must be a sequence of str, not 'abc'"):
        labels("abc")


def test_what_does_not_fit(models):
    decoder, x = sf.ctc.build_ctcdecoder(LETTERS, models["2"]), noise(4)
    with pytest.raises(sf.StructureError, match=r"logits must have shape \(frames, 29\), the blank among them, but"):
        decoder.decode(x[:, 1:])
    with pytest.raises(TypeError, match="logits must be floats, but have dtype int64"):
        decoder.decode(x.astype(int))
    with pytest.raises(TypeError, match="logits must be an array, not list"):
        decoder.decode(x.tolist())
    with pytest.raises(TypeError, match="logits_list must be a sequence of arrays, not ndarray"):
        decoder.decode_batch(None, x)
    for value in (math.nan, math.inf):
        bad = x.copy()
        bad[2, 3] = value
        with pytest.raises(ValueError, match="frame 2 of logits 1 holds NaN or"):
            decoder.decode_batch(None, [x, bad])
    with pytest.raises(sf.ConversionError, match="beam_width must be at least 1"):
        decoder.decode(x, beam_width=0)
    with pytest.raises(sf.ConversionError, match="beam_prune_logp must be at most 0, not 1"):
        decoder.decode(x, beam_prune_logp=1)
    with pytest.raises(TypeError, match="prune_history must be True or False"):
        decoder.decode_beams(x, prune_history=1)
    with pytest.raises(TypeError, match="hotwords must be a sequence of str"):
        decoder.decode(x, hotwords="word")
    with pytest.raises(sf.StructureError, match="lm_start_state is 99999999, but the model has"):
        decoder.decode(x, lm_start_state=99999999)
    with pytest.raises(TypeError, match="alphabet must be an Alphabet, not 3; build_ctcdecoder makes one"):
        sf.ctc.BeamSearchDecoderCTC(3)
    with pytest.raises(TypeError, match="language_model must be a LanguageModel, not 3"):
        sf.ctc.BeamSearchDecoderCTC(decoder._alphabet, 3)
    with pytest.raises(FileNotFoundError):
        sf.ctc.build_ctcdecoder(LETTERS, "nowhere.arpa")
