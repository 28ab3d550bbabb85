#include "engine/checkpoint/manifest.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string_view>

#include "engine/base/error.h"
#include "engine/checkpoint/digest.h"
#include "engine/checkpoint/file_io.h"
#include "engine/checkpoint/json_text.h"
#include "engine/checkpoint/safetensors.h"

namespace hawser::checkpoint {
namespace {

using Json = nlohmann::json;  // keys sorted

constexpr std::string_view kSelfDigest = ",\n \"manifest_digest\": \"";
constexpr std::string_view kEnd = "\"\n}\n";

Json parse_section(const char* name, const std::string& text) {
  check_json_object(text, fmt::format("the {} section of a checkpoint", name), Code::kInvalidArgument);
  return Json::parse(text);
}

std::string dump(const Json& json) {
  try {
    return json.dump(1);
  } catch (const nlohmann::json::exception&) {
    fail(Code::kInvalidArgument, "a text for a checkpoint's manifest is not valid UTF-8");
  }
}

Json tensors_json(const Manifest& manifest) {
  Json result = Json::object();
  for (const auto& [name, tensor] : manifest.tensors) {
    Json piece;
    piece["begin"] = std::vector<int64_t>(tensor.shape.size(), 0);
    piece["end"] = tensor.shape;
    piece["file"] = tensor.file;
    piece["offset"] = tensor.offset;
    piece["bytes"] = tensor.bytes;
    piece["digest"] = tensor.digest;
    Json& entry = result[name];
    entry["dtype"] = dtype_name(tensor.dtype);
    entry["shape"] = tensor.shape;
    entry["pieces"] = Json::array({std::move(piece)});
  }
  return result;
}

/// Reads fields of the manifest; whatever is missing or of another kind is damage.
class Fields {
 public:
  Fields(const Json& object, const std::string& where, std::string what)
      : object_(object), where_(where), what_(std::move(what)) {
    if (!object.is_object()) corrupt("is not an object");
  }
  [[noreturn]] void corrupt(const std::string& problem) const {
    fail(Code::kCheckpointCorrupt, "{}: {} {}", where_, what_, problem);
  }
  const Json& at(const char* key) const {
    const auto found = object_.find(key);
    if (found == object_.end()) corrupt(fmt::format("has no {}", key));
    return *found;
  }
  int64_t integer(const char* key) const { return integer_of(at(key), key); }
  std::string text(const char* key) const {
    if (!at(key).is_string()) corrupt(fmt::format("has a {} that is not a string", key));
    return at(key).get<std::string>();
  }
  std::vector<int64_t> integers(const char* key) const {
    if (!at(key).is_array()) corrupt(fmt::format("has a {} that is not an array", key));
    std::vector<int64_t> result;
    for (const Json& value : at(key)) result.push_back(integer_of(value, key));
    return result;
  }
  std::string object(const char* key) const {
    if (!at(key).is_object()) corrupt(fmt::format("has a {} that is not an object", key));
    return at(key).dump();
  }

 private:
  int64_t integer_of(const Json& value, const char* key) const {
    if (!value.is_number_unsigned() || value.get<uint64_t>() > INT64_MAX)
      corrupt(fmt::format("has a {} that is not a natural number", key));
    return value.get<int64_t>();
  }
  const Json& object_;
  const std::string& where_;
  std::string what_;
};

StoredTensor parse_tensor(const std::string& name, const Json& json, const std::string& where,
                          const std::map<std::string, StoredFile>& files) {
  const Fields fields(json, where, "tensor " + in_quotes(name));
  StoredTensor tensor;
  const std::optional<DType> dtype = dtype_from_name(fields.text("dtype"));
  if (!dtype) fields.corrupt("has the unknown dtype " + in_quotes(fields.text("dtype")));
  tensor.dtype = *dtype;
  tensor.shape = fields.integers("shape");
  const Json& pieces = fields.at("pieces");
  if (!pieces.is_array() || pieces.size() != 1) fields.corrupt("is not in one piece");
  const Fields piece(pieces[0], where, "the piece of tensor " + in_quotes(name));
  const std::vector<int64_t> begin = piece.integers("begin");
  if (begin != std::vector<int64_t>(tensor.shape.size(), 0) || piece.integers("end") != tensor.shape)
    piece.corrupt("does not cover the tensor");
  tensor.file = piece.text("file");
  if (files.count(tensor.file) == 0) piece.corrupt("lies in the unlisted file " + in_quotes(tensor.file));
  tensor.offset = piece.integer("offset");
  tensor.bytes = piece.integer("bytes");
  tensor.digest = piece.text("digest");
  return tensor;
}

std::map<std::string, StoredFile> parse_files(const Json& json, const std::string& where) {
  if (!json.is_object()) fail(Code::kCheckpointCorrupt, "{}: files is not an object", where);
  std::map<std::string, StoredFile> files;
  const std::string extra = std::string(kExtraFolder) + "/";
  for (const auto& [name, entry] : json.items()) {
    const bool is_extra = name.compare(0, extra.size(), extra) == 0;
    if (!is_plain_name(is_extra ? name.substr(extra.size()) : name))
      fail(Code::kCheckpointCorrupt, "{}: the file name {} leads out of the checkpoint", where,
           in_quotes(name));
    const Fields fields(entry, where, "file " + in_quotes(name));
    files[name] = {fields.integer("bytes"), fields.text("digest")};
  }
  return files;
}

/// The text is whole: its last line is the digest of what stands before.
void check_self_digest(const std::string& text, const std::string& where) {
  const size_t at = text.rfind(kSelfDigest);
  const bool whole =
      at != std::string::npos && text.substr(at + kSelfDigest.size()) ==
                                     Digest::of(text.data(), static_cast<int64_t>(at)) + std::string(kEnd);
  if (!whole)
    fail(Code::kCheckpointCorrupt,
         "{} is damaged: its last line is not the digest of what stands before it; use an older checkpoint",
         where);
}

}  // namespace

std::string manifest_text(const Manifest& manifest) {
  const Description& description = manifest.description;
  Json json;
  json["format"] = "hawser-checkpoint";
  json["version"] = kManifestVersion;
  json["step"] = description.step;
  json["state"] = parse_section("state", description.state_json);
  json["config"] = parse_section("config", description.config_json);
  json["vocabulary"] = parse_section("vocabulary", description.vocabulary_json);
  json["data"] = parse_section("data", description.data_json);
  json["model"] = parse_section("model", description.model_json);
  json["files"] = Json::object();
  for (const auto& [name, file] : manifest.files)
    json["files"][name] = {{"bytes", file.bytes}, {"digest", file.digest}};
  json["tensors"] = tensors_json(manifest);
  std::string text = dump(json);
  text.resize(text.size() - 2);  // the closing "\n}" comes after the digest
  const std::string digest = Digest::of(text.data(), static_cast<int64_t>(text.size()));
  text.append(kSelfDigest).append(digest).append(kEnd);
  if (static_cast<int64_t>(text.size()) > kMaxManifestBytes)
    fail(Code::kInvalidArgument, "the manifest would have {} bytes; at most {} are possible", text.size(),
         kMaxManifestBytes);
  return text;
}

Manifest parse_manifest(const std::string& text, const std::string& where) {
  check_json_object(text, where, Code::kCheckpointCorrupt);
  const Json json = Json::parse(text);
  const Fields fields(json, where, "the manifest");
  if (fields.text("format") != "hawser-checkpoint")
    fail(Code::kCheckpointIncompatible, "{} is of the format {}, not hawser-checkpoint", where,
         in_quotes(fields.text("format")));
  const int64_t version = fields.integer("version");
  if (version > kManifestVersion)
    fail(Code::kCheckpointIncompatible, "{} has version {}; this Hawser reads up to {}. Use a newer one",
         where, version, kManifestVersion);
  check_self_digest(text, where);
  Manifest manifest;
  manifest.description.step = fields.integer("step");
  manifest.description.state_json = fields.object("state");
  manifest.description.config_json = fields.object("config");
  manifest.description.vocabulary_json = fields.object("vocabulary");
  manifest.description.data_json = fields.object("data");
  manifest.description.model_json = fields.object("model");
  manifest.files = parse_files(fields.at("files"), where);
  const Json& tensors = fields.at("tensors");
  if (!tensors.is_object()) fields.corrupt("has tensors that are not an object");
  for (const auto& [name, entry] : tensors.items())
    manifest.tensors[name] = parse_tensor(name, entry, where, manifest.files);
  return manifest;
}

}  // namespace hawser::checkpoint
