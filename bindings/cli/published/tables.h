// Tables of published training runs: those in the command, or those of a file or folder.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace hawser::cli::published {

struct Table {
  nlohmann::ordered_json json;
  nlohmann::ordered_json stack;  ///< the cluster file of its stack; null if no row can be predicted
};

/// Returns the tables of a file, of the files of a folder, or those in the command if `path` is "". The stack
/// of a table is the file stacks/NAME.json beside it, or the one in the command. Refuses files that are not
/// tables.
std::vector<Table> tables(const std::string& path);

}  // namespace hawser::cli::published
