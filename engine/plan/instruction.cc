#include "engine/plan/instruction.h"

#include <algorithm>
#include <iterator>

namespace hawser::plan {
namespace {

template <typename Is>
std::vector<SlotId> slots_of(const std::vector<Use>& uses, Is is) {
  std::vector<SlotId> slots;
  for (const Use& use : uses)
    if (is(use)) slots.push_back(use.slot);
  return slots;
}

}  // namespace

int32_t LaneMarks::newest() const { return *std::max_element(at_.begin(), at_.end()); }

bool LaneMarks::covered_by(const LaneMarks& done) const {
  for (size_t lane = 0; lane < kLanes; ++lane)
    if (at_[lane] > done.at_[lane]) return false;
  return true;
}

void LaneMarks::raise_to(const LaneMarks& other) {
  for (size_t lane = 0; lane < kLanes; ++lane) at_[lane] = std::max(at_[lane], other.at_[lane]);
}

const char* space_name(Space space) {
  constexpr const char* kNames[] = {"device", "host", "disk"};
  static_assert(std::size(kNames) == static_cast<size_t>(Space::kCount));
  return kNames[static_cast<size_t>(space)];
}

const char* lane_name(Lane lane) {
  constexpr const char* kNames[] = {
      "compute",          "communication",  "block",           "x_to_next",     "x_from_previous",
      "dx_to_previous",   "dx_from_next",   "x_to_previous",   "x_from_next",   "dx_to_next",
      "dx_from_previous", "table_gradient", "table",           "offload",       "fetch",
      "offload_state",    "fetch_state",    "offload_weights", "fetch_weights", "host"};
  static_assert(std::size(kNames) == kLanes);
  return kNames[static_cast<size_t>(lane)];
}

std::vector<SlotId> Instruction::all(Operand operand) const {
  return slots_of(uses, [&](const Use& use) { return use.operand == operand; });
}
std::vector<SlotId> Instruction::reads() const {
  return slots_of(uses, [](const Use& use) { return !use.written; });
}
std::vector<SlotId> Instruction::writes() const {
  return slots_of(uses, [](const Use& use) { return use.written; });
}

}  // namespace hawser::plan
