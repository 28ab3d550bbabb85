#include "tests/harness/random_config.h"

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/philox.h"
#include "engine/config/config_tree.h"
#include "engine/nn/model.h"
#include "engine/train/assembly/assemble.h"

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
  return rope;
}

Json model(Draw* d) {
  const int64_t kv_heads = d->from(1, 3), layers = d->from(1, 4);
  Json m = {
      {"vocab_size", d->from(30, 150)}, {"context", d->from(16, 48)},  {"layers", layers},
      {"width", d->from(3, 60)},        {"kv_heads", kv_heads},        {"heads", kv_heads * d->from(1, 3)},
      {"head_dim", d->from(1, 12)},     {"mlp_width", d->from(5, 90)}, {"tied_head", d->once_in(2)},
      {"qk_norm", d->once_in(3)},       {"post_norm", d->once_in(3)}};
  m["norm"] = d->one_of({"layer_norm", "rms_norm"});
  m["mlp"] = d->one_of({"gelu", "gelu_tanh", "swiglu", "geglu", "geglu_exact"});
  m["position"] = d->one_of({"learned", "rotary", "none"});
  if (m["position"] == "rotary") m["rope"] = rope(d);
  if (m["norm"] == "rms_norm" && d->once_in(3)) m["norm_weight_offset"] = 1;
  for (const char* bias : {"q", "k", "v", "o", "up", "down", "gate", "norm"})
    if (d->once_in(4)) m["bias"][bias] = d->once_in(2);
  if (d->once_in(3)) m["window"] = d->from(1, 20);
  if (m.contains("window") && d->once_in(2)) m["window_layers"] = {d->from(0, layers - 1)};
  if (d->once_in(4)) m["attention_scale"] = 0.3;
  if (d->once_in(4)) m["attention_softcap"] = 5;
  if (d->once_in(4)) m["logit_softcap"] = 4;
  if (d->once_in(4)) m["embedding_scale"] = 3;
  if (d->once_in(4)) m["padding_token"] = d->from(0, 29);
  for (const char* site : {"embedding", "attention", "residual"})
    if (d->once_in(3)) m["dropout"][site] = 0.2;
  if (m["position"] != "rotary" || !d->once_in(2)) return m;
  m["kv_heads"] = m["heads"], m["head_dim"] = d->from(5, 12), m["qk_norm"] = m["bias"]["v"] = false;
  m["latent"] = {{"kv_rank", d->from(2, 20)},
                 {"q_rank", d->one_of({0, 9, 16})},
                 {"rope_dim", d->one_of({2, 4})},
                 {"value_dim", d->from(1, 14)},
                 {"interleaved", d->once_in(2)}};
  return m;
}

Json optimizer(Draw* d) {
  Json o = {
      {"kind", d->one_of({"adamw", "sgd"})}, {"learning_rate", 0.01}, {"clip_norm", d->one_of({0, 0.5})}};
  if (o["kind"] == "sgd" && d->once_in(2)) o["momentum"] = 0.9, o["nesterov"] = d->once_in(2);
  if (d->once_in(3))
    for (int64_t i = d->from(1, 3); i > 0; --i)
      o["frozen"].push_back(d->one_of({"embedding.*", "blocks.0.*", "blocks.?.mlp.*", "*.attention.*",
                                       "*norm*", "blocks.1*", "blocks.3*", "head*", "blocks.*"}));
  return o;
}

Json config(uint64_t seed, uint64_t attempt) {
  Draw d(seed, attempt);
  Json c = {{"seed", seed}, {"cpu", {{"threads", 1}}}};
  c["precision"] = d.one_of({"fp32", "fp32", "bf16", "bf16_pure"});
  c["model"] = model(&d);
  c["optimizer"] = optimizer(&d);
  c["schedule"] = {{"kind", d.one_of({"constant", "cosine"})}, {"warmup_steps", d.from(0, 2)}};
  c["mesh"] = {{"dp_replicate", d.one_of({1, 1, 2, 3, 4})}, {"dp_shard", d.one_of({1, 2, 3, 4, 6, 12})}};
  c["batch"] = {{"micro_batch", d.from(1, 3)},
                {"grad_accum_steps", d.one_of({1, 1, 2, 3, 4, 8})},
                {"sequence", d.from(1, 16)}};
  Json& zero = c["zero"];
  zero = {{"stage", d.from(0, 3)}, {"reduce", d.one_of({"per_step", "per_micro_batch"})}};
  if (d.once_in(5)) zero["sum_order"] = "tree";
  if (d.once_in(3)) zero["gradient_type"] = "bf16";
  if (zero["stage"] == 3) {
    zero["prefetch"] = d.from(0, 3);
    zero["reshard_after_forward"] = d.one_of({"full", "keep", "group"});
    if (zero["reshard_after_forward"] == "group") zero["reshard_group"] = d.from(2, 6);
  } else if (d.once_in(2)) {
    zero["bucket_bytes"] = d.from(1, 20000);
  }
  if (d.once_in(3)) c["comm"]["sum_group"] = d.from(1, 6);
  return c;
}

bool is_valid(const std::string& json) {
  try {
    const config::ResolvedConfig c = train::assemble(config::ConfigTree::from_json(json)).config;
    const nn::Model model(c.model, c.init.scale_residual, c.optimizer.frozen);
    return c.mesh.world() > 1;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

std::string random_config(uint64_t seed) {
  for (uint64_t attempt = 0;; ++attempt) {
    std::string json = config(seed, attempt).dump();
    if (is_valid(json)) return json;
  }
}

}  // namespace hawser::testing
