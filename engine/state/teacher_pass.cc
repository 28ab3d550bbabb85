#include "engine/state/teacher_pass.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "engine/base/call_progress.h"
#include "engine/base/error.h"
#include "engine/base/interrupt.h"
#include "engine/base/steady_clock.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/digest.h"
#include "engine/checkpoint/safetensors_writer.h"
#include "engine/config/tree.h"
#include "engine/execute/batch_sources.h"
#include "engine/execute/top_logprobs.h"
#include "engine/state/other_model.h"
#include "engine/text/model_text.h"

namespace hawser::train {
namespace {

constexpr const char* kTeacherFile = "teacher.safetensors";
constexpr const char *kPairBegins = "begins", *kPairIds = "ids", *kPairLogprobs = "logprobs";
constexpr const char *kTeacherIdentity = "identity", *kTeacherDigest = "digest";

/// Calls visit(name, dtype, shape, data) for each array of the file.
template <class Pairs, class Visit>
void each_pair_array(Pairs& pairs, int64_t rows, int64_t targets, const Visit& visit) {
  using Shape = std::vector<int64_t>;
  visit(kPairBegins, "I64", Shape{rows + 1}, pairs.begins);
  visit(kPairIds, "I32", Shape{targets, pairs.top}, pairs.ids);
  visit(kPairLogprobs, "F32", Shape{targets, pairs.top}, pairs.logprobs);
}

template <class T>
int64_t vector_bytes(const std::vector<T>& values) {
  return static_cast<int64_t>(values.size() * sizeof(T));
}

std::string digest_of_pairs(const data::TeacherPairs& pairs) {
  checkpoint::Digest digest;
  digest.add(pairs.begins.data(), vector_bytes(pairs.begins));
  digest.add(pairs.ids.data(), vector_bytes(pairs.ids));
  digest.add(pairs.logprobs.data(), vector_bytes(pairs.logprobs));
  return digest.text();
}

/// PairsPass: computes the pairs of all training rows, each row on one data-parallel rank. In a turn, each of
/// these ranks computes one micro-batch, and then all ranks receive the pairs of all of them.
class PairsPass {
 public:
  PairsPass(const Ranks& ranks, const data::Dataset& dataset, int64_t top)
      : ranks_(ranks),
        dataset_(dataset),
        micro_(ranks.config().batch.micro_batch),
        seq_(ranks.config().batch.sequence),
        words_(static_cast<size_t>(ranks.here()),
               std::vector<TokenLogprob>(static_cast<size_t>(rows_of_turn() * seq_ * top))) {
    pairs_.top = top;
    pairs_.begins.push_back(0);
  }

  int64_t rows() const { return dataset_.train_samples(); }
  int64_t rows_of_turn() const { return micro_ * ranks_.config().mesh.dp(); }
  /// Appends the pairs of one turn, the rows from `begin` on. If `computes` is false, they come from `known`,
  /// which is empty except on the first process.
  void take(int64_t begin, bool computes, const data::TeacherPairs& known) {
    const int64_t rows_here = std::min(rows_of_turn(), rows() - begin);
    read_targets(begin, rows_here);
    ranks_.on_each([&](Rank& rank, int32_t i) {
      std::vector<TokenLogprob>& words = words_[static_cast<size_t>(i)];
      std::fill(words.begin(), words.end(), 0);
      if (computes)
        compute(rank, begin, &words);
      else if (i == 0 && !known.begins.empty())
        copy(known, begin, rows_here, &words);
      if (comm::ProcessGroup* const all = rank.groups().dp.get())
        all->wait(all->all_reduce_i64(words.data(), rows_here * seq_ * pairs_.top));
    });
    append(begin, rows_here);
  }
  data::TeacherPairs pairs() { return std::move(pairs_); }

 private:
  void read_targets(int64_t begin, int64_t count) {
    tokens_.resize(static_cast<size_t>(count * seq_)), targets_.resize(tokens_.size());
    data::Rows rows;
    rows.tokens = tokens_.data(), rows.targets = targets_.data(), rows.rows = count, rows.cols = seq_;
    dataset_.read(data::Split::kStored, static_cast<uint64_t>(begin), rows);
  }

  void compute(Rank& rank, int64_t begin, std::vector<TokenLogprob>* words) const {
    const int64_t own = begin + rank.dp_rank() * micro_;
    // A rank without rows computes the first rows again, because other ranks may need its weights.
    const int64_t row = own < rows() ? own : 0;
    Run run;
    run.batch = std::min(micro_, rows() - row);
    run.seq = seq_;
    run.documents = ranks_.config().data.packing;
    DatasetSource source(dataset_, data::Split::kStored, static_cast<uint64_t>(row));
    run.source = &source;
    TopLogprobs reader(ranks_.config().model.vocab_size, pairs_.top, seq_,
                       words->data() + (own - begin) * seq_ * pairs_.top);
    if (own < rows() && ranks_.reports_losses(rank)) run.logits_reader = &reader;
    rank.run(rank.plans().logits, &run);
  }

  void copy(const data::TeacherPairs& known, int64_t begin, int64_t count,
            std::vector<TokenLogprob>* words) const {
    auto from = static_cast<size_t>(known.begins[static_cast<size_t>(begin)] * pairs_.top);
    for (int64_t i = 0; i < count * seq_; ++i)
      for (int64_t j = 0; targets_[static_cast<size_t>(i)] != -100 && j < pairs_.top; ++j, ++from)
        (*words)[static_cast<size_t>(i * pairs_.top + j)] =
            token_logprob(known.ids[from], known.logprobs[from]);
  }

  void append(int64_t begin, int64_t count) {
    for (int64_t i = 0; i < count * seq_; ++i) {
      for (int64_t j = 0; targets_[static_cast<size_t>(i)] != -100 && j < pairs_.top; ++j) {
        const TokenLogprob pair = words_.front()[static_cast<size_t>(i * pairs_.top + j)];
        if (!std::isfinite(logprob_of(pair)))
          fail(Code::kNumeric,
               "the teacher gives a token at row {}, column {} of the data the log-probability {}: its "
               "weights are not finite, or so large that they overflow",
               begin + i / seq_, i % seq_, logprob_of(pair));
        pairs_.ids.push_back(id_of(pair)), pairs_.logprobs.push_back(logprob_of(pair));
      }
      if (i % seq_ == seq_ - 1) pairs_.begins.push_back(static_cast<int64_t>(pairs_.ids.size()) / pairs_.top);
    }
  }

  const Ranks& ranks_;
  const data::Dataset& dataset_;
  const int64_t micro_, seq_;
  std::vector<std::vector<TokenLogprob>>
      words_;  // by local rank, of one turn; 0 except on the rank that has the row
  std::vector<int32_t> tokens_, targets_;  // of one turn
  data::TeacherPairs pairs_;
};

/// Returns the pairs in the folder; none if it has none for this model and these data.
data::TeacherPairs read_kept_pairs(const std::string& folder, const std::string& identity, int64_t top,
                                   int64_t rows) {
  if (folder.empty() || !checkpoint::path_exists(folder + "/" + kTeacherFile)) return {};
  const auto file = checkpoint::SafetensorsFile::open(checkpoint::Folder::open(folder), kTeacherFile);
  const auto of = file.metadata().find(kTeacherIdentity);
  const checkpoint::TensorInfo* const ids = file.find(kPairIds);
  if (of == file.metadata().end() || of->second != identity || ids == nullptr || ids->shape.size() != 2)
    return {};
  data::TeacherPairs pairs;
  pairs.top = top;
  bool complete = true;
  each_pair_array(pairs, rows, ids->shape[0],
                  [&](const char* name, const char* dtype, const std::vector<int64_t>& shape, auto& values) {
                    const checkpoint::TensorInfo* const tensor = file.find(name);
                    complete =
                        complete && tensor != nullptr && tensor->dtype == dtype && tensor->shape == shape;
                    if (!complete) return;
                    values.resize(static_cast<size_t>(tensor->bytes()) / sizeof(values[0]));
                    file.read(*tensor, 0, values.data(), tensor->bytes());
                  });
  if (!complete) return {};
  if (const auto digest = file.metadata().find(kTeacherDigest);
      digest == file.metadata().end() || digest->second != digest_of_pairs(pairs))
    fail(Code::kCheckpointCorrupt, "{}: its digest does not match; remove it to compute it again",
         file.path());
  return pairs;
}

}  // namespace

bool needs_teacher(const config::ResolvedConfig& config) {
  return config.teacher.on() && !config.teacher.from.empty() &&
         config.data.format != config::DataFormat::kNone;
}

config::ConfigTree teacher_config(const Assembly& assembly) {
  return on_same_data(assembly, other_model(assembly, "/teacher/from", assembly.config.teacher.from));
}

TeacherOutput ask_teacher(const Ranks& ranks, const data::Dataset& dataset, int64_t top,
                          const std::string& model, const std::string& data, const std::string& kept) {
  constexpr const char* kPhase = "teacher";
  const double began = steady_seconds();
  TeacherOutput output;
  output.identity = text::text_digest(fmt::format(
      "{}\n{}\n{}\n{}", model, data, config::name_at("/precision", ranks.config().precision), top));
  PairsPass pass(ranks, dataset, top);
  data::TeacherPairs known;
  output.read = ranks.on_first_process([&] {
    known = read_kept_pairs(kept, output.identity, top, pass.rows());
    return !known.begins.empty();
  });
  for (int64_t row = 0; row < pass.rows(); row += pass.rows_of_turn()) {
    report_call_progress({kPhase, row, pass.rows()});
    check_interrupt();
    pass.take(row, !output.read, known);
  }
  report_call_progress({kPhase, pass.rows(), pass.rows()});
  output.pairs = pass.pairs();
  output.seconds = steady_seconds() - began;
  return output;
}

void keep_teacher(const TeacherOutput& output, const data::TeacherPairs& pairs, const std::string& path) {
  const auto rows = static_cast<int64_t>(pairs.begins.size()) - 1;
  if (!read_kept_pairs(path, output.identity, pairs.top, rows).begins.empty()) return;
  const checkpoint::Folder folder = checkpoint::Folder::open(path);
  const std::string name = std::string(kTeacherFile) + ".tmp-" + checkpoint::unique_suffix();
  std::vector<checkpoint::TensorInfo> tensors;
  const auto each = [&](const auto& visit) { each_pair_array(pairs, rows, pairs.begins.back(), visit); };
  each([&](const char* tensor, const char* dtype, const std::vector<int64_t>& shape, const auto&) {
    tensors.push_back({tensor, dtype, shape});
  });
  checkpoint::SafetensorsWriter writer(
      folder, name, tensors, {{kTeacherIdentity, output.identity}, {kTeacherDigest, digest_of_pairs(pairs)}});
  each([&](const char*, const char*, const std::vector<int64_t>&, const auto& values) {
    writer.append(values.data(), vector_bytes(values));
  });
  writer.finish();
  checkpoint::rename_over(folder.path_of(name), folder.path_of(kTeacherFile));
}

}  // namespace hawser::train
