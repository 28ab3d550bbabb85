#include "engine/parallel/closed_forms.h"

#include <fmt/format.h>

#include <algorithm>

namespace hawser::parallel {
namespace {

using plan::Op;

/// (parts - 1) / parts of Φ.
int64_t others(int64_t phi, int64_t parts) { return phi / parts * (parts - 1); }

class Forms {
 public:
  Forms(const ShardLayout& layout, const DataParallel& strategy, int64_t micro_batches,
        const WeightUses& uses)
      : layout_(layout), s_(strategy), micro_batches_(micro_batches), uses_(uses) {}

  std::vector<ClosedForm> take() {
    const bool each = s_.reduces_each(micro_batches_);
    const int64_t reductions = each ? micro_batches_ : 1;
    const std::string times = each ? "A" : "";
    const int64_t wire = dtype_bytes(s_.wire);
    for (const ModelSum& sum : layout_.model_sums()) add_model_sum(sum, times, reductions);
    add(Op::kReduceGrad, times + "(N-1)/N·Φg" + experts(times + "(M-1)/M·Eg"), reductions * gradients(wire));
    add_replicas(times, reductions);
    if (s_.stage == 0)
      add(Op::kGatherGrad, "(N-1)/N·Φs" + experts("(M-1)/M·Es"),
          gradients(dtype_bytes(layout_.options().state)));
    if (s_.stage == 1 || s_.stage == 2)
      add(Op::kUnshard, "(N-1)/N·Φw" + experts("(M-1)/M·Ew"), all_weights(0, layout_.blocks() - 1, true));
    if (s_.stage == 3) add_gathers();
    return std::move(forms_);
  }

 private:
  void add(Op op, std::string formula, int64_t bytes) {
    if (bytes > 0) forms_.push_back({op, std::move(formula), bytes});
  }

  void add_model_sum(const ModelSum& sum, const std::string& times, int64_t reductions) {
    int64_t share = 0;  // a group's elements are divided among its ranks
    for (int32_t b = 0; b < layout_.blocks(); ++b)
      for (const int32_t g : layout_.groups_of(b))
        if (ShardLayout::takes(sum, layout_.group(g)))
          share += (layout_.group(g).elements + sum.ranks - 1) / sum.ranks;
    const std::string letter = sum.op == Op::kReduceTp ? "t" : "k";
    add(sum.op, fmt::format("2{}({}-1)/{}·Φ{}", times, letter, letter, letter),
        2 * reductions * (sum.ranks - 1) * share * dtype_bytes(layout_.options().state));
  }

  /// f32 addends go around the ring once, then sums in the wire type.
  void add_replicas(const std::string& times, int64_t reductions) {
    const int64_t r = s_.replicas;
    int64_t share = 0;
    for (int32_t b = 0; b < layout_.blocks(); ++b)
      for (const int32_t g : layout_.groups_of(b))
        if (layout_.group(g).trainable) share += (layout_.group(g).shard + r - 1) / r;
    // Shards of experts are of another size, but as often on other ranks.
    const bool narrow = s_.wire != DType::kF32;
    const std::string formula = narrow
                                    ? times + "(R-1)/R·(Φs+Φg)/N" + experts(times + "(R-1)/R·(Es+Eg)/M")
                                    : (times.empty() ? "2" : "2A") + std::string("(R-1)/R·Φs/N") +
                                          experts((times.empty() ? "2" : "2A") + std::string("(R-1)/R·Es/M"));
    add(Op::kReduceReplicas, formula, reductions * (r - 1) * share * (4 + dtype_bytes(s_.wire)));
  }

  /// The part of a formula that is of experts which ranks divide.
  std::string experts(const std::string& formula) const {
    return layout_.options().mesh.degree(mesh::Axis::kEp) > 1 ? "+" + formula : "";
  }
  /// The others' parts of both kinds.
  int64_t gradients(int64_t element_bytes) const {
    int64_t elements = 0;
    for (int32_t b = 0; b < layout_.blocks(); ++b)
      for (const int32_t g : layout_.groups_of(b)) {
        const int64_t n = s_.shards_of(layout_.group(g).experts);
        if (layout_.group(g).trainable)
          elements += others(mesh::padded_elements(layout_.group(g).elements, n), n);
      }
    return elements * element_bytes;
  }
  int64_t all_weights(int32_t first, int32_t last, bool trainable_only) const {
    return others(weights(first, last, s_.shards, trainable_only), s_.shards) +
           others(weights(first, last, s_.expert_shards, trainable_only, true), s_.expert_shards);
  }
  int64_t weights(int32_t first, int32_t last, int64_t parts, bool trainable_only,
                  bool of_experts = false) const {
    int64_t bytes = 0;
    for (int32_t b = first; b <= last; ++b)
      for (const int32_t g : layout_.groups_of(b))
        if (layout_.group(g).experts == of_experts && (layout_.group(g).trainable || !trainable_only))
          bytes +=
              dtype_bytes(layout_.group(g).type, mesh::padded_elements(layout_.group(g).elements, parts));
    return bytes;
  }

  /// Stage 3. A block is gathered for its forward and again for its backward. The head is gathered once,
  /// because loss and backward are one op. The embedding is gathered for the look-up and, if tied, for the
  /// head.
  void add_gathers() {
    const int64_t small = s_.reshard_group;
    const int32_t head = layout_.blocks() - 1;
    const int32_t lowest = std::max(1, uses_.first_trainable);
    const int64_t all = all_weights(0, head, false);
    const auto again = [&](int64_t parts) {
      return others(weights(lowest, head - 1, parts, false), parts) +
             (uses_.tied_head ? others(weights(0, 0, parts, false), parts) : 0);
    };
    const int64_t twice_all =
        all + all_weights(lowest, head - 1, false) + (uses_.tied_head ? all_weights(0, 0, false) : 0);
    const std::string with_backward = uses_.first_trainable > 1 ? "Φb'" : "Φb";
    const std::string twice = uses_.first_trainable > 1 ? "Φb+Φb'" : "2Φb";
    switch (s_.reshard) {
      case ReshardAfterForward::kKeep:
        return add(Op::kUnshard, "A(N-1)/N·Φw" + experts("A(M-1)/M·Ew"), micro_batches_ * all);
      case ReshardAfterForward::kFull:
        return add(Op::kUnshard,
                   fmt::format("A(N-1)/N·({}Φe+{}+Φh){}", uses_.tied_head ? "2" : "", twice,
                               experts(uses_.first_trainable > 1 ? "A(M-1)/M·(Eb+Eb')" : "2A(M-1)/M·Eb")),
                   micro_batches_ * twice_all);
      case ReshardAfterForward::kGroup:
        return add(Op::kUnshard,
                   fmt::format("A(N-1)/N·Φw+A(S-1)/S·({}{})", uses_.tied_head ? "Φe+" : "", with_backward),
                   micro_batches_ * (all + again(small)));
    }
  }

  const ShardLayout& layout_;
  const DataParallel& s_;
  int64_t micro_batches_;
  const WeightUses& uses_;
  std::vector<ClosedForm> forms_;
};

}  // namespace

std::vector<ClosedForm> closed_forms(const ShardLayout& layout, const DataParallel& strategy,
                                     int64_t micro_batches, const WeightUses& uses) {
  if (!strategy.many() && layout.model_sums().empty()) return {};
  return Forms(layout, strategy, micro_batches, uses).take();
}

}  // namespace hawser::parallel
