"""Words of other libraries and fields, and the name here that does the same.

One table for the hints of errors (`hints`), the search of the documentation and its page of names.  No library is
imported.
"""

_WORDS = {
    "Ragged": "jagged, JaggedTensor, RaggedTensor, nested_tensor, variable length, CSR, KeyedJaggedTensor",
    "Masked": "padded batch, attention_mask, batch_first",
    "Padded": "time-major",
    "Packed": "PackedSequence, batch_sizes",
    "LoD": "LoDTensor, nested, hierarchical",
    "Pairs": "zip",
    "attention": "flash_attn_varlen_func, varlen_attn, scaled_dot_product_attention, sdpa, flash attention, xformers, "
    "memory_efficient_attention, BlockDiagonalMask",
    "argsort": "rank",
    "astype": "cast, to_dtype",
    "balance": "get_seqlen_balanced_partitions, rearrange_micro_batches, micro-batches, Karmarkar-Karp, load balancing",
    "batches": "loader, DataLoader, WebDataset, StreamingDataset, streaming, resume, state_dict",
    "beam_search": "generate, num_beams, decode",
    "bincount": "tf-idf, term frequency, CountVectorizer, histogram, one-hot counts",
    "block_mask": "block-diagonal mask, document mask, create_block_mask",
    "buckets": "bucket_by_sequence_length, group_by_length, batch_by_size, max_tokens, bucketing",
    "cer": "character error rate",
    "chunk": "unfold, stride, sliding_window, frame, frames, hop length, spectrogram, STFT, return_overflowing_tokens",
    "concat": "cat, concatenate, hstack",
    "conv": "conv1d, convolve, sequence_conv",
    "convert": "pad, pad_sequence, pack_sequence, pack_padded_sequence, pad_packed_sequence, unpad, unpad_sequence, "
    "unpad_input, pad_input, to_padded_tensor, to_tensor, to_dense, jagged_to_padded_dense, dense_to_jagged, "
    "sequence_pad, sequence_unpad, list2padded, flatten, padding",
    "convert_like": "lod_reset",
    "corrupt_spans": "T5 denoising, span corruption, random_spans_noise_mask",
    "cross": "cartesian, product",
    "cross_entropy": "nll_loss, language modelling loss, CrossEntropyLoss",
    "ctc.as_pyctcdecode": "Wav2Vec2ProcessorWithLM",
    "ctc.build_ctcdecoder": "pyctcdecode, BeamSearchDecoderCTC",
    "ctc_align": "forced_align, forced alignment, Viterbi, word timestamps",
    "ctc_beam_search": "ctc_decoder, CTC decoding, flashlight, cuda_ctc_decoder",
    "ctc_loss": "CTCLoss, zero_infinity",
    "cu_seqlens": "cumulative lengths, offsets, row_splits, indptr, cu_seq_lens_q",
    "cumsum": "scan, cumulative sum, prefix sum",
    "edits": "process_words, jiwer",
    "ema": "ewm, exponential moving average, smoothing",
    "equal": "array_equal, allclose",
    "embedding_bag": "EmbeddingBag, EmbeddingBagCollection, nn.EmbeddingBag",
    "erase": "sequence_erase, remove, stop words",
    "expand": "sequence_expand, tile",
    "expand_as": "broadcast, sequence_expand_as, lod_expand, broadcast_to, keepdim, keepdims",
    "ffill": "forward_fill, fillna",
    "filter": "boolean_mask, masked_select, compress, where_true",
    "flatten_levels": "merge_dims",
    "from_arrow": "ListArray, to_pylist",
    "from_awkward": "ak.Array",
    "from_table": "DataFrame, Dataset, read_parquet",
    "gather": "take_along_axis, batch_gather",
    "hf.Collator": "DataCollatorWithPadding, DataCollatorForLanguageModeling, DataCollatorWithFlattening, "
    "data_collator",
    "hf.by_length": "state space, Mamba",
    "hf.from_encodings": "word_ids, BatchEncoding",
    "hf.padding_free": "padding free, AttentionInterface, attn_implementation, unpadded, remove padding, "
    "use_remove_padding",
    "interleave": "roundrobin",
    "intersect": "intersect1d, entity F1",
    "inverse_order": "unsorted_indices, argsort of argsort",
    "isin": "in1d, membership, recall, precision, NDCG, MRR, hit rate, negative sampling",
    "join_batches": "stack, vstack, append, default_collate",
    "kernel": "custom kernel",
    "lengths": "row_lengths, len, sizes, num_tokens",
    "levenshtein": "edit_distance, distance, rapidfuzz",
    "linear_cross_entropy": "fused linear cross entropy, Liger, cut cross entropy",
    "map_sequences": "map_fn, apply, vmap",
    "mask": "sequence_mask, key_padding_mask, length_mask",
    "mask_tokens": "masked language modelling, MLM, whole word masking",
    "masked_scatter": "put back, tensor_scatter_nd_update, index_put, where_set",
    "maxsim": "ColBERT, late interaction",
    "merge_asof": "join_asof, asof, as-of join",
    "nest": "groupby, group, group_by",
    "model_inputs": "left padding, padding_side, prepare inputs",
    "ngrams": "sequence_enumerate, k-mer, kmers, skip-gram",
    "operation": "autograd.Function, custom_vjp",
    "pack": "sample packing, pack_dataset, sequence packing, document packing, constant length",
    "pack_bins": "bin packing, best fit, first fit, knapsack, create_packing_strategy",
    "position_ids": "arange, range, cumcount",
    "pairwise_dot": "bmm, einsum of each sequence, dot products of all pairs",
    "recurrence": "linear scan, associative_scan, selective scan, discounted cumsum, SSM, IIR filter",
    "reduce": "segment_reduce, sequence_pool, pool, agg, aggregate, pooling, axis, dim",
    "reduce_all": "all",
    "reduce_any": "any",
    "reduce_count": "count_nonzero, count",
    "reduce_first": "first, first_step, CLS pooling",
    "reduce_last": "last, last_step, last token pooling",
    "reduce_logsumexp": "logsumexp, segment_logsumexp",
    "reduce_max": "max, amax, segment_max, scatter_max, maximum, max pooling",
    "reduce_mean": "mean, global_mean_pool, average, segment_mean, scatter_mean, mean pooling, sentence embedding",
    "reduce_median": "median, nanmedian",
    "reduce_min": "min, amin, segment_min, minimum",
    "reduce_mode": "mode",
    "reduce_norm": "norm, vector_norm, L2 norm, Euclidean norm",
    "reduce_nunique": "nunique",
    "reduce_prod": "prod, segment_prod, product of each sequence",
    "reduce_quantile": "quantile, percentile",
    "reduce_std": "std, standard deviation",
    "reduce_sum": "sum, segment_sum, scatter_sum, scatter_add, index_add, reduceat, segment_sum_csr, bag of words",
    "reduce_var": "var, variance",
    "repeat": "repeat_interleave",
    "reverse": "flip, reverse_sequence",
    "rl.gae": "generalized advantage estimation, advantage, compute_gae",
    "rl.group_advantages": "GRPO, RLOO, Dr. GRPO, DAPO, group normalization of rewards",
    "rl.policy_loss": "PPO, GSPO, clipped surrogate, clip range",
    "rl.returns": "discounted, discounted return, reward-to-go, discount, rollout, trajectory, episode",
    "rl.token_rewards": "reward, KL penalty",
    "rl.traces": "eligibility traces, lambda return, V-trace",
    "rl.whiten": "advantage whitening",
    "run_starts": "run_lengths, consecutive, run-length encoding, itertools.groupby, voice activity, VAD",
    "segment_ids": "value_rowids, document_ids, sequence_ids, rowids, batch vector, PyG, torch_geometric",
    "select": "index_select, take, jagged_index_select, choose sequences",
    "shift": "lag, lead, roll, shift_tokens_right, next token labels",
    "softmax": "segment_softmax, softmax_sequences, jagged_softmax",
    "sort_by_length": "lod_rank_table, enforce_sorted",
    "searchsorted": "bisect, digitize",
    "spans_to_tags": "offsets_to_biluo_tags, biluo_tags_from_offsets",
    "split": "unflatten, array_split, session, sessionize, sessionization",
    "split_batches": "split into mini-batches, minibatch",
    "standardize": "z-score, normalize, normalise, layer norm over time",
    "tags_to_spans": "seqeval, get_entities, bio_tags_to_spans, iob_to_biluo, aggregation_strategy, named entities, "
    "NER, BIO, IOB, BIOES, BILOU",
    "thinc.use": "get_ops, Ops",
    "to": "cuda, cpu, numpy, to_numpy",
    "to_arrays": "savez, save, safetensors, serialize",
    "topk": "nlargest, top_k",
    "torch.BucketSampler": "LengthGroupedSampler, BatchSampler, DistributedSampler, DynamicBucketingSampler",
    "torch.collate": "collate_fn, collator",
    "torch.rnn": "LSTM, GRU, nn.LSTM",
    "torch.to_njt": "torch.jagged, NestedTensor",
    "torch.varlen": "varlen, flash_attn, PackedSeqParams, max_seqlen",
    "truncate": "truncation, max_length, head",
    "truncate_pair": "longest_first",
    "unchunk": "overlap_and_add, fold",
    "unique": "value_counts, set, deduplicate, drop_duplicates",
    "vjp": "backprop, backward, grad",
    "wer": "word error rate",
    "where": "masked_fill, ifelse, choose items",
    "window": "rolling, rolling_mean, seq2col, expand_window, moving average, context window",
    "window_by": "rolling by time, time window, resample, group_by_dynamic",
    "with_array": "map_flat_values, elementwise",
}

ALIASES = {word: name for name, words in _WORDS.items() for word in words.split(", ")}
"""The name under `sf.` of each word, spelt as those who use it spell it."""

RENAMED: dict[str, str] = {}
"""Public names that are called otherwise now, ``{"seqformats.rl.old": "new"}``: they warn for two releases 0.x.0."""


def name_of(word: str) -> str | None:
    """Return the name under `sf.` of what a word means elsewhere; None where the table does not have it."""
    return _BY_KEY.get(_key(word))


def _key(word: str) -> str:
    """A word without case, and with one sign between its parts."""
    return word.lower().replace("-", "_").replace(" ", "_")


# A name of a module of this library is a word for itself.
_BY_KEY = {name.rpartition(".")[2]: name for name in _WORDS if "." in name}
_BY_KEY |= {_key(word): name for word, name in ALIASES.items()}
