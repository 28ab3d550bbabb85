// Prepares text for training, for `hawser prepare` and for a run whose data are rows of text.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "bindings/cli/commands.h"

namespace hawser::cli {

/// True if the name is that of a file of rows, which must be prepared.
bool names_rows(const std::string& path);

/// Prepares rows, shows a progress bar, and returns the report as JSON.
std::string prepare_rows(const PrepareOptions& options);

/// Returns warnings for the user from a report of prepare_rows, one sentence each: dropped fields, rows
/// without an end.
std::vector<std::string> notes_of(const nlohmann::ordered_json& report);

/// If --data is a file of rows and CONFIG is a model's folder, prepares the rows into the run's folder, once
/// for all its ranks and restarts, and sets that folder as the data. Otherwise changes nothing, and refuses
/// options that would have no effect.
TrainOptions with_prepared_data(TrainOptions options);

/// Returns the folder in which a run keeps its prepared rows.
std::string prepared_folder_of(const std::string& run);
/// True if a folder holds prepared rows.
bool is_prepared(const std::string& folder);

}  // namespace hawser::cli
