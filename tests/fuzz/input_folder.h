// InputFolder: a folder in memory for the file of each input, because code that opens files is fuzzed through
// files.
#pragma once

#include <cstdint>
#include <string>

namespace hawser::fuzz {

/// The folder disappears with the process.
class InputFolder {
 public:
  InputFolder();
  ~InputFolder();
  const std::string& path() const { return path_; }
  /// Overwrites the file `name` with these bytes.
  void put(const std::string& name, const uint8_t* data, size_t size) const;

 private:
  std::string path_;
};

}  // namespace hawser::fuzz
