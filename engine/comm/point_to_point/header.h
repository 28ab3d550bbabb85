// Header: what a member tells each other member ahead of a call, so that a disagreement is found before data
// of the wrong size is read. Plain bytes between like machines; a foreign byte order shows as a wrong mark.
#pragma once

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "engine/comm/host/host_transport.h"
#include "engine/comm/transport.h"

namespace hawser::comm {

struct Header {
  static constexpr uint64_t kMark = 0x3176636d2d737768ull;  ///< "hws-cmv1"
  static constexpr size_t kNameBytes = 64;

  uint64_t mark = kMark;
  uint64_t group_mark = 0;  ///< of the group's members, name and which of several alike it is
  uint64_t sequence = 0;
  int64_t bytes = 0;  ///< that follow from this sender to this receiver, where sizes differ by member
  Signature signature;
  char group[kNameBytes] = {};

  void set_group(const std::string& name) {
    std::memcpy(group, name.data(), std::min(name.size(), kNameBytes - 1));
  }
  std::string group_name() const { return {group, strnlen(group, kNameBytes)}; }
};
static_assert(std::is_trivially_copyable_v<Header> && sizeof(Header) <= kEagerBytes);

}  // namespace hawser::comm
