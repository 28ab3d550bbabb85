// Prepares text for training: files of rows become a folder of tokens that says what is learned
// (engine/data/prepared_folder.h). Rows are read in order, encoded on all threads, and written in order, so
// that any number of threads writes the same bytes.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hawser::train {

struct PrepareRequest {
  std::string model;               ///< folder with tokenizer.json, or such a file
  std::vector<std::string> files;  ///< of rows, in order
  std::string out;                 ///< folder to make
  int64_t sequence = 0;            ///< tokens of a row
  bool drop_long = false;          ///< longer documents are dropped; else cut at their end
  bool drop_unprinted = false;     ///< drop fields that the chat template does not print; otherwise an error
  bool packing = true;             ///< documents share rows; answers of pairs never do
  std::optional<bool> pairs;       ///< whether rows must be pairs, or must not; not set: as the first one is
  std::string chat_template;       ///< a file, or a built-in one's name; "": the model's
  int32_t threads = 0;             ///< 0: as many as this process may use
  uint64_t seed = 0;               ///< the order of the rows follows from it
  std::string module_folder;       ///< of the text module; "": beside the library
};

/// Throws kInvalidArgument naming the key that is missing, unknown or of another type.
PrepareRequest parse_prepare_request(std::string_view json);

struct PrepareProgress {
  int64_t done_bytes = 0, total_bytes = 0;  ///< of the files
  int64_t rows = 0;                         ///< read so far
};

/// Writes the folder and returns its report, JSON. A folder that the same request made before is left as it
/// is. `tell` runs on the calling thread, some times a second. Afterwards the folder is there and whole, or
/// not there. Throws kDataInvalid, with file, line and column, for the first row that cannot be used, and if
/// none is left to learn from; kAlreadyExists for a folder that holds something else; kCancelled.
std::string prepare(const PrepareRequest& request, const std::function<void(const PrepareProgress&)>& tell);

/// Row `row` of a prepared folder as the model sees it: JSON with its documents, the text of each, and the
/// bytes of it that are learned. Throws kOutOfRange for a row that is not there; what reading the folder
/// throws.
std::string preview(const std::string& folder, int64_t row, const std::string& module_folder = "");

}  // namespace hawser::train
