"""The words of other libraries, which hints and the search of the site share."""

import re

import pytest

import seqformats as sf
from seqformats.aliases import ALIASES, RENAMED, name_of

pytestmark = pytest.mark.passes("compiled", reason="it reads a table")

# What people look for, and where it leads.
WANTED = """
gae: rl.gae; rollout: rl.returns; discounted: rl.returns
GRPO: rl.group_advantages; PPO: rl.policy_loss; reward: rl.token_rewards
rolling: window; rolling-mean: window; lag: shift; scan: cumsum; groupby: nest; group by: nest; value_counts: unique
best fit: pack_bins; bin packing: pack_bins; sample packing: pack; get_seqlen_balanced_partitions: balance
k-mer: ngrams; word error rate: wer; character error rate: cer; edit_distance: levenshtein; jiwer: edits
pyctcdecode: ctc.build_ctcdecoder; CTCLoss: ctc_loss; forced_align: ctc_align; ctc_decoder: ctc_beam_search
pad_sequence: convert; pack_padded_sequence: convert; unpad_input: convert; to_padded_tensor: convert; pad: convert
jagged: Ragged; RaggedTensor: Ragged; nested_tensor: Ragged; KeyedJaggedTensor: Ragged; PackedSequence: Packed
collate: torch.collate; collate_fn: torch.collate; DataCollatorWithPadding: hf.Collator; varlen: torch.varlen
padding-free: hf.padding_free; attn_implementation: hf.padding_free; AttentionInterface: hf.padding_free
flash_attn_varlen_func: attention; row_splits: cu_seqlens; value_rowids: segment_ids; sequence_mask: mask
segment_sum: reduce_sum; segment_max: reduce_max; max: reduce_max; mean: reduce_mean; sum: reduce_sum; std: reduce_std
mean pooling: reduce_mean; quantile: reduce_quantile; repeat_interleave: repeat; flip: reverse; cat: concat
LSTM: torch.rnn; GRU: torch.rnn; DistributedSampler: torch.BucketSampler; LengthGroupedSampler: torch.BucketSampler
ColBERT: maxsim; EmbeddingBag: embedding_bag; resample: window_by; asof: merge_asof; late interaction: maxsim
session: split; recall: isin; NDCG: isin; negative sampling: isin; tf-idf: bincount; stop words: erase; frames: chunk
left padding: model_inputs; batch vector: segment_ids; deduplicate: unique; VAD: run_starts; word timestamps: ctc_align
boolean_mask: filter; top_k: topk; z-score: standardize; ewm: ema; associative_scan: recurrence; normalize: standardize
"""
PAIRS = [pair.split(": ") for line in WANTED.strip().splitlines() for pair in line.split("; ")]


def test_what_people_look_for_leads_to_its_name():
    assert {word: name_of(word) for word, _ in PAIRS} == dict(PAIRS)
    assert name_of("quux") is None


def test_every_word_leads_to_a_public_name_and_to_one_alone():
    assert len(ALIASES) >= 120
    keys = [re.sub("[ -]", "_", word.lower()) for word in ALIASES]
    assert len(set(keys)) == len(keys)
    for name in set(ALIASES.values()):
        module, _, last = name.rpartition(".")
        names = (getattr(sf, module) if module else sf).__all__
        assert last in names, name
    assert [word for word in ALIASES if word in sf.__all__] == []


def test_hints_say_them():
    for word, name in PAIRS:
        for module in (sf, sf.hf, sf.rl, sf.torch) if word.isidentifier() else ():
            if not hasattr(module, word):
                with pytest.raises(AttributeError, match=rf"; sf\.{name} does what that does$"):
                    getattr(module, word)


@pytest.mark.parametrize(("module", "new"), [(sf, "reduce_sum"), (sf.rl, "gae")])
def test_a_renamed_name_works_and_warns(monkeypatch, module, new):
    monkeypatch.setitem(RENAMED, f"{module.__name__}.ancient", new)
    with pytest.warns(DeprecationWarning, match=rf"ancient is called sf\.(rl\.)?{new} now") as caught:
        assert module.ancient is getattr(module, new)
    assert caught[0].filename == __file__
    with pytest.raises(AttributeError, match="no attribute 'ancients'"):
        _ = module.ancients
