"""What the options of other decoders are called here."""

_NAMES = {
    "beam_size": "num_beams beam_width beam beams width beam_num",
    "start": "bos_token_id decoder_start_token_id start_token start_id bos bos_id start_ids",
    "end": "eos_token_id end_token end_id eos eos_id eos_token end_ids",
    "n_best": "num_return_sequences num_hypotheses nbest nbest_size return_top",
    "length_penalty": "lenpen length_penalty_weight normalize alpha",
    "prompt": "input_ids prompts prefix prompt_token_ids start_tokens",
    "memory": "past_key_values past cache states initial_states",
    "shared": "encoder_outputs encoder_out attention_mask",
    "trace": "return_trace output_steps",
}
_WAYS = {
    "max_length max_len max_len_b max_decoding_length max_tokens": (
        "is called max_new_tokens here, which counts what comes behind the start"
    ),
    "min_length min_len min_decoding_length min_tokens": (
        "is called min_new_tokens here, which counts what comes behind the start and before the end"
    ),
    "temperature sampling_temperature": "is the model's own here: divide the logits by it in `step`",
    "do_sample sampling_topk sampling_topp": "is sampling=Stochastic(seed) here, which draws without replacement",
    "top_k top_p min_p": "is no option here: let a function on_scores give -inf to the tokens that must not follow",
    "repetition_penalty": "is constraints=[RepetitionPenalty(penalty)] here",
    "no_repeat_ngram_size no_repeat_ngram": "is constraints=[NoRepeatNgram(size)] here",
    "bad_words_ids suppress_tokens suppress_sequences": "is constraints=[BannedTokens(tokens)] here",
    "force_words_ids": "is constraints=[LexicalConstraints(phrases)] here",
    "prefix_allowed_tokens_fn": "is constraints=[AllowedTokens(trie_or_lists)] here, or a function on_scores",
    "forced_decoder_ids forced_bos_token_id target_prefix prefix_tokens": (
        "is constraints=[ForcedPrefix(tokens)] here"
    ),
    "num_beam_groups diversity_penalty diverse_beam_groups diverse_beam_strength": (
        "is constraints=[DiverseGroups(groups, penalty)] here"
    ),
    "logits_processor": "is on_scores here: functions of (scores, state), which return the scores",
    "pad_token_id": "is not needed here: results are ragged, nothing is padded",
    "use_cache return_dict_in_generate output_scores": "is not needed here: memories follow, scores are in the result",
}
HINTS = {
    **{other: f"is called {name} here" for name, others in _NAMES.items() for other in others.split()},
    **{other: text for others, text in _WAYS.items() for other in others.split()},
}
"""By the name of an option of another decoder: what to do here."""
