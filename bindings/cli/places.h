// Places: which rank a process is in the meetings of an elastic run, one after the other. When ranks are lost
// the others meet again, with other numbers perhaps. Who says so is either `hawser launch --elastic`, which
// sees its processes end, or nobody: then a process comes again as the rank that it was, and waits for
// whoever (a scheduler, a person) starts the lost one anew.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "bindings/cli/client.h"
#include "bindings/cli/commands.h"

namespace hawser::cli {

/// A process's place in a meeting, as the launcher gives it: "MEETING RANK WORLD ADDRESS FOLDER".
struct Place {
  int64_t meeting = 1;
  int32_t rank = 0, world = 1;
  std::string address;
  std::string folder;  ///< of the run, where it is now; "": where the command line says
};
std::string to_text(const Place& place);
Place place_from(const std::string& text);

// What a process tells the launcher.
inline constexpr const char* kBegan = "began ";  ///< "began STEP": the run goes on from there; of rank 0
inline constexpr const char* kLost = "lost";     ///< others were lost, all is given back, waits for a place

/// Whether a run gets anywhere: meetings that all begin from one step are too many at some point.
class Headway {
 public:
  static constexpr int kMostMeetings = 10;
  /// A meeting that began from `step` (-1: it did not begin) was broken. False: enough of this.
  bool goes_on(int64_t step);

 private:
  int64_t step_ = -1;
  int meetings_ = 0;
};

/// Which failures mean that ranks were lost; all else would come again.
bool means_lost_ranks(const Failure& failure);

class Places {
 public:
  explicit Places(const RankOptions& asked) : asked_(asked) {}

  /// Waits for the next place. Nothing: the run ended without this process.
  std::optional<RankOptions> next();
  /// The meeting has come together, and its run goes on from `step`.
  void began(int64_t step);
  /// Its ranks lost each other; all that it had is given back. Throws `failure` where that is the end.
  void lost(const Failure& failure);

 private:
  void say(const std::string& word) const;

  const RankOptions asked_;
  RankOptions now_;
  int64_t began_from_ = -1;
  Headway headway_;
};

}  // namespace hawser::cli
