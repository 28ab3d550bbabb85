#include "tests/harness/small_language.h"

#include "engine/base/philox.h"

namespace hawser::testing {
namespace {

/// Sentences: a token decides the next one, but for some noise.
struct Sentences {
  Sentences(int64_t rows, int64_t cols, int64_t step) {
    for (int64_t r = 0; r < rows; ++r) {
      const auto row = static_cast<uint64_t>(step * rows + r);
      int32_t word = static_cast<int32_t>(philox(3, row, 0).v[0] % 53);
      for (int64_t t = 0; t < cols; ++t) {
        tokens.push_back(word);
        const PhiloxBlock random = philox(3, row, 1 + static_cast<uint64_t>(t));
        word = random.v[0] % 8 == 0 ? static_cast<int32_t>(random.v[1] % 53) : (word * 7 + 3) % 53;
        targets.push_back(word);
      }
    }
    view = {rows, cols, tokens.data(), targets.data(), nullptr, nullptr};
  }
  std::vector<int32_t> tokens, targets;
  train::BatchView view;
};

}  // namespace

double learned_loss(const Layout& layout, const std::string& optimizer) {
  Problem p;
  p.optimizer = optimizer;
  p.dropout = 0, p.micro_batch = 4;
  LayoutRun run(p, layout);
  double loss = 0;
  constexpr int64_t kSteps = 400, kLast = 50;
  for (int64_t step = 0; step < kSteps; ++step) {
    const Sentences batch(p.micro_batch * layout.accumulation * layout.dp(), p.sequence, step);
    run.trainer().push(batch.view);
    const double now = run.trainer().forward_backward().loss;
    run.trainer().commit();
    if (step >= kSteps - kLast) loss += now / kLast;
  }
  return loss;
}

}  // namespace hawser::testing
