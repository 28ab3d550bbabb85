// TemporaryFolder: a directory that appears complete or not at all. It is filled under a temporary name next
// to its target, flushed, and renamed. Until then it is locked, so that a sweep can distinguish it from one
// left by a dead process. If its parent is moved meanwhile, the folder appears in the moved parent.
#pragma once

#include <string>

#include "engine/checkpoint/file_io.h"

namespace hawser::checkpoint {

class TemporaryFolder {
 public:
  /// `target` must not exist; its parents are created. Throws kAlreadyExists, kPermission, kIo.
  explicit TemporaryFolder(const std::string& target);
  /// Removes the folder if it was not published.
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const Folder& folder() const { return folder_; }
  /// Flushes the directory, renames it to the target and flushes the parent. If it throws, nothing is left.
  void publish();
  /// Moves one file of the folder to the target instead, and flushes the parent. The file must be flushed.
  /// The destructor removes the folder. If it throws, nothing is left.
  void publish_file(const std::string& name);

 private:
  std::string target_, name_;  // names in parent_
  Folder parent_, folder_;
};

}  // namespace hawser::checkpoint
