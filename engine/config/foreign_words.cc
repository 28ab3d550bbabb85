// Foreign keys: a table of config keys of Transformers, Megatron-LM, DeepSpeed, nanoGPT, Lightning and
// others, by meaning.
#include "engine/config/foreign_words.h"

#include <algorithm>

namespace hawser::config {
namespace {

constexpr ForeignWord kTable[] = {
    {"max_tokens train_tokens total_tokens num_tokens token_budget", "/train/steps",
     "a run is counted in steps: steps = tokens / (batch.global_batch * batch.sequence)"},
    {"output_dir out_dir output run_dir logging_dir log_dir run_name experiment", "",
     "the folder of a run is not part of its config: hawser train CONFIG --out DIR. Checkpoints alone go to "
     "/checkpoint/path"},
    {"resume resume_from_checkpoint resume_from load_checkpoint auto_resume", "",
     "resuming is not part of the config: hawser train --resume DIR, or hws_checkpoint_load_latest"},
    {"gradient_checkpointing activation_checkpointing activation_checkpoint use_gradient_checkpointing "
     "recompute recompute_granularity recompute_activations remat",
     "/recompute/policy",
     "\"full\" keeps only the inputs of blocks, \"selective\" everything except recompute.arrays"},
    {"warmup_ratio warmup_fraction warmup_proportion warmup_tokens", "/schedule/warmup_steps",
     "it counts steps: warmup_steps = ratio * train.steps"},
    {"bf16 bfloat16 use_bf16 mixed_precision amp use_amp autocast", "/precision",
     "give \"bf16\" or \"fp32\""},
    {"fp16 float16 half use_fp16 loss_scale", "/precision",
     "there is no fp16, and bf16 needs no loss scale; give \"bf16\""},
    {"fp32 float32 tf32", "/precision", "give \"fp32\", the default"},
    {"checkpoint_interval ckpt_interval save_freq checkpoint_every ckpt_every", "/checkpoint/every", ""},
    {"save_strategy save_checkpoint always_save_checkpoint", "/checkpoint/every",
     "it counts steps; /checkpoint/every_seconds saves by time"},
    {"load_best_model_at_end save_best", "/checkpoint/keep_best", ""},
    {"eval_strategy evaluation_strategy do_eval val_check_interval validate_every val_interval",
     "/train/eval_every", "it counts steps; 0: no validation"},
    {"per_device_eval_batch_size eval_batch_size", "/batch/micro_batch",
     "validation uses the batch size of training"},
    {"do_train do_predict", "", "remove it: hawser train trains"},
    {"tokens_per_batch batch_tokens total_batch_size", "/batch/global_batch",
     "it counts rows: global_batch = tokens / batch.sequence"},
    {"model_name model_name_or_path model_path model_id pretrained_model_name_or_path base_model init_from "
     "load_from",
     "/init/from", "give a folder on this machine"},
    {"train_file train_data train_path data_path data_dir dataset_name dataset_path", "/data/path",
     "give a file on this machine"},
    {"validation_file val_file val_data eval_data test_file eval_dataset", "/data/validation_sources",
     "give [{\"path\": FILE}]"},
    {"tokenizer_name tokenizer_path tokenizer_file tokenizer_name_or_path", "/data/vocabulary",
     "a model's folder (init.from) brings its own; else give \"bytes\", \"characters\" or \"bpe\""},
    {"eos_token bos_token pad_token", "/data/separator", "give a token id"},
    {"num_workers dataloader_num_workers prefetch_factor pin_memory dataloader_pin_memory", "",
     "remove it: batches are read from the files as they are needed, without workers"},
    {"gpus n_gpu n_gpus num_gpus num_devices devices nproc_per_node world_size nnodes", "/mesh/dp_shard",
     "and one process or thread for each rank: hawser launch -n N train CONFIG"},
    {"ddp data_parallel data_parallel_size dp", "/mesh/dp_replicate", ""},
    {"fsdp deepspeed zero_stage use_distributed_optimizer distributed_optimizer", "/zero/stage",
     "with the number of ranks as /mesh/dp_shard"},
    {"tensor_parallel tensor_parallel_size tensor_model_parallel_size tp", "/mesh/tp", ""},
    {"context_parallel context_parallel_size cp", "/mesh/cp", ""},
    {"pipeline_parallel pipeline_parallel_size pipeline_model_parallel_size pp", "/mesh/pp", ""},
    {"expert_parallel_size expert_parallel ep", "/mesh/ep", ""},
    {"lora_r lora_rank lora_target_modules use_lora", "/adapter/rank",
     "a rank above 0 gives the model an adapter"},
    {"lora_alpha", "/adapter/alpha", ""},
    {"lora_dropout", "/adapter/dropout", ""},
    {"use_dora dora", "/adapter/dora", "adapter.rank gives the model an adapter"},
    {"qlora load_in_4bit quantization quantization_config bnb_4bit_quant_type", "/adapter/base",
     "\"nf4\" stores the frozen weights under an adapter in 4 bits; adapter.rank gives the model an adapter"},
    {"load_in_8bit", "/adapter/base",
     "there are no 8-bit weights; \"nf4\" stores the frozen weights under an adapter in 4 bits"},
    {"compile torch_compile use_compile jit flash_attention use_flash_attention use_flash_attn "
     "attn_implementation",
     "", "remove it: there is nothing to choose"},
    {"tensorboard tensorboard_dir use_tensorboard tb_dir", "/telemetry/tensorboard", "it names a folder"},
    {"wandb wandb_project wandb_log report_to logging", "",
     "remove it: a run with --out writes metrics.jsonl and report.html, and /telemetry/tensorboard names a "
     "folder for "
     "TensorBoard"},
    {"log_level verbose debug disable_tqdm", "/train/log_every", ""},
    {"group_by_length", "/data/packing", ""},
    {"early_stopping early_stopping_patience patience", "/train/patience",
     "it counts validations without a lower loss"},
};

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

}  // namespace

const ForeignWord* find_foreign_word(std::string_view key) {
  const auto* found = std::find_if(std::begin(kTable), std::end(kTable),
                                   [&](const ForeignWord& row) { return has_word(row.words, key); });
  return found == std::end(kTable) ? nullptr : found;
}

}  // namespace hawser::config
