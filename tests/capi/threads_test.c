/* Engines are independent, const calls are concurrent, and what cannot be is answered with HWS_BUSY. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "tiny.h"

typedef struct learner {
  float learning_rate;
  double losses[6];
} learner;

static void* learn(void* user) {
  learner* l = user;
  hws_config* config = tiny_config();
  hws_engine* engine = NULL;
  char value[32];
  snprintf(value, sizeof value, "%g", (double)l->learning_rate);
  CHECK_OK(hws_config_set(config, "/optimizer/learning_rate", value));
  CHECK_OK(hws_engine_create(config, 0, &engine));
  for (uint32_t i = 0; i < 6; ++i) l->losses[i] = push_and_step(engine, i).loss;
  hws_engine_destroy(engine);
  hws_config_destroy(config);
  return NULL;
}

/* Two engines with different configs train at once and each gives the bits that it gives alone. */
static void engines_are_independent(void) {
  learner alone[2] = {{0.01f, {0}}, {0.003f, {0}}}, together[2] = {{0.01f, {0}}, {0.003f, {0}}};
  pthread_t threads[2];
  for (int i = 0; i < 2; ++i) learn(&alone[i]);
  for (int i = 0; i < 2; ++i) CHECK(pthread_create(&threads[i], NULL, learn, &together[i]) == 0);
  for (int i = 0; i < 2; ++i) pthread_join(threads[i], NULL);
  CHECK(memcmp(alone, together, sizeof alone) == 0);
  CHECK(alone[0].losses[5] != alone[1].losses[5]);
}

typedef struct hammer {
  hws_engine* engine;
  pthread_mutex_t mutex;
  int stop;
} hammer;

static int stopped(hammer* h) {
  pthread_mutex_lock(&h->mutex);
  const int stop = h->stop;
  pthread_mutex_unlock(&h->mutex);
  return stop;
}

/* Const calls succeed, or are told that the engine is training. */
static void* call_const_functions(void* user) {
  hammer* h = user;
  int round = 0;
  while (!stopped(h)) {
    hws_buffer* out = NULL;
    float weights[32];
    int32_t status = HWS_OK;
    switch (round++ % 5) {
      case 0:
        status = hws_engine_info(h->engine, &out);
        break;
      case 1:
        status = hws_engine_metrics(h->engine, &out);
        break;
      case 2:
        status = hws_tensor_list(h->engine, &out);
        break;
      case 3:
        status = hws_data_info(h->engine, &out);
        break;
      default:
        status = hws_tensor_get(h->engine, HWS_TENSOR_WEIGHT, "final_norm.weight", weights, sizeof weights);
    }
    if (status != HWS_OK && status != HWS_BUSY) CHECK_OK(status);
    CHECK(round % 5 != 2 || status == HWS_OK); /* metrics always come */
    hws_buffer_destroy(out);
  }
  return NULL;
}

static void const_calls_beside_training(void) {
  hammer h;
  h.engine = tiny_engine(0);
  h.stop = 0;
  pthread_mutex_init(&h.mutex, NULL);
  pthread_t threads[4];
  for (int i = 0; i < 4; ++i) CHECK(pthread_create(&threads[i], NULL, call_const_functions, &h) == 0);
  for (uint32_t i = 0; i < 5; ++i) push_and_step(h.engine, i); /* never refused because of const calls */
  pthread_mutex_lock(&h.mutex);
  h.stop = 1;
  pthread_mutex_unlock(&h.mutex);
  for (int i = 0; i < 4; ++i) pthread_join(threads[i], NULL);
  hws_engine_destroy(h.engine);
}

static void* destroy_engine(void* user) {
  hws_engine_destroy(user);
  return NULL;
}

static int32_t on_step(void* user, const hws_train_record* record) {
  (void)user;
  return record->step == 3;
}

/* Destroying from another thread waits for the call that runs. */
static void destroy_waits(void) {
  hws_config* config = text_config();
  hws_engine* engine = NULL;
  CHECK_OK(hws_engine_create(config, 0, &engine));
  hws_config_destroy(config);
  pthread_t destroyer;
  CHECK(pthread_create(&destroyer, NULL, destroy_engine, engine) == 0);
  const int32_t status = hws_engine_train(engine, 0, on_step, NULL, NULL);
  CHECK(status == HWS_OK || status == HWS_BAD_HANDLE); /* whoever came first */
  pthread_join(destroyer, NULL);
  CHECK_STATUS(hws_engine_train_step(engine, NULL), HWS_BAD_HANDLE);
}

int main(void) {
  check_begin();
  engines_are_independent();
  const_calls_beside_training();
  destroy_waits();
  return check_end();
}
