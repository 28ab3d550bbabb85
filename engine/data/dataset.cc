// Dataset: makes rows from sources. It maps a sample number to a window of a source and reads the row.
#include "engine/data/dataset.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/json.h"
#include "engine/data/content.h"
#include "engine/data/data_error.h"
#include "engine/data/fingerprint.h"
#include "engine/data/mixture.h"
#include "engine/data/row_documents.h"
#include "engine/data/token_source.h"

namespace hawser::data {
namespace {

using Sources = std::vector<std::unique_ptr<TokenSource>>;

template <typename... Args>
[[noreturn]] void fail_config(const char* pointer, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(Code::kConfigInvalid,
              fmt::format("{}: ", pointer) + fmt::format(format, std::forward<Args>(args)...),
              Json::object({{"pointer", pointer}}).dump());
}

/// Checks combinations of settings. The config's rules find most faults earlier; this check also covers
/// callers that fill in DataConfig by hand.
void check_config(const DataConfig& config, const Vocabulary& vocabulary, int64_t cols, int64_t vocab_size) {
  if (config.format == DataFormat::kNone) {
    fail_config("/data/format", "is missing, so no data can be opened: the program must push batches");
  }
  if (config.sources.empty()) fail_config("/data/sources", "no sources; give at least one path");
  if (cols < 1 || cols >= std::numeric_limits<int32_t>::max()) {
    fail_config("/batch/sequence", "{} tokens per row; must be 1 to {}", cols,
                std::numeric_limits<int32_t>::max() - 1);
  }
  if (!(config.validation_fraction >= 0 && config.validation_fraction < 1)) {
    fail_config("/data/validation_fraction", "{} must be at least 0 and below 1", config.validation_fraction);
  }
  if (config.format != DataFormat::kTokens && config.separator >= 0) {
    fail_config("/data/separator", "{} has no effect: documents of this format are {}; leave it out",
                config.separator, config.format == DataFormat::kText ? "text files" : "entries of the index");
  }
  if (config.format == DataFormat::kTokens && config.packing && config.separator < 0) {
    fail_config("/data/separator",
                "packing needs to know where documents end; give the token id that ends a document");
  }
  if (vocab_size > 0 && config.separator >= vocab_size) {
    fail_config("/data/separator", "{} is outside the vocabulary of {} tokens", config.separator, vocab_size);
  }
  if (config.format == DataFormat::kText && vocabulary.kind() != config.vocabulary) {
    fail_config(
        "/data/vocabulary",
        "the given vocabulary is not of the config's kind; text needs bytes, characters or a tokenizer");
  }
  if (config.format == DataFormat::kText && vocab_size > 0 && vocabulary.size() > vocab_size) {
    fail_config("/model/vocab_size", "{} is too small for the {} {}", vocab_size, vocabulary.size(),
                vocabulary.tokenizer() != nullptr ? "tokens of the model's tokenizer"
                                                  : "distinct characters of the text");
  }
  for (const DataSource& source : config.validation_sources) {
    if (source.weight != 1.0) {
      fail_config("/data/validation_sources",
                  "{} has weight {}, but validation reads every source once; leave it out", source.path,
                  source.weight);
    }
  }
}

Sources open_sources(const DataConfig& config, const std::vector<DataSource>& list,
                     const Vocabulary& vocabulary) {
  Sources sources;
  for (const DataSource& entry : list) {
    switch (config.format) {
      case DataFormat::kText:
        if (!config.as_is) check_is_text(entry.path);
        sources.push_back(open_text(entry.path, vocabulary));
        break;
      case DataFormat::kTokens:
        sources.push_back(open_raw_tokens(entry.path, config.token_type, config.separator));
        break;
      case DataFormat::kMegatron:
        sources.push_back(open_megatron(entry.path));
        break;
      case DataFormat::kPrepared:
        sources.push_back(open_prepared(entry.path));
        break;
      case DataFormat::kNone:
        break;
    }
    if (sources.back()->size() == 0) fail_data(entry.path, 0, "holds no tokens; give data that is not empty");
  }
  if (config.format != DataFormat::kText || !config.packing || sources.size() < 2) return sources;
  for (const DataSource& entry : list) {
    if (entry.weight != list.front().weight) {
      fail_config("/data/sources",
                  "{} has weight {} and {} has {}, but packing joins all text files to one stream; give all "
                  "the same weight",
                  list.front().path, list.front().weight, entry.path, entry.weight);
    }
  }
  Sources joined;
  joined.push_back(join_sources(std::move(sources)));
  return joined;
}

/// Checks that prepared rows have the length that the run needs.
void check_rows(const Sources& sources, const DataConfig& config, int64_t cols) {
  for (const auto& source : sources) {
    if (config.pairs && !source->has_pairs())
      fail_config("/objective/kind",
                  "trains on pairs of answers, but the rows of {} are not pairs; prepare rows with "
                  "\"chosen\" and \"rejected\", or use \"cross_entropy\"",
                  source->name());
    if (!config.pairs && source->has_pairs())
      fail_config("/objective/kind",
                  "\"cross_entropy\" trains on single answers, but the rows of {} are pairs; use \"dpo\" or "
                  "another objective over pairs",
                  source->name());
    if (source->row_length() == 0) continue;
    if (source->row_length() != cols)
      fail_config("/batch/sequence",
                  "{} tokens, but {} has rows of {}; set it to {}, or prepare the data again", cols,
                  source->name(), source->row_length(), source->row_length());
    if (source->has_documents() && !config.packing)
      fail_config("/data/packing",
                  "false, but the rows of {} hold several documents, which would attend to each other; leave "
                  "it out, or prepare the data without packing",
                  source->name());
  }
}

/// Returns the samples in tokens [begin, end) of a source. Throws if they cannot fill one row.
SourceRange make_part(const TokenSource& source, int64_t begin, int64_t end, int64_t cols,
                      const std::string& which, const char* advice) {
  if (source.row_length() > 0) {
    if (end - begin < cols) fail_data(source.name(), -1, fmt::format("found no row{}; {}", which, advice));
    return {&source, begin, end, (end - begin) / cols};
  }
  if (end - begin < cols + 1) {
    fail_data(
        source.name(), -1,
        fmt::format("found {} tokens{}, needed at least {} (batch.sequence {} and one more to predict); {}",
                    end - begin, which, cols + 1, cols, advice));
  }
  return {&source, begin, end, (end - begin - 1) / cols};
}

/// Returns the token at which the validation part of a source begins: 0 to its size, because the fraction is
/// in [0, 1). Prepared rows and pairs are never split, and at least one of them is left for validation.
int64_t cut_of(const TokenSource& source, double fraction) {
  const int64_t unit = std::max<int64_t>(1, source.row_length() * (source.has_pairs() ? 2 : 1));
  const int64_t units = source.size() / unit;
  const auto cut = static_cast<int64_t>(std::floor(static_cast<double>(units) * (1.0 - fraction)));
  return unit * (unit > 1 ? std::min(cut, units - 1) : cut);
}

/// Files up to this size are read once when they are opened (some 50 ms); in larger files each row is checked
/// when it is read.
constexpr int64_t kCheckedTokens = int64_t{64} << 20;

bool any_weights(const Sources& sources) {
  return std::any_of(sources.begin(), sources.end(), [](const auto& s) { return s->has_weights(); });
}

std::vector<double> weights_of(const DataConfig& config, size_t sources) {
  std::vector<double> weights;
  for (size_t i = 0; i < sources; ++i) weights.push_back(config.sources[i].weight);  // if joined: all equal
  return weights;
}

}  // namespace

Dataset::Dataset(const DataConfig& config, const Vocabulary& vocabulary, uint64_t seed, int64_t cols,
                 int64_t vocab_size)
    : cols_(cols),
      id_limit_(vocab_size > 0 && vocab_size <= std::numeric_limits<int32_t>::max()
                    ? static_cast<uint32_t>(vocab_size)
                    : uint32_t{1} << 31),
      packing_(config.packing),
      shuffle_(config.shuffle),
      together_(config.pairs ? 2 : 1),
      seed_(seed),
      sources_(open_sources(config, config.sources, vocabulary)),
      validation_sources_(open_sources(config, config.validation_sources, vocabulary)),
      has_weights_(any_weights(sources_) || any_weights(validation_sources_)),
      mixture_(weights_of(config, sources_.size())) {
  check_rows(sources_, config, cols);
  check_rows(validation_sources_, config, cols);
  split(config);
  name_validation_sets(config);
  if (config.length_group > 0 && shuffle_ && train_.size() == 1 && has_lengths(*sources_.front()))
    groups_.emplace(*sources_.front(), train_.front().begin, train_.front().samples,
                    static_cast<int64_t>(together_), config.length_group / static_cast<int64_t>(together_));
  const bool by_tokenizer = config.format == DataFormat::kText && vocabulary.tokenizer() != nullptr;
  fingerprint_ = make_fingerprint(config, by_tokenizer ? vocabulary.tokenizer()->digest() : "", seed, cols,
                                  train_, validation_, groups_.has_value());
  if (config.format == DataFormat::kText) return;  // tokens come from a vocabulary
  for (const Sources* sources : {&sources_, &validation_sources_})
    for (const auto& source : *sources)
      if (source->size() <= kCheckedTokens) check_ids(*source);
}

void Dataset::read(Split split, uint64_t first_sample, const Rows& out) const {
  const bool narrow =
      out.cols < cols_ && split == Split::kTrain && out.cols >= columns(first_sample, out.rows, 1);
  if ((out.cols != cols_ && !narrow) || out.rows < 0 || out.tokens == nullptr || out.targets == nullptr) {
    fail(Code::kInvalidArgument,
         "rows of {} x {} tokens; this dataset fills rows of {} tokens and needs memory for "
         "tokens and targets",
         out.rows, out.cols, cols_);
  }
  const uint64_t rows = static_cast<uint64_t>(out.rows),
                 samples =
                     static_cast<uint64_t>(split == Split::kStored ? stored_rows() : validation_samples());
  if (split != Split::kTrain && (first_sample > samples || rows > samples - first_sample)) {
    fail(Code::kOutOfRange, "{} {} to {} of {}", split == Split::kStored ? "rows" : "validation samples",
         first_sample, first_sample + rows, samples);
  }
  const int64_t before = split == Split::kValidation ? train_samples() : 0;  // stored rows before the split
  for (uint64_t row = 0; row < rows; ++row) {
    const uint64_t sample = first_sample + row;
    const Window window =
        split == Split::kTrain ? train_window(sample) : stored_window(before + static_cast<int64_t>(sample));
    read_row(window, static_cast<int64_t>(row) * out.cols, out);
    if (out.references != nullptr) out.references[row] = references_[static_cast<size_t>(window.stored)];
    if (out.teacher_ids == nullptr) continue;
    const int64_t at = static_cast<int64_t>(row) * out.cols, pairs = at * teacher_.top;
    teacher_.read(window.stored, out.targets + at, out.cols, out.teacher_ids + pairs,
                  out.teacher_logprobs + pairs);
  }
}

int64_t Dataset::samples_in(const std::vector<SourceRange>& parts) {
  int64_t samples = 0;
  for (const SourceRange& part : parts) samples += part.samples;
  return samples;
}

std::string Dataset::digest_share(int64_t share, int64_t shares) const {
  return data::digest_share(files_of(train_, validation_), share, shares);
}

std::string Dataset::fingerprint(const std::vector<std::string>& shares) const {
  return with_contents(fingerprint_, files_of(train_, validation_), shares);
}

void Dataset::split(const DataConfig& config) {
  const bool own = validation_sources_.empty() && config.validation_fraction > 0;
  for (const auto& source : sources_) {
    const int64_t size = source->size();
    const int64_t cut = own ? cut_of(*source, config.validation_fraction) : size;
    const std::string of = own ? fmt::format(" of {}", size) : "";
    const bool enough = size >= cols_ + (source->row_length() > 0 ? 0 : 1);
    train_.push_back(make_part(*source, 0, cut, cols_, own ? of + " in the training part" : of,
                               own && enough ? "give more data, lower batch.sequence, or set "
                                               "data.validation_fraction to 0 to train on all of it"
                                             : "give more data or lower batch.sequence"));
    if (!own) continue;
    validation_.push_back(make_part(*source, cut, size, cols_,
                                    fmt::format("{} in the validation part (data.validation_fraction {})", of,
                                                config.validation_fraction),
                                    "raise data.validation_fraction (0: no validation), lower "
                                    "batch.sequence, or give data.validation_sources or more data"));
  }
  for (const auto& source : validation_sources_) {
    validation_.push_back(
        make_part(*source, 0, source->size(), cols_, "", "give more data or lower batch.sequence"));
  }
}

void Dataset::name_validation_sets(const DataConfig& config) {
  if (validation_sources_.size() < 2) return;
  const auto is_taken = [&](const std::string& name) {
    return std::any_of(validation_sets_.begin(), validation_sets_.end(),
                       [&](const ValidationSet& set) { return set.name == name; }) ||
           std::any_of(config.validation_sources.begin(), config.validation_sources.end(),
                       [&](const DataSource& source) { return source.name == name; });
  };
  for (size_t i = 0; i < validation_.size(); ++i) {
    const DataSource& source = config.validation_sources[i];
    const std::string file = base_name(source.path);
    std::string name = source.name.empty() ? file : source.name;
    for (int number = 2; source.name.empty() && is_taken(name); ++number)
      name = fmt::format("{}-{}", file, number);
    validation_sets_.push_back({name, validation_[i].samples});
  }
}

void Dataset::read_row(const Window& window, int64_t at, const Rows& out) const {
  int32_t* tokens = out.tokens + at;
  int32_t* targets = out.targets + at;
  int32_t* positions = out.positions == nullptr ? nullptr : out.positions + at;
  int32_t* kv_begin = out.kv_begin == nullptr ? nullptr : out.kv_begin + at;
  float* weights = out.weights == nullptr ? nullptr : out.weights + at;
  const int64_t cols = out.cols;
  if (weights != nullptr) std::fill_n(weights, cols, 1.0f);
  window.source->copy(window.first, cols, tokens);
  if (window.source->row_length() > 0) {
    const int64_t bad = first_bad(tokens, cols);
    if (bad < cols) fail_id(*window.source, window.first + bad);
    window.source->mark_row(window.first, {tokens, targets, positions, kv_begin, weights, cols});
    if (!packing_) mark_whole_row(cols, positions, kv_begin);
    return;
  }
  std::copy(tokens + 1, tokens + cols_, targets);
  window.source->copy(window.first + cols_, 1, targets + cols_ - 1);
  check_ids(window, tokens[0], targets);
  if (packing_) {
    mark_documents(*window.source, window.first, cols_, targets, positions, kv_begin);
  } else {
    mark_whole_row(cols_, positions, kv_begin);
  }
}

/// Checks the row's cols + 1 tokens, which are the first token and the targets.
void Dataset::check_ids(const Window& window, int32_t first, const int32_t* targets) const {
  if (static_cast<uint32_t>(first) >= id_limit_) fail_id(*window.source, window.first);
  const int64_t bad = first_bad(targets, cols_);
  if (bad < cols_) fail_id(*window.source, window.first + 1 + bad);
}

/// Checks every token of a file, so that a bad token is found before anything is trained or written.
void Dataset::check_ids(const TokenSource& source) const {
  std::vector<int32_t> tokens(1 << 16);
  for (int64_t at = 0; at < source.size();) {
    const int64_t n = std::min<int64_t>(source.size() - at, static_cast<int64_t>(tokens.size()));
    source.copy(at, n, tokens.data());
    const int64_t bad = first_bad(tokens.data(), n);
    if (bad < n) fail_id(source, at + bad);
    at += n;
  }
}

/// Returns the index of the first of n tokens that is not an id of the model; n if there is none.
int64_t Dataset::first_bad(const int32_t* tokens, int64_t n) const {
  uint32_t largest = 0;  // -1 marks an invalid id and becomes the largest value
  for (int64_t t = 0; t < n; ++t) largest = std::max(largest, static_cast<uint32_t>(tokens[t]));
  if (largest < id_limit_) return n;
  int64_t bad = 0;
  while (static_cast<uint32_t>(tokens[bad]) < id_limit_) ++bad;
  return bad;
}

void Dataset::fail_id(const TokenSource& source, int64_t index) const {
  const TokenSource::TokenLocation place = source.locate(index);
  const std::string limit = id_limit_ <= static_cast<uint32_t>(std::numeric_limits<int32_t>::max())
                                ? fmt::format("outside the vocabulary of {} tokens", id_limit_)
                                : "not a token id";
  fail_data(place.file, place.offset,
            fmt::format("token {} (byte offset {}) is {}, {}; check the token type, the tokenizer and "
                        "model.vocab_size",
                        place.index, place.offset, place.value, limit));
}

std::unique_ptr<Dataset> Dataset::open(const DataConfig& config, const Vocabulary& vocabulary, uint64_t seed,
                                       int64_t cols, int64_t vocab_size) {
  check_config(config, vocabulary, cols, vocab_size);
  return std::unique_ptr<Dataset>(new Dataset(config, vocabulary, seed, cols, vocab_size));
}

}  // namespace hawser::data
