// Rules are data: what follows from what, and what contradicts what. Two tables, one row per rule, each a
// name, the fields it reads and a small function; nothing else in this folder knows what a field means.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/config/effective.h"

namespace hawser::config {

/// Fields that must have a valid value; else the rule does not apply.
using Reads = std::array<const char*, 5>;

/// Gives a field that nobody set its value.
struct Derivation {
  const char* rule;    ///< its name, as explain shows it: "model.head_dim = width / heads"
  const char* target;  ///< JSON pointer
  Reads reads;
  /// The value; unset: the rule does not apply.
  Value (*value)(const Effective&);
  bool replaces = false;  ///< also where the target was set with lower precedence; `value` decides
};

/// Refuses a combination.
struct Check {
  const char* pointer;  ///< the field to change
  Reads reads;
  bool (*broken)(const Effective&);
  const char* message;  ///< {/pointer} stands for that field's value
  const char* fix;      ///< likewise; {} stands for `nearest`
  /// The nearest valid value as text; null: `fix` says it all.
  std::string (*nearest)(const Effective&) = nullptr;
};

/// A field that has an effect only when another says so. Asking for it otherwise is refused, never ignored.
struct Dependence {
  const char* pointer;
  const char* selector;  ///< the field that decides
  std::vector<std::string_view>
      values;  ///< at which values of the selector (enum names, whole numbers) the field has an effect
};

std::span<const Derivation> derivations();
std::span<const Check> model_checks();
std::span<const Check> training_checks();
std::span<const Check> parallel_checks();
std::span<const Dependence> dependences();

/// False if `pointer` depends on a field that has another value now, or that has no effect itself.
bool has_effect(const Effective& config, std::string_view pointer);

/// Problems of all rules together. `complete`: the model must be whole; else fields that init.from will give
/// may be missing.
std::vector<Problem> check_rules(const Effective& config, bool complete);

}  // namespace hawser::config
