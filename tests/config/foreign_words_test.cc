// Tests the answers to keys of LLaMA-Factory, Axolotl, TRL and Transformers: the keys that their
// documentation and examples use most, each with what Hawser must say to it.
#include "engine/config/foreign_words.h"

#include <gtest/gtest.h>

#include <sstream>

#include "engine/config/tree.h"
#include "tests/config/problem_list.h"

namespace hawser::config {
namespace foreign_words_test {

struct Answer {
  const char* says;
  const char* keys;
};

constexpr Answer kAnswers[] = {
    {"/init/from", "model_name_or_path base_model"},
    {"the folder of /init/from",
     "base_model_config model_type tokenizer_type tokenizer_config special_tokens"},
    {"/data/path?", "datasets dataset_dir dataset_path dataset_name train_file"},
    {"\"data\"", "dataset"},
    {"/data/validation_sources", "eval_dataset test_datasets validation_file"},
    {"/data/validation_fraction", "val_size val_set_size"},
    {"/data/sources", "mix_strategy"},
    {"/data/shuffle", "shuffle_merged_datasets"},
    {"/data/packing",
     "packing neat_packing sample_packing eval_sample_packing eval_packing padding_free pad_to_sequence_len "
     "group_by_length length_column_name"},
    {"give a shorter file", "max_samples"},
    {"hawser prepare", "dataset_prepared_path"},
    {"--template FILE", "template chat_template chat_template_path"},
    {"the loss covers the answers",
     "train_on_prompt train_on_inputs completion_only_loss assistant_only_loss mask_history "
     "dataset_text_field"},
    {"/batch/sequence",
     "cutoff_len max_seq_length max_length sequence_len max_prompt_length max_completion_length"},
    {"/cpu/threads", "preprocessing_num_workers dataset_num_proc dataset_processes"},
    {"without workers", "dataloader_num_workers dataloader_pin_memory"},
    {"/batch/micro_batch",
     "per_device_train_batch_size per_device_eval_batch_size micro_batch_size eval_batch_size "
     "auto_find_batch_size"},
    {"/batch/grad_accum_steps", "gradient_accumulation_steps"},
    {"/optimizer/learning_rate", "learning_rate"},
    {"/optimizer/weight_decay", "weight_decay"},
    {"/optimizer/beta1", "adam_beta1"},
    {"/optimizer/beta2", "adam_beta2"},
    {"/optimizer/eps", "adam_epsilon"},
    {"/optimizer/clip_norm", "max_grad_norm gradient_clipping"},
    {"\"optimizer\"", "optim"},
    {"/optimizer/frozen", "freeze_trainable_layers unfrozen_parameters"},
    {"/schedule/kind", "lr_scheduler_type lr_scheduler lr_scheduler_kwargs"},
    {"/schedule/warmup_steps", "warmup_steps warmup_ratio num_warmup_steps"},
    {"/schedule/min_learning_rate", "cosine_min_lr_ratio"},
    {"/train/epochs", "num_train_epochs num_epochs"},
    {"/train/steps", "max_steps"},
    {"/train/log_every", "logging_steps logging_strategy log_level disable_tqdm"},
    {"/train/eval_every",
     "eval_steps eval_strategy evaluation_strategy do_eval evals_per_epoch eval_on_start eval_delay"},
    {"/train/patience", "early_stopping_patience early_stopping"},
    {"/checkpoint/every", "save_steps save_strategy saves_per_epoch"},
    {"/checkpoint/keep_last", "save_total_limit"},
    {"/checkpoint/keep_best", "load_best_model_at_end metric_for_best_model greater_is_better"},
    {"writes the model alone", "save_only_model"},
    {"--out DIR", "output_dir logging_dir run_name"},
    {"must be new or empty", "overwrite_output_dir overwrite_cache"},
    {"--resume DIR", "resume_from_checkpoint auto_resume_from_checkpoints"},
    {"hawser train trains", "do_train do_predict"},
    {"/seed?", "data_seed"},
    {"\"seed\"", "random_seed"},
    {"/precision", "bf16 fp16 float8 tf32 bf16_full_eval"},
    {"\"precision\"", "torch_dtype"},
    {"/device?", "use_cpu no_cuda"},
    {"/recompute/policy", "gradient_checkpointing"},
    {"/zero/stage", "deepspeed fsdp"},
    {"\"zero\"", "fsdp_config"},
    {"/mesh/tp", "tensor_parallel_size"},
    {"/mesh/cp", "sequence_parallel_degree context_parallel_size"},
    {"/comm/timeout_seconds", "ddp_timeout"},
    {"/model/rope", "rope_scaling"},
    {"/adapter/rank", "lora_rank lora_r finetuning_type"},
    {"/adapter/alpha", "lora_alpha"},
    {"/adapter/dropout", "lora_dropout"},
    {"/adapter/targets", "lora_target lora_target_modules lora_target_linear target_modules"},
    {"/adapter/train?", "additional_target lora_modules_to_save modules_to_save"},
    {"/adapter/rslora", "use_rslora peft_use_rslora"},
    {"/adapter/dora", "use_dora"},
    {"/adapter/from", "adapter_name_or_path"},
    {"/adapter/base", "quantization_bit quantization_method load_in_4bit load_in_8bit bnb_4bit_quant_type"},
    {"/objective/kind", "stage pref_loss rl loss_type reference_free"},
    {"/objective/beta", "pref_beta rl_beta beta"},
    {"/objective/gamma", "simpo_gamma"},
    {"/objective/sft_weight", "pref_ftx rpo_alpha"},
    {"/objective/reference", "ref_model"},
    {"/telemetry/tensorboard",
     "report_to wandb_project wandb_entity wandb_run_id wandb_log_model mlflow_tracking_uri"},
    {"hf upload", "push_to_hub hub_model_id hub_token hub_strategy"},
    {"there is nothing to choose",
     "attn_implementation flash_attn flash_attention xformers_attention sdp_attention torch_compile "
     "use_liger_kernel "
     "enable_liger_kernel use_unsloth booster gradient_checkpointing_kwargs trust_remote_code "
     "remove_unused_columns "
     "label_names dataset_kwargs strict accelerator_config ddp_find_unused_parameters local_rank "
     "ignore_data_skip "
     "include_num_input_tokens_seen save_safetensors dataloader_drop_last logging_first_step "
     "precompute_ref_log_probs"},
    {"has no such method",
     "neftune_noise_alpha noisy_embedding_alpha label_smoothing_factor pissa_init loraplus_lr_ratio "
     "use_galore use_badam "
     "lora_fan_in_fan_out adafactor optim_args plugins use_vllm num_generations kto_desirable_weight "
     "sync_ref_model "
     "early_stopping_threshold"},
    {"/data/separator", "eos_token pad_token"},
};

TEST(ForeignWords, KeysOfOtherTrainersHaveTheirAnswers) {
  int count = 0;
  for (const Answer& answer : kAnswers) {
    std::istringstream keys(answer.keys);
    for (std::string key; keys >> key; ++count) {
      const Error error = error_of([&] { ConfigTree::from_json("{\"" + key + "\": 1}"); });
      EXPECT_CONTAINS(error.message(), answer.says);
      EXPECT_EQ(error.message().find("keys of the config are"), std::string::npos) << key;
    }
  }
  EXPECT_GE(count, 180);
}

/// The number of tokens belongs to the model, and the kind of tokens to the data.
TEST(ForeignWords, AVocabularyIsMeantBySection) {
  EXPECT_CONTAINS(error_of([] { ConfigTree::from_json(R"({"model": {"vocabulary": 128}})"); }).message(),
                  "did you mean \"vocab_size\"?");
  EXPECT_CONTAINS(error_of([] { ConfigTree::from_json(R"({"vocabulary": "bytes"})"); }).message(),
                  "did you mean /data/vocabulary?");
}

/// A field that is renamed must be renamed here too.
TEST(ForeignWords, AnswersNameFieldsThatExist) {
  for (const Answer& answer : kAnswers) {
    std::istringstream keys(answer.keys);
    for (std::string key; keys >> key;) {
      const std::optional<ForeignWord> word = find_foreign_word(key);
      if (!word || word->pointer.empty()) continue;
      EXPECT_NE(schema_at(word->pointer), nullptr) << key;
    }
  }
}

}  // namespace foreign_words_test
}  // namespace hawser::config
