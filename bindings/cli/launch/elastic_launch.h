// ElasticLaunch: the supervisor of `hawser launch --elastic`, which decides which processes are in the run.
// The launcher detects that its processes end or stop. After a loss it waits until the remaining processes
// have released everything, and then calls the ones that it needs to a new meeting. Only the launcher
// decides, so there are never two runs.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bindings/cli/client.h"
#include "bindings/cli/commands.h"
#include "bindings/cli/elastic_membership.h"
#include "bindings/cli/launch/process_team.h"
#include "bindings/cli/run_folder.h"

namespace hawser::cli {

class ElasticLaunch final : public Supervisor {
 public:
  /// `config` comes from the command line and must outlive this object. `folder` is the run's folder; it may
  /// be moved while the run continues.
  ElasticLaunch(const LaunchOptions& options, const hws_config* config, std::string folder,
                ProcessTeam* team);
  ~ElasticLaunch() override;

  /// Starts the processes and calls them to the first meeting. Throws Failure if no number of ranks up to
  /// options.processes fits the config.
  void begin();

  bool killed(size_t member, const std::string& how) override;
  void finished(size_t member, int code) override;
  void look() override;
  void add_polled(std::vector<pollfd>* polled) const override;

 private:
  enum class State { kTraining, kWaiting, kGone };
  struct Process {
    int control = -1;  ///< descriptor to the process; -1: closed
    State state = State::kWaiting;
    const char* why_ended = nullptr;  ///< why this launcher killed it
    int32_t rank = -1;                ///< its rank in the last meeting
  };
  using Clock = std::chrono::steady_clock;

  void start_process();
  void listen_to(size_t member);
  void kill_unresponsive();
  bool all_have_left() const;
  void meet();
  int32_t fitting(int32_t most) const;
  std::vector<size_t> waiting() const;
  void dismiss();
  void lost_one();

  const LaunchOptions& options_;
  const hws_config* const config_;
  const std::string folder_;       // as the command line gives it
  std::optional<RunFolder> held_;  // set once the run has begun
  ProcessTeam* const team_;
  const double patience_seconds_;
  std::vector<Process> processes_;  // indexed by member of the team
  int64_t meeting_ = 0;
  int64_t began_from_ = -1;  // step that this meeting began from; -1: not begun
  bool broken_ = false;      // this meeting has failed
  bool done_ = false;
  Clock::time_point broken_at_{};
  ProgressCheck headway_;
};

/// Returns a loopback port that is free now, as HOST:PORT.
std::string free_address();

}  // namespace hawser::cli
