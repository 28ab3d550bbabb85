// Sources of micro-batches: the config's data, a batch pushed by the host program, or the next tokens of a
// text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/data/dataset.h"
#include "engine/execute/batch_source.h"
#include "engine/execute/step_result.h"
#include "engine/optim/objective.h"
#include "engine/optim/teacher.h"

namespace hawser::train {

/// Loads rows of the config's data, from sample `first` on. `multiple`: if rows are grouped by length, only
/// columns up to the longest row of a micro-batch are needed, rounded up to a multiple; 0: all columns.
class DatasetSource : public BatchSource {
 public:
  DatasetSource(const data::Dataset& dataset, data::Split split, uint64_t first, int64_t multiple = 0)
      : dataset_(dataset), split_(split), first_(first), multiple_(multiple) {}
  void load(int32_t micro_batch, const MicroBatch& out) override;
  int64_t columns(int32_t micro_batch, int64_t batch, int64_t seq) const override;

 private:
  const data::Dataset& dataset_;
  data::Split split_;
  uint64_t first_;
  int64_t multiple_;
};

/// Loads rows from another source, and keeps a copy of what an objective over pairs reads of the latest
/// micro-batch.
class PairsKept : public BatchSource {
 public:
  PairsKept(BatchSource* from, const optim::ObjectiveConfig& objective, int64_t rows, int64_t seq);
  void load(int32_t micro_batch, const MicroBatch& out) override;

  std::vector<int32_t> targets;   ///< [rows, seq]; if the model ends in a score, only where it is read
  std::vector<float> references;  ///< [rows]; 0 if the objective has no reference

 private:
  BatchSource* const from_;
  const bool has_references_, scores_;
};

/// Loads rows of the caller's batch, starting at row `first_row`. Row 0 of the batch has the sample number
/// `first_sample`.
class BatchViewSource : public BatchSource {
 public:
  BatchViewSource(const BatchView& view, int64_t first_row, uint64_t first_sample)
      : view_(view), first_row_(first_row), first_sample_(first_sample) {}
  void load(int32_t micro_batch, const MicroBatch& out) override;

 private:
  const BatchView& view_;
  int64_t first_row_;
  uint64_t first_sample_;
};

/// Loads one row of tokens whose positions start at `first_position`, for generation.
class TextSource : public BatchSource {
 public:
  TextSource(const int32_t* tokens, int64_t first_position)
      : tokens_(tokens), first_position_(first_position) {}
  void load(int32_t micro_batch, const MicroBatch& out) override;

 private:
  const int32_t* tokens_;
  int64_t first_position_;
};

/// Throws kInvalidArgument or kDataInvalid (row, column, value) unless every token is in [0, vocab), every
/// target is too or is -100, every weight is finite and not negative, and document_begin is in [0, column]
/// and never decreases past a document boundary.
void check_batch(const BatchView& batch, int64_t vocab, int64_t most_cols, bool needs_targets);

/// Throws kInvalidArgument unless the batch has what the objective reads and nothing that it ignores;
/// kDataInvalid (row, value) for a log-probability of the reference that is above 0 or not finite, and for a
/// pair without a difference.
void check_for_objective(const BatchView& batch, const optim::ObjectiveConfig& objective);

/// Throws kInvalidArgument if only one of batch and config has a teacher, or if their numbers of ids differ.
/// Throws kDataInvalid (row, column, value) unless the ids of each target are distinct and in the vocabulary,
/// and their log-probabilities are finite and at most 0. Rows of masked targets are not read.
void check_for_teacher(const BatchView& batch, const optim::TeacherConfig& teacher, int64_t vocab);

/// Throws kFailedPrecondition unless the host program may pass gradients under the objective, of a model with
/// `ahead` depths of multi-token prediction.
void require_own_gradients(const optim::ObjectiveConfig& objective, const optim::TeacherConfig& teacher,
                           int64_t ahead);
/// Throws kFailedPrecondition unless a data source of the host program can serve the objective.
void require_sourced(const optim::ObjectiveConfig& objective, const optim::TeacherConfig& teacher);

/// Throws kDataInvalid (row, column, value) unless every gradient is finite, and every gradient of a masked
/// target is 0.
void check_gradients(const BatchView& batch, const float* gradients);

/// A copy of a pushed global batch. Its memory is reused for the next push.
class PushedBatch {
 public:
  void set(const BatchView& batch);
  /// Copies the batch with the gradients [rows, cols] of an objective with respect to each target's
  /// log-probability. A token's loss is its negative log-probability, so its weight is the negated gradient.
  void set(const BatchView& batch, const float* gradients);
  /// True if the batch's weights are gradients of an objective, which nothing divides.
  bool has_gradients() const { return has_gradients_; }

  /// Arrays for the caller to fill. At first, every token is 0, every target is masked, each row is one
  /// document, and every weight is 1.
  struct Room {
    int32_t *tokens = nullptr, *targets = nullptr, *document_begin = nullptr;
    float* weights = nullptr;
  };
  Room make_room(int64_t rows, int64_t cols);
  /// Makes the arrays of make_room the batch. It has document_begin only if `documents` is true, and weights
  /// only if `weights` is.
  void take(bool documents, bool weights);

  bool waiting() const { return waiting_; }
  void drop() { waiting_ = false; }
  const BatchView& view() const { return view_; }

 private:
  std::vector<int32_t> tokens_, targets_, document_begin_, teacher_ids_;
  std::vector<float> weights_, references_, teacher_logprobs_;
  BatchView view_;
  bool waiting_ = false, has_gradients_ = false;
};

}  // namespace hawser::train
