// Effective: a config with its preset, the derivation rules and the schema's defaults applied. It works for
// a broken config too, because explain needs that. Rules read it by JSON pointer.
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
  /// Applies preset, ranges and derivations to a copy of `raw`.
  explicit Effective(const Value& raw);

  const Value& root() const { return root_; }
  /// What was wrong so far: unknown preset, ranges, choices.
  const std::vector<Problem>& problems() const { return problems_; }

  /// The value, or the default, or null. A value out of range is null too, so that no rule draws conclusions
  /// from it.
  const Value* find(std::string_view pointer) const;
  bool has(std::string_view pointer) const { return find(pointer) != nullptr; }
  /// Set by anything but a default.
  bool is_given(std::string_view pointer) const;
  /// Set by the file or a `set` to something else than the default, so the user expects an effect.
  bool is_asked(std::string_view pointer) const;
  /// Where the value comes from.
  Origin origin(std::string_view pointer) const;

  // The value as its type; the field must have one (rules list what they read and run only then).
  int64_t integer(std::string_view pointer) const;
  double number(std::string_view pointer) const;
  bool flag(std::string_view pointer) const;
  const std::string& text(std::string_view pointer) const;
  /// text(pointer) == name, false where there is no value.
  bool is(std::string_view pointer, std::string_view name) const;
  /// Elements of an array; 0 where it is not set.
  size_t count(std::string_view pointer) const;

  /// `pattern` with each {/pointer} replaced by that field's value.
  std::string fill(std::string_view pattern) const;

 private:
  void apply_preset();
  void check_ranges(const Value& value, const struct FieldView& field, const std::string& pointer,
                    bool derived);
  void derive();

  Value root_;
  std::vector<Problem> problems_;
  std::set<std::string, std::less<>> bad_;
};

}  // namespace hawser::config
