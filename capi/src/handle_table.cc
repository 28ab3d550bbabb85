// One atomic word, `state`, holds all of a slot's state: generation | live | closing | deferred | number of
// references. A handle is [generation | slot index | type]; its low bits are never 0, so no aligned pointer
// can be mistaken for a handle.
#include "capi/src/handle_table.h"

#include <sched.h>
#include <unistd.h>

#include <climits>
#include <utility>

namespace hawser::capi {
namespace {

constexpr int kTypeBits = 4, kIndexBits = 16;
constexpr int kGenerationBits = sizeof(uintptr_t) == 8 ? 40 : 12;
static_assert(kTypeBits + kIndexBits + kGenerationBits <= static_cast<int>(sizeof(uintptr_t) * CHAR_BIT));
static_assert(kMaxHandles == 1u << kIndexBits);

constexpr int kReferenceBits = 21;
constexpr uint64_t kReferenceMask = (uint64_t{1} << kReferenceBits) - 1;
constexpr uint64_t kLive = uint64_t{1} << kReferenceBits;
constexpr uint64_t kClosing = kLive << 1;   // the host program has destroyed it, calls still run
constexpr uint64_t kDeferred = kLive << 2;  // the last of these calls frees the object
constexpr int kGenerationShift = kReferenceBits + 3;
static_assert(kGenerationShift + kGenerationBits <= 64);
constexpr uint64_t kLastGeneration = (uint64_t{1} << kGenerationBits) - 1;

constexpr uint32_t kWriter = 1u << 31;  // a bit of Slot::access; the lower bits count const calls
constexpr uint32_t kChunkSlots = 1024, kChunks = kMaxHandles / kChunkSlots;
constexpr uint32_t kNoSlot = UINT32_MAX;

}  // namespace

struct Slot {
  std::atomic<uint64_t> state{uint64_t{1} << kGenerationShift};
  std::atomic<uint32_t> access{0};
  std::atomic<uint32_t> drained{0};                 // futex: 1 after the last call has left a closing slot
  std::atomic<const void*> owner{nullptr};          // thread of the exclusive call
  std::atomic<Callback> callback{Callback::kNone};  // read and written by the owner only
  std::atomic<uint32_t> pins{0};                    // cancels in progress; each takes a few instructions
  std::atomic<bool> cancel{false};
  std::atomic<uint32_t> next_free{kNoSlot};
  uint32_t index = 0;
  pid_t pid = 0;
  HandleType type = HandleType::kError;
  Object* object = nullptr;
};

namespace {

// The table is constant-initialised and trivially destructible, so no code runs when the library is loaded or
// the process exits.
constinit std::atomic<Slot*> g_chunks[kChunks] = {};
constinit std::atomic<uint32_t> g_fresh{0};                 // slots ever used
constinit std::atomic<uint32_t> g_used{0};                  // slots that are not free
constinit std::atomic<uint64_t> g_free{uint64_t{kNoSlot}};  // [count of changes | first free slot]

thread_local char t_thread;             // its address identifies this thread
thread_local int t_callback_depth = 0;  // callbacks of the host program that this thread is in

/// Returns the slot of an index below g_fresh, whose chunk exists.
Slot* slot_at(uint32_t index) {
  return g_chunks[index / kChunkSlots].load(std::memory_order_acquire) + index % kChunkSlots;
}

void make_chunk_of(uint32_t index) {
  std::atomic<Slot*>& chunk = g_chunks[index / kChunkSlots];
  if (chunk.load(std::memory_order_acquire) == nullptr) {
    Slot* mine = new Slot[kChunkSlots];
    for (uint32_t i = 0; i < kChunkSlots; ++i) mine[i].index = index - index % kChunkSlots + i;
    Slot* other = nullptr;
    if (!chunk.compare_exchange_strong(other, mine, std::memory_order_acq_rel)) delete[] mine;
  }
}

Slot* pop_free() {
  uint64_t head = g_free.load(std::memory_order_acquire);
  while (true) {
    const auto index = static_cast<uint32_t>(head);
    if (index == kNoSlot) return nullptr;
    Slot* slot = slot_at(index);
    const uint64_t next = slot->next_free.load(std::memory_order_relaxed);
    const uint64_t wanted = (((head >> 32) + 1) << 32) | next;
    if (g_free.compare_exchange_weak(head, wanted, std::memory_order_acq_rel)) return slot;
  }
}

void push_free(Slot* slot) {
  uint64_t head = g_free.load(std::memory_order_acquire);
  uint64_t wanted = 0;
  do {
    slot->next_free.store(static_cast<uint32_t>(head), std::memory_order_relaxed);
    wanted = (((head >> 32) + 1) << 32) | slot->index;
  } while (!g_free.compare_exchange_weak(head, wanted, std::memory_order_acq_rel));
}

/// Counts a new handle; throws if its type may have no more.
void count_in(HandleType type) {
  const uint32_t most = kMaxHandles - (type == HandleType::kError ? 0 : kErrorHandles);
  uint32_t used = g_used.load(std::memory_order_relaxed);
  do {
    if (used >= most) {
      fail(Code::kOutOfMemory,
           "all {} handles are in use; destroy buffers, errors and configs when done with them", most);
    }
  } while (!g_used.compare_exchange_weak(used, used + 1, std::memory_order_relaxed));
}

/// Returns a free slot for a handle that has been counted. There is always one, unless slots have run out of
/// generations.
Slot* find_slot() {
  if (Slot* slot = pop_free()) return slot;
  uint32_t index = g_fresh.load(std::memory_order_relaxed);
  do {
    if (index >= kMaxHandles) fail(Code::kOutOfMemory, "all slots for handles are used up");
    make_chunk_of(index);  // may throw; no slot has been taken yet
  } while (!g_fresh.compare_exchange_weak(index, index + 1, std::memory_order_acq_rel));
  return slot_at(index);
}

Slot* take_slot(HandleType type) {
  count_in(type);
  try {
    return find_slot();
  } catch (...) {
    g_used.fetch_sub(1, std::memory_order_relaxed);
    throw;
  }
}

void give_back(Slot* slot) {
  push_free(slot);
  g_used.fetch_sub(1, std::memory_order_relaxed);
}

struct Decoded {
  Slot* slot = nullptr;  // null if the number was never a handle of this type
  uint64_t generation = 0;
};

Decoded decode(HandleType type, const void* handle) {
  const auto value = reinterpret_cast<uintptr_t>(handle);
  if ((value & ((1u << kTypeBits) - 1)) != static_cast<uintptr_t>(type)) return {};
  const auto index = static_cast<uint32_t>(value >> kTypeBits) & (kMaxHandles - 1);
  if (index >= g_fresh.load(std::memory_order_acquire)) return {};
  return {slot_at(index), static_cast<uint64_t>(value) >> (kTypeBits + kIndexBits)};
}

bool names(uint64_t state, uint64_t generation) {
  return (state & kLive) != 0 && state >> kGenerationShift == generation;
}

bool add_reference(Slot* slot, uint64_t generation) {
  uint64_t state = slot->state.load(std::memory_order_acquire);
  do {
    if (!names(state, generation) || (state & kClosing) != 0) return false;
    if ((state & kReferenceMask) == kReferenceMask) return false;
  } while (!slot->state.compare_exchange_weak(state, state + 1, std::memory_order_acq_rel));
  return true;
}

/// Frees the slot for another object. In a forked child, a slot of the parent stays unused, because a thread
/// that no longer exists may have been using it.
void recycle(Slot* slot) {
  const uint64_t generation = slot->state.load(std::memory_order_relaxed) >> kGenerationShift;
  slot->state.store((generation + 1) << kGenerationShift, std::memory_order_seq_cst);
  if (slot->pid != ::getpid() || generation >= kLastGeneration) return;
  while (slot->pins.load(std::memory_order_seq_cst) != 0) ::sched_yield();
  give_back(slot);
}

/// True if an object has threads or connections, which a forked child does not inherit.
bool stays_with_process(HandleType type) {
  return type == HandleType::kEngine || type == HandleType::kComm || type == HandleType::kOp;
}

/// Frees the object of a slot that no call uses any more. It frees the slot first, because destructors run
/// code of the host program, which may create new handles.
void finish(Slot* slot) {
  Object* object = std::exchange(slot->object, nullptr);
  const bool orphan = stays_with_process(slot->type) && slot->pid != ::getpid();
  recycle(slot);
  if (!orphan) delete object;
}

void release(Slot* slot) {
  const uint64_t before = slot->state.fetch_sub(1, std::memory_order_acq_rel);
  if ((before & kReferenceMask) != 1 || (before & kClosing) == 0) return;
  if ((before & kDeferred) != 0) {
    finish(slot);
  } else {
    slot->drained.store(1, std::memory_order_release);
    slot->drained.notify_all();
  }
}

const char* type_name(uint32_t type) {
  switch (static_cast<HandleType>(type)) {
    case HandleType::kError:
      return "an hws_error";
    case HandleType::kBuffer:
      return "an hws_buffer";
    case HandleType::kConfig:
      return "an hws_config";
    case HandleType::kPlan:
      return "an hws_plan";
    case HandleType::kEngine:
      return "an hws_engine";
    case HandleType::kComm:
      return "an hws_comm";
    case HandleType::kOp:
      return "an hws_op";
    case HandleType::kTokenizer:
      return "an hws_tokenizer";
  }
  return "not a handle of this library";
}

[[noreturn]] void fail_handle(const Call& call, HandleType type, const void* handle) {
  const char* wanted = type_name(static_cast<uint32_t>(type));
  if (handle == nullptr)
    fail(Code::kBadHandle, "{}: the handle is NULL; it needs {}", call.function(), wanted);
  const auto tag = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(handle) & ((1u << kTypeBits) - 1));
  if (tag != static_cast<uint32_t>(type)) {
    fail(Code::kBadHandle, "{}: {} is {}; it needs {}", call.function(), handle, type_name(tag), wanted);
  }
  fail(Code::kBadHandle, "{}: {} is {} that was destroyed or never created", call.function(), handle, wanted);
}

}  // namespace

// --------------------------------------------------------------------------------------------- reservations

Reservation::Reservation(HandleType type) : type_(type), slot_(take_slot(type)) {
  slot_->pid = ::getpid();
  slot_->type = type;
  slot_->cancel.store(false, std::memory_order_relaxed);
  slot_->drained.store(0, std::memory_order_relaxed);
}

Reservation::~Reservation() {
  if (slot_ != nullptr) give_back(slot_);
}

std::atomic<bool>* Reservation::cancel() const { return &slot_->cancel; }

void* Reservation::publish(std::unique_ptr<Object> object) noexcept {
  Slot* slot = std::exchange(slot_, nullptr);
  slot->object = object.release();
  const uint64_t generation = slot->state.load(std::memory_order_relaxed) >> kGenerationShift;
  slot->state.store((generation << kGenerationShift) | kLive, std::memory_order_release);
  const uint64_t value =
      (((generation << kIndexBits) | slot->index) << kTypeBits) | static_cast<uint64_t>(type_);
  return reinterpret_cast<void*>(static_cast<uintptr_t>(value));
}

// ----------------------------------------------------------------------------------------------- references

Reference::Reference(const Call& call, HandleType type, const void* handle, Access access) {
  const Decoded decoded = decode(type, handle);
  if (decoded.slot == nullptr || !add_reference(decoded.slot, decoded.generation))
    fail_handle(call, type, handle);
  slot_ = decoded.slot;
  try {
    if (slot_->type != type) fail_handle(call, type, handle);
    begin(call, type, access);
  } catch (...) {
    release(slot_);
    throw;
  }
}

void Reference::begin(const Call& call, HandleType type, Access access) {
  if (stays_with_process(type) && slot_->pid != ::getpid()) {
    fail(
        Code::kForked,
        "{}: this is {} of the parent process; its threads do not exist after fork, so create engines, comms "
        "and ops in the process that uses them",
        call.function(), type_name(static_cast<uint32_t>(type)));
  }
  if (access == Access::kAlways) return;
  uint32_t held = slot_->access.load(std::memory_order_acquire);
  do {
    if ((held & kWriter) != 0) {
      const bool mine = slot_->owner.load(std::memory_order_relaxed) == &t_thread;
      const Callback callback = mine ? slot_->callback.load(std::memory_order_relaxed) : Callback::kNone;
      if (access == Access::kShared && callback != Callback::kNone) return;
      if (access == Access::kNested && callback == Callback::kTrain) {
        outer_ = slot_->callback.exchange(Callback::kNone, std::memory_order_relaxed);
        hold_ = Hold::kNested;
        return;
      }
      fail(Code::kBusy, "{}: {}", call.function(),
           mine ? "a callback of a running call may not call this; do it after that call has returned"
                : "another call is using this handle; wait for it to return (one thread at a time)");
    }
  } while (!slot_->access.compare_exchange_weak(held, access == Access::kShared ? held + 1 : held | kWriter,
                                                std::memory_order_acq_rel));
  if (access == Access::kShared) {
    hold_ = Hold::kShared;
    return;
  }
  held |= kWriter;
  while (held != kWriter) {  // const calls still run; no new one can start
    if (slot_->pid != ::getpid()) {
      slot_->access.fetch_and(~kWriter, std::memory_order_release);
      fail(Code::kBusy,
           "{}: a thread of the parent process was using this handle when it forked; clone or parse a "
           "new one",
           call.function());
    }
    slot_->access.wait(held, std::memory_order_acquire);
    held = slot_->access.load(std::memory_order_acquire);
  }
  slot_->owner.store(&t_thread, std::memory_order_relaxed);
  hold_ = Hold::kExclusive;
}

Reference::~Reference() {
  switch (hold_) {
    case Hold::kNone:
      break;
    case Hold::kShared:
      if (slot_->access.fetch_sub(1, std::memory_order_acq_rel) == (kWriter | 1)) slot_->access.notify_all();
      break;
    case Hold::kExclusive:
      slot_->owner.store(nullptr, std::memory_order_relaxed);
      slot_->access.fetch_and(~kWriter, std::memory_order_release);
      break;
    case Hold::kNested:
      slot_->callback.store(outer_, std::memory_order_relaxed);
      break;
  }
  release(slot_);
}

Object* Reference::object() const { return slot_->object; }

CallbackScope::CallbackScope(Slot* slot, Callback kind)
    : slot_(slot), outer_(slot ? slot->callback.exchange(kind, std::memory_order_relaxed) : Callback::kNone) {
  ++t_callback_depth;
}

CallbackScope::~CallbackScope() {
  --t_callback_depth;
  if (slot_) slot_->callback.store(outer_, std::memory_order_relaxed);
}

// --------------------------------------------------------------------------------------- destroy and cancel

void destroy_handle(HandleType type, const void* handle) noexcept {
  const Decoded decoded = decode(type, handle);
  if (decoded.slot == nullptr) return;
  Slot* slot = decoded.slot;
  const bool defer = t_callback_depth > 0;
  uint64_t state = slot->state.load(std::memory_order_acquire);
  do {
    if (!names(state, decoded.generation) || (state & kClosing) != 0) return;
  } while (!slot->state.compare_exchange_weak(state, state | kClosing | (defer ? kDeferred : 0),
                                              std::memory_order_acq_rel));
  if ((state & kReferenceMask) == 0) {
    finish(slot);
    return;
  }
  if (slot->pid != ::getpid()) return;  // these calls belong to threads that this process does not have
  if (defer) {
    // The handle is gone, so the host program could not cancel this run any more.
    if (slot->owner.load(std::memory_order_relaxed) == &t_thread) slot->cancel.store(true);
    return;
  }
  while (slot->drained.load(std::memory_order_acquire) == 0) slot->drained.wait(0, std::memory_order_acquire);
  finish(slot);
}

Code cancel_handle(HandleType type, const void* handle) noexcept {
  const Decoded decoded = decode(type, handle);
  if (decoded.slot == nullptr) return Code::kBadHandle;
  Slot* slot = decoded.slot;
  Code code = Code::kBadHandle;
  slot->pins.fetch_add(1,
                       std::memory_order_seq_cst);  // the slot is not reused before the fetch_sub below
  if (names(slot->state.load(std::memory_order_seq_cst), decoded.generation)) {
    code = slot->pid != ::getpid() ? Code::kForked : Code::kOk;
    if (code == Code::kOk) slot->cancel.store(true, std::memory_order_release);
  }
  slot->pins.fetch_sub(1, std::memory_order_seq_cst);
  return code;
}

}  // namespace hawser::capi
