// load_config: functions that turn arguments of the command line into a config handle.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "bindings/cli/client.h"
#include "bindings/cli/commands.h"

namespace hawser::cli {

/// Loads CONFIG: an existing JSON file, otherwise an existing folder with a model in it, otherwise a model in
/// the Hub's cache, otherwise a preset's name.
Config load_config(const std::string& name);

/// Splits "/json/pointer=value". Refuses any other form.
void split_set(const std::string& set, std::string* pointer, std::string* value);

/// Applies each --set in order. Reports all failures at once.
void apply_sets(hws_config* config, const std::vector<std::string>& sets);

/// Makes the config use one data file in place of any it names: text, a raw token file, or a Megatron
/// .bin/.idx pair. The kind follows from the file name unless the config sets data.format. Refuses a missing
/// file.
void apply_data(Config* config, const std::string& file);

/// Loads the config and applies all options to it.
Config load_config(const ConfigOptions& options);

/// Makes the paths a config names (data, init.from) absolute, so that a copy of it means the same everywhere.
void make_paths_absolute(hws_config* config);

/// Returns the absolute path. Refuses a path that a config cannot hold.
std::string absolute_path(const std::string& path);

/// Returns the last name of a path, also for "runs/a/" and "..".
std::string folder_name(const std::string& path);

/// Returns the config's effective fields, with defaults and rules applied, as one JSON tree.
nlohmann::ordered_json resolved_tree(const hws_config* config);

/// Reads a whole file as text. Throws Failure: HWS_NOT_FOUND, HWS_PERMISSION or HWS_IO.
std::string read_file(const std::string& path);
/// Writes a temporary file and renames it, so that readers see either the old text or the new one. Throws
/// Failure.
void replace_file(const std::string& path, std::string_view text);

}  // namespace hawser::cli
