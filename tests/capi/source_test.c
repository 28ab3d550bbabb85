/* hws_data_set_source: batches that train asks for, under the config's policy of validation and checkpoints.
 * */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "free_address.h"
#include "tiny.h"

/* A source that gives batch number samples / kRows + 1 of fill_batch, up to `end`. */
typedef struct source {
  int64_t asked, destroyed, last_samples;
  int64_t end;         /* there are so many batches; 0: no end */
  int32_t answer;      /* instead of 0, if it is not 0 */
  int32_t wrong_token; /* in row 1, column 2, if it is not 0 */
  int32_t rows, documents, weights;
  const hws_engine* engine;
} source;

static int32_t give(void* user, hws_source_batch* batch) {
  source* s = user;
  CHECK(batch->struct_size == sizeof *batch && batch->rows == kRows && batch->cols == kCols);
  CHECK(batch->has_documents == 0 && batch->tokens[0] == 0 && batch->targets[kBatchTokens - 1] == -100);
  CHECK(batch->has_weights == 0 && batch->weights[0] == 1 && batch->weights[kBatchTokens - 1] == 1);
  ++s->asked;
  s->last_samples = batch->samples;
  const int64_t number = batch->samples / kRows + 1;
  CHECK(batch->samples % kRows == 0);
  if (s->engine != NULL) {
    double rate = 0;
    CHECK_OK(hws_engine_learning_rate(s->engine, &rate));
  }
  if (s->answer != 0) return s->answer;
  if (s->end != 0 && number > s->end) return HWS_SOURCE_END;
  tiny_batch b;
  fill_batch(&b, (uint32_t)number);
  const size_t rows = s->rows > 0 ? (size_t)s->rows : kRows;
  memcpy(batch->tokens, b.tokens, rows * kCols * sizeof *b.tokens);
  memcpy(batch->targets, b.targets, rows * kCols * sizeof *b.targets);
  if (s->wrong_token != 0) batch->tokens[kCols + 2] = s->wrong_token;
  if (s->documents) {
    for (int i = 0; i < kBatchTokens; ++i) batch->document_begin[i] = i % kCols < 8 ? 0 : 8;
    batch->has_documents = 1;
  }
  for (int i = 0; i < kBatchTokens && s->weights != 0; ++i) batch->weights[i] = (float)(i % 3);
  batch->has_weights = s->weights == 1;
  return 0;
}
static void on_destroy(void* user) { ++((source*)user)->destroyed; }

static int64_t weights_of(hws_engine* engine, float* weights) {
  const int64_t count = all_weights(engine, weights, kMaxWeights);
  CHECK(count > 1000);
  return count;
}
static int same_weights(hws_engine* a, hws_engine* b) {
  static float first[kMaxWeights], second[kMaxWeights];
  const int64_t count = weights_of(a, first);
  return weights_of(b, second) == count && memcmp(first, second, (size_t)count * sizeof *first) == 0;
}

static void trains_on_what_it_gives(void) {
  hws_engine *engine = tiny_engine(0), *by_hand = tiny_engine(0);
  source s = {.engine = engine}, other = {0};
  tiny_batch pushed;
  CHECK_ERROR(hws_engine_train_step(engine, NULL), HWS_FAILED_PRECONDITION, "hws_data_set_source");
  CHECK_OK(hws_data_set_source(engine, give, &s, on_destroy));
  CHECK_OK(hws_engine_train(engine, 5, NULL, NULL, NULL));
  CHECK(s.asked == 5 && s.last_samples == 4 * kRows);
  for (uint32_t step = 1; step <= 5; ++step) push_and_step(by_hand, step);
  CHECK(same_weights(engine, by_hand));
  /* A pushed batch comes first; the source continues after its rows. */
  fill_batch(&pushed, 6);
  CHECK_OK(hws_data_push(engine, &pushed.batch));
  CHECK_OK(hws_engine_train(engine, 7, NULL, NULL, NULL));
  CHECK(s.asked == 6 && s.last_samples == 6 * kRows);
  for (uint32_t step = 6; step <= 7; ++step) push_and_step(by_hand, step);
  CHECK(same_weights(engine, by_hand));
  /* After a rewind, the step asks the source again. */
  CHECK_OK(hws_engine_forward_backward(engine, NULL));
  CHECK_OK(hws_engine_discard(engine, 1, NULL));
  CHECK_OK(hws_engine_train_step(engine, NULL));
  push_and_step(by_hand, 8);
  CHECK(s.asked == 8 && s.last_samples == 7 * kRows && same_weights(engine, by_hand));
  /* After a load, the source continues from the checkpoint's samples. */
  CHECK_OK(hws_checkpoint_save(engine, check_path("at-8")));
  CHECK_OK(hws_engine_train(engine, 10, NULL, NULL, NULL));
  CHECK_OK(hws_checkpoint_load(engine, check_path("at-8"), 0));
  CHECK_OK(hws_engine_train_step(engine, NULL));
  push_and_step(by_hand, 9);
  CHECK(s.last_samples == 8 * kRows && same_weights(engine, by_hand));
  CHECK(s.destroyed == 0);
  CHECK_OK(hws_data_set_source(engine, give, &other, on_destroy));
  CHECK(s.destroyed == 1);
  CHECK_OK(hws_data_set_source(engine, NULL, NULL, NULL));
  CHECK(other.destroyed == 1);
  CHECK_STATUS(hws_engine_train_step(engine, NULL), HWS_FAILED_PRECONDITION);
  CHECK_OK(hws_data_set_source(engine, give, &s, on_destroy));
  hws_engine_destroy(engine);
  CHECK(s.destroyed == 2);
  CHECK_STATUS(hws_data_set_source(engine, give, &s, on_destroy), HWS_BAD_HANDLE);
  CHECK(s.destroyed == 3);
  hws_engine_destroy(by_hand);
  engine = tiny_engine(HWS_ENGINE_INFERENCE);
  CHECK_ERROR(hws_data_set_source(engine, give, &s, on_destroy), HWS_FAILED_PRECONDITION, "set_source");
  CHECK(s.destroyed == 4);
  hws_engine_destroy(engine);
}

static void rows_and_documents_are_as_pushed(void) {
  hws_engine *engine = tiny_engine(0), *by_hand = tiny_engine(0);
  source s = {.rows = 1, .documents = 1};
  tiny_batch b;
  int32_t begin[kBatchTokens];
  fill_batch(&b, 1);
  memset(b.tokens + kCols, 0, sizeof b.tokens - kCols * sizeof *b.tokens);
  for (int i = kCols; i < kBatchTokens; ++i) b.targets[i] = -100;
  for (int i = 0; i < kBatchTokens; ++i) begin[i] = i % kCols < 8 ? 0 : 8;
  b.batch.document_begin = begin;
  hws_step_result sourced = {.struct_size = sizeof sourced}, pushed = {.struct_size = sizeof pushed};
  CHECK_OK(hws_data_set_source(engine, give, &s, NULL));
  CHECK_OK(hws_engine_train_step(engine, &sourced));
  CHECK_OK(hws_data_push(by_hand, &b.batch));
  CHECK_OK(hws_engine_train_step(by_hand, &pushed));
  CHECK(sourced.tokens == pushed.tokens && sourced.tokens < kCols);
  CHECK(sourced.loss == pushed.loss && same_weights(engine, by_hand));
  hws_engine_destroy(engine);
  hws_engine_destroy(by_hand);
}

/* Source.weights: 1: target i has weight i % 3; 2: weights are filled in, but has_weights is not set. */
static void weights_are_as_pushed(void) {
  hws_engine *engine = tiny_engine(0), *by_hand = tiny_engine(0);
  source s = {.weights = 1};
  tiny_batch b;
  float weights[kBatchTokens];
  hws_step_result sourced = {.struct_size = sizeof sourced}, pushed = {.struct_size = sizeof pushed};
  double loss = 0;
  fill_batch(&b, 1);
  for (int i = 0; i < kBatchTokens; ++i) weights[i] = (float)(i % 3);
  b.batch.weights = weights;
  CHECK_OK(hws_data_set_source(engine, give, &s, NULL));
  CHECK_OK(hws_engine_train_step(engine, &sourced));
  CHECK_OK(hws_engine_eval(by_hand, &b.batch, 0, &loss, NULL));
  CHECK_OK(hws_data_push(by_hand, &b.batch));
  CHECK_OK(hws_engine_train_step(by_hand, &pushed));
  CHECK(sourced.loss == pushed.loss && pushed.loss == loss && same_weights(engine, by_hand));
  /* The next batch has no weights: neither earlier ones nor those filled in without has_weights. */
  s.weights = 2;
  CHECK_OK(hws_engine_train_step(engine, &sourced));
  push_and_step(by_hand, 2);
  CHECK(same_weights(engine, by_hand));
  /* A struct of the previous version has no weights, whatever bytes follow it. */
  b.batch.struct_size = offsetof(hws_batch, weights);
  weights[0] = NAN;
  CHECK_OK(hws_data_push(by_hand, &b.batch));
  CHECK_OK(hws_engine_forward_backward(by_hand, NULL));
  CHECK_OK(hws_engine_discard(by_hand, 1, NULL));
  b.batch.struct_size = sizeof b.batch;
  CHECK_ERROR(hws_data_push(by_hand, &b.batch), HWS_DATA_INVALID, "weight nan at row 0, column 0");
  hws_engine_destroy(engine);
  hws_engine_destroy(by_hand);
}

static int32_t count_steps(void* user, const hws_train_record* record) {
  int64_t* counts = user;
  ++counts[0];
  if (!isnan(record->validation_loss)) ++counts[1];
  if (record->saved) ++counts[2];
  return 0;
}

/* Validation and checkpoints follow the config; a run that runs out of data ends normally. */
static void the_policy_is_the_configs(void) {
  hws_config* config = text_config();
  hws_engine* engine = NULL;
  hws_buffer* out = NULL;
  source s = {.end = 6};
  int64_t counts[3] = {0, 0, 0};
  char value[600];
  snprintf(value, sizeof value, "{\"path\": \"%s\", \"every\": 4}", check_path("run"));
  CHECK_OK(hws_config_set(config, "/checkpoint", value));
  CHECK_OK(hws_config_set(config, "/train/steps", "100"));
  CHECK_OK(hws_engine_create(config, 0, &engine));
  CHECK_OK(hws_data_set_source(engine, give, &s, NULL));
  CHECK_OK(hws_engine_train(engine, 0, count_steps, counts, NULL));
  CHECK(counts[0] == 6 && counts[1] == 1 && counts[2] == 1 && s.asked == 7);
  CHECK_OK(hws_checkpoint_latest(check_path("run"), &out));
  CHECK(strstr(check_text(out), "step-6") != NULL); /* the last step is on disk */
  CHECK_ERROR(hws_engine_train_step(engine, NULL), HWS_OUT_OF_RANGE, "no batch for step 7");
  CHECK_ERROR(hws_engine_forward_backward(engine, NULL), HWS_OUT_OF_RANGE, "no batch for step 7");
  CHECK_OK(hws_engine_train(engine, 0, count_steps, counts, NULL)); /* nothing to do */
  CHECK(counts[0] == 6);
  hws_engine_destroy(engine);
  hws_config_destroy(config);
}

static void a_failure_changes_nothing(void) {
  hws_engine *engine = tiny_engine(0), *by_hand = tiny_engine(0);
  source s = {0};
  CHECK_OK(hws_data_set_source(engine, give, &s, NULL));
  CHECK_OK(hws_engine_train(engine, 2, NULL, NULL, NULL));
  s.answer = 7;
  CHECK_ERROR(hws_engine_train(engine, 5, NULL, NULL, NULL), HWS_CALLBACK, "returned 7 for step 3");
  s.answer = 0, s.wrong_token = kVocab;
  CHECK_ERROR(hws_engine_train(engine, 5, NULL, NULL, NULL), HWS_DATA_INVALID, "row 1, column 2");
  s.wrong_token = 0;
  CHECK_OK(hws_engine_train(engine, 4, NULL, NULL, NULL));
  for (uint32_t step = 1; step <= 4; ++step) push_and_step(by_hand, step);
  CHECK(same_weights(engine, by_hand));
  hws_engine_destroy(engine);
  hws_engine_destroy(by_hand);
}

/* ------------------------------------------------------------------------------------------ several ranks */

static hws_config* two_rank_config(void) {
  hws_config* config = tiny_config();
  CHECK_OK(hws_config_set(config, "/mesh/dp_shard", "2"));
  CHECK_OK(hws_config_set(config, "/batch", "{\"micro_batch\":2,\"grad_accum_steps\":1,\"sequence\":16}"));
  return config;
}

static char g_address[64];

/* Runs a rank as in separate processes, each with its own source. Rank 1's source fails once, and ends
 * first. */
static void* run_rank(void* user) {
  const int rank = *(const int*)user;
  hws_comm_address address = {.struct_size = sizeof address, .rank = rank, .world_size = 2};
  address.address = g_address;
  hws_comm* comm = NULL;
  hws_engine* engine = NULL;
  hws_config* config = two_rank_config();
  source s = {.end = rank == 1 ? 3 : 5, .answer = rank == 1 ? 9 : 0};
  int64_t counts[3] = {0, 0, 0};
  CHECK_OK(hws_comm_create_address(&address, &comm));
  CHECK_OK(hws_engine_create_ranks(config, comm, 0, &engine));
  CHECK_OK(hws_data_set_source(engine, give, &s, NULL));
  CHECK_ERROR(hws_engine_train(engine, 0, NULL, NULL, NULL), HWS_CALLBACK, "rank 1: hws_data_set_source");
  s.answer = 0;
  CHECK_OK(hws_engine_train(engine, 0, count_steps, counts, NULL));
  CHECK(counts[0] == 3);
  CHECK_STATUS(hws_engine_train_step(engine, NULL), HWS_OUT_OF_RANGE);
  hws_engine_destroy(engine);
  hws_comm_destroy(comm);
  hws_config_destroy(config);
  return NULL;
}

static void ranks_share_it(void) {
  hws_config* config = two_rank_config();
  hws_comm* comm = NULL;
  hws_engine *engine = NULL, *by_hand = tiny_engine(0);
  source s = {0};
  hws_step_result result = {.struct_size = sizeof result};
  CHECK_OK(hws_comm_create_local(2, &comm));
  CHECK_OK(hws_engine_create_ranks(config, comm, 0, &engine));
  CHECK_OK(hws_data_set_source(engine, give, &s, NULL));
  CHECK_OK(hws_engine_train_step(engine, &result));
  CHECK(s.asked == 1); /* once for both */
  CHECK(fabs(result.loss - push_and_step(by_hand, 1).loss) < 1e-6);
  hws_engine_destroy(engine);
  hws_engine_destroy(by_hand);
  hws_comm_destroy(comm);
  hws_config_destroy(config);

  free_address(g_address, sizeof g_address);
  pthread_t thread;
  int ranks[2] = {0, 1};
  CHECK(pthread_create(&thread, NULL, run_rank, &ranks[1]) == 0);
  run_rank(&ranks[0]);
  pthread_join(thread, NULL);
}

int main(void) {
  check_begin();
  trains_on_what_it_gives();
  rows_and_documents_are_as_pushed();
  weights_are_as_pushed();
  the_policy_is_the_configs();
  a_failure_changes_nothing();
  ranks_share_it();
  return check_end();
}
