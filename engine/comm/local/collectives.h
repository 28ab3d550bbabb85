// LocalCollectives: performs a member's work once all members have entered a call: it reads the other
// members' memory and writes its own part. No two members ever write the same element, and none writes an
// element that another still reads.
#pragma once

#include <vector>

#include "engine/comm/local/meeting.h"
#include "engine/comm/ordered_sums.h"
#include "engine/comm/serial_stream.h"
#include "kernels/include/table.h"

namespace hawser::comm {

/// One member's part of the collectives. Allocates all memory at construction.
class LocalCollectives {
 public:
  LocalCollectives(Meeting& meeting, int32_t member, const kernels::KernelTable& kernels, const Fault& fault);

  /// Compares the calls; one member calls it once all have entered. Throws if the calls differ.
  void compare(const Call& call) const;
  /// Performs this member's work; call it once the members' calls have been compared. Throws early if a fault
  /// is set.
  void work(const Call& call);

 private:
  const Call& of(int32_t member) const {
    return *meeting_.sides[member].call.load(std::memory_order_acquire);
  }
  void check_byte_counts(const Call& call) const;
  void all_gather(const Call& call);
  void reduce_scatter(const Call& call);
  void sum(float* out, const Reduction& r, bool accumulate, int64_t n);
  void sum_in_records(float* out, const Reduction& r, bool accumulate, int64_t n);
  int64_t largest_part(const Reduction& r, int64_t otherwise) const;
  void all_reduce(const Call& call);
  void all_reduce_part(const Call& call, size_t piece, int64_t begin, int64_t count);
  void all_reduce_i64(const Call& call);
  void all_to_all(const Call& call);
  void copy(void* to, const void* from, int64_t bytes) const;

  Meeting& meeting_;
  const int32_t me_;
  const int32_t size_;
  const Fault& fault_;
  SerialStream stream_;
  const SumKernels sums_;
  std::vector<const void*> addends_;  ///< by member
  std::vector<float> scratch_;        ///< a finished sum before it is accumulated or rounded
  std::vector<uint16_t> records_;     ///< all members' addends of a part, as they would be sent
  std::vector<float> sums_of_runs_;   ///< a subgroup's sum before it is encoded
};

}  // namespace hawser::comm
