"""Translation with ragged beams, one step after the other.

    python examples/translate.py

This is the decoder of PaddlePaddle's design document on sequence decoders, written with this library.  An encoder reads
each sentence to its last state.  Then, at each time step, the memory of every prefix is expanded to the words selected
for it, a GRU goes on, and `beam_step` selects across all prefixes of a source.  A prefix may be followed by several
words or by none, and a source by any number of prefixes.  The steps are kept in a `TensorArray`, from which
`beam_backtrace` reads the translations.  `sf.beam_search` is the same loop ready-made.

The weights are random, so the translations mean nothing.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

import seqformats as sf

SOURCE_WORDS = ["a", "big", "bird", "eats", "house", "in", "is", "lives", "old", "small", "the", "this"]
TARGET_WORDS = ["</s>", "<s>", "<unk>", "alte", "das", "dies", "ein", "frisst", "Haus", "im", "ist", "kleine", "Vogel"]
END, START, UNKNOWN = range(3)
SENTENCES = ["the bird lives in the old house", "this is a small house", "a big bird eats", ""]

WORD_DIM, ENCODER_DIM, DECODER_DIM = 16, 24, 24
BEAM_SIZE = 4
MAX_LENGTH = 12


@dataclass(frozen=True)
class Model:
    """The weights, named after the layers of the design document."""

    source_embedding: np.ndarray
    encoder_input: np.ndarray
    encoder_recurrent: np.ndarray
    encoder_ctx_proj: np.ndarray
    target_embedding: np.ndarray
    decoder_input: np.ndarray  # of a word and its source's context, side by side
    decoder_recurrent: np.ndarray
    scores: np.ndarray


def random_model(seed: int = 122) -> Model:
    rng = np.random.default_rng(seed)

    def weights(rows: int, columns: int) -> np.ndarray:
        return (rng.standard_normal((rows, columns)) * 1.5 / np.sqrt(rows)).astype(np.float32)

    return Model(
        source_embedding=rng.standard_normal((len(SOURCE_WORDS), WORD_DIM)).astype(np.float32),
        encoder_input=weights(WORD_DIM, 3 * ENCODER_DIM),
        encoder_recurrent=weights(ENCODER_DIM, 3 * ENCODER_DIM),
        encoder_ctx_proj=weights(ENCODER_DIM, DECODER_DIM),
        target_embedding=rng.standard_normal((len(TARGET_WORDS), WORD_DIM)).astype(np.float32),
        decoder_input=weights(WORD_DIM + ENCODER_DIM, 3 * DECODER_DIM),
        decoder_recurrent=weights(DECODER_DIM, 3 * DECODER_DIM) / 3,
        scores=3 * weights(DECODER_DIM, len(TARGET_WORDS)),
    )


def gru_step(given: np.ndarray, mem: np.ndarray, recurrent: np.ndarray) -> np.ndarray:
    """One step of a GRU: `given` holds its three projected inputs side by side."""
    wanted, held = np.split(given, 3, axis=1), np.split(mem @ recurrent, 3, axis=1)
    update, reset = 1 / (1 + np.exp(-wanted[0] - held[0])), 1 / (1 + np.exp(-wanted[1] - held[1]))
    return update * mem + (1 - update) * np.tanh(wanted[2] + reset * held[2])


@sf.with_padded
def gru(x: sf.Padded, recurrent: np.ndarray) -> np.ndarray:
    """A GRU over whole sequences.  Longest first: those that are alive at t are the first columns."""
    out = np.zeros((*x.data.shape[:2], len(recurrent)), np.float32)
    mem = np.zeros((len(x), len(recurrent)), np.float32)
    for t, alive in enumerate(x.size_at_t):
        mem = out[t, :alive] = gru_step(x.data[t, :alive], mem[:alive], recurrent)
    return out


def log_softmax(logits: np.ndarray) -> np.ndarray:
    shifted = logits - logits.max(axis=1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))


def top_k(scores: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The k best of each row, and their columns; of equal ones the first column."""
    columns = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(scores, columns, axis=1), columns


def encode(model: Model, src_word_id: Any) -> np.ndarray:
    """One row a sentence, whatever its length; zeros for a sentence without words."""
    src_word_vec = sf.with_array(lambda ids: model.source_embedding[ids] @ model.encoder_input)(src_word_id)
    encoder_out_seq = gru(src_word_vec, model.encoder_recurrent)
    return sf.reduce_last(encoder_out_seq)


def decoder_step(model: Model, words: np.ndarray, mem: np.ndarray, ctx: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The logits of the next word, and the new memory: one row each for every word, memory and context."""
    decoder_input = np.concatenate([model.target_embedding[words], ctx], axis=1) @ model.decoder_input
    cur_mem = gru_step(decoder_input, mem, model.decoder_recurrent)
    return cur_mem @ model.scores, cur_mem


def generate(model: Model, encoder_ctx: np.ndarray, beam_size: int, max_length: int) -> tuple[sf.LoD, sf.LoD]:
    """The translations of each source, best first, and their scores up to each word."""
    sources = np.arange(len(encoder_ctx))
    decoder_mem = np.tanh(encoder_ctx @ model.encoder_ctx_proj)  # one row a prefix: so far one a source
    prefixes: tuple[Any, ...] = (np.arange(len(sources) + 1),) * 2  # [source -> prefixes, prefix -> one word]
    generated_ids = [sf.LoD(np.full(len(sources), START), prefixes)]
    generated_scores = [sf.LoD(np.zeros(len(sources), np.float32), prefixes)]
    for _ in range(max_length):
        target_word = generated_ids[-1]  # [source -> prefixes, prefix -> the words selected for it]
        # the memory has one row a prefix: a prefix with three words goes on three times, one without any is dropped
        decoder_mem = sf.expand_as(decoder_mem, target_word).data
        # each word is the end of a prefix now; the context has one row per source, and follows by its source
        source_of_row = np.repeat(sources, np.diff(prefixes[0]))
        logits, decoder_mem = decoder_step(model, target_word.data, decoder_mem, encoder_ctx[source_of_row])
        scores = log_softmax(logits)
        scores[:, UNKNOWN] = -np.inf  # never selected
        topk_scores, topk_ids = top_k(scores, beam_size)
        topk_generated_scores = topk_scores + generated_scores[-1].data[:, None]
        selected = sf.beam_step(
            target_word,
            generated_scores[-1],
            topk_ids,
            sf.LoD(topk_generated_scores, prefixes),
            beam_size=beam_size,
            end=END,
        )
        if not selected.ids.rows:  # every source is done: all its hypotheses have ended
            break
        generated_ids.append(selected.ids)
        generated_scores.append(selected.scores)
        prefixes = selected.next_lod
    steps = sf.TensorArray(generated_ids), sf.TensorArray(generated_scores)
    found = sf.beam_backtrace(*steps, beam_size=beam_size, end=END)
    return found.ids, found.scores


def main() -> None:
    model = random_model()
    numbers = {word: k for k, word in enumerate(SOURCE_WORDS)}
    lengths = [len(sentence.split()) for sentence in SENTENCES]
    src_word_id = sf.Ragged(np.array([numbers[word] for word in " ".join(SENTENCES).split()]), lengths)
    encoder_ctx = encode(model, src_word_id)
    translation_ids, translation_scores = generate(model, encoder_ctx, BEAM_SIZE, MAX_LENGTH)
    found = zip(SENTENCES, translation_ids.to_nested(), translation_scores.to_nested(), strict=True)
    for sentence, hypotheses, scores in found:
        print(sentence or "(no words)")
        for ids, score in zip(hypotheses, scores, strict=True):
            words = [TARGET_WORDS[k] for k in ids if k not in (START, END)]
            print(f"{score[-1]:8.2f}  {' '.join(words)}{'' if ids[-1] == END else ' ...'}")


if __name__ == "__main__":
    main()
