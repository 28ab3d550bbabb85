// Implements golden_case.h.
#include "tests/golden/golden_case.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <stdexcept>

namespace hawser::golden {
namespace {

constexpr int32_t kMasked = -100;

const StoredTensor& at(const Tensors& tensors, const std::string& name, size_t dims) {
  const auto found = tensors.find(name);
  if (found == tensors.end()) throw std::runtime_error("the case has no tensor " + name);
  if (found->second.shape.size() != dims) {
    throw std::runtime_error(name + " has shape " + shape_text(found->second.shape));
  }
  return found->second;
}

/// Returns the tensors whose name starts with `prefix`, without the prefix.
std::map<std::string, StoredTensor> with_prefix(const Tensors& tensors, const std::string& prefix) {
  std::map<std::string, StoredTensor> found;
  for (const auto& [name, tensor] : tensors) {
    if (name.starts_with(prefix)) found.emplace(name.substr(prefix.size()), tensor);
  }
  return found;
}

/// Converts labels to targets: a label is at its own token's position, a target at the position that predicts
/// it.
std::vector<int32_t> shift_left(const std::vector<int32_t>& labels, int64_t cols) {
  std::vector<int32_t> targets(labels.size(), kMasked);
  for (size_t i = 0; i < labels.size(); ++i) {
    if (static_cast<int64_t>(i + 1) % cols != 0) targets[i] = labels[i + 1];
  }
  return targets;
}

template <typename T>
double distance(const std::vector<T>& actual, const std::vector<double>& truth) {
  if (actual.size() != truth.size()) return std::numeric_limits<double>::infinity();
  double difference = 0, norm = 0;
  for (size_t i = 0; i < truth.size(); ++i) {
    const double delta = static_cast<double>(actual[i]) - truth[i];
    difference += delta * delta;
    norm += truth[i] * truth[i];
  }
  const double error = std::sqrt(difference) / std::max(std::sqrt(norm), 1e-30);
  return std::isfinite(error) ? error : std::numeric_limits<double>::infinity();
}

double length(const std::vector<double>& x) {
  return std::sqrt(std::inner_product(x.begin(), x.end(), x.begin(), 0.0));
}

}  // namespace

Tolerances::Tolerances(const std::string& folder, const std::string& precision)
    : path_(folder + (precision == "fp32" ? "/float32_error.json" : "/bfloat16_error.json")),
      factor_(precision == "fp32" ? 8.0 : 2.0),
      floor_(precision == "fp32" ? 4e-6 : 4e-3),
      first_step_(precision == "fp16" ? 0.25 : 1.0) {
  try {
    reference_error_ =
        nlohmann::json::parse(read_text(path_)).at("each").get<std::map<std::string, double>>();
  } catch (const nlohmann::json::exception& error) {
    throw std::runtime_error(path_ + ": " + error.what());
  }
}

double Tolerances::of(const std::string& name) const {
  const auto found = reference_error_.find(name);
  if (found == reference_error_.end()) throw std::runtime_error(path_ + ": no entry for " + name);
  const bool later =
      name.starts_with("after") || name.starts_with("merged") || name == "grad_norms" || name == "losses";
  const double tolerance = (factor_ * found->second + floor_) * (later ? 1.0 : first_step_);
  const auto noise = of_noise_.find(name);
  return noise == of_noise_.end() ? tolerance : std::max(tolerance, noise->second);
}

void Tolerances::allow_noise(const GoldenCase& golden) {
  std::map<std::string, double> lengths;
  double squares = 0;
  for (const auto& [name, gradient] : golden.first.gradients) {
    lengths[name] = length(gradient.as_doubles());
    squares += lengths[name] * lengths[name];
  }
  const double all = std::sqrt(squares), steps = static_cast<double>(golden.steps.size());
  for (const auto& [name, own] : lengths) {
    const auto after = golden.after.find(name);
    const auto error = reference_error_.find("grad." + name);
    if (after == golden.after.end() || after->second.shape.size() != 1) continue;
    if (own > 1e-9 * all && (error == reference_error_.end() || error->second < 0.05)) continue;
    if (own > 0) of_noise_["grad." + name] = floor_ * all / own;
    const double moved = 2 * steps * kLearningRate * std::sqrt(static_cast<double>(after->second.count()));
    of_noise_["after." + name] = moved / length(after->second.as_doubles());
  }
}

GoldenCase read_case(const std::string& folder) {
  const Tensors tensors = read_safetensors(folder + "/case.safetensors");
  const StoredTensor& ids = at(tensors, "input_ids", 3);
  if (at(tensors, "labels", 3).shape != ids.shape)
    throw std::runtime_error("input_ids and labels differ in shape");
  const int64_t steps = ids.shape[0], rows = ids.shape[1], cols = ids.shape[2];
  const std::vector<int32_t> tokens = ids.as_int32(), labels = at(tensors, "labels", 3).as_int32();
  GoldenCase golden;
  for (int64_t step = 0; step < steps; ++step) {
    const auto begin = static_cast<ptrdiff_t>(step * rows * cols);
    const auto end = begin + static_cast<ptrdiff_t>(rows * cols);
    golden.steps.push_back({rows,
                            cols,
                            {tokens.begin() + begin, tokens.begin() + end},
                            shift_left({labels.begin() + begin, labels.begin() + end}, cols),
                            {}});
  }
  golden.losses = at(tensors, "losses", 1).as_doubles();
  golden.grad_norms = at(tensors, "grad_norms", 1).as_doubles();
  if (steps == 0 || std::ssize(golden.losses) != steps || std::ssize(golden.grad_norms) != steps) {
    throw std::runtime_error("losses or grad_norms do not have one entry per step");
  }
  golden.first = {golden.steps[0], at(tensors, "logits", 3), golden.losses[0], with_prefix(tensors, "grad.")};
  golden.after = with_prefix(tensors, "after.");
  return golden;
}

ExpectedPass read_packed(const std::string& folder) {
  const Tensors tensors = read_safetensors(folder + "/packed.safetensors");
  const StoredTensor& ids = at(tensors, "input_ids", 2);
  ExpectedPass packed;
  packed.batch = {ids.shape[0], ids.shape[1], ids.as_int32(), at(tensors, "targets", 2).as_int32(), {}};
  const std::vector<int32_t> starts = at(tensors, "document_starts", 1).as_int32();
  for (int64_t row = 0; row < packed.batch.rows; ++row) {
    for (int64_t col = 0; col < packed.batch.cols; ++col) {
      const auto next = std::upper_bound(starts.begin(), starts.end(), static_cast<int32_t>(col));
      if (next == starts.begin()) throw std::runtime_error("document_starts does not begin with 0");
      packed.batch.document_begin.push_back(*(next - 1));
    }
  }
  packed.logits = at(tensors, "logits", 3);
  packed.loss = at(tensors, "loss", 1).as_doubles().at(0);
  packed.gradients = with_prefix(tensors, "grad.");
  return packed;
}

double relative_error(const std::vector<float>& actual, const std::vector<double>& truth) {
  return distance(actual, truth);
}

double relative_error(const std::vector<double>& actual, const std::vector<double>& truth) {
  return distance(actual, truth);
}

}  // namespace hawser::golden
