#include "engine/comm/queued_group.h"

#include <bit>

#include "engine/base/hash.h"
#include "engine/comm/device/device_calls.h"

namespace hawser::comm {
namespace {

bool travels(DType type) { return type == DType::kF32 || type == DType::kBf16 || type == DType::kF16; }

}  // namespace

QueuedGroup::QueuedGroup(Progress& progress, GroupCounters& counters, int32_t index, int32_t rank,
                         std::vector<int32_t> members, std::string name, bool sums, LinkTopology pairs)
    : ProcessGroup(rank, std::move(members), std::move(name)),
      progress_(progress),
      counters_(counters),
      index_(index),
      sums_(sums),
      pairs_(pairs),
      sent_(this->members().size()),
      received_(this->members().size()) {}

/// Signs the sizes and the number of arrays, which the members compare. An array has two addresses in memory.
template <typename Piece, typename First, typename Second>
void QueuedGroup::sign_pieces(Call* call, std::span<const Piece> pieces, int64_t Piece::*elements,
                              const char* first_name, First Piece::*first, const char* second_name,
                              Second Piece::*second) const {
  Signature& signature = call->signature;
  signature.pieces = static_cast<int64_t>(pieces.size());
  Hash mark;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const Piece& piece = pieces[i];
    const auto index = static_cast<int64_t>(i);
    check_memory(signature.operation, first_name, index, piece.*first, piece.*elements);
    check_memory(signature.operation, second_name, index, piece.*second, piece.*elements);
    signature.elements += piece.*elements;
    mark.add(piece.*elements);
  }
  signature.sizes_mark = mark.value();
}

Work QueuedGroup::all_gather(std::span<const GatherPiece> pieces, DType type) {
  Call call = start(Operation::kAllGather);
  call.signature.type = type;
  sign_pieces(&call, pieces, &GatherPiece::shard_elements, "full of array", &GatherPiece::full,
              "shard of array", &GatherPiece::shard);
  call.gather = pieces;
  return issue(call);
}

Work QueuedGroup::reduce_scatter(std::span<const ReducePiece> pieces, const Reduction& reduction) {
  Call call = start(Operation::kReduceScatter);
  call.reduction = reduction;
  check_reduction(call);
  sign_pieces(&call, pieces, &ReducePiece::shard_elements, "shard of array", &ReducePiece::shard,
              "full of array", &ReducePiece::full);
  call.reduce = pieces;
  return issue(call);
}

Work QueuedGroup::all_reduce(std::span<const AllReducePiece> pieces, const Reduction& reduction) {
  Call call = start(Operation::kAllReduce);
  call.reduction = reduction;
  check_reduction(call);
  sign_pieces(&call, pieces, &AllReducePiece::elements, "out of array", &AllReducePiece::out, "in of array",
              &AllReducePiece::in);
  call.all_reduce = pieces;
  return issue(call);
}

Work QueuedGroup::all_reduce_i64(int64_t* data, int64_t count) {
  Call call = start(Operation::kAllReduceI64);
  check_memory(Operation::kAllReduceI64, "data", -1, data, count);
  call.signature.type = DType::kI64;
  call.signature.elements = call.bytes = count;
  call.out = data;
  return issue(call);
}

Work QueuedGroup::all_to_all(void* out, const void* in, int64_t bytes) {
  Call call = start(Operation::kAllToAll);
  check_memory(Operation::kAllToAll, "out", -1, out, bytes);
  check_memory(Operation::kAllToAll, "in", -1, in, bytes);
  call.signature.elements = call.bytes = bytes;
  call.out = out;
  call.in = in;
  return issue(call);
}

Work QueuedGroup::all_to_all_v(void* out, std::span<const int64_t> out_bytes, const void* in,
                               std::span<const int64_t> in_bytes) {
  Call call = start(Operation::kAllToAll);
  const auto members = static_cast<size_t>(size());
  if (out_bytes.size() != members || in_bytes.size() != members) {
    fail(Code::kInvalidArgument, "all_to_all_v in group '{}': {} out_bytes and {} in_bytes for {} members",
         name(), out_bytes.size(), in_bytes.size(), members);
  }
  for (int32_t m = 0; m < size(); ++m) {
    check_memory(Operation::kAllToAll, "out of member", m, out, out_bytes[m]);
    check_memory(Operation::kAllToAll, "in for member", m, in, in_bytes[m]);
  }
  call.signature.own_sizes = 1;
  call.out = out;
  call.in = in;
  call.out_bytes = out_bytes;
  call.in_bytes = in_bytes;
  return issue(call);
}

Work QueuedGroup::broadcast(void* data, int64_t bytes, int32_t root) {
  Call call = start(Operation::kBroadcast);
  check_memory(Operation::kBroadcast, "data", -1, data, bytes);
  check_member(Operation::kBroadcast, "root", root);
  call.signature.root = root;
  call.signature.elements = call.bytes = bytes;
  call.out = data;
  return issue(call);
}

Work QueuedGroup::send(const void* data, int64_t bytes, int32_t to) {
  Call call = start(Operation::kSend);
  check_memory(Operation::kSend, "data", -1, data, bytes);
  check_member(Operation::kSend, "receiver", to);
  call.signature.elements = call.bytes = bytes;
  call.in = data;
  return pass(call, to, sent_[static_cast<size_t>(to)]);
}

Work QueuedGroup::recv(void* data, int64_t bytes, int32_t from) {
  Call call = start(Operation::kRecv);
  check_memory(Operation::kRecv, "data", -1, data, bytes);
  check_member(Operation::kRecv, "sender", from);
  call.signature.elements = call.bytes = bytes;
  call.out = data;
  return pass(call, from, received_[static_cast<size_t>(from)]);
}

Work QueuedGroup::barrier() {
  Call call = start(Operation::kBarrier);
  return issue(call);
}

Traffic QueuedGroup::traffic() const {
  Traffic traffic;
  for (size_t i = 0; i < traffic.by_operation.size(); ++i) {
    const GroupCounters::Entry& entry = counters_.by_operation[i];
    traffic.by_operation[i] = {entry.calls.load(std::memory_order_relaxed),
                               entry.bytes.load(std::memory_order_relaxed),
                               entry.wire_bytes.load(std::memory_order_relaxed),
                               entry.charged_bytes.load(std::memory_order_relaxed)};
  }
  return traffic;
}

Call QueuedGroup::start(Operation operation) const {
  const bool agrees = operation == Operation::kAllGather || operation == Operation::kAllReduceI64 ||
                      operation == Operation::kBroadcast || operation == Operation::kBarrier;
  if (pairs_ == LinkTopology::kTree && !agrees && device_ == nullptr) {
    fail(Code::kInvalidArgument, "{} in group '{}': it was made for agreements (LinkTopology::kTree)",
         operation_name(operation), name());
  }
  Call call;
  call.signature.operation = operation;
  call.group = index_;
  const bool numbers = operation == Operation::kAllReduceI64 || operation == Operation::kBarrier;
  call.device = numbers ? nullptr : device_;
  return call;
}

uint64_t QueuedGroup::push(const Call& call) {
  if (call.device != nullptr) call.device->issues(call, progress_.next_ticket());
  return progress_.push(call);
}

void QueuedGroup::follow(Work work) {
  if (device_ == nullptr) return wait(work);
  device_->follow(ticket_of(work));
}

uint64_t QueuedGroup::ticket_of(Work work) const {
  if (work.ticket == 0 || work.lane == progress_.lane()) return work.ticket;
  fail(Code::kInvalidArgument,
       "group '{}' uses lane {}, but the call was issued on lane {}; wait on that lane", name(),
       progress_.lane(), work.lane);
}

Work QueuedGroup::issue(Call& call) {
  if (call.signature.operation == Operation::kReduceScatter ||
      call.signature.operation == Operation::kAllReduce) {
    call.reduction.sum_group = call.reduction.sum_group == 0 ? size() : call.reduction.sum_group;
    call.signature.type = call.reduction.wire;
    call.signature.round_to = call.reduction.round_to;
    // Types in memory must agree, because members of one process read each other's memory.
    call.signature.sizes_mark ^=
        static_cast<uint64_t>(call.reduction.in_type) << 8 | static_cast<uint64_t>(call.reduction.out_type);
    call.signature.tree = call.reduction.tree ? 1 : 0;
    call.signature.sum_group = call.reduction.sum_group;
  }
  call.sequence = sequence_;
  call.ledger_bytes = ledger_bytes(call, rank(), size());
  if (call.device != nullptr && call.device->captures(call, this)) return {};
  const Work work{push(call), progress_.lane()};
  ++sequence_;
  return work;
}

void QueuedGroup::launched(const Call& captured, bool watched) {
  Call call = captured;
  call.sequence = sequence_++;
  watched ? static_cast<void>(progress_.push(call)) : counters_.add(call);
}

Work QueuedGroup::pass(Call& call, int32_t peer, uint64_t& sequence) {
  if (peer == rank()) {
    fail(Code::kInvalidArgument, "{} in group '{}': member {} is this rank itself",
         operation_name(call.signature.operation), name(), peer);
  }
  call.peer = peer;
  call.sequence = sequence;
  call.ledger_bytes = ledger_bytes(call, rank(), size());
  const Work work{push(call), progress_.lane()};
  ++sequence;
  return work;
}

void QueuedGroup::check_reduction(const Call& call) const {
  const Reduction& r = call.reduction;
  const char* operation = operation_name(call.signature.operation);
  if (!sums_) {
    fail(Code::kInvalidArgument, "{} in group '{}': its lane was made without sums (Lane::sums)", operation,
         name());
  }
  if (!(travels(r.wire) || is_int_block(r.wire)) || !travels(r.round_to)) {
    fail(Code::kInvalidArgument,
         "{} in group '{}': wire {} and round_to {}; each must be F32, BF16 or F16, and wire may be I8_BLOCK "
         "or I4_BLOCK",
         operation, name(), dtype_name(r.wire), dtype_name(r.round_to));
  }
  const auto in_memory = [&](DType type) { return type == DType::kF32 || type == DType::kBf16; };
  if (!in_memory(r.in_type) || !in_memory(r.out_type) || (r.in_type != DType::kF32 && r.in_type != r.wire)) {
    fail(Code::kInvalidArgument,
         "{} in group '{}': in_type {} and out_type {}; each must be F32 or BF16, and BF16 addends are sent "
         "as BF16, not as {}",
         operation, name(), dtype_name(r.in_type), dtype_name(r.out_type), dtype_name(r.wire));
  }
  if (r.sum_group < 0 || (r.sum_group > 0 && size() % r.sum_group != 0)) {
    fail(Code::kInvalidArgument, "{} in group '{}': sum_group {} does not divide its {} members", operation,
         name(), r.sum_group, size());
  }
  if (!r.tree) return;
  if (is_int_block(r.wire)) {
    fail(Code::kInvalidArgument, "{} in group '{}': wire {} has no sum by a tree; sum in order of ranks",
         operation, name(), dtype_name(r.wire));
  }
  if (!std::has_single_bit(static_cast<uint32_t>(size())) || (r.sum_group != 0 && r.sum_group != size())) {
    fail(Code::kInvalidArgument,
         "{} in group '{}': a tree needs a power of two of members and no sum_group; there "
         "are {} members and sum_group {}",
         operation, name(), size(), r.sum_group);
  }
}

void QueuedGroup::check_size(Operation operation, const char* what, int64_t index, int64_t size) const {
  if (size >= 0) return;
  fail(Code::kInvalidArgument, "{} in group '{}': {}{} has size {}", operation_name(operation), name(), what,
       index < 0 ? "" : fmt::format(" {}", index), size);
}

void QueuedGroup::check_memory(Operation operation, const char* what, int64_t index, const void* data,
                               int64_t size) const {
  check_size(operation, what, index, size);
  if (data != nullptr || size == 0) return;
  fail(Code::kInvalidArgument, "{} in group '{}': {}{} is NULL, but its size is {}",
       operation_name(operation), name(), what, index < 0 ? "" : fmt::format(" {}", index), size);
}

void QueuedGroup::check_member(Operation operation, const char* what, int32_t member) const {
  if (member >= 0 && member < size()) return;
  fail(Code::kInvalidArgument, "{} in group '{}': {} is member {}; the group has members 0 to {}",
       operation_name(operation), name(), what, member, size() - 1);
}

}  // namespace hawser::comm
