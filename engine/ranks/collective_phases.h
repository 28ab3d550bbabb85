// CollectivePhases: runs the phases of a start or a save on all ranks. Each phase ends with an exchange of
// results. If a rank failed, all ranks throw an error with its code that names the rank, so none continues.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "engine/comm/process_group.h"

namespace hawser::train {

class CollectivePhases {
 public:
  /// `group` is null for a single rank.
  explicit CollectivePhases(comm::ProcessGroup* group) : group_(group) {}

  /// Runs `make` on member 0 only and returns its result on all members.
  std::string from_first(const std::function<std::string()>& make);
  /// Runs `make` on each member and returns all results on all members, indexed by member.
  std::vector<std::string> from_all(const std::function<std::string()>& make);

 private:
  struct Reply {
    int64_t code = 0;  // 0: text is a result; otherwise the error code, and text is its message
    std::string text;
  };
  Reply attempt(const std::function<std::string()>& make) const;
  std::vector<Reply> exchange(const Reply& mine) const;
  void gather_texts(const Reply& mine, int64_t longest, std::vector<Reply>* answers) const;

  comm::ProcessGroup* group_;
};

}  // namespace hawser::train
