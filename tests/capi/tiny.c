#include "tiny.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

const char kTinyConfig[] =
    "{\"seed\": 7, \"cpu\": {\"threads\": 2},"
    " \"model\": {\"vocab_size\": 61, \"context\": 16, \"layers\": 2, \"width\": 32, \"heads\": 4,"
    "  \"norm\": \"layer_norm\", \"mlp\": \"gelu_tanh\", \"position\": \"learned\", \"tied_head\": true},"
    " \"batch\": {\"micro_batch\": 2, \"grad_accum_steps\": 2, \"sequence\": 16},"
    " \"optimizer\": {\"kind\": \"adamw\", \"learning_rate\": 0.01},"
    " \"train\": {\"steps\": 8}}";

hws_config* tiny_config(void) {
  hws_config* config = NULL;
  CHECK_OK(hws_config_parse(kTinyConfig, strlen(kTinyConfig), HWS_FORMAT_JSON, &config));
  return config;
}

hws_engine* tiny_engine(uint32_t flags) {
  hws_config* config = tiny_config();
  hws_engine* engine = NULL;
  CHECK_OK(hws_engine_create(config, flags, &engine));
  hws_config_destroy(config);
  if (engine == NULL) exit(check_end() + 1);
  return engine;
}

hws_config* text_config(void) {
  const char* path = check_path("text.txt");
  FILE* file = fopen(path, "wb");
  if (file == NULL) exit(3);
  for (int i = 0; i < 400; ++i) fprintf(file, "line %d of a text that is easy to learn\n", i % 10);
  fclose(file);
  hws_config* config = tiny_config();
  char data[640];
  snprintf(data, sizeof data, "{\"format\":\"text\",\"vocabulary\":\"bytes\",\"path\":\"%s\"}", path);
  CHECK_OK(hws_config_set(config, "/data", data));
  CHECK_OK(hws_config_set(config, "/model/vocab_size", "256"));
  CHECK_OK(hws_config_set(config, "/train", "{\"steps\":8,\"eval_every\":4,\"eval_batches\":2}"));
  return config;
}

void fill_batch(tiny_batch* b, uint32_t seed) {
  uint32_t random = seed * 2654435761u + 1;
  for (int i = 0; i < kBatchTokens; ++i) {
    random = random * 1664525u + 1013904223u;
    b->tokens[i] = (int32_t)((random >> 16) % 7 + (uint32_t)(i % kCols) * 3 % 50);
  }
  for (int i = 0; i < kBatchTokens; ++i) {
    const int last = i % kCols == kCols - 1;
    b->targets[i] = last || i % 11 == 0 ? -100 : b->tokens[i + 1];
  }
  memset(&b->batch, 0, sizeof b->batch);
  b->batch.struct_size = sizeof b->batch;
  b->batch.rows = kRows;
  b->batch.cols = kCols;
  b->batch.tokens = b->tokens;
  b->batch.targets = b->targets;
}

hws_step_result push_and_step(hws_engine* engine, uint32_t seed) {
  tiny_batch batch;
  fill_batch(&batch, seed);
  hws_step_result result = {sizeof result, 0, 0, 0, 0, 0, 0, 0, 0, 0};
  CHECK_OK(hws_data_push(engine, &batch.batch));
  CHECK_OK(hws_engine_train_step(engine, &result));
  return result;
}

/* Reads {"name":"...", ..., "count":N} entries without a JSON parser: both keys are unique per entry. */
int64_t all_weights(hws_engine* engine, float* weights, int64_t capacity) {
  hws_buffer* list = NULL;
  CHECK_OK(hws_tensor_list(engine, &list));
  const char* at = hws_buffer_data(list);
  int64_t total = 0;
  while (at != NULL && (at = strstr(at, "\"name\":\"")) != NULL) {
    at += 8;
    char name[128] = {0};
    const size_t length = strcspn(at, "\"");
    memcpy(name, at, length < sizeof name - 1 ? length : sizeof name - 1);
    const char* count = strstr(at, "\"count\":");
    if (count == NULL) break;
    const long long elements = strtoll(count + 8, NULL, 10);
    if (total + elements > capacity) break;
    CHECK_OK(hws_tensor_get(engine, HWS_TENSOR_WEIGHT, name, weights + total, (size_t)elements * 4));
    total += elements;
  }
  hws_buffer_destroy(list);
  return total;
}
