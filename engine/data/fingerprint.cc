// Identity of data: whole digests of terabytes would take hours, so size, head and tail stand for a file.
#include "engine/data/fingerprint.h"

#define XXH_INLINE_ALL
#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>

#include "engine/base/error.h"
#include "engine/base/json.h"
#include "engine/data/data_error.h"

namespace hawser::data {
namespace {

constexpr int64_t kDigestBytes = 64 * 1024;

std::string digest(const InputFile& file, int64_t offset, int64_t bytes) {
  std::vector<uint8_t> data(static_cast<size_t>(bytes));
  file.read_at(offset, data.data(), bytes);
  return fmt::format("{:016x}", XXH3_64bits(data.data(), data.size()));
}

Json describe(const InputFile& file) {
  const int64_t bytes = std::min(file.size(), kDigestBytes);
  return {{"file", base_name(file.path())},
          {"bytes", file.size()},
          {"head", digest(file, 0, bytes)},
          {"tail", digest(file, file.size() - bytes, bytes)}};
}

Json describe(const Part& part) {
  Json files = Json::array();
  for (const InputFile* file : part.source->files()) files.push_back(describe(*file));
  return {{"files", files}, {"tokens", part.source->size()}, {"begin", part.begin}, {"end", part.end}};
}

const char* format_name(DataFormat format) {
  switch (format) {
    case DataFormat::kText:
      return "text";
    case DataFormat::kTokens:
      return "tokens";
    case DataFormat::kMegatron:
      return "megatron";
    case DataFormat::kNone:
      break;
  }
  return "none";
}

const char* vocabulary_name(VocabularyKind kind) {
  switch (kind) {
    case VocabularyKind::kBytes:
      return "bytes";
    case VocabularyKind::kCharacters:
      return "characters";
    case VocabularyKind::kNone:
      break;
  }
  return "none";
}

}  // namespace

std::string make_fingerprint(const DataConfig& config, uint64_t seed, int64_t cols,
                             const std::vector<Part>& train, const std::vector<Part>& validation) {
  Json root = {{"format", format_name(config.format)},
               {"sequence", cols},
               {"seed", seed},
               {"shuffle", config.shuffle},
               {"packing", config.packing}};
  if (config.format == DataFormat::kTokens) {
    root["token_type"] = config.token_type == TokenType::kU16 ? "u16" : "u32";
    if (config.packing) root["separator"] = config.separator;
  }
  if (config.format == DataFormat::kText) root["vocabulary"] = vocabulary_name(config.vocabulary);
  root["train"] = Json::array();
  for (size_t i = 0; i < train.size(); ++i) {
    Json part = describe(train[i]);
    part["weight"] = config.sources[i].weight;
    root["train"].push_back(std::move(part));
  }
  root["validation"] = Json::array();
  for (const Part& part : validation) root["validation"].push_back(describe(part));
  return root.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace hawser::data
