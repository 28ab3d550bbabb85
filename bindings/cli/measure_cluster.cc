// Measures the numbers of a cluster file from profiles of real steps, so that kernels have the shapes and the
// memory that they have in training.
#include "bindings/cli/measure_cluster.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>
#include <vector>

#include "bindings/cli/client.h"
#include "bindings/cli/parse_json.h"
#include "bindings/cli/quantity.h"

namespace hawser::cli {
namespace {

using nlohmann::ordered_json;

constexpr int kSteps = 4;  // the profile leaves the first one out

/// Work and the time that it took.
struct Rate {
  double amount = 0, seconds = 0;
  double value() const { return amount / seconds; }
  void add(double more, double took) { amount += more, seconds += took; }
};

/// Rates of kernels, each under the properties that determine it.
struct Rates {
  std::map<std::tuple<std::string, int64_t, int64_t, int64_t>, Rate> products;  // type, m, n, k
  std::map<std::tuple<bool, std::string, int64_t, int64_t>, Rate> attention;    // forward, type, length, head
  std::map<std::string, Rate> kernels;                                          // bytes
};

ordered_json model_config(int64_t width, bool like_llama, const char* precision, int32_t threads) {
  ordered_json model = {
      {"layers", 2}, {"width", width}, {"heads", width / 64}, {"vocab_size", 8192}, {"context", 512}};
  if (like_llama) {
    model["norm"] = "rms_norm", model["mlp"] = "swiglu", model["position"] = "rotary";
    model["kv_heads"] = width / 128, model["tied_head"] = false;
  }
  ordered_json config = {
      {"precision", precision},
      {"model", model},
      {"batch", {{"micro_batch", width > 500 ? 1 : 4}, {"sequence", width > 500 ? 512 : 128}}},
      {"train", {{"steps", kSteps}}}};
  if (threads > 0) config["cpu"]["threads"] = threads;
  return config;
}

/// Takes some steps on pseudo-random tokens, and returns the profile.
ordered_json profile_of(const ordered_json& json) {
  const std::string text = json.dump();
  const Config config =
      make<Config>(hws_config_parse, static_cast<const void*>(text.data()), text.size(), HWS_FORMAT_JSON);
  const Engine engine = make<Engine>(hws_engine_create, config.get(), 0u);
  hws_sizes sizes{};
  sizes.struct_size = sizeof sizes;
  check(hws_engine_sizes(engine.get(), &sizes));
  const auto count = static_cast<size_t>(sizes.global_batch * sizes.sequence);
  std::vector<int32_t> tokens(count), targets(count);
  constexpr uint32_t kFactor = 2654435761U;  // Knuth's multiplicative hash
  for (size_t i = 0; i < count; ++i)
    tokens[i] = static_cast<int32_t>((static_cast<uint32_t>(i) * kFactor >> 8) %
                                     static_cast<uint32_t>(sizes.vocab_size));
  for (size_t i = 0; i < count; ++i) targets[i] = tokens[(i + 1) % count];
  check(hws_engine_set_trace(engine.get(), HWS_TRACE_KERNELS));
  for (int step = 0; step < kSteps; ++step) {
    hws_batch batch{};
    batch.struct_size = sizeof batch;
    batch.rows = sizes.global_batch, batch.cols = sizes.sequence;
    batch.tokens = tokens.data(), batch.targets = targets.data();
    check(hws_data_push(engine.get(), &batch));
    hws_step_result result{};
    result.struct_size = sizeof result;
    check(hws_engine_train_step(engine.get(), &result));
  }
  return parse_json(text_of(hws_engine_profile, engine.get(), HWS_FORMAT_JSON))
      .at("ranks")
      .at(0)
      .at("kernels");
}

void add_rows(const ordered_json& rows, Rates* rates) {
  for (const ordered_json& row : rows) {
    const std::string kernel = row.at("kernel"), type = row.at("type");
    const double seconds = row.at("seconds"), flops = row.at("flops"), bytes = row.at("bytes");
    const std::string name = type == "F32" ? "fp32" : type == "BF16" ? "bf16" : "fp16";
    if (seconds <= 0) continue;
    if (row.contains("m") && flops > 0)
      rates->products[{name, row.at("m"), row.at("n"), row.at("k")}].add(flops, seconds);
    else if (row.contains("length") && flops > 0)
      rates->attention[{kernel == "attention_forward", name, row.at("length"), row.at("head_dim")}].add(
          flops, seconds);
    else if (bytes > 0)
      rates->kernels[kernel].add(bytes, seconds);
  }
}

ordered_json sourced(double value, const std::string& source) {
  return {{"value", value}, {"source", source}};
}

/// Returns the rate of the fastest product or attention of each type.
std::map<std::string, double> peaks(const Rates& rates) {
  std::map<std::string, double> peaks;
  for (const auto& [key, rate] : rates.products)
    peaks[std::get<0>(key)] = std::max(peaks[std::get<0>(key)], rate.value());
  for (const auto& [key, rate] : rates.attention)
    peaks[std::get<1>(key)] = std::max(peaks[std::get<1>(key)], rate.value());
  return peaks;
}

ordered_json attention_json(const Rates& rates, bool forward, const std::string& source) {
  ordered_json points = ordered_json::array();
  for (const auto& [key, rate] : rates.attention)
    if (std::get<0>(key) == forward)
      points.push_back({{"type", std::get<1>(key)},
                        {"length", std::get<2>(key)},
                        {"head_dim", std::get<3>(key)},
                        {"flops_per_second", rate.value()},
                        {"source", source}});
  return points;
}

ordered_json matmul_json(const Rates& rates, const std::map<std::string, double>& peaks,
                         const std::string& source) {
  ordered_json points = ordered_json::array();
  double shares = 0;
  for (const auto& [key, rate] : rates.products) {
    const auto& [type, m, n, k] = key;
    shares += rate.value() / peaks.at(type) / static_cast<double>(rates.products.size());
    points.push_back({{"type", type},
                      {"m", m},
                      {"n", n},
                      {"k", k},
                      {"flops_per_second", rate.value()},
                      {"source", source}});
  }
  return {{"efficiency", sourced(shares, "the mean of the points")}, {"points", points}};
}

ordered_json memory_json(const Rates& rates, double copies, const std::string& source) {
  double most = copies;
  for (const auto& [name, rate] : rates.kernels) most = std::max(most, rate.value());
  ordered_json memory = {
      {"bytes_per_second", sourced(most, "the fastest kernel, whose operands may have been in caches")},
      {"efficiency", sourced(copies / most, "y = a + b over 192 MiB")}};
  for (const auto& [name, rate] : rates.kernels) memory["kernels"][name] = sourced(rate.value(), source);
  return memory;
}

}  // namespace

ordered_json measure_cluster(int32_t threads) {
  Rates rates;
  for (const char* const precision : {"fp32", "bf16"})
    for (const bool like_llama : {false, true})
      for (const int64_t width : {256, 768})
        add_rows(profile_of(model_config(width, like_llama, precision, threads)), &rates);
  const ordered_json host = parse_json(text_of(hws_device_measure, threads, 0.5));
  const ordered_json devices = parse_json(text_of(hws_device_list));
  const std::string cpu = host.at("name"), source = "profiles of steps of models of width 256 and 768";
  const double copies = 1e9 * host.at("bandwidth_gbs").get<double>();
  const std::map<std::string, double> most = peaks(rates);
  ordered_json device = {{"kind", "cpu"},
                         {"memory_bytes", sourced(devices.at(0).at("available_bytes"), "available now")}};
  for (const auto& [type, peak] : most)
    device["peak_flops"][type] = sourced(peak, "the fastest that was measured");
  device["matmul"] = matmul_json(rates, most, source);
  device["attention"] = {{"forward", attention_json(rates, true, source)},
                         {"backward", attention_json(rates, false, source)}};
  device["memory"] = memory_json(rates, copies, source);
  device["launch_seconds"] = sourced(0, "a function call");
  const std::string shared = "assumed: ranks are threads, and a sum passes memory four times";
  return {{"name", cpu + ", " + counted(host.at("threads"), "thread") + " a rank"},
          {"device", device},
          {"network", ordered_json::array({{{"name", "host"},
                                            {"bytes_per_second", sourced(copies / 4, shared)},
                                            {"latency", sourced(20e-6, "assumed: waking threads")}}})}};
}

}  // namespace hawser::cli
