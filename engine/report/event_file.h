// EventFile: a file that TensorBoard reads. It is a sequence of TFRecords, each one an Event protobuf: the
// version of the format, the start of a session, or scalars of a step.
//
// Format: a TFRecord is the length of its data (u64), the masked CRC32C of the length, the data, and their
// masked CRC32C, all little-endian. Events are encoded here, by fields, because a protobuf library would be
// larger than the core. The files are read back by tests/report/read_events.py.
//
// Only the first record of a kind may allocate memory. Each record is one write, so readers see each step at
// once.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "engine/checkpoint/file_io.h"

namespace hawser::train {

struct Scalar {
  std::string_view tag;  ///< at most 100 bytes, such as "train/loss"
  double value = 0;
};

class EventFile {
 public:
  /// Creates a file in the folder, which is created too if necessary. Its name sorts behind those of earlier
  /// files. Throws like checkpoint::Folder; no file is left then.
  static EventFile create(const std::string& folder);

  /// Records that the run continues at `step`. Readers discard earlier records of this step and later ones,
  /// also those of earlier files in the folder. Throws like checkpoint::File::write; the file is then
  /// unusable.
  void start(int64_t step);
  /// Writes scalars of a step, with the time of day. Throws like start.
  void add(int64_t step, std::span<const Scalar> scalars);

 private:
  explicit EventFile(checkpoint::File file);
  void begin_event(int64_t step);
  void write_event();

  checkpoint::File file_;
  std::string record_;   // the header's place and the event
  std::string summary_;  // the scalars of an event
};

/// The CRC of TFRecords: CRC-32C (Castagnoli), rotated and shifted by a constant.
uint32_t masked_crc32c(std::string_view data);

}  // namespace hawser::train
