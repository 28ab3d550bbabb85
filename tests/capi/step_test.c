/* The transactional step: push, train_step, forward_backward, commit, discard; what an engine says of itself.
 */
#include <math.h>
#include <string.h>

#include "check.h"
#include "tiny.h"

static float g_before[kMaxWeights], g_after[kMaxWeights];

static void learns(void) {
  hws_engine* engine = tiny_engine(0);
  const hws_step_result first = push_and_step(engine, 1);
  CHECK(first.outcome == HWS_STEP_ACCEPTED && first.step == 1 && first.samples == kRows &&
        first.skipped == 0);
  CHECK(fabs(first.loss - log(kVocab)) < 0.5 && first.grad_norm > 0 && first.learning_rate > 0);
  CHECK(first.tokens > 0 && first.tokens < kBatchTokens && first.seconds > 0);
  hws_step_result last = first;
  for (uint32_t i = 0; i < 12; ++i) last = push_and_step(engine, 1);
  CHECK(last.step == 13 && last.loss < first.loss - 0.5);
  CHECK_ERROR(hws_engine_train_step(engine, NULL), HWS_FAILED_PRECONDITION, "push");
  hws_engine_destroy(engine);
}

/* Before a step and while it is pending, the learning rate equals that of the step's result. */
static void tells_the_next_learning_rate(void) {
  hws_config* config = tiny_config();
  hws_engine* engine = NULL;
  CHECK_OK(hws_config_set(config, "/schedule", "{\"kind\": \"linear\", \"warmup_steps\": 3}"));
  CHECK_OK(hws_engine_create(config, 0, &engine));
  double rate = 0, before = 0;
  for (uint32_t step = 1; step <= 6; ++step) {
    tiny_batch batch;
    fill_batch(&batch, step);
    hws_step_result result = {sizeof result, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    CHECK_OK(hws_data_push(engine, &batch.batch));
    CHECK_OK(hws_engine_learning_rate(engine, &rate));
    CHECK_OK(hws_engine_forward_backward(engine, &result));
    const int rises = step <= 3,
              falls = step > 4; /* step 4 is the first of the decay: it has the peak, too */
    CHECK(result.learning_rate == rate && (rises ? rate > before : falls ? rate < before : rate == before));
    before = rate;
    CHECK_OK(hws_engine_learning_rate(engine, &rate));
    CHECK(rate == before);
    CHECK_OK(step % 2 == 0 ? hws_engine_commit(engine, &result) : hws_engine_discard(engine, 0, &result));
    CHECK(result.learning_rate == before);
  }
  CHECK(fabs(rate / 0.01 - 0.6) < 1e-9); /* 0.01 (8 - 5) / (8 - 3) */
  hws_engine_destroy(engine);
  hws_config_destroy(config);
}

static void tells_its_sizes(void) {
  const uint32_t flags[] = {0, HWS_ENGINE_INFERENCE};
  for (int i = 0; i < 2; ++i) {
    hws_engine* engine = tiny_engine(flags[i]);
    hws_sizes sizes = {sizeof sizes, 0, 0, 0, 0, 0};
    CHECK_OK(hws_engine_sizes(engine, &sizes));
    CHECK(sizes.vocab_size == kVocab && sizes.sequence == kCols && sizes.global_batch == kRows);
    CHECK(sizes.struct_size == sizeof sizes && sizes.reserved == 0);
    hws_engine_destroy(engine);
  }
}

static int64_t gradients_of(hws_engine* engine, float* to) {
  const char* const names[] = {"embedding.tokens.weight", "blocks.0.mlp.down.weight", "final_norm.weight"};
  int64_t count = 0;
  for (int i = 0; i < 3; ++i) {
    const int64_t size = (i == 0 ? kVocab : i == 1 ? 128 : 1) * 32;
    CHECK_OK(hws_tensor_get(engine, HWS_TENSOR_GRADIENT, names[i], to + count, (size_t)size * sizeof(float)));
    count += size;
  }
  return count;
}

/* The mean of negative log-probabilities has the gradient -1/n with respect to each, so it must give the
 * bits of the library's own loss. */
static void takes_gradients_of_the_host(void) {
  hws_engine* engine = tiny_engine(0);
  tiny_batch b;
  fill_batch(&b, 5);
  hws_step_result known = {sizeof known, 0, 0, 0, 0, 0, 0, 0, 0, 0}, own = known;
  CHECK_OK(hws_data_push(engine, &b.batch));
  CHECK_OK(hws_engine_forward_backward(engine, &known));
  const size_t bytes = (size_t)gradients_of(engine, g_before) * sizeof(float);
  CHECK_OK(hws_engine_discard(engine, 1, NULL));
  float by_logprob[kBatchTokens];
  for (int i = 0; i < kBatchTokens; ++i)
    by_logprob[i] = b.targets[i] == -100 ? 0.0f : -(float)(1.0 / (double)known.tokens);
  CHECK_OK(hws_engine_backward_with(engine, &b.batch, by_logprob, sizeof by_logprob, &own));
  CHECK(own.outcome == HWS_STEP_PENDING && own.tokens == known.tokens && own.grad_norm == known.grad_norm);
  CHECK(fabs(own.loss - known.loss) < 1e-6);
  gradients_of(engine, g_after);
  CHECK(memcmp(g_before, g_after, bytes) == 0);
  CHECK_ERROR(hws_engine_backward_with(engine, &b.batch, by_logprob, sizeof by_logprob, NULL),
              HWS_FAILED_PRECONDITION, "pending");
  CHECK_OK(hws_engine_commit(engine, &own));
  CHECK(own.step == 1 && own.samples == kRows);
  hws_engine_destroy(engine);
}

static void refuses_gradients_that_mean_nothing(void) {
  hws_engine* engine = tiny_engine(0);
  tiny_batch b;
  fill_batch(&b, 5);
  float by_logprob[kBatchTokens] = {0};
  int masked = 0;
  while (b.targets[masked] != -100) ++masked;
  by_logprob[masked] = 0.5f;
  CHECK_ERROR(hws_engine_backward_with(engine, &b.batch, by_logprob, sizeof by_logprob, NULL),
              HWS_DATA_INVALID, "masked");
  by_logprob[masked] = NAN;
  CHECK_ERROR(hws_engine_backward_with(engine, &b.batch, by_logprob, sizeof by_logprob, NULL),
              HWS_DATA_INVALID, "not finite");
  by_logprob[masked] = 0;
  CHECK_ERROR(hws_engine_backward_with(engine, &b.batch, by_logprob, sizeof by_logprob - 4, NULL),
              HWS_INVALID_ARGUMENT, "4 x 16");
  hws_batch other = b.batch;
  other.weights = by_logprob;
  CHECK_ERROR(hws_engine_backward_with(engine, &other, by_logprob, sizeof by_logprob, NULL),
              HWS_INVALID_ARGUMENT, "weights");
  other = b.batch;
  other.rows = 2;
  CHECK_ERROR(hws_engine_backward_with(engine, &other, by_logprob, sizeof by_logprob / 2, NULL),
              HWS_INVALID_ARGUMENT, "2 x 16");
  CHECK_OK(hws_data_push(engine, &b.batch));
  CHECK_ERROR(hws_engine_backward_with(engine, &b.batch, by_logprob, sizeof by_logprob, NULL), HWS_BUSY,
              "waiting");
  CHECK_OK(hws_engine_train_step(engine, NULL));
  CHECK_OK(hws_engine_backward_with(engine, &b.batch, by_logprob, sizeof by_logprob, NULL));
  CHECK_OK(hws_engine_discard(engine, 0, NULL));
  hws_engine_destroy(engine);
  engine = tiny_engine(HWS_ENGINE_INFERENCE);
  CHECK_ERROR(hws_engine_backward_with(engine, &b.batch, by_logprob, sizeof by_logprob, NULL),
              HWS_FAILED_PRECONDITION, "inference");
  hws_engine_destroy(engine);
}

static void commits_or_discards(void) {
  hws_engine* engine = tiny_engine(0);
  tiny_batch batch;
  fill_batch(&batch, 3);
  hws_step_result pending = {sizeof pending, 0, 0, 0, 0, 0, 0, 0, 0, 0}, result = pending;
  const int64_t count = all_weights(engine, g_before, kMaxWeights);
  CHECK(count > 1000);

  CHECK_OK(hws_data_push(engine, &batch.batch));
  CHECK_ERROR(hws_data_push(engine, &batch.batch), HWS_BUSY, "waiting");
  CHECK_OK(hws_engine_forward_backward(engine, &pending));
  CHECK(pending.outcome == HWS_STEP_PENDING && pending.step == 1);
  CHECK_STATUS(hws_engine_train_step(engine, NULL), HWS_FAILED_PRECONDITION);
  hws_buffer* statistics = NULL;
  CHECK_OK(hws_tensor_statistics(engine, &statistics));
  CHECK(strstr(check_text(statistics), "embedding.tokens.weight") != NULL);
  CHECK_OK(hws_engine_discard(engine, 0, &result));
  CHECK(result.outcome == HWS_STEP_DISCARDED && result.samples == kRows && result.skipped == 1);
  CHECK(all_weights(engine, g_after, kMaxWeights) == count);
  CHECK(memcmp(g_before, g_after, (size_t)count * 4) == 0);

  CHECK_OK(hws_data_push(engine, &batch.batch));
  CHECK_OK(hws_engine_forward_backward(engine, &result));
  CHECK(result.step == 2 && result.loss == pending.loss && result.grad_norm == pending.grad_norm);
  CHECK_OK(hws_engine_discard(engine, 1, NULL)); /* as if it had not been */
  CHECK_OK(hws_data_push(engine, &batch.batch));
  CHECK_OK(hws_engine_forward_backward(engine, NULL));
  CHECK_OK(hws_engine_commit(engine, &result));
  CHECK(result.outcome == HWS_STEP_ACCEPTED && result.step == 2 && result.samples == 2 * kRows);
  all_weights(engine, g_after, kMaxWeights);
  CHECK(memcmp(g_before, g_after, (size_t)count * 4) != 0);
  CHECK_STATUS(hws_engine_commit(engine, NULL), HWS_FAILED_PRECONDITION);
  CHECK_STATUS(hws_engine_discard(engine, 0, NULL), HWS_FAILED_PRECONDITION);
  hws_engine_destroy(engine);
}

static void refuses_bad_batches(void) {
  hws_engine* engine = tiny_engine(0);
  tiny_batch b;
  fill_batch(&b, 1);
  b.tokens[kCols + 2] = kVocab;
  CHECK_ERROR(hws_data_push(engine, &b.batch), HWS_DATA_INVALID, "61");
  fill_batch(&b, 1);
  b.batch.rows = kRows + 1;
  CHECK_ERROR(hws_data_push(engine, &b.batch), HWS_INVALID_ARGUMENT, "global_batch");
  b.batch.rows = INT64_MAX / 2;
  CHECK_ERROR(hws_data_push(engine, &b.batch), HWS_INVALID_ARGUMENT, "batch");
  b.batch.rows = -1;
  CHECK_ERROR(hws_data_push(engine, &b.batch), HWS_INVALID_ARGUMENT, "batch->rows");
  fill_batch(&b, 1);
  b.batch.targets = NULL;
  CHECK_ERROR(hws_data_push(engine, &b.batch), HWS_INVALID_ARGUMENT, "batch->targets");
  fill_batch(&b, 1);
  b.batch.tokens = (const int32_t*)(const void*)((const char*)b.tokens + 1);
  CHECK_ERROR(hws_data_push(engine, &b.batch), HWS_INVALID_ARGUMENT, "aligned");
  fill_batch(&b, 1);
  b.batch.struct_size = 3;
  CHECK_ERROR(hws_data_push(engine, &b.batch), HWS_ABI_MISMATCH, "struct_size");
  hws_engine_destroy(engine);
}

static void a_struct_of_a_newer_program(void) {
  hws_engine* engine = tiny_engine(0);
  struct {
    hws_step_result known;
    int64_t unknown;
  } result;
  memset(&result, 0, sizeof result);
  result.known.struct_size = sizeof result;
  tiny_batch batch;
  fill_batch(&batch, 1);
  CHECK_OK(hws_data_push(engine, &batch.batch));
  CHECK_OK(hws_engine_train_step(engine, &result.known));
  CHECK(result.known.step == 1 && result.known.struct_size == sizeof result);
  result.unknown = 1;
  CHECK_OK(hws_data_push(engine, &batch.batch));
  CHECK_ERROR(hws_engine_train_step(engine, &result.known), HWS_ABI_MISMATCH, "newer");
  hws_engine_destroy(engine);
}

static void an_inference_engine_does_not_train(void) {
  hws_engine* engine = tiny_engine(HWS_ENGINE_INFERENCE);
  tiny_batch batch;
  fill_batch(&batch, 1);
  CHECK_STATUS(hws_data_push(engine, &batch.batch), HWS_FAILED_PRECONDITION);
  CHECK_STATUS(hws_engine_train_step(engine, NULL), HWS_FAILED_PRECONDITION);
  double loss = 0;
  CHECK_ERROR(hws_engine_learning_rate(engine, &loss), HWS_FAILED_PRECONDITION, "inference");
  CHECK(loss == 0);
  CHECK_OK(hws_engine_eval(engine, &batch.batch, 0, &loss, NULL));
  CHECK(loss > 0);
  hws_engine_destroy(engine);
}

static int g_metrics, g_destroyed;
static void on_metrics(void* user, const char* json, size_t size) {
  CHECK(user == &g_metrics && json[size] == '\0' && strlen(json) == size);
  CHECK(strstr(json, "\"loss\"") != NULL);
  ++g_metrics;
}
static void on_destroy(void* user) {
  CHECK(user == &g_metrics);
  ++g_destroyed;
}

static void tells_about_itself(void) {
  hws_engine* engine = tiny_engine(0);
  hws_buffer* out = NULL;
  CHECK_OK(hws_engine_info(engine, &out));
  const char* info = check_text(out);
  CHECK(strstr(info, "\"parameters\"") != NULL && strstr(info, "\"flops_per_token\"") != NULL);
  CHECK_OK(hws_data_info(engine, &out));
  CHECK(check_text(out)[0] == '{');

  CHECK_OK(hws_engine_set_metrics(engine, on_metrics, &g_metrics, on_destroy));
  push_and_step(engine, 1);
  CHECK(g_metrics == 1);
  CHECK_OK(hws_engine_metrics(engine, &out));
  CHECK(strstr(check_text(out), "\"step\":1") != NULL);
  CHECK_OK(hws_engine_set_metrics(engine, on_metrics, &g_metrics, on_destroy));
  CHECK(g_destroyed == 1);
  CHECK_OK(hws_engine_set_metrics(engine, NULL, NULL, NULL));
  CHECK(g_destroyed == 2);
  push_and_step(engine, 1);
  CHECK(g_metrics == 1);
  CHECK_STATUS(hws_engine_set_metrics(NULL, on_metrics, &g_metrics, on_destroy), HWS_BAD_HANDLE);
  CHECK(g_destroyed == 3); /* also when it fails */
  CHECK_OK(hws_engine_set_metrics(engine, on_metrics, &g_metrics, on_destroy));
  hws_engine_destroy(engine);
  CHECK(g_destroyed == 4);
}

int main(void) {
  check_begin();
  learns();
  tells_the_next_learning_rate();
  tells_its_sizes();
  takes_gradients_of_the_host();
  refuses_gradients_that_mean_nothing();
  commits_or_discards();
  refuses_bad_batches();
  a_struct_of_a_newer_program();
  an_inference_engine_does_not_train();
  tells_about_itself();
  return check_end();
}
