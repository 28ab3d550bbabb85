// Data files: writes data files for tests into a folder that is removed with the test.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "engine/data/dataset.h"
#include "tests/harness/refusal.h"

namespace hawser::data {

class DataTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "hawser-data-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  std::string write(const std::string& name, const std::string& bytes) const {
    std::ofstream(path(name), std::ios::binary | std::ios::trunc) << bytes;
    return path(name);
  }
  template <typename T>
  std::string write_tokens(const std::string& name, const std::vector<T>& tokens) const {
    return write(name, std::string(reinterpret_cast<const char*>(tokens.data()), tokens.size() * sizeof(T)));
  }

 private:
  std::string folder_;
};

using testing::expect_error;

/// The bytes of a Megatron index; every field can be set to a false value.
struct MegatronIndex {
  std::string magic = std::string("MMIDIDX\0\0", 9);
  uint64_t version = 1;
  uint8_t dtype = 8;
  std::vector<int32_t> lengths;
  std::vector<int64_t> pointers;
  std::vector<int64_t> documents;
  int64_t claimed_sequences = -1, claimed_documents = -1;  // -1: the true count

  template <typename T>
  static void put(std::string* out, T value) {
    out->append(reinterpret_cast<const char*>(&value), sizeof(T));
  }
  std::string bytes() const {
    std::string out = magic;
    put(&out, version);
    put(&out, dtype);
    put<uint64_t>(&out, claimed_sequences < 0 ? lengths.size() : static_cast<uint64_t>(claimed_sequences));
    put<uint64_t>(&out, claimed_documents < 0 ? documents.size() : static_cast<uint64_t>(claimed_documents));
    for (const int32_t value : lengths) put(&out, value);
    for (const int64_t value : pointers) put(&out, value);
    for (const int64_t value : documents) put(&out, value);
    return out;
  }
  /// Returns an index of sequences of these lengths (tokens), each element `element` bytes wide; document d
  /// starts at sequence starts[d].
  static MegatronIndex of(const std::vector<int32_t>& lengths, const std::vector<int64_t>& starts,
                          uint8_t dtype, int64_t element) {
    MegatronIndex index;
    index.dtype = dtype;
    index.lengths = lengths;
    int64_t at = 0;
    for (const int32_t length : lengths) {
      index.pointers.push_back(at);
      at += length * element;
    }
    index.documents = starts;
    index.documents.push_back(static_cast<int64_t>(lengths.size()));
    return index;
  }
};

/// Rows that own their memory.
struct OwnedRows {
  OwnedRows(int64_t rows, int64_t cols)
      : rows_(rows), cols_(cols), tokens(count()), targets(count()), positions(count()), kv_begin(count()) {}
  Rows view() { return {tokens.data(), targets.data(), positions.data(), kv_begin.data(), rows_, cols_}; }
  int64_t rows_, cols_;
  size_t count() const { return static_cast<size_t>(rows_ * cols_); }
  std::vector<int32_t> tokens, targets, positions, kv_begin;
  bool operator==(const OwnedRows& o) const {
    return tokens == o.tokens && targets == o.targets && positions == o.positions && kv_begin == o.kv_begin;
  }
};

inline OwnedRows read_rows(const Dataset& dataset, Split split, uint64_t first, int64_t rows, int64_t cols) {
  OwnedRows result(rows, cols);
  dataset.read(split, first, result.view());
  return result;
}

/// Returns 0, 1, 2, ...: each token is its own position.
template <typename T>
std::vector<T> counting(int64_t n, int64_t first = 0) {
  std::vector<T> tokens;
  for (int64_t i = 0; i < n; ++i) tokens.push_back(static_cast<T>(first + i));
  return tokens;
}

inline DataConfig tokens_config(const std::vector<DataSource>& sources, TokenType type = TokenType::kU32) {
  DataConfig config;
  config.format = DataFormat::kTokens;
  config.sources = sources;
  config.token_type = type;
  config.validation_fraction = 0;
  return config;
}

}  // namespace hawser::data
