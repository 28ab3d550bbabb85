#include "engine/parallel/disk_store.h"

#include <errno.h>

#include <algorithm>
#include <system_error>
#include <utility>

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

}  // namespace

DiskStore::DiskStore(std::shared_ptr<OffloadFile> file, size_t most) : file_(std::move(file)) {
  for (Queue& queue : queues_) queue.copies.resize(most + 1);
  const SignalsBlocked blocked;
  try {
    for (int i = 0; i < 2 * kThreads; ++i) {
      threads_.emplace_back([this, i] { serve(&queues_[i % 2], i % 2 == 0); });
      name_thread(threads_.back(), "hws-offload", i);
    }
  } catch (const std::system_error&) {
    stop();
    fail(Code::kUnavailable, "no thread can be created to copy data to {}", file_->folder());
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
}

uint64_t DiskStore::start(Way way, char* memory, int64_t at, int64_t bytes) {
  uint64_t ticket = 0;
  {
    const std::lock_guard lock(mutex_);
    Queue& q = queue(way);
    HWS_CHECK(q.started + 1 - q.done < q.copies.size() || q.done == q.started);
    ticket = ++q.started;
    q.of(ticket) = {
        memory, way == Way::kIn ? file_->place_to_read(at) : file_->place_to_write(at), bytes, 0, bytes, {}};
  }
  work_.notify_all();
  return ticket;
}

void DiskStore::wait(Way way, uint64_t ticket) {
  std::unique_lock lock(mutex_);
  Queue& q = queue(way);
  done_.wait(lock, [&] { return q.done >= ticket; });
  if (const int error = std::exchange(error_, 0)) file_->fail_copy(error, failed_writing_, failed_at_);
}

OffloadStore::Span DiskStore::span(Way way, uint64_t ticket) const {
  const std::lock_guard lock(mutex_);
  return queue(way).of(ticket).span;
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
    const OffloadFile::Piece piece{copying.memory + copying.taken, copying.at + copying.taken,
                                   std::min(kPiece, copying.bytes - copying.taken)};
    copying.taken += piece.bytes;
    if (copying.taken == copying.bytes) ++q->next;
    lock.unlock();
    const bool copied = file_->copy(piece, writes, page);
    const int error = copied ? 0 : errno;
    lock.lock();
    if (!copied && error_ == 0)
      error_ = error != 0 ? error : EIO, failed_writing_ = writes, failed_at_ = piece.at;
    copying.left -= piece.bytes;
    if (copying.left > 0) continue;
    const double now = steady_seconds();
    while (q->done < q->started && q->of(q->done + 1).left == 0) q->of(++q->done).span.end = now;
    done_.notify_all();
  }
}

}  // namespace hawser::parallel
