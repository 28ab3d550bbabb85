#include "engine/prepare/prepare.h"

#include <fmt/format.h>

#include <atomic>
#include <optional>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/input_file.h"
#include "engine/base/interrupt.h"
#include "engine/base/json.h"
#include "engine/base/steady_clock.h"
#include "engine/checkpoint/file_io.h"
#include "engine/checkpoint/temporary_folder.h"
#include "engine/data/prepared_folder.h"
#include "engine/device/cpu/thread_pool.h"
#include "engine/prepare/document_spool.h"
#include "engine/prepare/prepare_counts.h"
#include "engine/prepare/row_documents.h"
#include "engine/prepare/write_rows.h"

namespace hawser::train {
namespace {

using Tell = std::function<void(const PrepareProgress&)>;

constexpr int64_t kBytesForEachThread = int64_t{256} << 10;  // size of a block of rows, per thread
constexpr double kSecondsBetweenTelling = 0.1;

/// Encodes rows on all threads and keeps their order. The calling thread's interrupt poll ends the work of
/// all threads.
class RowBlock {
 public:
  RowBlock(const RowReader& reader, device::ThreadPool& pool) : reader_(reader), pool_(pool) {
    pool.set_wait(
        [](void* self) {
          if (interrupted()) static_cast<RowBlock*>(self)->ended_.store(true);
        },
        this);
  }
  ~RowBlock() { pool_.set_wait(nullptr, nullptr); }
  RowBlock(const RowBlock&) = delete;
  RowBlock& operator=(const RowBlock&) = delete;

  bool full() const { return bytes_ >= kBytesForEachThread * pool_.threads(); }
  bool empty() const { return rows_.empty(); }
  void add(text::RawRow row) {
    bytes_ += static_cast<int64_t>(row.text.size());
    rows_.push_back(std::move(row));
  }
  /// Calls take(documents, place) for each row in order. Throws the error of the first row that has one.
  template <typename Take>
  void encode(const Take& take) {
    done_.assign(rows_.size(), {});
    errors_.assign(rows_.size(), std::nullopt);
    Stream& stream = pool_.stream();
    stream.run(
        &stream, static_cast<int64_t>(rows_.size()),
        [](void* self, int64_t row, int32_t worker) {
          static_cast<RowBlock*>(self)->read(static_cast<size_t>(row), worker);
        },
        this);
    if (ended_.load()) fail(Code::kCancelled, "the host's interrupt poll ended the call");
    for (size_t i = 0; i < rows_.size(); ++i) {
      if (errors_[i]) throw *errors_[i];
      take(done_[i], rows_[i].where);
    }
    rows_.clear();
    bytes_ = 0;
  }

 private:
  void read(size_t i, int32_t worker) noexcept {
    std::optional<InterruptFlag> flag;
    if (worker != 0) flag.emplace(&ended_);  // worker 0 is the calling thread
    try {
      check_interrupt();
      done_[i] = reader_.read(rows_[i]);
    } catch (...) {
      errors_[i].emplace(Error::caught());
      if (errors_[i]->code() == Code::kCancelled) ended_.store(true);
    }
  }

  const RowReader& reader_;
  device::ThreadPool& pool_;
  std::vector<text::RawRow> rows_;
  std::vector<RowDocuments> done_;
  std::vector<std::optional<Error>> errors_;
  std::atomic<bool> ended_{false};
  int64_t bytes_ = 0;
};

/// Reads and encodes all files.
class Preparation {
 public:
  Preparation(const PrepareRequest& request, const RowReader& reader, const Tell& tell, DocumentSpool* spool)
      : request_(request),
        tell_(tell),
        spool_(spool),
        pool_(request.threads > 0 ? request.threads : device::default_threads()),
        block_(reader, pool_) {}

  void run() {
    for (const std::string& path : request_.files) progress_.total_bytes += InputFile::open(path).size();
    int64_t before = 0;
    for (const std::string& path : request_.files) {
      const auto file = text::open_rows(path, request_.module_folder);
      counts_.begin_file(path, file->form(), file->size());
      while (auto row = file->next()) {
        block_.add(std::move(*row));
        if (!block_.full()) continue;
        progress_.done_bytes = before + file->done();
        encode();
      }
      before += file->size();
      progress_.done_bytes = before;
      encode();
    }
    spool_->finish();
    if (spool_->documents() == 0) fail(Code::kDataInvalid, "{}", counts_.no_rows_message(request_.sequence));
    tell_(progress_);
  }
  const PrepareCounts& counts() const { return counts_; }

 private:
  void encode() {
    block_.encode([&](const RowDocuments& row, const std::string& where) {
      counts_.add(row, where);
      for (const text::EncodedRow& document : row.documents) spool_->add(document);
    });
    check_interrupt();
    progress_.rows = counts_.rows();
    const double now = steady_seconds();
    if (now - told_ < kSecondsBetweenTelling) return;
    told_ = now;
    tell_(progress_);
  }

  const PrepareRequest& request_;
  const Tell& tell_;
  DocumentSpool* const spool_;
  device::ThreadPool pool_;
  RowBlock block_;
  PrepareCounts counts_;
  PrepareProgress progress_;
  double told_ = 0;
};

/// Returns a digest of everything that determines the prepared rows.
std::string identity_of(const PrepareRequest& request, const RowReader& reader) {
  OrderedJson all = {{"version", 2},
                     {"tokenizer", reader.model().digest()},
                     {"template", reader.template_digest()},
                     {"special", reader.model().special_names()},
                     {"sequence", request.sequence},
                     {"drop_long", request.drop_long},
                     {"drop_unprinted", request.drop_unprinted},
                     {"packing", request.packing},
                     {"seed", request.seed},
                     {"files", OrderedJson::array()}};
  if (const text::TrainingTemplate* training = reader.training_template())
    all["training_template"] = text::text_digest(training->source);
  for (const std::string& path : request.files) {
    check_interrupt();
    all["files"].push_back(data::file_digest(InputFile::open(path)));
  }
  return text::text_digest(all.dump(-1, ' ', false, OrderedJson::error_handler_t::replace));
}

/// Returns what a training template did: its family, why it was needed, and the number of rows. Returns null
/// if no row needed one.
OrderedJson training_report(const RowReader& reader, const PrepareCounts& counts) {
  const text::TrainingTemplate* const training = reader.training_template();
  if (training == nullptr || counts.by_training_template() == 0) return nullptr;
  return {{"family", training->family},
          {"reason", fmt::format("the template itself {}", training->reason)},
          {"rows", counts.by_training_template()}};
}

OrderedJson report_of(const RowReader& reader, const Preparation& done, const DocumentSpool& spool,
                      const data::PreparedManifest& manifest) {
  OrderedJson report = done.counts().report();
  const auto tokens = static_cast<double>(spool.tokens());
  const double places = static_cast<double>(manifest.rows) * static_cast<double>(manifest.cols);
  report["documents"] = spool.documents();
  report["tokens"] = spool.tokens();
  report["learned_tokens"] = spool.learned();
  report["learned_share"] = static_cast<double>(spool.learned()) / tokens;
  report["prepared_rows"] = manifest.rows;
  report["sequence"] = manifest.cols;
  report["packed"] = manifest.packed;
  report["weighted"] = manifest.weighted;
  report["pairs"] = manifest.pairs;
  report["empty_share"] = 1 - tokens / places;
  report["template"] = reader.template_name();
  report["training_template"] = training_report(reader, done.counts());
  report["vocabulary"] = manifest.vocabulary;
  return report;
}

/// Adds the facts of this call (folder, reuse, time) to the report and returns it.
std::string answer(const PrepareRequest& request, OrderedJson report, bool reused, double seconds) {
  report["folder"] = request.out;
  report["reused"] = reused;
  report["seconds"] = seconds;
  return report.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

void write_file(const checkpoint::Folder& folder, const char* name, const std::string& text) {
  checkpoint::File file = folder.create_file(name);
  file.write(text.data(), static_cast<int64_t>(text.size()));
  file.sync();
  file.close();
}

}  // namespace

std::string prepare(const PrepareRequest& request, const Tell& tell) {
  const double began = steady_seconds();
  const RowReader reader(request);
  data::PreparedManifest manifest;
  manifest.cols = request.sequence;
  manifest.identity = identity_of(request, reader);
  if (checkpoint::path_exists(request.out)) {
    if (!data::is_prepared(request.out))
      fail(Code::kAlreadyExists, "{} exists but holds no prepared rows; name a new folder", request.out);
    const data::PreparedManifest there = data::read_manifest(request.out);
    if (there.identity == manifest.identity)
      return answer(request, there.report, true, steady_seconds() - began);
    fail(Code::kAlreadyExists,
         "{} holds rows that were prepared from other files or with other settings; remove it, or name "
         "another folder",
         request.out);
  }
  checkpoint::TemporaryFolder folder(request.out);
  DocumentSpool spool(folder.folder());
  Preparation preparation(request, reader, tell, &spool);
  preparation.run();
  manifest.vocabulary = reader.model().tokenizer().vocabulary_size();
  manifest.tokenizer = reader.model().digest();
  manifest.chat_template = reader.template_digest();
  manifest.pairs = preparation.counts().pairs();
  write_rows(spool, folder.folder(), request.packing, request.seed, &manifest);
  manifest.report = report_of(reader, preparation, spool, manifest);
  spool.remove();
  write_file(folder.folder(), "tokenizer.json", reader.tokenizer_json());
  if (!reader.own_template().empty())
    write_file(folder.folder(), "chat_template.jinja", reader.own_template());
  if (!manifest.report["training_template"].is_null())
    write_file(folder.folder(), "training_template.jinja", reader.training_template()->source);
  write_file(folder.folder(), data::kPreparedManifest, data::to_json(manifest));
  folder.publish();
  return answer(request, manifest.report, false, steady_seconds() - began);
}

}  // namespace hawser::train
