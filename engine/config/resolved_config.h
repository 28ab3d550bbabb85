// ResolvedConfig: a config with every default, preset, file, set and rule applied. Plain values, whose
// defaults are only in the schema; immutable after config::resolve. Constructors in the layers below
// `assembly` take only the struct they need, and nothing below `config` sees the schema (capi/schema/*.fbs).
// Enums have the numbers of the schema. Each struct is followed by the rows of its section: each_key calls
// visit(key, member) for every key.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/config/batch_config.h"
#include "engine/data/data_config.h"
#include "engine/mesh/mesh_config.h"
#include "engine/nn/model_config.h"
#include "engine/optim/objective.h"
#include "engine/optim/optim_config.h"
#include "engine/optim/teacher.h"
#include "engine/parallel/parallel_config.h"

namespace hawser::config {

using data::DataConfig;
using data::DataFormat;
using data::DataSource;
using data::TokenType;
using data::VocabularyKind;
using mesh::MeshConfig;
using nn::BiasConfig;
using nn::MlpKind;
using nn::ModelConfig;
using nn::Norm;
using nn::Position;
using nn::RopeConfig;
using nn::RopeScaling;
using optim::GuardConfig;
using optim::LossScaleConfig;
using optim::ObjectiveConfig;
using optim::ObjectiveKind;
using optim::OptimizerConfig;
using optim::OptimizerKind;
using optim::OutlierPolicy;
using optim::ScheduleConfig;
using optim::ScheduleKind;
using parallel::CommConfig;
using parallel::DeviceTransport;
using parallel::OffloadConfig;
using parallel::OffloadSpace;
using parallel::PipelineConfig;
using parallel::PipelineSchedule;
using parallel::RecomputeConfig;
using parallel::ReducePolicy;
using parallel::ReshardAfterForward;
using parallel::SumOrder;
using parallel::ZeroConfig;

struct InitConfig {
  std::string from;  ///< checkpoint or Hugging Face folder; empty: random
  double std = 0;
  bool scale_residual = false;           ///< projections into the residual stream get std / sqrt(2 * layers)
  std::vector<std::string> ignore_keys;  ///< unknown keys of a Hugging Face config.json to accept
  std::string base;                      ///< folder of an adapter checkpoint's base; empty: as recorded in it
  bool any_base = false;                 ///< accept a base whose digests differ
  bool average = false;                  ///< take the average of the checkpoint's weights
  /// True if the adapter's base weights belong to another engine (hws_engine_create_on). The schema has no
  /// such field.
  bool on_engine = false;
};
void each_key(InitConfig& i, auto&& visit) {
  visit("from", i.from);
  visit("std", i.std);
  visit("scale_residual", i.scale_residual);
  visit("ignore_keys", i.ignore_keys);
  visit("base", i.base);
  visit("any_base", i.any_base);
  visit("average", i.average);
}

enum class Precision { kFp32, kBf16, kBf16Pure, kFp16, kFp8 };

enum class Fp8Recipe { kDelayed, kCurrent, kBlocks };

/// How precision fp8 chooses the powers of two of each operand.
struct Fp8Config {
  Fp8Recipe recipe = Fp8Recipe::kDelayed;
  int64_t history = 1;  ///< steps whose maxima count (delayed)
  int64_t margin = 0;   ///< powers of two of room above the maximum
};
void each_key(Fp8Config& f, auto&& visit) {
  visit("recipe", f.recipe);
  visit("history", f.history);
  visit("margin", f.margin);
}

struct TrainConfig {
  int64_t steps = 0;
  int64_t eval_every = 0;    ///< steps between validations; 0: none
  int64_t eval_batches = 0;  ///< global batches per validation; 0: the whole validation part
  int64_t sample_every = 0;  ///< steps between text samples (shown by the command); 0: none
  int64_t log_every = 0;
  int64_t patience = 0;     ///< validations without a lower loss after which training ends; 0: never
  double ahead_weight = 0;  ///< of the mean loss of prediction depths (ModelConfig::ahead)
};
void each_key(TrainConfig& t, auto&& visit) {
  visit("steps", t.steps);
  visit("eval_every", t.eval_every);
  visit("eval_batches", t.eval_batches);
  visit("sample_every", t.sample_every);
  visit("log_every", t.log_every);
  visit("patience", t.patience);
  visit("ahead_weight", t.ahead_weight);
}

/// Reaction of a run if one of its own checkpoints cannot be written.
enum class SaveFailure { kStop, kGoOn };
/// Reaction of a save if an asynchronous save is in progress.
enum class SaveBusy { kWait, kRefuse };

struct CheckpointConfig {
  std::string path;          ///< folder for step-N; empty: train saves nothing
  int64_t every = 0;         ///< steps between checkpoints; 0: not by steps
  double every_seconds = 0;  ///< seconds between checkpoints; 0: not by time
  int64_t keep_last = 0;
  bool keep_best = false;  ///< keep the best by validation loss as `best`
  bool async = false;      ///< write while training continues
  SaveBusy when_busy = SaveBusy::kWait;
  SaveFailure on_error = SaveFailure::kStop;  ///< for all but the last checkpoint of a run
  /// True if what asynchronous saves need is reserved with the engine.
  bool reserves_async() const { return async && !path.empty(); }
};
void each_key(CheckpointConfig& c, auto&& visit) {
  visit("path", c.path);
  visit("every", c.every);
  visit("every_seconds", c.every_seconds);
  visit("keep_last", c.keep_last);
  visit("keep_best", c.keep_best);
  visit("async", c.async);
  visit("when_busy", c.when_busy);
  visit("on_error", c.on_error);
}

struct SampleMessage {
  std::string role, content;
};
void each_key(SampleMessage& m, auto&& visit) {
  visit("role", m.role);
  visit("content", m.content);
}

/// A prompt: either a text or messages.
struct SamplePrompt {
  std::string text;
  std::vector<SampleMessage> messages;
};
void each_key(SamplePrompt& s, auto&& visit) {
  visit("text", s.text);
  visit("messages", s.messages);
}

struct TelemetryConfig {
  std::string tensorboard;            ///< folder of event files; empty: none
  std::vector<SamplePrompt> samples;  ///< prompts answered at each validation (by the command)
  int64_t sample_tokens = 0;          ///< most tokens of an answer
};
void each_key(TelemetryConfig& t, auto&& visit) {
  visit("tensorboard", t.tensorboard);
  visit("samples", t.samples);
  visit("sample_tokens", t.sample_tokens);
}

struct CpuConfig {
  int64_t threads = 0;  ///< resolved: affinity and cgroup quota when not given
  std::string max_isa;  ///< empty: best of the machine
};
void each_key(CpuConfig& c, auto&& visit) {
  visit("threads", c.threads);
  visit("max_isa", c.max_isa);
}

struct CudaConfig {
  std::string algorithm_cache;  ///< empty: none
  bool graphs = false;
  DType residual = DType::kF32;  ///< type of the stored residual stream: f32 or bf16
};
void each_key(CudaConfig& c, auto&& visit) {
  visit("algorithm_cache", c.algorithm_cache);
  visit("graphs", c.graphs);
  visit("residual", c.residual);
}

/// With the sections that strategies read: mesh, pipeline, recompute, offload, zero, comm.
struct ResolvedConfig : parallel::ParallelConfig {
  std::string device;
  uint64_t seed = 0;
  bool deterministic = false;
  ModelConfig model;
  nn::MoeTraining moe;
  InitConfig init;
  DataConfig data;
  BatchConfig batch;
  ObjectiveConfig objective;
  optim::TeacherConfig teacher;
  OptimizerConfig optimizer;
  ScheduleConfig schedule;
  Precision precision = Precision::kFp32;
  Precision output_type = Precision::kFp32;  ///< type that forward rounds logits to
  GuardConfig guard;
  LossScaleConfig loss_scale;
  Fp8Config fp8;
  TrainConfig train;
  CheckpointConfig checkpoint;
  TelemetryConfig telemetry;
  CpuConfig cpu;
  CudaConfig cuda;
};
/// Every section of the config except those that need more than their keys: model (model_fields.h), adapter
/// (rules_adapter.h) and recompute (decode.cc). A section is a member with rows of its own.
void each_key(ResolvedConfig& c, auto&& visit) {
  visit("device", c.device);
  visit("seed", c.seed);
  visit("deterministic", c.deterministic);
  visit("moe", c.moe);
  visit("init", c.init);
  visit("data", c.data);
  visit("batch", c.batch);
  visit("objective", c.objective);
  visit("teacher", c.teacher);
  visit("optimizer", c.optimizer);
  visit("schedule", c.schedule);
  visit("precision", c.precision);
  visit("output_type", c.output_type);
  visit("guard", c.guard);
  visit("loss_scale", c.loss_scale);
  visit("fp8", c.fp8);
  visit("train", c.train);
  visit("checkpoint", c.checkpoint);
  visit("telemetry", c.telemetry);
  visit("cpu", c.cpu);
  visit("cuda", c.cuda);
  visit("mesh", c.mesh);
  visit("pipeline", c.pipeline);
  visit("offload", c.offload);
  visit("zero", c.zero);
  visit("comm", c.comm);
}

}  // namespace hawser::config
