#include "engine/checkpoint/temporary_folder.h"

#include "engine/base/error.h"
#include "engine/checkpoint/folder_names.h"

namespace hawser::checkpoint {

TemporaryFolder::TemporaryFolder(const std::string& target) {
  const SplitPath split = split_path(target);  // removes slashes at the end
  target_ = split.name;
  if (path_exists(split.parent + "/" + target_))
    fail(Code::kAlreadyExists, "{} exists already; choose another name or remove it", target);
  make_folders(split.parent);
  parent_ = Folder::open(split.parent);
  name_ = temporary_name(target_);
  try {
    folder_ = parent_.create_folder(name_);
  } catch (...) {  // the folder may exist without being open, and the destructor does not run
    parent_.remove_tree(name_);
    throw;
  }
  folder_.lock();  // without lock support, sweeps remove nothing
}

TemporaryFolder::~TemporaryFolder() {
  if (!name_.empty()) parent_.remove_tree(name_);
}

void TemporaryFolder::publish() {
  folder_.sync();
  parent_.rename_new(name_, target_);
  try {
    parent_.sync();
  } catch (...) {  // the rename may not be durable: undo it
    name_.swap(target_);
    parent_.remove_tree(name_);
    throw;
  }
  name_.clear();
}

void TemporaryFolder::publish_file(const std::string& name) {
  parent_.rename_new(name_ + "/" + name, target_);
  try {
    parent_.sync();
  } catch (...) {
    parent_.remove_tree(target_);
    throw;
  }
}

}  // namespace hawser::checkpoint
