// The N-th allocation, file operation or thread creation of the process fails: this test program stands in
// front of the C library, so that whatever the library (and the C++ library below it) asks for goes through
// here. Live blocks and mapped pages are counted, because what a failed call has left behind is a leak.
#pragma once

namespace hawser::testing {

enum class Operation {
  kAllocation,  ///< malloc and its family (operator new with them), anonymous mmap
  kFile,        ///< open, read, write, fsync, rename, mkdir, stat, flock, listing, mmap of a file
  kThread       ///< pthread_create
};

/// How a file operation fails: errno, or kShort for half of what was asked of a read or a write. kShort and
/// EINTR count only the operations that they can happen to.
inline constexpr int kShort = -1;

/// Which operations fail.
enum class Extent {
  kOne,     ///< the nth and no other
  kAllFrom  ///< the nth and whatever comes after it, as where memory has run out
};

/// While one lives, the `nth` (from 1) operation on any thread fails.
class FailAt {
 public:
  FailAt(Operation operation, int error, long nth, Extent extent = Extent::kOne);
  ~FailAt();
  FailAt(const FailAt&) = delete;
  FailAt& operator=(const FailAt&) = delete;

  long seen() const;  ///< operations so far
  bool happened() const { return seen() >= nth_; }

 private:
  const long nth_;
};

/// Does nothing, just before an operation fails: a place for a breakpoint.
void now_it_fails();

/// What the process holds.
struct Held {
  long blocks = 0;  ///< of the heap
  long json = 0;    ///< of them nodes of JSON values (engine/base/json.h)
  long pages = 0;   ///< mmap without munmap
  long files = 0;   ///< open descriptors
  long threads = 0;
  bool operator==(const Held&) const = default;
};
Held held();

}  // namespace hawser::testing
