// File faults: replacements of system calls with which a test delays the library's file operations or makes
// them fail. They are linked in with --wrap, so they cover everything that engine/checkpoint/file_io.cc does.
#pragma once

namespace hawser::testing {

/// While an instance exists, every fsync of another thread waits, so no save can end before the instance is
/// destroyed.
class HeldDisk {
 public:
  HeldDisk();
  ~HeldDisk();
  HeldDisk(const HeldDisk&) = delete;
  HeldDisk& operator=(const HeldDisk&) = delete;
};

enum class Fault { kNone, kDiskFull, kReadOnly };

/// While an instance exists, writes fail as on a full disk, or the creation of files and folders fails as on
/// a read-only disk.
class FaultyDisk {
 public:
  explicit FaultyDisk(Fault fault);
  ~FaultyDisk();
  FaultyDisk(const FaultyDisk&) = delete;
  FaultyDisk& operator=(const FaultyDisk&) = delete;
};

}  // namespace hawser::testing
