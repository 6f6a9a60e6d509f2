"""The generation settings of models of transformers as options of a search: what `generate` finds with them."""

import copy

import numpy as np
import pytest

import seqformats as sf

pytestmark = pytest.mark.peers
PROMPTS = [[5, 6, 9, 7, 5, 6], [7, 9], [31]]


@pytest.fixture(scope="module")
def hf():
    for library in ("torch", "transformers"):
        pytest.importorskip(library)
    import hf_models

    return hf_models


@pytest.fixture(scope="module")
def models(hf):
    return {name: hf.made(name) for name in ("gpt2", "bart")}


def set_up(model, **fields):
    """The model with these settings, and ends that are met."""
    model = copy.copy(model)
    model.generation_config = copy.deepcopy(model.generation_config)
    for name, value in {"eos_token_id": [0, 1, 12, 20], "max_new_tokens": 7, **fields}.items():
        setattr(model.generation_config, name, value)
    return model


def generated(model, given):
    """Return what `generate` finds for one source: hypotheses without the prompt, up to the end, and their scores."""
    import torch

    with torch.no_grad():
        out = model.generate(**given, return_dict_in_generate=True, output_scores=True)
    start = given["input_ids"].shape[1]
    if model.config.is_encoder_decoder:
        start = given["decoder_input_ids"].shape[1] if "decoder_input_ids" in given else 1
    ends, found = np.atleast_1d(model.generation_config.eos_token_id).tolist(), []
    for row in out.sequences[:, start:].tolist():
        stop = next((i + 1 for i, token in enumerate(row) if token in ends), len(out.scores))
        found.append(row[:stop])
    return found, getattr(out, "sequences_scores", None)


FIELDS = [
    {},
    {"num_beams": 3},
    {"num_beams": 3, "num_return_sequences": 2},
    {"num_beams": 3, "length_penalty": 0.3},
    {"num_beams": 3, "length_penalty": 2.0, "early_stopping": "never"},
    {"num_beams": 3, "early_stopping": True},
    {"length_penalty": 0.3, "early_stopping": True},  # which do nothing to one beam
    {"eos_token_id": 12},
    {"min_new_tokens": 4},
    {"num_beams": 3, "min_new_tokens": 4},
    {"max_new_tokens": None, "max_length": 9},
    {"max_new_tokens": None, "max_length": 9, "num_beams": 3},
    {"min_length": 8},
    {"min_length": 8, "num_beams": 3},
    {"min_length": 8, "min_new_tokens": 2},
    {"repetition_penalty": 1.7},
    {"repetition_penalty": 1.7, "num_beams": 3},
    {"no_repeat_ngram_size": 2},
    {"no_repeat_ngram_size": 1, "num_beams": 3},
    {"bad_words_ids": [[12], [28], [5, 6], [23, 23], [4]]},  # an end, which stays
    {"bad_words_ids": [[28], [23, 23], [4], [9]], "num_beams": 3},
    {"sequence_bias": {(23,): -4.0, (4, 4): 3.0, (9,): -9.0}},
    {"sequence_bias": [[[23], -4.0], [[4, 4], 3.0]], "num_beams": 3},
    {"suppress_tokens": [4, 9, 23]},
    {"suppress_tokens": [4, 9, 23], "num_beams": 3},
    {"begin_suppress_tokens": [4, 9, 23, 28]},
    {"begin_suppress_tokens": [4, 9, 23, 28], "num_beams": 3},
    {"forced_bos_token_id": 17},
    {"forced_bos_token_id": 17, "num_beams": 3},
    {"forced_eos_token_id": [12], "eos_token_id": 12, "max_new_tokens": 3, "num_beams": 3},
    {"forced_eos_token_id": 12, "max_new_tokens": 3},
    {"forced_eos_token_id": 33, "max_new_tokens": 3, "num_beams": 3},
    {"exponential_decay_length_penalty": (2, 1.3), "min_new_tokens": 3},
    {"exponential_decay_length_penalty": (2, 1.3), "num_beams": 3},
    {"temperature": 0.3, "top_k": 5, "top_p": 0.5, "typical_p": 0.5, "epsilon_cutoff": 0.1},  # of draws alone
    {"renormalize_logits": True},
    {"do_sample": True, "top_k": 1},
    {"do_sample": True, "top_p": 1e-6, "top_k": 0},
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("fields", FIELDS, ids=str)
@pytest.mark.parametrize("name", ["gpt2", "bart"])
def test_fields(hf, models, name, fields):
    import torch

    model = set_up(models[name], **fields)
    encoder = name == "bart"
    prompt = [[hf.START[name]]] * len(PROMPTS) if encoder else PROMPTS
    options = sf.hf.search_options(model, prompt, seed=1)
    if encoder:
        batch = sf.Ragged(torch.tensor([token for p in PROMPTS for token in p]), [len(p) for p in PROMPTS])
        mine = sf.beam_search(sf.hf.encoder_decoder_step(model), None, shared=batch, **options)
    else:
        mine = sf.beam_search(sf.hf.decoder_step(model), None, **options)
    at = mine.tokens.lod[0]
    for i, (source, found) in enumerate(zip(PROMPTS, mine.tokens.to_nested(), strict=True)):
        theirs, scores = generated(model, hf.padded([source], left=True))
        assert found == theirs
        if scores is not None:
            np.testing.assert_allclose(np.asarray(mine.scores)[at[i] : at[i + 1]], scores, rtol=2e-4, atol=2e-4)


@pytest.mark.filterwarnings("ignore")
def test_each_field_changes_what_is_found(hf, models):
    """Else the cases above would show nothing."""
    plain = {}
    for fields in FIELDS:
        which = fields.get("num_beams", 1), fields.get("num_return_sequences", 1)
        options = sf.hf.search_options(set_up(models["gpt2"], **fields), PROMPTS, seed=1)
        found = sf.beam_search(sf.hf.decoder_step(models["gpt2"]), None, **options).tokens.to_nested()
        if set(fields) <= {"num_beams", "num_return_sequences"}:
            plain[which] = found
        elif not fields.keys() & {"do_sample", "early_stopping", "temperature", "renormalize_logits"}:
            assert found != plain[which], fields


@pytest.mark.filterwarnings("ignore")
def test_a_start_in_the_place_of_prompts(hf, models):
    model = set_up(models["bart"], num_beams=3, forced_bos_token_id=17, max_new_tokens=None, max_length=8)
    options = sf.hf.search_options(model)
    assert options["start"] == hf.START["bart"]
    assert options["max_new_tokens"] == 7
    mine = sf.beam_search(sf.hf.encoder_decoder_step(model), None, shared=hf.padded([PROMPTS[0]], left=True), **options)
    theirs, _ = generated(model, hf.padded([PROMPTS[0]], left=True))
    assert mine.tokens.to_nested()[0] == theirs
    for fields in ({"repetition_penalty": 1.5}, {"no_repeat_ngram_size": 2}, {"bad_words_ids": [[4, 5]]}):
        (name,) = fields
        with pytest.raises(sf.ConversionError, match=rf"{name}=.*give prompt="):
            sf.hf.search_options(model, **fields)
    with pytest.raises(sf.ConversionError, match="no decoder_start_token_id"):
        sf.hf.search_options(set_up(model, decoder_start_token_id=None))


def test_draws(models):
    model = set_up(
        models["gpt2"], do_sample=True, temperature=0.7, top_k=5, top_p=0.9, min_p=0.1, typical_p=0.8,
        num_return_sequences=4,
    )  # fmt: skip
    options = sf.hf.search_options(model, PROMPTS, seed=3)
    assert (options["beam_size"], options["n_best"]) == (4, 4)
    wanted = sf.Sample(3, temperature=0.7, top_k=5, top_p=0.9, min_p=0.1, typical=0.8)
    step, rest = sf.hf.decoder_step(model), {key: value for key, value in options.items() if key != "sampling"}
    one, other = (sf.beam_search(step, None, **rest, sampling=s) for s in (options["sampling"], wanted))
    assert one.tokens.to_nested() == other.tokens.to_nested()
    default = sf.hf.search_options(set_up(models["gpt2"], do_sample=True), PROMPTS, seed=3)
    found = sf.beam_search(step, None, **default).tokens.to_nested()
    limited = sf.beam_search(step, None, **{**default, "sampling": sf.Sample(3, top_k=50)}).tokens.to_nested()
    assert found == limited  # as `generate` has it
    for fields, words in (
        ({"seed": None}, "needs a seed"),
        ({"num_beams": 2}, "num_beams=2"),
        ({"top_h": 0.4}, "top_h"),
    ):
        with pytest.raises(sf.ConversionError, match=words):
            sf.hf.search_options(model, PROMPTS, **{"seed": 1, **fields})


def test_lengths(models):
    model = set_up(models["gpt2"], max_new_tokens=None)
    assert sf.hf.search_options(model)["max_new_tokens"] == 20
    assert sf.hf.search_options(model, PROMPTS, max_length=8)["max_new_tokens"].tolist() == [2, 6, 7]
    for fields in ({"max_length": 6}, {"max_length": 3}):
        with pytest.raises(sf.ConversionError, match="max_length=.*leaves no new token"):
            sf.hf.search_options(model, PROMPTS, **fields)
    for name in ("max_length", "min_length", "forced_bos_token_id"):
        with pytest.raises(sf.ConversionError, match=f"{name}=30.*prompt="):
            sf.hf.search_options(model, **{name: 30})
    for fields in (
        {"forced_eos_token_id": [1, 2]},
        {"forced_eos_token_id": 2, "max_length": 9},
        {"forced_bos_token_id": 3, "begin_suppress_tokens": [4]},
    ):
        with pytest.raises(sf.ConversionError, match=next(iter(fields)) if len(fields) < 2 else "forced_"):
            sf.hf.search_options(model, PROMPTS, **fields)


REFUSED = {
    "max_time": 1.0, "stop_strings": ["."], "cache_implementation": "quantized", "encoder_repetition_penalty": 1.2,
    "encoder_no_repeat_ngram_size": 2, "renormalize_logits": True, "remove_invalid_values": True, "token_healing": True,
    "guidance_scale": 1.5, "watermarking_config": {"bias": 2.0}, "penalty_alpha": 0.6, "dola_layers": "low",
    "num_beam_groups": 2, "diversity_penalty": 0.5, "constraints": [1], "force_words_ids": [[5]],
    "forced_decoder_ids": [[1, 5]], "top_h": 0.4, "epsilon_cutoff": 0.1, "eta_cutoff": 0.1,
}  # fmt: skip
NEUTRAL = {
    "cache_implementation": "hybrid", "encoder_repetition_penalty": 1.0, "encoder_no_repeat_ngram_size": 0,
    "renormalize_logits": False, "remove_invalid_values": False, "token_healing": False, "guidance_scale": 1,
    "num_beam_groups": 1, "diversity_penalty": 0.0, "epsilon_cutoff": 0.0, "eta_cutoff": 0.0, "penalty_alpha": 0.0,
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_fields_that_cannot_be_taken(models, name):
    more = {"do_sample": True, "seed": 1} if name in ("top_h", "epsilon_cutoff", "eta_cutoff") else {"num_beams": 2}
    model = set_up(models["gpt2"], **{name: REFUSED[name]})
    with pytest.raises(sf.ConversionError, match=rf"{name}=.* of the generation_config .*give {name}=None"):
        sf.hf.search_options(model, **more)
    plain = sf.hf.search_options(models["gpt2"], **more)
    for given in ({name: None}, {name: NEUTRAL[name]} if name in NEUTRAL else {name: None}):
        assert sf.hf.search_options(model, **more, **given).keys() == plain.keys()


def test_every_field_of_this_release_has_a_place():
    """Each field is taken, ignored for a reason, or refused with a remedy; none is two of these."""
    transformers = pytest.importorskip("transformers")
    from seqformats.hf import settings

    places = [settings.TAKEN.split(), " ".join(settings.IGNORED.values()).split(), list(settings.REFUSED)]
    known = [name for names in places for name in names]
    assert len(set(known)) == len(known)
    fields = {name for name in vars(transformers.GenerationConfig()) if not name.startswith("_")}
    assert not fields - set(known)
    assert set(settings.REFUSED) == set(REFUSED)


def test_unknown_fields_and_other_models(models):
    model = set_up(models["gpt2"], lang_to_id={"de": 5})
    with pytest.raises(sf.ConversionError, match="lang_to_id=.*is not known here; give lang_to_id=None"):
        sf.hf.search_options(model)
    assert sf.hf.search_options(model, lang_to_id=None)["rule"] == "greedy"
    with pytest.raises(TypeError, match="object has no generation_config"):
        sf.hf.search_options(object())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("num_beams", "3"),
        ("num_beams", [3]),
        ("max_new_tokens", "5"),
        ("min_length", "a"),
        ("no_repeat_ngram_size", "a"),
        ("bad_words_ids", 5),
        ("bad_words_ids", [5]),
        ("suppress_tokens", 5),
        ("begin_suppress_tokens", 5),
        ("exponential_decay_length_penalty", 5),
        ("exponential_decay_length_penalty", (2,)),
    ],
)
def test_fields_of_another_kind(models, name, value):
    with pytest.raises(TypeError, match=rf"{name} must be .*\[SF3"):
        sf.hf.search_options(set_up(models["gpt2"]), PROMPTS, **{name: value})
