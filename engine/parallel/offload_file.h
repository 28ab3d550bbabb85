// OffloadFile: a rank's unnamed file for what leaves its arena. Copies in a step go through DiskStore; the
// host reads and writes state in it between steps. Bypasses the page cache if the file system allows it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/parallel/offload_store.h"
#include "engine/parallel/state_places.h"

namespace hawser::parallel {

class OffloadFile final : public OutsideMemory {
 public:
  /// Reserves `bytes` zeros in a new unnamed file of `folder`, which ends with this object or the process.
  /// Throws kIo or kPermission (folder, bytes, free bytes, reason); kIo also if the disk has less.
  OffloadFile(std::string folder, int64_t bytes);
  /// The same with second places of slots of state, which follow `bytes` (state_places.h): `begins` of the
  /// slots, and the `end` of the last.
  OffloadFile(std::string folder, int64_t bytes, std::vector<int64_t> begins, int64_t end);
  ~OffloadFile() override;
  OffloadFile(const OffloadFile&) = delete;
  OffloadFile& operator=(const OffloadFile&) = delete;

  /// A copy between memory and the file.
  struct Piece {
    char* memory;
    int64_t at, bytes;  ///< bytes of the file
  };
  /// Copies memory to the file (`writes`), or back. `memory` and `at` are multiples of kOffloadPage. `page`
  /// is one page of memory, for an incomplete page at the end; the whole page of the file is overwritten.
  /// Returns false on failure, with errno set. Thread-safe.
  bool copy(const Piece& piece, bool writes, char* page) noexcept;

  /// Both throw kIo (folder, offset, reason). Thread-safe for bytes of different pages.
  void read(int64_t at, void* to, int64_t bytes) override;
  void write(int64_t at, const void* from, int64_t bytes) override;
  bool has_snapshots() const override { return places_.are_two(); }
  void begin_snapshot() override { places_.begin_snapshot(); }
  void read_snapshot(int64_t at, void* to, int64_t bytes) override;
  void end_snapshot() override { places_.end_snapshot(); }

  /// The byte of the file for a copy of a whole slot, which begins at `at` in the plan.
  int64_t place_to_read(int64_t at) const { return places_.now(at); }
  int64_t place_to_write(int64_t at) { return places_.leave_snapshot(at), places_.now(at); }

  /// Throws kIo for `error` (errno) of a copy at byte `at`.
  [[noreturn]] void fail_copy(int error, bool writes, int64_t at) const;
  const std::string& folder() const { return folder_; }
  /// True if copies bypass the page cache.
  bool direct() const { return direct_; }

 private:
  void open(int64_t bytes);
  bool transfer(const Piece& piece, bool writes) noexcept;
  void read_place(int64_t at, void* to, int64_t bytes);
  void move(const StatePlaces::Move& move);

  std::string folder_;
  StatePlaces places_;
  int file_ = -1;
  bool direct_ = false;
};

}  // namespace hawser::parallel
