// CallTrail: records the calls on a rank's device, as one hash over all calls, and the last calls in full.
// Devices do not compare calls, and hosts exchange nothing before a call on devices. Instead, ranks with the
// same plan compare their hashes once a step, in a collective that they need anyway, and search for the
// differing call only if the hashes differ.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/base/hash.h"
#include "engine/comm/call.h"
#include "engine/comm/process_group.h"

namespace hawser::comm {

/// The thread that issues the calls uses it. It allocates all memory at construction.
class CallTrail {
 public:
  /// Number of calls that are stored in full.
  static constexpr uint64_t kKept = 1024;

  CallTrail() : last_(kKept) {}
  /// Adds a call. `group` must outlive the trail.
  void add(const Call& call, const std::string& group);
  /// Returns the hash: equal on ranks that made the same calls of groups with the same names, in the same
  /// order. A send and its receive count as the same call.
  uint64_t mark() const { return hash_.value(); }
  /// Called by all members of `hosts` if their hashes differ. Throws kInvalidArgument on all of them, with
  /// the first call that differs, and two ranks with the call of each. Members with equal numbers in `kinds`
  /// must make the same calls; if `kinds` is empty, all members must.
  [[noreturn]] void find_difference(ProcessGroup& hosts, std::span<const int64_t> kinds = {}) const;

 private:
  struct Entry {
    uint64_t mark = 0;  ///< the hash after the call
    uint64_t sequence = 0;
    Signature signature;
    const std::string* group = nullptr;
  };
  /// The data that two members send to all others: how many calls they made, and the hashes after the last
  /// calls.
  struct Marks;
  Marks marks() const;
  std::string text(uint64_t call) const;

  Hash hash_;
  uint64_t count_ = 0;
  std::vector<Entry> last_;  ///< call c, counted from 0, is at c % kKept
};

}  // namespace hawser::comm
