// Preparing text for training: for `hawser prepare`, and for a run that is given rows of text.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "bindings/cli/commands.h"

namespace hawser::cli {

/// Whether the name is that of a file of rows, which have to be prepared.
bool names_rows(const std::string& path);

/// Prepares, with a progress bar, and returns the report, JSON.
std::string prepare_rows(const PrepareOptions& options);

/// Warnings for the user from a report of prepare_rows, one sentence each: dropped fields, rows without an
/// end.
std::vector<std::string> notes_of(const nlohmann::ordered_json& report);

/// If the run is given rows of text for a model with a tokenizer, prepares them into the run's folder, once
/// for all its ranks and restarts, and names that folder as the data. Else changes nothing, and refuses
/// options that would have no effect.
TrainOptions with_prepared_data(TrainOptions options);

/// Where a run keeps its prepared rows.
std::string prepared_folder_of(const std::string& run);
/// Whether a folder holds prepared rows.
bool is_prepared(const std::string& folder);

}  // namespace hawser::cli
