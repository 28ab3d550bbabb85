// Layout of the cache: models--ORG--NAME/ has refs/main (the name of a snapshot), snapshots/NAME/ (links,
// one for each file) and blobs/ (the files; ETAG.incomplete while one is downloaded).
#include "bindings/cli/hub_cache.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "bindings/cli/file_failure.h"
#include "bindings/cli/load_config.h"
#include "bindings/cli/parse_json.h"

namespace fs = std::filesystem;

namespace hawser::cli {
namespace {

using nlohmann::ordered_json;

constexpr std::string_view kRepository = "models--";

bool is_hub_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
         c == '.';
}

bool is_hub_name(const std::string& name) {
  const size_t slash = name.find('/');
  if (slash == std::string::npos || slash == 0 || slash + 1 == name.size()) return false;
  if (name[0] == '.' || name[slash + 1] == '.' || name.ends_with(".json")) return false;
  return std::all_of(name.begin(), name.begin() + static_cast<std::ptrdiff_t>(slash), is_hub_letter) &&
         std::all_of(name.begin() + static_cast<std::ptrdiff_t>(slash) + 1, name.end(), is_hub_letter);
}

/// Returns a variable that names a folder, with ~ expanded; "" if it is not set.
std::string folder_variable(const char* variable) {
  const char* const value = std::getenv(variable);
  const std::string path = value == nullptr ? "" : value;
  const char* const home = std::getenv("HOME");
  return home != nullptr && (path == "~" || path.starts_with("~/")) ? home + path.substr(1) : path;
}

/// Returns the folder of the cache, chosen as huggingface_hub does; "" if no variable names one.
std::string cache_folder() {
  constexpr std::pair<const char*, const char*> kPlaces[] = {{"HF_HUB_CACHE", ""},
                                                             {"HUGGINGFACE_HUB_CACHE", ""},
                                                             {"HF_HOME", "/hub"},
                                                             {"XDG_CACHE_HOME", "/huggingface/hub"},
                                                             {"HOME", "/.cache/huggingface/hub"}};
  for (const auto& [variable, below] : kPlaces)
    if (const std::string folder = folder_variable(variable); !folder.empty()) return folder + below;
  return "";
}

std::string download_line(const std::string& name) { return "hf download " + name; }

/// Returns the entries of a folder, in order; empty if it cannot be listed.
std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error); !error && entry != fs::directory_iterator();
       entry.increment(error))
    names.push_back(entry->path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

/// Returns the snapshot of `repository`, the cached model `name`, that refs/main names.
std::string snapshot_of(const std::string& repository, const std::string& name) {
  const std::string main = repository + "/refs/main", snapshots = repository + "/snapshots";
  const auto fail_with = [&](const std::string& what) {
    const std::vector<std::string> there = names_in(snapshots);
    const std::string other =
        there.empty() ? "" : ", or give the folder of a snapshot, such as " + snapshots + "/" + there.front();
    throw Failure(HWS_NOT_FOUND, what + "; to complete the cache: " + download_line(name) + other);
  };
  if (!exists(main))
    fail_with(repository + " has no refs/main, so which snapshot is " + name + " is not known");
  std::string revision = read_file(main);
  while (!revision.empty() && (revision.back() == '\n' || revision.back() == ' ')) revision.pop_back();
  const std::string snapshot = snapshots + "/" + revision;
  if (revision.empty() || !std::all_of(revision.begin(), revision.end(), is_hub_letter) ||
      !is_folder(snapshot))
    fail_with(main + " names the snapshot \"" + revision + "\", which is not in " + snapshots);
  return snapshot;
}

/// Returns the files that a model's folder needs, as far as its own files name them.
std::vector<std::string> needed_files(const fs::path& folder) {
  std::error_code ignored;
  if (fs::is_regular_file(folder / "adapter_config.json", ignored))
    return {"adapter_config.json", "adapter_model.safetensors"};
  std::vector<std::string> files = {"config.json"};
  const fs::path index = folder / "model.safetensors.index.json";
  if (fs::symlink_status(index, ignored).type() == fs::file_type::not_found) {
    files.emplace_back("model.safetensors");
    return files;
  }
  files.push_back(index.filename().string());
  if (!fs::is_regular_file(index, ignored)) return files;
  const ordered_json json = parse_json_or_discard(read_file(index.string()));
  if (!json.is_object() || !json.contains("weight_map") || !json["weight_map"].is_object()) return files;
  for (const auto& [tensor, file] : json["weight_map"].items())
    if (file.is_string() && std::find(files.begin(), files.end(), file) == files.end()) files.push_back(file);
  return files;
}

}  // namespace

std::string model_folder(const std::string& name) {
  if (!is_hub_name(name) || exists(name)) return name;
  const std::string cache = cache_folder();
  const size_t slash = name.find('/');
  const std::string repository =
      cache + "/" + std::string(kRepository) + name.substr(0, slash) + "--" + name.substr(slash + 1);
  if (cache.empty() || !is_folder(repository)) return name;
  return snapshot_of(repository, name);
}

std::string existing_model(const std::string& name) {
  const std::string path = model_folder(name);
  if (!exists(path)) throw Failure(HWS_NOT_FOUND, path + ": no such file or directory" + hub_hint(path));
  return path;
}

std::string hub_name(const std::string& path) {
  const size_t at = path.rfind("/" + std::string(kRepository));
  if (at == path.npos) return "";
  const size_t begin = at + 1 + kRepository.size();
  std::string name = path.substr(begin, path.find('/', begin) - begin);
  const size_t dashes = name.find("--");
  return dashes == name.npos ? name : name.replace(dashes, 2, "/");
}

void check_download(const std::string& folder) {
  std::error_code error;
  fs::path full = fs::absolute(folder, error).lexically_normal();
  if (!full.has_filename()) full = full.parent_path();
  const fs::path repository = full.parent_path().parent_path();
  if (error || full.parent_path().filename() != "snapshots" ||
      !repository.filename().string().starts_with(kRepository))
    return;
  const std::vector<std::string> blobs = names_in(repository / "blobs");
  const auto unfinished = std::find_if(blobs.begin(), blobs.end(),
                                       [](const std::string& blob) { return blob.ends_with(".incomplete"); });
  for (const std::string& file : needed_files(full)) {
    if (fs::exists(full / file, error)) continue;
    const bool is_link = fs::is_symlink(full / file, error);
    if (!is_link && unfinished == blobs.end()) continue;
    const std::string reason =
        is_link
            ? file + " is a link to " + fs::read_symlink(full / file, error).string() + ", which is not there"
            : file + " is missing";
    throw Failure(HWS_NOT_FOUND,
                  folder + " is only half downloaded: " + reason +
                      (unfinished == blobs.end() ? "" : " and blobs/" + *unfinished + " is not finished") +
                      "; to finish: " + download_line(hub_name(repository.string())));
  }
}

std::string hub_hint(const std::string& name) {
  if (!is_hub_name(name) || exists(name.substr(0, name.find('/')))) return "";
  const std::string cache = cache_folder();
  return "; if this is a model of the Hugging Face Hub: it is not in the cache" +
         (cache.empty() ? "" : " " + cache) + " either, and Hawser downloads nothing; get it first with " +
         download_line(name);
}

void find_cached_models(hws_config* config) {
  const auto tree = parse_json(text_of(hws_config_serialize, config, HWS_FORMAT_JSON));
  for (const char* pointer :
       {"/init/from", "/init/base", "/adapter/from", "/objective/reference", "/teacher/from"}) {
    const ordered_json::json_pointer at(pointer);
    if (!tree.contains(at) || !tree[at].is_string()) continue;
    const std::string name = tree[at];
    const std::string folder = model_folder(name);
    if (folder != name) {
      check_download(folder);
      check(hws_config_set(config, pointer, ordered_json(absolute_path(folder)).dump().c_str()));
    } else if (const std::string hint = exists(name) ? "" : hub_hint(name); !hint.empty()) {
      throw Failure(HWS_NOT_FOUND, std::string(pointer) + ": " + name + ": no such folder" + hint);
    }
  }
}

}  // namespace hawser::cli
