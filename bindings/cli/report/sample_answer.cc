#include "bindings/cli/report/sample_answer.h"

#include <nlohmann/json.hpp>

#include "bindings/cli/parse_json.h"

namespace hawser::cli {

using nlohmann::ordered_json;

std::string to_json(const SampleAnswer& a) {
  ordered_json json = {{"step", a.step}, {"sample", a.sample}, {"prompt", parse_json(a.prompt_json)}};
  if (a.problem.empty()) {
    json["answer"] = a.answer;
    json["tokens"] = a.tokens;
    json["ended"] = a.ended;
  } else {
    json["answer"] = nullptr;
    json["problem"] = a.problem;
  }
  return json.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

bool from_json(const std::string& line, SampleAnswer* a) {
  const ordered_json json = parse_json_or_discard(line);
  if (!json.is_object() || !json.contains("answer") || !json.contains("prompt")) return false;
  for (const char* key : {"step", "sample"})
    if (!json.contains(key) || !json[key].is_number_integer()) return false;
  a->step = json["step"].get<int64_t>();
  a->sample = json["sample"].get<int64_t>();
  a->prompt_json = json["prompt"].dump();
  if (json["answer"].is_string()) a->answer = json["answer"].get<std::string>();
  a->tokens =
      json.contains("tokens") && json["tokens"].is_number_integer() ? json["tokens"].get<int64_t>() : 0;
  a->ended = json.contains("ended") && json["ended"] == true;
  if (json.contains("problem") && json["problem"].is_string())
    a->problem = json["problem"].get<std::string>();
  return true;
}

std::string prompt_text(const SampleAnswer& a) {
  const ordered_json prompt = parse_json_or_discard(a.prompt_json);
  if (!prompt.is_object()) return "";
  if (prompt.contains("text") && prompt["text"].is_string()) return prompt["text"].get<std::string>();
  std::string text;
  for (const ordered_json& message : prompt.value("messages", ordered_json::array()))
    if (message.is_object())
      text += (text.empty() ? "" : "\n") + message.value("role", "") + ": " + message.value("content", "");
  return text;
}

}  // namespace hawser::cli
