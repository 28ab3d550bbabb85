#include "engine/parallel/disk_store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <system_error>

#include "engine/base/descriptor.h"
#include "engine/base/error.h"
#include "engine/base/signals_blocked.h"
#include "engine/base/steady_clock.h"
#include "engine/base/thread_name.h"

namespace hawser::parallel {
namespace {

/// Bytes that a thread copies at a time.
constexpr int64_t kPiece = 1 << 20;
/// Threads for each direction. A single thread would leave the disk idle between two pieces.
constexpr int kThreads = 2;

/// Opens a file without a name; on file systems that do not support that, removes its name at once.
int open_unnamed(const std::string& folder, int flags) {
  int file = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC | flags, 0600);
  if (file >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT)) return beyond_standard(file);
  std::string name = folder + "/hawser-offload-XXXXXX";
  file = mkostemp(name.data(), O_CLOEXEC | flags);
  if (file >= 0) unlink(name.c_str());
  return beyond_standard(file);
}

/// Returns 0 or the reason (errno). If the file system cannot reserve bytes, enough bytes must be free.
int reserve(int file, int64_t bytes) {
  if (fallocate(file, 0, 0, bytes) == 0) return 0;
  if (errno != EOPNOTSUPP) return errno;
  struct statvfs disk {};
  if (fstatvfs(file, &disk) != 0) return errno;
  if (disk.f_bavail * disk.f_frsize < static_cast<uint64_t>(bytes)) return ENOSPC;
  return ftruncate(file, bytes) == 0 ? 0 : errno;
}

}  // namespace

DiskStore::DiskStore(const std::string& folder, int64_t bytes, size_t most) : folder_(folder) {
  for (Queue& queue : queues_) queue.copies.resize(most + 1);
  open(folder, bytes);
  const SignalsBlocked blocked;
  try {
    for (int i = 0; i < 2 * kThreads; ++i) {
      threads_.emplace_back([this, i] { serve(&queues_[i % 2], i % 2 == 0); });
      name_thread(threads_.back(), "hws-offload", i);
    }
  } catch (const std::system_error&) {
    stop();
    fail(Code::kUnavailable, "no thread can be created to copy activations to {}", folder);
  } catch (...) {
    stop();
    throw;
  }
}

DiskStore::~DiskStore() { stop(); }

void DiskStore::stop() noexcept {
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
  }
  work_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  if (file_ >= 0) close(file_);
}

void DiskStore::open(const std::string& folder, int64_t bytes) {
  file_ = open_unnamed(folder, O_DIRECT);
  direct_ = file_ >= 0;
  if (!direct_ && errno == EINVAL) file_ = open_unnamed(folder, 0);
  int error = file_ < 0 ? errno : 0;
  if (file_ >= 0 && bytes > 0) error = reserve(file_, bytes);
  if (error == 0) return;
  if (file_ >= 0) close(file_);
  const Code code = error == EACCES || error == EPERM || error == EROFS ? Code::kPermission : Code::kIo;
  fail(code, "/offload/folder \"{}\": cannot keep a file of {} bytes for activations there: {}", folder,
       bytes, std::generic_category().message(error));
}

uint64_t DiskStore::start(plan::Lane lane, char* memory, int64_t at, int64_t bytes) {
  uint64_t ticket = 0;
  {
    const std::lock_guard lock(mutex_);
    Queue& q = queue(lane);
    HWS_CHECK(q.started + 1 - q.done < q.copies.size() || q.done == q.started);
    ticket = ++q.started;
    q.of(ticket) = {memory, at, bytes, 0, bytes, {}};
  }
  work_.notify_all();
  return ticket;
}

void DiskStore::wait(plan::Lane lane, uint64_t ticket) {
  std::unique_lock lock(mutex_);
  Queue& q = queue(lane);
  done_.wait(lock, [&] { return q.done >= ticket; });
  if (error_ != 0)
    fail(Code::kIo, "/offload/folder \"{}\": cannot {} activations: {}", folder_,
         failed_writing_ ? "write" : "read", std::generic_category().message(error_));
}

OffloadStore::Span DiskStore::span(plan::Lane lane, uint64_t ticket) const {
  const std::lock_guard lock(mutex_);
  return queue(lane).of(ticket).span;
}

/// The loop of a thread: copies pieces of the oldest copy that has pieces left.
void DiskStore::serve(Queue* q, bool writes) noexcept {
  alignas(kOffloadPage) static thread_local char page[kOffloadPage];
  std::unique_lock lock(mutex_);
  while (true) {
    work_.wait(lock, [&] { return stops_ || q->next <= q->started; });
    if (stops_) return;
    const uint64_t ticket = q->next;
    Copy& copying = q->of(ticket);
    if (copying.taken == 0) copying.span.begin = steady_seconds();
    const Piece piece{copying.memory + copying.taken, copying.at + copying.taken,
                      std::min(kPiece, copying.bytes - copying.taken)};
    copying.taken += piece.bytes;
    if (copying.taken == copying.bytes) ++q->next;
    lock.unlock();
    const bool copied = copy(piece, writes, page);
    const int error = copied ? 0 : errno;
    lock.lock();
    if (!copied && error_ == 0) error_ = error != 0 ? error : EIO, failed_writing_ = writes;
    copying.left -= piece.bytes;
    if (copying.left > 0) continue;
    const double now = steady_seconds();
    while (q->done < q->started && q->of(q->done + 1).left == 0) q->of(++q->done).span.end = now;
    done_.notify_all();
  }
}

/// Copies a piece; an incomplete page at its end is copied through `page`.
bool DiskStore::copy(const Piece& piece, bool writes, char* page) noexcept {
  const int64_t tail = direct_ ? piece.bytes % kOffloadPage : 0, whole = piece.bytes - tail;
  if (!transfer({piece.memory, piece.at, whole}, writes)) return false;
  if (tail == 0) return true;
  const Piece last{page, piece.at + whole, kOffloadPage};
  if (writes) memcpy(page, piece.memory + whole, static_cast<size_t>(tail));
  if (!transfer(last, writes)) return false;
  if (!writes) memcpy(piece.memory + whole, page, static_cast<size_t>(tail));
  return true;
}

bool DiskStore::transfer(const Piece& piece, bool writes) noexcept {
  for (int64_t at = 0; at < piece.bytes;) {
    const auto bytes = static_cast<size_t>(piece.bytes - at);
    const int64_t copied = writes ? pwrite(file_, piece.memory + at, bytes, piece.at + at)
                                  : pread(file_, piece.memory + at, bytes, piece.at + at);
    if (copied < 0 && errno == EINTR) continue;
    if (copied <= 0) {
      if (copied == 0) errno = EIO;
      return false;
    }
    at += copied;
  }
  return true;
}

}  // namespace hawser::parallel
