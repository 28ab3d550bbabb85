// Failing calls: make the N-th allocation, file operation or thread creation of the process fail. The test
// program's definitions precede those of the C library, so that every such call of the library (and of the
// C++ library below it) goes through them. Live blocks and mapped pages are counted, because anything left
// behind by a failed call is a leak.
#pragma once

namespace hawser::testing {

enum class Operation {
  kAllocation,   ///< malloc and its family (operator new with them), anonymous mmap
  kFile,         ///< open, read, write, fsync, rename, mkdir, stat, flock, listing, mmap of a file
  kUnnamedFile,  ///< of a file without a name: open, reservation of its bytes, pread, pwrite
  kThread        ///< pthread_create
};

/// Failure of a file operation: an errno, or kShort for half of the bytes requested from a read or a write.
/// kShort and EINTR count only the operations that can fail in this way. A file that bypasses the page cache
/// transfers whole pages.
inline constexpr int kShort = -1;

/// The operations that fail.
enum class Extent {
  kOne,  ///< only the nth
  /// The nth and all later ones, as if memory had run out. Later transfers of an unnamed file take some
  /// milliseconds to fail, so a caller that does not wait for them after the first failure meets them later.
  kAllFrom
};

/// While an object lives, the `nth` (from 1) operation on any thread fails.
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

/// While an object lives, files cannot be opened past the page cache.
class NoDirectAccess {
 public:
  NoDirectAccess();
  ~NoDirectAccess();
  NoDirectAccess(const NoDirectAccess&) = delete;
  NoDirectAccess& operator=(const NoDirectAccess&) = delete;
};

/// Does nothing. It is called just before an operation fails, as a place for a breakpoint.
void now_it_fails();

/// Resources that the process holds.
struct Held {
  long blocks = 0;  ///< blocks of the heap
  long json = 0;    ///< blocks that are nodes of JSON values (engine/base/json.h)
  long pages = 0;   ///< pages mapped and not unmapped
  long files = 0;   ///< open descriptors
  long threads = 0;
  bool operator==(const Held&) const = default;
};
Held held();

/// Returns the number of threads once it has stayed the same for 50 ms: a thread that has been joined is
/// listed until the system has removed it.
long idle_threads();

/// Returns what the process holds once it has `idle` threads or fewer; waits at most two seconds.
Held held_when_idle(long idle);

}  // namespace hawser::testing
