// Dataset: rows of tokens by global sample number. A row is a pure function of (config, seed, split, sample
// number), so one integer cursor makes resuming exact under any layout.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/data/data_config.h"
#include "engine/data/fingerprint.h"
#include "engine/data/length_groups.h"
#include "engine/data/mixture.h"
#include "engine/data/teacher_pairs.h"
#include "engine/data/token_source.h"
#include "engine/data/vocabulary.h"

namespace hawser::data {

/// kStored: the rows of both splits, source by source.
enum class Split { kTrain, kValidation, kStored };

/// Destination of rows. All arrays are [rows, cols], row-major, provided by the caller.
struct Rows {
  int32_t* tokens = nullptr;
  int32_t* targets = nullptr;      ///< target of each position; -100 masks it
  int32_t* positions = nullptr;    ///< 0..cols-1, restarting at each document when packing; may be null
  int32_t* kv_begin = nullptr;     ///< first column that position t may see (0 without packing); may be null
  int64_t rows = 0, cols = 0;      ///< cols: those of the dataset, or fewer (Dataset::columns)
  float* weights = nullptr;        ///< weight of each target's loss; 1 if the data has none; may be null
  float* references = nullptr;     ///< [rows]: values from set_references; may be null
  int32_t* teacher_ids = nullptr;  ///< [rows, cols, top]: pairs from set_teacher at each target; may be null
  float* teacher_logprobs = nullptr;  ///< the same; null if teacher_ids is
};

/// Rows are made as follows:
/// - A source of N tokens is cut into a training part, its first floor(N * (1 - validation_fraction)) tokens,
///   and a validation part, the rest, so no token is in both. With validation_sources, each source is used in
///   full instead. With packing, all text files form one source, and each file is a document.
/// - Prepared folders hold samples: each prepared row is one sample, and the parts consist of complete rows.
/// - For pairs (config.pairs) a pair counts as one unit in all these rules: its rows are samples 2i and 2i +
///   1.
/// - For other formats, a part of n tokens has floor((n - 1) / cols) samples. Sample w starts at token w *
///   cols of the part and holds cols + 1 tokens. Samples share only the token that ends one and starts the
///   next, so each token except the first is a target at most once. Tokens after the last sample are unused.
/// - Training sample number s belongs to a source by weight (mixture.h) and is its sample k. With W samples
///   in that source, it is number k % W of epoch k / W. If shuffled, the epoch's order is the permutation
///   (permutation.h) whose key is made of seed, source and epoch. With config.length_group, prepared rows of
///   one document are grouped by length (length_groups.h), if there is one source.
/// - Validation samples are those of all sources, one source after another.
class Dataset {
 public:
  /// Opens and validates all sources. `cols` = tokens per row; a sample is cols + 1 tokens, which give cols
  /// targets. Token ids must be below vocab_size (<= 0: only valid ids). Files of up to 64 Mi tokens are
  /// checked here, larger ones when rows are read. Throws what InputFile::open throws; kDataInvalid, with
  /// file, offset and value, for a file that is damaged, in another format, empty or too short for either
  /// part; kConfigInvalid, with the pointer, for settings that contradict each other.
  static std::unique_ptr<Dataset> open(const DataConfig& config, const Vocabulary& vocabulary, uint64_t seed,
                                       int64_t cols, int64_t vocab_size);

  /// Fills out.rows rows with samples first_sample, first_sample + 1, ... Training samples never end (each
  /// source is reshuffled every epoch). Validation samples are those in [0, validation_samples()), in order.
  /// Const and thread-safe; allocates nothing. Throws kDataInvalid for a token outside the vocabulary,
  /// kOutOfRange past the last validation sample and kInvalidArgument if out.cols is above open's, or below
  /// it although some rows need more (columns); then the rows' contents are undefined.
  void read(Split split, uint64_t first_sample, const Rows& out) const;

  /// Returns the columns that training samples first_sample to first_sample + rows - 1 need, a multiple of
  /// `multiple` or all: the targets behind them are masked. All, if the rows are not grouped by length.
  int64_t columns(uint64_t first_sample, int64_t rows, int64_t multiple) const;

  /// A validation source and the number of validation samples from it. Sets follow each other in sample
  /// order.
  struct ValidationSet {
    std::string name;  ///< from the config, else the file's name; unique
    int64_t samples = 0;
  };
  /// Empty unless there are several validation_sources (text under packing is one).
  const std::vector<ValidationSet>& validation_sets() const { return validation_sets_; }

  /// True if rows have weights. If false, all weights are 1 and need not be read.
  bool has_weights() const { return has_weights_; }

  /// Sets the log-probability of each stored row under the reference model, for Rows::references. Must not
  /// run concurrently with `read`.
  void set_references(std::vector<float> references) { references_ = std::move(references); }
  const std::vector<float>& references() const { return references_; }
  /// Sets the teacher's pairs of training rows, for Rows::teacher_ids. Must not run concurrently with `read`.
  void set_teacher(TeacherPairs teacher) { teacher_ = std::move(teacher); }
  const TeacherPairs& teacher() const { return teacher_; }

  /// Returns the samples in one pass over all sources.
  int64_t train_samples() const { return samples_in(train_); }
  int64_t validation_samples() const { return samples_in(validation_); }  ///< 0 without a validation part
  int64_t stored_rows() const { return train_samples() + validation_samples(); }
  int64_t train_tokens() const {
    return train_samples() * cols_;
  }  ///< targets in one pass: train_samples() * cols
  int64_t validation_tokens() const { return validation_samples() * cols_; }  ///< validation_samples() * cols
  /// Returns JSON of everything that rows depend on: files (base names, sizes, digests of head and tail),
  /// format, split bounds, weights, sequence, seed, packing, shuffle. Equal data give equal text.
  const std::string& fingerprint() const { return fingerprint_; }
  /// Digests one share of the files' contents (fingerprint.h); each rank digests one.
  std::string digest_share(int64_t share, int64_t shares) const;
  /// Returns the fingerprint including the shares' digests, as stored in checkpoints. Resuming on other data
  /// (data_difference) is an error unless allowed.
  std::string fingerprint(const std::vector<std::string>& shares) const;

 private:
  using Sources = std::vector<std::unique_ptr<TokenSource>>;
  /// Tokens first to first + cols of one source.
  struct Window {
    const TokenSource* source = nullptr;
    int64_t first = 0;
    int64_t stored = 0;  ///< number of the row among all stored rows
  };
  Dataset(const DataConfig& config, const Vocabulary& vocabulary, uint64_t seed, int64_t cols,
          int64_t vocab_size);
  static int64_t samples_in(const std::vector<SourceRange>& parts);
  void split(const DataConfig& config);
  void name_validation_sets(const DataConfig& config);
  int64_t train_row(const Mixture::Pick& pick, uint64_t sample) const;
  Window train_window(uint64_t sample) const;
  Window stored_window(int64_t row) const;
  void read_row(const Window& window, int64_t at, const Rows& out) const;
  void check_ids(const Window& window, int32_t first, const int32_t* targets) const;
  void check_ids(const TokenSource& source) const;
  int64_t first_bad(const int32_t* tokens, int64_t n) const;
  [[noreturn]] void fail_id(const TokenSource& source, int64_t index) const;

  const int64_t cols_;
  const uint32_t id_limit_;  // ids are below this
  const bool packing_, shuffle_;
  const uint64_t together_;  // rows per sample unit: 2 for pairs, else 1
  const uint64_t seed_;
  const Sources sources_, validation_sources_;
  const bool has_weights_;
  const Mixture mixture_;
  std::vector<SourceRange> train_, validation_;
  std::optional<LengthGroups> groups_;  // of the only source's training part
  std::vector<ValidationSet> validation_sets_;
  std::vector<float> references_;
  TeacherPairs teacher_;
  std::string fingerprint_;
};

}  // namespace hawser::data
