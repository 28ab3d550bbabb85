// Together: steps that ranks take together (of a start, of a save). After each, all know whether all could;
// if not, all throw the same error class, naming the rank where it began, and none goes on.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "engine/comm/process_group.h"

namespace hawser::train {

class Together {
 public:
  /// `group`: null for one rank.
  explicit Together(comm::ProcessGroup* group) : group_(group) {}

  /// What `make` returns on member 0; only there it runs.
  std::string from_first(const std::function<std::string()>& make);
  /// What `make` returns on each member, by member. Complete on all.
  std::vector<std::string> from_all(const std::function<std::string()>& make);

 private:
  struct Answer {
    int64_t code = 0;  // 0: text is a result, else an error's message
    std::string text;
  };
  Answer attempt(const std::function<std::string()>& make) const;
  std::vector<Answer> exchange(const Answer& mine) const;

  comm::ProcessGroup* group_;
};

}  // namespace hawser::train
