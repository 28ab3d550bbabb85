// Memory check tests: an engine that does not fit, with its copies for asynchronous saves, is refused before
// anything is allocated, exact to the byte.
#include <gtest/gtest.h>

#include <functional>
#include <sstream>
#include <string>

#include "engine/assembly/assemble.h"
#include "engine/assembly/memory_check.h"
#include "engine/base/error.h"
#include "engine/comm/comm.h"
#include "tests/harness/small_config.h"

namespace hawser::train {
namespace memory_check_test {

std::string refusal(const std::function<void()>& fn) {
  try {
    fn();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kOutOfMemory) << error.message();
    return error.message();
  }
  return "";
}

/// A config, with what is needed to plan it.
struct Planned {
  explicit Planned(const config::ConfigTree& tree, bool in_place = true)
      : assembly(assemble(tree)),
        config(assembly.config),
        model(config.model, config.init.scale_residual, optim::trained_parts(config.optimizer)),
        target{&choose_kernels(config), 1, in_place} {}

  EnginePlans plans() const { return make_plans(model, config, target, false); }
  int64_t staged() const {
    const parallel::Strategies strategies = strategies_of(config);
    return save_copy_bytes(
        {model.table(), layout_options(config, strategies, strategies.form().data, 0, false)}, model.table(),
        config, true);
  }
  std::string refused_in(int64_t device, int64_t host) const {
    return refusal([&] { make_plans_that_fit(model, assembly, target, {device, host}, false); });
  }

  Assembly assembly;
  const config::ResolvedConfig& config;
  nn::Model model;
  Target target;
};

class MemoryCheck : public ::testing::Test {
 protected:
  config::ConfigTree config(const std::string& more = "", const std::string& precision = "fp32") {
    return hawser::testing::small_config(tokens_, precision, 1, more);
  }
  static constexpr const char* kAsync = R"(, "checkpoint": {"path": "run", "async": true})";

 private:
  hawser::testing::ScratchFolder folder_;
  const std::string tokens_ = hawser::testing::write_tokens(folder_, 5000);
};

TEST_F(MemoryCheck, TheArenaAndTheCopyOfTheStateFitToTheByte) {
  const Planned at_once(config()), beside(config(kAsync));
  const int64_t arena = beside.plans().arena_bytes, copy = beside.staged();
  EXPECT_EQ(at_once.refused_in(arena, arena), "");
  EXPECT_NE(at_once.refused_in(arena - 1, arena - 1).find("the plan needs"), std::string::npos);
  EXPECT_EQ(beside.refused_in(arena + copy, arena + copy), "");
  const std::string words = beside.refused_in(arena + copy - 1, arena + copy - 1);
  EXPECT_NE(words.find("(" + std::to_string(copy) + " bytes)"), std::string::npos) << words;
  EXPECT_NE(words.find("without /checkpoint/async"), std::string::npos) << words;
}

TEST_F(MemoryCheck, WhatProcessesExchangeBytesThroughCounts) {
  Planned p(config(R"(, "mesh": {"dp_shard": 4})"));
  constexpr int64_t kSums = 8 << 20, kRing = (512 << 10) + 256;  // the ring and its counts
  const int64_t needed = p.plans().arena_bytes + kSums + 3 * kRing;
  p.target.transport_bytes = comm::process_transport_bytes(4);
  EXPECT_EQ(p.target.transport_bytes, kSums + 3 * kRing);
  EXPECT_EQ(p.refused_in(needed, needed), "");
  const std::string words = p.refused_in(needed - 1, needed - 1);
  EXPECT_NE(words.find("0.01 GiB for transfers to other processes"), std::string::npos) << words;
  EXPECT_EQ(words.find("async"), std::string::npos) << words;
}

TEST_F(MemoryCheck, ADevicesHostHoldsTheCopyOfEverySave) {
  for (const std::string checkpoint : {kAsync, R"(, "checkpoint": {"path": "run"})"}) {
    const Planned p(config(checkpoint), false);
    const EnginePlans plans = p.plans();
    const int64_t host = plans.pinned.bytes() + p.staged();
    EXPECT_GT(plans.pinned.bytes(), 0);
    EXPECT_EQ(p.refused_in(plans.arena_bytes, host), "");
    const std::string words = p.refused_in(plans.arena_bytes, host - 1);
    EXPECT_NE(words.find("of host memory"), std::string::npos) << words;
  }
  const Planned without(config(), false);
  const EnginePlans plans = without.plans();
  EXPECT_EQ(without.refused_in(plans.arena_bytes, plans.pinned.bytes()), "");
}

TEST_F(MemoryCheck, ADeepModelIsRefusedToTheByteToo) {
  config::ConfigTree tree = config();
  tree.set("/model/layers", "3000");
  tree.set("/model/window", "0");
  tree.set("/model/window_layers", "[]");
  const Planned deep(tree);
  const std::string words = deep.refused_in(int64_t{1} << 20, int64_t{1} << 20);
  EXPECT_NE(words.find("the plan needs "), std::string::npos) << words;
  EXPECT_NE(words.find("(" + std::to_string(deep.plans().arena_bytes) + " bytes)"), std::string::npos)
      << words;
  EXPECT_NE(words.find("/batch/sequence 12 saves"), std::string::npos) << words;
}

/// Returns the config with the settings of one line of advice.
config::ConfigTree follow(config::ConfigTree tree, const std::string& line) {
  std::istringstream words(line.substr(0, line.find(" saves ")));
  for (std::string pointer, value; words >> pointer;)
    if (pointer[0] == '/' && words >> value) tree.set(pointer, value);
  return tree;
}

TEST_F(MemoryCheck, EveryAdviceCanBeFollowedAndSaves) {
  int advised = 0;
  for (const char* sizes : {R"({"micro_batch": 8})", R"({"micro_batch": 6, "grad_accum_steps": 3})",
                            R"({"micro_batch": 5, "grad_accum_steps": 2})", R"({"global_batch": 96})",
                            R"({"global_batch": 96, "micro_batch": 12})"})
    for (const char* more : {"", R"(, "mesh": {"dp_shard": 4}, "zero": {"stage": 1})",
                             R"(, "mesh": {"dp_replicate": 2, "dp_shard": 2})",
                             R"(, "mesh": {"dp_shard": 2}, "precision": "bf16")"}) {
      const config::ConfigTree tree = config::ConfigTree::from_json(
          std::string(R"({"model": {"vocab_size": 50, "context": 64, "layers": 3, "width": 48, "heads": 4},
                          "batch": )") +
          sizes + more + "}");
      const Planned p(tree);
      const int64_t arena = p.plans().device_bytes();
      std::istringstream lines(p.refused_in(arena - 1, arena - 1));
      std::string line;
      std::getline(lines, line);  // the first line says what does not fit
      while (std::getline(lines, line)) {
        const Planned smaller(follow(tree, line));
        EXPECT_EQ(smaller.config.batch.global_batch, p.config.batch.global_batch) << sizes << more << line;
        const int64_t saved = arena - smaller.plans().device_bytes();
        EXPECT_GE(saved, arena / 100) << sizes << more << line;
        EXPECT_NE(line.find(plan::bytes_text(saved)), std::string::npos) << saved << line;
        ++advised;
      }
    }
  EXPECT_GE(advised, 60);
}

/// Without the check, sums that overflow would give a plan of few bytes.
TEST_F(MemoryCheck, WhatCannotBeCountedIsRefused) {
  for (const char* more : {R"("model": {"layers": 10000, "width": 1048576, "heads": 65536, "head_dim": 256,
                                        "mlp_width": 4194304, "vocab_size": 2147483647})",
                           R"("model": {"layers": 10000, "width": 1048576, "heads": 4096},
                              "batch": {"micro_batch": 127, "sequence": 16777216})"}) {
    config::ConfigTree tree = config::ConfigTree::from_json(std::string("{") + more + "}");
    tree.overlay(R"({"model": {"vocab_size": 50, "context": 16777216, "position": "none"}})",
                 config::Origin::kPreset);
    const Planned p(tree);
    for (const std::string& words : {refusal([&] { (void)p.plans(); }), p.refused_in(INT64_MAX, INT64_MAX)})
      EXPECT_NE(words.find("more than 2^62 bytes"), std::string::npos) << words;
  }
}

}  // namespace memory_check_test
}  // namespace hawser::train
