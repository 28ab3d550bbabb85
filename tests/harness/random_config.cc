#include "tests/harness/random_config.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "engine/assembly/assemble.h"
#include "engine/base/error.h"
#include "engine/base/philox.h"
#include "engine/config/config_tree.h"
#include "engine/nn/model.h"
#include "engine/optim/update.h"
#include "tests/harness/schedules.h"

namespace hawser::testing {
namespace {

using Json = nlohmann::ordered_json;

class Draw {
 public:
  Draw(uint64_t seed, uint64_t attempt) : seed_(seed), attempt_(attempt) {}

  int64_t from(int64_t least, int64_t most) {
    return least + static_cast<int64_t>(word() % static_cast<uint32_t>(most - least + 1));
  }
  bool once_in(int64_t n) { return from(1, n) == 1; }
  Json one_of(const std::vector<Json>& choices) {
    return choices[static_cast<size_t>(from(0, static_cast<int64_t>(choices.size()) - 1))];
  }

 private:
  uint32_t word() { return philox(seed_, attempt_, drawn_++).v[0]; }

  uint64_t seed_, attempt_, drawn_ = 0;
};

Json rope(Draw* d) {
  Json rope = {{"theta", d->one_of({10000, 500000})}};
  const Json scaling = d->one_of({"none", "none", "linear", "llama3", "yarn"});
  if (scaling == "none") return rope;
  rope["scaling"] = scaling, rope["factor"] = d->one_of({2, 8});
  if (scaling != "linear") rope["original_context"] = 8;
  if (scaling == "llama3" && d->once_in(2)) rope["low_freq_factor"] = 1.5, rope["high_freq_factor"] = 6;
  if (scaling != "yarn" || !d->once_in(2)) return rope;
  rope["beta_fast"] = 20, rope["beta_slow"] = 2, rope["truncate"] = d->once_in(2);
  if (d->once_in(2))
    rope["attention_factor"] = 1.25;
  else
    rope["mscale"] = 0.7, rope["mscale_all_dim"] = 0.9;
  return rope;
}

/// Draws the mesh: often data parallelism alone, otherwise up to 16 ranks over all axes.
Json mesh(Draw* d) {
  if (d->once_in(3))
    return {{"dp_replicate", d->one_of({1, 1, 2, 3, 4})}, {"dp_shard", d->one_of({1, 2, 3, 4, 6, 12})}};
  Json m = {{"dp_replicate", d->one_of({1, 1, 1, 2})},
            {"dp_shard", d->one_of({1, 1, 2, 3, 4})},
            {"tp", d->one_of({1, 1, 2, 2, 3})},
            {"cp", d->one_of({1, 1, 1, 2})},
            {"pp", d->one_of({1, 2, 2, 3})}};
  if (m["tp"] > 1 && d->once_in(3)) m["sequence_parallel"] = d->once_in(2);
  if (m["cp"] > 1) m["cp_mode"] = d->one_of({"ring", "ulysses", "gather"});
  return m;
}

int64_t degree(const Json& mesh, const char* axis) { return mesh.value(axis, int64_t{1}); }

Json latent(Draw* d) {
  Json l = {{"kv_rank", d->from(2, 20)},
            {"q_rank", d->one_of({0, 9, 16})},
            {"rope_dim", d->one_of({2, 4})},
            {"value_dim", d->from(1, 14)},
            {"interleaved", d->once_in(2)}};
  if (d->once_in(3)) l["norm_eps"] = 1e-3;
  return l;
}

/// Minimum number of features. A norm over three features divides by almost nothing in some rows and so
/// amplifies rounding; no bound of the noise holds for all seeds.
constexpr int64_t kFewestFeatures = 8;

/// Draws a model whose heads and widths are divisible by tp, and also by cp in mode "ulysses".
Json model(Draw* d, const Json& mesh, int64_t least_layers) {
  const int64_t tp = degree(mesh, "tp"), heads_by = tp * (mesh.value("cp_mode", "") == "ulysses" ? 2 : 1);
  const int64_t kv_heads = heads_by == 1 ? d->from(1, 3) : d->one_of({1, heads_by}).get<int64_t>();
  const int64_t layers = d->from(least_layers, std::max<int64_t>(least_layers + 2, 4));
  const int64_t heads = heads_by == 1 ? kv_heads * d->from(1, 3) : heads_by * d->from(1, 2);
  Json m = {{"vocab_size", d->from(30, 150)},
            {"context", d->from(16, 48)},
            {"layers", layers},
            {"width", d->from(kFewestFeatures, 60)},
            {"kv_heads", kv_heads},
            {"heads", heads},
            {"head_dim", d->from(1, 12)},
            {"mlp_width", tp * d->from(5, 90 / tp)},
            {"tied_head", d->once_in(2)},
            {"qk_norm", d->once_in(3)},
            {"post_norm", d->once_in(3)}};
  m["norm"] = d->one_of({"layer_norm", "rms_norm"});
  m["mlp"] = d->one_of({"gelu", "gelu_tanh", "swiglu", "swiglu_clamped", "geglu", "geglu_exact"});
  m["position"] = d->one_of({"learned", "rotary", "none"});
  if (m["position"] == "rotary") m["rope"] = rope(d);
  if (const int64_t head_dim = m["head_dim"]; m["position"] == "rotary" && head_dim > 1 && d->once_in(3))
    m["rope"]["dim"] = 2 * d->from(1, head_dim / 2);
  if (m["norm"] == "rms_norm" && d->once_in(3)) m["norm_weight_offset"] = 1;
  if (d->once_in(4)) m["norm_eps"] = 1e-3;
  for (const char* bias : {"q", "k", "v", "o", "up", "down", "gate", "norm"})
    if (d->once_in(4)) m["bias"][bias] = d->once_in(2);
  if (d->once_in(8)) m["bias"] = {{"all", d->once_in(2)}};
  if (d->once_in(3)) m["window"] = d->from(1, 20);
  if (m.contains("window") && d->once_in(2)) m["window_layers"] = {d->from(0, layers - 1)};
  if (m.contains("window_layers") && m["position"] == "rotary" && d->once_in(2))
    m["rope"]["window_theta"] = 5000;
  if (d->once_in(4)) m["attention_scale"] = 0.3;
  if (d->once_in(4)) m["attention_softcap"] = 5;
  if (!m.contains("attention_softcap") && d->once_in(3)) m["sinks"] = true;
  if (d->once_in(4)) m["logit_softcap"] = 4;
  if (d->once_in(4)) m["embedding_scale"] = 3;
  if (d->once_in(4)) m["padding_token"] = d->from(0, 29);
  for (const char* site : {"embedding", "attention", "residual"})
    if (d->once_in(3)) m["dropout"][site] = 0.2;
  if (m["position"] != "rotary" || !d->once_in(2)) return m;
  m["kv_heads"] = m["heads"], m["head_dim"] = d->from(5, 12),
  m["qk_norm"] = m["bias"]["v"] = m["sinks"] = false;
  m["rope"].erase("dim");
  m["latent"] = latent(d);
  return m;
}

/// Adds experts to some of the layers, and a degree of expert parallelism.
/// Builds its sections apart: a new key moves the other members of an ordered object.
void add_experts(Draw* d, Json* config) {
  Json& m = (*config)["model"];
  Json moe = {{"experts", d->one_of({4, 6, 8})}, {"top_k", d->from(1, 3)}, {"width", d->from(5, 20)}};
  const bool biases = d->once_in(3);
  for (const char* bias : {"up", "down", "gate"}) m["bias"][bias] = biases && d->once_in(2);
  m["bias"]["router"] = biases && d->once_in(2);
  m["bias"].erase("all");
  const std::string mlp = m["mlp"];
  if (!mlp.starts_with("swiglu") && !mlp.starts_with("geglu")) m["bias"]["gate"] = false;
  if (d->once_in(2)) moe["layers"] = {m["layers"].get<int64_t>() - 1};
  if (d->once_in(2)) moe["score"] = "sigmoid", moe["scale"] = 1.5;
  if (d->once_in(3)) moe["normalize"] = false;
  if (d->once_in(3)) moe["groups"] = 2, moe["top_groups"] = d->from(1, 2);
  if (!biases && d->once_in(3)) moe["shared_width"] = m["mlp_width"], moe["shared_gate"] = d->once_in(2);
  m["moe"] = moe;
  Json training = {{"aux_loss", d->one_of({0, 0.1})}, {"z_loss", d->one_of({0, 0.01})}};
  if (moe.contains("score") && d->once_in(2)) training["balance_rate"] = 0.02;
  if (d->once_in(5)) training["dispatch"] = "capacity", training["capacity_factor"] = d->one_of({0.5, 1.5});
  if (!d->once_in(3)) {
    (*config)["mesh"]["ep"] = d->one_of({2, 2, 3, 4});
    if (d->once_in(2)) training["rows_factor"] = d->one_of({0.3, 1, 64});
  }
  (*config)["moe"] = training;
}

Json adapter(Draw* d) {
  Json a = {{"rank", d->from(1, 6)}};
  if (d->once_in(2)) a["alpha"] = 12;
  if (d->once_in(3)) a["rslora"] = true;
  if (d->once_in(3)) a["dropout"] = 0.2;
  if (d->once_in(3)) a["dora"] = true;
  if (d->once_in(3)) a["targets"] = d->one_of({Json{"attention.*"}, Json{"attention.v", "mlp.*"}});
  return a;
}

Json optimizer(Draw* d) {
  Json o = {{"kind", d->one_of({"adamw", "sgd", "lion", "muon", "adamw8"})},
            {"learning_rate", 0.01},
            {"clip_norm", d->one_of({0, 0.5})}};
  if (d->once_in(3)) o["weight_decay"] = 0.3;
  if (d->once_in(4)) o["average"] = d->one_of({0.5, 0.9, 0.999});
  if (o["kind"] == "adamw" && d->once_in(3)) o["beta1"] = 0.8, o["beta2"] = 0.99, o["eps"] = 1e-6;
  if (o["kind"] == "lion" && d->once_in(2)) o["beta2"] = 0.99;
  if (o["kind"] == "muon" && d->once_in(2))
    o["muon_momentum"] = 0.9, o["muon_scale"] = "spectral", o["muon_heads"] = d->once_in(2);
  if (o["kind"] == "sgd" && d->once_in(2)) o["momentum"] = 0.9, o["nesterov"] = d->once_in(2);
  if (d->once_in(3))
    for (int64_t i = d->from(1, 3); i > 0; --i)
      o["frozen"].push_back(d->one_of({"embedding.*", "blocks.0.*", "blocks.?.mlp.*", "*.attention.*",
                                       "*norm*", "blocks.1*", "blocks.3*", "head*", "blocks.*"}));
  if (d->once_in(3))
    for (int64_t i = d->from(1, 3); i > 0; --i) {
      Json rule = {{"of", d->one_of({"*norm*", "*.bias", "embedding.*", "blocks.1.*", "*.mlp.*",
                                     "*.adapter_a.*", "blocks.?.attention.o.weight", "*"})}};
      if (d->once_in(2)) rule["kind"] = d->one_of({"adamw", "sgd", "lion", "muon", "adamw8"});
      if (d->once_in(2)) rule["rate"] = 0.3;
      if (d->once_in(3)) rule["decay"] = 0.2;
      o["rules"].push_back(rule);
    }
  return o;
}

Json schedule(Draw* d) {
  Json s = {{"kind", d->one_of({"constant", "cosine", "linear", "wsd"})}, {"warmup_steps", d->from(0, 2)}};
  if (s["kind"] != "constant" && d->once_in(2)) s["decay_steps"] = 4, s["min_learning_rate"] = 0.001;
  if (s["kind"] == "wsd") s["stable_steps"] = 1, s["decay_shape"] = d->one_of({"linear", "sqrt"});
  return s;
}

/// Draws the schedule and the chunks of each stage.
Json pipeline(Draw* d, int64_t stages) {
  const std::vector<std::string> names = all_schedules();
  Json p = {{"schedule", d->one_of(std::vector<Json>(names.begin(), names.end()))}};
  if (has_configured_chunks(p["schedule"])) {
    p["chunks"] = d->from(2, 3);
    if (d->once_in(3)) p["group"] = stages + d->from(0, 1);
  }
  return p;
}

int64_t chunks_of_rank(const Json& pipeline) {
  const std::string schedule = pipeline.at("schedule").get<std::string>();
  return schedule_row(schedule).chunks == parallel::pipeline::RankChunks::kV
             ? 2
             : pipeline.value("chunks", int64_t{1});
}

Json zero(Draw* d) {
  Json zero = {{"stage", d->from(0, 3)}, {"reduce", d->one_of({"per_step", "per_micro_batch"})}};
  if (d->once_in(5)) zero["sum_order"] = "tree";
  if (d->once_in(3)) zero["gradient_type"] = "bf16";
  if (zero["stage"] == 3) {
    zero["prefetch"] = d->from(0, 3);
    zero["reshard_after_forward"] = d->one_of({"full", "keep", "group"});
    if (zero["reshard_after_forward"] == "group") zero["reshard_group"] = d->from(2, 6);
  } else if (d->once_in(2)) {
    zero["bucket_bytes"] = d->from(1, 20000);
    if (d->once_in(2)) zero["first_bucket_bytes"] = d->from(1, 2000);
  }
  return zero;
}

Json recompute(Draw* d) {
  if (d->once_in(3))  // several are refused with experts or cp_mode ulysses: then another config is drawn
    return d->one_of(
        {{{"compress", {"mlp_hidden", "qkv", "attention"}}},
         {{"compress", {"attention"}}},
         {{"policy", "selective"}, {"compress", {"qkv", "attention"}}},
         {{"policy", "selective"}, {"arrays", {"qkv"}}, {"compress", {"attention", "mlp_hidden"}}}});
  Json r = {{"policy", d->one_of({"full", "selective", "every"})}};
  if (r["policy"] == "every") r["every"] = d->from(1, 3);
  if (r["policy"] == "selective" && d->once_in(2))
    r["arrays"] = d->one_of({Json{"mlp_hidden", "qkv"}, Json{"attention"}, Json{"qkv", "attention"}});
  return r;
}

Json offload(Draw* d) {
  Json o = {{"folder", std::filesystem::temp_directory_path().string()}};
  const int64_t what = d->from(1, 7);  // bits
  if (what & 1) o["activations"] = "disk";
  if (what & 2) o["optimizer"] = "disk";
  if (what & 4) o["parameters"] = "disk";
  if (d->once_in(2)) o["prefetch"] = d->from(1, 3);
  return o;
}

/// True if gradients may be sent in records: the attention of all blocks is trained.
bool may_quantize(const Json& config) {
  for (const Json& pattern : config.at("optimizer").value("frozen", Json::array()))
    if (pattern != "embedding.*" && pattern != "*norm*" && pattern != "head*" && pattern != "blocks.?.mlp.*")
      return false;
  const Json& mesh = config.at("mesh");
  return config.at("precision") != "bf16_pure" && !config.at("zero").contains("sum_order") &&
         degree(mesh, "dp_replicate") * degree(mesh, "dp_shard") > 1;
}

Json fp8(Draw* d) {
  if (d->once_in(2)) return {{"recipe", d->one_of({"current", "blocks"})}, {"margin", d->from(0, 3)}};
  return {{"history", d->one_of({1, 2, 1024})}};
}

/// Adds prediction depths, unless something else in the config does not support them.
void look_ahead(Draw* d, Json* c) {
  const int64_t most = std::min<int64_t>(3, (*c)["batch"]["sequence"].get<int64_t>() - 1);
  const bool clips = (*c)["optimizer"].contains("qk_clip");
  if (c->contains("adapter") || c->contains("teacher") || clips || most < 1 || d->once_in(3)) return;
  (*c)["model"]["ahead"] = d->from(1, most);
  if (d->once_in(2)) (*c)["train"]["ahead_weight"] = d->one_of({0, 0.1, 1});
}

Json config(uint64_t seed, uint64_t attempt) {
  Draw d(seed, attempt);
  Json c = {{"seed", seed}, {"cpu", {{"threads", 1}}}};
  c["precision"] = d.one_of({"fp32", "fp32", "bf16", "bf16_pure", "fp16", "fp8"});
  if (c["precision"] == "fp16") c["loss_scale"]["initial"] = 64;  // the few targets have large gradients
  if (c["precision"] == "fp8") c["fp8"] = fp8(&d);
  c["mesh"] = mesh(&d);
  const int64_t pp = degree(c["mesh"], "pp");
  int64_t chunks = 1;
  if (pp > 1) c["pipeline"] = pipeline(&d, pp), chunks = pp * chunks_of_rank(c["pipeline"]);
  c["model"] = model(&d, c["mesh"], chunks);
  if (d.once_in(3)) add_experts(&d, &c);
  const int64_t more = c["model"]["layers"].get<int64_t>() - chunks;
  if (pp > 1 && d.once_in(4)) {
    std::vector<int64_t> layers(static_cast<size_t>(chunks), 1);
    layers[static_cast<size_t>(d.from(0, chunks - 1))] += more;
    c["pipeline"]["layers"] = layers;
  }
  c["optimizer"] = optimizer(&d);
  if (d.once_in(8)) c["adapter"] = adapter(&d), c["optimizer"].erase("frozen");
  const Json& m = c["model"];
  const bool has_scores = !m.value("qk_norm", false) && !m.contains("attention_softcap");
  if (has_scores && d.once_in(3)) c["optimizer"]["qk_clip"] = d.one_of({0.001, 0.01, 0.1});
  if (d.once_in(3))
    c["teacher"] = {{"top", d.from(1, 9)},
                    {"temperature", d.one_of({0.5, 1.0, 1.0, 2.0})},
                    {"weight", d.one_of({0.0, 0.5, 1.0})}};
  c["schedule"] = schedule(&d);
  c["batch"] = {{"micro_batch", d.from(1, 3)},
                {"grad_accum_steps", d.one_of({1, 1, 2, 3, 4, 8})},
                {"sequence", d.from(1, 16)}};
  if (pp > 1) c["batch"]["grad_accum_steps"] = d.from(1, 2 * pp + 3);
  look_ahead(&d, &c);
  c["zero"] = zero(&d);
  if (d.once_in(3)) c["comm"]["sum_group"] = d.from(1, 6);
  if (d.once_in(2)) c["recompute"] = recompute(&d);
  if (d.once_in(4)) c["offload"] = offload(&d);
  if (d.once_in(4)) c["init"] = {{"std", 0.1}, {"scale_residual", d.once_in(2)}};
  if (d.once_in(3) && may_quantize(c)) c["zero"]["quantized_gradients"] = d.one_of({"int8", "int4"});
  if (d.once_in(2) && may_quantize(c) && c["zero"]["stage"] == 3 && !c.contains("adapter"))
    c["zero"]["quantized_weights"] = "int8";
  if (d.once_in(3)) c["recompute"]["rows"] = d.from(1, 60);
  const bool may_cut = !c["recompute"].contains("rows") && !c.value("/adapter/dora"_json_pointer, false);
  if (degree(c["mesh"], "tp") > 1 && may_cut && d.once_in(2)) c["mesh"]["tp_chunks"] = d.from(2, 4);
  return c;
}

bool is_valid(const std::string& json) {
  try {
    const config::ResolvedConfig c = train::assemble(config::ConfigTree::from_json(json)).config;
    const nn::Model model(c.model, c.init.scale_residual, optim::trained_parts(c.optimizer));
    const bool compared =
        c.moe.capacity_factor == 0 || c.mesh.tp * c.mesh.cp == 1;  // prove_layout refuses all other configs
    return c.mesh.world() > 1 && compared && (c.mesh.tp * c.mesh.cp * c.mesh.pp == 1 || c.mesh.world() <= 16);
  } catch (const Error&) {
    return false;
  }
}

uint64_t number_from(const char* variable, uint64_t otherwise) {
  const char* const text = std::getenv(variable);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

/// False for a seed whose config has none of the words of HAWSER_WITH, which are separated by commas.
bool is_wanted(uint64_t seed) {
  const char* const text = std::getenv("HAWSER_WITH");
  if (text == nullptr) return true;
  const std::string config = random_config(seed);
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, ',');)
    if (config.find(word) != std::string::npos) return true;
  return false;
}

}  // namespace

void replace_optimizers(nlohmann::json* config, std::initializer_list<std::string_view> kinds) {
  nlohmann::json& optimizer = (*config)["optimizer"];
  const auto replace = [&](nlohmann::json* part) {
    const std::string kind = part->value("kind", "");
    if (std::find(kinds.begin(), kinds.end(), kind) != kinds.end()) (*part)["kind"] = "adamw";
  };
  replace(&optimizer);
  for (const char* const field : {"muon_momentum", "muon_scale", "muon_heads"}) optimizer.erase(field);
  if (optimizer.contains("rules"))
    for (nlohmann::json& rule : optimizer["rules"]) replace(&rule);
}

std::vector<uint64_t> random_seeds(uint64_t configs) {
  const auto today = std::chrono::system_clock::now().time_since_epoch() / std::chrono::hours(24);
  std::vector<uint64_t> seeds(number_from("HAWSER_CONFIGS", configs));
  uint64_t seed = number_from("HAWSER_SEED", static_cast<uint64_t>(today) * 1000);
  for (uint64_t& each : seeds) {
    while (!is_wanted(seed)) ++seed;
    each = seed++;
  }
  if (!seeds.empty())
    std::printf("%zu configs from HAWSER_SEED=%llu to %llu\n", seeds.size(),
                static_cast<unsigned long long>(seeds.front()),
                static_cast<unsigned long long>(seeds.back()));
  return seeds;
}

std::string random_config(uint64_t seed) {
  for (uint64_t attempt = 0;; ++attempt) {
    if (std::string json = config(seed, attempt).dump(); is_valid(json)) return json;
  }
}

}  // namespace hawser::testing
