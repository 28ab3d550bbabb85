#include "engine/checkpoint/temporary_folder.h"

#include "engine/base/error.h"
#include "engine/checkpoint/folder_names.h"

namespace hawser::checkpoint {

TemporaryFolder::TemporaryFolder(const std::string& target) : target_(target) {
  const SplitPath split = split_path(target);
  parent_ = split.parent;
  target_ = parent_ + "/" + split.name;  // without slashes at the end
  if (path_exists(target_))
    fail(Code::kAlreadyExists, "{} exists already; choose another name or remove it", target);
  make_folders(parent_);
  path_ = parent_ + "/" + temporary_name(split.name);
  try {
    folder_ = Folder::create(path_);
  } catch (...) {  // made but not opened, perhaps; the destructor does not run
    remove_tree(path_);
    throw;
  }
  folder_.lock();  // without lock support nothing sweeps it either
}

TemporaryFolder::~TemporaryFolder() {
  if (!path_.empty()) remove_tree(path_);
}

void TemporaryFolder::publish() {
  folder_.sync();
  const Folder parent = Folder::open(parent_);
  rename_new(path_, target_);
  try {
    parent.sync();
  } catch (...) {  // not known to be durable: take it back
    path_.swap(target_);
    remove_tree(path_);
    throw;
  }
  path_.clear();
}

}  // namespace hawser::checkpoint
