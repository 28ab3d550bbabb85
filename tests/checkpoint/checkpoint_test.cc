// Checkpoint test: a checkpoint returns what was saved, exists completely or not at all, and detects every
// flipped byte.
#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/reader.h"

#include <sys/file.h>
#include <sys/stat.h>

#include <cstdio>
#include <cstring>

#include "engine/checkpoint/folder_names.h"
#include "engine/checkpoint/sharded_save.h"
#include "engine/checkpoint/stored_tensor.h"
#include "engine/checkpoint/temporary_folder.h"
#include "tests/checkpoint/sample.h"
#include "tests/checkpoint/scratch.h"

namespace hawser::checkpoint {
namespace checkpoint_test {

TEST(Checkpoint, GivesBackWhatWasSaved) {
  const Scratch scratch;
  const Sample sample;
  save(scratch / "runs/one/step-7", sample.tensors, sample.description);
  EXPECT_TRUE(is_checkpoint(scratch / "runs/one/step-7"));
  EXPECT_FALSE(is_checkpoint(scratch / "runs/one"));
  EXPECT_EQ(listing(scratch / "runs/one"), "LATEST step-7");
  EXPECT_EQ(read_text(scratch / "runs/one/LATEST"), "step-7\n");
  const auto reader = Reader::open(scratch / "runs/one/step-7/");
  reader->verify();
  const Description& description = reader->description();
  EXPECT_EQ(description.step, 7);
  EXPECT_EQ(description.state_json, R"({"cursor":18446744073709551615,"list":[1,2],"loss":0.1})");
  EXPECT_EQ(description.config_json, R"({"model":{"width":8}})");
  EXPECT_EQ(description.data_json, "{}");
  EXPECT_EQ(description.extra_files, sample.description.extra_files);
  ASSERT_EQ(reader->tensors().size(), 4u);
  EXPECT_EQ(reader->tensors().at("weight").shape, (std::vector<int64_t>{5, 7}));
  EXPECT_EQ(reader->tensors().at("half").dtype, DType::kBf16);
  std::vector<float> weight(35);
  reader->read("weight", weight.data(), 140);
  EXPECT_EQ(weight, sample.weight);
  int64_t count = 0;
  reader->read("count", &count, 8);
  EXPECT_EQ(count, 42);
  reader->read("none", nullptr, 0);
  EXPECT_EQ(error_of([&] { reader->read("weight", weight.data(), 136); }).code(),
            Code::kCheckpointIncompatible);
  EXPECT_EQ(error_of([&] { reader->read("other", weight.data(), 4); }).code(), Code::kNotFound);
  const std::string info = inspect(scratch / "runs/one/step-7");
  EXPECT_NE(info.find("\"parameters\": 39"), std::string::npos) << info;
}

TEST(Checkpoint, SplitsIntoShardsOfAtMostTheGivenSize) {
  const Scratch scratch;
  const Sample sample;
  save(scratch / "best", sample.tensors, sample.description, 16);
  EXPECT_EQ(listing(scratch.path()), "best");  // only step-* writes the hint file
  EXPECT_EQ(listing(scratch / "best"),
            "extra manifest.json tensors-00001-of-00002.safetensors tensors-00002-of-00002.safetensors");
  const auto reader = Reader::open(scratch / "best");
  reader->verify();
  std::vector<uint16_t> half(3);
  reader->read("half", half.data(), 6);
  EXPECT_EQ(half, sample.half);
}

TEST(Checkpoint, SavesTheSameBytesEachTime) {
  const Scratch scratch;
  const Sample sample;
  for (const char* name : {"a", "b"}) save(scratch / name, sample.tensors, sample.description);
  for (const char* file : {"manifest.json", "tensors-00001-of-00001.safetensors"})
    EXPECT_EQ(read_text(scratch / "a" + "/" + file), read_text(scratch / "b" + "/" + file));
}

TEST(Checkpoint, NeverWritesOverAnything) {
  const Scratch scratch;
  const Sample sample;
  write_text(scratch / "file", "x");
  std::filesystem::create_directory(scratch / "empty");
  std::filesystem::create_symlink("nowhere", scratch / "link");
  for (const char* name : {"file", "empty", "link"})
    EXPECT_EQ(error_of([&] { save(scratch / name, sample.tensors, sample.description); }).code(),
              Code::kAlreadyExists);
  EXPECT_EQ(listing(scratch.path()), "empty file link");
  EXPECT_EQ(read_text(scratch / "file"), "x");
}

TEST(Checkpoint, RefusesWhatItCannotStoreAndLeavesNothing) {
  const Scratch scratch;
  const auto refused = [&](const std::vector<TensorView>& tensors, const Description& description) {
    EXPECT_EQ(error_of([&] { save(scratch / "x", tensors, description); }).code(), Code::kInvalidArgument);
    EXPECT_EQ(listing(scratch.path()), "");
  };
  const Sample sample;
  Description bad = sample.description;
  bad.config_json = "{";
  refused(sample.tensors, bad);
  bad = sample.description;
  bad.state_json = "[1]";
  refused(sample.tensors, bad);
  bad = sample.description;
  bad.extra_files["../x"] = "y";
  refused(sample.tensors, bad);
  refused({sample.tensors[0], sample.tensors[0]}, sample.description);
  refused({{"w", DType::kF32, {1ll << 40, 1ll << 40}, nullptr}}, sample.description);
  refused({{"w", DType::kF32, {-1}, nullptr}}, sample.description);
  refused({{"", DType::kF32, {0}, nullptr}}, sample.description);
}

/// Opens, verifies and reads everything, as a load does.
void load_all(const std::string& path) {
  const auto reader = Reader::open(path);
  reader->verify();
}

/// Overwrites one byte in place: rewriting complete files thousands of times keeps some file systems busy for
/// minutes.
void put_byte(const std::string& path, size_t at, char byte) {
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(static_cast<std::streamoff>(at));
  file.put(byte);
  ASSERT_TRUE(file.good()) << path;
}

/// Saves the sample from two ranks, so that tensors are stored in pieces.
void save_by_two(const std::string& path, const Sample& sample) {
  ShardedSave save(path);
  std::vector<std::string> indexes;
  for (int rank = 0; rank < 2; ++rank) {
    std::vector<PieceView> pieces;
    for (const TensorView& t : sample.tensors) {
      const int64_t elements = *element_count(t.dtype, t.shape);
      const int64_t begin = elements * rank / 2, end = elements * (rank + 1) / 2;
      if (elements == 0 && rank > 0) continue;
      pieces.push_back({t.name, t.dtype, t.shape, begin, end,
                        static_cast<const char*>(t.data) + begin * dtype_bytes(t.dtype)});
    }
    indexes.push_back(write_shard(save.folder(), rank, 2, pieces, 1 << 20));
  }
  save.finish(indexes, sample.description);
}

/// Flips every byte of every file, including the manifest's white space and its own digest.
TEST(Checkpoint, FindsEachFlippedByte) {
  const Scratch scratch;
  const Sample sample;
  save(scratch / "one", sample.tensors, sample.description);
  save_by_two(scratch / "two", sample);
  int64_t flips = 0;
  for (const std::string& folder : {scratch / "one", scratch / "two"}) {
    load_all(folder);
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
      if (!entry.is_regular_file()) continue;
      const std::string path = entry.path(), good = read_text(path);
      for (size_t i = 0; i < good.size(); ++i)
        for (const int mask : {0x01, 0x80}) {
          put_byte(path, i, static_cast<char>(good[i] ^ mask));
          const Error error = error_of([&] { load_all(folder); });
          EXPECT_EQ(error.code(), Code::kCheckpointCorrupt)  // never reported as another kind
              << path << " byte " << i << ": " << error.message();
          EXPECT_NE(error.message().find(folder), std::string::npos) << error.message();
          put_byte(path, i, good[i]);
          ++flips;
        }
    }
    load_all(folder);
  }
  std::printf("%lld flips\n", static_cast<long long>(flips));
  EXPECT_GT(flips, 10000);
}

TEST(Checkpoint, NamesFileTensorAndBytesOfDamage) {
  const Scratch scratch;
  const Sample sample;
  save(scratch / "x", sample.tensors, sample.description);
  const std::string path = scratch / "x/tensors-00001-of-00001.safetensors";
  std::string text = read_text(path);
  text[text.size() - 8] ^= 4;  // this byte belongs to the last tensor: count
  write_text(path, text);
  const Error error = error_of([&] { load_all(scratch / "x"); });
  EXPECT_NE(error.message().find("tensors-00001-of-00001.safetensors: tensor 'count' (bytes "),
            std::string::npos)
      << error.message();
  int64_t count;
  EXPECT_EQ(error_of([&] { Reader::open(scratch / "x")->read("count", &count, 8); }).code(),
            Code::kCheckpointCorrupt);
}

/// Ranks divide the files: each file is verified by exactly one of them.
TEST(Checkpoint, PartsVerifyEachFileOnce) {
  const Scratch scratch;
  const Sample sample;
  save(scratch / "x", sample.tensors, sample.description, 8);
  std::vector<std::string> shards;
  for (const auto& entry : std::filesystem::directory_iterator(scratch / "x"))
    if (entry.path().extension() == ".safetensors") shards.push_back(entry.path());
  ASSERT_GE(shards.size(), 3u);
  for (const int64_t parts : {1, 2, 3, 50})
    for (const std::string& shard : shards) {
      const std::string good = read_text(shard);
      put_byte(shard, good.size() - 1, static_cast<char>(good.back() ^ 1));
      int64_t found = 0;
      for (int64_t part = 0; part < parts; ++part) try {
          Reader::open(scratch / "x")->verify(part, parts);
        } catch (const Error& error) {
          EXPECT_TRUE(is_damage(error));
          ++found;
        }
      EXPECT_EQ(found, 1) << shard << " in " << parts << " parts";
      put_byte(shard, good.size() - 1, good.back());
    }
}

TEST(Checkpoint, FindsTruncationAtEveryLengthAndMissingFiles) {
  const Scratch scratch;
  const Sample sample;
  save(scratch / "x", sample.tensors, sample.description);
  for (const char* name : {"manifest.json", "tensors-00001-of-00001.safetensors", "extra/config.json"}) {
    const std::string path = scratch / "x" + "/" + name, good = read_text(path);
    for (size_t size = good.size(); size-- > 0;) {
      std::filesystem::resize_file(path, size);
      EXPECT_EQ(error_of([&] { load_all(scratch / "x"); }).code(), Code::kCheckpointCorrupt)
          << name << " " << size;
    }
    std::filesystem::remove(path);
    EXPECT_EQ(error_of([&] { load_all(scratch / "x"); }).code(),
              std::string(name) == "manifest.json" ? Code::kNotFound : Code::kCheckpointCorrupt);
    write_text(path, good);
  }
}

TEST(Checkpoint, DoesNotFollowLinksOrOpenOtherThings) {
  const Scratch scratch;
  const Sample sample;
  save(scratch / "x", sample.tensors, sample.description);
  for (const char* name : {"tensors-00001-of-00001.safetensors", "extra/config.json"}) {
    const std::string path = scratch / "x" + "/" + name;
    std::filesystem::rename(path, scratch / "moved");
    std::filesystem::create_symlink(scratch / "moved", path);
    EXPECT_EQ(error_of([&] { load_all(scratch / "x"); }).code(), Code::kCheckpointCorrupt) << name;
    std::filesystem::remove(path);
    ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
    EXPECT_EQ(error_of([&] { load_all(scratch / "x"); }).code(), Code::kCheckpointCorrupt) << name;
    std::filesystem::remove(path);
    std::filesystem::rename(scratch / "moved", path);
  }
  std::filesystem::rename(scratch / "x/manifest.json", scratch / "moved");
  std::filesystem::create_symlink(scratch / "moved", scratch / "x/manifest.json");
  EXPECT_FALSE(is_checkpoint(scratch / "x"));
}

TEST(Checkpoint, RefusesDeepAndForeignManifests) {
  const Scratch scratch;
  std::filesystem::create_directory(scratch / "x");
  for (const std::string& text :
       {std::string(1'000'000, '['), "{\"a\":" + std::string(1'000'000, '['), std::string("{}"),
        std::string("{\"format\": 1}"), std::string("{\"a\": 1, \"a\": 2}"), std::string()}) {
    write_text(scratch / "x/manifest.json", text);
    EXPECT_EQ(error_of([&] { Reader::open(scratch / "x"); }).code(), Code::kCheckpointCorrupt)
        << text.substr(0, 20);
  }
  write_text(scratch / "x/manifest.json", R"({"format": "hawser-checkpoint", "version": 5})");
  const Error error = error_of([&] { Reader::open(scratch / "x"); });
  EXPECT_EQ(error.code(), Code::kCheckpointIncompatible);
  EXPECT_NE(error.message().find("newer"), std::string::npos);
}

TEST(CheckpointFolder, NewestValidSkipsDamagedOnesAndSaysSo) {
  const Scratch scratch;
  EXPECT_EQ(newest_valid(scratch / "none", nullptr), "");
  EXPECT_EQ(newest_valid(scratch.path(), nullptr), "");
  for (const int64_t step : {2, 9, 10}) {
    const Sample sample(step);
    save(scratch / ("step-" + std::to_string(step)), sample.tensors, sample.description);
  }
  std::filesystem::create_directory(scratch / "step-99");  // no checkpoint at all
  write_text(scratch / "step-100", "a file");
  std::filesystem::create_directory(scratch / "step-1x");
  std::vector<Damaged> damaged;
  EXPECT_EQ(newest_valid(scratch.path(), &damaged), scratch / "step-10");
  ASSERT_EQ(damaged.size(), 1u);
  EXPECT_EQ(damaged[0].name, "step-99");
  EXPECT_EQ(damaged[0].problem, "has no manifest.json");
  std::filesystem::resize_file(scratch / "step-10/tensors-00001-of-00001.safetensors", 100);
  damaged.clear();
  EXPECT_EQ(newest_valid(scratch.path(), &damaged), scratch / "step-9");
  ASSERT_EQ(damaged.size(), 2u);
  EXPECT_EQ(damaged[1].name, "step-10");
  EXPECT_NE(damaged[1].problem.find("tensors-00001-of-00001.safetensors"), std::string::npos)
      << damaged[1].problem;
}

TEST(CheckpointFolder, TheBestIsTheNewestWhereItsStepIs) {
  const Scratch scratch;
  const auto save_at = [&](const char* name, int64_t step) {
    const Sample sample(step);
    save(scratch / name, sample.tensors, sample.description);
  };
  save_at("best", 3);
  EXPECT_EQ(newest_valid(scratch.path(), nullptr), scratch / "best");
  save_at("step-2", 2);
  EXPECT_EQ(newest_valid(scratch.path(), nullptr), scratch / "best");
  save_at("step-3", 3);
  EXPECT_EQ(newest_valid(scratch.path(), nullptr), scratch / "step-3");
  save_at("step-10", 10);
  EXPECT_EQ(newest_valid(scratch.path(), nullptr), scratch / "step-10");
  write_text(scratch / "best/manifest.json", "{");
  std::vector<Damaged> damaged;
  EXPECT_EQ(newest_valid(scratch.path(), &damaged), scratch / "step-10");
  ASSERT_EQ(damaged.size(), 1u);
  EXPECT_EQ(damaged[0].name, "best");
}

/// A run may need a checkpoint that this Hawser cannot read, so an older one must not replace it.
TEST(CheckpointFolder, ANewerVersionIsAnErrorAndNoDamage) {
  const Scratch scratch;
  const Sample sample;
  save(scratch / "step-1", sample.tensors, sample.description);
  write_text(scratch / "step-2/manifest.json", R"({"format": "hawser-checkpoint", "version": 5})");
  const Error error = error_of([&] { newest_valid(scratch.path(), nullptr); });
  EXPECT_EQ(error.code(), Code::kCheckpointIncompatible);
  EXPECT_NE(error.message().find("step-2/manifest.json has version 5"), std::string::npos) << error.message();
  EXPECT_EQ(error_of([&] { retain(scratch.path(), 1); }).code(), Code::kCheckpointIncompatible);
  EXPECT_EQ(listing(scratch.path()), "LATEST step-1 step-2");
}

TEST(CheckpointFolder, AFlippedVersionIsDamageAndNoNewerVersion) {
  const Scratch scratch;
  const Sample sample;
  for (const char* name : {"step-1", "step-2"}) save(scratch / name, sample.tensors, sample.description);
  std::string text = read_text(scratch / "step-2/manifest.json");
  const size_t at = text.find("\"version\": 1");
  ASSERT_NE(at, std::string::npos);
  text[at + 11] = '9';
  write_text(scratch / "step-2/manifest.json", text);
  EXPECT_EQ(newest_valid(scratch.path(), nullptr), scratch / "step-1");
}

TEST(CheckpointFolder, WhereNoneIsWholeItSaysWhatIsWrongWithEach) {
  const Scratch scratch;
  EXPECT_EQ(error_of([&] { fail_no_valid_checkpoint(scratch.path(), {}); }).code(), Code::kNotFound);
  const Error error = error_of([&] { fail_no_valid_checkpoint(scratch.path(), {{"step-1", "is bad"}}); });
  EXPECT_EQ(error.code(), Code::kCheckpointCorrupt);
  EXPECT_NE(error.message().find("step-1: is bad"), std::string::npos) << error.message();
}

TEST(CheckpointFolder, RetainKeepsTheNewestAndAlwaysAValidOne) {
  const Scratch scratch;
  for (int64_t step = 1; step <= 5; ++step) {
    const Sample sample(step);
    save(scratch / ("step-" + std::to_string(step)), sample.tensors, sample.description);
  }
  save(scratch / "best", Sample().tensors, Sample().description);
  retain(scratch.path(), 0);
  EXPECT_EQ(listing(scratch.path()), "LATEST best step-1 step-2 step-3 step-4 step-5");
  retain(scratch.path(), 4);
  EXPECT_EQ(listing(scratch.path()), "LATEST best step-2 step-3 step-4 step-5");
  write_text(scratch / "step-4/manifest.json", "{}");
  write_text(scratch / "step-5/manifest.json", "{}");
  retain(scratch.path(), 2);  // neither of the two newest is valid, so the newest valid one stays as well
  EXPECT_EQ(listing(scratch.path()), "LATEST best step-3 step-4 step-5");
  write_text(scratch / "step-3/manifest.json", "{}");
  retain(scratch.path(), 2);  // none is valid, so nothing is removed
  EXPECT_EQ(listing(scratch.path()), "LATEST best step-3 step-4 step-5");
}

TEST(CheckpointFolder, SweepsLeftOversButNoLivingSave) {
  const Scratch scratch;
  write_text(scratch / "step-3.0123456789abcdef.tmp/tensors-00001-of-00001.safetensors", "half");
  write_text(scratch / "step-3.0123456789abcdef.tmp/extra/config.json", "half");
  write_text(scratch / "LATEST.0123456789abcdef.tmp", "step");
  write_text(scratch / "notes.tmp", "not ours");
  write_text(scratch / "step-3.0123.tmp/x", "not ours");
  const TemporaryFolder living(scratch / "step-4");
  retain(scratch.path(), 3);
  EXPECT_EQ(listing(scratch.path()).substr(0, 33), "notes.tmp step-3.0123.tmp step-4.")
      << listing(scratch.path());
  EXPECT_TRUE(std::filesystem::exists(living.folder().path()));
}

TEST(CheckpointFolder, NamesAreRecognised) {
  EXPECT_EQ(step_of_name("step-0"), 0);
  EXPECT_EQ(step_of_name("step-123"), 123);
  for (const char* name :
       {"step-", "step", "step--1", "step-1a", "Step-1", "step-1.tmp", "step-9999999999999999999"})
    EXPECT_FALSE(step_of_name(name).has_value()) << name;
  EXPECT_TRUE(is_temporary_name(temporary_name("step-1")));
  EXPECT_FALSE(is_temporary_name("step-1.tmp"));
}

}  // namespace checkpoint_test
}  // namespace hawser::checkpoint
