// The handle table: every object that a host holds lives in a slot of one process-wide table, and a handle is
// a number that names slot, generation and type. It is never dereferenced, so a NULL, destroyed, foreign or
// invented handle gets a status instead of a crash.
//
//  - A running call holds a reference to its slot; destroy waits for running calls. Inside a host callback it
//    does not wait (that might be for itself): the last call to end frees the object.
//  - `const` calls share an object. A non-const call waits for the const ones that run and then has it for
//    itself; any other call gets kBusy meanwhile. The thread of a non-const call that is inside a host
//    callback may make const calls, and from train and metrics callbacks those non-const ones that are marked
//    kNested.
//  - Lookups, creation and destruction take no lock, so that a fork at any moment leaves a table that works.
//  - Slots are never given back to the system: a stale handle always finds a slot to be checked against.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "capi/src/arguments.h"

namespace hawser::capi {

enum class HandleType : uint32_t {
  kError = 1,
  kBuffer = 2,
  kConfig = 3,
  kPlan = 4,
  kEngine = 5,
  kComm = 6,
  kOp = 7,
  kTokenizer = 8
};

/// What a slot holds. Freed on whichever thread ends the last call after its destroy.
class Object {
 public:
  virtual ~Object() = default;
};

struct Slot;

/// How a call uses the object.
enum class Access {
  kAlways,     ///< thread-safe inside: beside anything
  kShared,     ///< const: beside other const calls
  kExclusive,  ///< alone
  kNested,     ///< alone, but also inside a train or metrics callback of that object's running call
};

/// What a running host callback may call.
enum class Callback : uint8_t {
  kNone,       ///< no callback is running
  kConstOnly,  ///< token callback: const calls
  kTrain,      ///< train or metrics callback: const and kNested calls
};

/// A slot taken for an object that is still to be made, so that a full table fails before work is done. Given
/// back by the destructor unless published.
class Reservation {
 public:
  /// Throws kOutOfMemory if kMaxHandles handles are alive; but for errors, if kErrorHandles fewer are.
  explicit Reservation(HandleType type);
  ~Reservation();
  Reservation(const Reservation&) = delete;
  Reservation& operator=(const Reservation&) = delete;

  Slot* slot() const { return slot_; }
  /// The flag that hws_engine_cancel sets; false now. Lives as long as the process.
  std::atomic<bool>* cancel() const;
  /// Hands the object to the table; the result is the handle.
  void* publish(std::unique_ptr<Object> object) noexcept;

 private:
  HandleType type_;
  Slot* slot_;
};

/// A running call's hold on an object.
class Reference {
 public:
  /// Throws kBadHandle, kBusy, or kForked for an engine, a comm or an op of the parent process.
  Reference(const Call& call, HandleType type, const void* handle, Access access);
  ~Reference();
  Reference(const Reference&) = delete;
  Reference& operator=(const Reference&) = delete;
  Object* object() const;
  Slot* slot() const { return slot_; }

 private:
  void begin(const Call& call, HandleType type, Access access);

  enum class Hold { kNone, kShared, kExclusive, kNested };
  Slot* slot_ = nullptr;
  Hold hold_ = Hold::kNone;
  Callback outer_ = Callback::kNone;  ///< kNested: the callback this call runs in
};

/// Reference with the object's type: `const Use<Engine> engine(call, handle, Access::kShared)`.
template <typename T>
class Use : public Reference {
 public:
  Use(const Call& call, const void* handle, Access access) : Reference(call, T::kType, handle, access) {}
  T* operator->() const { return static_cast<T*>(object()); }
  T& operator*() const { return *static_cast<T*>(object()); }
};

/// Wraps an object and gives its handle.
template <typename Handle, typename T>
void publish(std::unique_ptr<T> object, Handle** out) {
  Reservation reservation(T::kType);
  *out = static_cast<Handle*>(reservation.publish(std::move(object)));
}

/// Marks the time that the host's code runs inside a call. `slot` is that of the call's exclusive object;
/// null where the code runs on a thread of the library and may call nothing back.
class CallbackScope {
 public:
  CallbackScope(Slot* slot, Callback kind);
  ~CallbackScope();
  CallbackScope(const CallbackScope&) = delete;
  CallbackScope& operator=(const CallbackScope&) = delete;

 private:
  Slot* slot_;
  Callback outer_;
};

/// Ends a handle. Nothing happens for NULL or a handle that is none of this type. In a forked child the
/// engines and comms of the parent are only forgotten: their threads are not there to be joined.
void destroy_handle(HandleType type, const void* handle) noexcept;

/// Sets the cancel flag of a live handle: an atomic store and a few loads, no lock, no allocation, errno and
/// the thread's last error untouched, so that it may run in a signal handler. Returns kOk, kBadHandle or
/// kForked.
Code cancel_handle(HandleType type, const void* handle) noexcept;

inline constexpr uint32_t kMaxHandles = 65536;
/// So many of them are reserved for errors: when no other handle is left, the host can still be told.
inline constexpr uint32_t kErrorHandles = 256;

}  // namespace hawser::capi
