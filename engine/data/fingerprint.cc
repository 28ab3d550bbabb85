// Fingerprint: identifies data in two parts. The cheap part is available at once: settings, and the size,
// head and tail of each file. Contents are digested when needed, in shares, one block at a time. Up to 4 GiB
// all blocks are digested, which takes about a second from the page cache. Beyond that only every second,
// third, ... block is digested, because digests of terabytes would take hours. For 100 GiB this is every 25th
// MiB: enough to detect regenerated files, but perhaps not a few bytes overwritten in the middle.
#include "engine/data/fingerprint.h"

#define XXH_INLINE_ALL
#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>

#include "engine/base/error.h"
#include "engine/base/interrupt.h"
#include "engine/base/json_difference.h"
#include "engine/data/data_error.h"

namespace hawser::data {
namespace {

constexpr int64_t kDigestBytes = 64 * 1024;
constexpr int64_t kBlock = int64_t{1} << 20, kMostBytes = int64_t{4} << 30;
constexpr size_t kDigestDigits = 16;

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

Json describe(const SourceRange& part) {
  Json files = Json::array();
  for (const InputFile* file : part.source->files()) files.push_back(describe(*file));
  return {{"files", files}, {"tokens", part.source->size()}, {"begin", part.begin}, {"end", part.end}};
}

/// Returns the name of an enum's value; kNone is -1.
const char* name_in(const auto& names, auto value) {
  return static_cast<int64_t>(value) < 0 ? "none" : names[static_cast<size_t>(value)];
}

}  // namespace

std::string make_fingerprint(const DataConfig& config, const std::string& tokenizer, uint64_t seed,
                             int64_t cols, const std::vector<SourceRange>& train,
                             const std::vector<SourceRange>& validation, bool grouped) {
  Json root = {{"format", name_in(kDataFormatNames, config.format)},
               {"sequence", cols},
               {"seed", seed},
               {"shuffle", config.shuffle},
               {"packing", config.packing}};
  if (grouped) root["length_group"] = config.length_group;
  if (config.format == DataFormat::kTokens) {
    root["token_type"] = name_in(kTokenTypeNames, config.token_type);
    if (config.packing) root["separator"] = config.separator;
  }
  if (config.format == DataFormat::kText)
    root["vocabulary"] = name_in(kVocabularyKindNames, config.vocabulary);
  if (!tokenizer.empty()) root["tokenizer"] = tokenizer;
  root["train"] = Json::array();
  for (size_t i = 0; i < train.size(); ++i) {
    Json part = describe(train[i]);
    part["weight"] = config.sources[i].weight;
    root["train"].push_back(std::move(part));
  }
  root["validation"] = Json::array();
  for (const SourceRange& part : validation) root["validation"].push_back(describe(part));
  return root.dump(-1, ' ', false, Json::error_handler_t::replace);
}

namespace {

/// Returns n if every n-th block is digested.
int64_t stride_of(const Files& files) {
  int64_t bytes = 0;
  for (const InputFile* file : files) bytes += file->size();
  return std::max<int64_t>(1, (bytes + kMostBytes - 1) / kMostBytes);
}

/// Calls fn(file's index, offset) for each block that is digested.
template <typename Fn>
void each_block(const Files& files, Fn fn) {
  const int64_t step = stride_of(files) * kBlock;
  for (size_t i = 0; i < files.size(); ++i)
    for (int64_t offset = 0; offset < files[i]->size(); offset += step) fn(i, offset);
}

/// Removes file names, which do not identify contents.
void forget_names(Json* fingerprint) {
  for (const char* list : {"train", "validation"})
    for (Json& part : fingerprint->at(list))
      for (Json& file : part.at("files")) file.erase("file");
}

}  // namespace

Files files_of(const std::vector<SourceRange>& train, const std::vector<SourceRange>& validation) {
  Files files;
  for (const std::vector<SourceRange>* parts : {&train, &validation})
    for (const SourceRange& part : *parts)
      for (const InputFile* file : part.source->files())
        if (std::find(files.begin(), files.end(), file) == files.end()) files.push_back(file);
  return files;
}

std::string digest_share(const Files& files, int64_t share, int64_t shares) {
  std::string digests;
  std::vector<uint8_t> block(static_cast<size_t>(kBlock));
  int64_t index = 0;
  each_block(files, [&](size_t i, int64_t offset) {
    if (index++ % shares != share) return;
    check_interrupt();
    const int64_t bytes = std::min(kBlock, files[i]->size() - offset);
    files[i]->read_at(offset, block.data(), bytes);
    digests += fmt::format("{:016x}", XXH3_64bits(block.data(), static_cast<size_t>(bytes)));
  });
  return digests;
}

std::string with_contents(const std::string& fingerprint, const Files& files,
                          const std::vector<std::string>& shares) {
  std::vector<std::string> blocks(files.size());
  size_t index = 0;
  each_block(files, [&](size_t i, int64_t) {
    blocks[i] +=
        shares.at(index % shares.size()).substr(index / shares.size() * kDigestDigits, kDigestDigits);
    ++index;
  });
  Json contents = {{"block", kBlock}, {"every", stride_of(files)}, {"files", Json::array()}};
  for (const std::string& digests : blocks)
    contents["files"].push_back(fmt::format("{:016x}", XXH3_64bits(digests.data(), digests.size())));
  Json root = parse_json<Json>(fingerprint);
  root["contents"] = std::move(contents);
  return root.dump();
}

std::string data_difference(const std::string& theirs, const std::string& ours) {
  Json there = parse_json<Json>(theirs), here = parse_json<Json>(ours);
  if (there.contains("contents") && here.contains("contents")) {
    forget_names(&there);
    forget_names(&here);
  } else {  // one is from an earlier version, or its data could not be read completely
    there.erase("contents");
    here.erase("contents");
  }
  std::string text;
  each_difference(there, here, [&](const std::string& pointer, const Json* a, const Json* b) {
    text += fmt::format("\n  {}: {} there, {} here", pointer, a ? a->dump() : "null", b ? b->dump() : "null");
  });
  return text;
}

}  // namespace hawser::data
