// Tests that any mesh loads the checkpoint of any other mesh with bit-identical weights and moments. Under
// the same mesh, training then continues bit for bit.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

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
                                    std::atomic<bool>* cancel, const std::string& optimizer = "{}") {
  const std::string more = mesh.ranks > 1 ? std::string(", ") + mesh.members : "";
  config::ConfigTree config = testing::small_config(tokens, precision, 1, more);
  const auto fields = nlohmann::json::parse(optimizer);
  for (const auto& [field, value] : fields.items()) config.set("/optimizer/" + field, value.dump());
  return Trainer::create(config, false, cancel, mesh.ranks > 1 ? comm::make_local(mesh.ranks) : nullptr);
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

TEST(MeshResume, AnyMeshLoadsTheStateOfOtherOptimizers) {
  const testing::ScratchFolder folder;
  const std::string tokens = testing::write_tokens(folder, 20000);
  std::atomic<bool> cancel{false};
  int64_t saves = 0;
  for (const char* const optimizer :
       {R"({"kind": "muon", "average": 0.75})", R"({"kind": "muon", "muon_heads": true, "qk_clip": 0.01})",
        R"({"kind": "lion", "average": 0.5})"})
    for (const size_t from : {0, 2, 3, 7}) {
      const auto saved = trainer_on(kMeshes[from], tokens, "bf16", &cancel, optimizer);
      for (int step = 0; step < 2; ++step) saved->train_step();
      const std::string path = folder.file(std::to_string(saves++));
      saved->saves().save(path);
      for (const size_t to : {0, 1, 2, 3, 4, 7}) {
        SCOPED_TRACE(std::string(optimizer) + " " + kMeshes[from].members + " -> " + kMeshes[to].members);
        const auto loaded = trainer_on(kMeshes[to], tokens, "bf16", &cancel, optimizer);
        loaded->loads().load(path, false);
        testing::expect_equal_tensors(*saved, *loaded);
      }
      const auto resumed = trainer_on(kMeshes[from], tokens, "bf16", &cancel, optimizer);
      resumed->loads().load(path, false);
      saved->train_step(), resumed->train_step();
      testing::expect_equal_tensors(*saved, *resumed);
    }
}

}  // namespace mesh_resume_test
}  // namespace hawser
