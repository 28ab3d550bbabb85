// PEFT config reader: reads adapter_config.json (https://github.com/huggingface/peft,
// src/peft/tuners/lora/config.py). PEFT selects modules in tuners/tuners_utils.py
// (check_target_module_exists) and utils/other.py (get_pattern_key).
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string_view>

#include "engine/base/error.h"
#include "engine/base/json.h"
#include "engine/checkpoint/hf/peft.h"
#include "engine/checkpoint/hf/peft_pattern.h"
#include "engine/checkpoint/hf/peft_settings.h"
#include "engine/checkpoint/json_text.h"

namespace hawser::checkpoint::hf {
namespace {

/// Keys that are accepted with any value: provenance, and settings that matter only before training.
constexpr std::string_view kWithoutEffect[] = {
    "auto_mapping",  "base_model_name_or_path", "eva_config", "fan_in_fan_out", "inference_mode",
    "megatron_core", "qalora_group_size",       "revision",   "peft_version",   "runtime_config"};
/// Initialisations that leave the base unchanged.
constexpr std::string_view kPlainBeginnings[] = {"gaussian", "eva", "orthogonal"};

bool is(const OrderedJson& value, std::string_view text) {
  return value.is_string() && value.get_ref<const std::string&>() == text;
}
bool is_empty(const OrderedJson& value) {
  if (value.is_boolean()) return !value.get<bool>();
  return value.is_null() || is(value, "") || (value.is_structured() && value.empty());
}

/// Calls fn for each item of a list, or for the value itself.
template <typename Fn>
void each_item(const OrderedJson& value, Fn fn) {
  if (!value.is_array()) return fn(value);
  for (const OrderedJson& item : value) fn(item);
}

/// A list of path ends, or one expression for complete paths.
struct Paths {
  std::set<std::string, std::less<>> ends;
  std::optional<PythonPattern> pattern;

  bool have(const std::string& path) const {
    if (pattern) return pattern->matches_whole(path);
    std::string_view end = path;
    while (true) {
      if (ends.contains(end)) return true;
      const size_t dot = end.find('.');
      if (dot == end.npos) return false;
      end.remove_prefix(dot + 1);
    }
  }
};

/// A value for the modules that an expression selects.
struct ValueFor {
  PythonPattern pattern;
  double value;
};
double value_for(const std::vector<ValueFor>& list, const std::string& path, double otherwise) {
  for (const ValueFor& entry : list)
    if (entry.pattern.matches_path_end(path)) return entry.value;
  return otherwise;
}

class Reader {
 public:
  Reader(const std::string& text, const PeftModules& modules) : modules_(modules) {
    check_json_object(text, kAdapterConfigName, Code::kConfigParse, 32);
    json_ = parse_json<OrderedJson>(text);
  }

  PeftSettings read() {
    PeftSettings s;
    if (!is(take("peft_type"), "LORA")) problem("peft_type", "only \"LORA\" is supported");
    if (!has_score() && is(take("task_type"), "SEQ_CLS"))
      problem("task_type",
              "the adapter belongs to a model with a score head, but this model has a language-model head; "
              "set model.head to \"score\"");
    else
      only("task_type", has_score() ? "SEQ_CLS" : "CAUSAL_LM");
    s.usual = {static_cast<int64_t>(number(take("r"), "r", 8, 1, 65536)),
               number(take("lora_alpha"), "lora_alpha", 8, 0, 1e6)};
    s.rslora = flag("use_rslora"), s.dora = flag("use_dora");
    s.dropout = number(take("lora_dropout"), "lora_dropout", 0, 0, 0.999999);
    only("bias", "none");
    check_beginning();
    read_modules(&s);
    read_saved(&s);
    check_others();
    if (problems_.empty()) return s;
    std::string message = std::string(kAdapterConfigName) + ": ";
    for (size_t i = 0; i < problems_.size(); ++i) message += (i > 0 ? "\n  " : "") + problems_[i];
    throw Error(Code::kConfigInvalid, message);
  }

 private:
  const OrderedJson& take(const char* key) {
    static const OrderedJson none;
    taken_.insert(key);
    const auto found = json_.find(key);
    return found == json_.end() ? none : *found;
  }
  /// Lists only the first few problems of a key, because a file may have 100,000 wrong names.
  void problem(const std::string& key, const std::string& message) {
    constexpr int kMostOfAKey = 8;
    const int number = ++problems_of_[key];
    if (number == kMostOfAKey) problems_.push_back(key + " has further problems, which are not listed");
    if (number >= kMostOfAKey) return;
    const auto found = json_.find(key);
    const std::string value =
        found == json_.end() ? "missing"
                             : in_quotes(found->dump(-1, ' ', false, OrderedJson::error_handler_t::replace));
    problems_.push_back(key + " is " + value + ": " + message);
  }
  void only(const char* key, const char* value) {
    const OrderedJson& found = take(key);
    if (!found.is_null() && !is(found, value)) problem(key, fmt::format("only \"{}\" is supported", value));
  }
  bool flag(const char* key) {
    const OrderedJson& value = take(key);
    if (!value.is_null() && !value.is_boolean()) problem(key, "it must be true or false");
    return value.is_boolean() && value.get<bool>();
  }
  double number(const OrderedJson& value, const char* key, double fallback, double minimum, double maximum) {
    if (value.is_null()) return fallback;
    const double found = value.is_number() ? value.get<double>() : minimum - 1;
    if (found >= minimum && found <= maximum) return found;
    problem(key, fmt::format("it must be a number from {} to {}", minimum, maximum));
    return fallback;
  }

  /// Refuses initialisations that change the base before training, because the adapter alone does not record
  /// the change.
  void check_beginning() {
    const OrderedJson& value = take("init_lora_weights");
    if (value.is_null() || value.is_boolean()) return;
    for (const std::string_view plain : kPlainBeginnings)
      if (is(value, plain)) return;
    problem("init_lora_weights",
            "this initialisation changes the base model's weights, which is not supported; convert the "
            "adapter to plain LoRA with PEFT");
  }

  std::vector<std::string> names(const char* key, const OrderedJson& list) {
    std::vector<std::string> result;
    each_item(list, [&](const OrderedJson& item) {
      if (item.is_string())
        result.push_back(item.get_ref<const std::string&>());
      else
        problem(key, "it must be a name or a list of names");
    });
    return result;
  }

  PythonPattern compiled(const std::string& pattern, const char* key) {
    constexpr int64_t kMostStates = 100000;
    PythonPattern result(pattern, key);
    states_ += result.states();
    if (states_ > kMostStates)
      fail(Code::kConfigInvalid,
           "{}: the regular expressions of {} have more than {} states together; write the modules' names as "
           "a list instead",
           key, kAdapterConfigName, kMostStates);
    return result;
  }

  Paths paths(const char* key) {
    const OrderedJson& value = take(key);
    Paths paths;
    if (value.is_string())
      paths.pattern.emplace(compiled(value.get_ref<const std::string&>(), key));
    else if (!value.is_null())
      for (std::string& name : names(key, value)) paths.ends.insert(std::move(name));
    return paths;
  }

  /// Reads layers_to_transform, which has an effect only with a list of targets, and not for a target that is
  /// a complete path.
  std::vector<int64_t> read_layers(bool targets_are_listed) {
    const OrderedJson &layers = take("layers_to_transform"), &pattern = take("layers_pattern");
    std::vector<int64_t> chosen;
    if (is_empty(layers)) return chosen;
    if (!targets_are_listed)
      problem("layers_to_transform",
              "it has an effect only if target_modules is a list of names; make it one, or remove this key");
    each_item(layers, [&](const OrderedJson& item) {
      if (item.is_number_integer())
        chosen.push_back(item.get<int64_t>());
      else
        problem("layers_to_transform", "it must be an integer or a list of integers");
    });
    if (is_empty(pattern)) return chosen;
    for (const std::string& name : names("layers_pattern", pattern))
      if (name != "layers" && name != "h")
        problem(
            "layers_pattern",
            "the list of layers is called \"layers\" or \"h\" in supported models; use one of these names");
    return chosen;
  }

  /// Reads expressions with their values, in the file's order.
  std::vector<ValueFor> patterns(const char* key, double minimum, double maximum) {
    std::vector<ValueFor> list;
    const OrderedJson& value = take(key);
    if (!value.is_null() && !value.is_object()) problem(key, "it must be an object");
    if (!value.is_object()) return list;
    for (auto item = value.begin(); item != value.end(); ++item)
      list.push_back({compiled(item.key(), key), number(*item, key, 1, minimum, maximum)});
    return list;
  }

  void read_modules(PeftSettings* s) {
    const bool all = is(take("target_modules"), "all-linear");
    const Paths targets = all ? Paths() : paths("target_modules"), excluded = paths("exclude_modules");
    const std::vector<int64_t> layers = read_layers(!targets.ends.empty());
    const std::vector<ValueFor> ranks = patterns("rank_pattern", 1, 65536),
                                alphas = patterns("alpha_pattern", 0, 1e6);
    for (const auto& [path, ours] : modules_.linears) {
      if (!(all || targets.have(path)) || excluded.have(path)) continue;
      const bool whole = targets.ends.contains(path);
      if (!layers.empty() && !whole && std::count(layers.begin(), layers.end(), nn::layer_of(ours)) == 0)
        continue;
      s->modules[path] = {static_cast<int64_t>(value_for(ranks, path, static_cast<double>(s->usual.rank))),
                          value_for(alphas, path, s->usual.alpha)};
    }
    for (const auto& [path, parameters] : modules_.others)
      if (modules_.linears.count(path) == 0 && may_have_one(path) && targets.have(path))
        problem("target_modules", "it selects " + path +
                                      ", but only linear layers of blocks can have an adapter; leave it out");
    if (s->modules.empty())
      problem("target_modules",
              "it selects no linear layer of this model; check that the adapter belongs to this model");
  }

  /// False for norms: they cannot have an adapter, so an expression that matches all names does not select
  /// them.
  static bool may_have_one(const std::string& path) {
    return path.find("norm") == path.npos && path.find("ln_") == path.npos;
  }

  bool has_score() const { return modules_.others.count(kScorePath) > 0; }

  /// Reads modules_to_save: it selects the modules whose name ends with an item, with or without a preceding
  /// dot. For score models PEFT also lists "classifier", a name that other model classes use.
  void read_saved(PeftSettings* s) {
    const OrderedJson& value = take("modules_to_save");
    if (is_empty(value)) return;
    const std::vector<std::string> list = names("modules_to_save", value);
    const std::set<std::string_view> wanted(list.begin(), list.end());
    std::set<std::string_view> found;
    for (const auto& [path, parameters] : modules_.others)
      for (size_t at = 0; at <= path.size(); ++at)
        if (const auto name = wanted.find(std::string_view(path).substr(at)); name != wanted.end())
          s->saved.insert(path), found.insert(*name);
    for (const std::string& name : list)
      if (!found.contains(name) && !(has_score() && name == "classifier"))
        problem("modules_to_save", "the model has no module " + in_quotes(name));
  }

  void check_others() {
    for (auto item = json_.begin(); item != json_.end(); ++item) {
      const bool known = std::find(std::begin(kWithoutEffect), std::end(kWithoutEffect), item.key()) !=
                         std::end(kWithoutEffect);
      if (!known && taken_.count(item.key()) == 0 && !is_empty(*item))
        problem(item.key(),
                "this setting is not supported, and ignoring it could change the outputs; use an adapter "
                "that was trained without it");
    }
  }

  const PeftModules& modules_;
  OrderedJson json_;
  std::set<std::string> taken_;
  std::vector<std::string> problems_;
  std::map<std::string, int> problems_of_;
  int64_t states_ = 0;  ///< total of all expressions
};

}  // namespace

PeftSettings read_peft_settings(const std::string& config_text, const PeftModules& modules) {
  return Reader(config_text, modules).read();
}

}  // namespace hawser::checkpoint::hf
