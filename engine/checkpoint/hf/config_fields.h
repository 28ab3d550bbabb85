// ConfigFields: a reader for the keys of a config.json. A key that is read counts as understood; the rest are
// reported as unknown at the end. Problems are collected, so that one report lists all problems of a file.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace hawser::checkpoint::hf {

struct ConfigProblem {
  std::string pointer;  ///< JSON pointer, such as /rope_scaling/factor
  std::string message;
};

class ConfigFields {
 public:
  /// Parses a complete config.json. Throws kConfigParse if it is not one strict JSON object.
  explicit ConfigFields(std::string_view text);
  ConfigFields(ConfigFields&&) noexcept;
  ~ConfigFields();

  bool has(const std::string& key) const;      ///< the key is present, understood or not
  bool is_null(const std::string& key) const;  ///< the key is present and null
  bool is_object(const std::string& key) const;
  void accept(const std::string& key);  ///< marks the key as understood, with any value

  // These return the value of a key, or `fallback` if it is absent or null. A value of another type or out of
  // range is recorded as a problem and gives the fallback.
  int64_t integer(const std::string& key, int64_t fallback, int64_t minimum = 1, int64_t maximum = INT32_MAX);
  double number(const std::string& key, double fallback, double minimum, double maximum = 1e30);
  bool flag(const std::string& key, bool fallback);
  std::string text(const std::string& key, const std::string& fallback);
  std::vector<std::string> texts(const std::string& key);
  std::vector<int64_t> integers(const std::string& key);

  /// Returns the fields of an object value; its problems go to the parent. Empty if the key is absent or
  /// null.
  ConfigFields object(const std::string& key);
  std::vector<std::string> keys() const;                 ///< all, sorted
  std::vector<std::string> unknown() const;              ///< keys that were not read so far
  std::string value_text(const std::string& key) const;  ///< JSON, shortened, for messages
  bool same_value(const std::string& key, const ConfigFields& other, const std::string& other_key) const;

  /// True if the value of `key` equals the value of `item`, or is an array that contains the value of `item`.
  bool includes(const std::string& key, const std::string& item) const;

  /// Records a problem if `key` is present and differs from `value`. `value` was read from `other_key`, which
  /// is the key that has an effect.
  void require(const std::string& key, int64_t value, const std::string& other_key);
  void problem(const std::string& key, const std::string& message);
  const std::vector<ConfigProblem>& problems() const;

 private:
  struct Impl;
  explicit ConfigFields(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace hawser::checkpoint::hf
