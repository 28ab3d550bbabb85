// ElasticMembership: a source of the rank that a process has in each meeting of an elastic run. A meeting is
// one set of ranks that train together until one is lost. After a loss the remaining processes form a new
// meeting, possibly with other ranks. With `hawser launch --elastic` the launcher, which detects that its
// processes end, assigns the ranks. Without it, a process keeps its rank and waits for a scheduler or a
// person to restart the lost one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "bindings/cli/client.h"
#include "bindings/cli/commands.h"

namespace hawser::cli {

/// A process's rank and address in a meeting, as sent by the launcher: "MEETING RANK WORLD ADDRESS FOLDER".
struct Assignment {
  int64_t meeting = 1;
  int32_t rank = 0, world = 1;
  std::string address;
  std::string folder;  ///< current folder of the run; "": the one on the command line
};
std::string to_text(const Assignment& place);
Assignment assignment_from(const std::string& text);

// Messages from a process to the launcher.
inline constexpr const char* kBegan = "began ";  ///< "began STEP", from rank 0: the run continues from there
/// Ranks were lost; this process has released everything and waits for a new assignment
inline constexpr const char* kLost = "lost";

/// Detects a run without progress: too many meetings that begin from the same step.
class ProgressCheck {
 public:
  static constexpr int kMostMeetings = 10;
  /// Counts a failed meeting that began from `step` (-1: it did not begin). Returns false if the run should
  /// give up.
  bool goes_on(int64_t step);

 private:
  int64_t step_ = -1;
  int meetings_ = 0;
};

/// True if the failure means that ranks were lost. Any other failure would happen again.
bool means_lost_ranks(const Failure& failure);

class ElasticMembership {
 public:
  explicit ElasticMembership(const RankOptions& asked) : asked_(asked) {}

  /// Waits for the next assignment. Returns nothing if the run ended without this process.
  std::optional<RankOptions> next();
  /// Reports that the meeting is complete and its run continues from `step`.
  void began(int64_t step);
  /// Reports that ranks of the meeting were lost and that this process has released everything. Throws
  /// `failure` if the run gives up.
  void lost(const Failure& failure);

 private:
  void say(const std::string& word) const;

  const RankOptions asked_;
  RankOptions now_;
  int64_t began_from_ = -1;
  ProgressCheck headway_;
};

}  // namespace hawser::cli
