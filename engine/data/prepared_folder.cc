#include "engine/data/prepared_folder.h"

#define XXH_INLINE_ALL
#include <fmt/format.h>
#include <sys/stat.h>
#include <xxhash.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "engine/data/data_error.h"

namespace hawser::data {
namespace {

constexpr const char* kWhat = "prepared rows";
constexpr int64_t kMostManifest = int64_t{64} << 20;
constexpr const char* kAgain = "prepare the data again";

/// Reads the fields of a manifest, all of which are required.
class Fields {
 public:
  Fields(const std::string& path, const OrderedJson& root) : path_(path), root_(root) {}

  const OrderedJson& at(const char* key) const {
    if (!root_.contains(key)) fail_data(path_, -1, fmt::format("has no \"{}\"; {}", key, kAgain));
    return root_[key];
  }
  int64_t count(const char* key, int64_t least) const {
    const OrderedJson& value = at(key);
    if (!value.is_number_integer() || value.get<double>() < static_cast<double>(least) ||
        value.get<double>() > 9e15)
      fail_data(path_, -1,
                fmt::format("\"{}\" is {}; it must be a number of at least {}; {}", key, value.dump(), least,
                            kAgain));
    return value.get<int64_t>();
  }
  bool flag(const char* key) const {
    const OrderedJson& value = at(key);
    if (!value.is_boolean())
      fail_data(path_, -1,
                fmt::format("\"{}\" is {}; it must be true or false; {}", key, value.dump(), kAgain));
    return value.get<bool>();
  }
  std::string text(const char* key) const {
    const OrderedJson& value = at(key);
    if (!value.is_string())
      fail_data(path_, -1, fmt::format("\"{}\" is {}; it must be a string; {}", key, value.dump(), kAgain));
    return value.get<std::string>();
  }

 private:
  const std::string& path_;
  const OrderedJson& root_;
};

}  // namespace

bool is_prepared(const std::string& folder) {
  struct stat status;
  return ::stat((folder + "/" + kPreparedManifest).c_str(), &status) == 0 && S_ISREG(status.st_mode);
}

PreparedManifest read_manifest(const std::string& folder) {
  const std::string path = folder + "/" + kPreparedManifest;
  std::error_code unknown;
  if (std::filesystem::is_regular_file(folder, unknown))
    fail_data(
        folder, -1,
        "is a file, but prepared rows are a folder; make one from a file of rows with `hawser prepare`");
  const InputFile file = InputFile::open(path);
  if (file.size() > kMostManifest)
    fail_data(path, -1, fmt::format("is too large for a manifest; {}", kAgain));
  std::string text(static_cast<size_t>(file.size()), '\0');
  file.read_at(0, text.data(), file.size());
  const OrderedJson root = parse_json_or_discard<OrderedJson>(text);
  if (!root.is_object() || !root.contains("hawser") || root["hawser"] != kWhat)
    fail_data(path, -1,
              fmt::format("is not the manifest of a folder that `hawser prepare` wrote; {}", kAgain));
  const Fields fields(path, root);
  if (const int64_t version = fields.count("version", 1); version > kPreparedVersion)
    fail_data(path, -1,
              fmt::format("has version {}, and this library reads versions up to {}; update it, or {}",
                          version, kPreparedVersion, kAgain));
  PreparedManifest manifest;
  manifest.rows = fields.count("rows", 1);
  manifest.cols = fields.count("sequence", 1);
  if (manifest.cols >= int64_t{1} << 31 || manifest.rows > (int64_t{1} << 50) / manifest.cols)
    fail_data(path, -1,
              fmt::format("{} rows of {} tokens are too many; {}", manifest.rows, manifest.cols, kAgain));
  manifest.vocabulary = fields.count("vocabulary", 1);
  manifest.packed = fields.flag("packed");
  manifest.weighted = fields.flag("weighted");
  manifest.pairs = root.contains("pairs") && fields.flag("pairs");
  if (manifest.pairs && (manifest.rows % 2 != 0 || manifest.packed))
    fail_data(path, -1,
              fmt::format("{} rows{} cannot be pairs; {}", manifest.rows, manifest.packed ? ", packed," : "",
                          kAgain));
  manifest.tokenizer = fields.text("tokenizer");
  manifest.chat_template = fields.text("chat_template");
  manifest.identity = fields.text("identity");
  manifest.tokens_digest = fields.text("tokens_digest");
  manifest.marks_digest = fields.text("marks_digest");
  manifest.weights_digest = fields.text("weights_digest");
  manifest.report = fields.at("report");
  return manifest;
}

std::string file_digest(const InputFile& file) {
  constexpr int64_t kBlock = int64_t{1} << 20;
  alignas(64) XXH3_state_t state;
  XXH3_64bits_reset(&state);
  std::vector<uint8_t> block(static_cast<size_t>(std::min(kBlock, file.size())));
  for (int64_t at = 0; at < file.size(); at += kBlock) {
    const int64_t bytes = std::min(kBlock, file.size() - at);
    file.read_at(at, block.data(), bytes);
    XXH3_64bits_update(&state, block.data(), static_cast<size_t>(bytes));
  }
  return fmt::format("{:016x}", XXH3_64bits_digest(&state));
}

std::string to_json(const PreparedManifest& m) {
  OrderedJson root = {{"hawser", kWhat},
                      {"version", m.pairs ? kPreparedVersion : 1},
                      {"rows", m.rows},
                      {"sequence", m.cols},
                      {"vocabulary", m.vocabulary},
                      {"packed", m.packed},
                      {"weighted", m.weighted},
                      {"tokenizer", m.tokenizer},
                      {"chat_template", m.chat_template},
                      {"identity", m.identity},
                      {"tokens_digest", m.tokens_digest},
                      {"marks_digest", m.marks_digest},
                      {"weights_digest", m.weights_digest},
                      {"report", m.report}};
  if (m.pairs) root["pairs"] = true;
  return root.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

}  // namespace hawser::data
