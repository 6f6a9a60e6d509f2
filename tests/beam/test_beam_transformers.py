"""Decoders of transformers in a search, beside each sequence alone in the model, without a cache."""

import inspect
import os

import hf_list
import numpy as np
import pytest

import seqformats as sf

pytestmark = pytest.mark.peers
NIGHTLY = os.environ.get("SEQFORMATS_HYPOTHESIS") == "nightly"
PROMPTS = {
    "even": [[5, 6, 7], [8, 9, 10], [11, 12, 13]],
    "long": [list(range(5, 17)), list(range(16, 4, -1))],
    "padding ids": [[5, 1, 7], [9, 8, 1], [9, 10, 12]],
    "uneven": [[5, 6, 7], [8], list(range(9, 19))],
    "uneven padding ids": [[5, 1, 7], [1], [9, 10, 1, 12]],
}
NOT_JOINED = (sf.ConversionError, TypeError), "whose model has a cache of|cannot be given sources that are added"
REFUSALS = {  # by what a model can be given: of which prompts, with which error
    "right": {},
    "together": {"joined": NOT_JOINED},
    "one length": {"uneven": (sf.ConversionError, "cannot be given prompts of different"), "joined": NOT_JOINED},
    "refused": dict.fromkeys(
        ["even", "uneven", "joined"], (TypeError, "no cache that can follow|cannot be searched with its cache")
    ),
}


@pytest.fixture(autouse=True, scope="module")
def libraries():
    """PyTorch with one thread, as these models are too small to be shared."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def decoders():
    """All decoders, each with what it can be given."""
    return {name: given for given, listed in hf_list.DECODERS.items() for name in listed.split()}


def of_this_run(names, fast):
    return [name for name in names if NIGHTLY or name in fast]


class Alone:
    """A step that runs a model over each whole sequence by itself."""

    def __init__(self, model, sources=None):
        self.model, self.sources, self.known = model, sources, {}
        self.fixed = {"use_cache": False} if "use_cache" in inspect.signature(model.forward).parameters else {}

    def scores(self, source, tokens):
        import torch

        if (source, *tokens) not in self.known:
            ids = torch.tensor([tokens])
            given = {"input_ids": ids}
            if self.sources is not None:
                given = {"input_ids": torch.tensor([self.sources[source]]), "decoder_input_ids": ids}
            with torch.no_grad():
                self.known[source, *tokens] = self.model(**given, **self.fixed).logits[0, -1]
        return self.known[source, *tokens]

    def __call__(self, state):
        import torch

        source, last = np.asarray(state.source).tolist(), np.asarray(state.tokens).tolist()
        if state.memory is not None:
            paths = [[*path, token] for path, token in zip(state.memory, last, strict=True)]
        elif state.prompt is None:
            paths = [[token] for token in last]
        else:
            prompts = state.prompt.to_nested()
            paths = [prompts[i] for i in source]
        of = source if self.sources is not None else [0] * len(source)
        return torch.stack([self.scores(i, path) for i, path in zip(of, paths, strict=True)]), paths


def assert_same(found, wanted):
    assert found.tokens.to_nested() == wanted.tokens.to_nested()
    for part in ("scores", "token_scores"):
        ours, theirs = (getattr(result, part) for result in (found, wanted))
        ours, theirs = (np.asarray(x.data if part == "token_scores" else x) for x in (ours, theirs))
        np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-3)


def joined(step, prompts, options):
    """The result of a search to which prompts come one after the other."""
    decoder = sf.BeamDecoder(None, prompt=prompts[:1], **options)
    later, t = prompts[1:], 0
    while decoder.active or later:
        if later and t in (2, 3):
            decoder.add(None, prompt=[later.pop(0)])
        decoder.step(*step(decoder.state))
        t += 1
    return decoder.result()


def assert_refused(refusals, what, search):
    """Whether a search is to be refused, and is; it has no other error in any case."""
    if what not in refusals:
        return False
    kind, words = refusals[what]
    with pytest.raises(kind, match=words) as found:
        search()
    assert found.value.code
    return True


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", of_this_run(decoders(), hf_list.FAST[0]))
def test_decoders(name):
    """Greedy, with beams, and with prompts that come later; lengths above and below the window."""
    model = hf_list.decoder(name)
    alone, refusals = Alone(model), REFUSALS[decoders()[name]]
    for kind, prompts in PROMPTS.items():
        for beam_size, rule in ((1, "greedy"), (2, "hf")):
            options = {"prompt": prompts, "end": hf_list.END, "beam_size": beam_size, "n_best": beam_size, "rule": rule,
                       "max_new_tokens": 5}  # fmt: skip

            def search(options=options):
                return sf.beam_search(sf.hf.decoder_step(model), None, **options)

            if not assert_refused(refusals, "uneven" if "uneven" in kind else "even", search):
                assert_same(search(), sf.beam_search(alone, None, **options))
    options = {"end": hf_list.END, "beam_size": 2, "n_best": 2, "max_new_tokens": 5, "min_new_tokens": 3}
    for kind in ("even", "uneven", "uneven padding ids"):

        def search(prompts=PROMPTS[kind]):
            return joined(sf.hf.decoder_step(model), list(prompts), options)

        if not assert_refused(refusals, "joined", search):
            assert_same(search(), sf.beam_search(alone, None, prompt=PROMPTS[kind], **options))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", of_this_run(hf_list.PAIRS.split(), hf_list.FAST[1]))
def test_models_with_an_encoder(name):
    import torch

    model, sources = hf_list.pair(name), PROMPTS["uneven"]
    batch = sf.Ragged(torch.tensor([token for source in sources for token in source]), list(map(len, sources)))
    for beam_size, rule in ((1, "greedy"), (3, "hf")):
        options = {"end": hf_list.END, "beam_size": beam_size, "n_best": beam_size, "rule": rule, "max_new_tokens": 6}
        wanted = sf.beam_search(Alone(model, sources), None, start=[hf_list.START] * 3, **options)
        found = sf.beam_search(sf.hf.encoder_decoder_step(model), None, shared=batch, start=hf_list.START, **options)
        assert_same(found, wanted)


TURNED = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10000.0}
LONG = {"rope_type": "longrope", "rope_theta": 10000.0, "short_factor": [1.0] * 4, "long_factor": [2.0] * 4}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("name", "more", "right"),
    [
        ("llama", {"rope_parameters": TURNED, "max_position_embeddings": 10}, ["even", "padding ids"]),
        ("llama", {"rope_parameters": {**LONG, "original_max_position_embeddings": 14}}, ["even", "uneven"]),
        (
            "phi3",  # whose generation hook drops the cache where rotations change
            {"rope_parameters": LONG, "original_max_position_embeddings": 14, "sliding_window": None},
            ["even", "uneven", "long"],
        ),
    ],
)
def test_rotations_that_depend_on_the_longest_row(name, more, right):
    model = hf_list.decoder(name, **more)
    alone = Alone(model)
    prompts = {**PROMPTS, "uneven and long": [PROMPTS["long"][0], [7]]}
    for kind in {"even", "long", "uneven and long", *right}:
        options = {"prompt": prompts[kind], "end": hf_list.END, "beam_size": 2, "max_new_tokens": 5}
        step = sf.hf.decoder_step(model)
        if kind in right:
            assert_same(sf.beam_search(step, None, **options), sf.beam_search(alone, None, **options))
        else:
            with pytest.raises(sf.ConversionError, match="rotates its positions by the length"):
                sf.beam_search(step, None, **options)


@pytest.mark.filterwarnings("ignore")
def test_a_model_is_tried_once():
    """The first time that it is given prompts of one length, of different ones, or later ones; hooks see no trial."""
    model, calls, seen = hf_list.decoder("llama"), [], []
    model.get_input_embeddings().register_forward_hook(lambda *_: calls.append(1))
    model.register_forward_pre_hook(lambda *_: seen.append(1))

    def search(kind, **options):
        calls.clear()
        seen.clear()
        step = sf.hf.decoder_step(model, **options)
        sf.beam_search(step, None, prompt=PROMPTS[kind], end=hf_list.END, beam_size=2, max_new_tokens=3)
        assert len(seen) == 3
        return len(calls)

    assert [search("even"), search("even"), search("long")] == [3 + 5, 3, 3]
    assert [search("uneven"), search("uneven"), search("even")] == [3 + 5, 3, 3]
    model, before = hf_list.decoder("llama"), model
    model.get_input_embeddings().register_forward_hook(lambda *_: calls.append(1))
    model.register_forward_pre_hook(lambda *_: seen.append(1))
    assert before is not model
    assert search("even", check=False) == 3
    model.train()
    assert search("even") == 3  # where scores may be drawn
    with pytest.raises(TypeError, match="check must be True or False"):
        sf.hf.decoder_step(model, check="no")


@pytest.mark.filterwarnings("ignore")
def test_without_the_trial_a_model_does_what_it_can():
    model = hf_list.decoder("bart")
    options = {"prompt": PROMPTS["uneven"], "end": hf_list.END, "beam_size": 2, "max_new_tokens": 3}
    assert len(sf.beam_search(sf.hf.decoder_step(model, check=False), None, **options).tokens) == 3


def test_the_lists():
    """They have no name twice, and as many as transformers has that can be made tiny; the fast ones are among them."""
    assert len(decoders()) == sum(len(listed.split()) for listed in hf_list.DECODERS.values()) >= 53
    assert len(set(hf_list.PAIRS.split())) == len(hf_list.PAIRS.split()) >= 17
    assert set(hf_list.FAST[0]) <= set(decoders())
    assert set(hf_list.FAST[1]) <= set(hf_list.PAIRS.split())
