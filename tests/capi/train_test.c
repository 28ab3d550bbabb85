/* hws_engine_train: its callback and what may be called from there, stopping, cancelling, a second caller. */
#define _XOPEN_SOURCE 700
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "tiny.h"

static hws_engine* text_engine(int64_t steps) {
  hws_config* config = text_config();
  char value[32];
  snprintf(value, sizeof value, "%lld", (long long)steps);
  CHECK_OK(hws_config_set(config, "/train/steps", value));
  hws_engine* engine = NULL;
  CHECK_OK(hws_engine_create(config, 0, &engine));
  hws_config_destroy(config);
  return engine;
}

typedef struct run {
  hws_engine* engine;
  int64_t calls, validations, destroyed;
  double first_loss, last_loss;
  int64_t stop_at;   /* ends the run from the callback */
  int64_t cancel_at; /* cancels it from the callback */
  int64_t destroy_at;
} run;

static int32_t on_step(void* user, const hws_train_record* record) {
  run* r = user;
  ++r->calls;
  CHECK(record->struct_size == sizeof *record && record->step == r->calls);
  if (r->calls == 1) r->first_loss = record->loss;
  r->last_loss = record->loss;
  if (!isnan(record->validation_loss)) ++r->validations;
  if (record->step == r->cancel_at) CHECK_OK(hws_engine_cancel(r->engine));
  if (record->step == r->destroy_at) hws_engine_destroy(r->engine);
  return record->step == r->stop_at;
}
static void on_destroy(void* user) { ++((run*)user)->destroyed; }

static void runs_and_validates(void) {
  run r = {0};
  r.engine = text_engine(8);
  CHECK_OK(hws_engine_train(r.engine, 0, on_step, &r, on_destroy));
  CHECK(r.calls == 8 && r.validations == 2 && r.destroyed == 1 && r.last_loss < r.first_loss);
  r.stop_at = 10;
  CHECK_OK(hws_engine_train(r.engine, 20, on_step, &r, on_destroy));
  CHECK(r.calls == 10 && r.destroyed == 2);
  CHECK_OK(hws_engine_train(r.engine, 11, NULL, NULL, NULL));
  CHECK_ERROR(hws_engine_train(r.engine, -1, on_step, &r, on_destroy), HWS_INVALID_ARGUMENT, "until_step");
  CHECK(r.destroyed == 3);
  double loss = 0;
  int64_t tokens = 0;
  CHECK_OK(hws_engine_eval(r.engine, NULL, 1, &loss, &tokens));
  CHECK(loss > 0 && tokens == kRows * kCols);
  hws_buffer* out = NULL;
  CHECK_OK(hws_data_info(r.engine, &out));
  CHECK(strstr(check_text(out), "\"validation_tokens\"") != NULL);
  hws_engine_destroy(r.engine);
  CHECK_STATUS(hws_engine_train(r.engine, 0, on_step, &r, on_destroy), HWS_BAD_HANDLE);
  CHECK(r.destroyed == 4);
}

static int32_t on_token(void* user, int32_t token) {
  hws_engine* engine = *(hws_engine**)user;
  hws_buffer* text = NULL;
  CHECK_OK(hws_text_decode(engine, &token, 1, &text)); /* const calls are fine here, others are not */
  hws_buffer_destroy(text);
  double loss = 0;
  CHECK_STATUS(hws_engine_eval(engine, NULL, 1, &loss, NULL), HWS_BUSY);
  return 0;
}

/* Makes all calls that convention 7 allows in a callback, and one that it does not allow. */
static int32_t on_nested(void* user, const hws_train_record* record) {
  hws_engine* engine = *(hws_engine**)user;
  hws_buffer* out = NULL;
  CHECK_OK(hws_engine_info(engine, &out));
  hws_buffer_destroy(out);
  CHECK_OK(hws_engine_metrics(engine, &out));
  hws_buffer_destroy(out);
  double loss = 0;
  CHECK_OK(hws_engine_eval(engine, NULL, 1, &loss, NULL));
  int32_t prompt[] = {'l', 'i'};
  hws_batch batch = {.struct_size = sizeof batch, .rows = 1, .cols = 2, .tokens = prompt, .targets = NULL};
  float logits[2 * 256];
  CHECK_OK(hws_engine_forward(engine, &batch, logits, sizeof logits));
  hws_generate_request request = {sizeof request, -1, prompt, 2, 3, 0, 0, 1, 0, NULL, 0};
  CHECK_OK(hws_engine_generate(engine, &request, on_token, user, NULL));
  float bias[32];
  CHECK_OK(hws_tensor_get(engine, HWS_TENSOR_WEIGHT, "final_norm.weight", bias, sizeof bias));
  char name[32];
  snprintf(name, sizeof name, "nested-%d", (int)record->step);
  CHECK_OK(hws_checkpoint_save(engine, check_path(name)));
  CHECK_ERROR(hws_engine_train_step(engine, NULL), HWS_BUSY, "callback");
  CHECK_STATUS(hws_checkpoint_load(engine, check_path(name), 0), HWS_BUSY);
  return 0;
}
static void on_nested_metrics(void* user, const char* json, size_t size) {
  double loss = 0;
  (void)json, (void)size;
  CHECK_OK(hws_engine_eval(*(hws_engine**)user, NULL, 1, &loss, NULL));
}

static void callbacks_may_look_at_the_engine(void) {
  hws_engine* plain = text_engine(4);
  hws_engine* nested = text_engine(4);
  CHECK_OK(hws_engine_set_metrics(nested, on_nested_metrics, &nested, NULL));
  CHECK_OK(hws_engine_train(plain, 0, NULL, NULL, NULL));
  CHECK_OK(hws_engine_train(nested, 0, on_nested, &nested, NULL));
  static float a[kMaxWeights], b[kMaxWeights];
  const int64_t count = all_weights(plain, a, kMaxWeights);
  CHECK(all_weights(nested, b, kMaxWeights) == count);
  CHECK(memcmp(a, b, (size_t)count * 4) == 0); /* looking changes nothing */
  hws_engine_destroy(plain);
  hws_engine_destroy(nested);
}

/* Pushes the batch of the next step, as a host program does that trains on its own tokens. */
static int32_t push_next(void* user, const hws_train_record* record) {
  hws_engine* engine = *(hws_engine**)user;
  tiny_batch batch;
  fill_batch(&batch, (uint32_t)record->step + 1);
  CHECK_OK(hws_data_push(engine, &batch.batch));
  CHECK_ERROR(hws_data_push(engine, &batch.batch), HWS_BUSY, "waiting");
  double rate = 0, loss = 0;
  CHECK_OK(hws_engine_learning_rate(engine, &rate));
  CHECK(rate > 0);
  CHECK_OK(hws_engine_eval(engine, &batch.batch, 0, &loss, NULL)); /* leaves the batch that waits alone */
  return 0;
}
static int32_t pushes_from_a_token(void* user, int32_t token) {
  hws_engine* engine = *(hws_engine**)user;
  tiny_batch batch;
  fill_batch(&batch, (uint32_t)token);
  CHECK_ERROR(hws_data_push(engine, &batch.batch), HWS_BUSY, "callback");
  return 1;
}

/* Pushing from the callback gives the same weights as single steps. */
static void a_callback_may_push(void) {
  static float pushed[kMaxWeights], stepped[kMaxWeights];
  hws_engine *engine = tiny_engine(0), *by_hand = tiny_engine(0);
  tiny_batch batch;
  CHECK_ERROR(hws_engine_train(engine, 6, push_next, &engine, NULL), HWS_FAILED_PRECONDITION, "push one");
  fill_batch(&batch, 1);
  CHECK_OK(hws_data_push(engine, &batch.batch));
  CHECK_OK(hws_engine_train(engine, 6, push_next, &engine, NULL));
  for (uint32_t step = 1; step <= 6; ++step) push_and_step(by_hand, step);
  const int64_t count = all_weights(engine, pushed, kMaxWeights);
  CHECK(all_weights(by_hand, stepped, kMaxWeights) == count && count > 1000);
  CHECK(memcmp(pushed, stepped, (size_t)count * sizeof *pushed) == 0);
  /* The batch that the last callback pushed waits for the next step. */
  fill_batch(&batch, 7);
  CHECK_STATUS(hws_data_push(engine, &batch.batch), HWS_BUSY);
  CHECK_OK(hws_engine_train_step(engine, NULL));
  const int32_t prompt[] = {1, 2};
  const hws_generate_request request = {sizeof request, -1, prompt, 2, 3, 0, 0, 1, 0, NULL, 0};
  CHECK_OK(hws_engine_generate(engine, &request, pushes_from_a_token, &engine, NULL));
  /* A load drops a waiting batch. */
  CHECK_OK(hws_checkpoint_save(engine, check_path("pushed")));
  CHECK_OK(hws_data_push(engine, &batch.batch));
  CHECK_OK(hws_checkpoint_load(engine, check_path("pushed"), 0));
  CHECK_OK(hws_data_push(engine, &batch.batch));
  hws_engine_destroy(engine);
  hws_engine_destroy(by_hand);
}

/* If a call was cancelled before a step took a pushed batch, the next step takes it. */
static int32_t push_and_cancel(void* user, const hws_train_record* record) {
  push_next(user, record);
  CHECK_OK(hws_engine_cancel(*(hws_engine**)user));
  return 0;
}
static int32_t always(void* user) { return user == NULL; }
static void cancel_keeps_a_pushed_batch(void) {
  static float cancelled[kMaxWeights], whole[kMaxWeights];
  hws_engine *engine = tiny_engine(0), *other = tiny_engine(0);
  tiny_batch batch;
  fill_batch(&batch, 1);
  CHECK_OK(hws_data_push(engine, &batch.batch));
  CHECK_OK(hws_thread_set_interrupt(always, NULL, NULL));
  CHECK_STATUS(hws_engine_train(engine, 8, push_next, &engine, NULL), HWS_CANCELLED); /* before its first */
  CHECK_OK(hws_thread_set_interrupt(NULL, NULL, NULL));
  CHECK_STATUS(hws_engine_train(engine, 8, push_and_cancel, &engine, NULL), HWS_CANCELLED); /* after one */
  fill_batch(&batch, 2);
  CHECK_STATUS(hws_data_push(engine, &batch.batch), HWS_BUSY);
  CHECK_OK(hws_engine_train_step(engine, NULL));
  for (uint32_t step = 1; step <= 2; ++step) push_and_step(other, step);
  const int64_t count = all_weights(engine, cancelled, kMaxWeights);
  CHECK(all_weights(other, whole, kMaxWeights) == count && count > 1000);
  CHECK(memcmp(cancelled, whole, (size_t)count * sizeof *whole) == 0);
  hws_engine_destroy(engine);
  hws_engine_destroy(other);
}

static int32_t count_token(void* user, int32_t token) {
  (void)token;
  ++*(int*)user;
  return 0;
}

static void cancels(void) {
  run r = {0};
  r.engine = text_engine(1000000);
  r.cancel_at = 2;
  CHECK_ERROR(hws_engine_train(r.engine, 0, on_step, &r, on_destroy), HWS_CANCELLED, "cancel");
  CHECK(r.calls == 2 && r.destroyed == 1);
  r.stop_at = 3; /* it trains on */
  CHECK_OK(hws_engine_train(r.engine, 0, on_step, &r, on_destroy));
  CHECK(r.calls == 3);
  /* If no call runs that it could end, a cancel does not end the next call. */
  const int32_t prompt[] = {1, 2};
  const hws_generate_request request = {sizeof request, -1, prompt, 2, 3, 0, 0, 1, 0, NULL, 0};
  int tokens = 0;
  double loss = 0;
  CHECK_OK(hws_engine_cancel(r.engine));
  CHECK_OK(hws_engine_train_step(r.engine, NULL));
  ++r.calls;
  CHECK_OK(hws_engine_cancel(r.engine));
  r.stop_at = 6;
  CHECK_OK(hws_engine_train(r.engine, 0, on_step, &r, on_destroy));
  CHECK(r.calls == 6);
  CHECK_OK(hws_engine_cancel(r.engine));
  CHECK_OK(hws_engine_eval(r.engine, NULL, 1, &loss, NULL));
  CHECK_OK(hws_engine_cancel(r.engine));
  CHECK_OK(hws_engine_generate(r.engine, &request, count_token, &tokens, NULL));
  CHECK(tokens == 3);
  hws_engine_destroy(r.engine);
  CHECK_STATUS(hws_engine_cancel(r.engine), HWS_BAD_HANDLE);
}

/* State of a run for another thread or a signal handler; g_step is the step of the last record. */
static int64_t g_step, g_cancelled_at;
static hws_engine* g_engine;
static pthread_t g_training;
static int g_cancel_status;

static int64_t load(const int64_t* number) { return __atomic_load_n(number, __ATOMIC_SEQ_CST); }
static void store(int64_t* number, int64_t value) { __atomic_store_n(number, value, __ATOMIC_SEQ_CST); }

static int32_t on_record(void* user, const hws_train_record* record) {
  (void)user;
  store(&g_step, record->step);
  return 0;
}

static void cancel_now(void) {
  g_cancel_status = hws_engine_cancel(g_engine);
  store(&g_cancelled_at, load(&g_step));
}

static void on_signal(int number) {
  (void)number;
  cancel_now();
}

/* Waits until the run is somewhere in a step after the third. */
static void wait_for_steps(void) {
  while (load(&g_step) < 3) sched_yield();
}

static void* cancel_here(void* user) {
  (void)user;
  wait_for_steps();
  /* The engine is in use: const calls and a second run are busy; metrics can always be read. */
  hws_buffer* out = NULL;
  CHECK_STATUS(hws_engine_train_step(g_engine, NULL), HWS_BUSY);
  CHECK_STATUS(hws_engine_info(g_engine, &out), HWS_BUSY);
  CHECK(out == NULL);
  hws_sizes sizes = {sizeof sizes, 0, 0, 0, 0, 0};
  CHECK_OK(hws_engine_sizes(g_engine, &sizes));
  CHECK(sizes.vocab_size == 256 && sizes.sequence == kCols && sizes.global_batch == kRows);
  CHECK_OK(hws_engine_metrics(g_engine, &out));
  hws_buffer_destroy(out);
  cancel_now();
  return NULL;
}

/* The signal handler runs on the thread that trains, anywhere in a step. */
static void* cancel_by_a_signal(void* user) {
  (void)user;
  wait_for_steps();
  pthread_kill(g_training, SIGUSR1);
  return NULL;
}

/* Cancels a run without end, continues training, and returns the last step. */
static int64_t train_cancelled(void* (*canceller)(void*), float* weights, int64_t* count) {
  pthread_t thread;
  g_engine = text_engine(1000000);
  g_training = pthread_self();
  g_cancel_status = -1;
  store(&g_step, 0);
  CHECK(pthread_create(&thread, NULL, canceller, NULL) == 0);
  CHECK_STATUS(hws_engine_train(g_engine, 0, on_record, NULL, NULL), HWS_CANCELLED);
  pthread_join(thread, NULL);
  CHECK(g_cancel_status == HWS_OK);
  const int64_t ended = load(&g_step), cancelled = load(&g_cancelled_at);
  CHECK(ended == cancelled || ended == cancelled + 1); /* the step that ran is the last */
  CHECK_OK(hws_engine_train(g_engine, ended + 10, on_record, NULL, NULL));
  CHECK(load(&g_step) == ended + 10);
  *count = all_weights(g_engine, weights, kMaxWeights);
  hws_engine_destroy(g_engine);
  return ended + 10;
}

/* A cancelled run ends within a step, and training continues with the bits of an undisturbed run. */
static void cancels_from_anywhere(void) {
  static float cancelled[kMaxWeights], whole[kMaxWeights];
  void* (*const cancellers[])(void*) = {cancel_here, cancel_by_a_signal};
  struct sigaction action, before, after;
  memset(&action, 0, sizeof action);
  action.sa_handler = on_signal;
  sigaction(SIGUSR1, &action, &before);
  for (int i = 0; i < 2; ++i) {
    int64_t count = 0;
    const int64_t step = train_cancelled(cancellers[i], cancelled, &count);
    hws_engine* engine = text_engine(1000000);
    CHECK_OK(hws_engine_train(engine, step, NULL, NULL, NULL));
    CHECK(all_weights(engine, whole, kMaxWeights) == count && count > 1000);
    CHECK(memcmp(whole, cancelled, (size_t)count * sizeof *whole) == 0);
    hws_engine_destroy(engine);
  }
  sigaction(SIGUSR1, &before, &after);
  CHECK(after.sa_handler == on_signal); /* the library installs no handlers */
}

static void destroy_in_its_own_callback(void) {
  run r = {0};
  r.engine = text_engine(1000000);
  r.destroy_at = 2;
  CHECK_STATUS(hws_engine_train(r.engine, 0, on_step, &r, on_destroy), HWS_CANCELLED);
  CHECK(r.calls == 2 && r.destroyed == 1);
  CHECK_STATUS(hws_engine_train_step(r.engine, NULL), HWS_BAD_HANDLE);
}

int main(void) {
  check_begin();
  runs_and_validates();
  callbacks_may_look_at_the_engine();
  a_callback_may_push();
  cancel_keeps_a_pushed_batch();
  cancels();
  cancels_from_anywhere();
  destroy_in_its_own_callback();
  return check_end();
}
