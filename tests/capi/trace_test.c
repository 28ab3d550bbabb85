/* Trace tests: the trace of a step is off by default; once on, it gives trace events and a table of the last
 * step. */
#include <string.h>

#include "check.h"
#include "tiny.h"

static int32_t count(const char* text, const char* words) {
  int32_t found = 0;
  for (const char* at = strstr(text, words); at != NULL; at = strstr(at + 1, words)) ++found;
  return found;
}

static void shows_the_last_step(void) {
  hws_engine* engine = tiny_engine(0);
  hws_buffer* out = NULL;
  push_and_step(engine, 1);
  CHECK_ERROR(hws_engine_trace(engine, HWS_FORMAT_JSON, &out), HWS_FAILED_PRECONDITION, "set_trace");
  CHECK_OK(hws_engine_set_trace(engine, 1));
  CHECK_ERROR(hws_engine_trace(engine, HWS_FORMAT_JSON, &out), HWS_FAILED_PRECONDITION, "no step");
  for (uint32_t i = 2; i < 4; ++i) push_and_step(engine, i);

  CHECK_OK(hws_engine_trace(engine, HWS_FORMAT_JSON, &out));
  const char* json = check_text(out);
  CHECK(count(json, "\"traceEvents\"") == 1 && count(json, "\"step\":3") == 1);
  /* 2 micro-batches through embedding and 2 blocks */
  CHECK(count(json, "\"FORWARD block") == 6 && count(json, "\"BACKWARD block") == 6);
  CHECK(count(json, "\"ph\":\"X\"") > 20 && count(json, "\"hidden_share\"") == 1);
  CHECK(count(json, "\"cat\":\"communication\"") == 0);

  CHECK_OK(hws_engine_trace(engine, HWS_FORMAT_TEXT, &out));
  const char* text = check_text(out);
  CHECK(strstr(text, "step 3") != NULL && strstr(text, "behind backward") != NULL);
  CHECK_ERROR(hws_engine_trace(engine, HWS_FORMAT_BINARY, &out), HWS_INVALID_ARGUMENT, "format");
  CHECK(out == NULL);

  CHECK_OK(hws_engine_set_trace(engine, 0));
  push_and_step(engine, 4);
  CHECK_ERROR(hws_engine_trace(engine, HWS_FORMAT_TEXT, &out), HWS_FAILED_PRECONDITION, "set_trace");
  hws_engine_destroy(engine);
}

static void adds_up_what_kernels_took(void) {
  hws_engine* engine = tiny_engine(0);
  hws_buffer* out = NULL;
  CHECK_OK(hws_engine_set_trace(engine, HWS_TRACE_INSTRUCTIONS));
  push_and_step(engine, 1);
  CHECK_ERROR(hws_engine_profile(engine, HWS_FORMAT_JSON, &out), HWS_FAILED_PRECONDITION,
              "HWS_TRACE_KERNELS");
  CHECK_ERROR(hws_engine_set_trace(engine, 3), HWS_INVALID_ARGUMENT, "detail");
  CHECK_ERROR(hws_engine_set_trace(engine, -1), HWS_INVALID_ARGUMENT, "detail");

  CHECK_OK(hws_engine_set_trace(engine, HWS_TRACE_KERNELS));
  CHECK_ERROR(hws_engine_profile(engine, HWS_FORMAT_TEXT, &out), HWS_FAILED_PRECONDITION, "no step");
  for (uint32_t i = 2; i < 6; ++i) push_and_step(engine, i);
  CHECK_OK(hws_engine_profile(engine, HWS_FORMAT_JSON, &out));
  const char* json = check_text(out);
  /* the first of four steps is left out; 2 micro-batches x 2 blocks x 3 steps */
  CHECK(strstr(json, "\"steps\":3,") != NULL);
  CHECK(
      strstr(
          json,
          "\"kernel\":\"attention_backward\",\"type\":\"F32\",\"length\":16,\"head_dim\":8,\"calls\":12,") !=
      NULL);
  CHECK(strstr(json, "\"kernel\":\"adamw\"") != NULL && strstr(json, "\"kernel\":\"cross_entropy\"") != NULL);
  CHECK(strstr(json, "\"b_transposed\":true") != NULL);
  CHECK_OK(hws_engine_profile(engine, HWS_FORMAT_TEXT, &out));
  const char* text = check_text(out);
  CHECK(strstr(text, "attention_forward 16 x 8 fp32") != NULL && strstr(text, "between kernels") != NULL);
  CHECK_ERROR(hws_engine_profile(engine, HWS_FORMAT_BINARY, &out), HWS_INVALID_ARGUMENT, "format");

  CHECK_OK(hws_engine_trace(engine, HWS_FORMAT_JSON, &out));
  CHECK(count(check_text(out), "\"attention_backward 16 x 8 fp32\",\"cat\":\"kernel\"") == 4);
  hws_engine_destroy(engine);
}

static void shows_half_a_step_that_was_discarded(void) {
  hws_engine* engine = tiny_engine(0);
  hws_buffer* out = NULL;
  tiny_batch batch;
  fill_batch(&batch, 1);
  CHECK_OK(hws_engine_set_trace(engine, 1));
  CHECK_OK(hws_data_push(engine, &batch.batch));
  CHECK_OK(hws_engine_forward_backward(engine, NULL));
  CHECK_ERROR(hws_engine_set_trace(engine, 0), HWS_FAILED_PRECONDITION, "pending");
  CHECK_OK(hws_engine_discard(engine, 0, NULL));
  CHECK_OK(hws_engine_trace(engine, HWS_FORMAT_JSON, &out));
  const char* json = check_text(out);
  CHECK(strstr(json, "GRAD_NORM") != NULL && strstr(json, "OPTIMIZER_STEP") == NULL);
  hws_engine_destroy(engine);
}

static void is_of_training(void) {
  hws_engine* engine = tiny_engine(HWS_ENGINE_INFERENCE);
  CHECK_ERROR(hws_engine_set_trace(engine, 1), HWS_FAILED_PRECONDITION, "inference");
  hws_engine_destroy(engine);
}

int main(void) {
  check_begin();
  shows_the_last_step();
  adds_up_what_kernels_took();
  shows_half_a_step_that_was_discarded();
  is_of_training();
  return check_end();
}
