// Save fault test: the N-th file operation of a save fails, for every N. The save must throw and leave
// nothing behind, the previous checkpoint must still load, and the next save must work. System calls are
// replaced at link time (--wrap), so this covers everything that engine/checkpoint/file_io.cc does.
#include <errno.h>
#include <sys/stat.h>
#include <sys/types.h>

#include <functional>

#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/gguf/export_file.h"
#include "engine/checkpoint/hf/hf_config.h"
#include "engine/checkpoint/reader.h"
#include "engine/checkpoint/sharded_save.h"
#include "tests/checkpoint/planted_fault.h"
#include "tests/checkpoint/scratch.h"

using hawser::checkpoint::fails;
using hawser::checkpoint::fault;

extern "C" {
ssize_t __real_write(int, const void*, size_t);
int __real_fsync(int);
int __real_mkdir(const char*, mode_t);
int __real_mkdirat(int, const char*, mode_t);
int __real_renameat2(int, const char*, int, const char*, unsigned);

ssize_t __wrap_write(int fd, const void* data, size_t n) {
  if (fails()) {
    if (fault.error != EINTR && n > 1)
      return __real_write(fd, data, n / 2);  // a short write first; a retry of the rest fails
    return -1;
  }
  return __real_write(fd, data, n);
}
int __wrap_fsync(int fd) { return fails() ? -1 : __real_fsync(fd); }
int __wrap_mkdir(const char* path, mode_t mode) { return fails() ? -1 : __real_mkdir(path, mode); }
int __wrap_mkdirat(int fd, const char* path, mode_t mode) {
  return fails() ? -1 : __real_mkdirat(fd, path, mode);
}
int __wrap_renameat2(int a, const char* from, int b, const char* to, unsigned flags) {
  return fails() ? -1 : __real_renameat2(a, from, b, to, flags);
}
}

namespace hawser::checkpoint {
namespace {

void verify_checkpoint(const std::string& path) { Reader::open(path)->verify(); }

/// `save_next` writes "next" next to "best", and `verify` throws if one of them is damaged. Returns how many
/// runs of `save_next` failed.
int let_each_operation_fail(const Scratch& scratch, const std::function<void()>& save_next,
                            const std::function<void(const std::string&)>& verify = verify_checkpoint) {
  int failed = 0;
  for (const int error : {EIO, ENOSPC, EINTR}) {
    for (int n = 0; n < 200; ++n) {
      fault = {n, error, false};
      bool thrown = false;
      try {
        save_next();
      } catch (const Error& e) {
        thrown = true;
        EXPECT_FALSE(e.message().empty());
      }
      const bool happened = fault.happened;
      fault = {};
      if (thrown) {
        ++failed;
        EXPECT_EQ(listing(scratch.path()), "best") << "operation " << n;
        verify(scratch / "best");
      } else {
        verify(scratch / "next");  // interrupted and short operations are resumed
        std::filesystem::remove_all(scratch / "next");
      }
      if (!happened) break;
      EXPECT_LT(n, 199) << "a save does not come to its end";
    }
  }
  return failed;
}

TEST(SaveFault, EveryFailingOperationLeavesTheOldAndNothingElse) {
  const Scratch scratch;
  const std::vector<float> weight(100, 1.5f);
  const std::vector<TensorView> tensors = {{"a", DType::kF32, {50}, weight.data()},
                                           {"b", DType::kF32, {100}, weight.data()}};
  Description description;
  description.extra_files["config.json"] = "{}";
  save(scratch / "best", tensors, description, 200);
  EXPECT_GT(let_each_operation_fail(scratch, [&] { save(scratch / "next", tensors, description, 200); }), 20);
}

TEST(SaveFault, AnyRankThatFailsLeavesTheOldAndNothingElse) {
  const Scratch scratch;
  const std::vector<float> weight(100, 1.5f);
  Description description;
  description.extra_files["config.json"] = "{}";
  save(scratch / "best", {{"a", DType::kF32, {100}, weight.data()}}, description);
  const auto save_next = [&] {
    ShardedSave save(scratch / "next");
    std::vector<std::string> indexes;
    for (int rank = 0; rank < 3; ++rank)
      indexes.push_back(write_shard(
          save.folder(), rank, 3,
          {{"a", DType::kF32, {100}, rank * 30, rank == 2 ? 100 : rank * 30 + 30, weight.data() + rank * 30}},
          1000));
    save.finish(indexes, description);
  };
  EXPECT_GT(let_each_operation_fail(scratch, save_next), 20);
}

TEST(SaveFault, AGgufFileIsCompleteOrNotThere) {
  const Scratch scratch;
  nn::ModelConfig model;
  {
    const hf::HfConfig read = hf::read_config(R"({"model_type": "llama", "hidden_size": 8, "vocab_size": 30,
      "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8})",
                                              {}, hf::Strictness::kLenient);
    model = read.model;
  }
  const nn::ParameterTable table(model);
  const std::vector<float> weights(240, 1.5f);
  const auto write = [&](const std::string& path) {
    gguf::export_file(
        path, model, table, [&](const std::string&) { return weights.data(); }, {}, "f32", [] {});
  };
  write(scratch / "best");
  const std::string expected = read_text(scratch / "best");
  const auto verify = [&](const std::string& path) { EXPECT_EQ(read_text(path), expected); };
  EXPECT_GT(let_each_operation_fail(
                scratch, [&] { write(scratch / "next"); }, verify),
            8);
}

}  // namespace
}  // namespace hawser::checkpoint
