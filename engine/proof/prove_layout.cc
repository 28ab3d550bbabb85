#include "engine/proof/prove_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "engine/assembly/assemble.h"
#include "engine/assembly/engine_plans.h"
#include "engine/assembly/precision.h"
#include "engine/base/error.h"
#include "engine/base/interrupt.h"
#include "engine/base/json.h"
#include "engine/base/philox.h"
#include "engine/config/resolved_config.h"
#include "engine/proof/margin.h"
#include "engine/proof/reference_model.h"
#include "engine/proof/rerouted_choices.h"
#include "engine/proof/serial_replay.h"
#include "engine/run/trainer.h"

namespace hawser::train {
namespace {

/// A global batch of random tokens, after `consumed` rows. Some targets and some whole rows are masked, so
/// that ranks count differently. In every second batch targets have weights.
struct RandomBatch {
  RandomBatch(const config::ResolvedConfig& c, int64_t step, int64_t consumed) {
    const int64_t rows = c.batch.rows_after(consumed), cols = c.batch.sequence;
    for (int64_t r = 0; r < rows; ++r) {
      const auto row = static_cast<uint64_t>(consumed + r);
      const uint32_t keep = r == 0 ? 4 : philox(c.seed, row, 1).v[0] % 5;
      for (int64_t t = 0; t < cols; ++t) {
        const PhiloxBlock word = philox(c.seed, row, 2 + static_cast<uint64_t>(t));
        const auto vocabulary = static_cast<uint32_t>(c.model.vocab_size);
        tokens.push_back(static_cast<int32_t>(word.v[0] % vocabulary));
        targets.push_back(word.v[1] % 4 < keep ? static_cast<int32_t>(word.v[2] % vocabulary) : -100);
        weights.push_back(static_cast<float>(word.v[3] % 8) / 4.0f);
      }
    }
    view = {rows, cols, tokens.data(), targets.data(), nullptr, step % 2 == 1 ? weights.data() : nullptr};
    if (c.teacher.on()) add_teacher(c, static_cast<uint64_t>(consumed));
  }
  /// Gives each position different ids, a fixed distance apart, and random log-probabilities.
  void add_teacher(const config::ResolvedConfig& c, uint64_t first_row) {
    const int64_t top = c.teacher.top, vocabulary = c.model.vocab_size;
    for (int64_t i = 0; i < view.rows * view.cols; ++i) {
      const uint64_t row = first_row + static_cast<uint64_t>(i / view.cols);
      const auto column = static_cast<uint64_t>(view.cols + i % view.cols);
      for (int64_t j = 0; j < top; ++j) {
        const PhiloxBlock word = philox(c.seed, row, 2 + column * 1024 + static_cast<uint64_t>(j));
        const int64_t id = tokens[static_cast<size_t>(i)] + 1 + j * (vocabulary / top);
        teacher_ids.push_back(static_cast<int32_t>(id % vocabulary));
        teacher_logprobs.push_back(-static_cast<float>(word.v[0] % 1024) / 128.0f);
      }
    }
    view.teacher_top = top;
    view.teacher_ids = teacher_ids.data(), view.teacher_logprobs = teacher_logprobs.data();
  }
  std::vector<int32_t> tokens, targets, teacher_ids;
  std::vector<float> weights, teacher_logprobs;
  BatchView view;
};

/// Compares values of the ranks one by one, and keeps the first difference.
class Comparison {
 public:
  Comparison(const Trainer& ranks, const nn::ParameterTable& table) : ranks_(ranks), table_(table) {}

  /// From now on, compares with another side, which differences call `other`.
  void with(const char* other) { other_ = other; }

  void number(int64_t step, const char* what, double ranks, double other, double tolerance) {
    if (!difference_.is_null() || std::abs(ranks - other) <= tolerance * std::abs(other)) return;
    if (std::memcmp(&ranks, &other, sizeof ranks) == 0) return;  // equal bits, also of a NaN
    difference_ = {{"step", step}, {"what", what}, {"ranks", ranks}, {other_, other}};
  }

  /// other(p) returns the other side's values; null if there are none.
  template <typename Other>
  void tensors(int64_t step, TensorKind kind, const char* what, Other other) {
    for (const nn::Parameter& p : table_.all()) {
      const float* const theirs = kind == TensorKind::kWeight || p.trainable ? other(p) : nullptr;
      if (theirs == nullptr) continue;
      check_interrupt();
      values_.resize(static_cast<size_t>(p.size));
      ranks_.tensors().get(kind, p.name, values_.data(), values_.size() * sizeof(float));
      ++tensors_, elements_ += p.size;
      for (int64_t i = 0; i < p.size && difference_.is_null(); ++i) {
        const float ours = values_[static_cast<size_t>(i)];
        if (std::memcmp(&ours, &theirs[i], sizeof(float)) != 0)
          difference_ = {{"step", step}, {"what", what},  {"tensor", p.name},
                         {"index", i},   {"ranks", ours}, {other_, theirs[i]}};
      }
    }
  }

  /// Compares the norm with that of the gradients that the ranks return, because the gradients may be right
  /// although the norm counts other bytes, or counts some bytes twice.
  void norm(int64_t step, double grad_norm) {
    double squares = 0;
    for (const nn::Parameter& p : table_.all()) {
      if (!p.trainable) continue;
      values_.resize(static_cast<size_t>(p.size));
      ranks_.tensors().get(TensorKind::kGradient, p.name, values_.data(), values_.size() * sizeof(float));
      for (const float g : values_) squares += static_cast<double>(g) * static_cast<double>(g);
    }
    with("gradients");
    number(step, "grad_norm", grad_norm, std::sqrt(squares), 1e-12);
  }

  const OrderedJson& difference() const { return difference_; }
  int64_t tensors() const { return tensors_; }
  int64_t elements() const { return elements_; }

 private:
  const Trainer& ranks_;
  const nn::ParameterTable& table_;
  const char* other_ = "";
  std::vector<float> values_;
  OrderedJson difference_;
  int64_t tensors_ = 0, elements_ = 0;
};

/// Returns the settings, by pointer, with which plain data parallelism sums in the order of `config`.
OrderedJson plain_settings(const config::ResolvedConfig& config) {
  const parallel::Strategies strategies = strategies_of(config);
  const parallel::DataParallelStrategy& data = strategies.form().data;
  OrderedJson plain = {{"/mesh/dp_replicate", 1}, {"/mesh/dp_shard", config.mesh.dp()}, {"/zero/stage", 0}};
  if (strategies.stages() > 1) plain["/mesh/pp"] = 1;
  if (!data.tree) plain["/comm/sum_group"] = data.summed_first();
  return plain;
}

/// The same ranks with full copies of everything: nothing is sharded or gathered.
class PlainRanks {
 public:
  PlainRanks(const config::ConfigTree& config, const config::ResolvedConfig& resolved) {
    OrderedJson json = parse_json<OrderedJson>(config.to_json());
    for (const char* key : {"reshard_after_forward", "reshard_group", "prefetch"}) json["zero"].erase(key);
    json.erase("pipeline");
    const OrderedJson settings = plain_settings(resolved);
    for (const auto& [pointer, value] : settings.items()) json[OrderedJson::json_pointer(pointer)] = value;
    const int64_t ranks = resolved.mesh.world() / strategies_of(resolved).stages();
    trainer_ = Trainer::create(config::ConfigTree::from_json(json.dump()), false, &cancel_,
                               comm::make_local(static_cast<int32_t>(ranks)));
  }

  StepResult forward_backward(const BatchView& batch) {
    trainer_->push(batch);
    return trainer_->forward_backward();
  }
  void commit() { trainer_->commit(); }

  const float* tensor(TensorKind kind, const nn::Parameter& p) {
    values_.resize(static_cast<size_t>(p.size));
    trainer_->tensors().get(kind, p.name, values_.data(), values_.size() * sizeof(float));
    return values_.data();
  }

 private:
  std::atomic<bool> cancel_{false};
  std::unique_ptr<Trainer> trainer_;
  std::vector<float> values_;
};

/// Returns the largest deviation from f64 over all tensors, relative to the largest element of each.
double distance(const SerialReplay& one, const SerialReplay::Orders& orders, const GroupGradients& sums) {
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

/// Compares the gradients of a model-parallel layout with those of one rank (promise L4). The layout adds in
/// another order, so the bits may differ.
class Envelope {
 public:
  Envelope(const Trainer& ranks, const nn::ParameterTable& table, bool narrow)
      : ranks_(ranks), table_(table), floor_(narrow ? 0x1p-7 : 4e-6) {}

  /// Compares the gradients of the first step, whose norm is `grad_norm`. one(p) returns those of one rank.
  /// The floor includes a part of the norm, because a gradient that is zero except for rounding (such as that
  /// of a key's bias) has no length of its own.
  template <typename One>
  void compare(const std::map<std::string, double>& twin, const std::vector<double>& f64, double grad_norm,
               One one) {
    constexpr double kNoise = 0.1;
    const FlatLayout layout(table_);
    std::vector<float> values;
    for (const nn::Parameter& p : table_.all()) {
      if (!p.trainable) continue;
      values.resize(static_cast<size_t>(p.size));
      ranks_.tensors().get(TensorKind::kGradient, p.name, values.data(), values.size() * sizeof(float));
      const float* const alone = one(p);
      const double* const exact = f64.data() + layout.at(p);
      const double floor = floor_ * (length_of(alone, p.size) + kNoise * grad_norm);
      const double rounding = difference_of(alone, exact, p.size);
      to_one_rank_.add(p.name, difference_of(values.data(), alone, p.size),
                       std::max(2 * twin.at(p.name), 3 * rounding) + floor);
      to_f64_.add(p.name, difference_of(values.data(), exact, p.size), 2 * rounding + floor);
    }
  }
  bool holds() const { return to_one_rank_.holds() && to_f64_.holds(); }
  OrderedJson to_one_rank() const { return to_one_rank_.json(); }
  OrderedJson to_f64() const { return to_f64_.json(); }

 private:
  const Trainer& ranks_;
  const nn::ParameterTable& table_;
  const double floor_;
  Margin to_one_rank_, to_f64_;
};

/// Runs the proof: real ranks, the serial replay, and plain data parallelism.
class Proof {
 public:
  explicit Proof(const config::ConfigTree& small)
      : config_(assemble(small).config),
        ranks_(Trainer::create(small, false, &cancel_, comm::make_local(static_cast<int32_t>(world())))),
        one_(std::make_unique<SerialReplay>(small)),
        plain_(small, config_),
        compare_(*ranks_, one_->table()),
        envelope_(*ranks_, one_->table(), rounds_to_bf16()) {
    ranks_->ranks().on_each([](Rank& rank, int32_t) { rank.executor().fill_new_slots(); });
  }

  int64_t world() const { return config_.mesh.world(); }

  void step(int64_t number) {
    const RandomBatch batch(config_, number - 1, consumed_);
    consumed_ += batch.view.rows;
    SerialReplay::Orders orders;
    if (number == 1) orders = one_->sum_orders(batch.view);
    std::map<std::string, double> twin;
    std::vector<double> f64;
    if (number == 1 && !alike())
      twin = one_->twin_distances(batch.view), f64 = one_->f64_gradients(batch.view, &router_margin_);
    ranks_->push(batch.view);
    const StepResult result = ranks_->forward_backward();
    const SerialReplay::Step played = one_->forward_backward(batch.view);
    const StepResult plain = plain_.forward_backward(batch.view);
    compare_.norm(number, result.grad_norm);
    grad_norms_.push_back(result.grad_norm);
    const double clip = config_.optimizer.clip_norm;
    clipped_steps_ += clip > 0 && result.grad_norm > clip ? 1 : 0;
    const auto played_gradient = [&](const nn::Parameter& p) { return one_->gradient(played.sums, p); };
    if (alike()) {
      compare_.with("one_rank");
      compare_numbers(number, result, played.loss, played.grad_norm, played.tokens, 1e-12);
      compare_.tensors(number, TensorKind::kGradient, "gradient", played_gradient);
    } else if (number == 1) {
      envelope_.compare(twin, f64, played.grad_norm, played_gradient);
      moved_ = rerouted_choices(config_.model, ranks_->ranks().first().executor().tallies(),
                                one_->tallies().data());
    }
    compare_.with("plain");
    compare_numbers(number, result, plain.loss, plain.grad_norm, plain.tokens, 0);
    compare_.tensors(number, TensorKind::kGradient, "gradient",
                     [&](const nn::Parameter& p) { return plain_.tensor(TensorKind::kGradient, p); });
    if (number == 1)
      distances_ = {{"ranks", distance(*one_, orders, played.sums)},
                    {"ascending", distance(*one_, orders, orders.ascending)},
                    {"descending", distance(*one_, orders, orders.descending)}};
    ranks_->commit(), one_->commit(played, result.grad_norm), plain_.commit();
    compare_state(number);
  }

  bool holds() const { return compare_.difference().is_null() && envelope_.holds(); }

  OrderedJson report() const {
    return {{"equal", holds()},
            {"first_difference", compare_.difference()},
            {"ranks", world()},
            {"tensors", compare_.tensors()},
            {"elements", compare_.elements()},
            {"grad_norms", grad_norms_},
            {"clipped_steps", clipped_steps_},
            {"distance_to_f64", distances_},
            {"distance_to_one_rank", alike() ? OrderedJson() : envelope_.to_one_rank()},
            {"distance_to_f64_model", alike() ? OrderedJson() : envelope_.to_f64()},
            {"choices_of_experts", choices()}};
  }

 private:
  OrderedJson choices() const {
    if (alike() || config_.model.moe.experts == 0) return nullptr;
    OrderedJson json = {{"least_margin", nullptr}, {"moved", moved_}};  // no margin: all experts are chosen
    if (std::isfinite(router_margin_)) json["least_margin"] = router_margin_;
    return json;
  }

  /// True if activations, or gradients in transfer, have 8 significant bits.
  bool rounds_to_bf16() const {
    return compute_type(config_) != DType::kF32 || config_.zero.gradient_type != DType::kF32;
  }
  /// True if each rank computes its blocks alone, as one rank does.
  bool alike() const { return !ranks_->ranks().strategies().form().shares_blocks; }

  void compare_numbers(int64_t step, const StepResult& ranks, double loss, double norm, int64_t tokens,
                       double tolerance) {
    compare_.number(step, "tokens", static_cast<double>(ranks.tokens), static_cast<double>(tokens), 0);
    compare_.number(step, "loss", ranks.loss, loss, 0);
    compare_.number(step, "grad_norm", ranks.grad_norm, norm, tolerance);
  }

  void compare_state(int64_t step) {
    for (size_t i = 0; i < plan::kStateCount; ++i)
      compare_tensors(step, kind_of_state(i), plan::kStates[i].label);
    compare_tensors(step, TensorKind::kWeight, "weight");
  }

  void compare_tensors(int64_t step, TensorKind kind, const char* what) {
    compare_.with("one_rank");
    if (alike())
      compare_.tensors(step, kind, what, [&](const nn::Parameter& p) {
        return one_->state(kind, p, &state_) ? state_.data() : nullptr;
      });
    compare_.with("plain");
    compare_.tensors(step, kind, what, [&](const nn::Parameter& p) {
      return one_->state(kind, p, &state_) ? plain_.tensor(kind, p) : nullptr;
    });
  }

  const config::ResolvedConfig config_;
  std::atomic<bool> cancel_{false};
  const std::unique_ptr<Trainer> ranks_;
  const std::unique_ptr<SerialReplay> one_;
  PlainRanks plain_;
  Comparison compare_;
  Envelope envelope_;
  OrderedJson distances_;
  double router_margin_ = 0;
  int64_t moved_ = 0, consumed_ = 0;
  std::vector<double> grad_norms_;
  int64_t clipped_steps_ = 0;
  std::vector<float> state_;
};

}  // namespace

std::string prove_layout(const config::ConfigTree& config, int64_t steps) {
  const config::ResolvedConfig whole = assemble(config).config;
  if (whole.mesh.world() < 2)
    fail(Code::kConfigInvalid,
         "/mesh has one rank: there is no layout to prove; set /mesh/dp_shard or another axis to 2 or more");
  if (whole.moe.capacity_factor > 0 && strategies_of(whole).form().shares_rows)
    fail(Code::kConfigInvalid,
         "/moe/dispatch \"capacity\" drops different tokens on one rank than on the {} that compute a row "
         "together (/mesh/tp times /mesh/cp), so results cannot be compared; use \"dropless\" to prove the "
         "layout",
         strategies_of(whole).ranks_of_row());
  std::string changes;
  Proof proof(shrink_for_proof(config, &changes));
  for (int64_t step = 1; step <= steps && proof.holds(); ++step) proof.step(step);
  OrderedJson json = proof.report();
  json["steps"] = steps;
  json["same_bits"] = plain_settings(whole);
  json["shrunk"] = parse_json<OrderedJson>(changes);
  return json.dump();
}

}  // namespace hawser::train
