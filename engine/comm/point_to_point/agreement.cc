// The beginning of every call: headers go to all and come from all, so everyone knows who is there and what
// for.
#include "engine/comm/agreement.h"

#include "engine/comm/gate.h"
#include "engine/comm/point_to_point/collectives.h"

namespace hawser::comm {
namespace {

/// How long the others are looked at once one member is known to be missing.
constexpr double kGlance = 0.02;

}  // namespace

void PeerCollectives::agree() {
  const int32_t n = group_->size(), me = group_->member;
  const bool own_sizes = call_->signature.own_sizes != 0;
  for (int32_t k = 1; k < n; ++k) {
    const int32_t to = (me + k) % n;
    send_header(to, own_sizes ? call_->in_bytes[to] : 0);
  }
  for (int32_t m = 0; m < n; ++m) {
    if (m != me) headers_[m] = expect_header(m);
  }
  headers_[me].signature = call_->signature;
  for (int32_t m = 0; m < n; ++m) {
    if (m != me) check_header(m, headers_[m]);
  }
  check_agreement(group_->name, call_->sequence, group_->members,
                  [&](int32_t m) -> const Signature& { return headers_[m].signature; });
  for (int32_t m = 0; own_sizes && m < n; ++m) {
    if (m == me ? call_->in_bytes[m] == call_->out_bytes[m] : headers_[m].bytes == call_->out_bytes[m])
      continue;
    fail_bytes(Operation::kAllToAll, group_->name, call_->sequence, group_->members[m],
               m == me ? call_->in_bytes[m] : headers_[m].bytes, link_.rank(), call_->out_bytes[m]);
  }
}

void PeerCollectives::send_header(int32_t member, int64_t bytes) {
  Header header;
  header.group_mark = group_->mark;
  header.sequence = call_->sequence;
  header.bytes = bytes;
  header.signature = call_->signature;
  header.set_group(group_->name);
  link_.send(group_->members[member], &header, sizeof(header), deadline_);
}

Header PeerCollectives::expect_header(int32_t member) {
  Header header;
  if (!link_.recv_in_time(group_->members[member], &header, sizeof(header), deadline_)) fail_missing(member);
  if (header.mark != Header::kMark) {
    fail(Code::kInvalidArgument,
         "rank {} sends to rank {} what is no header of this version; all ranks must run the same build",
         group_->members[member], link_.rank());
  }
  return header;
}

void PeerCollectives::check_header(int32_t member, const Header& header) const {
  if (header.group_mark == group_->mark && header.sequence == call_->sequence) return;
  fail(Code::kInvalidArgument,
       "rank {} is at call {} of group '{}' ({}), rank {} at call {} of group '{}' ({}); all members must "
       "make the "
       "same calls in the same order",
       link_.rank(), call_->sequence, group_->name, describe(call_->signature), group_->members[member],
       header.sequence, header.group_name(), describe(header.signature));
}

/// Member `first` did not come in time; names all that did not.
void PeerCollectives::fail_missing(int32_t first) {
  std::vector<int32_t> missing = {group_->members[first]};
  const bool pair = call_->signature.operation == Operation::kRecv;
  for (int32_t m = first + 1; m < group_->size() && !pair; ++m) {
    if (m == group_->member) continue;
    const double until = steady_seconds() + kGlance;
    if (!link_.recv_in_time(group_->members[m], &headers_[m], sizeof(Header), until)) {
      missing.push_back(group_->members[m]);
    }
  }
  fail(Code::kTimeout,
       "{} {} of group '{}' ({} members) waited {} s on rank {}: {} never entered it; look there for what "
       "holds it "
       "up, or raise the timeout",
       operation_name(call_->signature.operation), call_->sequence, group_->name, group_->size(),
       timeout_seconds_, link_.rank(), name_ranks(missing));
}

}  // namespace hawser::comm
