#include "engine/state/averaged_weights.h"

#include <algorithm>
#include <vector>

#include "engine/base/error.h"
#include "engine/state/durable_state.h"

namespace hawser::train {
namespace {

/// Both arrays are f32.
void exchange(const Rank& rank, StateArray a, StateArray b, int64_t n) {
  constexpr int64_t kPiece = int64_t{1} << 20;
  std::vector<float> of_a(static_cast<size_t>(std::min(n, kPiece))), of_b(of_a.size());
  for (int64_t first = 0; first < n; first += kPiece) {
    const int64_t count = std::min(kPiece, n - first);
    read_values(rank.link(), of_a.data(), a.from(first), count);
    read_values(rank.link(), of_b.data(), b.from(first), count);
    write_values(rank.link(), a.from(first), of_b.data(), count);
    write_values(rank.link(), b.from(first), of_a.data(), count);
  }
}

}  // namespace

void use_average(const Ranks& ranks, bool on, Progress* progress) {
  ranks.require_training("hws_engine_use_average");
  if (!ranks.config().optimizer.average)
    fail(Code::kFailedPrecondition,
         "this engine keeps no average of its weights; set /optimizer/average, such as 0.999");
  progress->require_no_pending();
  if (progress->average_in_use == on) return;
  ranks.set_changing(nullptr);
  ranks.on_each([&](Rank& rank, int32_t) {
    ranks.set_changing("hws_engine_use_average");
    each_part(rank, ranks.table(),
              [&](const nn::Parameter&, int64_t begin, int64_t end, int64_t at, const GroupState& s) {
                if (const StateArray& average = s.states[plan::kAverageOfWeights])
                  exchange(rank, s.weights.from(at), average.from(at), end - begin);
              });
    rank.publish_weights();
  });
  ranks.set_changing(nullptr);
  progress->average_in_use = on;
}

}  // namespace hawser::train
