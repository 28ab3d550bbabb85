// Tests that any mesh loads the checkpoint of any other mesh with bit-identical weights and moments. Under
// the same mesh, training then continues bit for bit.
#include <gtest/gtest.h>

#include "tests/harness/equal_tensors.h"
#include "tests/harness/small_config.h"

namespace hawser {
namespace mesh_resume_test {

using train::Trainer;

struct Mesh {
  int32_t ranks;
  const char* members;  // members of the config, as JSON
};

constexpr Mesh kMeshes[] = {
    {1, ""},
    {2, R"("mesh": {"tp": 2})"},
    {4, R"("mesh": {"tp": 4, "sequence_parallel": false})"},
    {6, R"("mesh": {"tp": 2, "dp_shard": 3}, "zero": {"stage": 3})"},
    {8, R"("mesh": {"tp": 2, "dp_replicate": 2, "dp_shard": 2}, "zero": {"stage": 1})"},
    {3, R"("mesh": {"dp_shard": 3}, "zero": {"stage": 2})"},
    {4, R"("mesh": {"cp": 2, "dp_shard": 2}, "zero": {"stage": 2})"},
    {4, R"("mesh": {"cp": 2, "tp": 2, "cp_mode": "ulysses"}, "zero": {"stage": 1})"},
};

std::unique_ptr<Trainer> trainer_on(const Mesh& mesh, const std::string& tokens, const std::string& precision,
                                    std::atomic<bool>* cancel) {
  const std::string more = mesh.ranks > 1 ? std::string(", ") + mesh.members : "";
  return Trainer::create(testing::small_config(tokens, precision, 1, more), false, cancel,
                         mesh.ranks > 1 ? comm::make_local(mesh.ranks) : nullptr);
}

TEST(MeshResume, AnyMeshLoadsWhatAnyOtherSaved) {
  const testing::ScratchFolder folder;
  const std::string tokens = testing::write_tokens(folder, 20000);
  std::atomic<bool> cancel{false};
  for (const char* precision : {"fp32", "bf16", "bf16_pure", "fp16"})
    for (size_t from = 0; from < std::size(kMeshes); ++from) {
      const auto saved = trainer_on(kMeshes[from], tokens, precision, &cancel);
      for (int step = 0; step < 2; ++step) saved->train_step();
      const std::string path = folder.file(std::string(precision) + std::to_string(from));
      saved->saves().save(path);
      for (const Mesh& mesh : kMeshes) {
        SCOPED_TRACE(std::string(precision) + " " + kMeshes[from].members + " -> " + mesh.members);
        const auto loaded = trainer_on(mesh, tokens, precision, &cancel);
        loaded->loads().load(path, false);
        testing::expect_equal_tensors(*saved, *loaded);
      }
      const auto resumed = trainer_on(kMeshes[from], tokens, precision, &cancel);
      resumed->loads().load(path, false);
      saved->train_step(), resumed->train_step();
      testing::expect_equal_tensors(*saved, *resumed);
    }
}

}  // namespace mesh_resume_test
}  // namespace hawser
