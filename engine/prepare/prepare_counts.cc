#include "engine/prepare/prepare_counts.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "engine/base/error.h"
#include "engine/base/json.h"

namespace hawser::train {
namespace {

std::string form_name(text::RowForm form) {
  switch (form) {
    case text::RowForm::kText:
      return "text";
    case text::RowForm::kCompletion:
      return "prompt and completion";
    case text::RowForm::kChat:
      return "chat";
    case text::RowForm::kPair:
      break;
  }
  return "pair";
}

int64_t count_of(const std::map<RowFate, int64_t>& fates, RowFate fate) {
  const auto found = fates.find(fate);
  return found == fates.end() ? 0 : found->second;
}

}  // namespace

void PrepareCounts::begin_file(const std::string& path, const char* form, int64_t bytes) {
  files_.push_back({path.substr(path.rfind('/') + 1), form, bytes, 0});
}

void PrepareCounts::add(const RowDocuments& row, const std::string& where) {
  if (rows() > 0 && pairs() != (row.form == text::RowForm::kPair))
    fail(Code::kDataInvalid, "{}: the row is {} pair, but earlier rows are {}; prepare them separately",
         where, pairs() ? "not a" : "a", pairs() ? "pairs" : "not");
  ++files_.back().rows;
  ++forms_[form_name(row.form)];
  ++fates_[row.fate];
  lengths_.push_back(
      static_cast<int32_t>(std::min<int64_t>(row.length, std::numeric_limits<int32_t>::max())));
  for (const auto& [name, count] : row.unprinted) unprinted_[name] += count;
  if (row.fate == RowFate::kKept && !row.ends) ++endless_;
  if (row.fate == RowFate::kKept && row.by_training_template) ++by_training_template_;
  if (row.fate != RowFate::kKept || row.cut == 0) return;
  ++cut_rows_;
  cut_tokens_ += row.cut;
}

OrderedJson PrepareCounts::lengths() const {
  std::vector<int32_t> sorted = lengths_;
  std::sort(sorted.begin(), sorted.end());
  const auto at = [&](double share) {
    return sorted[static_cast<size_t>(share * static_cast<double>(sorted.size() - 1) + 0.5)];
  };
  const double sum = std::accumulate(sorted.begin(), sorted.end(), 0.0);
  return {{"mean", sum / static_cast<double>(sorted.size())},
          {"min", sorted.front()},
          {"p10", at(0.10)},
          {"p50", at(0.50)},
          {"p90", at(0.90)},
          {"p99", at(0.99)},
          {"max", sorted.back()}};
}

OrderedJson PrepareCounts::report() const {
  OrderedJson files = OrderedJson::array(), forms = OrderedJson::object();
  for (const File& file : files_)
    files.push_back({{"file", file.name}, {"form", file.form}, {"rows", file.rows}, {"bytes", file.bytes}});
  for (const auto& [form, count] : forms_) forms[form] = count;
  OrderedJson unprinted = OrderedJson::object();
  for (const auto& [name, count] : unprinted_) unprinted[name] = count;
  return {{"rows", rows()},
          {"files", files},
          {"forms", forms},
          {"length", lengths()},
          {"cut", {{"rows", cut_rows_}, {"tokens", cut_tokens_}}},
          {"dropped",
           {{"longer_than_sequence", count_of(fates_, RowFate::kTooLong)},
            {"nothing_learned", count_of(fates_, RowFate::kNoTargets)},
            {"answer_cut_away", count_of(fates_, RowFate::kAnswerCutAway)}}},
          {"unprinted", unprinted},
          {"without_end", endless_}};
}

std::string PrepareCounts::no_rows_message(int64_t sequence) const {
  return fmt::format(
      "no row is left to train on: of {} rows, {} have no target (no answer, or \"train\": false on all), {} "
      "were dropped because they are longer than {} tokens, and {} have their answer beyond that; give rows "
      "with answers, or a larger sequence",
      rows(), count_of(fates_, RowFate::kNoTargets), count_of(fates_, RowFate::kTooLong), sequence,
      count_of(fates_, RowFate::kAnswerCutAway));
}

}  // namespace hawser::train
