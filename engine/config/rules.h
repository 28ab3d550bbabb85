// Rules are data: derived values and contradictions. There are two tables, one row per rule: a name, the
// fields it reads and a small function. Nothing else in this folder knows the meaning of a field.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/config/effective.h"

namespace hawser::config {

/// Fields that must have a valid value; otherwise the rule does not apply.
using Reads = std::array<const char*, 6>;

/// Derives the value of a field that was not set.
struct Derivation {
  const char* rule;    ///< its name, as explain shows it: "model.head_dim = width / heads"
  const char* target;  ///< JSON pointer
  Reads reads;
  /// Returns the value, or an unset value if the rule does not apply.
  Value (*value)(const Effective&);
  bool replaces = false;  ///< also replaces a target set with lower precedence; `value` decides
};

/// Refuses a combination.
struct Check {
  const char* pointer;  ///< the field to change
  Reads reads;
  bool (*broken)(const Effective&);
  const char* message;  ///< {/pointer} stands for that field's value
  const char* fix;      ///< like message; {} stands for `nearest`
  /// Returns the nearest valid value as text; null if `fix` suffices.
  std::string (*nearest)(const Effective&) = nullptr;
};

/// A field that has an effect only for some values of another field. Setting it otherwise is refused, never
/// ignored.
struct Dependence {
  const char* pointer;
  const char* selector;  ///< the field that decides
  std::vector<std::string_view>
      values;  ///< selector values (enum names, integers) for which it has an effect; empty: above 1
};

/// Two fields with the same meaning: setting one unsets the other.
struct Alternative {
  const char *pointer, *other;
};

std::span<const Alternative> alternatives();
std::span<const Derivation> derivations();
std::span<const Check> model_checks();
std::span<const Check> moe_checks();
std::span<const Check> training_checks();
std::span<const Check> optimizer_checks();
std::span<const Check> parallel_checks();
std::span<const Check> pipeline_checks();
std::span<const Check> memory_checks();
std::span<const Check> precision_checks();
/// Returns the model chunks on each pipeline rank: 2 if the schedule prescribes two, else pipeline.chunks.
int64_t chunks_of_rank(const Effective& c);
std::span<const Dependence> dependences();

/// True if the optimizer's section or one of its rules is of that kind.
bool uses_optimizer(const Effective& c, std::string_view kind);

/// Returns false if `pointer` depends on a field that now has another value, or that has no effect itself.
bool has_effect(const Effective& config, std::string_view pointer);

/// Returns the problems that all rules find. `complete`: the model must be complete; otherwise fields that
/// init.from will provide may be missing.
std::vector<Problem> check_rules(const Effective& config, bool complete);

}  // namespace hawser::config
