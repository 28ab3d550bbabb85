// The executor at the border between the two phases of a step. State that the gradient phase fetches for the
// update phase stays in the arena between them, and its transfer may still run (Plan::crosses). A call that
// needs the memory or changes the state drops the fetched data; the update phase then fetches them again.
#include "engine/execute/executor.h"

namespace hawser::train {

/// Prepares a run from instruction `first` on. Returns true if it is an update phase whose state is not in
/// the arena.
bool Executor::begin(const plan::Plan& plan, size_t first) {
  const bool updates = first == plan.commit && plan.has_crossing();
  const bool continues = updates && fetched_of_ == &plan;
  if (!continues) drop_fetched();
  fetched_of_ = nullptr;
  slots_->begin(plan, first);
  host_->begin(plan);
  transfers_.begin(plan, first, continues);
  return updates && !continues;
}

void Executor::fetch_again(const plan::Plan& plan) {
  for (size_t i = 0; i < plan.commit; ++i) {
    if (!plan.crosses(i)) continue;
    slots_->acquire(plan, i);
    const comm::Work work = transfers_.start(plan, i);
    if (recording_) recording_->issued(i, work);
  }
}

void Executor::drop_fetched() {
  if (fetched_of_ == nullptr) return;
  const plan::Plan& plan = *std::exchange(fetched_of_, nullptr);
  slots_->release_all(plan, transfers_.done());
  end_transfers();
  slots_->drain(plan, transfers_.done());
}

/// Waits for all transfers that were started, whether they succeed or fail.
void Executor::end_transfers() {
  try {
    transfers_.finish(transfers_.started());
  } catch (...) {
    transfers_.forget();
  }
}

}  // namespace hawser::train
