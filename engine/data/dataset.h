// Dataset: rows of tokens by global sample number. A row is a pure function of (config, seed, split, sample
// number): one integer cursor makes resume exact, whatever the layout.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "engine/data/data_config.h"
#include "engine/data/vocabulary.h"

namespace hawser::data {

enum class Split { kTrain, kValidation };

/// Where rows are written; all arrays are [rows, cols], row-major, supplied by the caller.
struct Rows {
  int32_t* tokens = nullptr;
  int32_t* targets = nullptr;    ///< what position t predicts; -100 masks
  int32_t* positions = nullptr;  ///< 0..cols-1, restarting at each document when packing
  int32_t* kv_begin = nullptr;   ///< first column that position t may see (0 without packing)
  int64_t rows = 0, cols = 0;
};

class Dataset {
 public:
  /// Opens and validates all sources (memory-mapped). `cols` = tokens per row; a sample is cols + 1 tokens giving
  /// cols targets. Token ids are checked against vocab_size when rows are read (vocab_size <= 0: not checked).
  /// Throws kNotFound, kIo, kDataInvalid with file, offset and value.
  static std::unique_ptr<Dataset> open(const DataConfig& config, const Vocabulary& vocabulary, uint64_t seed, int64_t cols,
                                       int64_t vocab_size);
  virtual ~Dataset() = default;

  /// Fills out->rows rows with samples first_sample, first_sample + 1, ... Training samples never end (each
  /// source is shuffled anew every epoch); validation samples are those in [0, validation_samples()), in order.
  /// Const and thread-safe; allocates nothing. Throws kDataInvalid for a token outside the vocabulary.
  virtual void read(Split split, uint64_t first_sample, const Rows& out) const = 0;

  virtual int64_t validation_samples() const = 0;  ///< 0: no validation part
  virtual int64_t train_tokens() const = 0;        ///< tokens in one pass over all sources
  virtual int64_t validation_tokens() const = 0;
  /// JSON that identifies the data: paths' base names, sizes, digests of head and tail, split. Stored in
  /// checkpoints; resuming on other data is an error unless allowed.
  virtual std::string fingerprint() const = 0;
};

}  // namespace hawser::data
