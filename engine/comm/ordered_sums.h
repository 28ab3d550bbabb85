// OrderedSums: sums over the members of a group, written once for every transport: the order in which
// members' addends are added, and the messages that this needs. A transport provides the exchange of bytes
// between members (RowExchange).
//
// Each member owns a part of the elements and sums it. Arrays pass through the staging buffer chunk by chunk.
// If all members form one subgroup (Reduction::sum_group), each sends each owner its addends. If there are
// several subgroups, sums take two hops: member s of each subgroup adds up the subgroup's addends of all
// parts whose owners are member s of their subgroups, then sends each owner its sum, and the owner adds the
// subgroups' sums. These are the same additions in the same order, for equally many bytes if addends are f32
// (bf16 and f16 addends are sent narrow, but subgroups' sums as f32, so that they are not rounded); but a
// member communicates only with its subgroup and one member of each other subgroup, not with all members.
// Finished sums return the same way.
//
// Addends may be sent in records of integers (qgZ of ZeRO++, arXiv:2306.10209). Records count from the first
// element of each member's shard, or of an all_reduce's array; owners' parts and chunks begin at whole ones.
// Both hops then send records: a subgroup's sum is encoded as well, once, on its owner too.
//
// If all members form one subgroup, short addends still take two hops, along the rows and columns of a grid
// (RowExchange::most_relayed_bytes). They are not summed on their way, so their bytes are sent twice, but
// each member sends about 2 sqrt(N) messages instead of N - 1. Finished sums always return along such a grid,
// which costs no more bytes.
#pragma once

#include <span>
#include <vector>

#include "engine/base/stream.h"
#include "engine/comm/process_group.h"
#include "kernels/include/table.h"

namespace hawser::comm {

/// A row: `count` members first, first + stride, and so on.
struct Row {
  int32_t first = 0, stride = 1, count = 1;
};

/// Bytes and offsets of messages, by member of the group.
struct Messages {
  explicit Messages(size_t members) : at(members), bytes(members) {}
  std::vector<int64_t> at, bytes;
};

/// The exchange of bytes between the members of a group. Calls may take effect later, in order.
class RowExchange {
 public:
  /// Each member of `row` sends each other one message. Messages of members outside the row must have 0
  /// bytes.
  virtual void all_to_all(const Row& row, char* in, const Messages& received, const char* out,
                          const Messages& sent) = 0;
  /// Copies member m's `own` to all + m * bytes, if the transport has one call for that; otherwise returns
  /// false.
  virtual bool all_gather(char* all, const void* own, int64_t bytes) = 0;
  /// Returns the largest message, in bytes, for which fewer messages with twice the total bytes are cheaper.
  virtual int64_t most_relayed_bytes() const = 0;

 protected:
  ~RowExchange() = default;
};

/// The arithmetic of a sum.
class SumKernels {
 public:
  SumKernels(const kernels::KernelTable& kernels, Stream& stream) : kernels_(kernels), stream_(stream) {}

  /// Computes out (+)= the sum of the members' addends of r.in_type, each rounded to r.wire. Addends that are
  /// sent in records are in them (in_type).
  void add(float* out, const void* const* addends, int32_t members, const Reduction& r, bool accumulate,
           int64_t n) const;
  /// Writes a finished sum to its destination, of r.out_type.
  void place(void* out, const float* sum, const Reduction& r, int64_t n) const;
  /// `to_type` may be records of integers; then `from` has f32, or, in host memory, the same records.
  void convert(void* to, DType to_type, const void* from, DType from_type, int64_t n) const;

 private:
  const kernels::KernelTable& kernels_;
  Stream& stream_;
};

/// True if subgroups' sums are added to each other, in a second hop.
bool in_two_hops(int64_t members, const Reduction& reduction);
/// Returns the type in which subgroups' sums are sent.
inline DType type_of_sums(const Reduction& r) { return is_int_block(r.wire) ? r.wire : DType::kF32; }

/// Returns the number of chunks in the staging buffer of a sum: incoming addends, outgoing addends if they
/// are packed, the finished sum, and the finished sum in a narrow type.
int64_t sum_slots(int64_t members, const Reduction& reduction);

class OrderedSums {
 public:
  /// Allocates all memory, for groups of at most `world_size`. The arguments must outlive this object.
  OrderedSums(RowExchange& exchange, const SumKernels& kernels, float* staging, int64_t floats,
              int32_t world_size);

  void reduce_scatter(std::span<const ReducePiece> pieces, const Reduction& r, int32_t members,
                      int32_t member);
  void all_reduce(std::span<const AllReducePiece> pieces, const Reduction& r, int32_t members,
                  int32_t member);

 private:
  struct Chunk {
    int64_t begin = 0, count = 0;
  };
  /// Subgroups of `size` consecutive members each; this member is number `seat` of subgroup `run`.
  struct Runs {
    int32_t size = 1, count = 1, run = 0, seat = 0;
    int32_t member(int32_t of_run, int32_t of_seat) const { return of_run * size + of_seat; }
    Row mates() const { return {run * size, 1, size}; }
    Row seats() const { return {seat, size, count}; }
  };

  void begin(const Reduction& r, int32_t members, int32_t member);
  Runs in_runs_of(int32_t size) const { return {size, members_ / size, me_ / size, me_ % size}; }
  void divide_staging(int64_t share);
  void cut(int64_t elements, int64_t share, int64_t at);
  void sum_part(const void* in, float* out, bool accumulate);
  void sum_directly(const void* in, float* out, bool accumulate);
  void sum_runs(const void* in, float* out, bool accumulate);
  void sum_relayed(const void* in, float* out, bool accumulate);
  void send_to_mates(const Runs& runs, const void* in, char* packed, char* incoming);
  void spread_part(void* out);
  void spread_by_runs(char* all, const void* own);
  void place(void* out, int64_t at, const float* sum, int64_t n);
  void no_messages();
  float* slot(int64_t index) const { return staging_ + index * chunk_; }
  float* finished() const { return slot(slots_ - 2); }
  int64_t bytes_of_seat(const Runs& runs, int32_t seat, DType type) const;

  RowExchange& exchange_;
  const SumKernels kernels_;
  float* const staging_;
  const int64_t floats_;
  std::vector<const void*> addends_;
  Messages sent_, received_;
  std::vector<Chunk> chunks_;  ///< elements of the current chunk, by owner
  std::vector<int64_t> at_;    ///< byte offset of each owner's finished sum in the staging buffer, by owner
  Reduction r_;                ///< the reduction of the running call
  Runs runs_;                  ///< the subgroups whose sums are added
  Runs grid_;                  ///< the grid for bytes that are not added on their way
  bool relays_ = false;        ///< short addends use the grid
  int32_t members_ = 0, me_ = 0;
  int64_t chunk_ = 0, slots_ = 0;
};

}  // namespace hawser::comm
