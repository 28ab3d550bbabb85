#include "engine/state/run_state.h"

#include <cmath>

#include "engine/base/error.h"
#include "engine/base/json.h"

namespace hawser::train {
namespace {

constexpr const char *kDecay = "decay", *kBeforeStep = "before_step", *kLossScale = "loss_scale",
                     *kFp8History = "fp8_history";

optim::DecayProgress decay_from(const OrderedJson& json) {
  if (!json.contains(kDecay)) return optim::DecayProgress::kWithStep;
  if (json[kDecay] != kBeforeStep)
    fail(Code::kCheckpointIncompatible,
         "the checkpoint's trainer state has '{}' {}, which this Hawser does not know; use a newer Hawser",
         kDecay, json[kDecay].dump());
  return optim::DecayProgress::kBeforeStep;
}

OrderedJson window_json(const optim::Window& w) { return {{"count", w.count}, {"values", w.values}}; }

/// Reads a count, which must be small enough that no run can overflow 64 bits from there.
int64_t count_from(const OrderedJson& json, const char* key) {
  constexpr int64_t kMost = int64_t{1} << 62;
  const auto count = json.at(key).get<int64_t>();
  if (count < 0 || count > kMost)
    fail(Code::kCheckpointCorrupt, "the checkpoint's trainer state has {} {}", key, count);
  return count;
}

optim::Window window_from(const OrderedJson& json) {
  optim::Window w;
  w.count = json.at("count").get<int64_t>();
  w.values = json.at("values").get<std::array<double, optim::Window::kSize>>();
  if (w.count < 0) fail(Code::kCheckpointCorrupt, "the checkpoint's guard window has count {}", w.count);
  return w;
}

OrderedJson loss_scale_json(const optim::LossScaleState& s) {
  return {{"scale", s.scale}, {"finite_in_row", s.finite_in_row}, {"dropped_in_row", s.dropped_in_row}};
}

optim::LossScaleState loss_scale_from(const OrderedJson& json) {
  const double scale = json.at("scale").get<double>();
  int exponent = 0;
  if (!(scale > 0 && scale <= optim::LossScale::kLargest) || std::frexp(scale, &exponent) != 0.5)
    fail(Code::kCheckpointCorrupt, "the checkpoint's trainer state has the loss scale {}, no power of two",
         scale);
  return {scale, count_from(json, "finite_in_row"), count_from(json, "dropped_in_row")};
}

/// Of each operand, the ages and the values of its maxima.
OrderedJson fp8_history_json(const optim::Fp8HistoryState& s) {
  OrderedJson json = OrderedJson::object();
  for (const auto& [name, maxima] : s) {
    OrderedJson& list = json[name] = OrderedJson::array();
    for (const optim::Fp8Maximum& m : maxima) list.push_back({m.age, m.value});
  }
  return json;
}

optim::Fp8HistoryState fp8_history_from(const OrderedJson& json) {
  optim::Fp8HistoryState state;
  for (const auto& [name, list] : json.get_ref<const OrderedJson::object_t&>()) {
    std::vector<optim::Fp8Maximum> maxima;
    for (const OrderedJson& m : list) {
      const optim::Fp8Maximum next{m.at(0).get<int64_t>(), m.at(1).get<float>()};
      const bool falls = maxima.empty() || (next.age < maxima.back().age && next.value < maxima.back().value);
      if (next.age < 0 || !(next.value > 0) || !std::isfinite(next.value) || !falls)
        fail(Code::kCheckpointCorrupt,
             "the checkpoint's trainer state has an invalid fp8 history: the maximum {} of {} steps ago for "
             "{} is not positive and finite, or is out of order",
             next.value, next.age, name);
      maxima.push_back(next);
    }
    state.emplace_back(name, std::move(maxima));
  }
  return state;
}

/// Refuses missing keys, and unknown ones: state written by a newer version would be lost at the next save.
void check_keys(const OrderedJson& json) {
  RunState any;
  any.best_validation_loss = 0, any.validations_since_best = 1, any.loss_scale.emplace(),
  any.fp8_history.emplace();
  OrderedJson known = parse_json<OrderedJson>(to_json(any));
  for (const auto& [key, value] : json.items())
    if (!known.contains(key))
      fail(Code::kCheckpointIncompatible,
           "the checkpoint's trainer state has '{}', which this Hawser does not know; use a newer Hawser",
           key);
  for (const char* optional :
       {"best_validation_loss", "validations_since_best", kDecay, kLossScale, kFp8History})
    known.erase(optional);
  for (const auto& [key, value] : known.items())
    if (!json.contains(key))
      fail(Code::kCheckpointCorrupt, "the checkpoint's trainer state has no '{}'", key);
}

}  // namespace

std::string to_json(const RunState& s) {
  OrderedJson json = {{"step", s.step},
                      {"accepted", s.accepted},
                      {"samples", s.samples},
                      {"skipped", s.skipped},
                      {"skipped_in_row", s.skipped_in_row}};
  if (std::isfinite(s.best_validation_loss)) json["best_validation_loss"] = s.best_validation_loss;
  if (s.validations_since_best > 0) json["validations_since_best"] = s.validations_since_best;
  if (s.decay == optim::DecayProgress::kBeforeStep) json[kDecay] = kBeforeStep;
  if (s.loss_scale) json[kLossScale] = loss_scale_json(*s.loss_scale);
  if (s.fp8_history) json[kFp8History] = fp8_history_json(*s.fp8_history);
  json["guard"] = {{"losses", window_json(s.losses)}, {"norms", window_json(s.norms)}};
  return json.dump();
}

RunState run_state_from_json(std::string_view text) {
  RunState s;
  try {
    const OrderedJson json = parse_json<OrderedJson>(text);
    check_keys(json);
    s.step = count_from(json, "step");
    s.accepted = count_from(json, "accepted");
    s.samples = count_from(json, "samples");
    s.skipped = count_from(json, "skipped");
    s.skipped_in_row = count_from(json, "skipped_in_row");
    if (json.contains("best_validation_loss"))
      s.best_validation_loss = json["best_validation_loss"].get<double>();
    if (json.contains("validations_since_best"))
      s.validations_since_best = count_from(json, "validations_since_best");
    s.decay = decay_from(json);
    if (json.contains(kLossScale)) s.loss_scale = loss_scale_from(json[kLossScale]);
    if (json.contains(kFp8History)) s.fp8_history = fp8_history_from(json[kFp8History]);
    s.losses = window_from(json.at("guard").at("losses"));
    s.norms = window_from(json.at("guard").at("norms"));
  } catch (const OrderedJson::exception&) {
    fail(Code::kCheckpointCorrupt, "the checkpoint's trainer state has values of the wrong type");
  }
  return s;
}

}  // namespace hawser::train
