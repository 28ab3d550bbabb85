#include "capi/src/arguments.h"

#include <cstring>

#include "engine/base/json.h"
#include "engine/base/utf8.h"

namespace hawser::capi {
namespace {

/// An upper bound of the bytes that a process can address on any current machine.
constexpr size_t kAddressSpace = sizeof(void*) == 8 ? size_t{1} << 56 : SIZE_MAX;

}  // namespace

void Call::invalid(const char* argument, std::string_view problem, Code code) const {
  throw Error(code, fmt::format("{}: `{}` {}", function_, argument, problem),
              fmt::format("{{\"function\":\"{}\",\"argument\":\"{}\"}}", function_, argument));
}

void Call::check_pointer(const void* pointer, size_t alignment, const char* argument) const {
  if (pointer == nullptr) invalid(argument, "is NULL");
  if (reinterpret_cast<uintptr_t>(pointer) % alignment != 0) {
    invalid(argument, fmt::format("is {}, which is not aligned to {} bytes", pointer, alignment));
  }
}

void Call::check_array(const void* data, size_t count, size_t size, size_t alignment,
                       const char* argument) const {
  if (count == 0) return;
  check_pointer(data, alignment, argument);
  if (count > kAddressSpace / size || count * size > UINTPTR_MAX - reinterpret_cast<uintptr_t>(data)) {
    invalid(argument,
            fmt::format("has {} elements of {} bytes, more than the address space holds", count, size));
  }
}

std::string_view Call::text(const char* text, const char* argument, size_t limit) const {
  check_pointer(text, 1, argument);
  const size_t size = ::strnlen(text, limit + 1);
  if (size > limit) invalid(argument, fmt::format("is longer than {} bytes; is its end missing?", limit));
  check_utf8({text, size}, argument);
  return {text, size};
}

void Call::check_utf8(std::string_view text, const char* argument) const {
  for (size_t at = 0; at < text.size();) {
    if (next_code_point(text.data(), text.size(), &at) == kInvalidCodePoint) {
      invalid(argument,
              fmt::format("is not UTF-8 at byte {} (0x{:02x})", at, static_cast<unsigned char>(text[at])));
    }
  }
}

std::string Call::path(const char* path, const char* argument) const {
  check_pointer(path, 1, argument);
  const size_t size = ::strnlen(path, kNameLimit + 1);
  if (size == 0) invalid(argument, "is empty; give a path");
  if (size > kNameLimit)
    invalid(argument, fmt::format("is longer than {} bytes; is its end missing?", kNameLimit));
  return {path, size};
}

std::string Call::config_path(const char* path, const char* argument) const {
  std::string result = this->path(path, argument);
  check_utf8(result, argument);
  return result;
}

std::string Call::dtype(const char* dtype, const char* argument) const {
  if (dtype == nullptr) return {};
  const std::string_view name = text(dtype, argument);
  if (!name.empty() && name != "f32" && name != "bf16" && name != "f16" && name != "q8_0") {
    invalid(argument,
            fmt::format("is \"{}\"; it must be one of \"\", \"f32\", \"bf16\", \"f16\", \"q8_0\"", name));
  }
  return std::string(name);
}

namespace {

/// Parses a JSON array whose items are all `is_item`; NULL counts as [].
template <typename Item>
std::vector<Item> list_of(const Call& call, const char* json, const char* argument,
                          bool (hawser::Json::*is_item)() const noexcept, const char* wanted) {
  if (json == nullptr) return {};
  const hawser::Json list =
      hawser::parse_json_or_discard<hawser::Json>(call.text(json, argument, Call::kValueLimit));
  bool fits = list.is_array();
  for (size_t i = 0; fits && i < list.size(); ++i) fits = (list[i].*is_item)();
  if (!fits) call.invalid(argument, fmt::format("is not a JSON array of {}", wanted));
  return list.get<std::vector<Item>>();
}

}  // namespace

std::vector<std::string> Call::string_list(const char* json, const char* argument) const {
  return list_of<std::string>(*this, json, argument, &hawser::Json::is_string,
                              "strings; write it as [\"a\",\"b\"]");
}

std::vector<double> Call::number_list(const char* json, const char* argument) const {
  return list_of<double>(*this, json, argument, &hawser::Json::is_number, "numbers; write it as [1, 2.5]");
}

void Call::range(int64_t value, int64_t low, int64_t high, const char* argument) const {
  if (value >= low && value <= high) return;
  if (high == INT64_MAX) invalid(argument, fmt::format("is {}; it must be at least {}", value, low));
  invalid(argument, fmt::format("is {}; it must lie in [{}, {}]", value, low, high));
}

bool overlap(const void* a, size_t a_bytes, const void* b, size_t b_bytes) {
  const auto a_begin = reinterpret_cast<uintptr_t>(a), b_begin = reinterpret_cast<uintptr_t>(b);
  if (a_bytes == 0 || b_bytes == 0) return false;
  return a_begin < b_begin ? b_begin - a_begin < a_bytes : a_begin - b_begin < b_bytes;
}

}  // namespace hawser::capi
