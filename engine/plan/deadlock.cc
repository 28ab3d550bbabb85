#include "engine/plan/deadlock.h"

#include "engine/plan/pipeline_replay.h"

namespace hawser::plan {
namespace {

/// A clock that ignores all events, because deadlocks do not depend on time.
struct NoClock {
  void runs(size_t, size_t) {}
  void gives(size_t, size_t) {}
  void sums(size_t, size_t) {}
  void passes(size_t, size_t, size_t, size_t) {}
  void runs_together(const std::vector<StageState>&) {}
  void drains(size_t, size_t) {}
};

}  // namespace

std::string find_deadlock(const std::vector<const Plan*>& stages) {
  NoClock clock;
  return PipelineReplay<NoClock>(stages, &clock).run();
}

bool deadlocks_early(const std::vector<const Plan*>& stages, const std::vector<size_t>& ends) {
  NoClock clock;
  return PipelineReplay<NoClock>(stages, ends, &clock).all_stop();
}

}  // namespace hawser::plan
