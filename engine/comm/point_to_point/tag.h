// Tag: sent before a member's first data for another member in a call. It identifies the call and its group
// completely, so that a disagreement is detected before data of the wrong size is read, and both sides are
// named. It is plain bytes between machines of the same byte order; with another byte order the mark is
// wrong.
#pragma once

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "engine/comm/call.h"
#include "engine/comm/host/host_transport.h"

namespace hawser::comm {

struct Tag {
  static constexpr uint32_t kMark = 0x3277732d;  ///< "-sw2"
  static constexpr size_t kNameBytes = 24;

  uint32_t mark = kMark;
  uint32_t gave_up = 0;     ///< 1: no data follows, because the sender's call has timed out
  uint64_t group_mark = 0;  ///< identifies members, name, and the number among equal groups
  uint64_t sequence = 0;
  int64_t bytes = 0;  ///< bytes of data from this sender to this receiver, if sizes differ by member
  Signature signature;
  char group[kNameBytes] = {};

  void set_group(const std::string& name) {
    std::memcpy(group, name.data(), std::min(name.size(), kNameBytes - 1));
  }
  std::string group_name() const { return {group, strnlen(group, kNameBytes)}; }
  bool same_call(const Tag& other) const {
    return mark == other.mark && group_mark == other.group_mark && sequence == other.sequence &&
           signature == other.signature;
  }
};
static_assert(std::is_trivially_copyable_v<Tag> && sizeof(Tag) <= kEagerBytes);

}  // namespace hawser::comm
