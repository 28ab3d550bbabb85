// Adapter rules: decode the adapter section and check it against the modules and parameters of the model.
#include "engine/config/rules_adapter.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <type_traits>

#include "engine/config/key_reader.h"
#include "engine/config/suggest.h"
#include "engine/nn/parameter.h"

namespace hawser::config {
namespace {

/// The names that patterns can match.
struct Names {
  std::vector<std::string> modules, refused, parameters;
};

Names names_of(nn::ModelConfig model) {
  model.adapter = {};
  Names names;
  const nn::ParameterTable table(model);
  for (const nn::Parameter& p : table.all()) {
    const std::string module = nn::module_of(p);
    names.parameters.push_back(p.name);
    if (nn::is_linear(p)) names.modules.push_back(module);
    if (p.shape.size() >= 2 && !nn::is_linear(p)) names.refused.push_back(module);
    if (nn::is_linear(p) && module.ends_with("attention.v"))  // q, k and v as one matrix
      names.modules.push_back(module.substr(0, module.size() - 1) + "qkv");
  }
  return names;
}

class Checker {
 public:
  Checker(const nn::ModelConfig& model, std::vector<Problem>* problems)
      : adapter_(model.adapter), names_(names_of(model)), problems_(*problems) {}

  void patterns(const std::string& list, const std::string& member,
                const std::vector<std::string>& patterns) {
    for (size_t i = 0; i < patterns.size(); ++i) {
      const auto named = [&](const std::string& module) { return nn::names_module(patterns[i], module); };
      if (std::any_of(names_.modules.begin(), names_.modules.end(), named)) continue;
      const std::string pointer = fmt::format("{}/{}{}", list, i, member);
      const auto refused = std::find_if(names_.refused.begin(), names_.refused.end(), named);
      if (refused != names_.refused.end())
        add(pointer,
            fmt::format("{} cannot have an adapter: only linear layers of blocks can; experts, routers and "
                        "embedding tables cannot",
                        *refused),
            "name linear layers of blocks here, or name its parameters in adapter.train");
      else
        add(pointer, fmt::format("no module's name matches \"{}\"", patterns[i]),
            advice(patterns[i], names_.modules));
    }
  }

  void parameters() {
    for (size_t i = 0; i < adapter_.train.size(); ++i) {
      const auto named = [&](const std::string& name) {
        nn::Parameter p;
        p.name = name;
        return nn::is_named_by(p, adapter_.train[i]);
      };
      if (std::any_of(names_.parameters.begin(), names_.parameters.end(), named)) continue;
      add(fmt::format("/adapter/train/{}", i),
          fmt::format("no parameter's name matches \"{}\"", adapter_.train[i]),
          advice(adapter_.train[i], names_.parameters));
    }
  }

  /// Checks an NF4 base: NF4 stores only frozen linears, in blocks that tensor-parallel ranks must not split.
  void base(const nn::ModelConfig& model, int64_t tp) {
    const nn::ParameterTable table(model, true, {}, tp);
    const auto kept = [](const nn::Parameter& p) { return p.read == nn::Read::kNf4; };
    if (std::none_of(table.all().begin(), table.all().end(), kept))
      return add("/adapter/base",
                 "nf4 would store nothing: it stores only frozen linear layers of blocks, and adapter.train "
                 "trains all of them",
                 "use \"stored\", or name fewer parameters in adapter.train");
    const nn::Parameter* const cut = cut_by_ranks(table);
    if (cut == nullptr) return;
    int64_t fewer = tp - 1;
    while (tp % fewer != 0 || cut_by_ranks(nn::ParameterTable(model, true, {}, fewer)) != nullptr) --fewer;
    add("/adapter/base",
        fmt::format("nf4 stores blocks of {} numbers, and a division among {} tensor-parallel ranks would "
                    "cut blocks of {}: each rank would hold [{}] of [{}]",
                    kNf4Block, tp, cut->name, fmt::join(cut->local_shape, ", "), fmt::join(cut->shape, ", ")),
        fmt::format("set mesh.tp to {} and divide the model by mesh.dp_shard (with zero.stage 3) or by "
                    "mesh.pp, or use \"stored\"",
                    fewer));
  }

  /// Refuses a rank above the smaller dimension of its matrix, because a higher rank adds nothing.
  void ranks(const nn::ModelConfig& model) {
    nn::ModelConfig whole = model;
    whole.adapter.train.clear();
    const nn::ParameterTable table(whole);
    for (const nn::Parameter& p : table.all()) {
      if (!p.adapter || p.shape.size() != 2) continue;
      const bool is_a = p.name.ends_with("adapter_a.weight");
      const int64_t rank = is_a ? p.shape[0] : p.shape[1], size = is_a ? p.shape[1] : p.shape[0];
      if (rank <= size) continue;
      const std::string factor = nn::module_of(p), module = factor.substr(0, factor.rfind('.'));
      return add(
          "/adapter/rank",
          fmt::format("rank {} is above the {} {} of {}", rank, size, is_a ? "inputs" : "outputs", module),
          fmt::format("use {} or less, or give that module its own rank in adapter.ranks", size));
    }
  }

 private:
  static const nn::Parameter* cut_by_ranks(const nn::ParameterTable& table) {
    for (const nn::Parameter& p : table.all())
      if (p.read == nn::Read::kNf4 && !nn::has_whole_records(p)) return &p;
    return nullptr;
  }

  void add(std::string pointer, std::string message, std::string fix) {
    problems_.push_back({std::move(pointer), std::move(message), std::move(fix)});
  }

  static std::string advice(const std::string& pattern, const std::vector<std::string>& names) {
    std::vector<std::string> known;
    for (const std::string& name : names) {
      known.push_back(name);
      known.emplace_back(nn::within_block(name));
    }
    const std::string nearest = nearest_name(pattern, known);
    if (!nearest.empty()) return fmt::format("did you mean \"{}\"?", nearest);
    return fmt::format("names look like \"{}\"", nn::within_block(names.front()));
  }

  const nn::AdapterConfig& adapter_;
  const Names names_;
  std::vector<Problem>& problems_;
};

template <typename T>
std::vector<std::string> patterns_of(const std::vector<nn::ForModules<T>>& overrides) {
  std::vector<std::string> patterns;
  for (const nn::ForModules<T>& entry : overrides) patterns.push_back(entry.of);
  return patterns;
}

bool names(const Effective& c, const char* folder) { return c.has(folder) && !c.text(folder).empty(); }

void check_overrides(const Effective& c, const char* list, const char* key, std::vector<Problem>* problems) {
  for (size_t i = 0; i < c.count(list); ++i)
    for (const char* part : {"of", key}) {
      const std::string at = fmt::format("{}/{}/{}", list, i, part);
      if (!c.is_given(at))
        problems->push_back(
            {at, "is missing", fmt::format("each entry needs \"of\" (a module's name) and \"{}\"", key)});
    }
}

}  // namespace

nn::AdapterConfig decode_adapter(const Effective& c, const nn::ModelConfig& model) {
  nn::AdapterConfig adapter;
  each_key(adapter, KeyReader{c, "/adapter/"});
  if (!adapter.on()) return adapter;
  if (adapter.targets.empty())
    adapter.targets = nn::usual_targets(model.position == nn::Position::kLearned && !model.is_latent());
  if (model.has_score()) adapter.train.emplace_back(nn::kScoreWeight);  // as PEFT does for SEQ_CLS
  adapter.nf4 = c.is("/adapter/base", "nf4");
  return adapter;
}

void check_adapter_fields(const Effective& c, std::vector<Problem>* problems) {
  if (!c.has("/adapter/rank")) return;
  check_overrides(c, "/adapter/ranks", "rank", problems);
  check_overrides(c, "/adapter/alphas", "alpha", problems);
  const bool latent_ring = c.has("/model/latent/kv_rank") && c.integer("/model/latent/kv_rank") > 0 &&
                           c.has("/mesh/cp") && c.integer("/mesh/cp") > 1 && c.is("/mesh/cp_mode", "ring");
  if (latent_ring && c.has("/adapter/dropout") && c.number("/adapter/dropout") > 0)
    problems->push_back({"/adapter/dropout",
                         "is not supported for latent attention (model.latent) with mesh.cp_mode \"ring\"",
                         "use 0, or set mesh.cp_mode to \"ulysses\" or \"gather\""});
  if (c.is("/adapter/base", "nf4") && names(c, "/checkpoint/path") && !names(c, "/init/from"))
    problems->push_back(
        {"/adapter/base",
         "checkpoints do not contain an nf4 base, and no folder has this one, so they could not be resumed",
         "set init.from to the folder of the base model, or use \"stored\""});
  if (c.integer("/adapter/rank") > 0) return;
  for (const FieldView& field : schema_at("/adapter")->table->fields)
    if (const std::string pointer = "/adapter/" + field.name; c.is_asked(pointer))
      problems->push_back({pointer, "has no effect: adapter.rank is 0, so there is no adapter",
                           "remove it, or set adapter.rank to a number such as 16"});
}

void check_adapter(const nn::ModelConfig& model, int64_t tp, std::vector<Problem>* problems) {
  if (!model.adapter.on()) return;
  const size_t before = problems->size();
  Checker check(model, problems);
  check.patterns("/adapter/targets", "", model.adapter.targets);
  check.patterns("/adapter/ranks", "/of", patterns_of(model.adapter.ranks));
  check.patterns("/adapter/alphas", "/of", patterns_of(model.adapter.alphas));
  check.parameters();
  if (problems->size() == before) check.ranks(model);
  if (problems->size() == before && model.adapter.nf4) check.base(model, tp);
}

}  // namespace hawser::config
