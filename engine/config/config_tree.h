// ConfigTree: a config while it is being put together: (value, origin) for each field of the schema that
// anyone has set. One walker over the embedded binary schema (capi/schema/config.fbs) serves JSON,
// FlatBuffers binary, defaults, explain, JSON Schema and validation.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/config/resolved_config.h"

namespace hawser::config {

/// Where a value came from, in order of precedence (later wins).
enum class Origin { kDefault, kPreset, kImported, kFile, kSet, kRule };

/// One thing wrong with a config.
struct Problem {
  std::string pointer;  ///< JSON pointer of the field, such as /model/heads
  std::string message;  ///< what is wrong, with the value
  std::string fix;      ///< what to do, with the nearest valid value where there is one
};

class ConfigTree {
 public:
  /// An empty config: everything unset.
  ConfigTree();
  ConfigTree(const ConfigTree&);
  ConfigTree& operator=(const ConfigTree&);
  ConfigTree(ConfigTree&&) noexcept;
  ConfigTree& operator=(ConfigTree&&) noexcept;
  ~ConfigTree();

  /// Reads a whole config. JSON is strict (no comments, no NaN, no duplicates, depth <= 32, <= 16 MiB),
  /// streamed. Throws kConfigParse for what is not JSON (with line and column), kConfigInvalid with *all*
  /// unknown keys, duplicates, wrong types and unknown enum names at once, each with a JSON pointer and a
  /// "did you mean".
  static ConfigTree from_json(std::string_view text);
  /// Reads FlatBuffers binary (file identifier HWSC), verified first. Same errors.
  static ConfigTree from_binary(const void* data, size_t size);

  /// Sets the field (or whole section or array element) at `pointer` from a JSON value; a value that is not
  /// valid JSON is taken as a string where the field is a string or enum. Throws kConfigInvalid; then *this
  /// is unchanged.
  void set(std::string_view pointer, std::string_view json_value);

  /// Fills the fields of `text` (a JSON config) that nobody has set with higher precedence. For presets
  /// (kPreset), imported model configs (kImported: init.from) and rules that depend on data (kRule).
  void overlay(std::string_view json_text, Origin origin);

  /// True and the value as JSON text, if anything but the default set this field.
  bool get(std::string_view pointer, std::string* json_value) const;

  /// Canonical JSON of what was set (without defaults), stable key order; parse(serialize(x)) == x.
  std::string to_json() const;
  std::vector<uint8_t> to_binary() const;

  struct Impl;
  const Impl& impl() const { return *impl_; }
  Impl& impl() { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

/// All problems of the config at once (empty: it is valid). Applies presets, defaults and rules to a copy.
std::vector<Problem> validate(const ConfigTree& tree);

/// The config's meaning. Throws kConfigInvalid listing all problems (message: one line each; details: JSON
/// {"problems":[{"pointer","message","fix"}]}) if there is any.
ResolvedConfig resolve(const ConfigTree& tree);

/// JSON of every field with its effective value (defaults and rules applied), canonical order.
std::string resolved_json(const ConfigTree& tree);

/// JSON for the field or section at `pointer` ("" = all): {"pointer", "value", "origin", "default",
/// "minimum", "maximum", "unit", "doc", "rule"} per field. Throws kNotFound with a "did you mean" for an
/// unknown pointer.
std::string explain(const ConfigTree& tree, std::string_view pointer);

/// JSON Schema (draft 2020-12) of the config file, for editors.
std::string json_schema();
/// The FlatBuffers binary schema itself (.bfbs).
std::vector<uint8_t> binary_schema();

/// Names of the built-in presets, and one preset as a JSON config. Throws kNotFound with a "did you mean".
std::vector<std::string> preset_names();
std::string preset_json(std::string_view name);

}  // namespace hawser::config
