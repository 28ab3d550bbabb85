// File operations of the library that this test program can hold up or let fail. System calls are replaced at
// link time (--wrap), so that this covers whatever engine/checkpoint/file_io.cc does.
#pragma once

namespace hawser::testing {

/// While one lives, every fsync of another thread waits: a save cannot end before it goes.
class HeldDisk {
 public:
  HeldDisk();
  ~HeldDisk();
  HeldDisk(const HeldDisk&) = delete;
  HeldDisk& operator=(const HeldDisk&) = delete;
};

enum class Fault { kNone, kDiskFull, kReadOnly };

/// While one lives, writes fail as on a full disk, or anything that makes a file or folder as on a read-only
/// one.
class FaultyDisk {
 public:
  explicit FaultyDisk(Fault fault);
  ~FaultyDisk();
  FaultyDisk(const FaultyDisk&) = delete;
  FaultyDisk& operator=(const FaultyDisk&) = delete;
};

}  // namespace hawser::testing
