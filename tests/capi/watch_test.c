/* Watch tests: the interrupt poll of a thread ends long calls, and hws_engine_progress shows their progress;
 * hws_thread_set_progress shows that of making an engine. */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "tiny.h"

static hws_engine* text_engine(void) {
  hws_config* config = text_config();
  hws_engine* engine = NULL;
  CHECK_OK(hws_config_set(config, "/train/steps", "1000000"));
  CHECK_OK(hws_engine_create(config, 0, &engine));
  hws_config_destroy(config);
  return engine;
}

static int32_t count_token(void* user, int32_t token) {
  (void)token;
  ++*(int*)user;
  return 0;
}

static int32_t always(void* user) {
  ++*(int*)user;
  return 1;
}

/* Calls with and without a callback ask the poll of the calling thread. */
static int32_t after_some(void* user) { return --*(int*)user < 0; }
static void count_destroy(void* user) { ++*(int*)user; }
static void* leaves_a_poll_behind(void* user) {
  CHECK_OK(hws_thread_set_interrupt(always, user, count_destroy));
  return NULL;
}
/* A poll that sets another poll keeps its own memory until it returns. */
static int32_t hands_over(void* user) {
  int* left = user;
  CHECK_OK(hws_thread_set_interrupt(after_some, left + 1, NULL));
  CHECK(left[0] == 0);
  return 0;
}
static void polls_that_replace_themselves(void) {
  hws_engine* engine = text_engine();
  int left[] = {0, 2}; /* destroyed; questions that the second one leaves unanswered */
  CHECK_OK(hws_thread_set_interrupt(hands_over, left, count_destroy));
  CHECK_ERROR(hws_engine_train(engine, 0, NULL, NULL, NULL), HWS_CANCELLED, "after step");
  CHECK(left[0] == 1 && left[1] == -1);
  CHECK_OK(hws_thread_set_interrupt(NULL, NULL, NULL));
  hws_engine_destroy(engine);
}
static void polls(void) {
  hws_engine* engine = text_engine();
  hws_buffer* out = NULL;
  int asked = 0, left = 2;
  double loss = 0;
  CHECK_OK(hws_engine_train(engine, 1, NULL, NULL, NULL));
  CHECK_OK(hws_checkpoint_save(engine, check_path("polled/step-1")));
  CHECK_OK(hws_thread_set_interrupt(after_some, &left, NULL));
  CHECK_ERROR(hws_engine_train(engine, 0, NULL, NULL, NULL), HWS_CANCELLED, "after step"); /* no callback */
  CHECK(left == -1);
  CHECK_OK(hws_thread_set_interrupt(always, &asked, count_destroy));
  CHECK_OK(hws_engine_train_step(engine, NULL)); /* a step is never cut short, and does not ask */
  CHECK(asked == 0);
#define POLLED(call)                                          \
  do {                                                        \
    CHECK_OK(hws_thread_set_interrupt(NULL, NULL, NULL));     \
    CHECK_OK(hws_thread_set_interrupt(always, &asked, NULL)); \
    asked = 0;                                                \
    CHECK_STATUS(call, HWS_CANCELLED);                        \
    CHECK(asked == 1);                                        \
  } while (0)
  const int32_t prompt[] = {1, 2};
  const hws_generate_request request = {sizeof request, -1, prompt, 2, 3, 0, 0, 1, 0, NULL, 0};
  POLLED(hws_engine_eval(engine, NULL, 0, &loss, NULL));
  POLLED(hws_engine_generate(engine, &request, count_token, &left, NULL));
  POLLED(hws_checkpoint_verify(check_path("polled/step-1")));
  POLLED(hws_checkpoint_latest(check_path("polled"), &out));
  POLLED(hws_checkpoint_load(engine, check_path("polled/step-1"), 0));
  POLLED(hws_device_measure(1, 60, &out));
  double flops = 0;
  POLLED(hws_device_peak(1, "fp32", 60, &flops));
  CHECK_OK(hws_thread_set_interrupt(NULL, NULL, NULL));
  CHECK_OK(hws_checkpoint_export(check_path("polled/step-1"), check_path("polled_hf"), ""));
  POLLED(hws_checkpoint_import(check_path("polled_hf"), check_path("imported"), NULL));
  POLLED(hws_checkpoint_export(check_path("polled/step-1"), check_path("again_hf"), ""));
  POLLED(hws_engine_train(engine, 0, NULL, NULL, NULL));
  hws_config* two_ranks = text_config();
  CHECK_OK(hws_config_set(two_ranks, "/mesh/dp_shard", "2"));
  POLLED(hws_config_prove_layout(two_ranks, 1000, &out));
  hws_config_destroy(two_ranks);
  /* The poll of another thread is not called; it is destroyed with its thread. */
  pthread_t thread;
  asked = 0;
  CHECK_OK(hws_thread_set_interrupt(NULL, NULL, NULL));
  CHECK(pthread_create(&thread, NULL, leaves_a_poll_behind, &asked) == 0);
  pthread_join(thread, NULL);
  CHECK(asked == 1);
  CHECK_OK(hws_checkpoint_load(engine, check_path("polled/step-1"), 0));
  CHECK_OK(hws_engine_eval(engine, NULL, 0, &loss, NULL));
  hws_engine_destroy(engine);
}

/* ----------------------------------------------------------------------------------------------- progress */

static hws_progress progress_of(const hws_engine* engine) {
  hws_progress p = {.struct_size = sizeof p};
  CHECK_OK(hws_engine_progress(engine, &p));
  return p;
}

typedef struct watched {
  hws_engine* engine;
  int seen[HWS_PHASE_LOAD + 1]; /* by phase */
  hws_progress last;
} watched;

/* A poll that only reads the progress. */
static int32_t look(void* user) {
  watched* w = user;
  w->last = progress_of(w->engine);
  ++w->seen[w->last.phase];
  return 0;
}

static int32_t on_step(void* user, const hws_train_record* record) {
  watched* w = user;
  const hws_progress p = progress_of(w->engine);
  CHECK(p.phase == HWS_PHASE_TRAIN && p.step == record->step && p.until_step == 8 && p.done == 0);
  CHECK(memcmp(&p.loss, &record->loss, sizeof p.loss) == 0 && p.grad_norm == record->grad_norm);
  CHECK(p.samples == record->samples && p.tokens == p.samples * kCols && p.step_seconds == record->seconds);
  CHECK(p.learning_rate == record->learning_rate && p.tokens_per_second == record->tokens_per_second);
  CHECK(p.running_seconds > 0 && p.skipped == 0 && p.save_failures == 0);
  if (!isnan(record->validation_loss)) CHECK(p.validation_loss == record->validation_loss);
  double loss = 0;
  CHECK_OK(hws_thread_set_interrupt(look, w, NULL));
  CHECK_OK(hws_engine_eval(w->engine, NULL, 1, &loss, NULL));
  CHECK_OK(hws_thread_set_interrupt(NULL, NULL, NULL));
  CHECK(w->last.phase == HWS_PHASE_EVAL && w->last.until_step == 8 && w->last.total > 0);
  CHECK(progress_of(w->engine).phase == HWS_PHASE_TRAIN);
  return 0;
}

static void shows_what_runs(void) {
  watched w = {text_engine(), {0}, {0}};
  hws_progress p = progress_of(w.engine);
  CHECK(p.phase == HWS_PHASE_IDLE && p.step == 0 && p.total_steps == 1000000 && isnan(p.loss) &&
        p.running_seconds == 0);
  CHECK_OK(hws_engine_train(w.engine, 8, on_step, &w, NULL));
  p = progress_of(w.engine);
  CHECK(p.phase == HWS_PHASE_IDLE && p.step == 8 && p.until_step == 0 && p.loss > 0 &&
        p.running_seconds == 0);
  CHECK_OK(hws_checkpoint_save(w.engine, check_path("watched")));
  CHECK_OK(hws_engine_train_step(w.engine, NULL));
  CHECK(progress_of(w.engine).step == 9);
  CHECK_OK(hws_thread_set_interrupt(look, &w, NULL));
  CHECK_OK(hws_checkpoint_load(w.engine, check_path("watched"), 0));
  CHECK(w.last.phase == HWS_PHASE_LOAD && w.last.step == 9);
  const int32_t prompt[] = {1, 2};
  const hws_generate_request request = {sizeof request, -1, prompt, 2, 3, 0, 0, 1, 0, NULL, 0};
  int tokens = 0;
  CHECK_OK(hws_thread_set_interrupt(look, &w, NULL));
  CHECK_OK(hws_engine_generate(w.engine, &request, count_token, &tokens, NULL));
  CHECK_OK(hws_thread_set_interrupt(NULL, NULL, NULL));
  CHECK(w.last.phase == HWS_PHASE_GENERATE && w.last.step == 8);
  p = progress_of(w.engine); /* after a load, nothing is known of its last step */
  CHECK(p.step == 8 && isnan(p.loss) && isnan(p.validation_loss) && p.samples == 8 * kRows);
  hws_engine_destroy(w.engine);
  CHECK_STATUS(hws_engine_progress(w.engine, &p), HWS_BAD_HANDLE);
}

/* Reads the progress of a run from another thread: it is never busy, and steps never decrease. */
static int g_ended;
static void* watch(void* user) {
  watched* w = user;
  int64_t step = 0;
  while (__atomic_load_n(&g_ended, __ATOMIC_SEQ_CST) == 0) {
    const hws_progress p = progress_of(w->engine);
    CHECK(p.step >= step);
    step = p.step;
    ++w->seen[p.phase];
  }
  return NULL;
}

static void may_be_asked_at_any_time(void) {
  watched w = {text_engine(), {0}, {0}};
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, watch, &w) == 0);
  CHECK_OK(hws_engine_train(w.engine, 100, NULL, NULL, NULL));
  __atomic_store_n(&g_ended, 1, __ATOMIC_SEQ_CST);
  pthread_join(thread, NULL);
  CHECK(w.seen[HWS_PHASE_TRAIN] > 10);
  hws_engine_destroy(w.engine);
}

/* Making an engine reports the pass that computes references, and its callback ends that pass. */
static int32_t see(void* user, const char* json, size_t size) {
  char* last = user;
  CHECK(size < 100 && json[size] == '\0');
  if (last[0] == 'x') return 1;
  memcpy(last, json, size + 1);
  return 0;
}

static void references_are_counted(void) {
  const char* objective = "{\"kind\": \"dpo\"}";
  const char* data = "{\"format\": \"prepared\", \"path\": \"" HAWSER_PAIRS "\"}";
  hws_config* config = tiny_config();
  hws_engine* engine = NULL;
  char last[100] = "";
  CHECK_OK(hws_config_set(config, "/objective", objective));
  CHECK_OK(hws_config_set(config, "/data", data));
  CHECK_OK(hws_thread_set_progress(see, last, NULL));
  CHECK_OK(hws_engine_create(config, 0, &engine));
  CHECK(strcmp(last, "{\"phase\":\"references\",\"done\":24,\"total\":24}") == 0);
  hws_engine_destroy(engine);
  last[0] = 'x';
  CHECK_ERROR(hws_engine_create(config, 0, &engine), HWS_CANCELLED, "0 of 24 references");
  CHECK_OK(hws_thread_set_progress(NULL, NULL, NULL));
  hws_config_destroy(config);
}

int main(void) {
  check_begin();
  references_are_counted();
  polls();
  polls_that_replace_themselves();
  shows_what_runs();
  may_be_asked_at_any_time();
  return check_end();
}
