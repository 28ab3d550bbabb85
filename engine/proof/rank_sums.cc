#include "engine/proof/rank_sums.h"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "engine/comm/serial_stream.h"
#include "kernels/include/levels.h"
#include "kernels/include/table.h"

namespace hawser::train {
namespace {

float round_to_bf16(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  bits += 0x7FFF + ((bits >> 16) & 1);
  return std::bit_cast<float>(bits & 0xFFFF0000u);
}

/// Encodes and decodes a group's values, whose elements count from the first of a record.
void round_in_records(std::vector<float>* group, DType type) {
  const kernels::KernelTable& kernels = kernels::cpu_kernels(kernels::best_cpu_level());
  comm::SerialStream stream;
  const auto n = static_cast<int64_t>(group->size());
  std::vector<uint16_t> records(static_cast<size_t>(dtype_bytes(type, n) / 2));
  kernels.block_encode({records.data(), type, group->data(), DType::kF32, n}, stream);
  kernels.block_decode({group->data(), DType::kF32, records.data(), type, n}, stream);
}

/// Rounds each group to the type in which it is sent.
class Rounding {
 public:
  Rounding(const parallel::DataParallelStrategy& strategy, const std::vector<bool>& products)
      : s_(strategy), products_(products) {}

  void addends(GroupGradients* g) const {
    for (size_t i = 0; i < g->size(); ++i) {
      if (in_records(i))
        round_in_records(&(*g)[i], s_.records);
      else if (s_.wire != DType::kF32)
        for (float& value : (*g)[i]) value = round_to_bf16(value);
    }
  }
  /// The sums of some ranks, which are sent to be added to those of others.
  void sums(GroupGradients* g) const {
    for (size_t i = 0; i < g->size(); ++i)
      if (in_records(i)) round_in_records(&(*g)[i], s_.records);
  }

 private:
  bool in_records(size_t group) const { return is_block_type(s_.wire_of(products_[group])); }

  const parallel::DataParallelStrategy& s_;
  const std::vector<bool>& products_;
};

}  // namespace

void add(GroupGradients* to, const GroupGradients& from) {
  for (size_t g = 0; g < from.size(); ++g)
    for (size_t i = 0; i < from[g].size(); ++i) (*to)[g][i] += from[g][i];
}

void round_all(GroupGradients* g, DType type) {
  if (type == DType::kF32) return;
  for (std::vector<float>& group : *g)
    for (float& value : group) value = round_to_bf16(value);
}

GroupGradients sum_over_ranks(std::vector<GroupGradients>* ranks,
                              const parallel::DataParallelStrategy& strategy,
                              const std::vector<bool>& products) {
  std::vector<GroupGradients>& r = *ranks;
  const Rounding rounding(strategy, products);
  for (GroupGradients& g : r) rounding.addends(&g);
  if (strategy.tree) {
    for (size_t step = 1; step < r.size(); step *= 2)
      for (size_t i = 0; i + step < r.size(); i += 2 * step) add(&r[i], r[i + step]);
  } else {
    const auto inner = static_cast<size_t>(strategy.summed_first());
    const bool two_hops = inner > 1 && inner < r.size();
    for (size_t first = 0; first < r.size(); first += inner) {
      for (size_t i = 1; i < inner && first + i < r.size(); ++i) add(&r[first], r[first + i]);
      if (two_hops) rounding.sums(&r[first]);
      if (first > 0) add(&r[0], r[first]);
    }
  }
  round_all(&r[0], strategy.wire);
  return std::move(r[0]);
}

}  // namespace hawser::train
