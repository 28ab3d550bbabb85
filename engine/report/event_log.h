// EventLog: the steps of a run as scalars for TensorBoard, in /telemetry/tensorboard. Rank 0's process
// writes. An engine makes a file with its first step, so a resumed run has another one in the same folder.
//
// What cannot be written is counted and told (hws_engine_metrics), and training goes on. A file that failed
// is abandoned, since it may end with half a record; half a minute later a new one is tried.
//
// Threading: any thread may call failures. The others belong to the step's thread.
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
  /// folder: empty for a log that writes nothing.
  explicit EventLog(std::string folder) : folder_(std::move(folder)) {}

  /// A step was taken. tokens_per_second: positions, masked ones too.
  void took(const StepResult& result, double tokens_per_second, int64_t communication_bytes) noexcept;
  /// The model after this step was validated.
  void validated(int64_t step, double loss) noexcept;

  struct Failures {
    int64_t count = 0;  ///< records that could not be written
    std::string last;   ///< why the last file failed; "" if none did
  };
  Failures failures() const;

 private:
  void write(int64_t step, std::span<const Scalar> scalars) noexcept;
  void count_failure(const Error& error) noexcept;

  const std::string folder_;
  std::optional<EventFile> file_;
  int64_t last_step_ = 0;     // that was taken
  double try_again_at_ = 0;   // on the steady clock
  mutable std::mutex mutex_;  // guards the failures
  int64_t failures_ = 0;
  std::optional<Error> failed_with_;
};

}  // namespace hawser::train
