// objective_check: trains one folder of reference values on an objective over log-probabilities, through the
// C API alone: hws_engine_logprobs, the objective computed here, hws_engine_backward_with. Prints error over
// tolerance per tensor.
//
//   objective_check DIR [--precision fp32|bf16|fp16] [--own] [--set POINTER=VALUE]...
//
// --own: the library computes the objective (/objective) from pairs that are pushed with the reference's
// log-probabilities.
//
// DIR is a case of preferences or of GRPO (tests/golden/README.md). Exit codes are those of golden_check.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/golden/engine_session.h"
#include "tests/golden/golden_case.h"
#include "tests/golden/objectives.h"
#include "tests/golden/report.h"
#include "tests/golden/safetensors_file.h"

namespace hawser::golden {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

struct Arguments {
  std::string folder, precision = "fp32";
  bool own = false;
  Json set = Json::object();  // values by pointer

  int64_t degree(const char* axis) const { return set.value(std::string("/mesh/") + axis, int64_t{1}); }
  int64_t data_ranks() const { return degree("dp_replicate") * degree("dp_shard"); }
  int32_t ranks() const {
    return static_cast<int32_t>(data_ranks() * degree("cp") * degree("tp") * degree("pp"));
  }
};

/// Reads the rows of every step. A target counts if it belongs to an answer.
std::vector<TokenBatch> read_steps(const Tensors& tensors) {
  const StoredTensor& ids = tensors.at("input_ids");
  const int64_t rows = ids.shape.at(1), cols = ids.shape.at(2);
  const std::vector<int32_t> tokens = ids.as_int32(), mask = tensors.at("completion_mask").as_int32();
  std::vector<TokenBatch> steps;
  const auto size = static_cast<size_t>(rows * cols);
  for (size_t begin = 0; begin < tokens.size(); begin += size) {
    TokenBatch batch{rows, cols, {}, std::vector<int32_t>(size, -100), {}, {}};
    for (size_t i = 0; i < size; ++i) {
      batch.tokens.push_back(tokens[begin + i]);
      if ((i + 1) % static_cast<size_t>(cols) != 0 && mask[begin + i + 1] != 0)
        batch.targets[i] = tokens[begin + i + 1];
    }
    steps.push_back(std::move(batch));
  }
  return steps;
}

/// Returns the library's name of an objective.
std::string kind_of(const std::string& name) {
  return name == "sigmoid" ? "dpo" : name == "sigmoid_sft" ? "dpo_sft" : name;
}

/// Returns rows in the library's order, in which the two answers of a pair are adjacent. Here all chosen rows
/// come first.
TokenBatch in_pairs(const TokenBatch& batch, const std::vector<double>& references) {
  TokenBatch pairs{batch.rows, batch.cols, {}, {}, {}, {}};
  for (int64_t i = 0; i < batch.rows; ++i) {
    const int64_t row = i / 2 + (i % 2) * batch.rows / 2, begin = row * batch.cols;
    const auto append = [&](std::vector<int32_t>* to, const std::vector<int32_t>& from) {
      to->insert(to->end(), from.begin() + begin, from.begin() + begin + batch.cols);
    };
    append(&pairs.tokens, batch.tokens), append(&pairs.targets, batch.targets);
    if (!references.empty())
      pairs.references.push_back(static_cast<float>(references[static_cast<size_t>(row)]));
  }
  return pairs;
}

std::string config_of(const Arguments& arguments, const std::string& model, const TokenBatch& batch,
                      const std::string& objective = "") {
  const int64_t split = arguments.set.value("/batch/grad_accum_steps", int64_t{1}) * arguments.data_ranks();
  Json config = {{"init", {{"from", model}}},
                 {"precision", arguments.precision},
                 {"device", "cpu"},
                 {"model", {{"dropout", {{"embedding", 0.0}, {"attention", 0.0}, {"residual", 0.0}}}}},
                 {"batch", {{"micro_batch", batch.rows / split}, {"sequence", batch.cols}}},
                 {"optimizer",
                  {{"kind", "adamw"},
                   {"learning_rate", 2e-3},
                   {"beta1", 0.9},
                   {"beta2", 0.95},
                   {"eps", 1e-8},
                   {"weight_decay", 0.1},
                   {"clip_norm", 1.0}}},
                 {"schedule", {{"kind", "constant"}, {"warmup_steps", 0}}}};
  if (arguments.precision == "fp16") config["loss_scale"]["fixed"] = 256;  // no step may overflow
  if (fs::exists(arguments.folder + "/adapter"))
    config["adapter"] = {{"from", arguments.folder + "/adapter"}};
  if (!objective.empty()) config["objective"] = {{"kind", kind_of(objective)}};
  for (const auto& [pointer, value] : arguments.set.items()) config[Json::json_pointer(pointer)] = value;
  return config.dump();
}

/// Returns the log-probabilities of each step's answers under the model in a folder.
std::vector<std::vector<float>> logps_under(const Arguments& arguments, const std::string& folder,
                                            const std::vector<TokenBatch>& steps) {
  EngineSession engine(config_of(arguments, folder, steps.front()), arguments.ranks());
  std::vector<std::vector<float>> all;
  for (const TokenBatch& batch : steps) all.push_back(engine.logprobs(batch));
  return all;
}

/// Copies a model's files without the reference values next to them, which an import of a published model
/// does not expect.
std::string model_in(const std::string& folder, const std::string& scratch, const char* name) {
  const std::string to = scratch + "/" + name;
  fs::create_directory(to);
  for (const char* file : {"config.json", "model.safetensors"})
    fs::copy_file(folder + "/" + file, to + "/" + file);
  return to;
}

class Check {
 public:
  Check(const Arguments& arguments, const std::string& scratch, Report* report)
      : arguments_(arguments),
        tensors_(read_safetensors(arguments.folder + "/case.safetensors")),
        tolerances_(arguments.folder, arguments.precision),
        steps_(read_steps(tensors_)),
        policy_(model_in(arguments.folder, scratch, "policy")),
        engine_(config_of(arguments, policy_, steps_.front()), arguments.ranks()),
        report_(*report) {
    if (fs::exists(arguments.folder + "/reference"))
      reference_ =
          logps_under(arguments, model_in(arguments.folder + "/reference", scratch, "reference"), steps_);
    if (fs::exists(arguments.folder + "/old"))
      old_ = logps_under(arguments, model_in(arguments.folder + "/old", scratch, "old"), steps_);
  }

  void run() {
    if (tensors_.contains("scores")) return run_reward();
    if (arguments_.own) return run_own();
    if (old_.empty()) {
      for (const char* name : {"ipo", "hinge", "sigmoid_sft", "simpo", "orpo"})
        first_step(name, [&](const Answers& a) { return preference(name, a, a.sums(reference_[0])); });
    } else {
      first_step("per_sequence",
                 [&](const Answers& a) { return grpo(a, advantages(0), old_[0], reference_[0], true); });
    }
    train();
  }

 private:
  /// Computes the same objectives through /objective, with one engine each.
  void run_own() {
    for (const char* name : {"ipo", "hinge", "sigmoid_sft", "simpo", "orpo"}) {
      if (!tensors_.contains(name + std::string(".loss"))) continue;
      EngineSession engine(config_of(arguments_, policy_, steps_.front(), name), arguments_.ranks());
      compare(name + std::string(".loss"), {engine.forward_backward(pairs(0, name)).loss});
      compare_tensors(engine, name + std::string(".grad."), HWS_TENSOR_GRADIENT);
    }
    EngineSession engine(config_of(arguments_, policy_, steps_.front(), "sigmoid"), arguments_.ranks());
    std::vector<double> losses, norms, chosen, rejected;
    for (size_t step = 0; step < steps_.size(); ++step) {
      const hws_step_result result = engine.forward_backward(pairs(step, "sigmoid"));
      losses.push_back(result.loss), norms.push_back(result.grad_norm);
      if (step == 0) compare_tensors(engine, "grad.", HWS_TENSOR_GRADIENT);
      engine.commit();
      const Json rewards = Json::parse(engine.metrics())["preferences"];
      chosen.push_back(rewards["chosen_reward"]), rejected.push_back(rewards["rejected_reward"]);
      report_.require("margin", rewards["margin"] == chosen.back() - rejected.back(), rewards.dump());
      if (arguments_.precision == "fp32")  // rounding may reorder two nearly equal rewards
        report_.require("accuracy", rewards["accuracy"] == accuracy(step), rewards.dump());
    }
    compare("losses", losses);
    compare("grad_norms", norms);
    report_.compare("chosen_rewards", relative_error(chosen, step_means("chosen_rewards")),
                    tolerances_.of("chosen_rewards"));
    report_.compare("rejected_rewards", relative_error(rejected, step_means("rejected_rewards")),
                    tolerances_.of("rejected_rewards"));
    compare_tensors(engine, "after.", HWS_TENSOR_WEIGHT);
  }

  /// Tests a score model; its folder determines the objective.
  void run_reward() {
    std::vector<double> losses, norms, scores;
    for (size_t step = 0; step < steps_.size(); ++step) {
      const std::vector<double> of_rows = scores_of(steps_[step]);
      scores.insert(scores.end(), of_rows.begin(), of_rows.end());
      const hws_step_result result = engine_.forward_backward(in_pairs(steps_[step], {}));
      losses.push_back(result.loss), norms.push_back(result.grad_norm);
      if (step == 0) compare_tensors(engine_, "grad.", HWS_TENSOR_GRADIENT);
      engine_.commit();
      const Json rewards = Json::parse(engine_.metrics())["preferences"];
      report_.require("margin", std::abs(rewards["margin"].get<double>() - margin(of_rows)) < 1e-5,
                      rewards.dump());
    }
    compare("losses", losses), compare("grad_norms", norms), compare("scores", scores);
    compare_tensors(engine_, "after.", HWS_TENSOR_WEIGHT);
    export_unchanged();
  }

  /// Returns the score at the token of the last target of each row.
  std::vector<double> scores_of(const TokenBatch& batch) const {
    const std::vector<float> all = engine_.logits(batch, 1);
    std::vector<double> scores;
    for (int64_t row = 0; row < batch.rows; ++row) {
      int64_t at = (row + 1) * batch.cols - 1;
      while (batch.targets[static_cast<size_t>(at - 1)] == -100) --at;
      scores.push_back(static_cast<double>(all[static_cast<size_t>(at)]));
    }
    return scores;
  }
  static double margin(const std::vector<double>& scores) {
    const size_t pairs = scores.size() / 2;
    double sum = 0;
    for (size_t pair = 0; pair < pairs; ++pair) sum += scores[pair] - scores[pairs + pair];
    return sum / static_cast<double>(pairs);
  }

  /// Checks that an export of the folder is identical to it.
  void export_unchanged() {
    const std::string to = policy_ + "_again";
    EngineSession(config_of(arguments_, policy_, steps_.front()), arguments_.ranks()).export_to(to, "");
    for (const char* file : {"config.json", "model.safetensors"})
      report_.require(file, bytes_of(to + "/" + file) == bytes_of(policy_ + "/" + file),
                      "differs after an export");
  }
  static std::string bytes_of(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  TokenBatch pairs(size_t step, const std::string& name) const {
    const TokenBatch& batch = steps_[step];
    if (name == "simpo" || name == "orpo") return in_pairs(batch, {});
    const Answers answers{batch.rows, batch.cols, batch.targets, {}};
    if (!reference_.empty()) return in_pairs(batch, answers.sums(reference_[step]));
    return in_pairs(batch, of_step("reference_logps", step));
  }

  /// Returns the case's values of a step: one per pair, or per row.
  std::vector<double> of_step(const char* name, size_t step) const {
    const std::vector<double> all = tensors_.at(name).as_doubles();
    const auto each = static_cast<std::ptrdiff_t>(all.size() / steps_.size());
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(step) * each;
    return {begin, begin + each};
  }
  std::vector<double> step_means(const char* name) const {
    std::vector<double> means;
    for (size_t step = 0; step < steps_.size(); ++step) {
      const std::vector<double> values = of_step(name, step);
      double sum = 0;
      for (const double value : values) sum += value;
      means.push_back(sum / static_cast<double>(values.size()));
    }
    return means;
  }
  double accuracy(size_t step) const {
    const std::vector<double> chosen = of_step("chosen_rewards", step),
                              rejected = of_step("rejected_rewards", step);
    double right = 0;
    for (size_t i = 0; i < chosen.size(); ++i)
      right += chosen[i] > rejected[i] ? 1 : chosen[i] == rejected[i] ? 0.5 : 0;
    return right / static_cast<double>(chosen.size());
  }

  Answers answers(size_t step) const {
    const TokenBatch& batch = steps_[step];
    return {batch.rows, batch.cols, batch.targets, engine_.logprobs(batch)};
  }

  std::vector<double> advantages(size_t step) const {
    const std::vector<double> all = tensors_.at("advantages").as_doubles();
    const auto rows = static_cast<size_t>(steps_.front().rows);
    return {all.begin() + static_cast<std::ptrdiff_t>(step * rows),
            all.begin() + static_cast<std::ptrdiff_t>((step + 1) * rows)};
  }

  void compare(const std::string& name, const std::vector<double>& values) {
    report_.compare(name, relative_error(values, tensors_.at(name).as_doubles()), tolerances_.of(name));
  }

  void compare_tensors(const EngineSession& engine, const std::string& prefix, int32_t kind) {
    for (const auto& [name, expected] : tensors_) {
      if (!name.starts_with(prefix)) continue;
      const std::vector<float> values =
          engine.tensor(kind, name.substr(prefix.size()), static_cast<int64_t>(expected.as_doubles().size()));
      report_.compare(name, relative_error(values, expected.as_doubles()), tolerances_.of(name));
    }
  }

  /// Compares loss and gradients; weights stay unchanged.
  template <class Make>
  void first_step(const std::string& name, Make make) {
    const Objective objective = make(answers(0));
    compare(name + ".loss", {objective.loss});
    engine_.backward_with(steps_[0], objective.gradients);
    compare_tensors(engine_, name + ".grad.", HWS_TENSOR_GRADIENT);
    check(hws_engine_discard(engine_.handle(), 1, nullptr), "hws_engine_discard");
  }

  void train() {
    std::vector<double> losses, norms, chosen, rejected;
    for (size_t step = 0; step < steps_.size(); ++step) {
      const Answers a = answers(step);
      const std::vector<double> policy = a.sums(a.logps), fixed = a.sums(reference_[step]);
      const Objective objective = old_.empty()
                                      ? preference("sigmoid", a, fixed)
                                      : grpo(a, advantages(step), old_[step], reference_[step], false);
      for (size_t row = 0; row < policy.size(); ++row)
        (row < policy.size() / 2 ? chosen : rejected).push_back(kBeta * (policy[row] - fixed[row]));
      losses.push_back(objective.loss);
      norms.push_back(engine_.backward_with(steps_[step], objective.gradients).grad_norm);
      if (step == 0) compare_tensors(engine_, "grad.", HWS_TENSOR_GRADIENT);
      engine_.commit();
    }
    compare("losses", losses);
    compare("grad_norms", norms);
    if (old_.empty()) compare("chosen_rewards", chosen), compare("rejected_rewards", rejected);
    compare_tensors(engine_, "after.", HWS_TENSOR_WEIGHT);
  }

  const Arguments& arguments_;
  const Tensors tensors_;
  const Tolerances tolerances_;
  const std::vector<TokenBatch> steps_;
  std::vector<std::vector<float>> reference_;  // empty: the case has log-probabilities for its rows
  std::vector<std::vector<float>> old_;        // empty: a case of preferences
  const std::string policy_;                   // folder
  EngineSession engine_;
  Report& report_;
};

bool run(const Arguments& arguments) {
  std::string scratch = (fs::temp_directory_path() / "objective_check_XXXXXX").string();
  if (mkdtemp(scratch.data()) == nullptr) throw std::runtime_error(scratch + ": cannot be made");
  Report report;
  try {
    Check(arguments, scratch, &report).run();
  } catch (const std::exception& error) {
    report.require("the library", false, error.what());
  }
  fs::remove_all(scratch);
  report.print(arguments.folder + " " + arguments.precision +
               (arguments.set.empty() ? "" : " " + arguments.set.dump()));
  return report.passed();
}

int usage(const std::string& problem) {
  std::fprintf(stderr,
               "objective_check: %s\nusage: objective_check DIR [--precision fp32|bf16|fp16] [--own] [--set "
               "POINTER=VALUE]...\n",
               problem.c_str());
  return 2;
}

int main_with(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i], value = i + 1 < argc ? argv[i + 1] : "";
    const size_t equals = value.find('=');
    if (word == "--precision" && (value == "fp32" || value == "bf16" || value == "fp16")) {
      arguments.precision = value, ++i;
    } else if (word == "--own") {
      arguments.own = true;
    } else if (word == "--set" && value.starts_with("/") && equals != std::string::npos) {
      const std::string text = value.substr(equals + 1);
      arguments.set[value.substr(0, equals)] = Json::accept(text) ? Json::parse(text) : Json(text), ++i;
    } else if (word.starts_with("-") || !arguments.folder.empty()) {
      return usage("unexpected argument " + word + " " + value);
    } else {
      arguments.folder = word;
    }
  }
  if (!fs::exists(arguments.folder + "/case.safetensors")) return usage("which folder?");
  return run(arguments) ? 0 : 1;
}

}  // namespace
}  // namespace hawser::golden

int main(int argc, char** argv) { return hawser::golden::main_with(argc, argv); }
