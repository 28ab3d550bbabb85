// Trainer: runs training steps as transactions: nothing durable changes before commit. It owns the parts of
// an engine: the ranks, and one object for each other task.
//
// Threading: one mutating call at a time (the C API enforces it). Const members may run in parallel, but not
// during a mutating call unless their object says so. With ranks in several processes every call is
// collective: all processes make it with the same arguments.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/assembly/assemble.h"
#include "engine/comm/comm.h"
#include "engine/config/config_tree.h"
#include "engine/data/dataset.h"
#include "engine/ranks/ranks.h"
#include "engine/report/event_log.h"
#include "engine/report/metrics.h"
#include "engine/report/reports.h"
#include "engine/report/traces.h"
#include "engine/report/validations.h"
#include "engine/run/cancel.h"
#include "engine/run/host_source.h"
#include "engine/run/inference.h"
#include "engine/run/rewind.h"
#include "engine/run/train_loop.h"
#include "engine/save/export.h"
#include "engine/save/loads.h"
#include "engine/save/saves.h"
#include "engine/state/averaged_weights.h"
#include "engine/state/base_engine.h"
#include "engine/state/data_fingerprint.h"
#include "engine/state/monitor.h"
#include "engine/state/progress.h"
#include "engine/state/references.h"
#include "engine/state/teacher_pass.h"
#include "engine/state/tensors.h"

namespace hawser::train {

class Trainer {
 public:
  /// `cancel` must outlive the trainer. Storing true ends train, eval and generate at their next step
  /// boundary. `comm` holds the ranks of this process; null means one rank and a mesh of one. `base`: the
  /// engine whose weights the adapter works on (base_engine.h), or null.
  static std::unique_ptr<Trainer> create(const config::ConfigTree& config, bool inference,
                                         std::atomic<bool>* cancel,
                                         std::shared_ptr<comm::Comm> comm = nullptr,
                                         const Trainer* base = nullptr);

  /// Sets the batch of the next step, in place of the config's data. Copies it. Throws kBusy if one is
  /// already waiting.
  void push(const BatchView& batch);
  /// Sets the source of batches for steps without a pushed batch, in place of the config's data. null
  /// restores the config's data.
  void set_source(HostSource::Fill fill);
  /// Runs the gradient phase of a step: computes loss, gradients and their norm.
  StepResult forward_backward();
  /// Runs the gradient phase for an objective of the host program, from its gradients [rows, cols] with
  /// respect to the log-probability of each target of `batch`, a global batch without weights. Nothing is
  /// divided by the number of targets; the result's loss is the sum of gradient x log-probability. Throws
  /// kBusy if a pushed batch is waiting.
  StepResult backward_with(const BatchView& batch, const float* gradients);
  /// Runs the update phase: clips the gradients and updates weights, moments and the schedule. Throws
  /// kFailedPrecondition if the step overflowed (precision fp16).
  StepResult commit();
  /// From now on, inference and exports use the average of the weights; training, saves and loads are refused
  /// until the call with false.
  void use_average(bool on) { train::use_average(ranks_, on, &progress_); }
  /// Ends the step without its update phase. With `rewind`, the next step takes the same rows of the config's
  /// data.
  StepResult discard(bool rewind);
  /// Runs both phases, or only the gradient phase if the guard (/guard) skips the step or if it overflowed.
  /// After an outlier, the guard can go back to a checkpoint (rewind.h). Throws kNumeric after too many skips
  /// in a row, and after too many returns to one checkpoint.
  StepResult train_step();
  /// Call if this process has run out of memory in a collective call. Aborts the call on the other processes,
  /// which would otherwise block until their deadline.
  void abort_out_of_memory() noexcept { ranks_.abort_out_of_memory(); }

  /// Returns the config. May be called while a step runs.
  const config::ResolvedConfig& config() const { return assembly_.config; }
  /// Returns the learning rate of the pending step, or else of the next. Throws kFailedPrecondition for an
  /// inference engine.
  double learning_rate() const;
  /// Returns the positions per second of the last step. Masked positions count.
  double tokens_per_second() const;
  /// Returns the rows of the pending step, or else of the next.
  int64_t next_rows() const { return config().batch.rows_after(progress_.state.samples); }

  const Ranks& ranks() const { return ranks_; }
  const data::Dataset* dataset() const { return dataset_.get(); }  ///< null if batches are pushed
  DataFingerprint& data_fingerprint() { return fingerprint_; }
  const References& references() const { return references_; }
  const TeacherOutput& teacher() const { return teacher_; }
  Saves& saves() { return saves_; }
  const Saves& saves() const { return saves_; }
  Loads& loads() { return loads_; }
  const Export& exports() const { return export_; }
  Tensors& tensors() { return tensors_; }
  const Tensors& tensors() const { return tensors_; }
  Inference& inference() { return inference_; }
  TrainLoop& loop() { return loop_; }
  Monitor& monitor() { return monitor_; }
  const Monitor& monitor() const { return monitor_; }
  Validations& validations() { return validations_; }
  EventLog& events() { return events_; }
  Metrics& metrics() { return metrics_; }
  const Metrics& metrics() const { return metrics_; }
  Traces& traces() { return traces_; }
  const Traces& traces() const { return traces_; }
  const Reports& reports() const { return reports_; }

 private:
  /// kReference: for inference, and only to compute references, or the pairs of a teacher, for another
  /// engine.
  enum class Purpose { kTraining, kInference, kReference };
  static std::unique_ptr<Trainer> make(const config::ConfigTree& config, Purpose purpose,
                                       std::atomic<bool>* cancel, std::shared_ptr<comm::Comm> comm,
                                       const Trainer* base);
  Trainer(Assembly assembly, bool inference, std::atomic<bool>* cancel,
          std::shared_ptr<Connection> connection, const BaseEngine* base);
  std::string identity() const;
  References ask_for_references(const std::string& kept, bool only_validation);
  TeacherOutput ask_for_pairs(const std::string& kept, int64_t top);
  StepResult compute_gradients(bool update_follows);
  void require_room_for(const BatchView& batch) const;
  void skip_outlier();
  bool is_overflow() const;
  void require_no_overflow() const;
  void count_skip();
  void skip(Outcome outcome);
  void drop_fetched();
  StepResult end_step(Outcome outcome, bool advance);

  const Assembly assembly_;
  const std::unique_ptr<data::Dataset> dataset_;
  Ranks ranks_;
  std::vector<Run> runs_;  // runs of the step, indexed by rank of this process
  Progress progress_;
  HostSource source_;
  Cancel cancel_;
  Monitor monitor_;
  Validations validations_;
  DataFingerprint fingerprint_;
  Saves saves_;
  Loads loads_;
  Rewind rewind_;
  Tensors tensors_;
  Export export_;
  Inference inference_;
  EventLog events_;
  Metrics metrics_;
  Traces traces_;
  References references_;
  TeacherOutput teacher_;
  Reports reports_;
  TrainLoop loop_;
};

}  // namespace hawser::train
