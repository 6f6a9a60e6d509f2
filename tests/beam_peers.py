"""Beam search of other libraries, on table models and on tiny random networks; nothing is downloaded.

Run as a script it records answers for the tests that do without those libraries:
``python tests/beam_peers.py hf:0-250,3145 ct2:0-100 ct2-wide:0-5 > tests/cases/beam.json``, a rule and its seeds.
"""

import sys
import tempfile
from dataclasses import replace

import beam_tables as tables
import ctranslate2
import numpy as np
import torch
import transformers
from ctranslate2.specs import transformer_spec
from hf_models import cache_name
from transformers.modeling_outputs import BaseModelOutput, CausalLMOutput

import seqformats as sf

transformers.logging.set_verbosity_error()


def generate(case, **inputs):
    """The settings of a case as `generate` names them."""
    return {
        "num_beams": case.beam_size,
        "num_return_sequences": case.n_best,
        "max_new_tokens": case.max_new_tokens,
        "min_new_tokens": case.min_new_tokens or None,
        "length_penalty": case.length_penalty,
        "early_stopping": case.early_stopping,
        "eos_token_id": list(case.ends),
        "do_sample": False,
        "return_dict_in_generate": True,
        "output_scores": True,
        **inputs,
    }


def read(model, out, n_best, increments=True):
    """The (tokens, score, log-probability of each token) of every hypothesis of every source."""
    lengths = (out.beam_indices >= 0).sum(1).tolist()
    steps = out.beam_indices.shape[1]
    start = out.sequences.shape[1] - steps
    each = torch.zeros(len(lengths), steps)
    if increments:
        each = model.compute_transition_scores(out.sequences, out.scores, out.beam_indices, normalize_logits=False)
    found = [
        (tokens[start : start + n], score, gained[:n])
        for tokens, score, gained, n in zip(
            out.sequences.tolist(), out.sequences_scores.tolist(), each.tolist(), lengths, strict=True
        )
    ]
    return [found[i : i + n_best] for i in range(0, len(found), n_best)]


# --- table models ----------------------------------------------------------------------------------------------------


class TableConfig(transformers.PretrainedConfig):
    model_type = "table"


class TableModel(transformers.PreTrainedModel, transformers.GenerationMixin):
    """A decoder without weights: its logits are rows of a table."""

    config_class = TableConfig
    main_input_name = "input_ids"

    def __init__(self, case):
        super().__init__(TableConfig(vocab_size=case.vocabulary, num_hidden_layers=1, is_encoder_decoder=False))
        self.unused = torch.nn.Parameter(torch.zeros(1))  # tells which device and dtype the model has
        self.case, self.table = case, tables.table(case)

    def prepare_inputs_for_generation(self, input_ids, attention_mask=None, **_):
        return {"input_ids": input_ids}

    def forward(self, input_ids, **_):
        ids = input_ids.numpy()
        t = ids.shape[1] - len(self.case.prompts[0])
        found = tables.rows(self.table, ids[:, 0], t, ids[:, max(ids.shape[1] - 2, 0)], ids[:, -1])
        return CausalLMOutput(logits=torch.from_numpy(found[:, None, :]))


def hf_table(case, **more):
    """`generate` on the table of a case, with further settings."""
    model = TableModel(case).eval()
    prompts = torch.tensor(case.prompts)
    settings = generate(case, use_cache=False, pad_token_id=case.vocabulary, attention_mask=torch.ones_like(prompts))
    with torch.no_grad():
        return read(model, model.generate(prompts, **settings, **more), case.n_best)


def zeros(*shape):
    return np.zeros(shape, np.float32)


def ct2_table(case, **more):
    """CTranslate2 on the table of a case, with further settings.

    The embedding of a token and that of a step are the logits that they bring, the one layer adds nothing, and the
    projection is the identity: the sums are exact.
    """
    of_token, of_step = tables.parts(case)
    words = case.vocabulary
    spec = transformer_spec.TransformerDecoderModelSpec.from_config(1, 1, pre_norm=True, no_final_norm=True)
    decoder, layer = spec.decoder, spec.decoder.layer[0]
    decoder.scale_embeddings = False
    decoder.embeddings.weight = of_token
    decoder.position_encodings.encodings = of_step
    decoder.projection.weight = np.eye(words, dtype=np.float32)
    for norm in (layer.self_attention.layer_norm, layer.ffn.layer_norm):
        norm.gamma, norm.beta = zeros(words), zeros(words)
    for linear, height, width in (
        (layer.self_attention.linear[0], 3 * words, words),
        (layer.self_attention.linear[1], words, words),
        (layer.ffn.linear_0, 1, words),
        (layer.ffn.linear_1, words, 1),
    ):
        linear.weight, linear.bias = zeros(height, width), zeros(height)
    spec.register_vocabulary([str(token) for token in range(words)])
    # A model must name three special tokens, and stops at the ones it is told.
    spec.config.bos_token = spec.config.eos_token = spec.config.unk_token = str(case.ends[0])
    with tempfile.TemporaryDirectory() as folder:
        spec.validate()
        spec.save(folder)
        model = ctranslate2.Generator(folder, device="cpu", inter_threads=1, intra_threads=1)
    out = model.generate_batch(
        [[str(token) for token in prompt] for prompt in case.prompts],
        beam_size=case.beam_size,
        num_hypotheses=case.n_best,
        max_length=case.max_new_tokens,
        min_length=case.min_new_tokens,
        length_penalty=case.length_penalty,
        end_token=list(case.ends),
        return_scores=True,
        include_prompt_in_result=False,
        **more,
    )
    return [list(zip(source.sequences_ids, source.scores, strict=True)) for source in out]


TABLE = {"hf": hf_table, "ct2": ct2_table}


# --- tiny networks ---------------------------------------------------------------------------------------------------

WORDS = 16
SHAPE = {"d_model": 16, "encoder_layers": 1, "decoder_layers": 2, "encoder_ffn_dim": 24, "decoder_ffn_dim": 24}
SHAPE |= {"encoder_attention_heads": 2, "decoder_attention_heads": 2, "max_position_embeddings": 64}
# Embeddings that are also the output's would make a network repeat its last token.
SHAPE |= {"vocab_size": WORDS, "init_std": 0.5, "tie_word_embeddings": False}
# What CTranslate2's converter asks of a configuration.
SHAPE |= {"normalize_before": False, "normalize_embedding": True}
NO_FORCED_END = {"forced_eos_token_id": None, "forced_bos_token_id": None}


def t5():
    config = transformers.T5Config(
        vocab_size=WORDS,
        d_model=16,
        d_kv=8,
        d_ff=24,
        num_layers=2,
        num_heads=2,
        pad_token_id=0,
        eos_token_id=1,
        decoder_start_token_id=0,
        initializer_factor=0.8,
        tie_word_embeddings=False,
    )
    model = transformers.T5ForConditionalGeneration(config)
    model.shared.weight.data *= 0.1  # more than the last token shall count
    model.lm_head.weight.data *= 4
    return model


def bart():
    special = {"bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2}
    return transformers.BartForConditionalGeneration(transformers.BartConfig(**SHAPE, **special, **NO_FORCED_END))


def marian():
    special = {"eos_token_id": 0, "pad_token_id": WORDS - 1, "decoder_start_token_id": WORDS - 1}
    return transformers.MarianMTModel(transformers.MarianConfig(**SHAPE, **special, **NO_FORCED_END))


NETWORKS = {"t5": t5, "bart": bart, "marian": marian}


class Network:
    """A random encoder and decoder, sources of several lengths, and the settings of a case."""

    def __init__(self, kind, seed, rule="hf", **attention):
        torch.manual_seed(seed)
        self.model = NETWORKS[kind]().eval()
        if attention:
            self.model.set_attn_implementation(**attention)
        self.model.get_output_embeddings().weight.data *= 2  # likely tokens and unlikely ones
        config = self.model.config
        self.start = config.decoder_start_token_id
        drawn = tables.draw(rule, seed)
        self.case = replace(
            drawn,
            vocabulary=WORDS,
            ends=(config.eos_token_id, 5, 9)[: 3 if rule == "hf" else 2],  # several, or the search never ends early
            prompts=((self.start,),) * len(drawn.prompts),
            holes=0.0,
        )
        rng = np.random.default_rng(seed)
        lengths = rng.integers(1, 7, len(drawn.prompts)).tolist()
        self.sources = [rng.integers(3, WORDS - 1, length).tolist() for length in lengths]
        self.ids = torch.full((len(lengths), max(lengths)), config.pad_token_id)
        self.mask = torch.zeros_like(self.ids)
        for i, source in enumerate(self.sources):
            self.ids[i, : len(source)] = torch.tensor(source)
            self.mask[i, : len(source)] = 1
        with torch.no_grad():
            states = self.model.get_encoder()(self.ids, attention_mask=self.mask).last_hidden_state
        self.shared = {"states": states, "mask": self.mask}

    def run(self, shared, sources, prefixes, cache=None):
        """The logits after the last token of every prefix (the start token included), and the cache."""
        name = cache_name(self.model)
        given = self.inputs(shared, sources, prefixes) | {name: cache}
        out = self.model(**given, use_cache=cache is not None)
        return out.logits[:, -1], getattr(out, name)

    def inputs(self, shared, sources, prefixes):
        """What the model is given for rows of these sources."""
        at = torch.as_tensor(sources)
        return {
            "encoder_outputs": BaseModelOutput(last_hidden_state=shared["states"][at]),
            "attention_mask": shared["mask"][at],
            "decoder_input_ids": prefixes,
        }

    def expected(self):
        """By the rule as written in `beam_tables`, one prefix at a time."""
        known = {}

        def logits(source, tokens):
            key = (source, *tokens)
            if key not in known:
                known[key] = self.run(self.shared, [source], torch.tensor([[self.start, *tokens]]))[0][0].numpy()
            return known[key]

        with torch.no_grad():
            return tables.expected(self.case, logits)

    def generate(self):
        """`generate`, with the cache that it makes."""
        with torch.no_grad():
            out = self.model.generate(self.ids, **generate(self.case, attention_mask=self.mask))
            return read(self.model, out, self.case.n_best)

    def search(self, keep=False, **more):
        """The library, the decoder run over whole prefixes: it has no memory but the encoder's states.

        It may `keep` the attention that CTranslate2 gives: that of the first head of the last layer.
        """

        def step(state):
            tokens = torch.as_tensor(state.prefixes.data).reshape(len(state.source), state.t)
            prefixes = torch.cat([torch.full((len(tokens), 1), self.start), tokens], 1)
            if not keep:
                return self.run(state.shared, state.source, prefixes)[0], None
            out = self.model(**self.inputs(state.shared, state.source, prefixes), output_attentions=True)
            return out.logits[:, -1], None, out.cross_attentions[-1][:, 0, -1]

        return self.library(step, None, **more)

    def search_with_cache(self, **more):
        """The library, with the keys and values of the decoder as the memory that follows the beams."""
        config = self.model.config
        heads = config.num_attention_heads
        nothing = torch.zeros(len(self.sources), heads, 0, config.hidden_size // heads)
        layers = 2

        def step(state):
            cache = transformers.EncoderDecoderCache(transformers.DynamicCache(), transformers.DynamicCache())
            if state.t:
                for i, (keys, values) in enumerate(state.memory):
                    cache.self_attention_cache.update(keys, values, i)
            last = torch.as_tensor(state.tokens)[:, None]
            scores, cache = self.run(state.shared, state.source, last, cache)
            return scores, tuple((layer.keys, layer.values) for layer in cache.self_attention_cache.layers)

        return self.library(step, tuple((nothing, nothing) for _ in range(layers)), **more)

    def library(self, step, memory, **more):
        with torch.no_grad():
            return sf.beam_search(
                step,
                memory,
                shared=self.shared,
                start=self.start,
                end=list(self.case.ends),
                **tables.settings(self.case),
                **more,
            )

    def translate(self, **more):
        """CTranslate2, with the converted network, and with further settings."""
        config = self.model.config
        with tempfile.TemporaryDirectory() as folder:
            config.save_pretrained(folder)
            Converter(folder, self.model).convert(f"{folder}/converted")
            model = ctranslate2.Translator(f"{folder}/converted", device="cpu", inter_threads=1, intra_threads=1)
        out = model.translate_batch(
            [[str(token) for token in source] for source in self.sources],
            beam_size=self.case.beam_size,
            num_hypotheses=self.case.n_best,
            max_decoding_length=self.case.max_new_tokens,
            min_decoding_length=self.case.min_new_tokens,
            length_penalty=self.case.length_penalty,
            end_token=list(self.case.ends),
            return_scores=True,
            **more,
        )
        return [
            [(list(map(int, tokens)), score) for tokens, score in zip(source.hypotheses, source.scores, strict=True)]
            for source in out
        ]


class Tokens:
    """As much of a tokenizer as a conversion asks for; a token's text is its number."""

    def __init__(self, config):
        self.bos_token, self.eos_token = str(config.bos_token_id), str(config.eos_token_id)
        self.unk_token = str(config.pad_token_id)

    def get_vocab(self):
        return {str(token): token for token in range(WORDS)}

    def convert_ids_to_tokens(self, token):
        return str(token)


class Converter(ctranslate2.converters.TransformersConverter):
    """Of a model in memory."""

    def __init__(self, folder, model):
        super().__init__(folder)
        self.model = model

    def load_model(self, model_class, name, **_):
        return self.model

    def load_tokenizer(self, tokenizer_class, name, **_):
        return Tokens(self.model.config)


# --- the recorded answers --------------------------------------------------------------------------------------------


def record(rule, seeds):
    """Cases with the answers of a peer."""
    rule, _, wide = rule.partition("-")
    return tables.record(rule, seeds, TABLE[rule], bool(wide))


if __name__ == "__main__":
    provenance = (
        f"transformers {transformers.__version__} and ctranslate2 {ctranslate2.__version__} on the table models of "
        "tests/beam_tables.py, recorded by tests/beam_peers.py."
    )
    chosen = [argument.split(":") for argument in sys.argv[1:]]
    print(tables.written(provenance, [case for rule, seeds in chosen for case in record(rule, tables.numbers(seeds))]))
