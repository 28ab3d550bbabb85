#include "bindings/cli/eval/score.h"

#include <algorithm>

namespace hawser::cli {

double Scorer::sum(const int32_t* tokens, size_t count, size_t predicted) const {
  const size_t cols = count - 1;
  std::vector<int32_t> targets(cols, -100);
  std::copy(tokens + count - predicted, tokens + count, targets.end() - static_cast<ptrdiff_t>(predicted));
  std::vector<float> logprobs(cols);
  hws_batch batch = {};
  batch.struct_size = sizeof batch;
  batch.rows = 1;
  batch.cols = static_cast<int64_t>(cols);
  batch.tokens = tokens;
  batch.targets = targets.data();
  check(hws_engine_logprobs(engine_, &batch, logprobs.data(), cols * sizeof(float)));
  double total = 0;
  for (const float logprob : logprobs) total += static_cast<double>(logprob);
  return total;
}

double Scorer::continuation(const std::vector<int32_t>& tokens, size_t context) const {
  const size_t count = std::min(tokens.size(), static_cast<size_t>(sequence_) + 1);
  return sum(tokens.data() + (tokens.size() - count), count, std::min(tokens.size() - context, count - 1));
}

Scorer::Rolled Scorer::rolling(const std::vector<int32_t>& text, int64_t most_windows) const {
  std::vector<int32_t> tokens;
  if (prefix_ >= 0) tokens.push_back(prefix_);
  tokens.insert(tokens.end(), text.begin(), text.end());
  const auto window = static_cast<size_t>(sequence_);
  Rolled result;
  int64_t windows = 0;
  for (size_t done = 1; done < tokens.size() && (most_windows == 0 || windows < most_windows); ++windows) {
    const size_t predicted = std::min(window, tokens.size() - done), end = done + predicted;
    const size_t count = std::min(end, window + 1);
    result.logprob += sum(tokens.data() + (end - count), count, predicted);
    result.tokens += static_cast<int64_t>(predicted);
    done = end;
  }
  return result;
}

size_t characters(std::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

}  // namespace hawser::cli
