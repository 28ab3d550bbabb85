// Reads configs for the command: files, presets, model folders, --set and --data.
#include "bindings/cli/load_config.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <initializer_list>
#include <nlohmann/json.hpp>

#include "bindings/cli/file_failure.h"
#include "bindings/cli/hub_cache.h"
#include "bindings/cli/open_model.h"
#include "bindings/cli/parse_json.h"
#include "bindings/cli/suggestions.h"
#include "bindings/cli/train/usual_training.h"
#include "bindings/cli/utf8.h"

namespace fs = std::filesystem;

namespace hawser::cli {
namespace {

using nlohmann::ordered_json;

bool ends_with(const std::string& text, const char* end) {
  const size_t n = std::strlen(end);
  return text.size() >= n && text.compare(text.size() - n, n, end) == 0;
}

/// True if `pointer` was set by anything: file, preset, --set, an imported model.
bool is_set(const hws_config* config, const char* pointer) {
  const auto tree = parse_json(text_of(hws_config_serialize, config, HWS_FORMAT_JSON));
  return tree.contains(ordered_json::json_pointer(pointer));
}

/// Returns a copy of the config without the fields `keys` of its data section.
Config without_data_fields(const hws_config* config, std::initializer_list<const char*> keys) {
  auto tree = parse_json(text_of(hws_config_serialize, config, HWS_FORMAT_JSON));
  if (tree.contains("data") && tree["data"].is_object()) {
    for (const char* key : keys) tree["data"].erase(key);
  }
  const std::string text = tree.dump();
  return make<Config>(hws_config_parse, static_cast<const void*>(text.data()), text.size(), HWS_FORMAT_JSON);
}

void set_string(hws_config* config, const std::string& pointer, const std::string& value) {
  check(hws_config_set(config, pointer.c_str(), ordered_json(value).dump().c_str()));
}

void make_absolute(hws_config* config, const ordered_json& tree, const std::string& pointer) {
  const ordered_json::json_pointer at(pointer);
  if (!tree.contains(at) || !tree[at].is_string()) return;
  const std::string path = tree[at].get<std::string>();
  if (path.empty() || fs::path(path).is_absolute()) return;
  set_string(config, pointer, absolute_path(path));
}

/// Sets the fields that the manifest of prepared rows determines: their length, and whether they need the
/// document mask.
void take_rows_of(hws_config* config, const std::string& folder) {
  const ordered_json manifest = parse_json_or_discard(read_file(folder + "/prepared.json"));
  if (!manifest.is_object()) return;  // opening the data reports what is wrong
  const auto set = [&](const char* key, const char* pointer) {
    if (manifest.contains(key) && !is_set(config, pointer))
      check(hws_config_set(config, pointer, manifest[key].dump().c_str()));
  };
  set("sequence", "/batch/sequence");
  set("packed", "/data/packing");
}

/// Loads a preset. The caller has checked that no file has this name.
Config load_preset(const std::string& name) {
  try {
    return make<Config>(hws_config_preset, name.c_str());
  } catch (const Failure& failure) {
    const std::string hint = file_hint(name);
    if (hint.empty()) throw;
    throw Failure(failure.status(), "there is no file and no preset " + name + hint);
  }
}

}  // namespace

std::string absolute_path(const std::string& path) {
  std::error_code error;
  const std::string full = fs::absolute(path, error).lexically_normal().string();
  if (error) fail_file("cannot find the working folder, to which " + path + " is relative", error.value());
  const size_t at = first_byte_not_utf8(full);
  if (at == std::string::npos) return full;
  refuse("the path of the working folder, " + with_marks(full, "?") + ", is not valid UTF-8 at byte " +
         std::to_string(at) + ", which configs and reports require; rename the folder");
}

std::string folder_name(const std::string& path) {
  fs::path full = absolute_path(path);
  if (!full.has_filename()) full = full.parent_path();
  return full.filename().string();
}

std::string read_file(const std::string& path) {
  std::FILE* file = std::fopen(path.c_str(), "rb");
  if (file == nullptr) fail_file("cannot open " + path, errno);
  std::string text;
  char block[1 << 16];
  size_t n;
  while ((n = std::fread(block, 1, sizeof block, file)) > 0) text.append(block, n);
  const int error = std::ferror(file) != 0 ? errno : 0;
  std::fclose(file);
  if (error != 0) fail_file("cannot read " + path, error);
  return text;
}

void replace_file(const std::string& path, std::string_view text) {
  const std::string temporary = path + ".tmp-" + std::to_string(getpid());
  std::FILE* file = std::fopen(temporary.c_str(), "wb");
  if (file == nullptr) fail_file("cannot write " + path, errno);
  const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  int error = written ? 0 : errno;
  if (std::fclose(file) != 0 && error == 0) error = errno;
  if (error == 0 && std::rename(temporary.c_str(), path.c_str()) != 0) error = errno;
  if (error == 0) return;
  std::remove(temporary.c_str());
  fail_file("cannot write " + path, error);
}

Config load_config(const std::string& given) {
  const std::string name = model_folder(given);
  const bool there = exists(name);
  if (there) refuse_other_than_config(name);
  if (is_folder(name)) {
    check_download(name);
    return make<Config>(hws_config_from_model, name.c_str());
  }
  const bool is_path = name.find('/') != std::string::npos || ends_with(name, ".json");
  if (!there && !is_path) return load_preset(name);
  if (!there)
    throw Failure(HWS_NOT_FOUND, "cannot open " + name + ": no such file" + file_hint(name) + hub_hint(name));
  const std::string text = read_file(name);
  try {
    return make<Config>(hws_config_parse, static_cast<const void*>(text.data()), text.size(),
                        HWS_FORMAT_JSON);
  } catch (const Failure& failure) {
    throw Failure(failure.status(), name + ": " + failure.what());
  }
}

void split_set(const std::string& set, std::string* pointer, std::string* value) {
  const size_t equals = set.find('=');
  if (set.empty() || set[0] != '/' || equals == std::string::npos) {
    refuse("--set \"" + set + "\" is not of the form /json/pointer=value, such as --set /train/steps=500");
  }
  *pointer = set.substr(0, equals);
  *value = set.substr(equals + 1);
}

void apply_sets(hws_config* config, const std::vector<std::string>& sets) {
  std::string problems;
  int32_t status = HWS_OK;
  for (const std::string& set : sets) {
    try {
      std::string pointer, value;
      split_set(set, &pointer, &value);
      check(hws_config_set(config, pointer.c_str(), value.c_str()));
    } catch (const Failure& failure) {
      if (status == HWS_OK) status = failure.status();
      const bool named = std::string_view(failure.what()).starts_with("--set");
      problems += (problems.empty() ? "" : "\n") + (named ? "" : "--set " + set + ": ") + failure.what();
    }
  }
  if (status != HWS_OK) throw Failure(status, problems);
}

// The name determines the kind: .bin with an .idx of the same name is a Megatron pair; .bin, .u16 and .u32
// alone are raw tokens.
void apply_data(Config* config, const std::string& file) {
  std::string path = file;
  std::string format = "text";
  const bool pair_name = ends_with(file, ".bin") || ends_with(file, ".idx");
  const std::string stem = pair_name ? file.substr(0, file.size() - 4) : file;
  if (exists(file + "/prepared.json")) {
    format = "prepared";
  } else if (exists(stem + ".bin") && exists(stem + ".idx")) {
    path = stem;
    format = "megatron";
  } else if (!exists(file)) {
    throw Failure(HWS_NOT_FOUND, "--data " + file + ": no such file");
  } else if (ends_with(file, ".bin") || ends_with(file, ".u16") || ends_with(file, ".u32")) {
    format = "tokens";
  }
  for (const char* pointer : {"/data/path", "/data/sources", "/data/validation_sources"}) {
    if (is_set(config->get(), pointer))
      *config = without_data_fields(config->get(), {"path", "sources", "validation_sources"});
  }
  // A preset for text sets a vocabulary. Token ids need none.
  if (format != "text" && is_set(config->get(), "/data/vocabulary"))
    *config = without_data_fields(config->get(), {"vocabulary"});
  set_string(config->get(), "/data/path", path);
  // A config for text sets how to read it. The name of a token file overrides that setting.
  if (format != "text" || !is_set(config->get(), "/data/format"))
    set_string(config->get(), "/data/format", format);
  if (ends_with(file, ".u16") || ends_with(file, ".u32")) {
    set_string(config->get(), "/data/token_type", file.substr(file.size() - 3));
  }
  if (format == "prepared") take_rows_of(config->get(), file);
}

void apply_objective(hws_config* config, const std::string& kind) {
  set_string(config, "/objective/kind", kind);
  if (!is_set(config, "/train/steps") && !is_set(config, "/train/epochs"))
    check(hws_config_set(config, "/train/epochs", "1"));
}

/// Sets usual values for fine-tuning with an adapter, unless the config sets others. The warm-up of 3 % of
/// the steps is a rule for every run that begins with a trained model.
void apply_lora(hws_config* config) {
  const auto suggest = [&](const char* pointer, const char* value) {
    if (!is_set(config, pointer)) check(hws_config_set(config, pointer, value));
  };
  if (!is_set(config, "/adapter/from")) {
    suggest("/adapter/rank", "16");
    suggest("/adapter/alpha", "32");
  }
  if (!is_set(config, "/objective/kind")) suggest("/optimizer/learning_rate", "2e-4");
  suggest("/optimizer/weight_decay", "0");
  suggest("/schedule/kind", "\"cosine\"");
  if (!is_set(config, "/train/steps")) suggest("/train/epochs", "3");
}

/// Trains in bf16 a folder of bf16 or fp16 weights, unless the config sets a precision.
void apply_precision(hws_config* config, const std::string& name) {
  const std::string folder = model_folder(name);
  if (is_folder(folder) && !is_set(config, "/precision") && !half_type_of(folder).empty())
    check(hws_config_set(config, "/precision", "\"bf16\""));
}

/// Sets the warm-up of a preset to what the run will have if its length depends on the data: it is shorter
/// for a short run, and a copy of the config must say so.
void fix_warmup(hws_config* config, const std::string& name) {
  if (exists(name) || !is_set(config, "/train/epochs") || !is_set(config, "/schedule/warmup_steps")) return;
  try {
    const ordered_json resolved = resolved_tree(config);
    const std::string steps = resolved.at(ordered_json::json_pointer("/schedule/warmup_steps")).dump();
    check(hws_config_set(config, "/schedule/warmup_steps", steps.c_str()));
  } catch (const Failure&) {  // the command reports what is wrong with the config
  }
}

Config load_config(const ConfigOptions& options) {
  Config config = load_config(options.config);
  std::vector<std::string> of_data, others;
  for (const std::string& set : options.sets) (set.starts_with("/data") ? of_data : others).push_back(set);
  // These come first, because apply_data may fix a preset's warm-up for the length of the run.
  apply_sets(config.get(), others);
  if (!options.data.empty()) apply_data(&config, options.data);
  apply_sets(config.get(), of_data);
  find_cached_models(config.get());
  if (!options.objective.empty()) apply_objective(config.get(), options.objective);
  if (!options.teacher.empty()) set_string(config.get(), "/teacher/from", find_model(options.teacher).path);
  if (options.qlora && !is_set(config.get(), "/adapter/base"))
    check(hws_config_set(config.get(), "/adapter/base", "\"nf4\""));
  if (options.dora && !is_set(config.get(), "/adapter/dora"))
    check(hws_config_set(config.get(), "/adapter/dora", "true"));
  if (options.trains_adapter()) apply_lora(config.get());
  apply_precision(config.get(), options.config);
  if (options.threads > 0) {
    check(hws_config_set(config.get(), "/cpu/threads", std::to_string(options.threads).c_str()));
  }
  fix_warmup(config.get(), options.config);
  return config;
}

void make_paths_absolute(hws_config* config) {
  const auto tree = parse_json(text_of(hws_config_serialize, config, HWS_FORMAT_JSON));
  make_absolute(config, tree, "/init/from");
  make_absolute(config, tree, "/init/base");
  make_absolute(config, tree, "/adapter/from");
  make_absolute(config, tree, "/objective/reference");
  make_absolute(config, tree, "/teacher/from");
  make_absolute(config, tree, "/data/path");
  for (const char* list : {"/data/sources", "/data/validation_sources"}) {
    const ordered_json::json_pointer at(list);
    if (!tree.contains(at) || !tree[at].is_array()) continue;
    for (size_t i = 0; i < tree[at].size(); ++i) {
      make_absolute(config, tree, std::string(list) + "/" + std::to_string(i) + "/path");
    }
  }
}

ordered_json resolved_tree(const hws_config* config) {
  return parse_json(text_of(hws_config_serialize, config, HWS_FORMAT_RESOLVED));
}

}  // namespace hawser::cli
