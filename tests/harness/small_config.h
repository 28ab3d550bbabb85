// A small model and its data, for trainer tests.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <unistd.h>

#include "engine/base/error.h"
#include "engine/base/philox.h"
#include "engine/config/config_tree.h"
#include "engine/run/trainer.h"

namespace hawser::testing {

/// A folder of this test's own, removed at the end.
class ScratchFolder {
 public:
  ScratchFolder()
      : path_(std::filesystem::temp_directory_path() /
              ("hawser-train-" + std::to_string(counter()++) + "-" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(path_);
  }
  ~ScratchFolder() { std::filesystem::remove_all(path_); }
  std::string file(const std::string& name) const { return (path_ / name).string(); }

 private:
  static std::atomic<int>& counter() {
    static std::atomic<int> value{0};
    return value;
  }
  std::filesystem::path path_;
};

/// All bytes of a file.
inline std::string text_of_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// u16 tokens below 50 with a separator (0) now and then.
inline std::string write_tokens(const ScratchFolder& folder, int64_t count) {
  std::vector<uint16_t> tokens(static_cast<size_t>(count));
  for (size_t i = 0; i < tokens.size(); ++i) {
    const uint32_t word = philox(5, i, 0).v[0];
    tokens[i] = static_cast<uint16_t>(word % 17 == 0 ? 0 : 1 + word % 7 * (1 + i % 7));
  }
  const std::string path = folder.file("tokens.bin");
  std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(tokens.data()), count * 2);
  return path;
}

/// Two layers of everything that is awkward: GQA, window, dropout, packing, accumulation. `more` is further
/// JSON members.
inline config::ConfigTree small_config(const std::string& tokens, const std::string& precision = "fp32",
                                       int threads = 1, const std::string& more = "") {
  return config::ConfigTree::from_json(R"({
    "seed": 7, "precision": ")" + precision +
                                       R"(",
    "model": {"vocab_size": 53, "context": 24, "layers": 2, "width": 40, "heads": 4, "kv_heads": 2, "norm": "rms_norm",
              "mlp": "swiglu", "mlp_width": 72, "window": 9, "window_layers": [1], "tied_head": true,
              "dropout": {"embedding": 0.1, "attention": 0.1, "residual": 0.1}},
    "data": {"format": "tokens", "path": ")" +
                                       tokens + R"(", "token_type": "u16", "packing": true, "separator": 0},
    "batch": {"micro_batch": 3, "grad_accum_steps": 2, "sequence": 24},
    "optimizer": {"learning_rate": 0.003}, "schedule": {"warmup_steps": 2}, "train": {"steps": 40},
    "cpu": {"threads": )" + std::to_string(threads) +
                                       "}" + more + "}");
}

inline std::vector<float> tensor(const train::Trainer& trainer, train::TensorKind kind,
                                 const std::string& name, size_t size) {
  std::vector<float> values(size);
  trainer.tensors().get(kind, name, values.data(), size * sizeof(float));
  return values;
}

/// The message of what `call` throws, which must be of `code`.
template <typename Call>
std::string refused(Code code, const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.message();
    return error.message();
  }
  ADD_FAILURE() << "nothing was refused";
  return "";
}

}  // namespace hawser::testing
