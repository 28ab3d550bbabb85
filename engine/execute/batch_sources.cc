#include "engine/execute/batch_sources.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/base/error.h"
#include "engine/execute/scored_tokens.h"

namespace hawser::train {

void DatasetSource::load(int32_t micro_batch, const MicroBatch& out) {
  const uint64_t first = first_ + static_cast<uint64_t>(micro_batch * out.batch);
  dataset_.read(split_, first,
                {out.tokens, out.targets, out.positions, out.kv_begin, out.batch, out.seq, out.weights,
                 out.references, out.teacher.ids, out.teacher.logprobs});
  std::iota(out.samples, out.samples + out.batch, first);
}

int64_t DatasetSource::columns(int32_t micro_batch, int64_t batch, int64_t seq) const {
  if (multiple_ == 0) return seq;
  return dataset_.columns(first_ + static_cast<uint64_t>(micro_batch * batch), batch, multiple_);
}

PairsKept::PairsKept(BatchSource* from, const optim::ObjectiveConfig& objective, int64_t rows, int64_t seq)
    : targets(static_cast<size_t>(rows * seq)),
      references(static_cast<size_t>(rows)),
      from_(from),
      has_references_(objective.has_reference()),
      scores_(objective.scores()) {}

void PairsKept::load(int32_t micro_batch, const MicroBatch& out) {
  MicroBatch with = out;
  if (has_references_) with.references = references.data();
  from_->load(micro_batch, with);
  std::copy_n(out.targets, out.batch * out.seq, targets.data());
  with.targets = targets.data();
  if (scores_) mark_scored_tokens(with);
}

void BatchViewSource::load(int32_t micro_batch, const MicroBatch& out) {
  const int64_t row = first_row_ + micro_batch * out.batch, begin = row * view_.cols, n = out.batch * out.seq;
  std::copy_n(view_.tokens + begin, n, out.tokens);
  if (view_.targets)
    std::copy_n(view_.targets + begin, n, out.targets);
  else
    std::fill_n(out.targets, n, -100);
  if (out.weights) std::copy_n(view_.weights + begin, n, out.weights);
  if (out.references) std::copy_n(view_.references + row, out.batch, out.references);
  if (const int64_t top = out.teacher.top; top > 0) {
    std::copy_n(view_.teacher_ids + begin * top, n * top, out.teacher.ids);
    std::copy_n(view_.teacher_logprobs + begin * top, n * top, out.teacher.logprobs);
  }
  for (int64_t i = 0; i < n; ++i) {
    const auto column = static_cast<int32_t>(i % out.seq);
    out.kv_begin[i] = view_.document_begin ? view_.document_begin[begin + i] : 0;
    out.positions[i] = column - out.kv_begin[i];
  }
  std::iota(out.samples, out.samples + out.batch, first_sample_ + static_cast<uint64_t>(row));
}

void TextSource::load(int32_t, const MicroBatch& out) {
  std::copy_n(tokens_, out.seq, out.tokens);
  std::fill_n(out.targets, out.seq, -100);
  std::iota(out.positions, out.positions + out.seq, static_cast<int32_t>(first_position_));
  out.samples[0] = 0;
}

void check_batch(const BatchView& b, int64_t vocab, int64_t most_cols, bool needs_targets) {
  if (b.rows < 1 || b.cols < 1 || b.tokens == nullptr || (needs_targets && b.targets == nullptr))
    fail(Code::kInvalidArgument, "the batch has {} rows, {} columns, tokens {}, targets {}", b.rows, b.cols,
         b.tokens ? "given" : "missing", b.targets ? "given" : "missing");
  if (b.cols > most_cols)
    fail(Code::kInvalidArgument, "the batch has {} columns; this engine takes at most {} (/batch/sequence)",
         b.cols, most_cols);
  for (int64_t i = 0; i < b.rows * b.cols; ++i) {
    const int64_t row = i / b.cols, column = i % b.cols;
    if (b.tokens[i] < 0 || b.tokens[i] >= vocab)
      fail(Code::kDataInvalid, "token {} at row {}, column {} is outside the vocabulary of {}", b.tokens[i],
           row, column, vocab);
    if (b.targets && b.targets[i] != -100 && (b.targets[i] < 0 || b.targets[i] >= vocab))
      fail(Code::kDataInvalid, "target {} at row {}, column {} is neither -100 nor in the vocabulary of {}",
           b.targets[i], row, column, vocab);
    if (b.weights && !(b.weights[i] >= 0 && std::isfinite(b.weights[i])))
      fail(Code::kDataInvalid,
           "weight {} at row {}, column {}: a weight must be finite and at least 0 (mask a target with -100)",
           b.weights[i], row, column);
    if (!b.document_begin) continue;
    const int32_t begin = b.document_begin[i], before = column > 0 ? b.document_begin[i - 1] : 0;
    if (begin < 0 || begin > column || (begin != before && begin != column))
      fail(Code::kDataInvalid,
           "document_begin {} at row {}, column {}: it must be the column where that position's document "
           "starts",
           begin, row, column);
  }
}

void check_for_objective(const BatchView& b, const optim::ObjectiveConfig& objective) {
  if (b.references && !objective.has_reference())
    fail(Code::kInvalidArgument,
         "the batch has log-probabilities of a reference, but /objective/kind uses none: leave them out");
  if (!objective.weighs_targets()) return;
  if (b.weights)
    fail(Code::kInvalidArgument,
         "the batch has weights, but /objective/kind computes its own: leave them out");
  if (objective.has_reference() && !b.references)
    fail(Code::kInvalidArgument,
         "the batch lacks the log-probabilities of the reference: before the first step, sum those of "
         "hws_engine_logprobs for each row");
  for (int64_t row = 0; row < b.rows; ++row) {
    if (b.references && !(b.references[row] <= 0 && std::isfinite(b.references[row])))
      fail(Code::kDataInvalid, "log-probability {} of the reference at row {} must be finite and at most 0",
           b.references[row], row);
    const int64_t at = row * b.cols;
    if (objective.scores() && b.targets[at + b.cols - 1] != -100)
      fail(Code::kDataInvalid,
           "target {} at row {}, column {} must be masked (-100): a reward's score is read at the token that "
           "the last target predicts, so that token must be in the row. Mask the target, or make the rows "
           "longer by one",
           b.targets[at + b.cols - 1], row, b.cols - 1);
    if (row % 2 == 0 && std::equal(b.tokens + at, b.tokens + at + b.cols, b.tokens + at + b.cols) &&
        std::equal(b.targets + at, b.targets + at + b.cols, b.targets + at + b.cols))
      fail(Code::kDataInvalid,
           "rows {} and {} are a pair of equal answers, so neither is preferred: leave the pair out", row,
           row + 1);
  }
}

void check_for_teacher(const BatchView& b, const optim::TeacherConfig& teacher, int64_t vocab) {
  const int64_t top = teacher.top;
  if (!teacher.on() && (b.teacher_ids || b.teacher_logprobs))
    fail(Code::kInvalidArgument,
         "the batch has rows of a teacher, but /teacher/top is 0: leave them out, or set /teacher/top");
  if (!teacher.on()) return;
  if (b.teacher_ids == nullptr || b.teacher_logprobs == nullptr)
    fail(Code::kInvalidArgument,
         "the batch lacks the rows of the teacher, {} ids and log-probabilities for each position: pass what "
         "hws_engine_top_logprobs of the teacher gives for the same rows",
         top);
  if (b.teacher_top != top)
    fail(Code::kInvalidArgument,
         "the batch has {} ids of the teacher for each position, but /teacher/top is {}", b.teacher_top, top);
  std::vector<int64_t> seen(static_cast<size_t>(vocab), -1);  // the position at which an id was last seen
  for (int64_t i = 0; i < b.rows * b.cols; ++i) {
    for (int64_t j = i * top; b.targets[i] != -100 && j < (i + 1) * top; ++j) {
      const int32_t id = b.teacher_ids[j];
      const float logprob = b.teacher_logprobs[j];
      const int64_t row = i / b.cols, column = i % b.cols;
      if (id < 0 || id >= vocab)
        fail(Code::kDataInvalid, "id {} of the teacher at row {}, column {} is outside the vocabulary of {}",
             id, row, column, vocab);
      if (seen[static_cast<size_t>(id)] == i)
        fail(Code::kDataInvalid, "the teacher has id {} twice at row {}, column {}", id, row, column);
      seen[static_cast<size_t>(id)] = i;
      if (!(logprob <= 0 && std::isfinite(logprob)))
        fail(Code::kDataInvalid,
             "log-probability {} of the teacher at row {}, column {}, id {} must be finite and at most 0",
             logprob, row, column, id);
    }
  }
}

void require_own_gradients(const optim::ObjectiveConfig& objective, const optim::TeacherConfig& teacher,
                           int64_t ahead) {
  if (ahead > 0)
    fail(
        Code::kFailedPrecondition,
        "/model/ahead {} adds the losses of tokens further ahead, whose gradients you cannot pass: set it to "
        "0 to pass your own gradients",
        ahead);
  if (teacher.on())
    fail(Code::kFailedPrecondition,
         "/teacher/top {} makes training follow a teacher; set it to 0 to pass your own gradients",
         teacher.top);
  if (objective.weighs_targets())
    fail(Code::kFailedPrecondition,
         "/objective/kind computes the gradients of this engine; set it to \"cross_entropy\" to pass your "
         "own");
}

void require_sourced(const optim::ObjectiveConfig& objective, const optim::TeacherConfig& teacher) {
  if (teacher.on())
    fail(Code::kFailedPrecondition,
         "data sources do not support the rows of a teacher yet (/teacher/top {}): push them (hws_data_push)",
         teacher.top);
  if (objective.weighs_targets())
    fail(Code::kFailedPrecondition,
         "data sources do not support pairs yet, which /objective/kind needs: push them (hws_data_push)");
}

void check_gradients(const BatchView& b, const float* gradients) {
  for (int64_t i = 0; i < b.rows * b.cols; ++i) {
    if (!std::isfinite(gradients[i]))
      fail(Code::kDataInvalid, "gradient {} at row {}, column {} is not finite", gradients[i], i / b.cols,
           i % b.cols);
    if (b.targets[i] == -100 && gradients[i] != 0)
      fail(Code::kDataInvalid,
           "gradient {} at row {}, column {} must be 0, because its target is masked (-100)", gradients[i],
           i / b.cols, i % b.cols);
  }
}

void PushedBatch::set(const BatchView& batch, const float* gradients) {
  BatchView with = batch;
  with.weights = gradients;
  set(with);
  for (float& weight : weights_) weight = -weight;
  has_gradients_ = true;
}

void PushedBatch::set(const BatchView& b) {
  const auto n = static_cast<size_t>(b.rows * b.cols);
  tokens_.assign(b.tokens, b.tokens + n);
  targets_.assign(b.targets, b.targets + n);
  if (b.document_begin) document_begin_.assign(b.document_begin, b.document_begin + n);
  if (b.weights) weights_.assign(b.weights, b.weights + n);
  if (b.references) references_.assign(b.references, b.references + b.rows);
  view_ = {b.rows,
           b.cols,
           tokens_.data(),
           targets_.data(),
           b.document_begin ? document_begin_.data() : nullptr,
           b.weights ? weights_.data() : nullptr,
           b.references ? references_.data() : nullptr};
  if (b.teacher_ids && b.teacher_logprobs) {
    const size_t pairs = n * static_cast<size_t>(b.teacher_top);
    teacher_ids_.assign(b.teacher_ids, b.teacher_ids + pairs);
    teacher_logprobs_.assign(b.teacher_logprobs, b.teacher_logprobs + pairs);
    view_.teacher_top = b.teacher_top;
    view_.teacher_ids = teacher_ids_.data(), view_.teacher_logprobs = teacher_logprobs_.data();
  }
  waiting_ = true, has_gradients_ = false;
}

PushedBatch::Room PushedBatch::make_room(int64_t rows, int64_t cols) {
  const auto n = static_cast<size_t>(rows * cols);
  tokens_.assign(n, 0);
  targets_.assign(n, -100);
  document_begin_.assign(n, 0);
  weights_.assign(n, 1.0f);
  view_ = {rows, cols, tokens_.data(), targets_.data(), nullptr, nullptr};
  return {tokens_.data(), targets_.data(), document_begin_.data(), weights_.data()};
}

void PushedBatch::take(bool documents, bool weights) {
  view_.weights = weights ? weights_.data() : nullptr;
  view_.document_begin = documents ? document_begin_.data() : nullptr;
  waiting_ = true, has_gradients_ = false;
}

}  // namespace hawser::train
