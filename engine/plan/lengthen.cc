#include "engine/plan/lengthen.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/base/error.h"
#include "engine/plan/segments.h"

namespace hawser::plan {
namespace {

/// Periods before the cut that must be equal to the one before each.
constexpr size_t kEqualPeriods = 2;

/// Instructions [end - length, end) are one period of micro-batches.
struct Period {
  size_t end = 0, length = 0;
  int32_t micro_batches = 1;
};

bool same_exchanges(const Instruction& a, const Instruction& b) {
  return std::equal(a.exchanges.begin(), a.exchanges.end(), b.exchanges.begin(), b.exchanges.end(),
                    [](const ExchangeNote& x, const ExchangeNote& y) {
                      return x.group == y.group && x.operation == y.operation && x.bytes == y.bytes;
                    });
}

/// True if instruction `i` repeats the one a period before, except for its waits.
bool repeats(const Plan& plan, const Period& period, size_t i) {
  const Instruction &now = plan.instructions[i], &before = plan.instructions[i - period.length];
  return now.op == before.op && now.block == before.block && now.bucket == before.bucket &&
         now.lane == before.lane && now.accumulate == before.accumulate &&
         now.overlaps_next == before.overlaps_next && now.host == before.host && now.work == before.work &&
         now.sent_bytes == before.sent_bytes && now.moved_bytes == before.moved_bytes &&
         now.micro_batch == (before.micro_batch < 0 ? -1 : before.micro_batch + period.micro_batches) &&
         same_exchanges(now, before);
}

/// Finds the instructions of the last period before the cut. Its length is 0 if there is none.
Period period_before(const Plan& plan, size_t end, int32_t micro_batches) {
  const auto computes = [](const Instruction& n) { return !n.is_transfer() && n.micro_batch >= 0; };
  size_t last = end;
  while (last > 0 && !computes(plan.instructions[last - 1])) --last;
  if (last-- == 0) return {end, 0, micro_batches};
  const Instruction& of = plan.instructions[last];
  for (size_t i = last; i-- > 0;) {
    const Instruction& n = plan.instructions[i];
    if (computes(n) && n.op == of.op && n.block == of.block &&
        n.micro_batch == of.micro_batch - micro_batches)
      return {end, last - i, micro_batches};
  }
  return {end, 0, micro_batches};
}

/// Returns the first instruction from which on all before the cut repeat those a period before.
size_t steady_from(const Plan& plan, const Period& period) {
  size_t first = period.end;
  while (first > period.length && repeats(plan, period, first - 1)) --first;
  return first;
}

/// Moves an instruction, and the transfers from `from` on for which it waits, by so many instructions.
void shift(Instruction* n, size_t from, size_t instructions, int32_t micro_batches) {
  for (size_t l = 0; l < kLanes; ++l) {
    int32_t& awaited = n->waits_for[static_cast<Lane>(l)];
    if (awaited >= static_cast<int32_t>(from)) awaited += static_cast<int32_t>(instructions);
  }
  if (n->micro_batch >= 0) n->micro_batch += micro_batches;
}

/// Returns the transfers for which instruction `i` of the last period waits, from those of the periods from
/// `steady` on. Lanes work in order, so of two transfers the later one is the longer wait.
LaneMarks bound(const Plan& plan, const Period& period, size_t steady, size_t i, RepeatedWaits which) {
  LaneMarks bound = plan.instructions[i].waits_for;
  for (size_t later = period.length; i >= steady + later; later += period.length)
    for (size_t l = 0; l < kLanes; ++l) {
      const auto lane = static_cast<Lane>(l);
      const int32_t then = plan.instructions[i - later].waits_for[lane];
      const int32_t same = then < 0 ? -1 : then + static_cast<int32_t>(later);
      bound[lane] = which == RepeatedWaits::kMost ? std::max(bound[lane], same) : std::min(bound[lane], same);
    }
  return bound;
}

void repeat(Plan* plan, const Period& period, size_t steady, int32_t times, RepeatedWaits which) {
  const size_t settled = steady + (period.end - steady) / 2;  // the first slots still find their places
  std::vector<LaneMarks> waits;
  for (size_t i = period.end - period.length; i < period.end; ++i)
    waits.push_back(bound(*plan, period, settled, i, which));
  std::vector<Instruction>& all = plan->instructions;
  const size_t added = period.length * static_cast<size_t>(times);
  std::vector<Instruction> longer;
  longer.reserve(all.size() + added);
  std::move(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(period.end), std::back_inserter(longer));
  for (int32_t k = 1; k <= times; ++k)
    for (size_t i = 0; i < period.length; ++i) {
      Instruction& copy = longer.emplace_back(longer[period.end - period.length + i]);
      copy.holds.clear();
      copy.waits_for = waits[i];
      shift(&copy, 0, period.length * static_cast<size_t>(k), period.micro_batches * k);
    }
  for (size_t i = period.end; i < all.size(); ++i) {
    shift(&all[i], steady, added, period.micro_batches * times);
    longer.push_back(std::move(all[i]));
  }
  all = std::move(longer);
  plan->commit += added;
  for (Slot& slot : plan->slots) {
    if (slot.first >= static_cast<int32_t>(period.end)) slot.first += static_cast<int32_t>(added);
    if (slot.last >= static_cast<int32_t>(period.end)) slot.last += static_cast<int32_t>(added);
  }
  assign_segments(plan);
}

}  // namespace

bool lengthen(Plan* plan, int32_t micro_batches, int32_t left_out, int32_t period, RepeatedWaits waits) {
  HWS_CHECK(left_out > 0 && left_out % period == 0);
  const SlotId batch =
      find_slot(*plan, fmt::format("batch.{}", micro_batches));  // the first that is left out
  HWS_CHECK(batch >= 0);
  const Period last = period_before(*plan, static_cast<size_t>(plan->slot(batch).last) + 1, period);
  if (last.length == 0) return false;
  const size_t steady = steady_from(*plan, last);
  if (steady + kEqualPeriods * last.length > last.end) return false;
  repeat(plan, last, steady, left_out / period, waits);
  return true;
}

}  // namespace hawser::plan
