/* Checkpoints: save and load bitwise, inspect, verify, latest, and Hugging Face folders both ways. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "tiny.h"

static float g_a[kMaxWeights], g_b[kMaxWeights];

static void same_weights(hws_engine* a, hws_engine* b) {
  const int64_t count = all_weights(a, g_a, kMaxWeights);
  CHECK(count > 1000 && all_weights(b, g_b, kMaxWeights) == count);
  CHECK(memcmp(g_a, g_b, (size_t)count * sizeof(float)) == 0);
}

static void trains_on_bitwise(void) {
  hws_engine* whole = tiny_engine(0);
  hws_engine* second = tiny_engine(0);
  for (uint32_t i = 0; i < 3; ++i) push_and_step(whole, i);
  CHECK_OK(hws_checkpoint_save(whole, check_path("run/step-3")));
  CHECK_STATUS(hws_checkpoint_save(whole, check_path("run/step-3")), HWS_ALREADY_EXISTS);
  CHECK_OK(hws_checkpoint_load(second, check_path("run/step-3"), 0));
  same_weights(whole, second);
  for (uint32_t i = 3; i < 6; ++i) {
    const hws_step_result a = push_and_step(whole, i), b = push_and_step(second, i);
    CHECK(a.step == b.step && a.loss == b.loss && a.grad_norm == b.grad_norm && a.samples == b.samples);
  }
  same_weights(whole, second);
  CHECK_OK(hws_checkpoint_save(whole, check_path("run/step-6")));
  hws_engine_destroy(second);
  hws_engine_destroy(whole);
}

static void save_beside_training(void) {
  hws_engine* engine = tiny_engine(0);
  hws_engine* second = tiny_engine(0);
  hws_op* op = NULL;
  int32_t ended = -1;
  int64_t done = -1, total = -1;
  for (uint32_t i = 0; i < 3; ++i) push_and_step(engine, i);
  CHECK_OK(hws_checkpoint_save_async(engine, check_path("run/async-3"), &op));
  for (uint32_t i = 3; i < 6; ++i) push_and_step(engine, i);
  CHECK_OK(hws_op_wait(op, -1));
  CHECK_OK(hws_op_wait(op, 0));
  CHECK_OK(hws_op_poll(op, &ended));
  CHECK_OK(hws_op_progress(op, &done, &total));
  CHECK_OK(hws_op_progress(op, NULL, NULL));
  CHECK(ended == 1 && done == total && total > 1000);
  CHECK_OK(hws_op_cancel(op)); /* too late: nothing happens */
  CHECK_OK(hws_op_wait(op, 1e300));
  CHECK_ERROR(hws_op_wait(op, (double)NAN), HWS_INVALID_ARGUMENT, "timeout_seconds");
  CHECK_ERROR(hws_op_poll(op, NULL), HWS_INVALID_ARGUMENT, "ended");
  CHECK_OK(hws_checkpoint_load(second, check_path("run/async-3"), 0));
  for (uint32_t i = 3; i < 6; ++i) push_and_step(second, i);
  same_weights(engine, second);
  hws_op_destroy(op);

  CHECK_STATUS(hws_checkpoint_save_async(engine, check_path("run/async-3"), &op), HWS_ALREADY_EXISTS);
  CHECK(op == NULL);
  CHECK_ERROR(hws_checkpoint_save_async(engine, "", &op), HWS_INVALID_ARGUMENT, "path");
  CHECK_ERROR(hws_checkpoint_save_async(engine, check_path("x"), NULL), HWS_INVALID_ARGUMENT, "out");
  FILE* file = fopen(check_path("a-file"), "wb");
  CHECK(file != NULL && fclose(file) == 0);
  CHECK_OK(hws_checkpoint_save_async(engine, check_path("a-file/step-1"), &op));
  CHECK_ERROR(hws_op_wait(op, -1), HWS_NOT_FOUND, "a-file");
  hws_op_destroy(op);
  CHECK_OK(hws_checkpoint_save_async(engine, check_path("forgotten"), &op));
  hws_op_destroy(op); /* the save goes on, and the end of the engine waits for it */
  CHECK_OK(hws_checkpoint_save_async(second, check_path("outlives"), &op));
  hws_engine_destroy(engine);
  hws_engine_destroy(second);
  CHECK_OK(hws_checkpoint_verify(check_path("forgotten")));
  CHECK_OK(hws_op_wait(op, 0));
  CHECK_OK(hws_checkpoint_verify(check_path("outlives")));
  hws_op_destroy(op);
}

static void averages_checkpoints(void) {
  char paths[4096];
  const char *const first = check_path("run/step-3"), *const last = check_path("run/step-6");
  const int length = snprintf(paths, sizeof paths, "[\"%s\",\"%s\"]", first, last);
  CHECK(length > 0 && (size_t)length < sizeof paths);
  CHECK_OK(hws_checkpoint_average(paths, NULL, check_path("mean")));
  CHECK_OK(hws_checkpoint_verify(check_path("mean")));
  hws_buffer* out = NULL;
  CHECK_OK(hws_checkpoint_inspect(check_path("mean"), &out));
  CHECK(strstr(check_text(out), "\"step\": 6") != NULL);
  CHECK_ERROR(hws_checkpoint_average(paths, "[1,2]", check_path("mean")), HWS_ALREADY_EXISTS, "mean");
  CHECK_ERROR(hws_checkpoint_average(paths, "[1]", check_path("other")), HWS_INVALID_ARGUMENT,
              "1 numbers for 2 paths");
  CHECK_ERROR(hws_checkpoint_average(paths, "[1,0]", check_path("other")), HWS_INVALID_ARGUMENT, "above 0");
  CHECK_ERROR(hws_checkpoint_average("[]", NULL, check_path("other")), HWS_INVALID_ARGUMENT,
              "at least two checkpoints");
}

static void tells_what_is_there(void) {
  hws_buffer* out = NULL;
  CHECK_OK(hws_checkpoint_inspect(check_path("run/step-3"), &out));
  CHECK(strstr(check_text(out), "embedding.tokens.weight") != NULL);
  CHECK_OK(hws_checkpoint_verify(check_path("run/step-6")));
  CHECK_OK(hws_checkpoint_latest(check_path("run"), &out));
  CHECK(strcmp(check_text(out), check_path("run/step-6")) == 0);
  CHECK_STATUS(hws_checkpoint_latest(check_path("nowhere"), &out), HWS_NOT_FOUND);
  CHECK(out == NULL);
  CHECK_STATUS(hws_checkpoint_verify(check_path("nowhere")), HWS_NOT_FOUND);
  CHECK_STATUS(hws_checkpoint_inspect(check_path("nowhere"), &out), HWS_NOT_FOUND);
  CHECK_ERROR(hws_checkpoint_verify(""), HWS_INVALID_ARGUMENT, "path");
  hws_engine* engine = tiny_engine(0);
  CHECK_STATUS(hws_checkpoint_load(engine, check_path("nowhere"), 0), HWS_NOT_FOUND);
  CHECK_STATUS(hws_checkpoint_load_latest(engine, check_path("nowhere"), 0, &out), HWS_NOT_FOUND);
  CHECK(out == NULL);
  CHECK_OK(hws_checkpoint_load_latest(engine, check_path("run"), 0, &out));
  CHECK(strcmp(check_text(out), "{\"name\":\"step-6\",\"step\":6,\"damaged\":[]}") == 0);
  CHECK_ERROR(hws_checkpoint_load(engine, check_path("run/step-3"), 8), HWS_INVALID_ARGUMENT, "flags");
  hws_engine_destroy(engine);
}

static void other_data_is_a_choice(void) {
  hws_config* config = text_config();
  hws_engine* engine = NULL;
  CHECK_OK(hws_engine_create(config, 0, &engine));
  CHECK_OK(hws_checkpoint_save(engine, check_path("text")));
  hws_engine_destroy(engine);
  FILE* file = fopen(check_path("text.txt"), "ab");
  CHECK(file != NULL && fputs("one more line\n", file) >= 0 && fclose(file) == 0);
  CHECK_OK(hws_engine_create(config, 0, &engine));
  CHECK_STATUS(hws_checkpoint_load(engine, check_path("text"), 0), HWS_CHECKPOINT_INCOMPATIBLE);
  CHECK_OK(hws_checkpoint_load(engine, check_path("text"), HWS_LOAD_OTHER_DATA));
  hws_engine_destroy(engine);
  hws_config_destroy(config);
}

static void find_damage(void) {
  hws_engine* engine = tiny_engine(0);
  char path[600];
  CHECK_OK(hws_checkpoint_save(engine, check_path("damaged")));
  hws_buffer* out = NULL;
  CHECK_OK(hws_checkpoint_inspect(check_path("damaged"), &out));
  const char* text = check_text(out);
  const char* end = strstr(text, ".safetensors"); /* the shard's name ends here */
  const char* begin = end;
  while (begin != NULL && begin > text && begin[-1] != '"' && begin[-1] != '/') --begin;
  CHECK(end != NULL);
  if (end == NULL) return;
  snprintf(path, sizeof path, "%s/%.*s.safetensors", check_path("damaged"), (int)(end - begin), begin);
  FILE* file = fopen(path, "r+b");
  CHECK(file != NULL);
  if (file == NULL) return;
  fseek(file, -100, SEEK_END);
  const int byte = fgetc(file);
  fseek(file, -100, SEEK_END);
  fputc(byte ^ 1, file);
  fclose(file);
  CHECK_ERROR(hws_checkpoint_verify(check_path("damaged")), HWS_CHECKPOINT_CORRUPT, ".safetensors");
  CHECK_STATUS(hws_checkpoint_load(engine, check_path("damaged"), 0), HWS_CHECKPOINT_CORRUPT);
  hws_engine_destroy(engine);
}

static void hugging_face_both_ways(void) {
  hws_engine* engine = tiny_engine(0);
  push_and_step(engine, 1);
  CHECK_OK(hws_engine_export(engine, check_path("hf"), ""));
  CHECK_ERROR(hws_engine_export(engine, check_path("hf2"), "int8"), HWS_INVALID_ARGUMENT, "dtype");
  CHECK_ERROR(hws_engine_export_adapter(engine, check_path("peft")), HWS_FAILED_PRECONDITION, "no adapter");
  CHECK_OK(hws_checkpoint_import(check_path("hf"), check_path("imported"), "[\"some_key\"]"));
  CHECK_ERROR(hws_checkpoint_import(check_path("hf"), check_path("x"), "{}"), HWS_INVALID_ARGUMENT,
              "ignore_keys");
  CHECK_STATUS(hws_checkpoint_import(check_path("nowhere"), check_path("x"), NULL), HWS_NOT_FOUND);
  CHECK_OK(hws_checkpoint_export(check_path("imported"), check_path("hf-f16"), "f16"));
  CHECK_OK(hws_checkpoint_export(check_path("imported"), check_path("hf-again"), NULL));
  CHECK_ERROR(hws_checkpoint_export_adapter(check_path("imported"), check_path("peft")),
              HWS_FAILED_PRECONDITION, "no adapter");

  const char* sources[] = {"hf", "imported", "hf-again"};
  for (int i = 0; i < 3; ++i) {
    hws_config* config = NULL;
    hws_engine* other = NULL;
    CHECK_OK(hws_config_from_model(check_path(sources[i]), &config));
    CHECK_OK(hws_engine_create(config, HWS_ENGINE_INFERENCE, &other));
    if (other != NULL) same_weights(engine, other);
    hws_engine_destroy(other);
    hws_config_destroy(config);
  }
  hws_engine_destroy(engine);
}

int main(void) {
  check_begin();
  trains_on_bitwise();
  save_beside_training();
  averages_checkpoints();
  tells_what_is_there();
  other_data_is_a_choice();
  find_damage();
  hugging_face_both_ways();
  return check_end();
}
