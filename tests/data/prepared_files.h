// Prepared files: a small prepared folder for tests, written by hand.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "engine/base/input_file.h"
#include "engine/data/prepared_folder.h"

namespace hawser::data {

struct PreparedFiles {
  int64_t cols = 4;
  std::vector<uint32_t> tokens;
  std::vector<uint8_t> marks;
  std::vector<float> weights;  ///< empty: no weights.bin
  bool packed = true;

  /// Writes the folder; `change` may damage the manifest first.
  template <typename Change>
  void write(const std::string& folder, const Change& change) const {
    std::filesystem::create_directories(folder);
    const auto put = [&](const char* name, const auto& values) {
      const std::string path = folder + "/" + name;
      std::ofstream(path, std::ios::binary)
          .write(reinterpret_cast<const char*>(values.data()),
                 static_cast<std::streamsize>(values.size() * sizeof values[0]));
      return file_digest(InputFile::open(path));
    };
    PreparedManifest manifest;
    manifest.rows = static_cast<int64_t>(tokens.size()) / cols;
    manifest.cols = cols;
    manifest.vocabulary = 100;
    manifest.packed = packed;
    manifest.weighted = !weights.empty();
    manifest.tokens_digest = put(kPreparedTokens, tokens);
    manifest.marks_digest = put(kPreparedMarks, marks);
    if (manifest.weighted) manifest.weights_digest = put(kPreparedWeights, weights);
    change(&manifest);
    std::ofstream(folder + "/" + kPreparedManifest) << to_json(manifest);
  }
  void write(const std::string& folder) const {
    write(folder, [](PreparedManifest*) {});
  }
};

}  // namespace hawser::data
