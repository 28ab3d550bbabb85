// Neutral keys: a list of the config.json keys that are accepted because they do not affect the mathematics
// (file names, text generation, heads that a language model does not have, caches, provenance).
#include <algorithm>
#include <string_view>

#include "engine/checkpoint/hf/hf_config.h"

namespace hawser::checkpoint::hf {
namespace {

constexpr std::string_view kKeys[] = {
    // provenance and storage
    "_commit_hash", "_name_or_path", "architectures", "dtype", "is_llama_config", "model_type",
    "name_or_path", "torch_dtype", "transformers.js_config", "transformers_version", "unsloth_fixed",
    "unsloth_version",
    // initial values of a fresh model
    "initializer_range",
    // token ids and generation
    "assistant_confidence_threshold", "assistant_lookbehind", "bad_words_ids", "begin_suppress_tokens",
    "bos_token_id", "cache_implementation", "decoder_start_token_id", "diversity_penalty", "do_sample",
    "early_stopping", "encoder_no_repeat_ngram_size", "encoder_repetition_penalty", "eos_token_id",
    "epsilon_cutoff", "eta_cutoff", "exponential_decay_length_penalty", "forced_bos_token_id",
    "forced_eos_token_id", "length_penalty", "max_length", "min_length", "no_repeat_ngram_size",
    "num_assistant_tokens", "num_assistant_tokens_schedule", "num_beam_groups", "num_beams",
    "num_return_sequences", "output_scores", "prefix", "remove_invalid_values", "repetition_penalty",
    "return_dict_in_generate", "sep_token_id", "suppress_tokens", "target_lookbehind", "task_specific_params",
    "temperature", "tokenizer_class", "top_k", "top_p", "typical_p",
    // loss weights that only training uses, and the placement of experts
    "router_aux_loss_coef", "aux_loss_alpha", "ep_size", "seq_aux",
    // execution options of Transformers that do not change the result
    "_attn_implementation", "_attn_implementation_autoset", "_experts_implementation",
    "_flash_attn_2_enabled", "attn_implementation", "chunk_size_feed_forward", "experts_implementation",
    "gradient_checkpointing", "is_decoder", "output_attentions", "output_hidden_states", "output_past",
    "pretraining_tp", "reorder_and_upcast_attn", "return_dict", "tf_legacy_loss", "tie_encoder_decoder",
    "tie_last_hidden_states", "torchscript", "use_bfloat16", "use_cache",
    // heads of other tasks
    "_num_labels", "cross_attention_hidden_size", "finetuning_task", "id2label", "label2id", "num_labels",
    "problem_type", "summary_activation", "summary_first_dropout", "summary_proj_to_labels", "summary_type",
    "summary_use_proj",
    // old names that Transformers itself no longer reads
    "n_ctx"};

}  // namespace

bool has_no_effect(const std::string& key) {
  return std::find(std::begin(kKeys), std::end(kKeys), key) != std::end(kKeys);
}

}  // namespace hawser::checkpoint::hf
