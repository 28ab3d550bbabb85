// Rule runner: applies the rule tables to a config and collects the problems.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "engine/config/problems.h"
#include "engine/config/rules.h"
#include "engine/config/rules_adapter.h"
#include "engine/config/rules_batch.h"
#include "engine/config/rules_ramp.h"
#include "engine/config/schema_view.h"
#include "engine/config/tree.h"

namespace hawser::config {
namespace {

struct Required {
  const char* pointer;
  const char* fix;
};

constexpr Required kRequired[] = {
    {"/model/vocab_size",
     "give the number of token ids; for text, set data.vocabulary to \"bytes\", \"characters\" or \"bpe\" "
     "instead"},
    {"/model/context", "give the maximum length of a row in tokens, such as 256"},
    {"/model/layers", "give the number of transformer blocks, such as 4"},
    {"/model/width", "give the width of the residual stream, such as 192"},
    {"/model/heads", "give the number of attention heads, such as 6"},
};

void check_required(const Effective& c, std::vector<Problem>* problems) {
  const bool has_some = std::any_of(std::begin(kRequired) + 1, std::end(kRequired),
                                    [&](const Required& required) { return c.is_given(required.pointer); });
  if (!has_some && !c.is_given("/preset")) {
    problems->push_back(
        {"/model", "the config describes no model",
         "give \"preset\" (such as \"quickstart\"), or \"model\", or \"init\": {\"from\": FOLDER}"});
    return;
  }
  for (const Required& required : kRequired) {
    if (c.is_given(required.pointer)) continue;
    // The preset's name is wrong, and the right preset might set these fields.
    if (c.is_given("/preset") && !c.has("/preset")) return;
    const bool counted_later = std::string_view(required.pointer) == "/model/vocab_size" &&
                               c.is("/data/vocabulary", "characters") && c.is("/data/format", "text");
    if (!counted_later) problems->push_back({required.pointer, "is missing", required.fix});
  }
}

void check_table(const Effective& c, std::span<const Check> checks, std::vector<Problem>* problems) {
  for (const Check& check : checks) {
    const bool ready = std::all_of(check.reads.begin(), check.reads.end(),
                                   [&](const char* pointer) { return pointer == nullptr || c.has(pointer); });
    if (!ready || !check.broken(c)) continue;
    std::string fix = c.fill(check.fix);
    if (check.nearest != nullptr) fix.replace(fix.find("{}"), 2, check.nearest(c));
    problems->push_back({check.pointer, c.fill(check.message), std::move(fix)});
  }
}

/// True if the selector has `value`, the name of an enum item or an integer.
bool has_value(const Effective& c, const Dependence& row, std::string_view value) {
  if (row.has_value != nullptr) return row.has_value(c, value);
  const Value* found = c.find(row.selector);
  if (found != nullptr && found->kind == Value::Kind::kInt) return fmt::format("{}", found->integer) == value;
  return c.is(row.selector, value);
}

/// A selector in the notation of a sentence: "zero.stage".
std::string dotted(const Dependence& row) {
  std::string selector(row.selector + 1);
  std::replace(selector.begin(), selector.end(), '/', '.');
  return selector;
}

/// The values of the selector for which the field has an effect, as a list for a sentence.
std::string needed_values(const Effective& c, const Dependence& row) {
  if (row.values.empty()) return "2 or more";
  const Value* chosen = c.find(row.selector);
  const char* quotes = chosen != nullptr && chosen->kind == Value::Kind::kInt ? "" : "\"";
  std::string needed;
  for (size_t i = 0; i < row.values.size(); ++i) {
    needed += (i == 0                       ? ""
               : i + 1 == row.values.size() ? " or "
                                            : ", ") +
              fmt::format("{0}{1}{0}", quotes, row.values[i]);
  }
  return needed;
}

/// The rows of a field follow each other.
void check_dependences(const Effective& c, std::vector<Problem>* problems) {
  const std::span<const Dependence> rows = dependences();
  for (auto row = rows.begin(); row != rows.end();) {
    const std::string_view pointer = row->pointer;
    std::string found, fixes;
    for (; row != rows.end() && pointer == row->pointer; ++row) {
      found += fmt::format("{}{} is {{{}}}", found.empty() ? "" : " and ", dotted(*row), row->selector);
      fixes += fmt::format("{}{} to {}", fixes.empty() ? "" : ", or ", dotted(*row), needed_values(c, *row));
    }
    if (!c.is_asked(pointer) || !c.has(pointer) || has_effect(c, pointer)) continue;
    problems->push_back({std::string(pointer),
                         c.fill(fmt::format("{{{}}} has no effect: {}", pointer, found)),
                         fmt::format("remove it, or set {}", fixes)});
  }
}

void check_sources(const Effective& c, const char* pointer, std::vector<Problem>* problems) {
  const Value* sources = c.find(pointer);
  if (sources == nullptr) return;
  const TableView& source = *schema().find("data")->table->find("sources")->element->table;
  const auto path_id = static_cast<size_t>(source.find("path")->id);
  for (size_t i = 0; i < sources->items.size(); ++i) {
    const Value& path = sources->items[i].fields[path_id];
    if (path.is_set() && !path.text.empty()) continue;
    problems->push_back({fmt::format("{}/{}/path", pointer, i), path.is_set() ? "is empty" : "is missing",
                         "give the path of a file"});
  }
}

/// Checks names, which distinguish validation losses. Training sources have no separate losses.
void check_names(const Effective& c, const char* pointer, bool allowed, std::vector<Problem>* problems) {
  std::vector<std::string> names;
  for (size_t i = 0; i < c.count(pointer); ++i) {
    const std::string at = fmt::format("{}/{}/name", pointer, i);
    if (!c.has(at)) continue;
    const std::string& name = c.text(at);
    if (!allowed) {
      problems->push_back({at, "has no effect: only validation sources have separate losses", "remove it"});
    } else if (name.empty()) {
      problems->push_back({at, "is empty", "give a name, or leave it out to use the file's name"});
    } else if (std::find(names.begin(), names.end(), name) != names.end()) {
      problems->push_back({at, fmt::format("{} is the name of another source", quote(name)),
                           "give each validation source a name of its own"});
    }
    names.push_back(name);
  }
}

void check_pattern(const Effective& c, const std::string& pointer, std::vector<Problem>* problems) {
  const std::string& pattern = c.text(pointer);
  if (pattern.empty()) {
    problems->push_back({pointer, "is empty, so it matches no parameter", "remove it"});
  } else if (const size_t at = pattern.find_first_of("[]{}\\|^$()+"); at != std::string::npos) {
    problems->push_back(
        {pointer, fmt::format("'{}' occurs in no parameter's name; only * and ? are wildcards", pattern[at]),
         "use a pattern such as \"blocks.0.*\""});
  }
}

void check_frozen(const Effective& c, std::vector<Problem>* problems) {
  for (size_t i = 0; i < c.count("/optimizer/frozen"); ++i)
    check_pattern(c, fmt::format("/optimizer/frozen/{}", i), problems);
}

void check_optimizer_rules(const Effective& c, std::vector<Problem>* problems) {
  for (size_t i = 0; i < c.count("/optimizer/rules"); ++i) {
    const std::string rule = fmt::format("/optimizer/rules/{}", i);
    if (c.has(rule + "/of"))
      check_pattern(c, rule + "/of", problems);
    else
      problems->push_back({rule + "/of", "is missing", "give a pattern such as \"*norm*\""});
  }
}

void check_sample(const Effective& c, const std::string& pointer, std::vector<Problem>* problems) {
  const std::string messages = pointer + "/messages";
  const bool is_text = c.has(pointer + "/text");
  if (is_text == c.has(messages)) {
    problems->push_back({pointer, is_text ? "has a text and messages" : "has neither a text nor messages",
                         "give one of them"});
    return;
  }
  if (is_text ? c.text(pointer + "/text").empty() : c.count(messages) == 0)
    problems->push_back({pointer, "is an empty prompt", "give a text or a message, or remove it"});
  for (size_t i = 0; !is_text && i < c.count(messages); ++i)
    for (const char* key : {"role", "content"})
      if (const std::string at = fmt::format("{}/{}/{}", messages, i, key); !c.has(at))
        problems->push_back({at, "is missing", "give each message a role and a content"});
}

void check_samples(const Effective& c, std::vector<Problem>* problems) {
  const char* const samples = "/telemetry/samples";
  for (size_t i = 0; i < c.count(samples); ++i) check_sample(c, fmt::format("{}/{}", samples, i), problems);
  if (c.count(samples) == 0 && c.is_asked("/telemetry/sample_tokens"))
    problems->push_back({"/telemetry/sample_tokens", "has no effect: there are no telemetry.samples",
                         "remove it, or give samples"});
  if (c.count(samples) > 0 && c.is("/model/head", "score"))
    problems->push_back({samples, "the model ends in a score and generates no text", "leave samples out"});
}

}  // namespace

bool has_effect(const Effective& config, std::string_view pointer) {
  bool depends = false;
  for (const Dependence& row : dependences()) {
    if (pointer != row.pointer) continue;
    depends = true;
    if (row.values.empty()
            ? config.integer(row.selector) > 1
            : has_effect(config, row.selector) &&
                  std::any_of(row.values.begin(), row.values.end(),
                              [&](std::string_view value) { return has_value(config, row, value); }))
      return true;
  }
  return !depends;
}

std::vector<Problem> check_rules(const Effective& config, bool complete) {
  std::vector<Problem> problems;
  if (complete) check_required(config, &problems);
  check_table(config, model_checks(), &problems);
  check_table(config, moe_checks(), &problems);
  check_table(config, batch_checks(), &problems);
  check_table(config, training_checks(), &problems);
  check_table(config, optimizer_checks(), &problems);
  check_table(config, parallel_checks(), &problems);
  check_table(config, pipeline_checks(), &problems);
  check_table(config, memory_checks(), &problems);
  check_table(config, precision_checks(), &problems);
  check_dependences(config, &problems);
  check_sources(config, "/data/sources", &problems);
  check_sources(config, "/data/validation_sources", &problems);
  check_names(config, "/data/sources", false, &problems);
  check_names(config, "/data/validation_sources", true, &problems);
  check_frozen(config, &problems);
  check_optimizer_rules(config, &problems);
  check_samples(config, &problems);
  check_ramp(config, &problems);
  check_adapter_fields(config, &problems);
  return problems;
}

}  // namespace hawser::config
