/* Every function that takes a handle, with handles that are none: NULL, destroyed, of another type, and
 * numbers and pointers that never were one. A new function is covered by a row in the table. */
#include <string.h>

#include "check.h"
#include "tiny.h"

static int32_t g_ids[4];
static float g_floats[4];
static double g_loss;
static hws_buffer* g_out;
static int g_destroyed;

static int32_t on_train(void* user, const hws_train_record* record) {
  (void)user, (void)record;
  return 1;
}
static int32_t on_token(void* user, int32_t token) {
  (void)user, (void)token;
  return 1;
}
static void on_metrics(void* user, const char* json, size_t size) { (void)user, (void)json, (void)size; }
static void on_destroy(void* user) {
  (void)user;
  ++g_destroyed;
}

static hws_batch one_token(void) {
  hws_batch batch = {sizeof batch, 0, 1, 1, g_ids, g_ids, NULL};
  return batch;
}

/* One call of each function; every argument but the handle is good. */
static int32_t clone_config(void* h) {
  hws_config* out = NULL;
  const int32_t status = hws_config_clone(h, &out);
  CHECK(status == HWS_OK || out == NULL);
  return status;
}
static int32_t set_config(void* h) { return hws_config_set(h, "/seed", "1"); }
static int32_t validate(void* h) { return hws_config_validate(h, &g_out); }
static int32_t prove(void* h) { return hws_config_prove_layout(h, 1, &g_out); }
static int32_t explain(void* h) { return hws_config_explain(h, "", &g_out); }
static int32_t serialize(void* h) { return hws_config_serialize(h, HWS_FORMAT_JSON, &g_out); }
static int32_t plan_create(void* h) {
  hws_plan* out = NULL;
  return hws_plan_create(h, &out);
}
static int32_t plan_report(void* h) { return hws_plan_report(h, HWS_FORMAT_TEXT, &g_out); }
static int32_t create(void* h) {
  hws_engine* out = NULL;
  const int32_t status = hws_engine_create(h, 0, &out);
  CHECK(status == HWS_OK || out == NULL);
  return status;
}
static hws_comm* g_comm; /* of one rank */
static int32_t create_ranks(void* h) {
  hws_engine* out = NULL;
  const int32_t status = hws_engine_create_ranks(h, g_comm, 0, &out);
  CHECK(status == HWS_OK || out == NULL);
  return status;
}
static hws_config* g_config;
static int32_t create_over(void* h) {
  hws_engine* out = NULL;
  const int32_t status = hws_engine_create_ranks(g_config, h, 0, &out);
  CHECK(status == HWS_OK || out == NULL);
  return status;
}
static int32_t comm_info(void* h) { return hws_comm_info(h, &g_out); }
static int32_t info(void* h) { return hws_engine_info(h, &g_out); }
static int32_t train_step(void* h) { return hws_engine_train_step(h, NULL); }
static int32_t forward_backward(void* h) { return hws_engine_forward_backward(h, NULL); }
static int32_t commit(void* h) { return hws_engine_commit(h, NULL); }
static int32_t discard(void* h) { return hws_engine_discard(h, 0, NULL); }
static int32_t train(void* h) {
  const int before = g_destroyed;
  const int32_t status = hws_engine_train(h, 1, on_train, NULL, on_destroy);
  CHECK(g_destroyed == before + 1);
  return status;
}
static int32_t cancel(void* h) { return hws_engine_cancel(h); }
static int32_t push(void* h) {
  const hws_batch batch = one_token();
  return hws_data_push(h, &batch);
}
static int32_t data_info(void* h) { return hws_data_info(h, &g_out); }
static int32_t eval(void* h) {
  const hws_batch batch = one_token();
  return hws_engine_eval(h, &batch, 0, &g_loss, NULL);
}
static int32_t forward(void* h) {
  const hws_batch batch = one_token();
  return hws_engine_forward(h, &batch, g_floats, sizeof g_floats);
}
static int32_t generate(void* h) {
  const hws_generate_request request = {sizeof request, -1, g_ids, 1, 1, 0, 0, 1, 0};
  const int before = g_destroyed;
  const int32_t status = hws_engine_generate(h, &request, on_token, NULL, on_destroy);
  CHECK(g_destroyed == before + 1);
  return status;
}
static int32_t encode(void* h) { return hws_text_encode(h, "a", 1, &g_out); }
static int32_t decode(void* h) { return hws_text_decode(h, g_ids, 1, &g_out); }
static int32_t tensor_list(void* h) { return hws_tensor_list(h, &g_out); }
static int32_t tensor_get(void* h) { return hws_tensor_get(h, 0, "a", g_floats, sizeof g_floats); }
static int32_t tensor_set(void* h) { return hws_tensor_set(h, 0, "a", g_floats, sizeof g_floats); }
static int32_t tensor_view(void* h) {
  void* out = NULL;
  return hws_tensor_view(h, 0, "a", &out);
}
static int32_t statistics(void* h) { return hws_tensor_statistics(h, &g_out); }
static int32_t save(void* h) { return hws_checkpoint_save(h, check_path("never")); }
static int32_t save_async(void* h) {
  hws_op* out = (hws_op*)(void*)g_ids;
  const int32_t status = hws_checkpoint_save_async(h, check_path("never"), &out);
  CHECK(status == HWS_OK || out == NULL);
  return status;
}
static int32_t op_wait(void* h) { return hws_op_wait(h, 0); }
static int32_t op_poll(void* h) { return hws_op_poll(h, g_ids); }
static int32_t op_progress(void* h) { return hws_op_progress(h, NULL, NULL); }
static int32_t op_cancel(void* h) { return hws_op_cancel(h); }
static int32_t load(void* h) { return hws_checkpoint_load(h, check_path("never"), 0); }
static int32_t export_hf(void* h) { return hws_engine_export(h, check_path("never"), ""); }
static int32_t set_metrics(void* h) {
  const int before = g_destroyed;
  const int32_t status = hws_engine_set_metrics(h, on_metrics, NULL, on_destroy);
  CHECK(g_destroyed == before + 1);
  return status;
}
static int32_t metrics(void* h) { return hws_engine_metrics(h, &g_out); }
static int32_t profile(void* h) { return hws_engine_profile(h, HWS_FORMAT_JSON, &g_out); }
static int32_t set_trace(void* h) { return hws_engine_set_trace(h, 1); }
static int32_t trace(void* h) { return hws_engine_trace(h, HWS_FORMAT_JSON, &g_out); }
static int32_t error_code(void* h) { return hws_error_code(h); }

typedef enum { kError, kConfig, kPlan, kEngine, kComm, kOp, kTypes } type;
static const struct {
  const char* name;
  type takes;
  int32_t (*call)(void*);
} kCalls[] = {
    {"hws_error_code", kError, error_code},
    {"hws_config_clone", kConfig, clone_config},
    {"hws_config_set", kConfig, set_config},
    {"hws_config_validate", kConfig, validate},
    {"hws_config_explain", kConfig, explain},
    {"hws_config_prove_layout", kConfig, prove},
    {"hws_config_serialize", kConfig, serialize},
    {"hws_plan_create", kConfig, plan_create},
    {"hws_plan_report", kPlan, plan_report},
    {"hws_engine_create", kConfig, create},
    {"hws_engine_create_ranks", kConfig, create_ranks},
    {"hws_engine_create_ranks", kComm, create_over},
    {"hws_comm_info", kComm, comm_info},
    {"hws_engine_info", kEngine, info},
    {"hws_engine_train_step", kEngine, train_step},
    {"hws_engine_forward_backward", kEngine, forward_backward},
    {"hws_engine_commit", kEngine, commit},
    {"hws_engine_discard", kEngine, discard},
    {"hws_engine_train", kEngine, train},
    {"hws_engine_cancel", kEngine, cancel},
    {"hws_data_push", kEngine, push},
    {"hws_data_info", kEngine, data_info},
    {"hws_engine_eval", kEngine, eval},
    {"hws_engine_forward", kEngine, forward},
    {"hws_engine_generate", kEngine, generate},
    {"hws_text_encode", kEngine, encode},
    {"hws_text_decode", kEngine, decode},
    {"hws_tensor_list", kEngine, tensor_list},
    {"hws_tensor_get", kEngine, tensor_get},
    {"hws_tensor_set", kEngine, tensor_set},
    {"hws_tensor_view", kEngine, tensor_view},
    {"hws_tensor_statistics", kEngine, statistics},
    {"hws_checkpoint_save", kEngine, save},
    {"hws_checkpoint_save_async", kEngine, save_async},
    {"hws_op_wait", kOp, op_wait},
    {"hws_op_poll", kOp, op_poll},
    {"hws_op_progress", kOp, op_progress},
    {"hws_op_cancel", kOp, op_cancel},
    {"hws_checkpoint_load", kEngine, load},
    {"hws_engine_export", kEngine, export_hf},
    {"hws_engine_set_metrics", kEngine, set_metrics},
    {"hws_engine_metrics", kEngine, metrics},
    {"hws_engine_profile", kEngine, profile},
    {"hws_engine_set_trace", kEngine, set_trace},
    {"hws_engine_trace", kEngine, trace},
};

static void expect_bad(size_t row, void* handle, const char* what) {
  g_out = (hws_buffer*)(void*)g_ids;
  const int32_t status = kCalls[row].call(handle);
  if (status != HWS_BAD_HANDLE) {
    check_failed(kCalls[row].name, (int)row, what);
    check_failed(hws_status_name(status), 0, "instead of HWS_BAD_HANDLE");
  }
  CHECK(g_out == NULL || g_out == (hws_buffer*)(void*)g_ids);
  /* Two functions say nothing: one reads the error object itself, one may run in a signal handler. */
  if (kCalls[row].call == error_code || kCalls[row].call == cancel) return;
  hws_error* error = NULL;
  CHECK(hws_error_take(&error) == HWS_OK);
  if (strstr(hws_error_message(error), kCalls[row].name) == NULL) {
    check_failed(kCalls[row].name, (int)row, hws_error_message(error));
  }
  hws_error_destroy(error);
}

int main(void) {
  check_begin();
  void* handles[kTypes];
  hws_config* config = tiny_config();
  hws_plan* plan = NULL;
  hws_error* error = NULL;
  CHECK_STATUS(hws_library_info(NULL), HWS_INVALID_ARGUMENT);
  CHECK_OK(hws_error_take(&error));
  CHECK_OK(hws_plan_create(config, &plan));
  handles[kError] = error;
  handles[kConfig] = config;
  handles[kPlan] = plan;
  handles[kEngine] = tiny_engine(0);
  hws_op* op = NULL;
  CHECK_OK(hws_checkpoint_save_async(handles[kEngine], check_path("saved"), &op));
  handles[kOp] = op;
  hws_comm* comm = NULL;
  CHECK_OK(hws_comm_create_local(1, &comm));
  CHECK_OK(hws_comm_create_local(1, &g_comm));
  handles[kComm] = comm;
  g_config = tiny_config();
  const size_t rows = sizeof kCalls / sizeof kCalls[0];
  for (size_t i = 0; i < rows; ++i) {
    expect_bad(i, NULL, "NULL");
    expect_bad(i, g_ids, "a pointer");
    expect_bad(i, (void*)(uintptr_t)-1, "a number");
    expect_bad(i, (void*)((uintptr_t)handles[kCalls[i].takes] ^ 0x100000), "a changed handle");
    for (int t = 0; t < kTypes; ++t) {
      if (t != (int)kCalls[i].takes) expect_bad(i, handles[t], "a handle of another type");
    }
  }
  hws_buffer_destroy((hws_buffer*)handles[kEngine]); /* of another type: nothing happens */
  CHECK_OK(metrics(handles[kEngine]));
  hws_buffer_destroy(g_out);

  hws_error_destroy(error);
  hws_config_destroy(config);
  hws_plan_destroy(plan);
  hws_engine_destroy(handles[kEngine]);
  hws_comm_destroy(comm);
  hws_op_destroy(op);
  for (size_t i = 0; i < rows; ++i) expect_bad(i, handles[kCalls[i].takes], "a destroyed handle");
  hws_error_destroy(error);
  hws_config_destroy(config);
  hws_plan_destroy(plan);
  hws_engine_destroy(handles[kEngine]);
  hws_comm_destroy(comm);
  hws_op_destroy(op);
  hws_comm_destroy(g_comm);
  hws_config_destroy(g_config);
  hws_error_destroy(NULL);
  hws_config_destroy(NULL);
  hws_plan_destroy(NULL);
  hws_engine_destroy(NULL);
  hws_comm_destroy(NULL);
  hws_op_destroy(NULL);
  return check_end();
}
