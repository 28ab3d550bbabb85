#include "bindings/cli/published/tables.h"

#include <algorithm>
#include <filesystem>
#include <string_view>

#include "bindings/cli/client.h"
#include "bindings/cli/file_failure.h"
#include "bindings/cli/load_config.h"
#include "bindings/cli/parse_json.h"
#include "bindings/cli/published/embedded.h"

namespace hawser::cli::published {
namespace {

using nlohmann::ordered_json;
namespace fs = std::filesystem;

ordered_json parsed(const std::string& name, const std::string& text) {
  ordered_json json = parse_json_or_discard(text);
  if (!json.is_object()) refuse(name + " is not a JSON object");
  return json;
}

/// Returns the file of the command; null if it has none of this name.
ordered_json embedded(const std::string& name) {
  for (size_t i = 0; i < kEmbeddedCount; ++i)
    if (name == kEmbedded[i].name) return parsed(name, kEmbedded[i].json);
  return nullptr;
}

/// `folder`: of the table; "" for a table of the command.
ordered_json stack_of(const std::string& table_name, const std::string& name, const std::string& folder) {
  const std::string file = "stacks/" + name + ".json";
  const std::string beside = folder.empty() ? "" : (fs::path(folder) / file).string();
  ordered_json stack = !beside.empty() && exists(beside) ? parsed(beside, read_file(beside)) : embedded(file);
  if (stack.is_null()) refuse(table_name + ": /stack is \"" + name + "\", but there is no " + file);
  if (!stack.contains("stack") || !stack["stack"].is_object() || !stack["stack"].contains("name") ||
      !stack["stack"]["name"].is_string())
    refuse(file + ": /stack/name is missing; it names the trainer whose costs the file has");
  return stack;
}

Table table_of(const std::string& name, ordered_json json, const std::string& folder) {
  for (const auto& [key, is_right] : {std::pair{"name", &ordered_json::is_string},
                                      {"source", &ordered_json::is_string},
                                      {"assumptions", &ordered_json::is_array},
                                      {"rows", &ordered_json::is_array}})
    if (!json.contains(key) || !(json[key].*is_right)())
      refuse(name + ": /" + key + " is missing or has the wrong type");
  Table table{std::move(json), nullptr};
  if (table.json.contains("stack") && table.json["stack"].is_string())
    table.stack = stack_of(name, table.json["stack"], folder);
  return table;
}

}  // namespace

std::vector<Table> tables(const std::string& path) {
  std::vector<Table> all;
  if (path.empty()) {
    for (size_t i = 0; i < kEmbeddedCount; ++i)
      if (const std::string name = kEmbedded[i].name; !name.starts_with("stacks/"))
        all.push_back(table_of(name, embedded(name), ""));
    return all;
  }
  std::vector<std::string> files;
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    for (const fs::directory_entry& entry : fs::directory_iterator(path, ignored))
      if (entry.path().extension() == ".json") files.push_back(entry.path().string());
    if (files.empty()) refuse(path + " has no table; a table is a .json file");
  } else {
    files.push_back(path);
  }
  std::sort(files.begin(), files.end());
  for (const std::string& file : files)
    all.push_back(table_of(file, parsed(file, read_file(file)), fs::path(file).parent_path().string()));
  return all;
}

}  // namespace hawser::cli::published
