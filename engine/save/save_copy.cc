#include "engine/save/save_copy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "engine/base/error.h"

namespace hawser::train {
namespace {

constexpr int64_t kTaskBytes = int64_t{4} << 20;
constexpr int64_t kPage = 4096;

/// A loop over tasks of kTaskBytes.
void run(Stream& stream, int64_t bytes, TaskFn fn, void* arg) {
  stream.run(&stream, (bytes + kTaskBytes - 1) / kTaskBytes, fn, arg);
}

void touch_task(void* arg, int64_t task, int32_t) {
  const device::Arena& memory = *static_cast<const device::Arena*>(arg);
  const int64_t end = std::min((task + 1) * kTaskBytes, memory.bytes());
  for (int64_t at = task * kTaskBytes; at < end; at += kPage)
    *const_cast<volatile char*>(memory.data() + at) = 0;
}

struct Copy {
  char* to;
  const char* from;
  int64_t bytes;
};

void copy_task(void* arg, int64_t task, int32_t) {
  const Copy& copy = *static_cast<const Copy*>(arg);
  const int64_t begin = task * kTaskBytes;
  std::memcpy(copy.to + begin, copy.from + begin,
              static_cast<size_t>(std::min(kTaskBytes, copy.bytes - begin)));
}

}  // namespace

void SaveCopy::lay_out(std::vector<checkpoint::PieceView> pieces, bool in_place) {
  int64_t bytes = 0;
  for (const checkpoint::PieceView& piece : pieces) bytes += piece.lasting ? 0 : piece.bytes();
  if (!memory_ || memory_->bytes() < bytes) {
    const int64_t available = device::available_memory();
    if (bytes > available)
      fail(Code::kOutOfMemory,
           "out of memory: this save copies a rank's state into {} bytes of host memory, {} are available; "
           "free some{}",
           bytes, available,
           in_place ? ", or save without /checkpoint/async (hws_checkpoint_save makes no copy)" : "");
    memory_ = device::Arena::create(bytes);
  }
  std::vector<checkpoint::PieceView> copies = pieces;
  char* at = memory_->data();
  for (checkpoint::PieceView& copy : copies) {
    if (copy.lasting) continue;
    copy.data = at, copy.read = {};
    at += copy.bytes();
  }
  copies_.swap(copies);
  sources_.swap(pieces);
  bytes_ = bytes;
}

void SaveCopy::touch(Stream& stream) {
  if (memory_) run(stream, memory_->bytes(), touch_task, memory_.get());
}

void SaveCopy::copy(const device::HostLink& link, Stream& stream) {
  for (size_t i = 0; i < copies_.size(); ++i) {
    const checkpoint::PieceView& source = sources_[i];
    if (source.lasting) continue;
    Copy copy{static_cast<char*>(const_cast<void*>(copies_[i].data)), static_cast<const char*>(source.data),
              source.bytes()};
    if (source.read)
      source.read(0, copy.to, copy.bytes);
    else if (!link.in_place())
      link.read(copy.to, copy.from, copy.bytes);
    else
      run(stream, copy.bytes, copy_task, &copy);
  }
}

}  // namespace hawser::train
