#include "engine/state/base_engine.h"

#include <filesystem>
#include <vector>

#include "engine/assembly/base_weights.h"
#include "engine/base/error.h"
#include "engine/base/json.h"
#include "engine/config/problems.h"
#include "engine/config/tree.h"
#include "engine/ranks/choose_device.h"
#include "engine/state/durable_state.h"
#include "engine/state/progress.h"

namespace hawser::train {
namespace {

void require_lender(const BaseEngine& base) {
  const char* const why =
      !base.ranks.inference()        ? "was created to train; create it with HWS_ENGINE_INFERENCE"
      : base.ranks.borrows_weights() ? "itself uses the weights of another engine; name that one"
      : base.progress.base_json == "{}"
          ? "has weights that are in no folder (/init/from), so checkpoints could not refer to them"
      : base.progress.weights_changed
          ? "has weights that hws_tensor_set changed; write them to a folder first"
          : nullptr;
  if (why) fail(Code::kFailedPrecondition, "the base engine {}", why);
}

bool same_folder(const std::string& a, const std::string& b) {
  std::error_code error;
  return a == b || std::filesystem::equivalent(a, b, error);
}

/// A parameter that /adapter/train names must start from unrounded weights, so the base engine must store it
/// in the type that training needs.
void require_digits(DType stored, DType needed, const nn::Parameter& p) {
  if (stored == needed) return;
  config::throw_if_any({{"/adapter/train",
                         fmt::format("\"{}\" is trained, but the base engine has rounded it to {}", p.name,
                                     dtype_name(stored)),
                         "create the base engine without an adapter"}});
}

}  // namespace

void require_base(const BaseEngine& base, const Assembly& ours) {
  require_lender(base);
  const Assembly& theirs = base.ranks.assembly();
  const config::ResolvedConfig &c = ours.config, &b = theirs.config;
  std::vector<config::Problem> problems;
  const auto need = [&](bool fits, const char* pointer, const char* problem, const std::string& fix) {
    if (!fits) problems.push_back({pointer, problem, fix});
  };
  const std::string folder = parse_json<Json>(base.progress.base_json).value("from", "");
  need(c.model.adapter.on(), "/adapter",
       "an engine that uses the weights of another must train an adapter, but this config has none",
       "set adapter.rank, or use the base engine itself");
  need(!c.init.from.empty() && same_folder(base_folder(c.init), folder), "/init/from",
       "the base engine has other weights",
       fmt::format("name {}, or a checkpoint of an adapter on it", folder));
  const bool same_head = c.model.has_score() == b.model.has_score();
  need(same_head, "/model/head", "the base engine has another",
       fmt::format("create the base engine with model.head \"{}\"",
                   config::name_at("/model/head", c.model.head)));
  need(!same_head || ours.model_json == theirs.model_json, "/model", "the base engine has another model",
       "leave /model out");
  need(c.precision == b.precision, "/precision", "the base engine has another",
       fmt::format("set {}", config::name_at("/precision", b.precision)));
  need(degrees_text(c.mesh) == degrees_text(b.mesh) && c.mesh.sequence_parallel == b.mesh.sequence_parallel,
       "/mesh", "the base engine has another", fmt::format("give it {}", degrees_text(b.mesh)));
  need(c.zero.stage == b.zero.stage, "/zero/stage", "the base engine has another",
       fmt::format("set {}", b.zero.stage));
  need(!b.model.int8_linears, "/zero/quantized_weights",
       "the base engine keeps its weights in records of int8",
       "create the base engine with zero.quantized_weights \"off\"");
  need(choose_device(c.device).plugin == base.ranks.device().plugin, "/device",
       "the base engine has its weights on another device", fmt::format("set \"{}\"", b.device));
  config::throw_if_any(problems);
}

void copy_from_base(const BaseEngine& base, const Ranks& ranks) {
  for (const nn::Parameter& p : ranks.table().all()) {
    if (p.adapter || p.in_base()) continue;
    const nn::Parameter& theirs = base.ranks.table().at(p.name);
    std::vector<float> whole(static_cast<size_t>(p.size));
    base.tensors.collect(TensorKind::kWeight, theirs, whole.data());
    ranks.on_each([&](Rank& rank, int32_t i) {
      const DType stored = base.ranks.at(i).executor().state(theirs.group).weights.type;
      part_of(rank, p,
              [&](const nn::Parameter&, int64_t begin, int64_t end, int64_t at, const GroupState& s) {
                require_digits(stored, s.weights.type, p);
                write_values(rank.link(), s.weights.from(at), whole.data() + begin, end - begin);
              });
    });
  }
}

}  // namespace hawser::train
