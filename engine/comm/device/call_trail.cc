#include "engine/comm/device/call_trail.h"

#include <algorithm>
#include <memory>

namespace hawser::comm {

struct CallTrail::Marks {
  uint64_t count = 0;
  std::vector<uint64_t> after = std::vector<uint64_t>(kKept);  ///< the marks; call c is at c % kKept
  /// Returns the first call whose mark is stored.
  uint64_t first() const { return count - std::min(count, kKept); }
  uint64_t operator[](uint64_t call) const { return after[call % kKept]; }
};

void CallTrail::add(const Call& call, const std::string& group) {
  const Signature& s = call.signature;
  const Operation operation = s.operation == Operation::kRecv ? Operation::kSend : s.operation;
  hash_.add(group).add(operation).add(s.type).add(s.round_to).add(s.tree).add(s.sum_group).add(s.root);
  hash_.add(s.own_sizes).add(s.pieces).add(s.elements).add(s.sizes_mark);
  last_[count_++ % kKept] = {hash_.value(), call.sequence, s, &group};
}

CallTrail::Marks CallTrail::marks() const {
  Marks marks;
  marks.count = count_;
  for (uint64_t i = 0; i < kKept; ++i) marks.after[i] = last_[i].mark;
  return marks;
}

std::string CallTrail::text(uint64_t call) const {
  if (call >= count_) return "nothing";
  const Entry& entry = last_[call % kKept];
  return fmt::format("{} (call {} of group '{}')", describe(entry.signature), entry.sequence, *entry.group);
}

void CallTrail::find_difference(ProcessGroup& hosts, std::span<const int64_t> kinds) const {
  std::vector<uint64_t> ends(hosts.members().size());
  const uint64_t own = mark();
  const GatherPiece piece = {ends.data(), &own, 1};
  hosts.wait(hosts.all_gather({&piece, 1}, DType::kI64));
  int32_t sides[2] = {-1, -1};
  for (size_t b = 0; b < ends.size() && sides[0] < 0; ++b)
    for (size_t a = 0; a < b && sides[0] < 0; ++a)
      if (ends[a] != ends[b] && (kinds.empty() || kinds[a] == kinds[b]))
        sides[0] = static_cast<int32_t>(a), sides[1] = static_cast<int32_t>(b);
  HWS_CHECK(sides[0] >= 0);

  Marks marks[2];
  for (int i = 0; i < 2; ++i) {
    if (hosts.rank() == sides[i]) marks[i] = this->marks();
    hosts.wait(hosts.broadcast(&marks[i].count, sizeof(marks[i].count), sides[i]));
    hosts.wait(hosts.broadcast(marks[i].after.data(), kKept * int64_t{sizeof(uint64_t)}, sides[i]));
  }
  const uint64_t kept = std::max(marks[0].first(), marks[1].first());
  const uint64_t both = std::min(marks[0].count, marks[1].count);
  uint64_t call = kept;
  while (call < both && marks[0][call] == marks[1][call]) ++call;
  if (call == kept && kept > 0) {
    fail(Code::kInvalidArgument,
         "rank {} and rank {} gave their devices different calls, more than {} calls ago; all members must "
         "make the same calls in the same order. Results since then are wrong: load the last checkpoint",
         hosts.members()[sides[0]], hosts.members()[sides[1]], both - kept);
  }
  char texts[2][256] = {};
  for (int i = 0; i < 2; ++i) {
    if (hosts.rank() == sides[i]) text(call).copy(texts[i], sizeof(texts[i]) - 1);
    hosts.wait(hosts.broadcast(texts[i], sizeof(texts[i]), sides[i]));
  }
  fail(Code::kInvalidArgument,
       "call {} of the devices differs: rank {} calls {}, rank {} calls {}; all members must make the same "
       "calls in the same order. Results since then are wrong: load the last checkpoint",
       call, hosts.members()[sides[0]], texts[0], hosts.members()[sides[1]], texts[1]);
}

}  // namespace hawser::comm
