// ConfigTree: a config being assembled: (value, origin) for each field of the schema that has been set. One
// walker over the embedded binary schema (capi/schema/config.fbs) serves JSON, FlatBuffers binary, defaults,
// explain, JSON Schema and validation.
#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/config/resolved_config.h"

namespace hawser::config {

/// Source of a value, in ascending precedence.
enum class Origin { kDefault, kPreset, kImported, kFile, kSet, kRule };

/// One thing wrong with a config.
struct Problem {
  std::string pointer;  ///< JSON pointer of the field, such as /model/heads
  std::string message;  ///< what is wrong, including the value
  std::string fix;      ///< what to do, with the nearest valid value if there is one
};

class ConfigTree {
 public:
  /// Creates a config without any value.
  ConfigTree();
  ConfigTree(const ConfigTree&);
  ConfigTree& operator=(const ConfigTree&);
  ConfigTree(ConfigTree&&) noexcept;
  ConfigTree& operator=(ConfigTree&&) noexcept;
  ~ConfigTree();

  /// Reads a complete config. JSON is strict (no comments, no NaN, no duplicates, depth <= 32, <= 16 MiB)
  /// and streamed. Throws kConfigParse for invalid JSON (with line and column). Throws kConfigInvalid with
  /// *all* unknown keys, duplicates, wrong types and unknown enum names at once, each with a JSON pointer
  /// and a "did you mean".
  static ConfigTree from_json(std::string_view text);
  /// Reads FlatBuffers binary (file identifier HWSC) after verifying it. Throws the same errors as
  /// from_json.
  static ConfigTree from_binary(const void* data, size_t size);
  /// Returns the fields of a preset as a config. They take precedence like those of a file, except the
  /// warm-up, which gives way to the length of the run. Throws kNotFound for an unknown name.
  static ConfigTree from_preset(std::string_view name);

  /// Sets the field (or whole section or array element) at `pointer` from a JSON value. For a string or enum
  /// field, a value that is not valid JSON is taken as the string itself. Throws kConfigInvalid and then
  /// leaves *this unchanged.
  void set(std::string_view pointer, std::string_view json_value);

  /// Sets the fields of `text` (a JSON config) that have not been set with higher precedence. Used for
  /// presets (kPreset), imported model configs (kImported: init.from) and rules that depend on data (kRule).
  void overlay(std::string_view json_text, Origin origin);

  /// Returns true, and the value as JSON text, if this field was set by anything except its default.
  bool get(std::string_view pointer, std::string* json_value) const;

  /// Returns canonical JSON of the fields that were set (without defaults), in stable key order;
  /// parse(serialize(x)) == x. A preset's warm-up that gives way is written with its effective value.
  std::string to_json() const;
  /// Works like to_json, but writes the fields of the preset in place of its name. It serves callers that
  /// need only some sections, because a preset's name brings all of its sections. Throws kNotFound for an
  /// unknown preset.
  std::string to_json_without_preset() const;
  std::vector<uint8_t> to_binary() const;

  struct Impl;
  const Impl& impl() const { return *impl_; }
  Impl& impl() { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

/// Returns all problems of the config at once; empty if it is valid. Applies presets, defaults and rules to
/// a copy.
std::vector<Problem> validate(const ConfigTree& tree);

/// Returns the resolved config. Throws kConfigInvalid listing all problems (message: one line each; details:
/// JSON {"problems":[{"pointer","message","fix"}]}).
ResolvedConfig resolve(const ConfigTree& tree);

/// A field and its value as JSON.
struct Setting {
  std::string pointer, value;
  auto operator<=>(const Setting&) const = default;
};
/// Returns the resolved config with other values of some fields, without the fields that have no effect then.
/// Returns nothing if the rules refuse it.
std::optional<ResolvedConfig> resolve_with(ConfigTree tree, const std::vector<Setting>& settings);

/// Returns the settings that change the ZeRO stage and the time of reductions. Without shards, the replicas
/// become shards.
std::vector<Setting> zero_settings(const ResolvedConfig& config, int64_t stage,
                                   parallel::ReducePolicy reduce);

/// Returns JSON of every field with its effective value (defaults and rules applied), in canonical order.
std::string resolved_json(const ConfigTree& tree);

/// Returns JSON for the field or section at `pointer` ("" = all): {"pointer", "value", "origin", "default",
/// "minimum", "maximum", "unit", "doc", "rule"} per field. Throws kNotFound with a "did you mean" for an
/// unknown pointer.
std::string explain(const ConfigTree& tree, std::string_view pointer);

/// Returns the JSON Schema (draft 2020-12) of the config file, for editors.
std::string json_schema();
/// Returns the FlatBuffers binary schema itself (.bfbs).
std::vector<uint8_t> binary_schema();

/// Returns the names of the built-in presets, or one preset as a JSON config. preset_json throws kNotFound
/// with a "did you mean".
std::vector<std::string> preset_names();
std::string preset_json(std::string_view name);

}  // namespace hawser::config
