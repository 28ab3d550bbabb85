#include "engine/optim/fp8_history.h"

#include <algorithm>
#include <unordered_map>

namespace hawser::optim {

Fp8History::Fp8History(std::vector<Operand> operands, int64_t steps)
    : operands_(std::move(operands)), steps_(steps), kept_(operands_.size()) {
  for (const Operand& operand : operands_) maxima_.push_back(operand.first);
}

/// Drops maxima that are too old, and takes the largest of the others, which is the oldest.
void Fp8History::expire(size_t operand) {
  std::vector<Fp8Maximum>& kept = kept_[operand];
  const auto first =
      std::find_if(kept.begin(), kept.end(), [&](const Fp8Maximum& m) { return m.age < steps_; });
  kept.erase(kept.begin(), first);
  maxima_[operand] = kept.empty() ? operands_[operand].first : kept.front().value;
}

void Fp8History::fold(const std::vector<float>& noted) {
  for (size_t i = 0; i < kept_.size(); ++i) {
    std::vector<Fp8Maximum>& kept = kept_[i];
    for (Fp8Maximum& m : kept) ++m.age;
    if (noted[i] > 0) {
      while (!kept.empty() && kept.back().value <= noted[i]) kept.pop_back();
      kept.push_back({0, noted[i]});
    }
    expire(i);
  }
}

std::optional<Fp8HistoryState> Fp8History::saved() const {
  if (!enabled()) return std::nullopt;
  Fp8HistoryState state;
  for (size_t i = 0; i < kept_.size(); ++i)
    if (!kept_[i].empty()) state.emplace_back(operands_[i].name, kept_[i]);
  return state;
}

void Fp8History::resume(const std::optional<Fp8HistoryState>& state) {
  std::unordered_map<std::string_view, const std::vector<Fp8Maximum>*> by_name;
  if (state)
    for (const auto& [name, maxima] : *state) by_name[name] = &maxima;
  for (size_t i = 0; i < kept_.size(); ++i) {
    const auto found = by_name.find(operands_[i].name);
    kept_[i] = found == by_name.end() ? std::vector<Fp8Maximum>() : *found->second;
    expire(i);
  }
}

}  // namespace hawser::optim
