// Binary config cases: FlatBuffers configs that are damaged, and files that are not configs.
#include <cstring>

#include "tests/bad_input/case.h"
#include "tests/bad_input/site.h"

namespace hawser::bad_input {
namespace binary_config_cases {

std::string sound_binary() {
  std::string bytes;
  with_config(sound_config(Json::parse(R"({"data": {"path": "a.bin"}, "device": "cpu"})")),
              [&](hws_config* config) {
                hws_buffer* buffer = nullptr;
                const int32_t status = hws_config_serialize(config, HWS_FORMAT_BINARY, &buffer);
                bytes.assign(static_cast<const char*>(hws_buffer_data(buffer)), hws_buffer_size(buffer));
                hws_buffer_destroy(buffer);
                return status;
              });
  return bytes;
}

Case damaged(const std::string& what, std::vector<std::string> words, int32_t status,
             const std::function<void(std::string&)>& damage) {
  return {what, status, std::move(words), [damage](Site&) {
            std::string bytes = sound_binary();
            damage(bytes);
            return parse_binary(bytes);
          }};
}

template <typename T>
T at(const std::string& bytes, size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

template <typename T>
void put(std::string* bytes, size_t offset, T value) {
  std::memcpy(bytes->data() + offset, &value, sizeof value);
}

/// These return the positions of the root table, its vtable and the value of its field `id`.
size_t root_of(const std::string& bytes) { return at<uint32_t>(bytes, 0); }
size_t vtable_of(const std::string& bytes) {
  return root_of(bytes) - static_cast<size_t>(at<int32_t>(bytes, root_of(bytes)));
}
size_t field_of(const std::string& bytes, size_t id) {
  return root_of(bytes) + at<uint16_t>(bytes, vtable_of(bytes) + 4 + 2 * id);
}
constexpr size_t kDevice = 1, kModel = 5;

}  // namespace binary_config_cases

Area binary_config_area() {
  using namespace binary_config_cases;
  constexpr int32_t kParse = HWS_CONFIG_PARSE;
  return {
      "Binary configs",
      "FlatBuffers given to `hws_config_parse`: those that another schema wrote, or that were damaged.",
      {
          {"11 bytes", kParse, {"11 bytes are too few"}, [](Site&) { return parse_binary("12345678901"); }},
          {"JSON, called binary",
           kParse,
           {"no file identifier HWSC", "is it JSON"},
           [](Site&) { return parse_binary(sound_config().dump()); }},
          damaged("another file identifier", {"HWSC", "another schema"}, kParse,
                  [](std::string& bytes) { bytes.replace(4, 4, "TFL3"); }),
          damaged("a root behind the end", {"damaged at the root offset", "write it again"}, kParse,
                  [](std::string& bytes) { put<uint32_t>(&bytes, 0, 0x7ffffff0u); }),
          damaged("a root of 0", {"damaged at the root offset"}, kParse,
                  [](std::string& bytes) { put<uint32_t>(&bytes, 0, 0u); }),
          damaged("a vtable before the start", {"damaged at the table Config"}, kParse,
                  [](std::string& bytes) { put<int32_t>(&bytes, root_of(bytes), 0x7fffffff); }),
          damaged("a section behind the end", {"damaged at /model"}, kParse,
                  [](std::string& bytes) { put<uint32_t>(&bytes, field_of(bytes, kModel), 0x7ffffff0u); }),
          damaged("half of the file", {"damaged at"}, kParse,
                  [](std::string& bytes) { bytes.resize(bytes.size() / 2); }),
          damaged("an enum's number that has no name",
                  {"/device", "200 is not a value of enum", "use one of"}, HWS_CONFIG_INVALID,
                  [](std::string& bytes) { put<uint8_t>(&bytes, field_of(bytes, kDevice), 200); }),
          damaged("text that is not UTF-8", {"/data/path", "not UTF-8", "use UTF-8"}, HWS_CONFIG_INVALID,
                  [](std::string& bytes) { bytes[bytes.find("a.bin")] = '\xff'; }),
      }};
}

}  // namespace hawser::bad_input
