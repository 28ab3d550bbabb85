// Model fields: implements each walk over the model's keys with one function per kind of member.
#include "engine/config/model_fields.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "engine/base/json.h"
#include "engine/config/schema_view.h"
#include "engine/config/tree.h"

namespace hawser::config {
namespace {

template <typename T>
concept Enum = std::is_enum_v<T>;

std::string pointer_of(const char* key) { return std::string("/model/") + key; }

const EnumView& words_of(const std::string& pointer) { return *schema_at(pointer)->enumeration; }

/// Reads the config. A key without a value stays 0 (the data may determine the vocabulary size).
struct ReadKey {
  const Effective& config;

  template <typename Member>
  void operator()(const char* key, Member& member, bool) const {
    const std::string pointer = pointer_of(key);
    if constexpr (std::is_same_v<Member, nn::LayerSet>)  // a layer set that is not set covers all layers
      member.has.assign(
          config.has("/model/layers") ? static_cast<size_t>(config.integer("/model/layers")) : 0, true);
    if (config.has(pointer)) read(pointer, &member);
  }
  void read(const std::string& pointer, int64_t* v) const { *v = config.integer(pointer); }
  void read(const std::string& pointer, double* v) const { *v = config.number(pointer); }
  void read(const std::string& pointer, bool* v) const { *v = config.flag(pointer); }
  void read(const std::string& pointer, Enum auto* v) const {
    *v = static_cast<std::remove_pointer_t<decltype(v)>>(words_of(pointer).find(config.text(pointer))->value);
  }
  void read(const std::string& pointer, std::vector<int64_t>* windows) const {
    const size_t layers =
        config.has("/model/layers") ? static_cast<size_t>(config.integer("/model/layers")) : 0;
    const int64_t window = config.integer(pointer);
    const Value* chosen = config.find("/model/window_layers");
    windows->assign(layers, chosen == nullptr ? window : 0);
    if (chosen == nullptr) return;
    for (const Value& layer : chosen->items) (*windows)[static_cast<size_t>(layer.integer)] = window;
  }
  void read(const std::string& pointer, nn::LayerSet* layers) const {
    layers->has.assign(layers->has.size(), false);
    for (const Value& layer : config.find(pointer)->items)
      if (layer.integer < static_cast<int64_t>(layers->has.size()))
        layers->has[static_cast<size_t>(layer.integer)] = true;
  }
};

/// Writes the model. "rope/theta" is in a section of its own.
struct WriteKey {
  OrderedJson& section;

  template <typename Member>
  void operator()(const char* key, const Member& member, bool applies) const {
    if (applies) write(OrderedJson::json_pointer(std::string("/") + key), member);
  }
  void write(const OrderedJson::json_pointer& at, const auto& v) const { section[at] = v; }
  void write(const OrderedJson::json_pointer& at, const Enum auto& v) const {
    section[at] = words_of("/model" + at.to_string()).find(static_cast<int64_t>(v))->name;
  }
  void write(const OrderedJson::json_pointer& at, const std::vector<int64_t>& windows) const {
    int64_t window = 0;
    OrderedJson layers = OrderedJson::array();
    for (size_t i = 0; i < windows.size(); ++i) {
      if (windows[i] == 0) continue;
      window = windows[i];
      layers.push_back(i);
    }
    section[at] = window;
    if (window > 0) section["window_layers"] = layers;
  }
  void write(const OrderedJson::json_pointer& at, const nn::LayerSet& layers) const {
    OrderedJson& list = section[at] = OrderedJson::array();
    for (size_t i = 0; i < layers.has.size(); ++i)
      if (layers.has[i]) list.push_back(i);
  }
};

bool same(const OrderedJson& a, const OrderedJson& b) {
  if (!a.is_number_float() || !b.is_number_float()) return a == b;
  const double x = a.get<double>(), y = b.get<double>();
  return std::abs(x - y) <= 1e-6 * std::max(std::abs(x), std::abs(y));
}

}  // namespace

nn::ModelConfig decode_model(const Effective& config) {
  nn::ModelConfig model;
  nn::each_model_key(model, ReadKey{config});
  return model;
}

nn::ModelConfig default_model() { return decode_model(Effective(ConfigTree().impl().root)); }

OrderedJson model_json(const nn::ModelConfig& model) {
  OrderedJson section;
  nn::each_model_key(model, WriteKey{section});
  return section;
}

std::vector<std::string> model_differences(const nn::ModelConfig& a, const nn::ModelConfig& b) {
  const OrderedJson ours = model_json(a).flatten(), theirs = model_json(b).flatten();
  std::vector<std::string> pointers;
  const auto differs = [&](const std::string& key, const OrderedJson& value, const OrderedJson& other) {
    return !key.starts_with("/dropout/") && (!other.contains(key) || !same(value, other[key]));
  };
  for (const auto& [key, value] : ours.items())
    if (differs(key, value, theirs)) pointers.push_back(key);
  for (const auto& [key, value] : theirs.items())
    if (!ours.contains(key) && differs(key, value, ours)) pointers.push_back(key);
  return pointers;
}

}  // namespace hawser::config
