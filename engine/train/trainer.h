// Trainer: the second room of a training step. It owns the arena, the model, the plans and the run's state,
// and turns calls (step, eval, forward, generate, save, load) into plan executions.
//
// Threading: one mutating call at a time (the C API enforces it); `const` methods may run beside each other
// but not beside a mutating call unless said otherwise; cancel() at any time.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/comm/comm.h"
#include "engine/config/config_tree.h"
#include "engine/data/vocabulary.h"
#include "engine/device/arena.h"
#include "engine/plan/timeline.h"
#include "engine/train/save/save_operation.h"

namespace hawser::train {

enum class Outcome : int32_t {
  kAccepted = 0,
  kSkippedNonFinite = 1,
  kSkippedOutlier = 2,
  kDiscarded = 3,
  kPending = 4
};

struct StepResult {
  Outcome outcome = Outcome::kAccepted;
  int64_t step = 0;
  double loss = 0, grad_norm = 0, learning_rate = 0;
  int64_t tokens = 0, samples = 0, skipped = 0;
  double seconds = 0;
};

struct TrainRecord {
  StepResult result;
  double validation_loss = 0;  ///< NaN: none
  double tokens_per_second = 0;
  int64_t total_steps = 0;
  bool saved = false, best = false;
  int64_t communication_bytes = 0;  ///< sent in this step by the first rank here
  int64_t save_failures = 0;        ///< checkpoints that this engine could not write, before this step's
};

/// A batch of the caller's, borrowed for the call. targets, document_begin may be null.
struct BatchView {
  int64_t rows = 0, cols = 0;
  const int32_t* tokens = nullptr;
  const int32_t* targets = nullptr;
  const int32_t* document_begin = nullptr;
};

struct GenerateRequest {
  const int32_t* prompt = nullptr;
  int64_t prompt_length = 0, max_tokens = 0;
  double temperature = 1;
  int64_t top_k = 0;
  double top_p = 1;
  uint64_t seed = 0;
  int32_t stop_token = -1;
};

/// What a batch is made of; constant for the life of a trainer.
struct Sizes {
  int64_t vocab_size = 0, sequence = 0, global_batch = 0;
};

enum class TensorKind : int32_t { kWeight = 0, kGradient = 1, kMoment1 = 2, kMoment2 = 3 };

/// Where a parameter lies, for zero-copy views.
struct TensorLocation {
  const void* data = nullptr;
  DType type = DType::kF32;  ///< or bf16
  std::vector<int64_t> shape;
  std::shared_ptr<device::Arena> arena;
};

struct Evaluation {
  double loss = 0;
  int64_t tokens = 0;
};

class Trainer {
 public:
  /// `cancel` outlives the trainer; storing true ends train, eval and generate at their next step boundary.
  /// `comm`: the ranks that this process holds; null: one, and a mesh of one. With several processes every
  /// call is collective: all make it, with the same arguments.
  static std::unique_ptr<Trainer> create(const config::ConfigTree& config, bool inference,
                                         std::atomic<bool>* cancel,
                                         std::shared_ptr<comm::Comm> comm = nullptr);
  virtual ~Trainer() = default;

  /// A call that all processes make has ended here alone, for want of memory: the others are told, who would
  /// wait for this one.
  virtual void ran_dry() noexcept = 0;

  virtual StepResult train_step() = 0;
  virtual StepResult forward_backward() = 0;
  virtual StepResult commit() = 0;
  virtual StepResult discard(bool rewind) = 0;
  /// Returns false from fn to end. Throws kCancelled.
  virtual void train(int64_t until_step, const std::function<bool(const TrainRecord&)>& fn) = 0;
  virtual void push(const BatchView& batch) = 0;
  virtual Evaluation eval(const BatchView* batch, int64_t max_batches) = 0;
  virtual void forward(const BatchView& batch, float* logits, size_t logits_bytes) = 0;
  virtual void generate(const GenerateRequest& request, const std::function<bool(int32_t)>& fn) = 0;

  virtual const data::Vocabulary& vocabulary() const = 0;
  virtual void tensor_get(TensorKind kind, std::string_view name, float* data, size_t bytes) const = 0;
  virtual void tensor_set(TensorKind kind, std::string_view name, const float* data, size_t bytes) = 0;
  virtual TensorLocation tensor_location(TensorKind kind, std::string_view name) const = 0;

  /// Waits for a running asynchronous save, or throws kBusy, as the config says; so does save_async.
  virtual void save(const std::string& path) = 0;
  /// Copies the state into memory of its own (kept; throws kOutOfMemory) and writes it on another thread,
  /// beside whatever is called next. The same files, byte for byte, as save. Throws kUnimplemented with ranks
  /// in several processes. load, export_hf and the destructor wait for it.
  virtual std::shared_ptr<SaveOperation> save_async(const std::string& path) = 0;
  virtual void load(const std::string& path, bool allow_other_data) = 0;
  /// Loads the newest checkpoint of `folder` that is whole; JSON of which it was, and of newer ones that are
  /// damaged. Throws kNotFound where there is none, kCheckpointCorrupt where all are damaged, and what keeps
  /// one from being read.
  virtual std::string load_latest(const std::string& folder, bool allow_other_data) = 0;
  virtual void export_hf(const std::string& folder, const std::string& dtype) const = 0;

  virtual Sizes sizes() const = 0;  ///< safe beside a running step
  /// Of the next step, or of the one that is pending. Throws kFailedPrecondition for inference.
  virtual double learning_rate() const = 0;

  // JSON texts, as the C API returns them.
  virtual std::string info_json() const = 0;
  virtual std::string data_json() const = 0;
  virtual std::string tensors_json() const = 0;
  virtual std::string statistics_json() const = 0;
  virtual std::string metrics_json() const = 0;  ///< safe beside a running step
  /// Records when each instruction of a step runs, from the next step on; off: no more, and what was recorded
  /// is dropped. kernels: every kernel call in them too. Throws kFailedPrecondition for inference and while a
  /// step is pending.
  virtual void set_trace(bool on, bool kernels = false) = 0;
  /// The last step of every rank of this process, as trace events (json: what Perfetto and chrome://tracing
  /// read) or in words. Throws kFailedPrecondition where no step was recorded.
  virtual std::string trace_report(bool json) const = 0;
  /// Where the time of all steps but the first went since set_trace(true, true), by kernel and shape, for
  /// every rank of this process. Throws kFailedPrecondition where no step was profiled.
  virtual std::string profile_report(bool json) const = 0;
  /// The last calls of every rank of this process to others, whatever became of them. Safe beside a running
  /// step and after an error.
  virtual std::string flight_report(bool json) const = 0;
  /// The trace of one rank, by its index in this process.
  virtual plan::Timeline timeline(int32_t index) const = 0;
  virtual const plan::Plan& train_plan() const = 0;
  virtual void set_metrics(std::function<void(const std::string&)> fn) = 0;
};

/// Fills what a config takes from files: the model of init.from, the vocabulary of the data. Throws like
/// resolve.
config::ConfigTree assemble_config(const config::ConfigTree& config);
/// The config that runs the model of a checkpoint or Hugging Face folder (hws_config_from_model).
config::ConfigTree config_from_model(const std::string& path);

/// The plan's report without allocating tensors; format: text or JSON.
std::string plan_report(const config::ConfigTree& config, bool json);

/// Conversion without an engine (hws_checkpoint_import / _export).
void import_checkpoint(const std::string& hf_folder, const std::string& path,
                       const std::vector<std::string>& ignore_keys);
void export_checkpoint(const std::string& path, const std::string& hf_folder, const std::string& dtype);

/// hws_device_list, hws_device_measure, hws_device_peak, hws_library_info.
std::string device_list_json();
std::string device_measure_json(int32_t threads, double seconds);
double device_peak_flops(int32_t threads, DType type, double seconds);
std::string library_info_json();

}  // namespace hawser::train
