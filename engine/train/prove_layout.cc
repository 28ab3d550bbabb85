#include "engine/train/prove_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>

#include "engine/base/error.h"
#include "engine/base/json.h"
#include "engine/base/philox.h"
#include "engine/config/resolved_config.h"
#include "engine/train/assemble.h"
#include "engine/train/played_ranks.h"

namespace hawser::train {
namespace {

using Json = OrderedJson;

/// A global batch of random tokens; some targets are masked, and some rows altogether, so that ranks count
/// differently.
struct RandomBatch {
  RandomBatch(const config::ResolvedConfig& c, int64_t step) {
    const int64_t rows = c.batch.global_batch, cols = c.batch.sequence;
    for (int64_t r = 0; r < rows; ++r) {
      const auto row = static_cast<uint64_t>(step * rows + r);
      const uint32_t keep = r == 0 ? 4 : philox(c.seed, row, 1).v[0] % 5;
      for (int64_t t = 0; t < cols; ++t) {
        const PhiloxBlock word = philox(c.seed, row, 2 + static_cast<uint64_t>(t));
        const auto vocabulary = static_cast<uint32_t>(c.model.vocab_size);
        tokens.push_back(static_cast<int32_t>(word.v[0] % vocabulary));
        targets.push_back(word.v[1] % 4 < keep ? static_cast<int32_t>(word.v[2] % vocabulary) : -100);
      }
    }
    view = {rows, cols, tokens.data(), targets.data(), nullptr};
  }
  std::vector<int32_t> tokens, targets;
  BatchView view;
};

/// Compares tensor by tensor and keeps the first difference.
class Comparison {
 public:
  Comparison(const Trainer& ranks, const PlayedRanks& one) : ranks_(ranks), one_(one) {}

  void number(int64_t step, const char* what, double ranks, double one, double tolerance) {
    if (!difference_.is_null() || std::abs(ranks - one) <= tolerance * std::abs(one)) return;
    difference_ = {{"step", step}, {"what", what}, {"ranks", ranks}, {"one_rank", one}};
  }

  /// `one(p)`: the other side's values; null: there are none.
  template <typename OneRank>
  void tensors(int64_t step, TensorKind kind, const char* what, OneRank one) {
    for (const nn::Parameter& p : one_.table().all()) {
      const float* const theirs = kind == TensorKind::kWeight || p.trainable ? one(p) : nullptr;
      if (theirs == nullptr) continue;
      values_.resize(static_cast<size_t>(p.size));
      ranks_.tensor_get(kind, p.name, values_.data(), values_.size() * sizeof(float));
      ++tensors_, elements_ += p.size;
      for (int64_t i = 0; i < p.size && difference_.is_null(); ++i) {
        const float ours = values_[static_cast<size_t>(i)];
        if (std::memcmp(&ours, &theirs[i], sizeof(float)) != 0)
          difference_ = {{"step", step}, {"what", what},  {"tensor", p.name},
                         {"index", i},   {"ranks", ours}, {"one_rank", theirs[i]}};
      }
    }
  }

  const Json& difference() const { return difference_; }
  int64_t tensors() const { return tensors_; }
  int64_t elements() const { return elements_; }

 private:
  const Trainer& ranks_;
  const PlayedRanks& one_;
  std::vector<float> values_;
  Json difference_;
  int64_t tensors_ = 0, elements_ = 0;
};

/// The largest deviation from f64 over all tensors, each relative to its own largest element.
double distance(const PlayedRanks& one, const PlayedRanks::Orders& orders, const GroupGradients& sums) {
  double worst = 0;
  size_t group = 0;
  for (size_t g = 0; g < one.table().groups().size(); ++g) {
    if (!one.table().groups()[g].trainable) continue;
    for (const nn::Parameter& p : one.table().all()) {
      if (p.group != static_cast<int32_t>(g)) continue;
      double largest = 0, deviation = 0;
      for (int64_t i = p.offset; i < p.offset + p.size; ++i) {
        const double exact = orders.f64[group][static_cast<size_t>(i)];
        largest = std::max(largest, std::abs(exact));
        deviation =
            std::max(deviation, std::abs(static_cast<double>(sums[group][static_cast<size_t>(i)]) - exact));
      }
      if (largest > 0) worst = std::max(worst, deviation / largest);
    }
    ++group;
  }
  return worst;
}

}  // namespace

std::string prove_layout(const config::ConfigTree& config, int64_t steps) {
  std::string changes;
  const config::ConfigTree small = shrink_for_proof(config, &changes);
  const config::ResolvedConfig resolved = assemble(small).config;
  const int64_t world = resolved.mesh.dp();
  if (world < 2)
    fail(Code::kConfigInvalid,
         "/mesh has one rank: there is no layout to prove; set /mesh/dp_shard or another");
  std::atomic<bool> cancel{false};
  const auto ranks = Trainer::create(small, false, &cancel, comm::make_local(static_cast<int32_t>(world)));
  const auto one = PlayedRanks::create(small);
  Comparison compare(*ranks, *one);
  Json distances;
  std::vector<float> state;
  for (int64_t step = 1; step <= steps && compare.difference().is_null(); ++step) {
    const RandomBatch batch(resolved, step - 1);
    PlayedRanks::Orders orders;
    if (step == 1) orders = one->sum_orders(batch.view);
    ranks->push(batch.view);
    const StepResult result = ranks->forward_backward();
    const PlayedRanks::Step played = one->forward_backward(batch.view);
    compare.number(step, "tokens", static_cast<double>(result.tokens), static_cast<double>(played.tokens), 0);
    compare.number(step, "loss", result.loss, played.loss, 0);
    compare.tensors(step, TensorKind::kGradient, "gradient",
                    [&](const nn::Parameter& p) { return one->gradient(played.sums, p); });
    compare.number(step, "grad_norm", result.grad_norm, played.grad_norm, 1e-12);
    if (step == 1)
      distances = {{"ranks", distance(*one, orders, played.sums)},
                   {"ascending", distance(*one, orders, orders.ascending)},
                   {"descending", distance(*one, orders, orders.descending)}};
    ranks->commit();
    one->commit(played, result.grad_norm);
    for (const auto& [kind, what] : {std::pair{TensorKind::kMoment1, "moment 1"},
                                     {TensorKind::kMoment2, "moment 2"},
                                     {TensorKind::kWeight, "weight"}})
      compare.tensors(step, kind, what, [&, k = kind](const nn::Parameter& p) {
        return one->state(k, p, &state) ? state.data() : nullptr;
      });
  }
  Json json;
  json["equal"] = compare.difference().is_null();
  json["first_difference"] = compare.difference();
  json["ranks"] = world;
  json["steps"] = steps;
  json["tensors"] = compare.tensors();
  json["elements"] = compare.elements();
  json["distance_to_f64"] = distances;
  json["shrunk"] = Json::parse(changes);
  return json.dump();
}

}  // namespace hawser::train
