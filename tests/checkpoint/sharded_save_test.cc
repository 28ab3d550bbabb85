// Sharded save test: several ranks write one checkpoint. For any division the same bytes are read back;
// mismatches are reported by name; a failed save leaves nothing.
#include "engine/checkpoint/sharded_save.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "engine/checkpoint/reader.h"
#include "tests/checkpoint/sample.h"
#include "tests/checkpoint/scratch.h"

namespace hawser::checkpoint {
namespace sharded_save_test {

/// One tensor and its bytes.
struct Owned {
  std::string name;
  DType dtype;
  std::vector<int64_t> shape;
  int64_t elements;
  std::vector<char> bytes;

  PieceView piece(int64_t begin, int64_t end) const {
    return {name, dtype, shape, begin, end, bytes.data() + begin * dtype_bytes(dtype)};
  }
};

class Random {
 public:
  Random() : seed_(std::random_device()()), engine_(seed_) {}
  unsigned seed() const { return seed_; }
  int64_t up_to(int64_t most) { return std::uniform_int_distribution<int64_t>(0, most)(engine_); }

 private:
  unsigned seed_;
  std::mt19937_64 engine_;
};

Owned random_tensor(const std::string& name, Random* random) {
  constexpr DType kTypes[] = {DType::kF32, DType::kBf16, DType::kF64, DType::kU8, DType::kI64};
  Owned tensor{name, kTypes[random->up_to(4)], {}, 1, {}};
  for (int64_t dims = random->up_to(4); dims > 0; --dims) tensor.shape.push_back(random->up_to(9));
  for (const int64_t dim : tensor.shape) tensor.elements *= dim;
  tensor.bytes.resize(static_cast<size_t>(tensor.elements * dtype_bytes(tensor.dtype)));
  for (char& byte : tensor.bytes) byte = static_cast<char>(random->up_to(255));
  return tensor;
}

using PiecesOfRanks = std::vector<std::vector<PieceView>>;

/// Cuts each tensor at random places, sometimes into empty pieces, and gives the pieces to random ranks.
PiecesOfRanks cut(const std::vector<Owned>& tensors, int world, Random* random) {
  PiecesOfRanks ranks(static_cast<size_t>(world));
  const auto any = [&]() -> auto& { return ranks[static_cast<size_t>(random->up_to(world - 1))]; };
  for (const Owned& tensor : tensors) {
    if (tensor.elements == 0) any().push_back(tensor.piece(0, 0));
    for (int64_t at = 0; at < tensor.elements;) {
      const int64_t end = random->up_to(3) == 0 ? tensor.elements : at + random->up_to(tensor.elements - at);
      any().push_back(tensor.piece(at, end));
      at = end;
    }
  }
  return ranks;
}

/// Writes from each rank on a thread of its own.
std::vector<std::string> write_all(const std::string& folder, const PiecesOfRanks& ranks,
                                   int64_t shard_bytes) {
  std::vector<std::string> indexes(ranks.size());
  std::vector<std::thread> threads;
  for (size_t r = 0; r < ranks.size(); ++r)
    threads.emplace_back([&, r] {
      indexes[r] =
          write_shard(folder, static_cast<int>(r), static_cast<int>(ranks.size()), ranks[r], shard_bytes);
    });
  for (std::thread& thread : threads) thread.join();
  return indexes;
}

void save_all(const std::string& path, const PiecesOfRanks& ranks, int64_t shard_bytes = 1 << 20) {
  ShardedSave save(path);
  save.finish(write_all(save.folder(), ranks, shard_bytes), Sample().description);
}

void expect_range(const Reader& reader, const Owned& tensor, int64_t begin, int64_t end) {
  const int64_t size = dtype_bytes(tensor.dtype);
  std::vector<char> got(static_cast<size_t>((end - begin) * size) + 1, 'x');
  reader.read_range(tensor.name, begin, end, got.data(), (end - begin) * size);
  EXPECT_TRUE(std::equal(got.begin(), got.end() - 1, tensor.bytes.begin() + begin * size))
      << tensor.name << " [" << begin << ", " << end << ")";
  EXPECT_EQ(got.back(), 'x') << "written past the end";
}

TEST(ShardedSave, AnyCutReadsBackTheSameBytes) {
  Random random;
  std::printf("seed %u\n", random.seed());
  SCOPED_TRACE("seed " + std::to_string(random.seed()));
  const Scratch scratch;
  for (int trial = 0; trial < 48; ++trial) {
    const int world = trial % 8 + 1;
    std::vector<Owned> tensors;
    for (int i = 0; i < 8; ++i) tensors.push_back(random_tensor("t" + std::to_string(i), &random));
    const std::string path = scratch / std::to_string(trial);
    save_all(path, cut(tensors, world, &random), random.up_to(3) == 0 ? 1 : 40 * random.up_to(100));
    const auto reader = Reader::open(path);
    reader->verify();
    ASSERT_EQ(reader->tensors().size(), tensors.size());
    EXPECT_EQ(reader->description().extra_files, Sample().description.extra_files);
    for (const Owned& tensor : tensors) {
      EXPECT_EQ(reader->tensors().at(tensor.name).dtype, tensor.dtype);
      EXPECT_EQ(reader->tensors().at(tensor.name).shape, tensor.shape);
      std::vector<char> whole(tensor.bytes.size());
      reader->read(tensor.name, whole.data(), static_cast<int64_t>(whole.size()));
      EXPECT_EQ(whole, tensor.bytes) << tensor.name;
      for (int i = 0; i < 20; ++i) {
        const int64_t begin = random.up_to(tensor.elements);
        expect_range(*reader, tensor, begin, begin + random.up_to(tensor.elements - begin));
      }
    }
  }
}

/// Ten floats, cut after the third and the seventh, with a description.
struct Ten {
  Owned tensor{"w", DType::kF32, {2, 5}, 10, std::vector<char>(40, 'a')};
  PiecesOfRanks thirds = {{tensor.piece(0, 3)}, {tensor.piece(3, 7)}, {tensor.piece(7, 10)}};
};

TEST(ShardedSave, StoresPiecesUnderTheirRangesAndWholeTensorsUnderTheirNames) {
  const Scratch scratch;
  Ten ten;
  const Owned whole{"v", DType::kU8, {2, 2}, 4, std::vector<char>(4, 'b')};
  ten.thirds[1].push_back(whole.piece(0, 4));
  save_all(scratch / "step-7", ten.thirds);
  EXPECT_EQ(listing(scratch.path()), "LATEST step-7");
  EXPECT_EQ(listing(scratch / "step-7"),
            "extra manifest.json tensors-rank-00000-of-00003-00001-of-00001.safetensors "
            "tensors-rank-00001-of-00003-00001-of-00001.safetensors "
            "tensors-rank-00002-of-00003-00001-of-00001.safetensors");
  const std::string shard =
      read_text(scratch / "step-7/tensors-rank-00001-of-00003-00001-of-00001.safetensors");
  EXPECT_NE(shard.find(R"("w[3:7]":{"dtype":"F32","shape":[4],)"), std::string::npos) << shard;
  EXPECT_NE(shard.find(R"("v":{"dtype":"U8","shape":[2,2],)"), std::string::npos) << shard;
  const auto info = nlohmann::json::parse(inspect(scratch / "step-7"));
  EXPECT_EQ(info["version"], 2);
  EXPECT_EQ(info["shards"], 3);
  EXPECT_EQ(info["parameters"], 14);
  EXPECT_EQ(info["tensors"][1]["pieces"].size(), 3u);
  EXPECT_EQ(info["tensors"][1]["pieces"][1]["range"], (std::vector<int64_t>{3, 7}));
  EXPECT_EQ(info["files"][3]["pieces"], 2) << info["files"];
}

TEST(ShardedSave, ProcessesWriteAsThreadsDo) {
  const Scratch scratch;
  const Ten ten;
  save_all(scratch / "threads", ten.thirds);
  ShardedSave save(scratch / "processes");
  std::vector<std::string> indexes;
  for (int rank = 0; rank < 3; ++rank) {
    const std::string told = scratch / ("index" + std::to_string(rank));
    const pid_t child = fork();
    if (child == 0) {
      std::ofstream(told) << write_shard(save.folder(), rank, 3, ten.thirds[static_cast<size_t>(rank)], 100);
      _exit(0);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_EQ(status, 0);
    indexes.push_back(read_text(told));
  }
  save.finish(indexes, Sample().description);
  EXPECT_EQ(read_text(scratch / "processes/manifest.json"), read_text(scratch / "threads/manifest.json"));
}

TEST(ShardedSave, FindsGapsOverlapsAndDisagreementByName) {
  const Scratch scratch;
  save(scratch / "old", Sample().tensors, Sample().description);
  const Ten ten;
  const Owned& w = ten.tensor;
  const auto refused = [&](const PiecesOfRanks& ranks, const std::string& text) {
    const Error error = error_of([&] { save_all(scratch / "new", ranks); });
    EXPECT_EQ(error.code(), Code::kInvalidArgument) << error.message();
    EXPECT_NE(error.message().find(text), std::string::npos) << error.message();
    EXPECT_EQ(listing(scratch.path()), "old");
  };
  refused({{w.piece(0, 3)}, {w.piece(4, 10)}}, "tensor 'w' is incomplete: no piece has its elements [3, 4)");
  refused({{w.piece(0, 3)}, {w.piece(3, 9)}}, "no piece has its elements [9, 10)");
  refused({{w.piece(1, 10)}, {}}, "no piece has its elements [0, 1)");
  refused({{w.piece(4, 4)}, {w.piece(0, 0)}}, "no piece has its elements [0, 10)");
  refused({{w.piece(0, 5)}, {w.piece(3, 10)}}, "tensor 'w' has its elements [3, 5) twice, in ");
  refused({{w.piece(0, 10)}, {w.piece(2, 4)}}, "[2, 4) twice");
  refused({{w.piece(0, 10)}, {w.piece(0, 10)}}, "[0, 10) twice");
  refused({{w.piece(0, 5), w.piece(5, 8)}, {w.piece(5, 10)}}, "[5, 8) twice");
  const Owned none{"none", DType::kF32, {0}, 0, {}};
  refused({{none.piece(0, 0)}, {none.piece(0, 0)}}, "'none'");
  Owned other = w;
  other.shape = {5, 2};
  refused({{w.piece(0, 5)}, {other.piece(5, 10)}}, "tensor 'w' is F32 [5, 2] on rank 1, but F32 [2, 5]");
  Reader::open(scratch / "old")->verify();
}

TEST(ShardedSave, RefusesPiecesThatCannotBe) {
  const Scratch scratch;
  const Ten ten;
  const ShardedSave save(scratch / "x");
  const auto refused = [&](const std::vector<PieceView>& pieces, int rank = 0, int world = 2) {
    EXPECT_EQ(error_of([&] { write_shard(save.folder(), rank, world, pieces, 100); }).code(),
              Code::kInvalidArgument);
  };
  PieceView piece = ten.tensor.piece(0, 3);
  refused({piece}, 2);
  refused({piece}, -1);
  refused({piece}, 0, 0);
  refused({piece, piece});
  piece.end = 11;
  refused({piece});
  piece = ten.tensor.piece(0, 3);
  piece.begin = -1;
  refused({piece});
  piece.begin = 4;
  refused({piece});
  piece = ten.tensor.piece(0, 3);
  piece.data = nullptr;
  refused({piece});
  piece = ten.tensor.piece(0, 3);
  piece.dtype = DType::kI32;
  refused({ten.tensor.piece(3, 5), piece});
  piece.shape = {int64_t{1} << 40, int64_t{1} << 40};
  refused({piece});
  EXPECT_EQ(error_of([&] { write_shard(scratch / "none", 0, 1, {}, 100); }).code(), Code::kNotFound);
}

TEST(ShardedSave, AWriterThatFailsLeavesNothingAndTheOldStays) {
  const Scratch scratch;
  const Sample sample(3);
  save(scratch / "step-3", sample.tensors, sample.description);
  const Ten ten;
  {
    const ShardedSave save(scratch / "step-4");
    write_shard(save.folder(), 0, 3, ten.thirds[0], 100);
    PieceView bad = ten.thirds[1][0];
    bad.end = 99;
    EXPECT_EQ(error_of([&] { write_shard(save.folder(), 1, 3, {bad}, 100); }).code(), Code::kInvalidArgument);
    retain(scratch.path(), 1);  // called as by another process: the running save survives
    EXPECT_TRUE(std::filesystem::exists(save.folder()));
    EXPECT_FALSE(is_checkpoint(scratch / "step-4"));
  }
  EXPECT_EQ(listing(scratch.path()), "LATEST step-3");
  EXPECT_EQ(newest_valid(scratch.path(), nullptr), scratch / "step-3");
  {
    const ShardedSave save(scratch / "step-4");
    std::filesystem::remove_all(save.folder());  // the folder is removed while the save is open
  }
  EXPECT_EQ(listing(scratch.path()), "LATEST step-3");
  EXPECT_EQ(error_of([&] { ShardedSave(scratch / "step-3"); }).code(), Code::kAlreadyExists);
}

TEST(ShardedSave, ChecksWhatTheRanksReport) {
  const Scratch scratch;
  const Ten ten;
  const auto code_of = [&](const auto& change) {
    ShardedSave save(scratch / "x");
    std::vector<std::string> indexes = write_all(save.folder(), ten.thirds, 100);
    change(save.folder(), &indexes);
    return error_of([&] { save.finish(indexes, Sample().description); }).code();
  };
  using Indexes = std::vector<std::string>;
  const std::string shard = "/tensors-rank-00001-of-00003-00001-of-00001.safetensors";
  EXPECT_EQ(code_of([](const std::string&, Indexes* i) { std::swap((*i)[0], (*i)[1]); }),
            Code::kInvalidArgument);
  EXPECT_EQ(code_of([](const std::string&, Indexes* i) { (*i)[1] = (*i)[0]; }), Code::kInvalidArgument);
  EXPECT_EQ(code_of([](const std::string&, Indexes* i) { i->pop_back(); }), Code::kInvalidArgument);
  EXPECT_EQ(code_of([](const std::string&, Indexes* i) { i->clear(); }), Code::kInvalidArgument);
  EXPECT_EQ(code_of([](const std::string&, Indexes* i) { (*i)[2].pop_back(); }), Code::kCheckpointCorrupt);
  EXPECT_EQ(code_of([](const std::string&, Indexes* i) { (*i)[2] = "{}"; }), Code::kCheckpointCorrupt);
  EXPECT_EQ(code_of([&](const std::string& f, Indexes*) { std::filesystem::remove(f + shard); }), Code::kIo);
  EXPECT_EQ(code_of([&](const std::string& f, Indexes*) { std::filesystem::resize_file(f + shard, 20); }),
            Code::kIo);
  EXPECT_EQ(listing(scratch.path()), "");
}

TEST(ShardedSave, NamesTensorAndElementsOfADamagedPiece) {
  const Scratch scratch;
  const Ten ten;
  save_all(scratch / "x", ten.thirds);
  const std::string path = scratch / "x/tensors-rank-00001-of-00003-00001-of-00001.safetensors";
  std::string text = read_text(path);
  text.back() ^= 1;  // this byte belongs to element 6
  write_text(path, text);
  const auto reader = Reader::open(scratch / "x");
  char bytes[40];
  for (const Error& error :
       {error_of([&] { reader->verify(); }), error_of([&] { reader->read("w", bytes, 40); }),
        error_of([&] { reader->read_range("w", 2, 8, bytes, 24); })}) {
    EXPECT_EQ(error.code(), Code::kCheckpointCorrupt);
    EXPECT_NE(
        error.message().find("rank-00001-of-00003-00001-of-00001.safetensors: tensor 'w', elements [3, 7)"),
        std::string::npos)
        << error.message();
  }
  expect_range(*reader, ten.tensor, 0, 3);
  expect_range(*reader, ten.tensor, 7, 10);
}

TEST(ShardedSave, ReadsMoreFilesThanMayBeOpen) {
  const Scratch scratch;
  const Owned tensor{"w", DType::kU8, {300}, 300, std::vector<char>(300, 'z')};
  {
    ShardedSave save(scratch / "x");
    std::vector<std::string> indexes;
    for (int r = 0; r < 300; ++r)
      indexes.push_back(write_shard(save.folder(), r, 300, {tensor.piece(r, r + 1)}, 1));
    save.finish(indexes, {});
  }
  rlimit old;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &old), 0);
  const rlimit few{std::min<rlim_t>(200, old.rlim_max), old.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  const auto reader = Reader::open(scratch / "x");
  reader->verify();
  expect_range(*reader, tensor, 10, 290);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &old), 0);
}

}  // namespace sharded_save_test
}  // namespace hawser::checkpoint
