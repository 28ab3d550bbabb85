/* Engines are independent, and destroying one waits for its call. (Const calls beside training:
 * const_calls.c.) */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "tiny.h"

/* Three engines that have little in common: model, precision, optimizer, number of ranks. */
static const char* const kConfigs[] = {
    "{\"seed\": 1, \"cpu\": {\"threads\": 2},"
    " \"model\": {\"vocab_size\": 61, \"context\": 16, \"layers\": 2, \"width\": 32, \"heads\": 4,"
    "  \"norm\": \"layer_norm\", \"mlp\": \"gelu_tanh\", \"position\": \"learned\", \"tied_head\": true},"
    " \"batch\": {\"micro_batch\": 2, \"grad_accum_steps\": 2, \"sequence\": 16},"
    " \"optimizer\": {\"learning_rate\": 0.01}}",
    "{\"seed\": 2, \"cpu\": {\"threads\": 1}, \"precision\": \"bf16\","
    " \"model\": {\"vocab_size\": 61, \"context\": 16, \"layers\": 1, \"width\": 48, \"heads\": 4, "
    "\"kv_heads\": 2,"
    "  \"norm\": \"rms_norm\", \"mlp\": \"swiglu\", \"position\": \"rotary\", \"dropout\": {\"residual\": "
    "0.1}},"
    " \"batch\": {\"micro_batch\": 4, \"sequence\": 16},"
    " \"optimizer\": {\"kind\": \"sgd\", \"momentum\": 0.9, \"learning_rate\": 0.03}}",
    "{\"seed\": 3, \"cpu\": {\"threads\": 2}, \"mesh\": {\"dp_shard\": 2}, \"zero\": {\"stage\": 3},"
    " \"model\": {\"vocab_size\": 61, \"context\": 16, \"layers\": 3, \"width\": 24, \"heads\": 2,"
    "  \"norm\": \"rms_norm\", \"mlp\": \"gelu_tanh\", \"position\": \"rotary\", \"tied_head\": true},"
    " \"batch\": {\"micro_batch\": 1, \"global_batch\": 4, \"sequence\": 16},"
    " \"optimizer\": {\"learning_rate\": 0.003}}"};
enum { kEngines = sizeof kConfigs / sizeof kConfigs[0], kLearnedSteps = 12 };

typedef struct learner {
  const char* config;
  int64_t count;
  double losses[kLearnedSteps];
  float weights[kMaxWeights];
} learner;

static void* learn(void* user) {
  learner* l = user;
  hws_config* config = NULL;
  hws_comm* comm = NULL;
  hws_engine* engine = NULL;
  CHECK_OK(hws_config_parse(l->config, strlen(l->config), HWS_FORMAT_JSON, &config));
  CHECK_OK(hws_comm_create_local(strstr(l->config, "dp_shard") != NULL ? 2 : 1, &comm));
  CHECK_OK(hws_engine_create_ranks(config, comm, 0, &engine));
  for (uint32_t i = 0; i < kLearnedSteps; ++i) l->losses[i] = push_and_step(engine, i).loss;
  l->count = all_weights(engine, l->weights, kMaxWeights);
  hws_engine_destroy(engine);
  hws_comm_destroy(comm);
  hws_config_destroy(config);
  return NULL;
}

/* While all engines train, each computes the bits that it computes alone. */
static void engines_are_independent(void) {
  static learner alone[kEngines], together[kEngines];
  pthread_t threads[kEngines];
  for (int i = 0; i < kEngines; ++i) {
    alone[i].config = together[i].config = kConfigs[i];
    learn(&alone[i]);
    CHECK(alone[i].count > 1000 && alone[i].losses[kLearnedSteps - 1] < alone[i].losses[0]);
  }
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < kEngines; ++i) CHECK(pthread_create(&threads[i], NULL, learn, &together[i]) == 0);
    for (int i = 0; i < kEngines; ++i) pthread_join(threads[i], NULL);
    CHECK(memcmp(alone, together, sizeof alone) == 0);
  }
}

static void* destroy_engine(void* user) {
  hws_engine_destroy(user);
  return NULL;
}

static int32_t on_step(void* user, const hws_train_record* record) {
  (void)user;
  return record->step == 3;
}

/* Destroying an engine from another thread waits for its running call. */
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
  destroy_waits();
  return check_end();
}
