#include "engine/checkpoint/manifest.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "engine/base/error.h"
#include "engine/base/json.h"
#include "engine/checkpoint/digest.h"
#include "engine/checkpoint/json_fields.h"
#include "engine/checkpoint/json_text.h"
#include "engine/device/cpu/host_memory.h"

namespace hawser::checkpoint {
namespace {

constexpr std::string_view kSelfDigest = ",\n \"manifest_digest\": \"";
constexpr std::string_view kEnd = "\"\n}\n";

Json parse_section(const char* name, const std::string& text) {
  check_json_object(text, fmt::format("the {} section of a checkpoint", name), Code::kInvalidArgument);
  return parse_json<Json>(text);
}

std::string dump(const Json& json) {
  try {
    return json.dump(1);
  } catch (const Json::exception&) {
    fail(Code::kInvalidArgument, "a text for a checkpoint's manifest is not valid UTF-8");
  }
}

/// Checks that the text is complete: its last line must be the digest of all bytes before it. A newer version
/// may have another last line, which is not damage.
void check_self_digest(const std::string& text, int64_t version, const std::string& where) {
  const size_t at = text.rfind(kSelfDigest);
  if (at == std::string::npos && version > kManifestVersion) return;
  const bool whole =
      at != std::string::npos && text.substr(at + kSelfDigest.size()) ==
                                     Digest::of(text.data(), static_cast<int64_t>(at)) + std::string(kEnd);
  if (!whole)
    fail(Code::kCheckpointCorrupt,
         "{} is damaged: its last line is not the digest of the text before it; use an older checkpoint",
         where);
}

/// Smaller amounts of memory are not checked.
constexpr int64_t kAlwaysThere = int64_t{64} << 20;
/// Maximum memory that a value (a number, string, array or object) needs while it is parsed and kept, in
/// addition to its text: a map node with its key, or a piece with its names.
constexpr int64_t kBytesPerValue = 160;

void require_memory(int64_t bytes, const std::string& where) {
  if (bytes <= kAlwaysThere) return;
  const int64_t available = device::available_memory();
  if (bytes > available)
    fail(Code::kOutOfMemory, "out of memory: reading {} takes {} bytes, {} are available", where, bytes,
         available);
}

}  // namespace

Json parse_within_memory(const std::string& text, const std::string& where) {
  const int64_t values = check_json_object(text, where, Code::kCheckpointCorrupt);
  require_memory(2 * static_cast<int64_t>(text.size()) + values * kBytesPerValue, where);
  return parse_json<Json>(text);
}

Manifest read_manifest(const Folder& folder) {
  const std::string where = folder.path_of(kManifestName);
  const File file = folder.open_file(kManifestName);
  const int64_t size = file.size();
  require_memory(2 * size, where);
  std::string text(static_cast<size_t>(size), '\0');
  file.read_at(0, text.data(), size);
  return parse_manifest(text, where);
}

int64_t Manifest::version() const {
  if (description.base_json != "{}") return 4;
  const bool one_piece_each = std::all_of(tensors.begin(), tensors.end(),
                                          [](const auto& entry) { return entry.second.pieces.size() == 1; });
  if (one_piece_each) return 1;
  return std::any_of(tensors.begin(), tensors.end(),
                     [](const auto& entry) { return entry.second.has_rectangles(); })
             ? 3
             : 2;
}

std::string manifest_text(const Manifest& manifest) {
  const Description& description = manifest.description;
  Json json;
  json["format"] = "hawser-checkpoint";
  json["version"] = manifest.version();
  json["step"] = description.step;
  json["state"] = parse_section("state", description.state_json);
  json["config"] = parse_section("config", description.config_json);
  json["vocabulary"] = parse_section("vocabulary", description.vocabulary_json);
  json["data"] = parse_section("data", description.data_json);
  json["model"] = parse_section("model", description.model_json);
  if (description.base_json != "{}") json["base"] = parse_section("base", description.base_json);
  json["files"] = files_json(manifest.files);
  json["tensors"] = tensors_json(manifest.tensors);
  std::string text = dump(json);
  text.resize(text.size() - 2);  // the closing "\n}" comes after the digest
  const std::string digest = Digest::of(text.data(), static_cast<int64_t>(text.size()));
  return text.append(kSelfDigest).append(digest).append(kEnd);
}

Manifest parse_manifest(const std::string& text, const std::string& where) {
  const Json json = parse_within_memory(text, where);
  const JsonFields fields(json, where, "the manifest");
  const int64_t version = fields.integer("version");
  check_self_digest(text, version, where);  // must pass before the version is trusted
  if (fields.text("format") != "hawser-checkpoint")
    fail(Code::kCheckpointIncompatible, "{} is of the format {}, not hawser-checkpoint", where,
         in_quotes(fields.text("format")));
  if (version > kManifestVersion)
    fail(Code::kCheckpointIncompatible, "{} has version {}; this Hawser reads up to {}; use a newer Hawser",
         where, version, kManifestVersion);
  Manifest manifest;
  manifest.description.step = fields.integer("step");
  manifest.description.state_json = fields.object("state");
  manifest.description.config_json = fields.object("config");
  manifest.description.vocabulary_json = fields.object("vocabulary");
  manifest.description.data_json = fields.object("data");
  manifest.description.model_json = fields.object("model");
  if (fields.has("base")) manifest.description.base_json = fields.object("base");
  manifest.digest = text.substr(text.rfind(kSelfDigest) + kSelfDigest.size(), Digest::of("", 0).size());
  manifest.files = parse_files(fields.object_at("files"), where);
  manifest.tensors = parse_tensors(fields.object_at("tensors"), manifest.files, where);
  for (auto& [name, tensor] : manifest.tensors)
    require_covered(name, &tensor, where, Code::kCheckpointCorrupt);
  if (version < manifest.version())
    fields.corrupt(
        fmt::format("has version {}, but contains parts of version {}", version, manifest.version()));
  return manifest;
}

}  // namespace hawser::checkpoint
