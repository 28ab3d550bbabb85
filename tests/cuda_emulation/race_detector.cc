// Race detector: finds races between the threads of a kernel, that is, two accesses to the same memory, one
// of them a write, with no barrier between them that orders the two threads. The kernels are compiled with
// g++'s -fsanitize=thread, which calls __tsan_read4(address) and similar functions before every access. This
// file defines these functions, instead of the sanitizer's own runtime, which does not support blocks, warps
// and fibers. Kernels therefore need no special types, and device memory is watched like shared memory, also
// between blocks.
//
// Each word of four bytes has a cell with its last write and the reads since then. A page of memory in which
// narrower accesses were seen has a cell for each two bytes or for each byte. An access is ordered after
// another access of
//   - the same thread;
//   - the same block, if a barrier of the block lies between them;
//   - the same warp, if a barrier or shuffle of the warp lies between them;
//   - an earlier launch.
#include <array>
#include <memory>
#include <unordered_map>
#include <vector>

#include "tests/cuda_emulation/block.h"
#include "tests/cuda_emulation/emulation.h"

namespace hawser::cuda_emulation {
namespace {

constexpr int32_t kNoThread = -1, kManyOfAWarp = -2, kManyOfABlock = -3, kManyBlocks = -4;

/// An access, or a summary of several reads: then `thread` is one of the constants above.
struct Access {
  uint64_t block = 0;
  int32_t thread = kNoThread, warp = 0;
  uint32_t block_epoch = 0, warp_epoch = 0;
};

struct Cell {
  uint64_t owner = 0;  ///< the launch of the write and the reads; in shared memory, their block
  Access write, read;
};

constexpr uintptr_t kPageBytes = 4096;

/// The cells of a page of memory.
class Page {
 public:
  /// Returns the bytes of one cell, for an access at `address`.
  uintptr_t cell_bytes(uintptr_t address, uintptr_t bytes) {
    while (bytes < word_ || address % word_ != 0) halve();
    return word_;
  }
  Cell& cell(uintptr_t address) { return cells_[address % kPageBytes / word_]; }

 private:
  void halve() {
    std::vector<Cell> halves(2 * cells_.size());
    for (size_t i = 0; i < halves.size(); ++i) halves[i] = cells_[i / 2];
    cells_.swap(halves);
    word_ /= 2;
  }
  uintptr_t word_ = 4;
  std::vector<Cell> cells_ = std::vector<Cell>(kPageBytes / 4);
};

SharedMemory shared_memory;

struct Counted {
  uintptr_t begin = 0, end = 0;
  int64_t bytes = 0;
} counted;

Page& page_of(uintptr_t address) {
  static std::unordered_map<uintptr_t, std::unique_ptr<Page>> pages;
  static std::array<std::pair<uintptr_t, Page*>, 256> recent;
  const uintptr_t number = address / kPageBytes;
  auto& [key, page] = recent[number % recent.size()];
  if (page != nullptr && key == number) return *page;
  std::unique_ptr<Page>& owned = pages[number];
  if (owned == nullptr) owned = std::make_unique<Page>();
  key = number;
  page = owned.get();
  return *page;
}

bool ordered(const Access& earlier, const Access& now) {
  if (earlier.thread == kNoThread) return true;
  if (earlier.thread == kManyBlocks || earlier.block != now.block) return false;
  if (earlier.thread == now.thread || earlier.block_epoch != now.block_epoch) return true;
  return earlier.thread != kManyOfABlock && earlier.warp == now.warp && earlier.warp_epoch != now.warp_epoch;
}

/// Returns the reads of a cell after one more. Reads that a barrier of the block, or of their common warp,
/// ordered before `now` are dropped: an access that is ordered after `now` is ordered after them, too.
Access joined(const Access& reads, const Access& now) {
  if (reads.thread == kNoThread) return now;
  Access all = now;
  if (reads.thread == kManyBlocks || reads.block != now.block) {
    all.thread = kManyBlocks;
  } else if (reads.block_epoch != now.block_epoch || reads.thread == now.thread || ordered(reads, now)) {
    return now;
  } else {
    all.thread = reads.thread != kManyOfABlock && reads.warp == now.warp ? kManyOfAWarp : kManyOfABlock;
  }
  return all;
}

bool is_shared(uintptr_t address) {
  return address - shared_memory.begin < shared_memory.end_of_all - shared_memory.begin;
}

void report_race(uintptr_t address, const Access& earlier, const char* words) {
  const std::string where =
      is_shared(address) ? "byte " + std::to_string(address - shared_memory.begin) + " of shared memory"
                         : "device memory";
  const std::string who =
      earlier.thread >= 0 ? "thread " + std::to_string(earlier.thread) : "several threads";
  report("race: " + std::string(words) + " " + where + " with no barrier after " + who +
         (earlier.thread == kManyBlocks || earlier.block != here()->block ? " of another block" : ""));
}

void see_write(Cell& cell, uintptr_t address, const Access& now) {
  if (!ordered(cell.write, now)) report_race(address, cell.write, "second write to");
  if (!ordered(cell.read, now)) report_race(address, cell.read, "write to what was read from");
  cell.write = now;
  cell.read = {};
}

}  // namespace

void see_access(uintptr_t address, uintptr_t bytes, bool writes) {
  const Here* at = here();
  if (at == nullptr || is_on_a_stack(address)) return;
  if (address - counted.begin < counted.end - counted.begin) counted.bytes += static_cast<int64_t>(bytes);
  const uint64_t owner = is_shared(address) ? at->block : at->launch;
  if (is_shared(address) && address + bytes > shared_memory.end) {
    report("shared memory beyond what the launch asked for");
  }
  const Access now = {at->block, at->thread, at->thread / 32, at->block_epoch, at->warp_epoch};
  Page& page = page_of(address);  // no access crosses a page, because accesses are aligned
  const uintptr_t word = page.cell_bytes(address, bytes);
  for (uintptr_t p = address / word * word; p < address + bytes; p += word) {
    Cell& cell = page.cell(p);
    if (cell.owner != owner) cell = {owner, {}, {}};
    if (writes) {
      see_write(cell, p, now);
    } else {
      if (!ordered(cell.write, now)) report_race(p, cell.write, "read of what was written to");
      cell.read = joined(cell.read, now);
    }
  }
}

void watch_shared_memory(const SharedMemory& shared) { shared_memory = shared; }

void count_accesses(const void* begin, const void* end) {
  counted = {reinterpret_cast<uintptr_t>(begin), reinterpret_cast<uintptr_t>(end)};
}

int64_t accessed_bytes() { return counted.bytes; }

}  // namespace hawser::cuda_emulation

// The functions that the compiler calls.

namespace {
void seen(void* p, uintptr_t bytes, bool writes) {
  hawser::cuda_emulation::see_access(reinterpret_cast<uintptr_t>(p), bytes, writes);
}
}  // namespace

#define HWS_ACCESS(bytes)                                               \
  void __tsan_read##bytes(void* p) { seen(p, bytes, false); }           \
  void __tsan_write##bytes(void* p) { seen(p, bytes, true); }           \
  void __tsan_unaligned_read##bytes(void* p) { seen(p, bytes, false); } \
  void __tsan_unaligned_write##bytes(void* p) { seen(p, bytes, true); }

extern "C" {
HWS_ACCESS(1)
HWS_ACCESS(2)
HWS_ACCESS(4)
HWS_ACCESS(8)
HWS_ACCESS(16)
void __tsan_read_range(void* p, uintptr_t bytes) { seen(p, bytes, false); }
void __tsan_write_range(void* p, uintptr_t bytes) { seen(p, bytes, true); }
void __tsan_vptr_update(void**, void*) {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_init() {}
}
