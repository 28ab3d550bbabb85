// The handle table: every object that a host program holds lives in a slot of one process-wide table, and a
// handle is a number that encodes slot, generation and type. It is never dereferenced, so a NULL, destroyed,
// foreign or invented handle gets a status instead of a crash.
//
//  - A running call holds a reference to its slot; destroy waits for running calls. Inside a callback it does
//    not wait, because it might wait for itself: the last call to end frees the object.
//  - `const` calls share an object. A non-const call waits for the const calls that run and then has the
//    object to itself; any other call gets kBusy meanwhile. While a non-const call is inside a callback, its
//    thread may make const calls, and in train and metrics callbacks also the non-const calls that are marked
//    kNested.
//  - Lookups, creation and destruction take no lock, so the table still works after a fork at any moment.
//  - Slots are never returned to the system, so that a stale handle can always be checked against its slot.
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

/// The object of a slot. The thread that ends the last call after its destroy frees it.
class Object {
 public:
  virtual ~Object() = default;
};

struct Slot;

/// How a call shares the object with other calls.
enum class Access {
  kAlways,     ///< thread-safe: together with any other call
  kShared,     ///< const: together with other const calls
  kExclusive,  ///< no other call at the same time
  /// Like kExclusive, but also inside a train or metrics callback of that object's running call.
  kNested,
};

/// Which functions a running callback may call.
enum class Callback : uint8_t {
  kNone,       ///< no callback is running
  kConstOnly,  ///< token callback: const calls
  kTrain,      ///< train or metrics callback: const and kNested calls
};

/// A slot taken for an object that is still to be created, so that a full table fails before any work is
/// done. The destructor returns the slot unless it was published.
class Reservation {
 public:
  /// Throws kOutOfMemory if kMaxHandles handles exist; for types other than errors, if kErrorHandles fewer
  /// do.
  explicit Reservation(HandleType type);
  ~Reservation();
  Reservation(const Reservation&) = delete;
  Reservation& operator=(const Reservation&) = delete;

  Slot* slot() const { return slot_; }
  /// The flag that hws_engine_cancel sets, initially false. It lives as long as the process.
  std::atomic<bool>* cancel() const;
  /// Gives the object to the table and returns its handle.
  void* publish(std::unique_ptr<Object> object) noexcept;

 private:
  HandleType type_;
  Slot* slot_;
};

/// A running call's reference to an object.
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
  Callback outer_ = Callback::kNone;  ///< kNested: the callback that this call runs in
};

/// A Reference with the type of the object: `const Use<Engine> engine(call, handle, Access::kShared)`.
template <typename T>
class Use : public Reference {
 public:
  Use(const Call& call, const void* handle, Access access) : Reference(call, T::kType, handle, access) {}
  T* operator->() const { return static_cast<T*>(object()); }
  T& operator*() const { return *static_cast<T*>(object()); }
};

/// Puts an object into the table and stores its handle in *out.
template <typename Handle, typename T>
void publish(std::unique_ptr<T> object, Handle** out) {
  Reservation reservation(T::kType);
  *out = static_cast<Handle*>(reservation.publish(std::move(object)));
}

/// Marks the time in which a call runs code of the host program. `slot` belongs to the call's exclusive
/// object; it is null if that code runs on a thread of the library and may not call the library.
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

/// Destroys a handle. Does nothing for NULL, or for a number that is not a handle of this type. In a forked
/// child, engines, comms and ops of the parent are only forgotten, because the child does not have their
/// threads.
void destroy_handle(HandleType type, const void* handle) noexcept;

/// Sets the cancel flag of a live handle. It may run in a signal handler: it is an atomic store and a few
/// loads, takes no lock, allocates nothing and changes neither errno nor the thread's last error. Returns
/// kOk, kBadHandle or kForked.
Code cancel_handle(HandleType type, const void* handle) noexcept;

inline constexpr uint32_t kMaxHandles = 65536;
/// Number of handles that are reserved for errors: if no other handle is left, the host program can still get
/// the error.
inline constexpr uint32_t kErrorHandles = 256;

}  // namespace hawser::capi
