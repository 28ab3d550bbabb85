#include "engine/base/json.h"

#include <sched.h>

#include <atomic>
#include <functional>
#include <mutex>
#include <new>

namespace hawser {
namespace {

constexpr size_t kStacks = size_t{1} << 20, kCells = 1024, kAlign = alignof(std::max_align_t);

/// A spin lock: it allocates nothing and makes no system call that could fail.
class Lock {
 public:
  void lock() {
    while (locked_.test_and_set(std::memory_order_acquire)) sched_yield();
  }
  void unlock() { locked_.clear(std::memory_order_release); }

 private:
  std::atomic_flag locked_;
};

bool lies_in(const void* p, const void* begin, size_t bytes) {
  return !std::less<>{}(p, begin) &&
         std::less<>{}(p, static_cast<const void*>(static_cast<const char*>(begin) + bytes));
}

/// Reserved memory for destructors' stacks, one after the other. It is empty again when the last stack is
/// released, which is soon.
class Stacks {
 public:
  void* take(size_t bytes) {
    const size_t rounded = (bytes + kAlign - 1) / kAlign * kAlign;
    const std::lock_guard guard(lock_);
    if (bytes > kStacks || rounded > kStacks - used_) return nullptr;
    void* const p = memory_ + used_;
    used_ += rounded;
    ++stacks_;
    return p;
  }
  bool holds(const void* p) const { return lies_in(p, memory_, kStacks); }
  void give_back() {
    const std::lock_guard guard(lock_);
    if (--stacks_ == 0) used_ = 0;
  }

 private:
  Lock lock_;
  size_t used_ = 0, stacks_ = 0;
  alignas(kAlign) char memory_[kStacks] = {};
};

/// Reserved memory for kCells containers. Cells that are leaked are replaced by cells from the heap.
class Cells {
 public:
  void* take() {
    const std::lock_guard guard(lock_);
    if (fresh_ < kCells) return memory_[fresh_++].room;
    Cell*& list = own_ != nullptr ? own_ : heap_;
    return list != nullptr ? pop(&list) : nullptr;
  }
  /// Takes an unused cell, reserved or from the heap. The caller must free the returned cell (null: none) on
  /// the heap.
  void* put(void* p) {
    const bool own = lies_in(p, memory_, sizeof(memory_));
    const std::lock_guard guard(lock_);
    Cell*& list = own ? own_ : heap_;
    list = new (p) Cell{.next = list};
    ++listed_;
    const bool enough = kCells - fresh_ + listed_ > kCells;
    return enough && heap_ != nullptr ? pop(&heap_) : nullptr;
  }

 private:
  union Cell {
    Cell* next;
    alignas(kAlign) char room[kJsonContainer];
  };
  void* pop(Cell** list) {
    Cell* const cell = *list;
    *list = cell->next;
    --listed_;
    return cell;
  }
  Lock lock_;
  size_t fresh_ = 0, listed_ = 0;  ///< cells of memory_ ever used; cells in both lists
  Cell *own_ = nullptr, *heap_ = nullptr;
  Cell memory_[kCells] = {};
};

constinit Stacks g_stacks;
constinit Cells g_cells;

}  // namespace

void* allocate_json(size_t bytes) { return ::operator new(bytes); }
void free_json(void* p) noexcept { ::operator delete(p); }

void* allocate_json_container() {
  if (void* p = ::operator new(kJsonContainer, std::nothrow)) return p;
  if (void* p = g_cells.take()) return p;
  throw std::bad_alloc();
}

void free_json_container(void* p) noexcept { ::operator delete(g_cells.put(p)); }

void* allocate_json_stack(size_t bytes) {
  if (void* p = ::operator new(bytes, std::nothrow)) return p;
  if (void* p = g_stacks.take(bytes)) return p;
  throw std::bad_alloc();
}

void free_json_stack(void* p) noexcept {
  if (g_stacks.holds(p)) {
    g_stacks.give_back();
  } else {
    ::operator delete(p);
  }
}

}  // namespace hawser
