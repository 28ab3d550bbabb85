#include "engine/checkpoint/hf/import_record.h"

#include <fmt/format.h>

#include "engine/base/error.h"
#include "engine/base/json.h"
#include "engine/checkpoint/file_io.h"
#include "engine/checkpoint/json_text.h"

namespace hawser::checkpoint::hf {
namespace {

using Kind = RecordedTensor::Kind;

constexpr const char* kKinds[] = {"weight", "copy", "causal_mask", "bytes"};

std::string to_hex(const std::string& bytes) {
  std::string hex;
  for (const char byte : bytes) hex += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return hex;
}

std::string from_hex(const std::string& hex) {
  const auto digit = [](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    fail(Code::kCheckpointCorrupt, "{}: bytes are not hexadecimal", kRecordName);
  };
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes += static_cast<char>(digit(hex[i]) * 16 + digit(hex[i + 1]));
  return bytes;
}

RecordedTensor parse_tensor(const Json& json) {
  RecordedTensor tensor;
  tensor.name = json.at("name").get<std::string>();
  tensor.dtype = json.at("dtype").get<std::string>();
  const std::string kind = json.value("kind", "weight");
  bool known = false;
  for (size_t i = 0; i < std::size(kKinds); ++i)
    if (kind == kKinds[i]) {
      tensor.kind = static_cast<Kind>(i);
      known = true;
    }
  if (!known) fail(Code::kCheckpointCorrupt, "{}: unknown kind {}", kRecordName, in_quotes(kind));
  if (json.contains("shape")) tensor.shape = json.at("shape").get<std::vector<int64_t>>();
  tensor.bytes = from_hex(json.value("bytes", ""));
  return tensor;
}

}  // namespace

std::string record_text(const ImportRecord& record) {
  Json json;
  json["version"] = 1;
  json["prefixed"] = record.prefixed;
  json["sharded"] = record.sharded;
  if (!record.index_metadata.empty()) json["index_metadata"] = parse_json<Json>(record.index_metadata);
  json["files"] = Json::array();
  for (const RecordedFile& file : record.files) {
    Json tensors = Json::array();
    for (const RecordedTensor& tensor : file.tensors) {
      Json entry = {{"name", tensor.name}, {"dtype", tensor.dtype}};
      if (tensor.kind != Kind::kWeight) entry["kind"] = kKinds[static_cast<size_t>(tensor.kind)];
      if (tensor.kind == Kind::kCausalMask || tensor.kind == Kind::kBytes) entry["shape"] = tensor.shape;
      if (tensor.kind == Kind::kBytes) entry["bytes"] = to_hex(tensor.bytes);
      tensors.push_back(std::move(entry));
    }
    json["files"].push_back(
        {{"name", file.name}, {"metadata", file.metadata}, {"tensors", std::move(tensors)}});
  }
  return json.dump(1) + "\n";
}

ImportRecord parse_record(const std::string& text) {
  check_json_object(text, kRecordName, Code::kCheckpointCorrupt, 16);
  ImportRecord record;
  try {
    const Json json = parse_json<Json>(text);
    if (json.at("version") != 1)
      fail(Code::kCheckpointIncompatible, "{} has version {}; this Hawser reads 1", kRecordName,
           json.at("version").dump());
    record.prefixed = json.at("prefixed").get<bool>();
    record.sharded = json.at("sharded").get<bool>();
    if (json.contains("index_metadata") && json["index_metadata"].is_object())
      record.index_metadata = json["index_metadata"].dump();
    for (const Json& file : json.at("files")) {
      RecordedFile recorded{file.at("name").get<std::string>(),
                            file.at("metadata").get<std::map<std::string, std::string>>(),
                            {}};
      if (!is_plain_name(recorded.name))
        fail(Code::kCheckpointCorrupt, "{}: a file name is not plain", kRecordName);
      for (const Json& tensor : file.at("tensors")) recorded.tensors.push_back(parse_tensor(tensor));
      record.files.push_back(std::move(recorded));
    }
  } catch (const Json::exception& error) {
    fail(Code::kCheckpointCorrupt, "{} is not a valid import record: {}", kRecordName, error.what());
  }
  return record;
}

}  // namespace hawser::checkpoint::hf
