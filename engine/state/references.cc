#include "engine/state/references.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "engine/base/call_progress.h"
#include "engine/base/error.h"
#include "engine/base/interrupt.h"
#include "engine/base/json.h"
#include "engine/base/steady_clock.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/hf/hf_model.h"
#include "engine/checkpoint/reader.h"
#include "engine/checkpoint/safetensors_writer.h"
#include "engine/config/tree.h"
#include "engine/execute/batch_sources.h"
#include "engine/execute/row_logps.h"
#include "engine/state/other_model.h"
#include "engine/text/model_text.h"

namespace hawser::train {
namespace {

constexpr const char* kPointer = "/objective/reference";
constexpr const char* kReferencesFile = "references.safetensors";
constexpr const char* kLogprobsTensor = "logprobs";
constexpr const char* kIdentityKey = "identity";
constexpr const char* kDigestKey = "digest";

std::string digest_of_values(const std::vector<float>& values) {
  return text::text_digest({reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)});
}

/// Computes each row on one data-parallel rank. In a turn, each of these ranks computes one micro-batch.
class ReferencePass {
 public:
  ReferencePass(const Ranks& ranks, const data::Dataset& dataset)
      : ranks_(ranks),
        dataset_(dataset),
        micro_(ranks.config().batch.micro_batch),
        words_(static_cast<size_t>(ranks.here()), std::vector<int64_t>(static_cast<size_t>(rows()))) {}

  int64_t rows() const { return dataset_.stored_rows(); }
  /// Rows that all ranks compute in one turn.
  int64_t rows_of_turn() const { return micro_ * ranks_.config().mesh.dp(); }
  void take(int64_t begin) {
    ranks_.on_each([&](Rank& rank, int32_t i) {
      const int64_t row = begin + rank.dp_rank() * micro_;
      // A rank without rows computes the first rows again, because other ranks may need its weights.
      compute(rank, row < rows() ? row : 0, row < rows() ? &words_[static_cast<size_t>(i)] : nullptr);
    });
  }
  /// Returns the values that all ranks have computed, on all ranks.
  std::vector<float> sum() {
    ranks_.on_each([&](Rank& rank, int32_t i) {
      constexpr int64_t kPiece = 1 << 18;
      comm::ProcessGroup* const all = rank.groups().dp.get();
      std::vector<int64_t>& words = words_[static_cast<size_t>(i)];
      for (int64_t at = 0; all != nullptr && at < rows(); at += kPiece)
        all->wait(all->all_reduce_i64(words.data() + at, std::min(kPiece, rows() - at)));
    });
    std::vector<float> values;
    for (const int64_t word : words_.front())
      values.push_back(std::bit_cast<float>(static_cast<uint32_t>(word)));
    return values;
  }
  /// Sets all values, on one process only; `sum` then distributes them.
  void set(const std::vector<float>& values) {
    for (size_t row = 0; row < values.size(); ++row)
      words_.front()[row] = std::bit_cast<uint32_t>(values[row]);
  }

 private:
  void compute(Rank& rank, int64_t row, std::vector<int64_t>* words) const {
    Run run;
    run.batch = std::min(micro_, rows() - row);
    run.seq = ranks_.config().batch.sequence;
    run.wants_token_losses = true;
    std::vector<float> losses(static_cast<size_t>(run.batch * run.seq));
    run.token_losses = losses.data();
    DatasetSource source(dataset_, data::Split::kStored, static_cast<uint64_t>(row));
    PairsKept kept(&source, {}, run.batch, run.seq);
    run.source = &kept;
    rank.run(rank.plans().eval, &run);
    if (words == nullptr || !ranks_.reports_losses(rank)) return;
    for (int64_t i = 0; i < run.batch; ++i) {
      ExactSum sum;
      add_logps(&sum, losses.data() + i * run.seq, kept.targets.data() + i * run.seq, run.seq);
      (*words)[static_cast<size_t>(row + i)] = std::bit_cast<uint32_t>(static_cast<float>(sum.value()));
    }
  }

  const Ranks& ranks_;
  const data::Dataset& dataset_;
  const int64_t micro_;
  std::vector<std::vector<int64_t>> words_;  // by local rank and row: a float's bits, or 0
};

/// Computes all rows from `first` on. The host program may end this between two turns.
void compute_from(ReferencePass* pass, int64_t first) {
  constexpr const char* kPhase = "references";
  const int64_t rows = pass->rows(), count = rows - first;
  for (int64_t row = first; row < rows; row += pass->rows_of_turn()) {
    report_call_progress({kPhase, row - first, count});
    check_interrupt();
    pass->take(row);
  }
  report_call_progress({kPhase, count, count});
}

/// Returns the values in the folder; nothing if it has none for this model and these data.
std::vector<float> read_kept(const std::string& folder, const std::string& identity, int64_t rows) {
  if (folder.empty() || !checkpoint::path_exists(folder + "/" + kReferencesFile)) return {};
  const auto file = checkpoint::SafetensorsFile::open(checkpoint::Folder::open(folder), kReferencesFile);
  const checkpoint::TensorInfo* const tensor = file.find(kLogprobsTensor);
  const auto of = file.metadata().find(kIdentityKey);
  if (tensor == nullptr || tensor->dtype != "F32" || tensor->shape != std::vector<int64_t>{rows} ||
      of == file.metadata().end() || of->second != identity)
    return {};
  std::vector<float> values(static_cast<size_t>(rows));
  file.read(*tensor, 0, values.data(), tensor->bytes());
  if (const auto digest = file.metadata().find(kDigestKey);
      digest == file.metadata().end() || digest->second != digest_of_values(values))
    fail(Code::kCheckpointCorrupt, "{}: its digest does not match; remove it to compute it again",
         file.path());
  return values;
}

void check_finite(const std::vector<float>& values) {
  const auto bad = std::find_if_not(values.begin(), values.end(), [](float v) { return std::isfinite(v); });
  if (bad == values.end()) return;
  fail(Code::kNumeric,
       "the reference model gives row {} of the data the log-probability {}: its weights are not finite, or "
       "so "
       "large that they overflow",
       bad - values.begin(), *bad);
}

}  // namespace

bool needs_references(const config::ResolvedConfig& config) {
  return config.objective.has_reference() && config.data.format != config::DataFormat::kNone;
}

References make_references(const Ranks& ranks, const data::Dataset& dataset, const std::string& model,
                           const std::string& data, const std::string& kept, int64_t first) {
  const double began = steady_seconds();
  References made;
  made.identity =
      text::text_digest(model + "\n" + data + "\n" + config::name_at("/precision", ranks.config().precision));
  ReferencePass pass(ranks, dataset);
  made.read = ranks.on_first_process([&] {
    const std::vector<float> values = read_kept(kept, made.identity, pass.rows());
    pass.set(values);
    return !values.empty();
  });
  if (!made.read) compute_from(&pass, first);
  made.logprobs = pass.sum();
  check_finite(made.logprobs);
  made.seconds = steady_seconds() - began;
  return made;
}

void keep_references(const References& references, const std::vector<float>& logprobs,
                     const std::string& path) {
  const auto rows = static_cast<int64_t>(logprobs.size());
  if (!read_kept(path, references.identity, rows).empty()) return;
  const checkpoint::Folder folder = checkpoint::Folder::open(path);
  const std::string name = std::string(kReferencesFile) + ".tmp-" + checkpoint::unique_suffix();
  checkpoint::SafetensorsWriter writer(
      folder, name, {{kLogprobsTensor, "F32", {rows}}},
      {{kIdentityKey, references.identity}, {kDigestKey, digest_of_values(logprobs)}});
  writer.append(logprobs.data(), rows * static_cast<int64_t>(sizeof(float)));
  writer.finish();
  checkpoint::rename_over(folder.path_of(name), folder.path_of(kReferencesFile));
}

namespace {

/// Returns the sections that say which model the run began with; null if `from` is no checkpoint of a run
/// that had a reference. `base`: where an adapter's base is now; "" if it has not moved.
OrderedJson beginning_of_run(const Assembly& assembly, const std::string& from, const std::string& base) {
  if (!checkpoint::is_checkpoint(from)) return nullptr;
  const auto reader = checkpoint::Reader::open(from);
  const auto tree = config::ConfigTree::from_json(reader->description().config_json);
  const OrderedJson run = parse_json<OrderedJson>(tree.to_json_without_preset());
  const OrderedJson objective = run.value("objective", OrderedJson::object());
  if (!objective.contains("kind")) return nullptr;
  optim::ObjectiveConfig trained;
  trained.kind = static_cast<optim::ObjectiveKind>(config::number_of(
      *config::schema_at("/objective/kind"), objective["kind"].get_ref<const std::string&>()));
  if (!trained.has_reference()) return nullptr;
  if (objective.contains("reference"))
    return other_model(assembly, kPointer, objective["reference"].get<std::string>());
  OrderedJson json;
  for (const char* section : {"seed", "model", "init", "adapter"})
    if (run.contains(section)) json[section] = run[section];
  if (!json.contains("init") || !json["init"].contains("from")) return json;
  const std::string began = json["init"]["from"].get<std::string>();
  if (!base.empty()) json["init"][checkpoint::is_checkpoint(began) ? "base" : "from"] = base;
  const std::string folder = json["init"]["from"].get<std::string>();
  if (!checkpoint::is_checkpoint(folder) && !checkpoint::hf::is_hf_folder(folder))
    fail(Code::kNotFound,
         "the reference is the model with which the run of {} began, but there is no model in {} any more; "
         "set "
         "/objective/reference to where it is",
         from, folder);
  return json;
}

}  // namespace

std::optional<config::ConfigTree> reference_config(const Assembly& assembly, bool inference) {
  const config::ResolvedConfig& c = assembly.config;
  const std::string& folder = c.objective.reference;
  OrderedJson json;
  if (!folder.empty()) json = other_model(assembly, kPointer, folder);
  if (folder.empty() && inference) json = beginning_of_run(assembly, c.init.from, c.init.base);
  if (json.is_null()) return std::nullopt;
  json["objective"]["kind"] = "dpo";
  return on_same_data(assembly, std::move(json));
}

}  // namespace hawser::train
