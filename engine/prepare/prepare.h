// prepare: a function that tokenizes files of rows into a folder of tokens and loss marks for training
// (engine/data/prepared_folder.h). It reads rows in order, encodes them on all threads and stores them in
// order, so that any number of threads writes the same bytes.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hawser::train {

struct PrepareRequest {
  std::string model;               ///< a checkpoint, a model's folder, or a tokenizer.json
  std::vector<std::string> files;  ///< files of rows, in order
  std::string out;                 ///< the folder to create
  int64_t sequence = 0;            ///< tokens per row
  bool drop_long = false;          ///< drop longer documents; otherwise cut off their end
  bool drop_unprinted = false;     ///< drop fields that the chat template does not print; otherwise an error
  bool packing = true;             ///< documents may share a row, except answers of pairs
  std::optional<bool> pairs;       ///< rows must (true) or must not be pairs; not set: the first row decides
  std::string chat_template;       ///< a file or the name of a built-in template; "": the model's
  int32_t threads = 0;             ///< 0: as many as this process may use
  uint64_t seed = 0;               ///< determines the order of the rows
  std::string module_folder;       ///< folder of the text module; "": the library's folder
};

/// Throws kInvalidArgument naming the key that is missing, unknown or of another type.
PrepareRequest parse_prepare_request(std::string_view json);

struct PrepareProgress {
  int64_t done_bytes = 0, total_bytes = 0;  ///< bytes of the files: read, and in total
  int64_t rows = 0;                         ///< rows read so far
};

/// Writes the folder and returns its report as JSON. If an equal request has already made the folder, it
/// stays unchanged. Calls `tell` on the calling thread, at most about ten times a second. Afterwards the
/// folder is complete or does not exist. Throws kDataInvalid, with file, line and column, for the first row
/// that cannot be used, and if no row has a target left; kAlreadyExists if the folder holds something else;
/// kCancelled.
std::string prepare(const PrepareRequest& request, const std::function<void(const PrepareProgress&)>& tell);

/// Returns row `row` of a prepared folder as JSON: its documents, the text of each, and the byte ranges of
/// the text that are trained on. Throws kOutOfRange if the row does not exist, and the errors of reading the
/// folder.
std::string preview(const std::string& folder, int64_t row, const std::string& module_folder = "");

}  // namespace hawser::train
