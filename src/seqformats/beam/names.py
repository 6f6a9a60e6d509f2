"""Names here for the options of other decoders: of transformers, CTranslate2, fairseq, vLLM and others."""

_NAMES = {
    "beam_size": "num_beams beam_width beam beams width beam_num",
    "start": "bos_token_id decoder_start_token_id start_token start_id bos bos_id start_ids",
    "end": "eos_token_id end_token end_id eos eos_id eos_token end_ids stop_token_ids",
    "n_best": "num_return_sequences num_hypotheses nbest nbest_size return_top n best_of",
    "coverage": "coverage_penalty coverage_penalty_weight beta",
    "length_penalty": "lenpen len_penalty length_penalty_weight normalize alpha",
    "prompt": "input_ids inputs prompts prefix prompt_token_ids start_tokens decoder_input_ids",
    "memory": "past_key_values past cache states initial_states",
    "shared": "encoder_outputs encoder_out attention_mask",
    "trace": "return_trace output_steps retain_iter_history",
}
_WAYS = {
    "max_length max_len max_len_a max_len_b max_decoding_length max_tokens": (
        "is called max_new_tokens here, which counts what comes behind the start, and may be an array, one per source"
    ),
    "min_length min_len min_decoding_length min_tokens": (
        "is called min_new_tokens here, which counts what comes behind the start and before the end"
    ),
    "match_source_len": "is called max_new_tokens here, which may be an array, one per source",
    "max_time": "is no option here: a loop of one's own, BeamDecoder, may stop at any step",
    "ignore_eos": "is no option here: give an empty list as `end`",
    "normalize_scores unnormalized": "is length_penalty=0 here, which divides a score by nothing",
    "temperature top_k top_p min_p": "is an option of sampling=Sample(seed, ...) here",
    "typical_p": "is sampling=Sample(seed, typical=...) here",
    "do_sample sampling_topk sampling_topp sampling_temperature": "is sampling=Sample(seed, ...) here",
    "top_h epsilon_cutoff eta_cutoff": (
        "is no option here: let a function on_scores give -inf to the tokens that must not follow"
    ),
    "repetition_penalty": "is constraints=[RepetitionPenalty(penalty)] here",
    "presence_penalty frequency_penalty encoder_repetition_penalty encoder_no_repeat_ngram_size": (
        "is no option here: let a function on_scores change the scores of those tokens"
    ),
    "no_repeat_ngram_size no_repeat_ngram": "is constraints=[NoRepeatNgram(size)] here",
    "bad_words_ids bad_words suppress_tokens suppress_sequences disable_unk": (
        "is constraints=[BannedTokens(tokens)] here"
    ),
    "begin_suppress_tokens suppress_blank": "is constraints=[BannedTokens(tokens, until=1)] here",
    "sequence_bias logit_bias": "is constraints=[SequenceBias(biases)] here, from tokens or tuples of such to numbers",
    "unk_penalty unkpen": "is constraints=[SequenceBias(biases)] here: what it takes from a token is a bias below 0",
    "exponential_decay_length_penalty": "is constraints=[ExponentialDecayLengthPenalty(start, factor)] here",
    "force_words_ids": "is constraints=[LexicalConstraints(phrases)] here",
    "prefix_allowed_tokens_fn allowed_token_ids": (
        "is constraints=[AllowedTokens(trie_or_lists)] here, for whole hypotheses, or a function on_mask"
    ),
    "grammar guided_grammar guided_json guided_decoding guided_regex structured_outputs response_format": (
        "is on_mask here: a function of the state, which has a matcher fill a bitmask"
    ),
    "forced_bos_token_id": "is constraints=[ForcedTokens({0: token}, free=True)] here",
    "forced_decoder_ids": "is constraints=[ForcedTokens(tokens)] here",
    "forced_eos_token_id": "is constraints=[ForcedEnd(free=True)] here",
    "target_prefix prefix_tokens prefix_size": "is constraints=[ForcedPrefix(tokens)] here",
    "prefix_bias_beta": "is constraints=[SequenceBias(biases)] here, or a function on_scores",
    "num_beam_groups diversity_penalty diverse_beam_groups diverse_beam_strength": (
        "is constraints=[DiverseGroups(groups, penalty)] here"
    ),
    "stop stop_strings stopping_criteria include_stop_str_in_output": (
        "is no option here: where the text of a row has such a string, let a function on_scores leave its end alone"
    ),
    "logits_processor logits_processors": ("is on_scores here: functions of (scores, state), which return the scores"),
    "renormalize_logits remove_invalid_values": (
        "is no option here: a function on_scores may do it; NaN and +inf are errors"
    ),
    "lm_model lm_weight penalty_alpha guidance_scale": (
        "is no option here: add the other model's scores in `step`, or in a function on_scores"
    ),
    "callback streamer": "is no option here: BeamDecoder is a loop of one's own, which can look at every step",
    "return_alternatives min_alternative_expansion_prob": (
        "is no option here: search with `prompt`, once for each alternative"
    ),
    "output_attentions return_attention print_alignment cross_attentions output_hidden_states output_logits": (
        "is what a step gives to keep here: (scores, memory, kept), which the result has along its hypotheses"
    ),
    "pad_token_id": "is not needed here: results are ragged, nothing is padded",
    "use_cache return_dict_in_generate output_scores return_scores logprobs return_logits_vocab": (
        "is not needed here: memories follow, scores are in the result"
    ),
    "return_end_token include_prompt_in_result": (
        "is not needed here: hypotheses have the end, where there is one, and not the prompt"
    ),
    "max_batch_size batch_type low_memory": "is not needed here: the batch is what the memories or the starts are",
}
HINTS = {
    **{other: f"is called {name} here" for name, others in _NAMES.items() for other in others.split()},
    **{other: text for others, text in _WAYS.items() for other in others.split()},
}
"""By the name of an option of another decoder: what to do here."""
