// Stored pieces test: checkpoints of version 1 load and are still written byte for byte; manifests with
// invalid pieces, ranges or rectangles, are refused with the tensor's name.
#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <random>

#include "engine/checkpoint/digest.h"
#include "engine/checkpoint/json_text.h"
#include "engine/checkpoint/manifest.h"
#include "engine/checkpoint/reader.h"
#include "engine/checkpoint/sharded_save.h"
#include "engine/device/cpu/host_memory.h"
#include "tests/checkpoint/sample.h"
#include "tests/checkpoint/scratch.h"

namespace hawser::checkpoint {
namespace stored_pieces_test {

using Json = nlohmann::json;

const std::string kVersion1 = HAWSER_CHECKPOINT_FIXTURES "/version_1";

TEST(StoredPieces, CheckpointsOfVersion1Load) {
  const Sample sample;
  const auto reader = Reader::open(kVersion1);
  reader->verify();
  EXPECT_EQ(reader->description().step, 7);
  EXPECT_EQ(reader->description().extra_files, sample.description.extra_files);
  ASSERT_EQ(reader->tensors().size(), 4u);
  std::vector<float> weight(35);
  reader->read("weight", weight.data(), 140);
  EXPECT_EQ(weight, sample.weight);
  std::vector<uint16_t> half(2);
  reader->read_range("half", 1, 3, half.data(), 4);
  EXPECT_EQ(half, (std::vector<uint16_t>{2, 3}));
  int64_t count = 0;
  reader->read_range("count", 0, 1, &count, 8);
  EXPECT_EQ(count, 42);
  reader->read_range("none", 0, 0, nullptr, 0);
}

TEST(StoredPieces, OneRankWritesTheBytesOfVersion1) {
  const Scratch scratch;
  const Sample sample;
  save(scratch / "x", sample.tensors, sample.description, 16);
  EXPECT_EQ(listing(scratch / "x"), listing(kVersion1));
  for (const char* file : {"manifest.json", "tensors-00001-of-00002.safetensors",
                           "tensors-00002-of-00002.safetensors", "extra/config.json", "extra/tokenizer.json"})
    EXPECT_EQ(read_text(scratch / "x" + "/" + file), read_text(kVersion1 + "/" + file)) << file;
}

TEST(StoredPieces, RangesAreChecked) {
  const auto reader = Reader::open(kVersion1);
  std::vector<float> weight(35);
  const auto code_of = [&](const char* name, int64_t begin, int64_t end, int64_t bytes) {
    return error_of([&] { reader->read_range(name, begin, end, weight.data(), bytes); }).code();
  };
  EXPECT_EQ(code_of("other", 0, 1, 4), Code::kNotFound);
  EXPECT_EQ(code_of("weight", -1, 1, 8), Code::kOutOfRange);
  EXPECT_EQ(code_of("weight", 3, 2, -4), Code::kOutOfRange);
  EXPECT_EQ(code_of("weight", 30, 36, 24), Code::kOutOfRange);
  EXPECT_EQ(code_of("weight", 0, INT64_MAX, 140), Code::kOutOfRange);
  EXPECT_EQ(code_of("weight", INT64_MIN, INT64_MAX, 140), Code::kOutOfRange);
  EXPECT_EQ(code_of("weight", 0, 35, 136), Code::kCheckpointIncompatible);
  EXPECT_EQ(code_of("weight", 4, 4, 4), Code::kCheckpointIncompatible);
}

/// A checkpoint in three pieces. Tests change its manifest and recompute the digest.
class Forged {
 public:
  Forged() {
    ShardedSave save(scratch_ / "x");
    std::vector<std::string> indexes;
    for (int r = 0; r < 3; ++r)
      indexes.push_back(write_shard(save.folder(), r, 3,
                                    {{"w", DType::kF32, {2, 3}, 2 * r, 2 * r + 2, values_ + 2 * r}}, 100));
    save.finish(indexes, {});
    honest_ = Json::parse(read_text(path() + "/manifest.json"));
    honest_.erase("manifest_digest");
  }
  std::string path() const { return scratch_ / "x"; }

  void write(const Json& json) const {
    std::string text = json.dump(1);
    text.resize(text.size() - 2);
    const std::string digest = Digest::of(text.data(), static_cast<int64_t>(text.size()));
    write_text(path() + "/manifest.json", text + ",\n \"manifest_digest\": \"" + digest + "\"\n}\n");
  }

  /// Opens the checkpoint with the value at `pointer` replaced.
  Error open_with(const std::string& pointer, const Json& value) const {
    Json json = honest_;
    json[Json::json_pointer(pointer)] = value;
    return open(json);
  }
  Error open(const Json& json) const {
    write(json);
    return error_of([&] { Reader::open(path())->verify(); });
  }
  const Json& honest() const { return honest_; }

 private:
  const Scratch scratch_;
  const float values_[6] = {1, 2, 3, 4, 5, 6};
  Json honest_;
};

void expect_corrupt(const Error& error, const std::string& text) {
  EXPECT_EQ(error.code(), Code::kCheckpointCorrupt) << error.message();
  EXPECT_NE(error.message().find(text), std::string::npos) << error.message();
}

TEST(StoredPieces, TheHonestManifestOpensInAnyOrderOfPieces) {
  const Forged forged;
  Json json = forged.honest();
  std::swap(json["tensors"]["w"]["pieces"][0], json["tensors"]["w"]["pieces"][2]);
  forged.write(json);
  const auto reader = Reader::open(forged.path());
  reader->verify();
  float got[6];
  reader->read("w", got, 24);
  for (int i = 0; i < 6; ++i) EXPECT_EQ(got[i], static_cast<float>(i + 1));
}

TEST(StoredPieces, GapsAndOverlapsNameTensorAndElements) {
  const Forged forged;
  Json json = forged.honest();
  json["tensors"]["w"]["pieces"].erase(1);
  expect_corrupt(forged.open(json), "tensor 'w' is incomplete: no piece has its elements [2, 4) of 6");
  json["tensors"]["w"]["pieces"] = Json::array();
  expect_corrupt(forged.open(json), "no piece has its elements [0, 6) of 6");
  json = forged.honest();
  json["tensors"]["w"]["pieces"].push_back(json["tensors"]["w"]["pieces"][1]);
  expect_corrupt(forged.open(json), "tensor 'w' has its elements [2, 4) twice");
  json = forged.honest();
  json["tensors"]["w"]["pieces"][1]["range"] = {1, 4};
  json["tensors"]["w"]["pieces"][1]["bytes"] = 12;
  expect_corrupt(forged.open(json), "tensor 'w' has its elements [1, 2) twice");
  json = forged.honest();
  json["tensors"]["w[2:4]"] = {
      {"dtype", "F32"}, {"shape", {2}}, {"pieces", {json["tensors"]["w"]["pieces"][1]}}};
  json["tensors"]["w[2:4]"]["pieces"][0]["range"] = {0, 2};
  expect_corrupt(forged.open(json), "the manifest has the tensor 'w[2:4]' twice");
}

TEST(StoredPieces, PiecesThatLieAreRefused) {
  const Forged forged;
  const std::string piece = "/tensors/w/pieces/1";
  for (const Json& range : {Json{2}, Json{2, 4, 6}, Json{4, 2}, Json{2, 2}, Json{2, 7}, Json{-1, 2},
                            Json{2.0, 4.0}, Json{0, UINT64_MAX}, Json(7), Json("x"), Json{2, INT64_MAX}})
    expect_corrupt(forged.open_with(piece + "/range", range), "a piece of tensor 'w'");
  expect_corrupt(forged.open_with(piece + "/begin", {0, 0}), "a range and a rectangle");
  expect_corrupt(forged.open_with(piece + "/bytes", 4), "a piece of tensor 'w' has 4 bytes");
  expect_corrupt(forged.open_with(piece + "/file", "../x"), "unlisted");
  expect_corrupt(forged.open_with(piece + "/file", "manifest.json"), "unlisted");
  expect_corrupt(forged.open_with(piece + "/offset", INT64_MAX), "at byte");
  expect_corrupt(forged.open_with(piece + "/offset", 0), "at byte");
  expect_corrupt(forged.open_with(piece + "/digest", "xxh3-128:0"), "elements [2, 4)");
  expect_corrupt(forged.open_with(piece, {{"begin", {0, 0}}, {"end", {1, 2}}}), "must be the whole tensor");
  expect_corrupt(forged.open_with("/tensors/w/pieces", 3), "not an array");
  expect_corrupt(forged.open_with("/tensors/w/shape", {int64_t{1} << 40, int64_t{1} << 40}), "overflows");
  expect_corrupt(forged.open_with("/tensors/w/shape", {INT64_MAX}), "overflows");
  expect_corrupt(forged.open_with("/tensors/w/shape", std::vector<int>(9, 1)), "of 9 numbers");
  expect_corrupt(forged.open_with("/tensors/w/dtype", "BF16"), "tensor 'w'");
  expect_corrupt(forged.open_with("/version", 1), "has version 1");
  expect_corrupt(forged.open_with("/tensors/w/shape", {2, 4}), "no piece has its elements [6, 8) of 8");
}

/// A 4 x 6 matrix in four pieces of every kind. Tests change its manifest.
struct Rectangles {
  Rectangles() {
    for (int i = 0; i < 24; ++i) values[i] = static_cast<float>(i);
    const auto write = [&](int rank, int64_t begin, int64_t end, int64_t rows) {
      std::vector<float> part;
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t e = begin; e < end; ++e) part.push_back(values[e + 6 * r]);
      return write_shard(save.folder(), rank, 4, {{"w", DType::kF32, {4, 6}, begin, end, part.data(), rows}},
                         1000);
    };
    // columns 0-1 of rows 0-2; the rest of row 0; columns 2-5 of rows 1-2; row 3
    save.finish({write(0, 0, 2, 3), write(1, 2, 6, 1), write(2, 8, 12, 2), write(3, 18, 24, 1)}, {});
    honest = Json::parse(read_text(path() + "/manifest.json"));
    honest.erase("manifest_digest");
  }
  std::string path() const { return scratch / "x"; }
  Error open_with(const std::string& pointer, const Json& value) const {
    Json json = honest;
    json[Json::json_pointer(pointer)] = value;
    return error_of([&] { parse_manifest(with_digest(json), "manifest.json"); });
  }
  static std::string with_digest(const Json& json) {
    std::string text = json.dump(1);
    text.resize(text.size() - 2);
    const std::string digest = Digest::of(text.data(), static_cast<int64_t>(text.size()));
    return text + ",\n \"manifest_digest\": \"" + digest + "\"\n}\n";
  }

  const Scratch scratch;
  ShardedSave save{scratch / "x"};
  float values[24];
  Json honest;
};

TEST(StoredRectangles, AreReadInAnyRangeAndCheckedWhereWhole) {
  const Rectangles r;
  EXPECT_EQ(r.honest["version"], 3);
  EXPECT_EQ(r.honest["tensors"]["w"]["pieces"][0]["begin"], (Json{0, 0}));
  EXPECT_EQ(r.honest["tensors"]["w"]["pieces"][0]["end"], (Json{3, 2}));
  EXPECT_EQ(r.honest["tensors"]["w"]["pieces"][1]["range"], (Json{2, 6}));
  const auto reader = Reader::open(r.path());
  reader->verify();
  for (int64_t begin = 0; begin <= 24; ++begin)
    for (int64_t end = begin; end <= 24; ++end) {
      float got[25] = {};
      got[end - begin] = -1;
      reader->read_range("w", begin, end, got, 4 * (end - begin));
      for (int64_t i = begin; i < end; ++i) ASSERT_EQ(got[i - begin], r.values[i]) << begin << " to " << end;
      ASSERT_EQ(got[end - begin], -1) << "not a byte more";
    }
  const Json info = Json::parse(inspect(r.path()));
  EXPECT_EQ(info["tensors"][0]["pieces"][2]["begin"], (Json{1, 2}));
  EXPECT_EQ(info["tensors"][0]["pieces"][2]["end"], (Json{3, 6}));

  const std::string file = r.path() + "/" + r.honest["tensors"]["w"]["pieces"][2]["file"].get<std::string>();
  std::string bytes = read_text(file);
  bytes.back() ^= 1;
  write_text(file, bytes);
  const auto damaged = Reader::open(r.path());
  float all[24];
  for (const auto& error :
       {error_of([&] { damaged->verify(); }), error_of([&] { damaged->read("w", all, 96); })}) {
    EXPECT_EQ(error.code(), Code::kCheckpointCorrupt);
    EXPECT_NE(error.message().find("rows [1, 3), columns [2, 6)"), std::string::npos) << error.message();
  }
  damaged->read_range("w", 0, 9, all, 36);  // the range does not cover the complete piece
}

TEST(StoredRectangles, GapsOverlapsAndOtherFormsAreRefused) {
  const Rectangles r;
  const std::string piece = "/tensors/w/pieces/2";
  const auto put = [&](const Json& begin, const Json& end, int64_t bytes) {
    Json changed = r.honest["tensors"]["w"]["pieces"][2];
    changed["begin"] = begin, changed["end"] = end, changed["bytes"] = bytes;
    return r.open_with(piece, changed);
  };
  expect_corrupt(put({1, 3}, {3, 6}, 24), "no piece has its elements [8, 9) of 24");
  expect_corrupt(put({1, 1}, {3, 6}, 40), "tensor 'w' has its elements [7, 8) twice");
  expect_corrupt(put({1, 2}, {4, 6}, 48), "tensor 'w' has its elements [20, 24) twice");
  expect_corrupt(put({0, 2}, {2, 6}, 32), "tensor 'w' has its elements [2, 6) twice");
  Json json = r.honest;
  json["tensors"]["w"]["pieces"].erase(2);
  expect_corrupt(error_of([&] { parse_manifest(Rectangles::with_digest(json), "m"); }), "[8, 12) of 24");
  for (const auto& [begin, end] : {std::pair<Json, Json>{{1, 0}, {3, 6}},
                                   {{1, 2}, {2, 6}},
                                   {{1, 2}, {1, 6}},
                                   {{1, 2}, {3, 7}},
                                   {{1, 2}, {5, 6}},
                                   {{3, 2}, {1, 6}},
                                   {{1}, {3}},
                                   {{1, 2, 0}, {3, 6, 1}},
                                   {{0, 0}, {INT64_MAX, 6}}})
    expect_corrupt(put(begin, end, 32), "a piece of tensor 'w'");
  expect_corrupt(put({1, 2}, {3, 6}, 28),
                 "has 28 bytes where elements [8, 12) and those below them, 2 rows, of F32 take 32");
  expect_corrupt(r.open_with("/version", 2), "has version 2");
}

TEST(StoredRectangles, WritersRefuseWhatIsNone) {
  const Scratch scratch;
  ShardedSave save(scratch / "x");
  const float values[24] = {};
  const auto code = [&](std::vector<int64_t> shape, int64_t begin, int64_t end, int64_t rows) {
    return error_of([&] {
             write_shard(save.folder(), 0, 1, {{"w", DType::kF32, shape, begin, end, values, rows}}, 100);
           })
        .code();
  };
  EXPECT_EQ(code({4, 6}, 8, 12, 4), Code::kInvalidArgument) << "rows beyond the last";
  EXPECT_EQ(code({4, 6}, 8, 13, 2), Code::kInvalidArgument) << "more than a row";
  EXPECT_EQ(code({4, 6}, 6, 12, 2), Code::kInvalidArgument) << "all columns: a range";
  EXPECT_EQ(code({4, 6}, 8, 12, 0), Code::kInvalidArgument);
  EXPECT_EQ(code({4, 6}, 8, 12, INT64_MAX), Code::kInvalidArgument);
  EXPECT_EQ(code({24}, 8, 12, 2), Code::kInvalidArgument);
  EXPECT_EQ(code({2, 2, 6}, 8, 12, 2), Code::kInvalidArgument);
}

/// Accepts every division of a matrix into ranges and rectangles, and refuses every division with one piece
/// moved. A slow count of every element decides the expected result.
TEST(StoredRectangles, CoverIsWhatACountOfElementsSays) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const auto up_to = [&](int64_t most) { return std::uniform_int_distribution<int64_t>(0, most)(random); };
  for (int i = 0, whole = 0; i < 20000 || whole < 100; ++i) {
    StoredTensor tensor{DType::kF32, {1 + up_to(4), 1 + up_to(4)}, 0, {}};
    tensor.elements = tensor.shape[0] * tensor.shape[1];
    std::vector<int> count(static_cast<size_t>(tensor.elements));
    for (int64_t pieces = up_to(5); pieces >= 0; --pieces) {
      // Usually begins at missing elements, so that complete tensors occur.
      const auto gap = std::find(count.begin(), count.end(), 0) - count.begin();
      const int64_t begin = up_to(9) > 0 && gap < tensor.elements ? gap : up_to(tensor.elements - 1);
      StoredPiece piece{begin, begin + 1 + up_to(tensor.elements - begin - 1), "f", 0, "d"};
      piece.rows = 1 + up_to(3);
      if (piece.rows > 1 && !tensor.has_rectangle(piece.begin, piece.end, piece.rows)) piece.rows = 1;
      for (int64_t r = 0; r < piece.rows; ++r)
        for (int64_t e = piece.begin; e < piece.end; ++e)
          ++count[static_cast<size_t>(e + r * tensor.columns())];
      tensor.pieces.push_back(piece);
    }
    const bool once = std::all_of(count.begin(), count.end(), [](int n) { return n == 1; });
    whole += once && tensor.has_rectangles();
    std::string text;
    try {
      require_covered("w", &tensor, "here", Code::kIo);
    } catch (const Error& error) {
      text = error.message();
    }
    ASSERT_EQ(text.empty(), once) << text;
    if (once) continue;
    // The elements that the message names are indeed missing or stored twice.
    const int64_t named = std::stoll(text.substr(text.find('[') + 1));
    ASSERT_EQ(text.find("twice") != std::string::npos, count[static_cast<size_t>(named)] > 1) << text;
    ASSERT_NE(count[static_cast<size_t>(named)], 1) << text;
  }
}

/// The number of ranks is unlimited: 1,100 tensors with a piece from each rank. HAWSER_RANKS may set 1,024
/// ranks, which gives more than 2^20 pieces.
TEST(StoredPieces, AsManyAsManyRanksWriteAreRead) {
  const char* const asked = std::getenv("HAWSER_RANKS");
  const int64_t ranks = asked != nullptr ? std::atol(asked) : 64, tensors = 1100;
  Manifest manifest;
  for (int64_t t = 0; t < tensors; ++t) {
    StoredTensor& tensor = manifest.tensors["blocks." + std::to_string(t) + ".weight"];
    tensor = {DType::kF32, {ranks}, ranks, {}};
    for (int64_t r = 0; r < ranks; ++r)
      tensor.pieces.push_back({r, r + 1, "rank-" + std::to_string(r), 8 + 4 * t, "xxh3-128:0"});
  }
  for (int64_t r = 0; r < ranks; ++r)
    manifest.files["rank-" + std::to_string(r)] = {8 + 4 * tensors, "xxh3-128:0"};
  const Manifest again = parse_manifest(manifest_text(manifest), "manifest.json");
  ASSERT_EQ(again.tensors.size(), static_cast<size_t>(tensors));
  for (const auto& [name, tensor] : again.tensors)
    ASSERT_EQ(tensor.pieces.size(), static_cast<size_t>(ranks));
}

TEST(StoredPieces, ValuesAreCounted) {
  EXPECT_EQ(check_json_object(R"({"a": [1, 2, {"b": 3}]})", "x", Code::kIo), 6);
}

/// A manifest is read if memory suffices; otherwise the error is not damage.
TEST(StoredPieces, TheMemoryBoundsTheManifest) {
  if (device::available_memory() > int64_t{1} << 46) GTEST_SKIP() << "there is memory for everything";
  const Scratch scratch;
  const std::string path = scratch / "x/manifest.json";
  write_text(path, "{");
  std::error_code error;
  std::filesystem::resize_file(path, uintmax_t{1} << 46, error);  // a hole takes no space
  if (error) std::filesystem::resize_file(path, uintmax_t{1} << 43, error);
  if (error) GTEST_SKIP() << "no file can be that long here: " << error.message();
  const Error refused = error_of([&] { Reader::open(scratch / "x"); });
  EXPECT_EQ(refused.code(), Code::kOutOfMemory) << refused.message();
  EXPECT_NE(refused.message().find("manifest.json takes "), std::string::npos) << refused.message();
}

}  // namespace stored_pieces_test
}  // namespace hawser::checkpoint
