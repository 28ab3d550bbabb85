// Tests what `hawser plan` prints about offload: the closed forms of the moved bytes, evaluated from their
// text, give the bytes of the plan's copies, for random models, precisions, meshes and stages.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>
#include <regex>
#include <string>

#include "engine/assembly/assemble.h"
#include "engine/assembly/engine_plans.h"
#include "engine/base/error.h"
#include "engine/config/config_tree.h"
#include "engine/report/offload_report.h"
#include "engine/report/plan_report.h"
#include "tests/harness/layout_run.h"
#include "tests/harness/random_config.h"

namespace hawser::testing {
namespace offload_report_test {

using Json = nlohmann::json;

/// Evaluates a text of numbers, + and ·, with parentheses around sums. Words have no value.
class Value {
 public:
  static int64_t of(std::string text) {
    text = std::regex_replace(text, std::regex(" bytes that blocks [0-9]+ to [0-9]+"), "");
    const std::regex fraction("([0-9]+\\.[0-9]+) bytes for each of ([0-9]+)");  // state in 8 bits
    for (std::smatch m; std::regex_search(text, m, fraction);) {
      const double product = std::stod(m[1]) * std::stod(m[2]);  // exact: the fractions are eighths
      text = m.prefix().str() + std::to_string(static_cast<int64_t>(product)) + m.suffix().str();
    }
    text = std::regex_replace(text, std::regex(" bytes for each of "), "*");
    text = std::regex_replace(text, std::regex("·"), "*");
    text = std::regex_replace(text, std::regex("fp32|bf16"), "");
    text = std::regex_replace(text, std::regex("[^0-9+*()]"), "");
    Value v(text);
    const int64_t value = v.sum();
    EXPECT_EQ(v.at_, text.size()) << text;
    return value;
  }

 private:
  explicit Value(const std::string& text) : text_(text) {}

  bool takes(char c) { return at_ < text_.size() && text_[at_] == c && ++at_ > 0; }
  int64_t sum() {
    int64_t value = product();
    while (takes('+')) value += product();
    return value;
  }
  int64_t product() {
    int64_t value = factor();
    while (takes('*')) value *= factor();
    return value;
  }
  int64_t factor() {
    if (takes('(')) {
      const int64_t value = sum();
      EXPECT_TRUE(takes(')')) << text_;
      return value;
    }
    char* end = nullptr;
    const int64_t value = std::strtoll(text_.c_str() + at_, &end, 10);
    EXPECT_NE(end, text_.c_str() + at_) << text_;
    at_ = static_cast<size_t>(end - text_.c_str());
    return value;
  }

  const std::string& text_;
  size_t at_ = 0;
};

struct Bytes {
  int64_t out, back;
  bool operator==(const Bytes&) const = default;
};
void PrintTo(const Bytes& b, std::ostream* to) { *to << b.out << " out, " << b.back << " back"; }

Bytes evaluate(const std::string& formula) {
  const size_t cut = formula.find(" out; "), both = formula.find(", out and back");
  if (cut != std::string::npos)
    return {Value::of(formula.substr(0, cut)), Value::of(formula.substr(cut + 6))};
  EXPECT_NE(both, std::string::npos) << formula;
  const int64_t value = Value::of(formula.substr(0, both));
  return {value, value};
}

TEST(OffloadFormulas, AreEvaluated) {
  EXPECT_EQ(evaluate("12 bytes for each of 10 parameters with a master + 8 bytes for each of 3 parameters in "
                     "fp32 + 40 of alignment, out and back"),
            (Bytes{184, 184}));
  EXPECT_EQ(evaluate("2.125 bytes for each of 64 parameters in fp32, out and back"), (Bytes{136, 136}));
  EXPECT_EQ(evaluate("7 bytes of trained blocks out; 2 micro-batches · (5 + 2·3) + 7 back"), (Bytes{7, 29}));
  EXPECT_EQ(
      evaluate("3 micro-batches · (10 bytes that blocks 1 to 4 save + 2 of their inputs), out and back"),
      (Bytes{36, 36}));
}

/// True if weights are used or gathered again so soon that a fetch serves two uses: of a model with hardly
/// more blocks than are gathered ahead, or of a tied head without a backward between it and the next look-up.
bool shares_fetches(const config::ResolvedConfig& config, const nn::Model& model) {
  return (config.zero.stage == 3 && config.model.layers <= config.zero.prefetch) ||
         (model.local().loss_reads_table() && model.first_trainable_block() > config.model.layers);
}

/// Compares the forms of all stages of a pipeline with the plans. Returns the number of forms, or none if the
/// config is refused.
std::optional<int64_t> compare(const Json& json) {
  std::optional<train::Assembly> assembled;
  try {
    assembled = train::assemble(config::ConfigTree::from_json(json.dump()));
  } catch (const Error&) {
    return {};
  }
  const config::ResolvedConfig& config = assembled->config;
  const nn::Model model = train::model_of(config);
  train::Target target;
  target.kernels = &train::choose_kernels(config);
  const parallel::Strategies strategies = train::strategies_of(config);
  int64_t forms = 0, stage = 0;
  for (const train::EnginePlans& plans : train::make_stage_plans(model, config, target, false)) {
    const parallel::ShardLayout layout(
        model.table(),
        train::layout_options(config, strategies, plans.strategy, strategies.first_of_stage(stage++), false));
    for (const parallel::Moves& m : train::moves_in_step(plans, layout, model, config)) {
      if (!m.formula.empty()) {
        EXPECT_EQ(evaluate(m.formula), (Bytes{m.out, m.back})) << m.formula << '\n' << json;
        ++forms;
        continue;
      }
      const bool segments = config.recompute.remakes.any() && config.recompute.every > 1;
      EXPECT_TRUE(m.cargo == plan::Cargo::kActivations ? config.mesh.pp > 1 || segments
                  : m.cargo == plan::Cargo::kWeights   ? config.mesh.pp > 1 || shares_fetches(config, model)
                                                       : false)
          << "no form of cargo " << static_cast<int>(m.cargo) << '\n'
          << json;
    }
  }
  return forms;
}

TEST(OffloadFormulas, GiveTheBytesOfThePlan) {
  size_t compared = 0;
  int64_t forms = 0;
  const std::vector<uint64_t> seeds = random_seeds(200);
  for (const uint64_t seed : seeds) {
    Json config = Json::parse(random_config(seed));
    config["offload"] = {{"folder", "."},
                         {"activations", "disk"},
                         {"optimizer", "disk"},
                         {"parameters", "disk"},
                         {"prefetch", 1 + seed % 3}};
    const std::optional<int64_t> found = compare(config);
    if (!found) continue;
    ++compared, forms += *found;
  }
  EXPECT_GT(4 * compared, 3 * seeds.size());
  EXPECT_GT(forms, 2 * static_cast<int64_t>(compared));
}

TEST(OffloadFormulas, GiveTheBytesOfAnAdapterOnABaseOf4Bits) {
  for (const char* adapter : {R"({"rank": 3, "base": "nf4", "dora": true})", R"({"rank": 2})"})
    for (const char* precision : {"fp32", "bf16"})
      for (const int64_t stage : {0, 1, 3}) {
        Problem problem;
        problem.adapter = adapter;
        Layout layout;
        layout.dp_shard = 2, layout.stage = stage, layout.accumulation = 3;
        Json config = Json::parse(layout_config(problem, layout));
        config["precision"] = precision;
        config["offload"] = {
            {"folder", "."}, {"activations", "disk"}, {"optimizer", "disk"}, {"parameters", "disk"}};
        EXPECT_GE(compare(config).value_or(0), 2) << config;
      }
}

TEST(OffloadReport, StatesBytesOutAndBackForEachCargo) {
  const std::string config =
      R"({"model": {"layers": 4, "heads": 2, "width": 64, "vocab_size": 96, "context": 32},
    "batch": {"micro_batch": 2, "grad_accum_steps": 2, "sequence": 16}, "precision": "bf16",
    "checkpoint": {"path": "run", "async": true},
    "offload": {"folder": ".", "activations": "disk", "optimizer": "disk", "parameters": "disk"}})";
  const Json disk =
      Json::parse(train::plan_report(config::ConfigTree::from_json(config), true))["offload"]["disk"];
  int64_t out = 0, back = 0;
  ASSERT_EQ(disk.at("moves").size(), 3u);
  for (const Json& move : disk["moves"]) {
    out += move.at("bytes_per_step").get<int64_t>();
    back += move.at("bytes_back_per_step").get<int64_t>();
    EXPECT_TRUE(move.at("closed_form").is_string()) << move;
  }
  EXPECT_EQ(out, disk.at("bytes_per_step").get<int64_t>());
  EXPECT_EQ(back, disk.at("bytes_back_per_step").get<int64_t>());
  const std::string text = train::plan_report(config::ConfigTree::from_json(config), false);
  const auto sizes = fmt::format(
      "{} of second places for asynchronous saves; in a step, {} go there and {} come back",
      plan::bytes_text(disk.at("snapshots").get<int64_t>()), plan::bytes_text(out), plan::bytes_text(back));
  EXPECT_NE(text.find(sizes), std::string::npos) << text;
  EXPECT_NE(text.find("12 bytes for each of "), std::string::npos) << text;
}

}  // namespace offload_report_test
}  // namespace hawser::testing
