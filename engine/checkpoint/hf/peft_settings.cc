// PEFT settings: convert between PEFT's settings and ours, and write the text of a config file.
#include "engine/checkpoint/hf/peft_settings.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/json.h"
#include "engine/checkpoint/hf/peft.h"

namespace hawser::checkpoint::hf {
namespace {

/// Returns the part of a path after its layer's number (`self_attn.q_proj`), or the path itself.
std::string within_layer(const std::string& path) {
  for (size_t dot = path.find('.'); dot != path.npos; dot = path.find('.', dot + 1)) {
    size_t end = dot + 1;
    while (end < path.size() && path[end] >= '0' && path[end] <= '9') ++end;
    if (end > dot + 1 && end < path.size() && path[end] == '.') return path.substr(end + 1);
  }
  return path;
}
std::string last_word(const std::string& path) { return path.substr(path.rfind('.') + 1); }

/// Returns short names for the paths that belong: the last component, the part after the layer, or the path.
/// A short name is used only if every path in `all` that ends with it belongs.
std::set<std::string> path_ends(const std::set<std::string>& all,
                                const std::function<bool(const std::string&)>& belongs, const char* before) {
  std::set<std::string> ends;
  for (const std::string& path : all) {
    if (!belongs(path)) continue;
    for (const std::string& end : {last_word(path), within_layer(path), path}) {
      const auto fits = [&](const std::string& other) {
        return !(other == end || other.ends_with(before + end)) || belongs(other);
      };
      if (end != path && !std::all_of(all.begin(), all.end(), fits)) continue;
      ends.insert(end);
      break;
    }
  }
  return ends;
}

/// Returns a whole number without a fraction, as PEFT writes ranks and most alphas.
OrderedJson number(double value) {
  const bool whole = value == std::floor(value) && std::abs(value) < 1e15;
  return whole ? OrderedJson(static_cast<int64_t>(value)) : OrderedJson(value);
}

using ValueOf = std::function<double(const RankAndAlpha&)>;

/// Returns pairs of our module names and their values: `attention.q` if all modules of that name have the
/// same value, else `blocks.0.attention.q`. Modules with the usual value are omitted.
std::vector<std::pair<std::string, double>> short_names(const PeftModules& modules, const PeftSettings& s,
                                                        const ValueOf& value_of, double usual) {
  std::map<std::string, std::vector<std::string>> alike;  // paths of each short name
  for (const auto& [path, module] : modules.linears)
    alike[std::string(nn::within_block(module))].push_back(path);
  const auto value_at = [&](const std::string& path) {
    const auto found = s.modules.find(path);
    return found == s.modules.end() ? usual : value_of(found->second);
  };
  std::vector<std::pair<std::string, double>> result;
  for (const auto& [name, paths] : alike) {
    const double first = value_at(paths.front());
    const bool same = std::all_of(paths.begin(), paths.end(),
                                  [&](const std::string& path) { return value_at(path) == first; });
    if (same && first != usual) result.emplace_back(name, first);
    for (const std::string& path : paths)
      if (!same && value_at(path) != usual) result.emplace_back(modules.linears.at(path), value_at(path));
  }
  return result;
}

}  // namespace

PeftModules PeftModules::of(std::string_view family, const nn::ModelConfig& model) {
  nn::ModelConfig base = model;
  base.adapter = {};
  const nn::ParameterTable table(base);
  PeftModules modules;
  for (const Binding& binding : bindings(family, base, table)) {
    const std::string path = binding.hf_name.substr(0, binding.hf_name.rfind('.'));
    for (const BindingPart& part : binding.parts) modules.others[path].push_back(part.parameter);
    if (!binding.hf_name.ends_with(".weight") || binding.parts.empty()) continue;
    const nn::Parameter& first = table.at(binding.parts.front().parameter);
    if (!nn::is_linear(first)) continue;
    const std::string module = nn::module_of(first);
    modules.linears[path] =
        binding.parts.size() == 1 ? module : module.substr(0, module.rfind('.') + 1) + "qkv";
  }
  return modules;
}

std::string adapter_json(const std::string& config_text, std::string_view family,
                         const nn::ModelConfig& model) {
  const PeftModules modules = PeftModules::of(family, model);
  const PeftSettings s = read_peft_settings(config_text, modules);
  const auto list = [&](const char* key, const ValueOf& value_of, double usual) {
    OrderedJson entries = OrderedJson::array();
    for (const auto& [name, value] : short_names(modules, s, value_of, usual))
      entries.push_back({{"of", name}, {key, number(value)}});
    return entries;
  };
  OrderedJson targets = OrderedJson::array();
  for (const auto& [name, value] : short_names(
           modules, s, [](const RankAndAlpha&) { return 1.0; }, 0.0))
    targets.push_back(name);
  std::set<std::string> trained;
  for (const std::string& path : s.saved)
    for (const std::string& parameter : modules.others.at(path)) {
      if (model.tied_head && parameter == "embedding.tokens.weight")
        fail(Code::kConfigInvalid,
             "{}: modules_to_save names {}, but the embedding and the head of this model share its weights; "
             "PEFT trains a separate copy of shared weights, which is not supported; use an adapter that was "
             "trained without it",
             kAdapterConfigName, path);
      trained.insert(parameter);
    }
  const ValueOf rank = [](const RankAndAlpha& m) { return static_cast<double>(m.rank); };
  const ValueOf alpha = [](const RankAndAlpha& m) { return m.alpha; };
  const OrderedJson adapter = {{"rank", s.usual.rank},
                               {"alpha", number(s.usual.alpha)},
                               {"rslora", s.rslora},
                               {"dora", s.dora},
                               {"dropout", number(s.dropout)},
                               {"targets", targets},
                               {"ranks", list("rank", rank, rank(s.usual))},
                               {"alphas", list("alpha", alpha, s.usual.alpha)},
                               {"train", trained}};
  return OrderedJson{{"adapter", adapter}}.dump();
}

PeftSettings peft_settings_of(const nn::ModelConfig& model, const PeftModules& modules) {
  const nn::AdapterConfig& adapter = model.adapter;
  const nn::ParameterTable table(model);
  PeftSettings s;
  s.usual = {adapter.rank, adapter.alpha};
  s.rslora = adapter.rslora, s.dora = adapter.dora, s.dropout = adapter.dropout;
  std::set<std::string> placed;
  for (const auto& [path, module] : modules.linears) {
    const nn::Parameter* const a = table.find(module + ".adapter_a.weight");
    if (a == nullptr) continue;
    placed.insert(a->name);
    const double rank = static_cast<double>(a->shape[0]), scale = nn::adapter_of(adapter, module).scale;
    double alpha = adapter.alpha;
    for (const nn::ForModules<double>& entry : adapter.alphas)
      if (nn::names_module(entry.of, module)) {
        alpha = entry.value;
        break;
      }
    HWS_CHECK(scale == alpha / (adapter.rslora ? std::sqrt(rank) : rank));
    s.modules[path] = {a->shape[0], alpha};
  }
  for (const auto& [path, parameters] : modules.others) {
    const auto trains = [&](const std::string& name) { return table.at(name).trainable; };
    const auto trained = std::count_if(parameters.begin(), parameters.end(), trains);
    const auto inner = modules.others.lower_bound(path + ".");
    if (trained > 0 && inner != modules.others.end() && inner->first.starts_with(path + "."))
      fail(Code::kFailedPrecondition,
           "a PEFT folder stores trained modules as a whole, so it cannot hold {} without the modules in {}; "
           "export the merged model",
           parameters.front(), path);
    if (trained == std::ssize(parameters)) s.saved.insert(path);
    if (trained > 0 && trained < std::ssize(parameters))
      fail(Code::kFailedPrecondition,
           "a PEFT folder stores all parameters of a trained module, but /adapter/train names only some of "
           "{}; name all of them, or export the merged model",
           path);
  }
  for (const nn::Parameter& p : table.all())
    if (p.adapter && p.name.ends_with("adapter_a.weight") && placed.count(p.name) == 0)
      fail(Code::kFailedPrecondition, "{} cannot be exported to PEFT: this model family has q, k and v in {}",
           nn::module_of(p),
           p.name.find("qkv") == p.name.npos
               ? "one module, so /adapter/targets must name attention.qkv"
               : "three modules, so /adapter/targets must name them separately, such as attention.q");
  return s;
}

std::string peft_config_text(const PeftSettings& s, const PeftModules& modules, std::string_view family,
                             const std::string& base) {
  std::set<std::string> linears, all;
  for (const auto& [path, ours] : modules.linears) linears.insert(path);
  for (const auto& [path, parameters] : modules.others) all.insert(path);
  const auto is_target = [&](const std::string& path) { return s.modules.count(path) > 0; };
  const auto is_saved = [&](const std::string& path) { return s.saved.count(path) > 0; };
  std::set<std::string> targets;
  for (const auto& [path, value] : s.modules) targets.insert(path);
  const auto patterns = [&](const ValueOf& value_of) {
    std::map<std::string, double> entries;
    for (const std::string& path : targets) {
      const double value = value_of(s.modules.at(path));
      if (value == value_of(s.usual)) continue;
      const auto same = [&](const std::string& other) { return value_of(s.modules.at(other)) == value; };
      for (const std::string& end : path_ends(targets, same, ".")) entries[end] = value;
    }
    OrderedJson json = OrderedJson::object();
    for (const auto& [end, value] : entries) json[end] = number(value);
    return json;
  };
  std::set<std::string> whole = path_ends(all, is_saved, "");
  const bool score = all.count(kScorePath) > 0;
  if (score) whole.insert("classifier");  // PEFT writes this for its task SEQ_CLS
  const OrderedJson json = {
      {"alpha_pattern", patterns([](const RankAndAlpha& m) { return m.alpha; })},
      {"auto_mapping", nullptr},
      {"base_model_name_or_path", base.empty() ? OrderedJson() : OrderedJson(base)},
      {"bias", "none"},
      {"fan_in_fan_out", family == "gpt2"},
      {"inference_mode", true},
      {"init_lora_weights", true},
      {"layers_pattern", nullptr},
      {"layers_to_transform", nullptr},
      {"lora_alpha", number(s.usual.alpha)},
      {"lora_dropout", number(s.dropout)},
      {"modules_to_save", whole.empty() ? OrderedJson() : OrderedJson(whole)},
      {"peft_type", "LORA"},
      {"r", s.usual.rank},
      {"rank_pattern", patterns([](const RankAndAlpha& m) { return static_cast<double>(m.rank); })},
      {"revision", nullptr},
      {"target_modules", path_ends(linears, is_target, ".")},
      {"task_type", score ? "SEQ_CLS" : "CAUSAL_LM"},
      {"use_dora", s.dora},
      {"use_rslora", s.rslora}};
  return json.dump(2) + "\n";
}

}  // namespace hawser::checkpoint::hf
