// Shrinks a config so that the proof of its layout takes seconds. How a layout treats a tensor depends on how
// the tensor is divided, not on its size. Everything that affects the division stays: stages, the order and
// sizes of chunks (shrink_pipeline.h), shared tables, and whether ranks pad the vocabulary. Other sizes
// become small and awkward.
#include <algorithm>
#include <string>
#include <vector>

#include "engine/assembly/assemble.h"
#include "engine/base/error.h"
#include "engine/base/json.h"
#include "engine/config/config_tree.h"
#include "engine/nn/parameter.h"
#include "engine/proof/prove_layout.h"
#include "engine/proof/shrink_pipeline.h"
#include "kernels/include/fp8_sizes.h"

namespace hawser::train {
namespace {

using kernels::kFp8Sizes;

constexpr int64_t kWords = 97, kDividedWords = 96;

/// Sets fields and records their old values.
class Shrinker {
 public:
  explicit Shrinker(OrderedJson json) : json_(std::move(json)) {}

  int64_t get(const char* pointer) const {
    return json_.at(OrderedJson::json_pointer(pointer)).get<int64_t>();
  }
  void set(const char* pointer, const OrderedJson& value) {
    OrderedJson& field = json_[OrderedJson::json_pointer(pointer)];
    if (field == value) return;
    changes_.push_back({{"pointer", pointer}, {"from", field}, {"to", value}});
    field = value;
  }
  void at_most(const char* pointer, int64_t most) {
    if (get(pointer) > most) set(pointer, most);
  }
  /// Limits a size of products that tensor-parallel ranks may divide. With NF4 it becomes the size of a
  /// block, so that no rank has a part of one; with fp8 on a GPU it becomes a size that has such products.
  void at_most_divided(const char* pointer, int64_t most) {
    if (get(pointer) > 0 && divides_nf4()) return set(pointer, kNf4Block);
    if (get(pointer) > 0 && multiplies_fp8())
      return set(pointer, (most + kFp8Sizes - 1) / kFp8Sizes * kFp8Sizes);
    at_most(pointer, most);
  }
  bool divides_nf4() const {
    return get("/mesh/tp") > 1 && json_.contains("adapter") &&
           json_.at("adapter").value("base", std::string()) == "nf4";
  }
  bool multiplies_fp8() const {
    return json_.value("precision", std::string()) == "fp8" && json_.value("device", std::string()) == "cuda";
  }
  OrderedJson& json() { return json_; }
  std::string changes() const { return changes_.dump(); }

 private:
  OrderedJson json_, changes_ = OrderedJson::array();
};

/// Keeps whether several heads read a key/value head, and whether several tensor-parallel ranks share one.
void shrink_heads(Shrinker* s) {
  const int64_t heads = s->get("/model/heads"), kv_heads = s->get("/model/kv_heads"), tp = s->get("/mesh/tp");
  const int64_t group = std::min<int64_t>(heads / kv_heads, 2);
  int64_t kept = std::min<int64_t>(kv_heads, 2);
  if (tp > 1) kept = kv_heads % tp == 0 ? tp : kv_heads > 1 && tp % 2 == 0 ? tp / 2 : 1;
  s->set("/model/kv_heads", kept);
  s->set("/model/heads", tp == 1 ? kept * group : kv_heads % tp == 0 ? tp * group : tp);
  if (s->get("/mesh/cp") == 1 || s->json()["mesh"].value("cp_mode", std::string()) != "ulysses") return;
  const int64_t cp = s->get("/mesh/cp"), divided = kv_heads % (tp * cp) == 0 ? cp : 1;
  s->set("/model/kv_heads", tp == 1 ? divided : kept * divided);
  s->set("/model/heads", divided > 1 ? tp * cp * group : tp * cp);
}

/// Sets the layers of each chunk, because the planner would divide a small model differently.
void set_pipeline(Shrinker* s, const config::ResolvedConfig& given) {
  const parallel::pipeline::SmallPipeline small = shrink_pipeline(given, given.batch.grad_accum_steps);
  s->set("/model/layers", small.all_layers());
  s->set("/batch/grad_accum_steps", small.micro_batches);
  s->json()["batch"].erase("global_batch");
  if (small.stages == 1) return;
  OrderedJson& pipeline = s->json()["pipeline"];
  s->set("/mesh/pp", small.stages);
  if (small.configures_chunks)
    s->set("/pipeline/chunks", std::ssize(small.layers) / small.stages);
  else
    pipeline.erase("chunks");
  if (small.group > 0) s->set("/pipeline/group", small.group);
  pipeline["layers"] = small.given;
  s->set("/pipeline/layers", small.layers);
}

void shrink_layer_list(Shrinker* s, const char* pointer) {
  const OrderedJson::json_pointer at(pointer);
  if (!s->json().contains(at)) return;
  OrderedJson layers = OrderedJson::array();
  for (const OrderedJson& layer : s->json()[at])
    if (layer.get<int64_t>() < s->get("/model/layers")) layers.push_back(layer);
  s->set(pointer, layers);
}

/// Keeps at most 8 experts, in at most 4 groups that divide the number of groups before. If no sparse
/// layer is left, the last layer becomes sparse.
void shrink_experts(Shrinker* s) {
  if (!s->json()["model"].contains("moe") || s->get("/model/moe/experts") == 0) return;
  const int64_t groups = s->json()["model"]["moe"].value("groups", int64_t{1});
  int64_t kept = std::min<int64_t>(groups, 4);
  while (groups % kept != 0) --kept;
  if (kept != groups) s->set("/model/moe/groups", kept);
  if (s->json()["model"]["moe"].contains("top_groups")) s->at_most("/model/moe/top_groups", kept);
  const int64_t size = std::max<int64_t>(s->get("/model/moe/experts") / groups, 1);
  s->set("/model/moe/experts", kept * std::min<int64_t>(size, 8 / kept));
  s->at_most("/model/moe/top_k", std::min<int64_t>(3, s->get("/model/moe/experts")));
  s->at_most("/model/moe/width", 24);
  s->at_most("/model/moe/shared_width", s->divides_nf4() ? kNf4Block * s->get("/mesh/tp") : 24);
  shrink_layer_list(s, "/model/moe/layers");
  OrderedJson& moe = s->json()["model"]["moe"];
  if (moe.contains("layers") && moe["layers"].empty())
    s->set("/model/moe/layers", {s->get("/model/layers") - 1});
}

void shrink_latent(Shrinker* s) {
  if (!s->json()["model"].contains("latent") || s->get("/model/latent/kv_rank") == 0) return;
  s->at_most("/model/head_dim", 10);
  s->at_most("/model/latent/rope_dim", 4);
  s->at_most_divided("/model/latent/value_dim", 6);
  s->at_most_divided("/model/latent/kv_rank", 12);
  s->at_most_divided("/model/latent/q_rank", 14);
}

/// Keeps whether a part of each head rotates, or the whole head.
void shrink_rotation(Shrinker* s, const nn::ModelConfig& given) {
  if (given.position != nn::Position::kRotary || given.is_latent()) return;
  const int64_t head_dim = s->get("/model/head_dim");
  if (given.rope.dim == given.head_dim)
    s->set("/model/rope/dim", head_dim);
  else
    s->at_most("/model/rope/dim", std::max<int64_t>(2, head_dim / 4 * 2));
}

/// Keeps whether tp divides the vocabulary, because ranks pad their shards only if there is a remainder.
void shrink_vocabulary(Shrinker* s, const config::ResolvedConfig& given) {
  const bool divides = given.model.vocab_size % s->get("/mesh/tp") == 0;
  s->at_most("/model/vocab_size", divides ? kDividedWords : kWords);
}

void shrink_model(Shrinker* s, const config::ResolvedConfig& given) {
  set_pipeline(s, given);
  shrink_vocabulary(s, given);
  s->at_most("/model/context", 32);
  s->at_most("/model/window", 7);
  shrink_heads(s);
  shrink_latent(s);
  const int64_t tp = s->get("/mesh/tp");
  s->at_most_divided("/model/head_dim", s->json()["model"].contains("latent") ? 10 : 8);
  shrink_rotation(s, given.model);
  s->at_most_divided("/model/width", 40);
  const int64_t unit = s->divides_nf4() ? kNf4Block : s->multiplies_fp8() ? kFp8Sizes : 1;
  s->at_most("/model/mlp_width", std::max<int64_t>(1, 72 / (unit * tp)) * unit * tp);
  const int64_t words = s->get("/model/vocab_size");
  if (s->get("/model/padding_token") >= words) s->set("/model/padding_token", words - 1);
  shrink_layer_list(s, "/model/window_layers");
  shrink_experts(s);
}

/// Removes teacher.from, because the proof pushes the teacher's rows, and reduces teacher.top.
void shrink_teacher(Shrinker* s) {
  OrderedJson& teacher = s->json()["teacher"];
  teacher.erase("from");
  if (teacher.contains("top")) s->at_most("/teacher/top", 8);
}

/// Reduces the mesh to at most eight data-parallel ranks, or to four or two if there are model-parallel ranks
/// too. The axes in use stay the same. Stages shrink with the model.
void shrink_mesh(Shrinker* s) {
  const bool both = s->get("/mesh/dp_replicate") > 1 && s->get("/mesh/dp_shard") > 1;
  const int64_t tp = s->get("/mesh/tp");
  int64_t fewer = std::min<int64_t>(tp, 4);
  while (fewer > 1 && tp % fewer != 0) --fewer;
  if (fewer > 1) s->set("/mesh/tp", fewer);
  const int64_t cp = s->get("/mesh/cp");
  s->at_most("/mesh/cp", cp % 2 == 0 ? 2 : 3);
  const int64_t beside = s->get("/mesh/pp") * s->get("/mesh/tp") * s->get("/mesh/cp");
  const int64_t most = beside > 16 ? 2 : tp * cp > 1 ? 4 : 8;  // data-parallel ranks
  s->at_most("/mesh/dp_replicate", both ? 2 : most);
  s->at_most("/mesh/dp_shard", both ? std::max<int64_t>(2, most / 2) : most);
  const int64_t replicate = s->get("/mesh/dp_replicate"), shard = s->get("/mesh/dp_shard"),
                copy = shard * s->get("/mesh/cp");
  const bool copies = replicate > 1 && copy > 1;
  OrderedJson& comm = s->json()["comm"];
  if (comm.contains("sum_group") && (copies || replicate * copy % comm["sum_group"].get<int64_t>() != 0))
    s->set("/comm/sum_group", copies ? copy : replicate * copy);
  OrderedJson& zero = s->json()["zero"];
  if (zero.contains("reshard_group") && shard % zero["reshard_group"].get<int64_t>() != 0)
    s->set("/zero/reshard_group", 2);
}

/// Reduces ep until it divides the number of experts and the number of ranks.
void shrink_expert_ranks(Shrinker* s) {
  const int64_t ep = s->get("/mesh/ep"), experts = s->get("/model/moe/experts");
  if (ep == 1) return;
  const int64_t ranks = s->get("/mesh/dp_shard") * s->get("/mesh/cp") * s->get("/mesh/tp");
  int64_t fewer = ep;
  while (experts % fewer != 0 || ranks % fewer != 0) --fewer;
  if (fewer < ep) s->set("/mesh/ep", fewer);
  if (fewer == 1) s->json()["moe"].erase("rows_factor");
}

/// Keeps the largest and the smallest size of a ramp, each with fewer micro-batches (shrink_pipeline). Only
/// the second step has the smallest size.
void shrink_ramp(Shrinker* s, const config::ResolvedConfig& given) {
  if (given.batch.ramp.empty()) return;
  const int64_t least = given.batch.all_micro_batches().front(), most = s->get("/batch/grad_accum_steps"),
                few = std::min(most, shrink_pipeline(given, least).micro_batches),
                rows = s->get("/batch/micro_batch") * s->get("/mesh/dp_replicate") * s->get("/mesh/dp_shard");
  OrderedJson ramp = {{{"from_rows", 0}, {"global_batch", most * rows}}};
  if (few < most) {
    ramp.push_back({{"from_rows", most * rows}, {"global_batch", few * rows}});
    ramp.push_back({{"from_rows", (most + few) * rows}, {"global_batch", most * rows}});
  }
  s->set("/batch/ramp", ramp);
}

void shrink_batch(Shrinker* s, const config::ResolvedConfig& given) {
  s->at_most("/batch/micro_batch", 2);
  s->at_most("/batch/sequence", 12);  // more than the most prediction depths
  shrink_ramp(s, given);
}

/// Keeps several buckets, as the full model would have.
void shrink_buckets(Shrinker* s) {
  OrderedJson& zero = s->json()["zero"];
  if (zero["stage"] == 3) return;
  for (const auto& [pointer, most] :
       {std::pair{"/zero/bucket_bytes", 16384}, {"/zero/first_bucket_bytes", 4096}})
    if (zero.contains(pointer + 6)) s->at_most(pointer, most);
}

/// Ranks that share blocks compute gradients with other last bits than one rank, and records of integers
/// round such a difference to a code or to its neighbour. So their layout is proved with gradients that are
/// not rounded. So are layouts that gather rounded weights, because plain ranks, with which they are
/// compared, do not.
void leave_out_records(Shrinker* s) {
  if (s->json()["zero"].contains("quantized_weights")) s->set("/zero/quantized_weights", "off");
  const int64_t sharing = s->get("/mesh/tp") * s->get("/mesh/cp") * s->get("/mesh/ep");
  if (sharing > 1 && s->json()["zero"].contains("quantized_gradients"))
    s->set("/zero/quantized_gradients", "off");
}

/// Limits the adapter's ranks and keeps the patterns that still match. `bare`: the model without the adapter.
void shrink_adapter(Shrinker* s, const nn::ModelConfig& bare) {
  if (!s->json().contains("adapter")) return;
  OrderedJson& adapter = s->json()["adapter"];
  adapter.erase("from");
  if (s->get("/adapter/rank") == 0) return;
  const nn::ParameterTable table(bare);
  int64_t most = 3;  // no linear may have fewer inputs or outputs
  for (const nn::Parameter& p : table.all())
    if (nn::is_linear(p)) most = std::min(most, *std::min_element(p.shape.begin(), p.shape.end()));
  s->at_most("/adapter/rank", most);
  const auto names_one = [&](const std::string& pattern) {
    return std::any_of(table.all().begin(), table.all().end(), [&](const nn::Parameter& p) {
      const std::string module = nn::module_of(p), parent = module.substr(0, module.rfind('.'));
      return nn::is_linear(p) &&
             (nn::names_module(pattern, module) || nn::names_module(pattern, parent + ".qkv"));
    });
  };
  const auto trains_one = [&](const std::string& pattern) {
    return std::any_of(table.all().begin(), table.all().end(),
                       [&](const nn::Parameter& p) { return nn::is_named_by(p, pattern); });
  };
  for (const char* key : {"targets", "ranks", "alphas", "train"}) {
    if (!adapter.contains(key)) continue;
    OrderedJson kept = OrderedJson::array();
    for (OrderedJson entry : adapter[key]) {
      if (entry.contains("rank")) entry["rank"] = std::min(most, entry["rank"].get<int64_t>());
      const std::string pattern = entry.is_object() ? entry.value("of", "") : entry.get<std::string>();
      if (std::string(key) == "train" ? trains_one(pattern) : names_one(pattern)) kept.push_back(entry);
    }
    if (kept == adapter[key]) continue;
    if (kept.empty())
      adapter.erase(key);
    else
      s->set((std::string("/adapter/") + key).c_str(), kept);
  }
}

/// Keeps the patterns that still match. Drops some if together they would freeze everything.
void shrink_frozen(Shrinker* s, const nn::ModelConfig& model) {
  OrderedJson& optimizer = s->json()["optimizer"];
  if (!optimizer.contains("frozen")) return;
  const nn::ParameterTable table(model);
  auto kept = optimizer["frozen"].get<std::vector<std::string>>();
  std::erase_if(kept, [&](const std::string& pattern) {
    return std::none_of(table.all().begin(), table.all().end(),
                        [&](const nn::Parameter& p) { return nn::is_named_by(p, pattern); });
  });
  const auto freezes = [&](const nn::Parameter& p) {
    return std::any_of(kept.begin(), kept.end(),
                       [&](const std::string& pattern) { return nn::is_named_by(p, pattern); });
  };
  while (!kept.empty() && std::all_of(table.all().begin(), table.all().end(), freezes)) kept.pop_back();
  s->set("/optimizer/frozen", kept);
}

/// Keeps the rules that still name a parameter that is trained.
void shrink_rules(Shrinker* s, const config::ResolvedConfig& config) {
  OrderedJson& optimizer = s->json()["optimizer"];
  if (!optimizer.contains("rules")) return;
  const nn::ParameterTable table(config.model, true, config.optimizer.frozen);
  OrderedJson kept = OrderedJson::array();
  for (const OrderedJson& rule : optimizer["rules"]) {
    const auto names = [&](const nn::Parameter& p) {
      return p.trainable && nn::is_named_by(p, rule.at("of").get<std::string>());
    };
    if (std::ranges::any_of(table.all(), names)) kept.push_back(rule);
  }
  s->set("/optimizer/rules", kept);
}

}  // namespace

config::ConfigTree shrink_for_proof(const config::ConfigTree& config, std::string* changes) {
  const Assembly given = assemble(config);
  if (given.config.objective.weighs_targets())
    fail(Code::kConfigInvalid,
         "/objective/kind: the proof compares layouts under \"cross_entropy\" only; leave the objective out");
  OrderedJson json = parse_json<OrderedJson>(config::resolved_json(given.tree));
  // The proof pushes its batches, starts from initial weights and saves nothing.
  for (const char* section : {"data", "checkpoint", "telemetry", "train", "cpu"}) json.erase(section);
  for (const char* key : {"from", "ignore_keys"}) json["init"].erase(key);
  json["cpu"] = {{"threads", 1}};
  Shrinker shrinker(std::move(json));
  shrink_mesh(&shrinker);
  shrink_model(&shrinker, given.config);
  shrink_teacher(&shrinker);
  shrink_expert_ranks(&shrinker);
  shrink_batch(&shrinker, given.config);
  shrink_buckets(&shrinker);
  leave_out_records(&shrinker);
  OrderedJson bare = shrinker.json();
  bare["optimizer"].erase("frozen"), bare.erase("adapter");
  shrink_adapter(&shrinker, assemble(config::ConfigTree::from_json(bare.dump())).config.model);
  OrderedJson without_frozen = shrinker.json();
  without_frozen["optimizer"].erase("frozen");
  shrink_frozen(&shrinker, assemble(config::ConfigTree::from_json(without_frozen.dump())).config.model);
  shrink_rules(&shrinker, assemble(config::ConfigTree::from_json(shrinker.json().dump())).config);
  *changes = shrinker.changes();
  return config::ConfigTree::from_json(shrinker.json().dump());
}

}  // namespace hawser::train
