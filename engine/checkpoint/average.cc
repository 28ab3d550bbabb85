#include "engine/checkpoint/average.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "engine/base/error.h"
#include "engine/base/json.h"
#include "engine/checkpoint/hf/number_format.h"
#include "engine/checkpoint/reader.h"
#include "engine/checkpoint/sharded_save.h"
#include "engine/text/model_text.h"

namespace hawser::checkpoint {
namespace {

constexpr int64_t kPiece = int64_t{1} << 20;  ///< elements of one checkpoint that are in memory at once
constexpr int64_t kFileBytes = int64_t{4} << 30;

bool is_weight(const std::string& name) { return !name.starts_with("optimizer."); }

class Average {
 public:
  explicit Average(const std::vector<Weighted>& of) {
    if (of.size() < 2)
      fail(Code::kInvalidArgument, "a mean needs at least two checkpoints, not {}", of.size());
    for (const Weighted& one : of) {
      if (!(one.weight > 0) || !std::isfinite(one.weight))
        fail(Code::kInvalidArgument, "the weight {} of checkpoint {} must be above 0 and finite", one.weight,
             one.path);
      readers_.push_back(Reader::open(one.path));
      weights_.push_back(one.weight), sum_ += one.weight;
    }
    for (const std::unique_ptr<Reader>& reader : readers_) check_alike(*reader);
  }

  void write(const std::string& to) const {
    ShardedSave save(to);
    for (const std::unique_ptr<Reader>& reader : readers_) reader->verify();
    save.finish({write_shard(save.folder(), 0, 1, pieces(), kFileBytes)}, description());
  }

 private:
  const Reader& first() const { return *readers_.front(); }

  void check_alike(const Reader& other) const {
    const Description &a = first().description(), &b = other.description();
    if (parse_json<Json>(b.model_json).contains("adapter"))
      fail(Code::kFailedPrecondition,
           "checkpoint {} has an adapter, and the mean of factors is not the mean of the weights that they "
           "change: merge each adapter first (hws_checkpoint_export, hawser merge)",
           other.path());
    if (parse_json<Json>(a.model_json) != parse_json<Json>(b.model_json))
      fail(Code::kCheckpointIncompatible, "checkpoint {} belongs to another model than {}", other.path(),
           first().path());
    if (parse_json<Json>(a.vocabulary_json) != parse_json<Json>(b.vocabulary_json) ||
        text::tokenizer_digest(a.extra_files) != text::tokenizer_digest(b.extra_files))
      fail(Code::kCheckpointIncompatible, "checkpoint {} has another vocabulary or tokenizer than {}",
           other.path(), first().path());
    for (const auto& [name, entry] : first().tensors()) {
      if (!is_weight(name)) continue;
      const auto found = other.tensors().find(name);
      if (found == other.tensors().end() || found->second.shape != entry.shape ||
          !hf::is_weight_dtype(found->second.dtype))
        fail(Code::kCheckpointIncompatible,
             "checkpoint {} has no tensor \"{}\" of the shape that it has in {}", other.path(), name,
             first().path());
    }
  }

  std::vector<PieceView> pieces() const {
    std::vector<PieceView> pieces;
    for (const auto& [name, entry] : first().tensors()) {
      if (!is_weight(name)) continue;
      PieceView piece{name, DType::kF32, entry.shape};
      piece.end = 1;
      for (const int64_t extent : entry.shape) piece.end *= extent;
      piece.read = [this, &tensor = name](int64_t begin, void* to, int64_t bytes) {
        mean(tensor, begin / 4, (begin + bytes) / 4, static_cast<float*>(to));
      };
      piece.lasting = true;
      pieces.push_back(std::move(piece));
    }
    return pieces;
  }

  /// Computes elements [begin, end). The writer asks for whole elements, because its blocks are multiples of
  /// them.
  void mean(const std::string& name, int64_t begin, int64_t end, float* to) const {
    std::vector<char> stored;
    std::vector<float> values;
    std::vector<double> sums;
    for (; begin < end; begin += kPiece, to += kPiece) {
      const int64_t n = std::min(kPiece, end - begin);
      values.resize(static_cast<size_t>(n));
      sums.assign(static_cast<size_t>(n), 0.0);
      for (size_t i = 0; i < readers_.size(); ++i) {
        const DType type = readers_[i]->tensors().at(name).dtype;
        stored.resize(static_cast<size_t>(dtype_bytes(type, n)));
        readers_[i]->read_range(name, begin, begin + n, stored.data(), dtype_bytes(type, n));
        hf::widen(type, stored.data(), n, values.data());
        for (size_t e = 0; e < values.size(); ++e) sums[e] += weights_[i] * static_cast<double>(values[e]);
      }
      for (size_t e = 0; e < sums.size(); ++e) to[e] = static_cast<float>(sums[e] / sum_);
    }
  }

  Description description() const {
    const auto newest = std::ranges::max_element(
        readers_, {}, [](const std::unique_ptr<Reader>& r) { return r->description().step; });
    Description d = (*newest)->description();
    d.state_json = d.data_json = "{}";
    return d;
  }

  std::vector<std::unique_ptr<Reader>> readers_;
  std::vector<double> weights_;
  double sum_ = 0;
};

}  // namespace

void average(const std::vector<Weighted>& of, const std::string& to) { Average(of).write(to); }

}  // namespace hawser::checkpoint
