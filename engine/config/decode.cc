// Reads the fields of an effective config into ResolvedConfig, one function per section.
#include "engine/config/decode.h"

#include <initializer_list>
#include <utility>

#include "engine/base/error.h"
#include "engine/config/model_fields.h"
#include "engine/config/rules.h"
#include "engine/config/rules_adapter.h"
#include "engine/config/tree.h"
#include "engine/parallel/pipeline/schedule.h"
#include "engine/parallel/recompute.h"

namespace hawser::config {
namespace {

using Config = Effective;

/// The C++ value of an enum's name.
template <typename Enum>
Enum named(const Config& c, const char* pointer, std::initializer_list<std::pair<const char*, Enum>> names) {
  for (const auto& [name, value] : names) {
    if (c.is(pointer, name)) return value;
  }
  fail(Code::kInternal, "config: no meaning for {} = {}", pointer, c.text(pointer));
}

std::string text_or_empty(const Config& c, const char* pointer) {
  return c.has(pointer) ? c.text(pointer) : std::string();
}

std::vector<std::string> texts(const Config& c, const char* pointer) {
  std::vector<std::string> result;
  if (const Value* array = c.find(pointer)) {
    for (const Value& item : array->items) result.push_back(item.text);
  }
  return result;
}

InitConfig decode_init(const Config& c) {
  InitConfig init;
  init.from = text_or_empty(c, "/init/from");
  init.std = c.number("/init/std");
  init.scale_residual = c.flag("/init/scale_residual");
  init.ignore_keys = texts(c, "/init/ignore_keys");
  init.base = text_or_empty(c, "/init/base");
  init.any_base = c.flag("/init/any_base");
  return init;
}

std::vector<DataSource> decode_sources(const Config& c, const std::string& pointer) {
  std::vector<DataSource> sources;
  for (size_t i = 0; i < c.count(pointer); ++i) {
    const std::string element = pointer + "/" + std::to_string(i);
    sources.push_back({c.text(element + "/path"), c.number(element + "/weight"),
                       text_or_empty(c, (element + "/name").c_str())});
  }
  return sources;
}

DataConfig decode_data(const Config& c) {
  DataConfig data;
  if (c.has("/data/format")) {
    data.format = named<DataFormat>(c, "/data/format",
                                    {{"text", DataFormat::kText},
                                     {"tokens", DataFormat::kTokens},
                                     {"megatron", DataFormat::kMegatron},
                                     {"prepared", DataFormat::kPrepared}});
  }
  data.sources = decode_sources(c, "/data/sources");
  data.validation_sources = decode_sources(c, "/data/validation_sources");
  if (data.format == DataFormat::kText) {
    data.vocabulary = named<VocabularyKind>(c, "/data/vocabulary",
                                            {{"bytes", VocabularyKind::kBytes},
                                             {"characters", VocabularyKind::kCharacters},
                                             {"tokenizer", VocabularyKind::kTokenizer},
                                             {"bpe", VocabularyKind::kTokenizer}});
    if (c.is("/data/vocabulary", "bpe")) data.learned_tokens = c.integer("/data/vocab_size");
  }
  if (data.format == DataFormat::kTokens) {
    data.token_type =
        named<TokenType>(c, "/data/token_type", {{"u16", TokenType::kU16}, {"u32", TokenType::kU32}});
    data.separator = c.integer("/data/separator");
  }
  data.validation_fraction = c.number("/data/validation_fraction");
  data.packing = c.flag("/data/packing");
  data.shuffle = c.flag("/data/shuffle");
  data.as_is = c.flag("/data/as_is");
  data.pairs = !c.is("/objective/kind", "cross_entropy");
  return data;
}

BatchConfig decode_batch(const Config& c) {
  BatchConfig batch;
  batch.micro_batch = c.integer("/batch/micro_batch");
  batch.grad_accum_steps = c.integer("/batch/grad_accum_steps");
  batch.sequence = c.integer("/batch/sequence");
  batch.global_batch = c.integer("/batch/global_batch");
  return batch;
}

OptimizerConfig decode_optimizer(const Config& c) {
  OptimizerConfig optimizer;
  optimizer.kind = named<OptimizerKind>(c, "/optimizer/kind",
                                        {{"adamw", OptimizerKind::kAdamW}, {"sgd", OptimizerKind::kSgd}});
  optimizer.learning_rate = c.number("/optimizer/learning_rate");
  optimizer.beta1 = c.number("/optimizer/beta1");
  optimizer.beta2 = c.number("/optimizer/beta2");
  optimizer.eps = c.number("/optimizer/eps");
  optimizer.weight_decay = c.number("/optimizer/weight_decay");
  optimizer.momentum = c.number("/optimizer/momentum");
  optimizer.nesterov = c.flag("/optimizer/nesterov");
  optimizer.clip_norm = c.number("/optimizer/clip_norm");
  optimizer.frozen = texts(c, "/optimizer/frozen");
  return optimizer;
}

ObjectiveConfig decode_objective(const Config& c) {
  ObjectiveConfig objective;
  objective.kind = named<ObjectiveKind>(c, "/objective/kind",
                                        {{"cross_entropy", ObjectiveKind::kCrossEntropy},
                                         {"dpo", ObjectiveKind::kDpo},
                                         {"ipo", ObjectiveKind::kIpo},
                                         {"hinge", ObjectiveKind::kHinge},
                                         {"dpo_sft", ObjectiveKind::kDpoSft},
                                         {"simpo", ObjectiveKind::kSimpo},
                                         {"orpo", ObjectiveKind::kOrpo},
                                         {"reward", ObjectiveKind::kReward}});
  if (!objective.pairs() || objective.scores()) return objective;
  objective.beta = c.number("/objective/beta");
  objective.gamma = c.number("/objective/gamma");
  if (objective.kind == ObjectiveKind::kDpoSft) objective.sft_weight = c.number("/objective/sft_weight");
  objective.label_smoothing = c.number("/objective/label_smoothing");
  objective.reference = text_or_empty(c, "/objective/reference");
  return objective;
}

ScheduleConfig decode_schedule(const Config& c) {
  ScheduleConfig schedule;
  schedule.kind = named<ScheduleKind>(c, "/schedule/kind",
                                      {{"constant", ScheduleKind::kConstant},
                                       {"linear", ScheduleKind::kLinear},
                                       {"cosine", ScheduleKind::kCosine},
                                       {"wsd", ScheduleKind::kWsd},
                                       {"inverse_sqrt", ScheduleKind::kInverseSqrt}});
  schedule.warmup_steps = c.integer("/schedule/warmup_steps");
  schedule.decay_steps = c.integer("/schedule/decay_steps");
  schedule.stable_steps = c.integer("/schedule/stable_steps");
  schedule.min_learning_rate = c.number("/schedule/min_learning_rate");
  return schedule;
}

GuardConfig decode_guard(const Config& c) {
  GuardConfig guard;
  guard.skip_non_finite = c.flag("/guard/skip_non_finite");
  guard.outlier = named<OutlierPolicy>(c, "/guard/outlier",
                                       {{"keep", OutlierPolicy::kKeep}, {"skip", OutlierPolicy::kSkip}});
  guard.outlier_z = c.number("/guard/outlier_z");
  guard.max_consecutive_skips = c.integer("/guard/max_consecutive_skips");
  return guard;
}

TrainConfig decode_train(const Config& c) {
  TrainConfig train;
  train.steps = c.integer("/train/steps");
  train.eval_every = c.integer("/train/eval_every");
  train.eval_batches = c.integer("/train/eval_batches");
  train.sample_every = c.integer("/train/sample_every");
  train.log_every = c.integer("/train/log_every");
  train.patience = c.integer("/train/patience");
  return train;
}

CheckpointConfig decode_checkpoint(const Config& c) {
  CheckpointConfig checkpoint;
  checkpoint.path = text_or_empty(c, "/checkpoint/path");
  checkpoint.every = c.integer("/checkpoint/every");
  checkpoint.every_seconds = c.number("/checkpoint/every_seconds");
  checkpoint.keep_last = c.integer("/checkpoint/keep_last");
  checkpoint.keep_best = c.flag("/checkpoint/keep_best");
  checkpoint.async = c.flag("/checkpoint/async");
  checkpoint.when_busy =
      named<SaveBusy>(c, "/checkpoint/when_busy", {{"wait", SaveBusy::kWait}, {"refuse", SaveBusy::kRefuse}});
  checkpoint.on_error = named<SaveFailure>(c, "/checkpoint/on_error",
                                           {{"stop", SaveFailure::kStop}, {"go_on", SaveFailure::kGoOn}});
  return checkpoint;
}

ZeroConfig decode_zero(const Config& c) {
  ZeroConfig zero;
  zero.stage = c.integer("/zero/stage");
  zero.reduce = named<ReducePolicy>(
      c, "/zero/reduce",
      {{"per_step", ReducePolicy::kPerStep}, {"per_micro_batch", ReducePolicy::kPerMicroBatch}});
  zero.reshard_after_forward = named<ReshardAfterForward>(c, "/zero/reshard_after_forward",
                                                          {{"full", ReshardAfterForward::kFull},
                                                           {"keep", ReshardAfterForward::kKeep},
                                                           {"group", ReshardAfterForward::kGroup}});
  if (c.has("/zero/reshard_group")) zero.reshard_group = c.integer("/zero/reshard_group");
  zero.prefetch = c.integer("/zero/prefetch");
  zero.gradient_type =
      named<DType>(c, "/zero/gradient_type", {{"fp32", DType::kF32}, {"bf16", DType::kBf16}});
  zero.bucket_bytes = c.integer("/zero/bucket_bytes");
  zero.first_bucket_bytes = c.integer("/zero/first_bucket_bytes");
  zero.sum_order =
      named<SumOrder>(c, "/zero/sum_order", {{"ranks", SumOrder::kRanks}, {"tree", SumOrder::kTree}});
  return zero;
}

nn::MoeTraining decode_moe(const Config& c) {
  nn::MoeTraining moe;
  moe.aux_loss = c.number("/moe/aux_loss");
  moe.z_loss = c.number("/moe/z_loss");
  moe.balance_rate = c.number("/moe/balance_rate");
  if (c.is("/moe/dispatch", "capacity")) moe.capacity_factor = c.number("/moe/capacity_factor");
  moe.rows_factor = c.number("/moe/rows_factor");
  moe.step_rows = c.integer("/batch/global_batch");
  return moe;
}

PipelineConfig decode_pipeline(const Effective& c) {
  PipelineConfig pipeline;
  const auto* row = parallel::pipeline::find_schedule(c.text("/pipeline/schedule"));
  HWS_CHECK(row != nullptr);
  pipeline.schedule = row->schedule;
  pipeline.chunks = chunks_of_rank(c);
  if (c.find("/pipeline/group")) pipeline.group = c.integer("/pipeline/group");
  if (const Value* layers = c.find("/pipeline/layers"))
    for (const Value& item : layers->items) pipeline.layers.push_back(item.integer);
  return pipeline;
}

RecomputeConfig decode_recompute(const Effective& c) {
  using enum parallel::RecomputePolicy;
  const auto policy = named<parallel::RecomputePolicy>(
      c, "/recompute/policy", {{"off", kOff}, {"full", kFull}, {"selective", kSelective}, {"every", kEvery}});
  return parallel::recompute_config(
      policy, policy == kSelective ? texts(c, "/recompute/arrays") : std::vector<std::string>(),
      policy == kEvery ? c.integer("/recompute/every") : 1);
}

OffloadConfig decode_offload(const Effective& c) {
  OffloadConfig offload;
  offload.activations = named<OffloadSpace>(
      c, "/offload/activations",
      {{"off", OffloadSpace::kOff}, {"host", OffloadSpace::kHost}, {"disk", OffloadSpace::kDisk}});
  offload.folder = text_or_empty(c, "/offload/folder");
  offload.prefetch = c.integer("/offload/prefetch");
  return offload;
}

}  // namespace

ResolvedConfig decode(const Effective& c) {
  ResolvedConfig resolved;
  resolved.device = c.text("/device");
  resolved.seed = c.find("/seed")->unsigned_integer;
  resolved.deterministic = c.flag("/deterministic");
  resolved.precision = named<Precision>(c, "/precision",
                                        {{precision_name(Precision::kFp32), Precision::kFp32},
                                         {precision_name(Precision::kBf16), Precision::kBf16},
                                         {precision_name(Precision::kBf16Pure), Precision::kBf16Pure}});
  resolved.output_type =
      named<Precision>(c, "/output_type", {{"fp32", Precision::kFp32}, {"bf16", Precision::kBf16}});
  resolved.model = decode_model(c);
  resolved.model.adapter = decode_adapter(c, resolved.model);
  resolved.moe = decode_moe(c);
  resolved.init = decode_init(c);
  resolved.data = decode_data(c);
  resolved.batch = decode_batch(c);
  resolved.objective = decode_objective(c);
  resolved.optimizer = decode_optimizer(c);
  resolved.schedule = decode_schedule(c);
  resolved.guard = decode_guard(c);
  resolved.train = decode_train(c);
  resolved.checkpoint = decode_checkpoint(c);
  resolved.telemetry.tensorboard = text_or_empty(c, "/telemetry/tensorboard");
  resolved.cpu.threads = c.integer("/cpu/threads");
  resolved.cpu.max_isa = text_or_empty(c, "/cpu/max_isa");
  resolved.cuda.algorithm_cache = text_or_empty(c, "/cuda/algorithm_cache");
  resolved.cuda.graphs = c.flag("/cuda/graphs");
  resolved.mesh.dp_replicate = c.integer("/mesh/dp_replicate");
  resolved.mesh.dp_shard = c.integer("/mesh/dp_shard");
  resolved.mesh.cp = c.integer("/mesh/cp");
  resolved.mesh.cp_mode = named<mesh::ContextMode>(c, "/mesh/cp_mode",
                                                   {{"ring", mesh::ContextMode::kRing},
                                                    {"ulysses", mesh::ContextMode::kUlysses},
                                                    {"gather", mesh::ContextMode::kGather}});
  resolved.mesh.tp = c.integer("/mesh/tp");
  resolved.mesh.sequence_parallel = c.flag("/mesh/sequence_parallel");
  resolved.mesh.ep = c.integer("/mesh/ep");
  resolved.mesh.pp = c.integer("/mesh/pp");
  resolved.pipeline = decode_pipeline(c);
  resolved.recompute = decode_recompute(c);
  resolved.offload = decode_offload(c);
  resolved.zero = decode_zero(c);
  resolved.comm.sum_group = c.integer("/comm/sum_group");
  resolved.comm.timeout_seconds = c.number("/comm/timeout_seconds");
  resolved.comm.bandwidth_limit = c.number("/comm/bandwidth_limit");
  resolved.comm.device_transport = named<DeviceTransport>(
      c, "/comm/device_transport",
      {{"auto", DeviceTransport::kAuto}, {"host", DeviceTransport::kHost}, {"nccl", DeviceTransport::kNccl}});
  return resolved;
}

const char* precision_name(Precision precision) {
  constexpr const char* kNames[] = {"fp32", "bf16", "bf16_pure"};
  return kNames[static_cast<size_t>(precision)];
}

}  // namespace hawser::config
