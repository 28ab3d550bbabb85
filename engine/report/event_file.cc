#include "engine/report/event_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <chrono>
#include <utility>

namespace hawser::train {
namespace {

constexpr size_t kHeaderBytes = 12;  // length and its CRC

// The first byte of a field combines its number with the encoding of its value.
enum class Wire { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };
constexpr char key(int field, Wire wire) { return static_cast<char>(field << 3 | static_cast<int>(wire)); }

// Fields of tensorflow.Event, .SessionLog, .Summary and .Summary.Value.
constexpr char kWallTime = key(1, Wire::kFixed64), kStep = key(2, Wire::kVarint),
               kFileVersion = key(3, Wire::kBytes), kSummary = key(5, Wire::kBytes),
               kSessionLog = key(7, Wire::kBytes);
constexpr char kStatus = key(1, Wire::kVarint), kStatusStart = 1;
constexpr char kValue = key(1, Wire::kBytes);
constexpr char kTag = key(1, Wire::kBytes), kSimpleValue = key(2, Wire::kFixed32);

template <typename Number>
void append_fixed(Number value, std::string* to) {
  for (size_t i = 0; i < sizeof value; ++i) to->push_back(static_cast<char>(value >> (8 * i) & 0xff));
}

void append_varint(uint64_t value, std::string* to) {
  for (; value >= 0x80; value >>= 7) to->push_back(static_cast<char>(value | 0x80));
  to->push_back(static_cast<char>(value));
}

void append_bytes(char field, std::string_view bytes, std::string* to) {
  to->push_back(field);
  append_varint(bytes.size(), to);
  to->append(bytes);
}

void append_value(const Scalar& scalar, std::string* to) {
  const size_t tag_bytes =
      2 + scalar.tag.size();  // 2: the key, and a length of one byte, because it is below 128
  to->push_back(kValue);
  append_varint(tag_bytes + 1 + sizeof(float), to);
  append_bytes(kTag, scalar.tag, to);
  to->push_back(kSimpleValue);
  append_fixed(std::bit_cast<uint32_t>(static_cast<float>(scalar.value)), to);
}

constexpr std::array<uint32_t, 256> make_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
    table[i] = crc;
  }
  return table;
}

/// Microseconds since 1970.
int64_t time_of_day() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::microseconds>(now).count();
}

}  // namespace

uint32_t masked_crc32c(std::string_view data) {
  static constexpr std::array<uint32_t, 256> kTable = make_table();
  uint32_t crc = ~0u;
  for (const char c : data) crc = crc >> 8 ^ kTable[(crc ^ static_cast<uint8_t>(c)) & 0xff];
  return std::rotr(~crc, 15) + 0xa282ead8u;
}

EventFile::EventFile(checkpoint::File file) : file_(std::move(file)) {
  record_.reserve(4096);
  summary_.reserve(4096);
}

EventFile EventFile::create(const std::string& path) {
  checkpoint::make_folders(path);
  const checkpoint::Folder folder = checkpoint::Folder::open(path);
  const int64_t now = time_of_day();
  const std::string name =
      fmt::format("events.out.tfevents.{:010}.{:06}.{}", now / 1000000, now % 1000000, getpid());
  EventFile events(folder.create_file(name));
  try {
    events.begin_event(0);
    append_bytes(kFileVersion, "brain.Event:2", &events.record_);
    events.write_event();
  } catch (...) {
    static_cast<void>(folder.remove_tree(name));
    throw;
  }
  return events;
}

void EventFile::start(int64_t step) {
  constexpr char kStart[] = {kStatus, kStatusStart};
  begin_event(step);
  append_bytes(kSessionLog, {kStart, sizeof kStart}, &record_);
  write_event();
}

void EventFile::add(int64_t step, std::span<const Scalar> scalars) {
  summary_.clear();
  for (const Scalar& scalar : scalars) append_value(scalar, &summary_);
  begin_event(step);
  append_bytes(kSummary, summary_, &record_);
  write_event();
}

void EventFile::begin_event(int64_t step) {
  record_.assign(kHeaderBytes, '\0');
  record_.push_back(kWallTime);
  append_fixed(std::bit_cast<uint64_t>(static_cast<double>(time_of_day()) / 1e6), &record_);
  record_.push_back(kStep);
  append_varint(static_cast<uint64_t>(step), &record_);
}

void EventFile::write_event() {
  const uint32_t data_crc = masked_crc32c(std::string_view(record_).substr(kHeaderBytes));
  const uint64_t bytes = record_.size() - kHeaderBytes;
  append_fixed(data_crc, &record_);
  for (size_t i = 0; i < sizeof bytes; ++i) record_[i] = static_cast<char>(bytes >> (8 * i) & 0xff);
  const uint32_t length_crc = masked_crc32c(std::string_view(record_).substr(0, sizeof bytes));
  for (size_t i = 0; i < sizeof length_crc; ++i)
    record_[sizeof bytes + i] = static_cast<char>(length_crc >> (8 * i) & 0xff);
  file_.write(record_.data(), static_cast<int64_t>(record_.size()));
}

}  // namespace hawser::train
