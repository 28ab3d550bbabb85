#include "tests/bad_input/case.h"

#include <hawser.h>

#include <cctype>
#include <map>
#include <utility>

#include "tests/bad_input/site.h"

namespace hawser::bad_input {
namespace {

/// Replaces the site's folder, whose name differs each time.
std::string without_folder(std::string text, const std::string& folder) {
  for (size_t at = text.find(folder); at != std::string::npos; at = text.find(folder, at))
    text.replace(at, folder.size(), "...");
  return text;
}

Outcome run(const Case& row) {
  Site site;
  Outcome outcome;
  outcome.status = row.act(site);
  outcome.message = site.said();
  outcome.details = "{}";
  hws_error* error = nullptr;
  if (outcome.message.empty() && hws_error_take(&error) == HWS_OK) {
    outcome.message = hws_error_message(error);
    outcome.details = hws_error_details(error);
    hws_error_destroy(error);
  }
  outcome.message = without_folder(outcome.message, site.folder());
  return outcome;
}

/// True if a message has quotes around a value that comes with quotes, such as ""zbv"".
bool has_doubled_quotes(const std::string& message) {
  const auto in_word = [&](size_t at) {
    return at < message.size() && std::isalnum(static_cast<unsigned char>(message[at]));
  };
  for (size_t at = message.find("\"\""); at != std::string::npos; at = message.find("\"\"", at + 1))
    if ((at > 0 && in_word(at - 1)) || in_word(at + 2)) return true;
  return false;
}

}  // namespace

Case bad(const std::string& patch, std::vector<std::string> words, int32_t status) {
  return {"`" + patch + "`", status, std::move(words),
          [patch](Site&) { return plan(sound_config(Json::parse(patch))); }};
}

std::vector<Area> library_areas() {
  return {config_area(),  rules_area(),     memory_area(),     binary_config_area(), data_area(),
          text_area(),    megatron_area(),  checkpoint_area(), safetensors_area(),   hugging_face_area(),
          adapter_area(), objective_area(), teacher_area(),    pair_area(),          call_area()};
}

const Outcome& outcome_of(const Area& area, const Case& row) {
  static std::map<std::pair<std::string, std::string>, Outcome> outcomes;
  const auto [at, is_new] = outcomes.try_emplace({area.title, row.what});
  if (is_new) at->second = run(row);
  return at->second;
}

std::string difference(const Case& row, const Outcome& outcome) {
  std::string text;
  if (has_doubled_quotes(outcome.message)) text += "a value in doubled quotes; ";
  if (outcome.status != row.status)
    text += "status " + std::to_string(outcome.status) + ", not " + std::to_string(row.status) + "; ";
  for (const std::string& word : row.words)
    if (outcome.message.find(word) == std::string::npos) text += "no \"" + word + "\"; ";
  if (!Json::parse(outcome.details, nullptr, false).is_object()) text += "details are no JSON object; ";
  return text.empty() ? text : row.what + ": " + text + "in: " + outcome.message;
}  // namespace hawser::bad_input

}  // namespace hawser::bad_input
