#include "tests/harness/ramp_run.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <ostream>

#include "engine/assembly/assemble.h"
#include "engine/base/error.h"
#include "engine/base/hash.h"
#include "engine/base/philox.h"
#include "engine/comm/comm.h"
#include "engine/config/config_tree.h"
#include "tests/harness/teacher_rows.h"

namespace hawser::testing {
namespace {

using nlohmann::json;
using train::TensorKind;

uint32_t word(uint64_t row, uint64_t place) { return philox(11, row, place).v[0]; }

/// Rows from position `first` on. Of pairs each answer has a target, and the last column has none, because a
/// score is read at the token that a target names.
struct PushedRows {
  std::vector<int32_t> tokens, targets;
  std::vector<float> references;
  TeacherRows teacher;

  PushedRows(const config::ResolvedConfig& c, int64_t first, int64_t rows) : teacher(c, first, rows) {
    const bool pairs = c.objective.weighs_targets();
    const int64_t cols = c.batch.sequence;
    for (int64_t i = 0; i < rows; ++i) {
      const auto row = static_cast<uint64_t>(first + i);
      for (int64_t t = 0; t < cols; ++t) {
        const auto place = static_cast<uint64_t>(t);
        const bool learned = pairs ? t + 1 < cols && (t == 0 || word(row, 3 * place) % 3 > 0)
                                   : (i == 0 && t == 0) || word(row, 3 * place) % 3 > 0;
        const auto words = static_cast<uint32_t>(c.model.vocab_size);
        tokens.push_back(static_cast<int32_t>(word(row, 3 * place + 1) % words));
        targets.push_back(learned ? static_cast<int32_t>(word(row, 3 * place + 2) % words) : -100);
      }
      if (c.objective.has_reference()) references.push_back(-static_cast<float>(word(row, 1u << 20) % 64));
    }
  }
  train::BatchView view(int64_t rows, int64_t cols) const {
    train::BatchView view;
    view.rows = rows, view.cols = cols;
    view.tokens = tokens.data(), view.targets = targets.data();
    view.references = references.empty() ? nullptr : references.data();
    teacher.add_to(&view);
    return view;
  }
};

uint64_t hash_of(const train::Trainer& trainer, TensorKind kind, const std::string& name, size_t count) {
  std::vector<float> values(count);
  trainer.tensors().get(kind, name, values.data(), count * sizeof(float));
  Hash hash;
  hash.add(std::string_view(reinterpret_cast<const char*>(values.data()), count * sizeof(float)));
  return hash.value();
}

/// Calls fn(name, hash) for every tensor of the kind.
template <class Fn>
void each_tensor(const train::Trainer& trainer, TensorKind kind, Fn fn) {
  for (const json& t : json::parse(trainer.tensors().json())) {
    const auto name = t.at("name").get<std::string>();
    if (trainer.tensors().keeps(kind, trainer.ranks().table().at(name)))
      fn(name, hash_of(trainer, kind, name, t.at("count").get<size_t>()));
  }
}

bool is_valid(const json& config) {
  try {
    train::assemble(config::ConfigTree::from_json(config.dump()));
    return true;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kConfigInvalid) << error.message();
    return false;
  }
}

}  // namespace

json with_micro_batches(json config, int64_t micro_batches) {
  json& batch = config["batch"];
  for (const char* key : {"global_batch", "ramp"}) batch.erase(key);
  batch["grad_accum_steps"] = micro_batches;
  return config;
}

json with_ramp(json config, const RampSizes& sizes) {
  const json mesh = config.value("mesh", json::object());
  json& batch = config["batch"];
  const int64_t rows = batch.at("micro_batch").get<int64_t>() * mesh.value("dp_replicate", int64_t{1}) *
                       mesh.value("dp_shard", int64_t{1});
  for (const char* key : {"global_batch", "grad_accum_steps"}) batch.erase(key);
  batch["ramp"] = json::array();
  int64_t begin = 0, from = 0;
  for (const int64_t size : sizes) {
    batch["ramp"].push_back({{"from_rows", from}, {"global_batch", size * rows}});
    from = begin + size * rows + 1;
    begin += 2 * size * rows;
  }
  return config;
}

std::optional<RampSizes> draw_sizes(const json& config, size_t count, uint64_t seed) {
  for (uint64_t attempt = 0; attempt < 40; ++attempt) {
    RampSizes sizes;
    for (uint64_t i = 0; i < count; ++i) sizes.push_back(1 + philox(seed, attempt, i).v[0] % 8);
    const bool differ = std::ranges::adjacent_find(sizes, std::not_equal_to<>()) != sizes.end();
    if (differ && is_valid(with_ramp(config, sizes))) return sizes;
  }
  return std::nullopt;
}

RampRun::RampRun(const json& config) {
  const config::ConfigTree tree = config::ConfigTree::from_json(config.dump());
  const int64_t world = train::assemble(tree).config.mesh.world();
  trainer_ = train::Trainer::create(tree, false, &cancel_,
                                    world > 1 ? comm::make_local(static_cast<int32_t>(world)) : nullptr);
  trainer_->ranks().on_each([](train::Rank& rank, int32_t) { rank.executor().fill_new_slots(); });
}

RampRun::Step RampRun::step() {
  const config::ResolvedConfig& c = trainer_->config();
  const int64_t rows = trainer_->next_rows(), cols = c.batch.sequence;
  const int64_t first = json::parse(trainer_->reports().info_json()).at("samples").get<int64_t>();
  const PushedRows pushed(c, first, rows);
  trainer_->push(pushed.view(rows, cols));
  const train::StepResult result = trainer_->forward_backward();
  Hash gradients;
  each_tensor(*trainer_, TensorKind::kGradient,
              [&](const std::string&, uint64_t hash) { gradients.add(hash); });
  const bool overflows = trainer_->config().precision == config::Precision::kFp16 &&
                         !(std::isfinite(result.grad_norm) && std::isfinite(result.loss));
  const train::StepResult end = overflows ? trainer_->discard(false) : trainer_->commit();
  Step step{result.rows, end.samples,      result.tokens,
            result.loss, result.grad_norm, fmt::format("{:016x}", gradients.value()),
            ""};
  const json metrics = json::parse(trainer_->metrics().json());
  for (const char* key : {"experts", "preferences"})
    if (metrics.contains(key)) step.loads += metrics.at(key).dump();
  return step;
}

std::vector<RampRun::Step> RampRun::steps(int count) {
  std::vector<Step> all;
  for (int i = 0; i < count; ++i) all.push_back(step());
  return all;
}

std::map<std::string, uint64_t> RampRun::tensors() const {
  std::map<std::string, uint64_t> all;
  const auto add = [&](TensorKind kind) {
    each_tensor(*trainer_, kind, [&](const std::string& name, uint64_t hash) {
      all[fmt::format("{} {}", static_cast<int32_t>(kind), name)] = hash;
    });
  };
  add(TensorKind::kWeight);
  for (size_t i = 0; i < plan::kStateCount; ++i) add(train::kind_of_state(i));
  return all;
}

std::ostream& operator<<(std::ostream& out, const RampRun::Step& s) {
  return out << fmt::format("{} rows to {}, {} tokens, loss {:.17g}, norm {:.17g}, gradients {} {}", s.rows,
                            s.samples, s.tokens, s.loss, s.grad_norm, s.gradients, s.loads);
}

}  // namespace hawser::testing
