// EventLog: a log that writes scalars of each step for TensorBoard to /telemetry/tensorboard, in rank 0's
// process. An engine creates a file at its first step, so a resumed run adds another file to the same folder.
//
// A record that cannot be written is counted, and hws_engine_metrics reports the count; training continues. A
// file that failed is abandoned, because it may end within a record; half a minute later the log tries a new
// one.
//
// Threading: any thread may call failures. The other members belong to the step's thread.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "engine/base/error.h"
#include "engine/execute/step_result.h"
#include "engine/report/event_file.h"

namespace hawser::train {

class EventLog {
 public:
  /// With an empty folder the log writes nothing.
  explicit EventLog(std::string folder) : folder_(std::move(folder)) {}

  /// Writes the scalars of a finished step. `tokens_per_second` also counts masked positions.
  void record(const StepResult& result, double tokens_per_second, int64_t communication_bytes) noexcept;
  /// Writes the validation loss of the model after this step.
  void validated(int64_t step, double loss) noexcept;

  struct Failures {
    int64_t count = 0;  ///< records that could not be written
    std::string last;   ///< the error of the last file that failed; "" if none did
  };
  Failures failures() const;

 private:
  void write(int64_t step, std::span<const Scalar> scalars) noexcept;
  void count_failure(const Error& error) noexcept;

  const std::string folder_;
  std::optional<EventFile> file_;
  int64_t last_step_ = 0;     // the last finished step
  double try_again_at_ = 0;   // on the steady clock
  mutable std::mutex mutex_;  // guards the failures
  int64_t failures_ = 0;
  std::optional<Error> failed_with_;
};

}  // namespace hawser::train
