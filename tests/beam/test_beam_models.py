"""Models of transformers with the caches that they make: the same as `generate` finds."""

import numpy as np
import pytest

import seqformats as sf

pytestmark = pytest.mark.peers


@pytest.fixture(scope="module")
def hf():
    for library in ("torch", "transformers"):
        pytest.importorskip(library)
    import hf_models

    return hf_models


LENGTHS = {"ragged": [4, 1, 7, 3], "even": [5, 5, 5], "one": [6], "single": [1, 1]}
SETTINGS = [
    {"length_penalty": 1.0, "early_stopping": False},
    {"length_penalty": 0.4, "early_stopping": True},
    {"length_penalty": 2.0, "early_stopping": "never"},
]
DECODERS, PAIRS = ["gpt2", "llama", "bloom"], ["t5", "bart"]


@pytest.mark.parametrize("settings", SETTINGS, ids=["plain", "early", "never"])
@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=list(LENGTHS))
@pytest.mark.parametrize("name", DECODERS)
def test_decoders(hf, name, lengths, settings):
    model, prompts = hf.made(name), hf.prompts(lengths)
    ends = list(range(hf.END, hf.WORDS, 4))
    theirs, out = hf.generated(
        model, hf.padded(prompts, left=True), ends, num_beams=4, num_return_sequences=2, max_new_tokens=9, **settings
    )
    mine = sf.beam_search(
        sf.hf.decoder_step(model), None, prompt=prompts, end=ends, beam_size=4, n_best=2, max_new_tokens=9, **settings
    )
    hf.assert_alike(mine, theirs, out.sequences_scores)


@pytest.mark.parametrize("settings", SETTINGS, ids=["plain", "early", "never"])
@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=list(LENGTHS))
@pytest.mark.parametrize("name", PAIRS)
def test_encoders_and_decoders(hf, name, lengths, settings):
    import torch

    model, sources = hf.made(name), hf.prompts(lengths)
    ends = list(range(hf.END, hf.WORDS, 4))
    given = hf.padded(sources, left=False)
    theirs, out = hf.generated(model, given, ends, num_beams=4, num_return_sequences=2, max_new_tokens=9, **settings)
    options = {"start": hf.START[name], "end": ends, "beam_size": 4, "n_best": 2, "max_new_tokens": 9, **settings}
    batch = sf.Ragged(torch.tensor([token for source in sources for token in source]), lengths)
    for shared in (batch, given):
        mine = sf.beam_search(sf.hf.encoder_decoder_step(model), None, shared=shared, **options)
        hf.assert_alike(mine, theirs, out.sequences_scores)
        assert type(mine.scores) is torch.Tensor


@pytest.mark.parametrize("name", PAIRS)
def test_a_decoder_with_a_prompt(hf, name):
    model, sources = hf.made(name), hf.prompts([4, 2, 5])
    given, prompt = hf.padded(sources, left=False), [[hf.START[name], 11, 12]] * 3
    import torch

    theirs, out = hf.generated(
        model, {**given, "decoder_input_ids": torch.tensor(prompt)}, num_beams=3, max_new_tokens=6
    )
    mine = sf.beam_search(
        sf.hf.encoder_decoder_step(model), None, shared=given, prompt=prompt, end=hf.END, beam_size=3, max_new_tokens=6
    )
    hf.assert_alike(mine, theirs, out.sequences_scores)
    with pytest.raises(sf.ConversionError, match="one length"):
        sf.beam_search(
            sf.hf.encoder_decoder_step(model), None, shared=given, prompt=[[1, 2], [1], [1]], end=hf.END, beam_size=3,
            max_new_tokens=6,
        )  # fmt: skip


def test_the_library_of_the_prompts(hf):
    """Lists and NumPy's arrays give NumPy's, tensors tensors, with the same numbers."""
    import torch

    model, lists = hf.made("gpt2"), hf.prompts([3, 2])
    step = sf.hf.decoder_step(model)
    flat = np.array([token for one in lists for token in one])
    found = [
        sf.beam_search(step, None, prompt=prompt, end=hf.END, beam_size=3, max_new_tokens=5)
        for prompt in (lists, sf.Ragged(flat, [3, 2]), sf.Ragged(torch.from_numpy(flat), [3, 2]))
    ]
    assert [type(one.scores) for one in found] == [np.ndarray, np.ndarray, torch.Tensor]
    assert found[0].tokens.to_nested() == found[1].tokens.to_nested() == found[2].tokens.to_nested()


def test_a_search_without_a_prompt(hf):
    model = hf.made("llama")
    step = sf.hf.decoder_step(model)
    options = {"end": hf.END, "beam_size": 3, "max_new_tokens": 5}
    one, other = (
        sf.beam_search(step, None, **given, **options) for given in ({"start": [5, 6]}, {"prompt": [[5], [6]]})
    )
    assert one.tokens.to_nested() == other.tokens.to_nested()


@pytest.mark.parametrize("settings", SETTINGS, ids=["plain", "early", "never"])
@pytest.mark.parametrize("name", DECODERS + PAIRS)
def test_prompts_are_read_once_and_rows_are_few(hf, name, settings):
    """A model sees each prompt a single time, and never more rows than `generate` gives it."""
    model, prompts = hf.made(name), hf.prompts([6, 6, 6])
    seen, which = [], "decoder_input_ids" if name in PAIRS else "input_ids"
    model.register_forward_pre_hook(lambda _, args, given: seen.append(tuple(given[which].shape)), with_kwargs=True)
    ends = list(range(1, 12))
    options = {"end": ends, "beam_size": 4, "max_new_tokens": 8, **settings}
    given = hf.padded(prompts, left=name in DECODERS)
    if name in PAIRS:
        mine = sf.beam_search(sf.hf.encoder_decoder_step(model), None, shared=given, start=hf.START[name], **options)
    else:
        mine = sf.beam_search(sf.hf.decoder_step(model), None, prompt=prompts, **options)
    ours, seen[:] = list(seen), []
    theirs, out = hf.generated(model, given, ends, num_beams=4, max_new_tokens=8, **settings)
    hf.assert_alike(mine, theirs, out.sequences_scores)
    length = 1 if name in PAIRS else 6
    assert (ours[0], seen[0]) == ((3, length), (12, length))
    assert {shape[1] for shape in ours[1:]} <= {1}
    assert sum(rows for rows, _ in ours) == mine.rows < sum(rows for rows, _ in seen)
    assert len(ours) <= len(seen)


def test_encoders_run_once_and_their_keys_move_seldom(hf):
    model, sources = hf.made("t5"), hf.prompts([4, 2])
    runs = []
    model.get_encoder().register_forward_pre_hook(lambda *_: runs.append(1))
    given, moved = hf.padded(sources, left=False), []
    step = sf.hf.encoder_decoder_step(model)

    def watched(state):
        scores, memory = step(state)
        keys = memory.cache.cross_attention_cache.layers[0].keys
        moved.append((len(keys), keys.data_ptr()))
        return scores, memory

    sf.beam_search(watched, None, shared=given, start=hf.START["t5"], end=hf.END, beam_size=3, max_new_tokens=7)
    assert runs == [1]
    assert [rows for rows, _ in moved[:2]] == [2, 6]
    assert len(set(moved)) < len(moved) - 2


def test_dtypes_and_kinds_of_attention(hf):
    import torch

    prompts = hf.prompts([4, 2, 6])
    for name, dtype in (("gpt2", torch.float64), ("llama", torch.float32)):  # Llama's of float64 has NaN for padding
        model = hf.made(name, attn_implementation="eager").to(dtype)
        theirs, out = hf.generated(model, hf.padded(prompts, left=True), num_beams=3, max_new_tokens=6)
        mine = sf.beam_search(
            sf.hf.decoder_step(model), None, prompt=prompts, end=hf.END, beam_size=3, max_new_tokens=6
        )
        hf.assert_alike(mine, theirs, out.sequences_scores)
    model = hf.made("llama").to(torch.bfloat16)
    found = sf.beam_search(sf.hf.decoder_step(model), None, prompt=prompts, end=hf.END, beam_size=3, max_new_tokens=6)
    assert found.scores.dtype == np.float32


def test_a_recurrent_model(hf):
    """From transformers 5.24 on its states are a cache like any other; before, they cannot follow the rows."""
    import transformers

    config = transformers.MambaConfig(vocab_size=hf.WORDS, hidden_size=8, num_hidden_layers=2, state_size=4)
    model, prompts = transformers.MambaForCausalLM(config).eval(), hf.prompts([5, 5, 5])
    options = {"prompt": prompts, "end": hf.END, "beam_size": 3, "max_new_tokens": 6}
    if hf.cache_name(model) != "cache":
        with pytest.raises(TypeError, match="MambaForCausalLM returns no cache that can follow"):
            sf.beam_search(sf.hf.decoder_step(model), None, **options)
        return
    theirs, out = hf.generated(model, hf.padded(prompts, left=True), [hf.END], num_beams=3, max_new_tokens=6)
    mine = sf.beam_search(sf.hf.decoder_step(model), None, **options)
    hf.assert_alike(mine, theirs, out.sequences_scores)


def test_what_is_refused(hf):
    options = {"end": hf.END, "beam_size": 2, "max_new_tokens": 3}
    step = sf.hf.decoder_step(hf.made("gpt2"), use_cache=False)
    with pytest.raises(TypeError, match="GPT2LMHeadModel returns no cache that can follow"):
        sf.beam_search(step, None, start=[3], **options)
    step = sf.hf.encoder_decoder_step(hf.made("t5"))
    with pytest.raises(TypeError, match="shared must be what the encoder takes.*not NoneType"):
        sf.beam_search(step, None, start=[0], **options)
    with pytest.raises(sf.StructureError, match="empty dict"):
        sf.beam_search(step, None, start=[0], shared={}, **options)


@pytest.mark.parametrize("name", DECODERS)
def test_prompts_that_come_later(hf, name):
    """Prompts are read when they come, and their hypotheses are those of a search of their own."""
    model, prompts = hf.made(name), hf.prompts([4, 1, 7, 3, 2, 9, 5])
    options = {"end": list(range(hf.END, hf.WORDS, 4)), "beam_size": 3, "n_best": 2, "max_new_tokens": 9}
    step = sf.hf.decoder_step(model)
    wanted = [sf.beam_search(step, None, prompt=[prompt], **options) for prompt in prompts]
    for begin in (0, 1, 3):
        decoder = sf.BeamDecoder(None, prompt=prompts[:begin], **options)
        found, number, width, t = {}, begin, 0, 0
        while decoder.active or number < len(prompts):
            if number < len(prompts) and (t in (2, 3, 5) or not decoder.active):
                decoder.add(None, prompt=prompts[number : number + 2])
                if t == 3:
                    decoder.take(number)  # given up before it has begun
                number += 2
            decoder.step(*step(decoder.state))
            width, t = max(width, decoder.state.memory.cache.get_seq_length()), t + 1
            if t == 4:
                decoder.take(decoder.sources[decoder.state.source[:1]])  # and in the middle
            numbers, result = decoder.take()
            scores = np.split(np.asarray(result.scores), np.cumsum(np.diff(result.tokens.lod[0])))
            found |= dict(zip(numbers.tolist(), zip(result.tokens.to_nested(), scores, strict=False), strict=True))
        assert len(found) >= len(prompts) - 2
        for i, (tokens, scores) in found.items():
            assert tokens == wanted[i].tokens.to_nested()[0]
            np.testing.assert_allclose(scores, np.asarray(wanted[i].scores), rtol=2e-4, atol=2e-4)
        assert width <= 9 + 9


def test_what_cannot_come_later(hf):
    import torch

    options = {"end": 1, "beam_size": 2, "max_new_tokens": 4}
    model, source = hf.made("t5"), sf.Ragged(torch.tensor([5, 6, 7]), [3])
    step = sf.hf.encoder_decoder_step(model)
    decoder = sf.BeamDecoder(None, start=[0], shared=source, **options)
    decoder.step(*step(decoder.state))
    decoder.add(None, start=[0], shared=source)
    with pytest.raises(sf.ConversionError, match="cannot be added to a search of a model with an encoder"):
        step(decoder.state)
    step = sf.hf.decoder_step(hf.made("gpt2"), keep=lambda out: out.logits[:, -1])
    decoder = sf.BeamDecoder(None, prompt=[[5, 6]], **options)
    decoder.step(*step(decoder.state))
    decoder.add(None, prompt=[[7]])
    with pytest.raises(sf.ConversionError, match="keep= does not go with sources that are added"):
        step(decoder.state)


def test_a_cache_stays_short(hf):
    """It forgets the places that no row has any more."""
    step = sf.hf.decoder_step(hf.made("gpt2"))
    decoder = sf.BeamDecoder(None, prompt=[[5, 6, 7]], end=1, beam_size=2, max_new_tokens=4, min_new_tokens=3)
    for _ in range(12):
        decoder.add(None, prompt=[[8, 9, 4]])
        decoder.step(*step(decoder.state))
        decoder.take()
        assert decoder.state.memory.cache.get_seq_length() <= 3 + 4
