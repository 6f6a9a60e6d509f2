"""Public names by their modules, made of `__init__.pyi` by `tests/table_of_names.py`."""

MODULES = ("arrow", "awkward", "beam", "ctc", "engines", "hf", "jax", "loading", "plot", "rl", "thinc", "torch")
EAGER_MODULES = ("converters.convert", "errors", "formats", "launch.threads", "registry")
PUBLIC_NAMES = {
    "arrow": """
        from_arrow from_table to_arrow
    """,
    "awkward": """
        from_awkward to_awkward
    """,
    "beam": """
        AllowedTokens BannedTokens BeamDecoder BeamResult BeamState BeamTrace Constraint DiverseGroups
        ExponentialDecayLengthPenalty ForcedEnd ForcedPrefix ForcedTokens LexicalConstraints NoRepeatNgram Prune
        RepetitionPenalty Sample SequenceBias Stochastic Trie beam_backtrace beam_search beam_step
    """,
    "converters.convert": """
        convert
    """,
    "converters.explain": """
        explain
    """,
    "converters.like": """
        convert_like
    """,
    "ctc": """
        CTCAlignment CTCResult CTCState NGrams ctc_align ctc_beam_search ctc_greedy ctc_loss
    """,
    "errors": """
        ConversionError DeviceError OutOfMemory SeqFormatError StructureError
    """,
    "formats": """
        Chunks List LoD Masked Packed Padded Pairs Ragged is_valid_lod
    """,
    "gradients.custom": """
        operation
    """,
    "gradients.vjp": """
        vjp
    """,
    "health": """
        doctor
    """,
    "launch.threads": """
        num_threads set_num_threads
    """,
    "loading": """
        batches
    """,
    "memory": """
        keep_memory kept_memory
    """,
    "operations.attention": """
        block_mask cu_seqlens mask position_ids segment_ids
    """,
    "operations.balance": """
        Balance balance
    """,
    "operations.batch": """
        buckets inverse_order join_batches reorder sort_by_length split_batches
    """,
    "operations.bins": """
        bincount
    """,
    "operations.chunks": """
        chunk unchunk
    """,
    "operations.counts": """
        reduce_all reduce_any reduce_count reduce_mode reduce_nunique
    """,
    "operations.cross": """
        cross
    """,
    "operations.custom": """
        kernel
    """,
    "operations.cut": """
        cut shift truncate truncate_pair
    """,
    "operations.distance": """
        levenshtein
    """,
    "operations.dot_attention": """
        attention
    """,
    "operations.embedding_bag": """
        embedding_bag
    """,
    "operations.error_rates": """
        EditCounts cer edits wer
    """,
    "operations.expand": """
        expand expand_as repeat
    """,
    "operations.extremes": """
        reduce_first reduce_last reduce_max reduce_min
    """,
    "operations.filter": """
        filter run_starts
    """,
    "operations.inspection": """
        equal lengths
    """,
    "operations.join": """
        concat interleave
    """,
    "operations.levels": """
        flatten_levels nest split split_at
    """,
    "operations.library": """
        astype to to_device
    """,
    "operations.linear_loss": """
        linear_cross_entropy
    """,
    "operations.loss": """
        cross_entropy
    """,
    "operations.map_sequences": """
        map_sequences
    """,
    "operations.masking": """
        MaskedTokens SpanCorrupted corrupt_spans mask_tokens
    """,
    "operations.model_inputs": """
        model_inputs
    """,
    "operations.moments": """
        reduce_std reduce_var
    """,
    "operations.order": """
        TopK Unique argsort sort topk unique
    """,
    "operations.packing": """
        Packs pack pack_bins
    """,
    "operations.pairwise": """
        maxsim pairwise_dot
    """,
    "operations.pick": """
        gather
    """,
    "operations.put_back": """
        masked_scatter put_sequences
    """,
    "operations.quantiles": """
        reduce_median reduce_quantile
    """,
    "operations.rearrange": """
        erase reshape reverse slice
    """,
    "operations.recurrence": """
        ema recurrence
    """,
    "operations.reduce": """
        reduce reduce_logsumexp reduce_norm reduce_prod
    """,
    "operations.risk": """
        minimum_bayes_risk
    """,
    "operations.scatter": """
        scatter
    """,
    "operations.search": """
        intersect isin merge_asof searchsorted
    """,
    "operations.select": """
        select
    """,
    "operations.series": """
        diff ffill
    """,
    "operations.show": """
        show
    """,
    "operations.shuffle": """
        shuffle
    """,
    "operations.softmax": """
        cumsum log_softmax softmax
    """,
    "operations.standardize": """
        standardize
    """,
    "operations.steps": """
        TensorArray shrink
    """,
    "operations.storage": """
        from_arrays to_arrays
    """,
    "operations.sums": """
        reduce_mean reduce_sqrt reduce_sum
    """,
    "operations.tag_spans": """
        TagSpans spans_to_tags tags_to_spans
    """,
    "operations.template": """
        Template Templated
    """,
    "operations.texts": """
        from_text to_text
    """,
    "operations.time_windows": """
        window_by
    """,
    "operations.topk": """
        argmax argmin topk_mean
    """,
    "operations.where": """
        where
    """,
    "operations.windows": """
        conv ngrams window
    """,
    "registry": """
        conversion conversions
    """,
    "torch": """
        from_njt
    """,
    "wrap": """
        with_array with_flatten with_list with_lod with_masked with_packed with_padded with_ragged
    """,
}
