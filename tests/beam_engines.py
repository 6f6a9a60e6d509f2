"""Beam search of fairseq and T5X, by their own code, on table models: it records answers for the tests.

A script, run where the engine's files lie in a folder of its name: fairseq's ``search.py``, ``sequence_generator.py``
and ``token_generation_constraints.py`` (PyTorch is needed), T5X's ``decoding.py`` and ``binary_search.py`` (JAX and
Flax).  ``python tests/beam_engines.py fairseq FOLDER COMMIT 0-200 > tests/cases/beam_fairseq.json``, and the same with
``t5x``; COMMIT says which files these are.
"""

import importlib
import sys
import types

import beam_tables as tables
import numpy as np


def fairseq(folder):
    """What gives `SequenceGenerator`'s answer to a case."""
    import torch

    package = types.ModuleType("fairseq")
    package.__path__ = [f"{folder}/fairseq"]
    sys.modules["fairseq"] = package
    # its models, and what they bring, are not needed
    for name, wanted in {"utils": (), "data": ("data_utils",), "models": ("FairseqIncrementalDecoder",)}.items():
        module = types.ModuleType(f"fairseq.{name}")
        vars(module).update(dict.fromkeys(wanted, object))
        sys.modules[module.__name__] = module
        setattr(package, name, module)
    blocking = types.ModuleType("fairseq.ngram_repeat_block")
    blocking.NGramRepeatBlock = object
    sys.modules[blocking.__name__] = blocking
    generator = importlib.import_module("fairseq.sequence_generator")

    class Dictionary:
        """The tokens of a case, and two that the search wants."""

        def __init__(self, case):
            self.case = case

        def __len__(self):
            return self.case.vocabulary + 2

        def pad(self):
            return self.case.vocabulary

        def unk(self):
            return self.case.vocabulary + 1

        def eos(self):
            return self.case.ends[0]

    class Table(generator.EnsembleModel):
        """A model whose encoder gives the first token of each prompt."""

        def __init__(self, case):
            torch.nn.Module.__init__(self)
            self.models_size, self.case, self.table = 1, case, tables.table(case)

        def set_decoder_beam_size(self, beam_size):
            pass

        def max_decoder_positions(self):
            return 1000

        def forward_encoder(self, net_input):
            return net_input["src_tokens"]

        def reorder_encoder_out(self, encoder_outs, new_order):
            return encoder_outs.index_select(0, new_order)

        def reorder_incremental_state(self, incremental_states, new_order):
            pass

        def forward_decoder(self, tokens, encoder_outs, incremental_states, temperature=1.0):
            first, told = encoder_outs[:, 0].numpy(), tokens.numpy()
            before = told[:, -2] if told.shape[1] > 1 else first
            scores = torch.full((len(told), self.case.vocabulary + 2), -torch.inf)
            found = tables.rows(self.table, first, told.shape[1] - 1, before, told[:, -1])
            scores[:, : self.case.vocabulary] = torch.log_softmax(torch.from_numpy(found), -1)
            return scores, None

    def ask(case):
        (start,) = {prompt[-1] for prompt in case.prompts}
        search = generator.SequenceGenerator(
            Table(case),
            Dictionary(case),
            beam_size=case.beam_size,
            max_len_b=case.max_new_tokens - 1,
            min_len=case.min_new_tokens,
            len_penalty=case.length_penalty,
        )
        sources = torch.tensor([[prompt[0]] for prompt in case.prompts])
        found = search.generate([], {"net_input": {"src_tokens": sources}}, bos_token=start)
        return [[(one["tokens"].tolist(), float(one["score"])) for one in some[: case.n_best]] for some in found]

    return ask


def t5x(folder):
    """What gives `beam_search`'s answer to a case."""
    import jax.numpy as jnp

    sys.path.insert(0, folder)
    decoding = importlib.import_module("t5x.decoding")

    def ask(case):
        table = jnp.asarray(tables.table(case))
        firsts = np.array([prompt[0] for prompt in case.prompts])
        first = jnp.repeat(jnp.asarray(firsts), case.beam_size) % len(table)

        def logits(state):
            last, t = state.cur_token[:, 0], state.cur_index
            before = jnp.where(t > 0, state.sequences[:, t - 1], first)
            return table[first, t, before % table.shape[2], last], state.cache

        inputs = jnp.zeros((len(firsts), case.max_new_tokens), jnp.int32)
        tokens, scores = decoding.beam_search(
            inputs, {}, logits, eos_id=case.ends[0], num_decodes=case.beam_size, alpha=case.length_penalty
        )
        found = []
        for some, worth in zip(np.asarray(tokens)[:, ::-1], np.asarray(scores)[:, ::-1], strict=True):
            best = zip(some[: case.n_best].tolist(), worth.tolist(), strict=False)
            found.append([(row[: row.index(case.ends[0]) + 1], score) for row, score in best])
        return found

    return ask


ENGINES = {"fairseq": ("fairseq", fairseq), "t5x": ("gnmt", t5x)}


if __name__ == "__main__":
    engine, folder, commit, seeds = sys.argv[1:]
    rule, engine_in = ENGINES[engine]
    provenance = f"{engine} at {commit} on the table models of tests/beam_tables.py, by tests/beam_engines.py."
    print(tables.written(provenance, tables.record(rule, tables.numbers(seeds), engine_in(folder))))
