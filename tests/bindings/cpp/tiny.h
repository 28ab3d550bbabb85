// Helpers for the tests of hawser.hpp: a model of some 20,000 parameters, batches for it, and temporary
// folders.
#pragma once

#include <hawser.hpp>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace tiny {

inline constexpr std::int64_t kRows = 4, kCols = 16, kVocab = 61;

inline constexpr const char* kConfig =
    R"({"seed": 7, "cpu": {"threads": 2},
        "model": {"vocab_size": 61, "context": 16, "layers": 2, "width": 32, "heads": 4, "norm": "layer_norm",
                  "mlp": "gelu_tanh", "position": "learned", "tied_head": true},
        "batch": {"micro_batch": 2, "grad_accum_steps": 2, "sequence": 16},
        "optimizer": {"kind": "adamw", "learning_rate": 0.01}, "train": {"steps": 8}})";

inline hawser::Config config() { return hawser::Config::parse(kConfig); }

/// The batch with the number `seed`. Each target is the next token.
struct Tokens {
  explicit Tokens(std::uint32_t seed, std::int64_t vocab = kVocab) {
    std::uint32_t random = seed * 2654435761u + 1;
    for (std::int64_t i = 0; i < kRows * kCols; ++i) {
      random = random * 1664525u + 1013904223u;
      tokens.push_back(static_cast<std::int32_t>((random >> 16) % static_cast<std::uint32_t>(vocab)));
    }
    for (std::int64_t i = 0; i < kRows * kCols; ++i)
      targets.push_back(i % kCols == kCols - 1 ? -100 : tokens[static_cast<std::size_t>(i) + 1]);
  }
  hawser::Batch batch() const { return {kRows, kCols, tokens, targets, {}}; }
  void copy_to(hawser::SourceBatch& to) const {
    std::copy(tokens.begin(), tokens.end(), to.tokens);
    std::copy(targets.begin(), targets.end(), to.targets);
  }
  std::vector<std::int32_t> tokens, targets;
};

/// A temporary folder, deleted with the object.
class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "hawser-cpp-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

/// Returns a config that reads the bytes of a text, which this function writes.
inline hawser::Config text_config(const Folder& folder) {
  std::ofstream text(folder.file("text.txt"));
  for (int i = 0; i < 400; ++i) text << "line " << i % 10 << " of a text that is easy to learn\n";
  hawser::Config config = tiny::config();
  config.set("/data", R"({"format":"text","vocabulary":"bytes","path":")" + folder.file("text.txt") + "\"}")
      .set("/model/vocab_size", "256")
      .set("/train", R"({"steps":8,"eval_every":4,"eval_batches":2})");
  return config;
}

}  // namespace tiny
