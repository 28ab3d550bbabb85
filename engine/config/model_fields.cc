// Model fields: implements each walk over the model's keys with one function per kind of member.
#include "engine/config/model_fields.h"

#include <algorithm>
#include <cmath>

#include "engine/base/json.h"
#include "engine/config/key_reader.h"

namespace hawser::config {
namespace {

/// Reads the config. A key without a value stays 0 (the data may determine the vocabulary size); one without
/// effect is read too.
struct ReadKey {
  const KeyReader keys;

  template <typename Member>
  void operator()(const char* key, Member& member, bool) const {
    keys(key, member);
  }
  void operator()(const char* key, std::vector<int64_t>& windows, bool) const {
    int64_t window = 0;
    keys(key, window);
    std::vector<int64_t> chosen;
    keys("window_layers", chosen);
    const bool all = !keys.config.has("/model/window_layers");
    windows.assign(layers(), all ? window : 0);
    for (const int64_t layer : chosen) windows[static_cast<size_t>(layer)] = window;
  }
  void operator()(const char* key, nn::LayerSet& sparse, bool) const {
    sparse.has.assign(layers(), !keys.config.has(keys.prefix + key));  // not set: all layers
    std::vector<int64_t> chosen;
    keys(key, chosen);
    for (const int64_t layer : chosen)
      if (layer < static_cast<int64_t>(sparse.has.size())) sparse.has[static_cast<size_t>(layer)] = true;
  }
  size_t layers() const {
    int64_t count = 0;
    keys("layers", count);
    return static_cast<size_t>(count);
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
  template <typename Enum>
  requires std::is_enum_v<Enum>
  void write(const OrderedJson::json_pointer& at, const Enum& v) const {
    section[at] = name_at("/model" + at.to_string(), v);
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
  nn::each_model_key(model, ReadKey{{config, "/model/"}});
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
