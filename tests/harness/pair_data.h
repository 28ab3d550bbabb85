// Pairs of a prompt and two answers as the data of a small config, and engines on them.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/run/trainer.h"
#include "tests/data/data_files.h"
#include "tests/data/prepared_files.h"
#include "tests/harness/small_config.h"

namespace hawser::train {

using data::Split;
using testing::ScratchFolder;

inline constexpr int64_t kCols = 12;

/// Pairs of a prompt and two answers of unequal lengths.
inline std::string write_pairs(const ScratchFolder& folder, int64_t pairs, uint64_t seed = 3) {
  data::PreparedFiles files;
  files.cols = kCols, files.packed = false;
  for (int64_t row = 0; row < 2 * pairs; ++row) {
    const auto pair = static_cast<uint64_t>(row / 2), own = static_cast<uint64_t>(row) + 1000;
    const int64_t prompt = 2 + philox(seed, pair, 0).v[0] % 4,
                  end = prompt + 1 + philox(seed, own, 0).v[1] % 6;
    for (int64_t t = 0; t < kCols; ++t) {
      const uint32_t word = philox(seed, t < prompt ? pair : own, static_cast<uint64_t>(t)).v[2];
      files.tokens.push_back(t < end ? 1 + word % 50 : 0);
      files.marks.push_back(t == 0 || t == end       ? data::kDocumentBegin
                            : t >= prompt && t < end ? data::kTargetToken
                                                     : 0);
    }
  }
  const std::string path = folder.file("pairs-" + std::to_string(seed));
  files.write(path, [](data::PreparedManifest* manifest) { manifest->pairs = true; });
  return path;
}

inline config::ConfigTree config_of(const std::string& data, const std::string& objective,
                                    const std::string& more = "") {
  nlohmann::json json = nlohmann::json::parse(R"({
    "seed": 7, "cpu": {"threads": 1},
    "model": {"vocab_size": 53, "context": 16, "layers": 2, "width": 24, "heads": 4, "kv_heads": 2, "mlp_width": 40,
              "dropout": {"residual": 0.1}},
    "data": {"validation_fraction": 0.2}, "batch": {"micro_batch": 2, "global_batch": 12, "sequence": 12},
    "optimizer": {"learning_rate": 0.003}, "train": {"steps": 6, "eval_every": 0}})");
  json["objective"] = nlohmann::json::parse(objective);
  if (!data.empty()) json["data"]["format"] = "prepared", json["data"]["path"] = data;
  if (data.empty()) json.erase("data");
  if (!more.empty()) json.merge_patch(nlohmann::json::parse(more));
  return config::ConfigTree::from_json(json.dump());
}

class PairData : public ::testing::Test {
 protected:
  std::unique_ptr<Trainer> make(const config::ConfigTree& config, int32_t ranks = 1) {
    return Trainer::create(config, false, &cancel_, ranks > 1 ? comm::make_local(ranks) : nullptr);
  }
  struct Batch {
    data::OwnedRows rows{0, 0};
    std::vector<float> references;
    BatchView view(bool has_references) const {
      return {rows.rows_,
              rows.cols_,
              rows.tokens.data(),
              rows.targets.data(),
              nullptr,
              nullptr,
              has_references ? references.data() : nullptr};
    }
  };
  static Batch read(const data::Dataset& dataset, Split split, uint64_t first, int64_t count) {
    Batch batch{data::read_rows(dataset, split, first, count, kCols),
                std::vector<float>(static_cast<size_t>(count))};
    data::Rows out = batch.rows.view();
    if (!dataset.references().empty()) out.references = batch.references.data();
    dataset.read(split, first, out);
    return batch;
  }
  /// What the weights as they are say of all stored rows.
  static std::vector<float> computed(Trainer& trainer) {
    const int64_t rows = trainer.dataset()->stored_rows();
    const Batch batch = read(*trainer.dataset(), Split::kStored, 0, rows);
    std::vector<float> logprobs(static_cast<size_t>(rows * kCols)), sums;
    trainer.inference().logprobs(batch.view(false), logprobs.data(), logprobs.size() * sizeof(float));
    for (int64_t row = 0; row < rows; ++row) {
      double sum = 0;
      for (int64_t t = 0; t < kCols; ++t)
        sum += static_cast<double>(logprobs[static_cast<size_t>(row * kCols + t)]);
      sums.push_back(static_cast<float>(sum));
    }
    return sums;
  }
  static void run(Trainer& trainer, int steps) {
    for (int i = 0; i < steps; ++i) trainer.train_step();
  }

  std::atomic<bool> cancel_{false};
  const ScratchFolder folder_;
};

}  // namespace hawser::train
