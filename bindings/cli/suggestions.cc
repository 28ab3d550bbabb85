// Finds fields with the library, and files with its own code.
#include "bindings/cli/suggestions.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "bindings/cli/client.h"
#include "bindings/cli/file_failure.h"
#include "bindings/cli/parse_json.h"
#include "bindings/cli/run_folder.h"
#include "bindings/cli/utf8.h"

namespace fs = std::filesystem;

namespace hawser::cli {
namespace {

using nlohmann::ordered_json;

/// Section names that people use for one of their fields.
constexpr std::pair<const char*, const char*> kUsualFields[] = {{"/batch", "/batch/micro_batch"},
                                                                {"/data", "/data/path"},
                                                                {"/optimizer", "/optimizer/kind"},
                                                                {"/schedule", "/schedule/kind"},
                                                                {"/checkpoint", "/checkpoint/every"},
                                                                {"/init", "/init/from"},
                                                                {"/cpu", "/cpu/threads"}};

bool ends_with_any(const std::string& text, std::initializer_list<const char*> endings) {
  return std::any_of(endings.begin(), endings.end(), [&](const char* end) { return text.ends_with(end); });
}

/// Returns the number of insertions, deletions, substitutions and swaps of neighbours that turn a into b.
size_t distance(const std::string& a, const std::string& b) {
  std::vector<size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    before.swap(last);
    last.swap(row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({row[j - 1] + 1, last[j] + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row[b.size()];
}

/// Returns the first byte that is not white space; '\0' if there is none.
char first_letter(const std::string& path) {
  std::FILE* file = std::fopen(path.c_str(), "rb");
  if (file == nullptr) fail_file("cannot open " + path, errno);
  char block[4096];
  const size_t n = std::fread(block, 1, sizeof block, file);
  std::fclose(file);
  std::string_view text(block, n);
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  const size_t at = text.find_first_not_of(" \t\r\n");
  return at == std::string_view::npos ? '\0' : text[at];
}

/// Returns the details of the calling thread's last error.
ordered_json last_details() {
  hws_error* raw = nullptr;
  if (hws_error_take(&raw) != HWS_OK) return {};
  const Error error(raw);
  return parse_json_or_discard(hws_error_details(error.get()));
}

}  // namespace

FieldSuggestion field_meant_by(const std::string& word) {
  std::string key = word;
  std::replace(key.begin(), key.end(), '-', '_');
  if (key.find_first_of("/~") != std::string::npos) return {};
  const Config none =
      make<Config>(hws_config_parse, static_cast<const void*>("{}"), size_t{2}, HWS_FORMAT_JSON);
  hws_buffer* raw = nullptr;
  if (hws_config_explain(none.get(), ("/" + key).c_str(), &raw) == HWS_OK) {
    const Buffer explained(raw);
    const auto json = parse_json(static_cast<const char*>(hws_buffer_data(explained.get())));
    return {"/" + key, json.is_array(), ""};
  }
  const ordered_json details = last_details();
  if (!details.is_object()) return {};
  const std::string fix = details.value("fix", "");
  constexpr std::string_view kAsks = "did you mean ", kKeys = "keys of the config are";
  if (!fix.starts_with(kAsks)) return {"", false, fix.find(kKeys) == std::string::npos ? fix : ""};
  const size_t end = fix.find('?');
  std::string name = fix.substr(kAsks.size(), end - kAsks.size());
  name.erase(std::remove(name.begin(), name.end(), '"'), name.end());
  if (!name.starts_with('/')) return field_meant_by(name);
  return {name, false, fix.size() > end + 2 ? fix.substr(end + 2) : ""};
}

std::string option_hint(const std::vector<std::string>& unknown, const std::vector<std::string>& words) {
  if (unknown.empty() || !unknown[0].starts_with("--")) return "";
  const std::string option = unknown[0].substr(2, unknown[0].find('=') - 2);
  std::string value = "VALUE";
  const auto at =
      std::find(words.begin(), words.end(), unknown[0]);  // the parser may take its value for CONFIG
  if (const size_t equals = unknown[0].find('='); equals != std::string::npos)
    value = unknown[0].substr(equals + 1);
  else if (at != words.end() && at + 1 != words.end() && !at[1].starts_with("--") && !exists(at[1]))
    value = at[1];
  FieldSuggestion field = field_meant_by(option);
  if (field.pointer.empty()) return field.advice.empty() ? "" : "; " + field.advice;
  if (field.section) {
    for (const auto& [section, usual] : kUsualFields)
      if (field.pointer == section) field = {usual, false, ""};
  }
  if (field.section) return "; `hawser explain " + field.pointer + "` lists the fields of that section";
  // A field with another meaning must not get the other program's value.
  if (!field.advice.empty()) value = "VALUE";
  return "; did you mean --set " + field.pointer + "=" + value + "?" +
         (field.advice.empty() ? "" : " " + field.advice);
}

std::string nearest_word(const std::string& word, const std::vector<std::string>& words) {
  std::string near;
  size_t best = std::max<size_t>(1, std::min<size_t>(3, word.size() / 3)) + 1;
  for (const std::string& other : words) {
    if (const size_t edits = distance(word, other); edits < best) {
      best = edits;
      near = other;
    }
  }
  return near;
}

std::string file_hint(const std::string& path) {
  const fs::path asked(path), folder = asked.has_parent_path() ? asked.parent_path() : fs::path(".");
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    const std::string other = entry->path().filename().string();
    if (first_byte_not_utf8(other) == std::string::npos) names.push_back(other);
  }
  const std::string near = nearest_word(asked.filename().string(), names);
  if (near.empty()) return "";
  return "; did you mean " + (asked.has_parent_path() ? (folder / near).string() : near) + "?";
}

std::string no_such_command(const std::string& word, const std::vector<std::string>& commands) {
  constexpr std::pair<const char*, const char*> kOtherNames[] = {
      {"train", "finetune fine-tune fine_tune tune sft dpo pretrain fit lora"},
      {"generate", "sample complete infer inference predict"},
      {"chat", "talk ask"},
      {"eval", "evaluate test benchmark score validate"},
      {"prepare", "preprocess tokenize data"},
      {"convert", "export import save"},
      {"inspect", "show info list ls"},
      {"launch", "torchrun mpirun run"},
      {"device", "devices env hardware"}};
  if (word == "log")
    return "`hawser log` is part of Hawser's Python package: python -m hawser.log RUN --to "
           "wandb|mlflow|tensorboard";
  std::string near, list;
  for (const auto& [command, others] : kOtherNames)
    if ((" " + std::string(others) + " ").find(" " + word + " ") != std::string::npos) near = command;
  if (near.empty()) near = nearest_word(word, commands);
  for (const std::string& command : commands) list += (list.empty() ? "" : ", ") + command;
  const std::string hint = near.empty() ? "the" : "did you mean hawser " + near + "? The";
  return "there is no command \"" + word + "\"; " + hint + " commands are " + list;
}

void refuse_other_than_config(const std::string& path) {
  if (is_folder(path)) {
    if (!RunFolder::is_run(path)) return;
    refuse(path + " is the folder of a run. To continue it: hawser train --resume " + path +
           ". Its config is " + path + "/config.json, its models are in " + path + "/checkpoints");
  }
  if (ends_with_any(path, {".safetensors", ".gguf", ".pt", ".pth", ".ckpt"}))
    refuse(path + " holds weights, not a config; name the folder of the model instead");
  const bool data = ends_with_any(path, {".txt", ".jsonl", ".bin", ".idx", ".u16", ".u32", ".md", ".csv"});
  if (!data && (path.ends_with(".json") || first_letter(path) == '{')) return;
  refuse(path + " is not a config, which is a JSON object; to train on it: hawser train quickstart --data " +
         path + " --out DIR");
}

}  // namespace hawser::cli
