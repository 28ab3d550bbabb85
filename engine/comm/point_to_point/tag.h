// Tag: what a member says ahead of its first data for another member in a call: which call of which group this
// is, in full, so that a disagreement is found before data of the wrong size is taken, and both sides are named.
// Plain bytes between like machines; a foreign byte order shows as a wrong mark.
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
  uint32_t gave_up = 0;     ///< 1: no data follows; the sender has waited in this call for as long as it may
  uint64_t group_mark = 0;  ///< of the group's members, name and which of several alike it is
  uint64_t sequence = 0;
  int64_t bytes = 0;  ///< that follow from this sender to this receiver, where sizes differ by member
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
