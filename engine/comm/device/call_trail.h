// CallTrail: the calls that a rank's device was given, as one hash that each call changes, and the last of
// them in full. Devices compare nothing, and hosts exchange nothing before a call of devices. Ranks with the
// same plan compare their hashes where they meet anyway, once a step, and look for the call only if they
// differ.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/base/hash.h"
#include "engine/comm/call.h"
#include "engine/comm/process_group.h"

namespace hawser::comm {

/// Used by the thread that issues the calls. All memory is taken when it is made.
class CallTrail {
 public:
  /// Calls that are kept in full.
  static constexpr uint64_t kKept = 1024;

  CallTrail() : last_(kKept) {}
  /// `group` outlives the trail.
  void add(const Call& call, const std::string& group);
  /// Equal on ranks that made the same calls of groups with the same names, in the same order. A send and its
  /// receive count alike.
  uint64_t mark() const { return hash_.value(); }
  /// For members of `hosts` whose marks differ. Collective. Throws kInvalidArgument on all of them: the first
  /// call that differs, and two ranks with what each called. Members with equal numbers in `kinds` make the
  /// same calls; empty: all do.
  [[noreturn]] void find_difference(ProcessGroup& hosts, std::span<const int64_t> kinds = {}) const;

 private:
  struct Entry {
    uint64_t mark = 0;  ///< after the call
    uint64_t sequence = 0;
    Signature signature;
    const std::string* group = nullptr;
  };
  /// What two members send to all: how many calls they made, and the marks of the last.
  struct Marks;
  Marks marks() const;
  std::string text(uint64_t call) const;

  Hash hash_;
  uint64_t count_ = 0;
  std::vector<Entry> last_;  ///< call c, from 0, at c % kKept
};

}  // namespace hawser::comm
