#include "tests/harness/layout_run.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <regex>

#include "engine/base/philox.h"
#include "engine/config/config_tree.h"
#include "engine/optim/optimizer.h"

namespace hawser::testing {
namespace {

constexpr int64_t kVocabulary = 53;

using Json = nlohmann::ordered_json;

double norm_of(const std::map<std::string, std::vector<float>>& gradients) {
  double squares = 0;
  for (const auto& [name, values] : gradients) {
    double of_tensor = 0;  // shorter sums round less
    for (const float value : values) of_tensor += static_cast<double>(value) * static_cast<double>(value);
    squares += of_tensor;
  }
  return std::sqrt(squares);
}

}  // namespace

std::string Layout::name() const {
  std::string text =
      fmt::format("zero{} {}x{} accumulation {} {}", stage, dp_replicate, dp_shard, accumulation, reduce);
  if (cp > 1) text += fmt::format(" cp {} {}", cp, cp_mode);
  if (pp > 1) text += fmt::format(" pp {} {} x {}", pp, schedule, chunks);
  if (!recompute.empty()) text += " recompute " + recompute;
  if (!offload.empty()) text += " offload " + offload;
  for (const int64_t layers : layers_of_chunks) text += fmt::format(" {}", layers);
  if (tp > 1) text += fmt::format(" tp {}{}", tp, sequence_parallel ? "" : " alone");
  if (tp_chunks > 1) text += fmt::format(" in {} chunks", tp_chunks);
  if (stage == 3)
    text += " reshard " + reshard + (reshard_group ? fmt::format(" {}", reshard_group) : "") +
            fmt::format(" prefetch {}", prefetch);
  if (ep > 1) text += fmt::format(" ep {} factor {}", ep, rows_factor);
  if (sum_group) text += fmt::format(" sum_group {}", sum_group);
  if (bucket_bytes) text += fmt::format(" bucket {}", bucket_bytes);
  if (tree) text += " tree";
  if (gradient_type != "fp32") text += " gradients " + gradient_type;
  if (quantized_weights != "off") text += " weights in " + quantized_weights;
  if (quantized_gradients != "off") text += " gradients in " + quantized_gradients;
  return text;
}

std::string Layout::sections() const {
  Json json;
  json["mesh"] = {{"dp_replicate", dp_replicate}, {"dp_shard", dp_shard}};
  if (cp > 1) json["mesh"]["cp"] = cp, json["mesh"]["cp_mode"] = cp_mode;
  if (tp > 1) json["mesh"]["tp"] = tp, json["mesh"]["sequence_parallel"] = sequence_parallel;
  if (tp_chunks > 1) json["mesh"]["tp_chunks"] = tp_chunks;
  if (ep > 1) json["mesh"]["ep"] = ep;
  if (pp > 1) json["mesh"]["pp"] = pp, json["pipeline"]["schedule"] = schedule;
  if (chunks > 1) json["pipeline"]["chunks"] = chunks;
  if (!layers_of_chunks.empty()) json["pipeline"]["layers"] = layers_of_chunks;
  if (!recompute.empty()) json["recompute"] = Json::parse(recompute);
  if (!offload.empty()) json["offload"] = Json::parse(offload);
  Json& zero = json["zero"];
  zero = Json::object();
  if (stage > 0) zero["stage"] = stage;
  if (dp() > 1 || accumulation > 1) zero["reduce"] = reduce;
  if (stage == 3) {
    zero["reshard_after_forward"] = reshard;
    zero["prefetch"] = prefetch;
    if (reshard == "group") zero["reshard_group"] = reshard_group;
  }
  if (bucket_bytes > 0)
    zero["bucket_bytes"] = bucket_bytes, zero["first_bucket_bytes"] = std::max<int64_t>(1, bucket_bytes / 4);
  if (tree) zero["sum_order"] = "tree";
  if (gradient_type != "fp32") zero["gradient_type"] = gradient_type;
  if (quantized_weights != "off") zero["quantized_weights"] = quantized_weights;
  if (quantized_gradients != "off") zero["quantized_gradients"] = quantized_gradients;
  if (sum_group > 0) json["comm"] = {{"sum_group", sum_group}};
  return json.dump();
}

namespace {

Json optimizer_section(const Problem& p) {
  Json json = {
      {"kind", p.optimizer}, {"learning_rate", p.optimizer == "sgd" ? 0.1 : 0.003}, {"clip_norm", 0.7}};
  if (p.optimizer == "sgd") json["momentum"] = 0.9;
  if (p.muon_heads) json["muon_heads"] = true;
  if (p.frozen)
    json["frozen"] = {p.like_gpt2 ? "embedding.positions.weight" : "*_norm.weight", "blocks.0.mlp.*"};
  for (const std::string& pattern : p.frozen_also) json["frozen"].push_back(pattern);
  if (!p.rules.empty()) json["rules"] = Json::parse(p.rules);
  if (p.average >= 0) json["average"] = p.average;
  if (p.qk_clip > 0) json["qk_clip"] = p.qk_clip;
  return json;
}

}  // namespace

std::string layout_config(const Problem& p, const Layout& layout) {
  Json json = Json::parse(layout.sections());
  json["seed"] = 7;
  json["device"] = p.device;
  if (p.device_transport != "auto") json["comm"]["device_transport"] = p.device_transport;
  if (!p.graphs) json["cuda"]["graphs"] = false;
  if (p.residual != "f32") json["cuda"]["residual"] = p.residual;
  if (!p.algorithm_cache.empty()) json["cuda"]["algorithm_cache"] = p.algorithm_cache;
  if (!p.deterministic) json["deterministic"] = false;
  json["precision"] = p.precision;
  if (p.precision == "fp16") json["loss_scale"]["initial"] = p.loss_scale;
  if (p.precision == "fp8" && !p.fp8.empty()) json["fp8"] = Json::parse(p.fp8);
  json["model"] = {{"vocab_size", kVocabulary}, {"context", 24},      {"layers", p.layers},
                   {"width", p.width},          {"heads", p.heads},   {"kv_heads", p.kv_heads},
                   {"norm", "layer_norm"},      {"mlp", "gelu_tanh"}, {"mlp_width", p.mlp_width},
                   {"position", "learned"},     {"tied_head", p.tied}};
  if (!p.like_gpt2)
    json["model"].update({{"norm", "rms_norm"},
                          {"mlp", "geglu"},
                          {"position", "rotary"},
                          {"head_dim", p.head_dim},
                          {"qk_norm", true},
                          {"post_norm", true},
                          {"window", 5},
                          {"attention_softcap", 3.0},
                          {"logit_softcap", 4.0},
                          {"embedding_scale", 4.9}});
  if (!p.like_gpt2 && p.rope_dim > 0) json["model"]["rope"]["dim"] = p.rope_dim;
  if (p.plain_scores) json["model"].update({{"qk_norm", false}, {"attention_softcap", 0}});
  if (p.sinks) json["model"].update({{"sinks", true}, {"attention_softcap", 0}});
  if (!p.experts.empty()) {
    json["model"]["moe"] = Json::parse(p.experts);
    const bool has = p.expert_biases;
    json["model"]["bias"] = {{"gate", has && !p.like_gpt2}, {"up", has}, {"down", has}, {"router", has}};
  }
  if (!p.latent.empty()) {
    json["model"]["latent"] = Json::parse(p.latent);
    json["model"].update({{"kv_heads", p.heads}, {"head_dim", p.head_dim}, {"qk_norm", false}});
  }
  if (!p.from.empty()) json["init"]["from"] = p.from;
  if (p.init_average) json["init"]["average"] = true;
  if (!p.moe.empty()) json["moe"] = Json::parse(p.moe);
  if (!p.objective.empty()) json["objective"] = Json::parse(p.objective);
  if (!p.teacher.empty()) json["teacher"] = Json::parse(p.teacher);
  if (p.scores())
    for (const char* key : {"tied_head", "logit_softcap"}) json["model"].erase(key);
  if (!p.adapter.empty()) json["adapter"] = Json::parse(p.adapter);
  if (layout.ep > 1 && layout.rows_factor > 0) json["moe"]["rows_factor"] = layout.rows_factor;
  for (const char* site : {"embedding", "attention", "residual"}) json["model"]["dropout"][site] = p.dropout;
  json["batch"] = {
      {"micro_batch", p.micro_batch}, {"grad_accum_steps", layout.accumulation}, {"sequence", p.sequence}};
  json["optimizer"] = optimizer_section(p);
  json["schedule"] = {{"warmup_steps", 2}};
  json["train"] = {{"steps", 100}};
  if (p.ahead > 0) json["model"]["ahead"] = p.ahead, json["train"]["ahead_weight"] = p.ahead_weight;
  json["cpu"] = {{"threads", 1}};
  return json.dump();
}

namespace {

/// Gives each position `top` different ids and random log-probabilities. Masked positions have invalid
/// ones, which nothing may read.
void add_teacher(const Problem& p, int64_t step, Rows* r) {
  r->top = Json::parse(p.teacher).at("top").get<int64_t>();
  for (size_t i = 0; i < r->targets.size(); ++i) {
    const auto at = static_cast<uint64_t>(step) * r->targets.size() + i;
    const uint32_t first = philox(p.seed, at, 1000).v[0],
                   apart = 1 + philox(p.seed, at, 1000).v[1] % (kVocabulary - 1);
    for (int64_t j = 0; j < r->top; ++j) {
      const uint64_t id = (first % kVocabulary + static_cast<uint64_t>(j) * apart) % kVocabulary;
      const bool masked = r->targets[i] == -100;
      r->teacher_ids.push_back(masked ? -7 : static_cast<int32_t>(id));
      r->teacher_logprobs.push_back(
          masked
              ? NAN
              : -static_cast<float>(philox(p.seed, at, 1001 + static_cast<uint64_t>(j)).v[2] % 512) / 64.0f);
    }
  }
}

}  // namespace

Rows rows_of(const Problem& p, int64_t rows, int64_t step) {
  Rows r{rows, p.sequence, {}, {}, {}, {}, {}};
  const bool pairs = !p.objective.empty();
  for (int64_t i = 0; i < rows; ++i) {
    const uint64_t row = static_cast<uint64_t>(step * rows + i);
    uint32_t keep = philox(p.seed, row, 1).v[0] % 5;             // 0: no target in this row
    if (step == 1) keep = i == 0 ? 4 : 2 * i < rows ? keep : 0;  // the last rank has no targets at all
    if (pairs) keep = 1 + philox(p.seed, row, 1).v[0] % 3;       // each answer has targets
    for (int64_t t = 0; t < p.sequence; ++t) {
      const PhiloxBlock word = philox(p.seed, row, 2 + static_cast<uint64_t>(t));
      r.tokens.push_back(static_cast<int32_t>(word.v[0] % kVocabulary));
      const bool learned = word.v[1] % 4 < keep || (pairs && t == 3);
      const bool scored_outside = p.scores() && t == p.sequence - 1;  // the token that the last target names
                                                                      // is no input
      r.targets.push_back(learned && !scored_outside ? static_cast<int32_t>(word.v[2] % kVocabulary) : -100);
      if (!pairs && p.weights_every > 0 && (step + 1) % p.weights_every == 0)
        r.weights.push_back(static_cast<float>(word.v[3] % 8) / 4.0f);
      if (p.documents) {
        const bool begins = t == 0 || word.v[3] / 8 % 4 == 0;
        r.document_begin.push_back(begins ? static_cast<int32_t>(t) : r.document_begin.back());
      }
    }
    const bool without = p.scores() || p.objective.find("simpo") != p.objective.npos ||
                         p.objective.find("orpo") != p.objective.npos;
    if (pairs && !without) r.references.push_back(-static_cast<float>(philox(p.seed, row, 0).v[1] % 64));
  }
  if (!p.teacher.empty()) add_teacher(p, step, &r);
  return r;
}

LayoutRun::LayoutRun(const Problem& problem, const Layout& layout, std::shared_ptr<comm::Comm> comm,
                     const train::Trainer* base)
    : problem_(problem), layout_(layout) {
  const config::ConfigTree config = config::ConfigTree::from_json(layout_config(problem, layout));
  if (!comm && layout.world() > 1) comm = comm::make_local(static_cast<int32_t>(layout.world()));
  trainer_ = train::Trainer::create(config, false, &cancel_, comm, base);
  trainer_->ranks().on_each([](train::Rank& rank, int32_t) { rank.executor().fill_new_slots(); });
}

StepRecord LayoutRun::step() {
  const Rows rows = rows_of(problem_, problem_.micro_batch * layout_.accumulation * layout_.dp(), steps_++);
  trainer_->push(rows.view());
  const train::StepResult result = trainer_->forward_backward();
  StepRecord record;
  record.loss = result.loss, record.grad_norm = result.grad_norm, record.tokens = result.tokens;
  const Json tensors = Json::parse(trainer_->tensors().json());
  const auto take = [&](train::TensorKind kind, std::map<std::string, std::vector<float>>* into) {
    for (const Json& t : tensors) {
      if (!trainer_->tensors().keeps(kind, trainer_->ranks().table().at(t.at("name").get<std::string>())))
        continue;
      std::vector<float>& values = (*into)[t.at("name").get<std::string>()];
      values.resize(t.at("count").get<size_t>());
      trainer_->tensors().get(kind, t.at("name").get<std::string>(), values.data(),
                              values.size() * sizeof(float));
    }
  };
  take(train::TensorKind::kGradient, &record.gradients);
  record.norm_of_gradients = norm_of(record.gradients);
  trainer_->commit();
  const Json metrics = Json::parse(trainer_->metrics().json());
  for (const char* key : {"experts", "preferences", "ahead_losses"})
    if (metrics.contains(key)) record.loads += metrics.at(key).dump();
  take(train::TensorKind::kWeight, &record.weights);
  for (size_t i = 0; i < plan::kStateCount; ++i) take(train::kind_of_state(i), &record.states[i]);
  return record;
}

std::vector<StepRecord> run_layout(const Problem& problem, const Layout& layout, int steps,
                                   std::shared_ptr<comm::Comm> comm) {
  LayoutRun run(problem, layout, std::move(comm));
  std::vector<StepRecord> records;
  for (int i = 0; i < steps; ++i) records.push_back(run.step());
  return records;
}

std::string summary_of(const std::vector<StepRecord>& records) {
  std::string text;
  for (const StepRecord& r : records) {
    uint64_t digest = 1469598103934665603u;  // FNV-1a over all tensors in the order of their names
    std::vector<const std::map<std::string, std::vector<float>>*> all = {&r.gradients, &r.weights};
    for (const auto& state : r.states) all.push_back(&state);
    for (const auto* tensors : all)
      for (const auto& [name, values] : *tensors)
        for (const float value : values) {
          uint32_t bits = 0;
          std::memcpy(&bits, &value, sizeof bits);
          digest = (digest ^ bits) * 1099511628211u;
        }
    text += fmt::format("{} {:.17g} {:.17g} {:016x}\n", r.tokens, r.loss, r.grad_norm, digest);
  }
  return text;
}

namespace {

using Tensors = std::map<std::string, std::vector<float>>;

/// Removes the number of rounds, the only part that changes if a backward in two passes receives all rows at
/// once.
std::string without_rounds(const std::string& loads) {
  static const std::regex rounds("\"rounds\":[0-9.]+");
  return std::regex_replace(loads, rounds, "");
}

/// Compares the norm with the gradients themselves, because both runs could count the same wrong bytes.
std::string wrong_norm(const StepRecord& r) {
  if (r.norm_of_gradients < 0 || std::abs(r.grad_norm - r.norm_of_gradients) <= 1e-12 * r.norm_of_gradients)
    return "";
  return fmt::format("gradient norm {:.17g}, but its gradients have {:.17g}", r.grad_norm,
                     r.norm_of_gradients);
}

std::string difference(const char* what, const Tensors& a, const Tensors& b) {
  if (a.size() != b.size()) return fmt::format("{} {} tensors, not {}", a.size(), what, b.size());
  for (const auto& [name, values] : a) {
    const std::vector<float>& others = b.at(name);
    if (values.size() != others.size()) return fmt::format("{} {}: sizes differ", what, name);
    for (size_t i = 0; i < values.size(); ++i)
      if (std::memcmp(&values[i], &others[i], sizeof(float)) != 0)
        return fmt::format("{} {}[{}]: {:.9g} and {:.9g}", what, name, i, values[i], others[i]);
  }
  return "";
}

}  // namespace

std::string first_difference(const std::vector<StepRecord>& a, const std::vector<StepRecord>& b) {
  if (a.size() != b.size()) return "different numbers of steps";
  for (size_t i = 0; i < a.size(); ++i) {
    const auto at = [i](const std::string& text) { return fmt::format("step {}: {}", i + 1, text); };
    if (a[i].tokens != b[i].tokens) return at(fmt::format("tokens {} and {}", a[i].tokens, b[i].tokens));
    if (without_rounds(a[i].loads) != without_rounds(b[i].loads))
      return at(fmt::format("loads {} and {}", a[i].loads, b[i].loads));
    if (a[i].loss != b[i].loss) return at(fmt::format("loss {:.17g} and {:.17g}", a[i].loss, b[i].loss));
    std::vector<std::string> texts = {
        wrong_norm(a[i]), wrong_norm(b[i]), difference("gradient", a[i].gradients, b[i].gradients),
        a[i].grad_norm == b[i].grad_norm
            ? std::string()
            : fmt::format("gradient norm {:.17g} and {:.17g}", a[i].grad_norm, b[i].grad_norm)};
    for (size_t s = 0; s < plan::kStateCount; ++s)
      texts.push_back(difference(plan::kStates[s].label, a[i].states[s], b[i].states[s]));
    texts.push_back(difference("weight", a[i].weights, b[i].weights));
    for (const std::string& text : texts)
      if (!text.empty()) return at(text);
  }
  return "";
}

}  // namespace hawser::testing
