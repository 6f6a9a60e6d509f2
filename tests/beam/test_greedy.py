"""The rule "greedy": the best token of every step, by the scores as they are, until the first end."""

import numpy as np
import pytest

import seqformats as sf

SOURCES, WORDS, STEPS = 4, 7, 9
OPTIONS = {
    "plain": {},
    "repetition penalty": {"penalty": 1.7},
    "a penalty below 1": {"penalty": 0.6},
    "no pairs again": {"ngram": 2},
    "no token again": {"ngram": 1},
    "a late end": {"least": 4},
    "two ends": {"ends": (0, 3)},
    "all": {"penalty": 1.4, "ngram": 2, "least": 3, "ends": (0, 3)},
    "no end": {"ends": (), "penalty": 1.2},
    "biases": {"bias": {(1,): 1.5, (4,): -2.0, (2, 1): 3.0}},
    "biases and a penalty": {"bias": {(1,): 1.5, (4,): -2.0, (2, 1): 3.0}, "penalty": 1.6},
    "likelier ends": {"decay": (1, 1.4)},
    "less likely ends": {"decay": (0, 0.7), "bias": {(0,): 1.0}},
    "one after the other": {
        "decay": (2, 1.3),
        "bias": {(0,): 1.0, (1, 2): -3.0},
        "penalty": 0.7,
        "ngram": 2,
        "least": 3,
    },
}
every_option = pytest.mark.parametrize("name", OPTIONS)


def table(seed, spread=2.0):
    """Logits by source, number of tokens, and last token, of which the last is the start, which never follows."""
    x = np.random.default_rng(seed).normal(size=(SOURCES, STEPS, WORDS + 1, WORDS + 1)) * spread
    x[..., WORDS] = -np.inf
    return x.astype(np.float32)


def log_softmax(x):
    x = x.astype(np.float64)
    return x - x.max() - np.log(np.exp(x - x.max()).sum())


def slow(x, longest, ends=(0,), penalty=None, ngram=None, least=0, bias=None, decay=None):
    """The tokens and score of one source, as the search is described."""
    tokens, score = [], 0.0
    while len(tokens) < longest:
        logits = x[len(tokens), tokens[-1] if tokens else WORDS].copy()
        for phrase, value in (bias or {}).items():
            if tuple(tokens[len(tokens) - len(phrase) + 1 :]) == phrase[:-1] and len(tokens) >= len(phrase) - 1:
                logits[phrase[-1]] += np.float32(value)
        for token in set(tokens) if penalty else ():
            logits[token] = logits[token] * penalty if logits[token] < 0 else logits[token] / penalty
        if ngram:
            before = tokens[len(tokens) - ngram + 1 :] if ngram > 1 else []
            for i in range(len(tokens) - ngram + 1):
                if tokens[i : i + ngram - 1] == before:
                    logits[tokens[i + ngram - 1]] = -np.inf
        if len(tokens) < least:
            logits[list(ends)] = -np.inf
        for end in ends if decay and len(tokens) > decay[0] else ():
            if logits[end] > -np.inf:
                logits[end] += abs(logits[end]) * (decay[1] ** (len(tokens) - decay[0]) - 1)
        if logits.max() == -np.inf:
            return None
        token = int(np.argmax(logits))
        tokens.append(token)
        score += log_softmax(logits)[token]
        if token in ends:
            break
    return tokens, score


def search(x, longest=STEPS, ends=(0,), penalty=None, ngram=None, least=0, bias=None, decay=None, **more):
    constraints = [sf.ExponentialDecayLengthPenalty(*decay)] if decay else []
    constraints += [sf.RepetitionPenalty(penalty)] if penalty else []
    constraints += [sf.SequenceBias(bias)] if bias else []
    constraints += [sf.NoRepeatNgram(ngram)] if ngram else []
    options = {
        "start": np.full(SOURCES, WORDS), "end": list(ends), "beam_size": 1, "max_new_tokens": longest,
        "min_new_tokens": least, "constraints": constraints, "rule": "greedy",
    }  # fmt: skip
    return sf.beam_search(lambda state: (x[state.source, state.t, state.tokens], None), None, **options | more)


@every_option
@pytest.mark.parametrize("longest", [1, STEPS])
def test_the_best_token_of_every_step(name, longest):
    for seed in range(15):
        x = table(seed)
        found = search(x, longest, **OPTIONS[name])
        wanted = [slow(own, longest, **OPTIONS[name]) for own in x]
        assert found.tokens.to_nested() == [[one[0]] if one else [] for one in wanted]
        np.testing.assert_allclose(found.scores, [one[1] for one in wanted if one], 1e-5, 1e-5)


def test_what_a_penalty_acts_on_is_the_scores_themselves():
    """Of log-probabilities the same token would stay the best."""
    x = np.full((SOURCES, STEPS, WORDS + 1, WORDS + 1), 100, np.float32)
    x[..., 1], x[..., 2] = 100.5, 100.1
    options = {"penalty": 1.1, "longest": 2}
    assert search(x, **options).tokens.to_nested() == [[[1, 2]]] * SOURCES
    assert search(x, rule="hf", **options).tokens.to_nested() == [[[1, 1]]] * SOURCES


def test_scores_that_differ_by_the_least():
    """Of the same the first is taken."""
    x = np.full((SOURCES, STEPS, WORDS + 1, WORDS + 1), -40, np.float32)
    x[..., 2], x[..., 5], x[..., 6] = 50, np.nextafter(np.float32(50), np.float32(51)), 50
    assert search(x).tokens.to_nested() == [[[5] * STEPS]] * SOURCES
    x[..., 5] = 50
    assert search(x).tokens.to_nested() == [[[2] * STEPS]] * SOURCES


def test_scores_far_from_zero_decide():
    """What has been added up before, hundreds below zero, hides nothing of the next token."""
    x = np.zeros((SOURCES, STEPS, WORDS + 1, WORDS + 1), np.float32)
    x[..., 3], x[..., 2] = 1e-6, 0
    x[:, 0, :, :] = -1000
    x[:, 0, :, 1] = 0
    assert search(x, constraints=[sf.ForcedPrefix([[6]] * SOURCES)]).tokens.to_nested()[0][0][1:] == [3] * (STEPS - 1)


def test_no_token_at_all():
    x = table(1)
    x[2] = -np.inf
    found = search(x).tokens.to_nested()
    assert list(map(len, found)) == [1, 1, 0, 1]
    x[2] = np.nan
    with pytest.raises(ValueError, match="source 2 at step 0, row 2"):
        search(x)


def test_hooks_on_scores_and_steps_that_are_kept():
    x = table(2)
    less = np.zeros(WORDS + 1, np.float32)
    less[:3] = -np.inf
    found = search(x, penalty=1.6, on_scores=lambda scores, state: scores + less, trace=True)
    assert found.tokens.to_nested() == [[slow(own + less, STEPS, penalty=1.6)[0]] for own in x]
    assert len(found.trace.ids) == STEPS + 1


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"beam_size": 2}, "beam_size must be 1, not 2"),
        ({"beam_size": [1, 1, 3, 1]}, "beam_size must be 1, not 3"),
        ({"sampling": sf.Sample(1)}, 'sampling does not go with the rule "greedy"'),
        ({"sampling": sf.Stochastic(1)}, "sampling"),
        ({"prune": sf.Prune(per_parent=1)}, 'prune does not go with the rule "greedy"'),
        ({"on_candidates": lambda *found: found[:2]}, "on_candidates"),
        ({"on_selected": lambda *found: found[:3]}, 'on_selected does not go with the rule "greedy"'),
        ({"constraints": [sf.DiverseGroups(1, 1)]}, 'DiverseGroups and the rule "greedy" do not go together'),
        ({"constraints": [sf.LexicalConstraints([[1]])]}, "LexicalConstraints"),
        ({"early_stopping": True}, 'early_stopping belongs to the rule "hf"'),
    ],
)
def test_what_does_not_go_together(more, words):
    with pytest.raises(sf.ConversionError, match=words):
        search(table(0), **more)


@pytest.fixture(scope="module")
def network():
    """A decoder of transformers whose logits are rows of a table, and `generate` on it."""
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")

    class Tables(transformers.PreTrainedModel, transformers.GenerationMixin):
        config_class = transformers.PretrainedConfig
        main_input_name = "input_ids"

        def __init__(self, logits):
            super().__init__(transformers.PretrainedConfig(vocab_size=WORDS + 1, num_hidden_layers=1))
            self.unused = torch.nn.Parameter(torch.zeros(1))  # tells which device and dtype the model has
            self.logits = logits

        def prepare_inputs_for_generation(self, input_ids, attention_mask=None, **_):
            return {"input_ids": input_ids}

        def forward(self, input_ids, **_):
            ids = input_ids.numpy()
            found = self.logits[np.arange(len(ids)), ids.shape[1] - 1, ids[:, -1]]
            return transformers.modeling_outputs.CausalLMOutput(logits=torch.from_numpy(found[:, None, :]))

    def generate(logits, longest, ends=(0,), penalty=None, ngram=None, least=0, bias=None, decay=None):
        start = torch.full((SOURCES, 1), WORDS)
        with torch.no_grad():
            found = Tables(logits).eval().generate(
                start, attention_mask=torch.ones_like(start), num_beams=1, do_sample=False, use_cache=False,
                max_new_tokens=longest, min_new_tokens=least or None, eos_token_id=list(ends) or None,
                repetition_penalty=penalty or 1.0, no_repeat_ngram_size=ngram or 0, pad_token_id=WORDS,
                sequence_bias=bias, exponential_decay_length_penalty=decay,
            )  # fmt: skip
        return [[token for token in tokens if token != WORDS] for tokens in found.tolist()]

    return generate


@pytest.mark.peers
@every_option
def test_the_greedy_search_of_transformers(network, name):
    lengths = set()
    for seed in range(60):
        x = table(1000 + seed, spread=[0.5, 2, 8][seed % 3])
        longest = max(1 + seed % STEPS, OPTIONS[name].get("least", 0))
        if OPTIONS[name].get("ngram") == 1:
            longest = min(longest, 4)  # all tokens may go, of which transformers would take the first
        found = [tokens for (tokens,) in search(x, longest, **OPTIONS[name]).tokens.to_nested()]
        assert found == network(x, longest, **OPTIONS[name])
        lengths |= set(map(len, found))
    assert len(lengths) > 3 or OPTIONS[name].get("ngram") == 1
