#include "engine/parallel/offload_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <system_error>
#include <utility>

#include "engine/base/descriptor.h"
#include "engine/base/error.h"
#include "engine/base/file_size_signal.h"

namespace hawser::parallel {
namespace {

/// Bytes that the host reads or writes at a time.
constexpr int64_t kBuffer = 1 << 20;

/// Repeats a call that a signal has interrupted.
template <typename Call>
int retry(Call call) {
  int result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

/// Opens a file without a name; on file systems that do not support that, removes its name at once.
int open_unnamed(const std::string& folder, int flags) {
  int file = retry([&] { return ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC | flags, 0600); });
  if (file >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT)) return beyond_standard(file);
  std::string name;
  file = retry([&] {
    name = folder + "/hawser-offload-XXXXXX";
    return mkostemp(name.data(), O_CLOEXEC | flags);
  });
  if (file >= 0 && unlink(name.c_str()) != 0) {
    const int error = errno;
    close(std::exchange(file, -1));
    errno = error;
  }
  return beyond_standard(file);
}

/// Returns 0 or the reason (errno). If the file system cannot reserve bytes, enough bytes must be free.
int reserve(int file, int64_t bytes) {
  if (retry([&] { return fallocate(file, 0, 0, bytes); }) == 0) return 0;
  if (errno != EOPNOTSUPP) return errno;
  struct statvfs disk {};
  if (retry([&] { return fstatvfs(file, &disk); }) != 0) return errno;
  if (disk.f_bavail * disk.f_frsize < static_cast<uint64_t>(bytes)) return ENOSPC;
  return retry([&] { return ftruncate(file, bytes); }) == 0 ? 0 : errno;
}

/// Returns " (N bytes are free)", or "" if the file system does not report them.
std::string free_bytes(const std::string& folder) {
  struct statvfs disk {};
  if (statvfs(folder.c_str(), &disk) != 0) return "";
  return fmt::format(" ({} bytes are free)", disk.f_bavail * disk.f_frsize);
}

/// Returns what to do about a file that could not be created.
const char* advice(int error) {
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return "; create the folder, or name another";
    case EACCES:
    case EPERM:
    case EROFS:
      return "; name a folder that this user can write to";
    case ENOSPC:
    case EDQUOT:
      return "; name a folder on a disk with more space, or offload less";
    case EFBIG:
      return "; raise the limit on the size of files (ulimit -f), or name a folder on another file system";
    default:
      return "; name a folder on another disk";
  }
}

struct Free {
  void operator()(char* memory) const { free(memory); }
};
std::unique_ptr<char, Free> make_buffer(int64_t bytes) {
  std::unique_ptr<char, Free> buffer(
      static_cast<char*>(aligned_alloc(static_cast<size_t>(kOffloadPage), static_cast<size_t>(bytes))));
  if (!buffer) throw Error::out_of_memory();
  return buffer;
}

int64_t page_of(int64_t at) { return at / kOffloadPage * kOffloadPage; }
int64_t page_after(int64_t at) { return page_of(at + kOffloadPage - 1); }

/// Divides bytes [at, at + bytes) into ranges of whole pages that fit the buffer, and calls fn(first page,
/// end of the last page, first byte, end of the bytes) for each.
template <typename Fn>
void each_range(int64_t at, int64_t bytes, Fn fn) {
  for (const int64_t end = at + bytes; at < end;) {
    const int64_t first = page_of(at), next = std::min(end, first + kBuffer);
    fn(first, page_after(next), at, next);
    at = next;
  }
}

}  // namespace

OffloadFile::OffloadFile(std::string folder, int64_t bytes) : folder_(std::move(folder)) { open(bytes); }

OffloadFile::OffloadFile(std::string folder, int64_t bytes, std::vector<int64_t> begins, int64_t end)
    : folder_(std::move(folder)), places_(std::move(begins), end, bytes) {
  open(bytes + end);
}

OffloadFile::~OffloadFile() {
  if (file_ >= 0) close(file_);
}

void OffloadFile::open(int64_t bytes) {
  const FileSizeSignalBlocked blocked;
  file_ = open_unnamed(folder_, O_DIRECT);
  direct_ = file_ >= 0;
  if (!direct_ && errno == EINVAL) file_ = open_unnamed(folder_, 0);
  int error = file_ < 0 ? errno : 0;
  if (file_ >= 0 && bytes > 0) error = reserve(file_, bytes);
  if (error == 0) return;
  if (file_ >= 0) close(std::exchange(file_, -1));
  const Code code = error == EACCES || error == EPERM || error == EROFS ? Code::kPermission : Code::kIo;
  fail(code, "/offload/folder \"{}\": cannot create a file of {} bytes there{}: {}{}", folder_, bytes,
       free_bytes(folder_), std::generic_category().message(error), advice(error));
}

void OffloadFile::fail_copy(int error, bool writes, int64_t at) const {
  fail(Code::kIo, "/offload/folder \"{}\": cannot {} the offloaded data at byte {}: {}", folder_,
       writes ? "write" : "read", at, std::generic_category().message(error));
}

bool OffloadFile::copy(const Piece& piece, bool writes, char* page) noexcept {
  const int64_t tail = direct_ ? piece.bytes % kOffloadPage : 0, whole = piece.bytes - tail;
  if (!transfer({piece.memory, piece.at, whole}, writes)) return false;
  if (tail == 0) return true;
  const Piece last{page, piece.at + whole, kOffloadPage};
  if (writes) memcpy(page, piece.memory + whole, static_cast<size_t>(tail));
  if (!transfer(last, writes)) return false;
  if (!writes) memcpy(piece.memory + whole, page, static_cast<size_t>(tail));
  return true;
}

bool OffloadFile::transfer(const Piece& piece, bool writes) noexcept {
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

void OffloadFile::read(int64_t at, void* to, int64_t bytes) { read_place(places_.now(at), to, bytes); }

void OffloadFile::read_snapshot(int64_t at, void* to, int64_t bytes) {
  read_place(places_.in_snapshot(at), to, bytes);
}

void OffloadFile::read_place(int64_t at, void* to, int64_t bytes) {
  const auto buffer = make_buffer(kBuffer + kOffloadPage);
  each_range(at, bytes, [&](int64_t first, int64_t end, int64_t from, int64_t until) {
    if (!transfer({buffer.get(), first, end - first}, false)) fail_copy(errno, false, first);
    memcpy(static_cast<char*>(to) + (from - at), buffer.get() + (from - first),
           static_cast<size_t>(until - from));
  });
}

void OffloadFile::move(const StatePlaces::Move& move) {
  const auto buffer = make_buffer(kBuffer);
  for (int64_t done = 0; done < move.bytes; done += kBuffer) {
    const int64_t bytes = std::min(kBuffer, move.bytes - done);
    if (!transfer({buffer.get(), move.from + done, bytes}, false)) fail_copy(errno, false, move.from + done);
    if (!transfer({buffer.get(), move.to + done, bytes}, true)) fail_copy(errno, true, move.to + done);
  }
}

/// Of a page that is not written whole, the other bytes are read first.
void OffloadFile::write(int64_t at, const void* from, int64_t bytes) {
  const FileSizeSignalBlocked blocked;
  if (const auto moved = places_.leave_snapshot(at)) move(*moved);
  at = places_.now(at);
  const auto buffer = make_buffer(kBuffer + kOffloadPage);
  each_range(at, bytes, [&](int64_t first, int64_t end, int64_t begin, int64_t until) {
    const auto fetch = [&](int64_t page) {
      if (!transfer({buffer.get() + (page - first), page, kOffloadPage}, false))
        fail_copy(errno, false, page);
    };
    if (begin != first) fetch(first);
    if (until != end && (begin == first || end - kOffloadPage != first)) fetch(end - kOffloadPage);
    memcpy(buffer.get() + (begin - first), static_cast<const char*>(from) + (begin - at),
           static_cast<size_t>(until - begin));
    if (!transfer({buffer.get(), first, end - first}, true)) fail_copy(errno, true, first);
  });
}

}  // namespace hawser::parallel
