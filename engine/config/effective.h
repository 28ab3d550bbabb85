// Effective: a config with its preset, the derivation rules and the schema's defaults applied. Works for an
// invalid config too, because explain needs that. Rules read it by JSON pointer.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "engine/config/config_tree.h"
#include "engine/config/value.h"

namespace hawser::config {

class Effective {
 public:
  /// Applies the preset, the range checks and the derivations to a copy of `raw`.
  explicit Effective(const Value& raw);

  const Value& root() const { return root_; }
  /// The problems found so far: an unknown preset, values out of range, invalid choices.
  const std::vector<Problem>& problems() const { return problems_; }
  /// The problems of values that were derived from other fields.
  const std::vector<Problem>& derived_problems() const { return derived_problems_; }

  /// Returns the value, else the default, else null. Also null for a value out of range, so that no rule
  /// uses it.
  const Value* find(std::string_view pointer) const;
  bool has(std::string_view pointer) const { return find(pointer) != nullptr; }
  /// True if the field was set by anything except its default.
  bool is_given(std::string_view pointer) const;
  /// True if the file or a `set` gave the field a value other than its default, so that the user expects an
  /// effect.
  bool is_asked(std::string_view pointer) const;
  /// Returns the origin of the value.
  Origin origin(std::string_view pointer) const;

  // These return the value by type. The field must have a value (rules list what they read and run only
  // then).
  int64_t integer(std::string_view pointer) const;
  double number(std::string_view pointer) const;
  bool flag(std::string_view pointer) const;
  const std::string& text(std::string_view pointer) const;
  /// True if text(pointer) == name; false without a value.
  bool is(std::string_view pointer, std::string_view name) const;
  /// Number of elements of an array; 0 if it is not set.
  size_t count(std::string_view pointer) const;

  /// Returns `pattern` with each {/pointer} replaced by that field's value.
  std::string fill(std::string_view pattern) const;

 private:
  void apply_preset();
  void check_ranges(const Value& value, const struct FieldView& field, const std::string& pointer,
                    bool derived);
  void derive();

  Value root_;
  std::vector<Problem> problems_, derived_problems_;
  std::set<std::string, std::less<>> bad_;
};

}  // namespace hawser::config
