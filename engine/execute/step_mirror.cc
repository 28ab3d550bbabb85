#include "engine/execute/step_mirror.h"

namespace hawser::train {
namespace {

int64_t aligned(int64_t bytes) { return (bytes + 63) / 64 * 64; }

constexpr int64_t kScalarBytes = sizeof(StepScalars);

int64_t array_bytes(int64_t batch, int64_t seq) { return aligned(batch * seq * 4); }

/// The losses of a micro-batch, and those of each prediction depth.
int64_t loss_bytes(int64_t batch, int64_t columns, const MicroBatchForm& form) {
  return array_bytes(batch, form.own.count(columns) * (1 + form.ahead));
}

/// Returns the bytes of tokens, targets, positions, kv_begin, samples and, if wanted, weights. A teacher's
/// rows and those of prediction depths follow the weights, which are then always included.
int64_t arrays_bytes(int64_t batch, int64_t seq, bool weights, const MicroBatchForm& form) {
  const int64_t more = 2 * array_bytes(batch, seq * form.top) + 3 * array_bytes(batch, seq * form.ahead);
  return (weights || more > 0 ? 5 : 4) * array_bytes(batch, seq) + aligned(batch * 8) + more;
}

MicroBatch arrays_at(char* slot, int64_t batch, int64_t seq, const MicroBatchForm& form) {
  const int64_t array = array_bytes(batch, seq);
  const auto ints = [&](int64_t i) { return reinterpret_cast<int32_t*>(slot + i * array); };
  char* const samples = slot + 4 * array;
  char* const weights = samples + aligned(batch * 8);
  MicroBatch arrays{batch,
                    seq,
                    ints(0),
                    ints(1),
                    ints(2),
                    ints(3),
                    reinterpret_cast<uint64_t*>(samples),
                    reinterpret_cast<float*>(weights)};
  char* const ids = weights + array;
  const int64_t pairs = array_bytes(batch, seq * form.top), depths = array_bytes(batch, seq * form.ahead);
  if (form.top > 0)
    arrays.teacher = {form.top, reinterpret_cast<int32_t*>(ids), reinterpret_cast<float*>(ids + pairs)};
  char* const ahead = ids + 2 * pairs;
  if (form.ahead > 0)
    arrays.ahead = {form.ahead, reinterpret_cast<int32_t*>(ahead), reinterpret_cast<int32_t*>(ahead + depths),
                    reinterpret_cast<float*>(ahead + 2 * depths)};
  return arrays;
}

}  // namespace

int64_t MicroBatch::sent_bytes(int64_t batch, int64_t columns, bool weights, const MicroBatchForm& form) {
  if (form.own.ranks == 1) return arrays_bytes(batch, columns, weights, form);
  const int64_t count = form.own.count(columns);
  return arrays_bytes(batch, count, true, form) + array_bytes(batch, form.own.ranks * count);
}

int64_t MicroBatch::bytes(int64_t batch, int64_t columns, const MicroBatchForm& form) {
  const int64_t sent = sent_bytes(batch, columns, true, form);
  return form.own.ranks == 1 ? sent : sent + arrays_bytes(batch, columns, true, form);
}

MicroBatch MicroBatch::in_slot(char* slot, int64_t batch, int64_t columns, const MicroBatchForm& form) {
  const int64_t count = form.own.count(columns);
  MicroBatch arrays = arrays_at(slot, batch, count, form);
  if (form.own.ranks > 1)
    arrays.row_begins = reinterpret_cast<int32_t*>(slot + arrays_bytes(batch, count, true, form));
  return arrays;
}

MicroBatch MicroBatch::whole_rows(char* slot, int64_t batch, int64_t columns, const MicroBatchForm& form) {
  if (form.own.ranks == 1) return arrays_at(slot, batch, columns, form);
  return arrays_at(slot + sent_bytes(batch, columns, true, form), batch, columns, form);
}

int64_t StepMirror::bytes(int64_t micro_batches, int64_t batch, int64_t columns, const MicroBatchForm& form,
                          int64_t lookup_gradient, int64_t noted, int64_t fp8_maxima) {
  return micro_batches * (MicroBatch::bytes(batch, columns, form) + loss_bytes(batch, columns, form)) +
         aligned(kScalarBytes) + aligned(sums_bytes(noted)) + aligned(fp8_maxima) + aligned(lookup_gradient);
}

StepMirror::StepMirror(char* memory, int64_t micro_batches, int64_t batch, int64_t columns,
                       const MicroBatchForm& form, int64_t noted, int64_t fp8_maxima)
    : input_bytes_(MicroBatch::bytes(batch, columns, form)), loss_bytes_(loss_bytes(batch, columns, form)) {
  inputs_ = memory;
  losses_ = inputs_ + micro_batches * input_bytes_;
  char* const scalars = losses_ + micro_batches * loss_bytes_;
  scalars_ = reinterpret_cast<StepScalars*>(scalars);
  sums_ = reinterpret_cast<StepSums*>(scalars + aligned(kScalarBytes));
  char* const maxima = scalars + aligned(kScalarBytes) + aligned(sums_bytes(noted));
  fp8_maxima_ = reinterpret_cast<float*>(maxima);
  lookup_gradient_ = maxima + aligned(fp8_maxima);
}

}  // namespace hawser::train
