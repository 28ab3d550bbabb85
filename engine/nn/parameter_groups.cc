// Parameter groups: which parameters of a block are stored as one range, and where each of them is.
#include <algorithm>

#include "engine/base/error.h"
#include "engine/nn/nf4.h"
#include "engine/nn/parameter.h"

namespace hawser::nn {

/// Only the vocabulary's tables need padding, because vocabulary sizes are not chosen for their divisors.
int64_t ParameterTable::zero_rows(const Parameter& p) const {
  const bool of_words = p.name == "embedding.tokens.weight" || p.name == "head.weight";
  return of_words ? (tile_rows_ - p.local_shape[0] % tile_rows_) % tile_rows_ : 0;
}

int32_t ParameterTable::optimizer_of(const Parameter& p) const {
  if (!p.trainable) return 0;
  const TrainedParts::Optimizers& optimizers =
      p.rule < 0 ? parts_.optimizers : parts_.rules[static_cast<size_t>(p.rule)].optimizers;
  return is_block_matrix(p) ? optimizers.matrices : optimizers.others;
}

/// Parameters that are computed as one matrix product are next to each other in one parameter group.
void ParameterTable::check_alike(const std::vector<Declaration>& block) const {
  for (size_t i = 1; i < block.size(); ++i) {
    if (!block[i].packed) continue;
    const Parameter &a = block[i - 1].parameter, &b = block[i].parameter;
    if (a.trainable != b.trainable)
      fail(Code::kConfigInvalid,
           "{} names only one of {} and {}, which are computed as one matrix product: {} both or neither",
           adapter_.on() ? "/adapter/train" : "/optimizer/frozen", a.name, b.name,
           adapter_.on() ? "train" : "freeze");
    if (optimizer_of(a) != optimizer_of(b))
      fail(
          Code::kConfigInvalid,
          "/optimizer/rules give {} and {} different kinds of optimizer, but they are computed as one matrix "
          "product: name both in one rule, or neither",
          a.name, b.name);
  }
}

/// Makes the parameter groups of a block: trainable ones first, then by how they are read, then by how the
/// ranks of a tensor-parallel group share them (one kind for a single rank), then by their optimizers. Within
/// a parameter group the declared order is kept.
void ParameterTable::lay_out(const std::vector<Declaration>& block) {
  check_alike(block);
  const size_t first = parameters_.size();
  for (const Declaration& d : block) parameters_.push_back(d.parameter), count_ += d.parameter.size;
  const auto covers = [this](const Parameter& p) { return tp_ > 1 ? p.covers : GradientCoverage::kAll; };
  // A key/value head that all ranks share is full on each, but its gradient is a sum.
  const auto divided = [this](const Parameter& p) { return tp_ > 1 && p.cut.dim >= 0; };
  for (const bool trainable : {true, false}) {
    for (const Read read : {Read::kProduct, Read::kNf4, Read::kInt8, Read::kLookup, Read::kExact}) {
      const bool nf4 = read == Read::kNf4;
      static_assert(kNf4Block == kIntBlock);
      const int64_t align = is_decoded(read) ? kIntBlock : kParameterAlign;  // a record is not divided
      std::vector<bool> placed(block.size());
      for (size_t next = 0; next < block.size(); ++next) {
        const auto alike = [&](const Parameter& p) { return p.trainable == trainable && p.read == read; };
        if (placed[next] || !alike(parameters_[first + next])) continue;
        const Parameter& model = parameters_[first + next];
        ParameterGroup group{.block = model.block, .trainable = trainable, .read = read};
        group.shares = model.cut.shares(tp_, ep_);
        group.covers = covers(model), group.experts = model.cut.experts;
        group.optimizer = optimizer_of(model);
        for (size_t i = next; i < block.size(); ++i) {
          Parameter& p = parameters_[first + i];
          if (!alike(p) || p.cut.shares(tp_, ep_) != group.shares || covers(p) != group.covers ||
              divided(p) != divided(model) || p.cut.experts != group.experts ||
              optimizer_of(p) != group.optimizer)
            continue;
          placed[i] = true;
          if (!block[i].packed || is_decoded(read))
            group.elements = (group.elements + align - 1) / align * align;
          p.group = static_cast<int32_t>(groups_.size());
          p.offset = group.elements;
          p.scales = group.scales;
          p.nested = adapter_.nf4_nested;
          if (nf4) group.scales += nf4_scales(p.size, p.nested);
          p.zeros = zero_rows(p) * p.room / p.local_shape[0];
          group.elements += p.room + p.zeros;
        }
        group.elements = (group.elements + kGroupAlign - 1) / kGroupAlign * kGroupAlign;
        groups_.push_back(group);
      }
    }
  }
}

}  // namespace hawser::nn
