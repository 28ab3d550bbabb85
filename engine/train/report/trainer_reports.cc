// What an engine says of itself, as JSON.
#include <cmath>
#include <sstream>
#include <string>
#include <vector>

#include "engine/base/json.h"
#include "engine/train/trainer_impl.h"

namespace hawser::train {
namespace {

using Json = OrderedJson;

/// JSON has no NaN or infinity: null then.
Json number(double value) { return std::isfinite(value) ? Json(value) : Json(); }

Json memory_json(const EnginePlans& plans, const Executor& executor) {
  const plan::Plan& plan = plans.train.instructions.empty() ? plans.eval : plans.train;
  Json json;
  for (size_t c = 0; c < plan.at_peak.size(); ++c)
    json["planned"][plan::category_name(static_cast<plan::Category>(c))] = plan.at_peak[c];
  for (size_t c = 0; c < plan.at_peak.size(); ++c)
    json["high_water"][plan::category_name(static_cast<plan::Category>(c))] = executor.live_at_peak()[c];
  json["planned_bytes"] = plan.peak_bytes;
  json["high_water_bytes"] = executor.high_water();
  json["arena_bytes"] = plans.arena_bytes;
  return json;
}

/// Of all ranks here; nothing on a device that captures nothing.
void add_graphs(Json* info, const std::vector<std::unique_ptr<Rank>>& ranks, bool captures) {
  if (!captures) return;
  StepGraphs::Counts sum;
  std::string without;
  for (const auto& rank : ranks) {
    const StepGraphs& graphs = rank->executor().graphs();
    sum.captured += graphs.counts().captured, sum.launched += graphs.counts().launched;
    if (without.empty()) without = graphs.without();
  }
  (*info)["graphs"] = {{"captured", sum.captured}, {"launched", sum.launched}};
  if (!without.empty()) (*info)["graphs_without"] = without;
}

/// Fields of a line, or lines of a text.
std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, at);) parts.push_back(part);
  return parts;
}

/// So that one run can be held against another.
Json choices_json(const Choices& choices) {
  const std::vector<std::string> lines = split(choices.text, '\n');
  Json products = Json::array();
  for (size_t i = 1; i < lines.size(); ++i) {
    const std::vector<std::string> fields = split(lines[i], ';');
    products.push_back(
        {{"product", fields.at(0)}, {"algorithm", fields.at(1)}, {"nanoseconds", std::stoll(fields.at(2))}});
  }
  Json json;
  json["by"] = lines.at(0);
  if (!choices.apart.empty()) json["apart"] = choices.apart;
  json["products"] = std::move(products);
  return json;
}

}  // namespace

std::string TrainerImpl::info_json() const {
  Json json;
  json["model"] = Json::parse(a_.model_json);
  json["parameters"] = model_.table().count();
  json["matmul_parameters"] = model_.matmul_parameters();
  json["flops_per_token"] = model_.flops_per_token(config_.batch.sequence);
  json["precision"] = precision_name(config_.precision);
  json["device"] = kind_name(device_.kind);
  if (device_.plugin) json["device_name"] = first().link().device().info().name;
  if (*first().link().device().info().without != '\0')
    json["device_without"] = first().link().device().info().without;
  if (!device_.reason.empty()) json["device_reason"] = device_.reason;
  if (!transport_.reason.empty()) json["device_transport"] = transport_.reason;
  add_graphs(&json, ranks_, first().link().device().info().captures && config_.cuda.graphs);
  if (!choices_.text.empty()) json["choices"] = choices_json(choices_);
  json["cpu_level"] = kernels_.name;
  json["threads"] = threads_;
  json["ranks"] = world_;
  json["trainable_parameters"] = model_.table().trainable_count();
  json["inference"] = inference_;
  json["step"] = state_.step;
  json["accepted_steps"] = state_.accepted;
  json["skipped_steps"] = state_.skipped;
  json["samples"] = state_.samples;
  json["total_steps"] = config_.train.steps;
  json["best_validation_loss"] = number(state_.best_validation_loss);
  json["global_batch"] = config_.batch.global_batch;
  json["sequence"] = config_.batch.sequence;
  json["vocabulary"] = Json::parse(a_.vocabulary.to_json());
  json["memory"] = memory_json(plans_, first().executor());
  json["memory"]["host_staging_bytes"] = plans_.staging.bytes();
  json["memory"]["device_transport_bytes"] = plans_.device_transport_bytes;
  json["memory"]["transport_bytes"] = target().transport_bytes;
  json["memory"]["staging_bytes"] = staging_bytes(first().layout(), model_.table());
  json["memory"]["staging_taken_bytes"] = staging_.empty() ? 0 : staging_.front().taken_bytes();
  return json.dump();
}

std::string TrainerImpl::data_json() const {
  Json json;
  json["cursor"] = state_.samples;
  json["vocabulary"] = Json::parse(a_.vocabulary.to_json());
  if (dataset_) {
    json["train_tokens"] = dataset_->train_tokens();
    json["validation_tokens"] = dataset_->validation_tokens();
    json["validation_samples"] = dataset_->validation_samples();
    json["fingerprint"] = Json::parse(dataset_->fingerprint());
  }
  return json.dump();
}

std::string TrainerImpl::tensors_json() const {
  Json json = Json::array();
  for (const nn::Parameter& p : model_.table().all()) {
    Json hf;
    for (const checkpoint::hf::Binding& b : bindings_)
      for (const std::string& name : b.parameters)
        if (name == p.name) hf = b.hf_name;
    json.push_back({{"name", p.name},
                    {"shape", p.shape},
                    {"count", p.size},
                    {"decay", p.decay},
                    {"trainable", p.trainable},
                    {"hugging_face_name", hf}});
  }
  return json.dump();
}

std::string TrainerImpl::statistics_json() const {
  check_kind(TensorKind::kGradient);
  Json json = Json::array();
  std::vector<float> gradient;
  for (const nn::Parameter& p : model_.table().all()) {
    if (!p.trainable) continue;
    gradient.resize(static_cast<size_t>(p.size));
    collect(TensorKind::kGradient, p, gradient.data());
    double squares = 0, largest = 0;
    int64_t non_finite = 0;
    for (const float value : gradient) {
      const double g = static_cast<double>(value);
      if (!std::isfinite(g)) {
        ++non_finite;
        continue;
      }
      squares += g * g;
      largest = std::max(largest, std::abs(g));
    }
    json.push_back(
        {{"name", p.name}, {"norm", std::sqrt(squares)}, {"largest", largest}, {"non_finite", non_finite}});
  }
  return json.dump();
}

std::string TrainerImpl::metrics_json() const {
  StepResult r;
  StepTraffic::Totals traffic;
  {
    const std::lock_guard lock(metrics_mutex_);
    r = last_;
    traffic = last_traffic_;
  }
  constexpr const char* kOutcomes[] = {"accepted", "skipped_non_finite", "skipped_outlier", "discarded",
                                       "pending"};
  const StepTraffic::Totals total = traffic_->total();
  const BackgroundSaver::Failures failures = saver_.failures();
  const Json json = {{"step", r.step},
                     {"outcome", kOutcomes[static_cast<size_t>(r.outcome)]},
                     {"loss", number(r.loss)},
                     {"grad_norm", number(r.grad_norm)},
                     {"learning_rate", r.learning_rate},
                     {"tokens", r.tokens},
                     {"samples", r.samples},
                     {"skipped", r.skipped},
                     {"saving", saver_.running()},
                     {"save_failures", failures.count},
                     {"save_error", failures.last},
                     {"seconds", r.seconds},
                     {"arena_bytes", plans_.arena_bytes},
                     {"rank", first().number()},
                     {"communication", traffic_->json(traffic)},
                     {"communication_bytes", sum(traffic).bytes},
                     {"communication_wire_bytes", sum(traffic).wire_bytes},
                     {"communication_total", traffic_->json(total)},
                     {"communication_total_bytes", sum(total).bytes},
                     {"communication_total_wire_bytes", sum(total).wire_bytes}};
  return json.dump();
}

}  // namespace hawser::train
