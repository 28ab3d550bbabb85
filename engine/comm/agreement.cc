#include "engine/comm/agreement.h"

#include <algorithm>

namespace hawser::comm {

double listening_seconds(double timeout_seconds) { return std::clamp(timeout_seconds / 8, 2.0, 30.0); }

double meeting_deadline(const Call& call, double timeout_seconds) {
  return std::max(call.begun + timeout_seconds, steady_seconds()) + listening_seconds(timeout_seconds);
}

std::string name_ranks(const std::vector<int32_t>& ranks) {
  constexpr size_t kNamed = 16;
  std::string text;
  for (size_t i = 0; i < ranks.size() && i < kNamed; ++i) {
    if (i > 0) text += i + 1 == ranks.size() ? " and " : ", ";
    text += fmt::format("rank {}", ranks[i]);
  }
  if (ranks.size() > kNamed) text += fmt::format(" and {} more", ranks.size() - kNamed);
  return text;
}

void fail_mismatch(const std::string& group, uint64_t sequence, int32_t rank, const Signature& here,
                   int32_t other_rank, const Signature& there) {
  std::string left = describe(here), right = describe(there);
  if (left == right) {  // the totals are equal, but not the pieces
    left += fmt::format(" (sizes {:016x})", here.sizes_mark);
    right += fmt::format(" (sizes {:016x})", there.sizes_mark);
  }
  fail(Code::kInvalidArgument,
       "call {} of group '{}' differs: rank {} calls {}, rank {} calls {}; all members must make the same "
       "calls in "
       "the same order",
       sequence, group, rank, left, other_rank, right);
}

void fail_elsewhere(const CallAt& here, const CallAt& there) {
  fail(Code::kInvalidArgument,
       "rank {} is at call {} of group '{}' ({}), rank {} at call {} of group '{}' ({}); all members must "
       "make "
       "the same calls in the same order",
       here.rank, here.sequence, here.group, describe(here.signature), there.rank, there.sequence,
       there.group, describe(there.signature));
}

void fail_bytes(Operation operation, const std::string& group, uint64_t sequence, int32_t from_rank,
                int64_t sent, int32_t to_rank, int64_t expected) {
  fail(Code::kInvalidArgument, "{} {} of group '{}' differs: rank {} sends {} bytes, rank {} expects {}",
       operation_name(operation), sequence, group, from_rank, sent, to_rank, expected);
}

}  // namespace hawser::comm
