// Foreign keys: a table of config keys of Transformers, Megatron-LM, DeepSpeed, nanoGPT, Lightning and
// others, by meaning.
#include "engine/config/foreign_words.h"

#include <algorithm>

namespace hawser::config {
namespace {

/// A row is: words|pointer|advice. One text is smaller than a table of structs, whose pointers the loader
/// would have to relocate.
constexpr std::string_view kTable =
    "max_tokens train_tokens total_tokens num_tokens token_budget|/train/steps|a run is counted in "
    "steps: steps = tokens / (batch.global_batch * batch.sequence)\n"
    "output_dir out_dir output run_dir logging_dir log_dir run_name experiment||the folder of a run is "
    "not part of its config: hawser train CONFIG --out DIR. Checkpoints alone go to /checkpoint/path\n"
    "resume resume_from_checkpoint resume_from load_checkpoint auto_resume "
    "auto_resume_from_checkpoints||resuming is not part of the config: hawser train --resume DIR, or "
    "hws_checkpoint_load_latest\n"
    "gradient_checkpointing activation_checkpointing activation_checkpoint use_gradient_checkpointing "
    "recompute recompute_granularity recompute_activations remat|/recompute/policy|\"full\" keeps only "
    "the inputs of blocks, \"selective\" everything except recompute.arrays\n"
    "warmup_ratio warmup_fraction warmup_proportion warmup_tokens|/schedule/warmup_steps|it counts "
    "steps: warmup_steps = ratio * train.steps\n"
    "bf16 bfloat16 use_bf16 bf16_full_eval mixed_precision amp use_amp autocast|/precision|give \"bf16\" "
    "or \"fp32\"\n"
    "fp16 float16 half use_fp16|/precision|give \"fp16\"; /loss_scale has the settings of its scale\n"
    "float8 use_fp8 enable_fp8 fp8_format|/precision|give \"fp8\"; /fp8 has the settings of its scales\n"
    "fp32 float32 tf32|/precision|give \"fp32\", the default\n"
    "checkpoint_interval ckpt_interval save_freq checkpoint_every ckpt_every "
    "saves_per_epoch|/checkpoint/every|it counts steps\n"
    "save_strategy save_checkpoint always_save_checkpoint|/checkpoint/every|it counts steps; "
    "/checkpoint/every_seconds saves by time\n"
    "load_best_model_at_end save_best metric_for_best_model greater_is_better|/checkpoint/keep_best|the "
    "best has the lowest validation loss, and is kept as checkpoints/best\n"
    "save_only_model||remove it: hawser convert RUN FOLDER writes the model alone\n"
    "eval_strategy evaluation_strategy do_eval val_check_interval validate_every val_interval "
    "evals_per_epoch eval_on_start eval_delay|/train/eval_every|it counts steps; 0: no validation\n"
    "per_device_eval_batch_size eval_batch_size|/batch/micro_batch|validation uses the batch size of "
    "training\n"
    "do_train do_predict||remove it: hawser train trains\n"
    "tokens_per_batch batch_tokens total_batch_size|/batch/global_batch|it counts rows: global_batch = "
    "tokens / batch.sequence\n"
    "model_name model_name_or_path model_path model_id pretrained_model_name_or_path base_model "
    "init_from load_from|/init/from|give a folder on this machine\n"
    "train_file train_data train_path data_path data_dir dataset_name dataset_path datasets "
    "dataset_dir|/data/path|give a file on this machine\n"
    "validation_file val_file val_data eval_data test_file eval_dataset "
    "test_datasets|/data/validation_sources|give [{\"path\": FILE}]\n"
    "tokenizer_name tokenizer_path tokenizer_file tokenizer_name_or_path|/data/vocabulary|a model's "
    "folder (init.from) brings its own; else give \"bytes\", \"characters\" or \"bpe\"\n"
    "vocabulary|/data/vocabulary|\n"
    "eos_token bos_token pad_token|/data/separator|give a token id\n"
    "val_size val_set_size|/data/validation_fraction|it is a share, such as 0.1\n"
    "max_samples||give a shorter file, or set /train/steps\n"
    "cutoff_len max_seq_length max_seq_len sequence_len model_max_length|/batch/sequence|\n"
    "max_prompt_length max_completion_length|/batch/sequence|it limits prompt and answer together\n"
    "template chat_template chat_template_path||a model's folder has its chat template; for another: "
    "hawser train MODEL --template FILE\n"
    "train_on_prompt train_on_inputs completion_only_loss assistant_only_loss mask_history "
    "roles_to_train dataset_text_field||remove it: a row's keys decide; the loss covers the answers, or "
    "all of a row that has \"text\"\n"
    "dataset_prepared_path||hawser prepare MODEL --data FILE -o FOLDER; then give FOLDER as --data\n"
    "mix_strategy interleave_probs|/data/sources|with a weight for each\n"
    "shuffle_merged_datasets|/data/shuffle|\n"
    "preprocessing_num_workers dataset_num_proc dataset_processes|/cpu/threads|\n"
    "base_model_config model_type tokenizer_type tokenizer_config special_tokens||remove it: the folder "
    "of /init/from has the model's config and its tokenizer\n"
    "data_seed|/seed|\n"
    "use_cpu no_cuda|/device|\"cpu\" is the default\n"
    "auto_find_batch_size|/batch/micro_batch|hawser plan CONFIG says what fits\n"
    "overwrite_output_dir overwrite_cache||remove it: the folder of a run must be new or empty\n"
    "push_to_hub hub_model_id hub_token hub_strategy||nothing is uploaded: hawser convert RUN FOLDER, "
    "then hf upload ORG/NAME FOLDER\n"
    "lr_scheduler lr_scheduler_kwargs|/schedule/kind|\n"
    "cosine_min_lr_ratio|/schedule/min_learning_rate|it is a rate, not a share of one\n"
    "freeze_trainable_layers freeze_extra_modules unfrozen_parameters|/optimizer/frozen|patterns of the "
    "parameters that are not trained\n"
    "stage|/objective/kind|it is cross_entropy (sft, pt) if not given, or \"dpo\", \"reward\", ...; of "
    "ZeRO: /zero/stage\n"
    "pref_loss rl|/objective/kind|\n"
    "pref_beta rl_beta|/objective/beta|\n"
    "pref_ftx|/objective/sft_weight|with objective dpo_sft\n"
    "reference_free|/objective/kind|\"simpo\" and \"orpo\" have no reference\n"
    "num_workers dataloader_num_workers prefetch_factor pin_memory dataloader_pin_memory||remove it: "
    "batches are read from the files as they are needed, without workers\n"
    "gpus n_gpu n_gpus num_gpus num_devices devices nproc_per_node world_size nnodes|/mesh/dp_shard|and "
    "one process or thread for each rank: hawser launch -n N train CONFIG\n"
    "ddp data_parallel data_parallel_size dp|/mesh/dp_replicate|\n"
    "fsdp deepspeed zero_stage use_distributed_optimizer distributed_optimizer|/zero/stage|with the "
    "number of ranks as /mesh/dp_shard\n"
    "tensor_parallel tensor_parallel_size tensor_model_parallel_size tp|/mesh/tp|\n"
    "context_parallel context_parallel_size cp sequence_parallel_degree|/mesh/cp|\n"
    "pipeline_parallel pipeline_parallel_size pipeline_model_parallel_size pp|/mesh/pp|\n"
    "expert_parallel_size expert_parallel ep|/mesh/ep|\n"
    "lora_target lora_target_modules lora_target_linear|/adapter/targets|patterns; if not given, all "
    "linears of the blocks\n"
    "additional_target lora_modules_to_save|/adapter/train|\n"
    "peft_use_rslora|/adapter/rslora|\n"
    "lora_r lora_rank use_lora finetuning_type|/adapter/rank|a rank above 0 gives the model an adapter\n"
    "lora_alpha|/adapter/alpha|\n"
    "lora_dropout|/adapter/dropout|\n"
    "use_dora dora|/adapter/dora|adapter.rank gives the model an adapter\n"
    "qlora load_in_4bit quantization quantization_config quantization_bit quantization_method "
    "bnb_4bit_quant_type|/adapter/base|\"nf4\" stores the frozen weights under an adapter "
    "in 4 bits; "
    "adapter.rank gives the model an adapter\n"
    "load_in_8bit|/adapter/base|there are no 8-bit weights; \"nf4\" stores the frozen weights under "
    "an adapter in 4 bits\n"
    "compile torch_compile use_compile jit flash_attention use_flash_attention use_flash_attn flash_attn "
    "attn_implementation xformers_attention sdp_attention use_liger_kernel enable_liger_kernel "
    "use_unsloth booster gradient_checkpointing_kwargs trust_remote_code remove_unused_columns "
    "label_names dataset_kwargs strict accelerator_config ddp_find_unused_parameters local_rank "
    "ignore_data_skip include_num_input_tokens_seen save_safetensors dataloader_drop_last "
    "logging_first_step precompute_ref_log_probs use_fast_tokenizer||remove it: there is nothing to "
    "choose\n"
    "tensorboard tensorboard_dir use_tensorboard tb_dir|/telemetry/tensorboard|it names a folder\n"
    "neftune_noise_alpha noisy_embedding_alpha label_smoothing_factor pissa_init loraplus_lr_ratio "
    "use_galore use_badam lora_fan_in_fan_out adafactor optim_args plugins use_vllm num_generations "
    "kto_desirable_weight sync_ref_model early_stopping_threshold torch_empty_cache_steps||remove it: "
    "Hawser has no such method\n"
    "wandb wandb_project wandb_log wandb_entity wandb_run_id wandb_log_model mlflow_tracking_uri "
    "report_to logging||remove it: a run with --out writes metrics.jsonl and report.html, and "
    "/telemetry/tensorboard names a folder for TensorBoard\n"
    "log_level verbose debug disable_tqdm logging_strategy|/train/log_every|\n"
    "group_by_length sample_packing neat_packing eval_sample_packing eval_packing padding_free "
    "pad_to_sequence_len length_column_name|/data/packing|prepared rows are packed unless --no-packing "
    "is given\n"
    "early_stopping early_stopping_patience|/train/patience|it counts validations (/train/eval_every)\n";

bool same_letter(char a, char b) {
  const auto plain = [](char c) {
    if (c == '-') return '_';
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  };
  return plain(a) == plain(b);
}

bool has_word(std::string_view words, std::string_view key) {
  while (!words.empty()) {
    const size_t end = std::min(words.find(' '), words.size());
    if (std::equal(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(end), key.begin(), key.end(),
                   same_letter))
      return true;
    words.remove_prefix(std::min(end + 1, words.size()));
  }
  return false;
}

/// Returns the text before the first `end`, or all of it, and removes both from *text.
std::string_view take(std::string_view* text, char end) {
  const size_t at = std::min(text->find(end), text->size());
  const std::string_view part = text->substr(0, at);
  text->remove_prefix(std::min(at + 1, text->size()));
  return part;
}

}  // namespace

std::optional<ForeignWord> find_foreign_word(std::string_view key) {
  for (std::string_view rest = kTable; !rest.empty();) {
    std::string_view row = take(&rest, '\n');
    const std::string_view words = take(&row, '|'), pointer = take(&row, '|');
    if (has_word(words, key)) return ForeignWord{words, pointer, row};
  }
  return std::nullopt;
}

}  // namespace hawser::config
