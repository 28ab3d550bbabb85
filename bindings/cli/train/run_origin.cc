#include "bindings/cli/train/run_origin.h"

#include <nlohmann/json.hpp>

#include "bindings/cli/file_failure.h"
#include "bindings/cli/load_config.h"
#include "bindings/cli/parse_json.h"
#include "bindings/cli/quantity.h"
#include "bindings/cli/shell_quote.h"
#include "bindings/cli/text/prepare.h"

namespace hawser::cli {
namespace {

using nlohmann::ordered_json;

/// Returns the path as a shell reads it.
std::string shell_word(const std::string& path) {
  const char* plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+,=@%";
  return path.find_first_not_of(plain) == std::string::npos ? path : single_quoted(path);
}

/// Returns the names of the files from which a folder of rows was prepared.
std::string prepared_from(const std::string& folder) {
  if (!is_prepared(folder)) return "";
  const auto manifest = parse_json_or_discard(read_file(folder + "/prepared.json"));
  const ordered_json::json_pointer files("/report/files");
  std::string names;
  if (manifest.is_object() && manifest.contains(files))
    for (const auto& file : manifest.at(files))
      if (file.is_object()) names += (names.empty() ? ", prepared from " : ", ") + file.value("file", "");
  return names;
}

/// Returns the paths of the sources at the pointer, one below the other.
std::string source_paths(const ordered_json& resolved, const char* pointer) {
  const ordered_json::json_pointer at(pointer);
  if (!resolved.contains(at)) return "";
  std::string text;
  for (const auto& source : resolved.at(at)) {
    const std::string path = source.value("path", "");
    text += (text.empty() ? "" : "\n") + path + prepared_from(path);
  }
  return text;
}

/// Returns the command that trains the same run again. One process that holds all ranks would compute the
/// same, but more slowly.
std::string repeat_command(const RunFolder& folder, const RankOptions& ranks) {
  const std::string train = "train " + shell_word(absolute_path(folder.config_path())) + " --out NEW_FOLDER";
  if (ranks.comm.empty()) return "hawser " + train;
  return "hawser launch -n " + std::to_string(ranks.world) + (ranks.control >= 0 ? " --elastic " : " ") +
         train;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> run_origin(const RunFolder& folder,
                                                            const ordered_json& resolved,
                                                            const RankOptions& ranks) {
  std::vector<std::pair<std::string, std::string>> rows;
  const auto row = [&](const char* label, const std::string& value) {
    if (!value.empty()) rows.emplace_back(label, value);
  };
  if (const auto starts = folder.starts(); !starts.empty()) {
    const RunStart& last = starts.back();
    row("started", starts.front().step == 0 ? date_text(starts.front().time) : "");
    if (last.step > 0)
      row("resumed",
          date_text(last.time) + " after step " + std::to_string(last.step) +
              (starts.size() > 2 ? format_text(", the last of %zu times", starts.size() - 1) : ""));
  }
  row("data files", source_paths(resolved, "/data/sources"));
  row("validation files", source_paths(resolved, "/data/validation_sources"));
  row("to repeat it", repeat_command(folder, ranks));
  return rows;
}

}  // namespace hawser::cli
