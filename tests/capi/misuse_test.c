/* Every exported function called wrongly: handles that are none, pointers that are NULL or misaligned, sizes
 * of nothing and of more than there is, texts that are no UTF-8 or have no end, numbers out of range, structs
 * of other sizes and versions. Each gets the status and the words it should, nothing is handed out, nothing
 * breaks, and the same call made rightly works. The table is misuse_rows.inc.
 *   misuse_test SYMBOL_LIST           the checked-in list of exports: each must have a row
 *   misuse_test SYMBOL_LIST HEADER    instead: functions that are const there, from many threads at once */
#include "misuse.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "tiny.h"

/* --------------------------------------------------------------------------------------- the host's side */

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
static int32_t send(void* user, int32_t to, const void* data, int64_t bytes, double seconds) {
  (void)user, (void)to, (void)data, (void)bytes, (void)seconds;
  return HWS_UNAVAILABLE;
}
static int32_t recv(void* user, int32_t from, void* data, int64_t bytes, double seconds) {
  (void)user, (void)from, (void)data, (void)bytes, (void)seconds;
  return HWS_UNAVAILABLE;
}

/* Without the module for addresses, the call is HWS_UNAVAILABLE at once instead of timing out. */
static int32_t comm_create_address(void* address, void* out) {
  const int32_t status = hws_comm_create_address(address, out);
  return status == HWS_UNAVAILABLE ? HWS_TIMEOUT : status;
}
/* Makes a pending step, so that there is something to discard. */
static int32_t discard(void* engine, int32_t rewind, void* result) {
  hws_engine_forward_backward(engine, NULL);
  const int32_t status = hws_engine_discard(engine, rewind, result);
  if (status != HWS_OK) hws_engine_discard(engine, 1, NULL);
  return status;
}

/* ----------------------------------------------------------------------------------------------- structs */

enum { kLogitsBytes = 2 * 256 * 4, kLogprobsBytes = 2 * 4, kGradientsBytes = kRows * kCols * 4 };
static int32_t g_tokens[kBatchTokens];
static float g_logits[kLogitsBytes / 4];
static int32_t g_ids[kLogprobsBytes / 4];

/* A pointer that no array can begin at; where the struct has a count beside it. */
#define ODD \
  { (unsigned char*)g_tokens + 1 }
#define INT(x) \
  { .i = (x) }
#define REAL(x) \
  { .d = (x) }

static const hws_step_result kResultGood = {sizeof kResultGood, 0, 0, 0, 0, 0, 0, 0, 0, 0};
static const layout kResult = {&kResultGood, sizeof kResultGood, 72, NULL};

static const hws_sizes kSizesGood = {sizeof kSizesGood, 0, 0, 0, 0, 0};
static const layout kSizes = {&kSizesGood, sizeof kSizesGood, 32, NULL};

static const hws_progress kProgressGood = {.struct_size = sizeof kProgressGood};
static const layout kProgress = {&kProgressGood, sizeof kProgressGood, 144, NULL};

static const wrong_field kWrongBatch[] = {
    {"batch->reserved", offsetof(hws_batch, reserved), 4, INT(1)},
    {"batch->rows", offsetof(hws_batch, rows), 8, INT(0)},
    {"batch->rows", offsetof(hws_batch, rows), 8, INT(-1)},
    {"batch->cols", offsetof(hws_batch, cols), 8, INT(0)},
    {"address space", offsetof(hws_batch, rows), 8, INT(INT64_MAX)},
    {"address space", offsetof(hws_batch, cols), 8, INT(INT64_MAX)},
    {"batch->tokens", offsetof(hws_batch, tokens), sizeof(void*), {NULL}},
    {"batch->tokens", offsetof(hws_batch, tokens), sizeof(void*), ODD},
    {"batch->targets", offsetof(hws_batch, targets), sizeof(void*), ODD},
    {"batch->document_begin", offsetof(hws_batch, document_begin), sizeof(void*), ODD},
    {"batch->weights", offsetof(hws_batch, weights), sizeof(void*), ODD},
    {"batch->references", offsetof(hws_batch, references), sizeof(void*), ODD},
    {NULL, 0, 0, {NULL}}};
static const hws_batch kGlobalBatchGood = {
    sizeof(hws_batch), 0, kRows, kCols, g_tokens, g_tokens, NULL, NULL, NULL, 0, NULL, NULL};
static const layout kGlobalBatch = {&kGlobalBatchGood, sizeof(hws_batch), offsetof(hws_batch, weights),
                                    kWrongBatch};
static const hws_batch kBatchGood = {
    sizeof(hws_batch), 0, 1, 2, g_tokens, g_tokens, NULL, NULL, NULL, 0, NULL, NULL};
static const layout kBatch = {&kBatchGood, sizeof(hws_batch), offsetof(hws_batch, weights), kWrongBatch};

static const wrong_field kWrongRequest[] = {
    {"request->stop_token", offsetof(hws_generate_request, stop_token), 4, INT(-2)},
    {"request->prompt", offsetof(hws_generate_request, prompt), sizeof(void*), {NULL}},
    {"request->prompt", offsetof(hws_generate_request, prompt), sizeof(void*), ODD},
    {"request->prompt_length", offsetof(hws_generate_request, prompt_length), 8, INT(0)},
    {"request->prompt", offsetof(hws_generate_request, prompt_length), 8, INT(INT64_MAX)},
    {"request->max_tokens", offsetof(hws_generate_request, max_tokens), 8, INT(-1)},
    {"request->temperature", offsetof(hws_generate_request, temperature), 8, REAL(-1)},
    {"request->temperature", offsetof(hws_generate_request, temperature), 8, REAL(INFINITY)},
    {"request->top_k", offsetof(hws_generate_request, top_k), 8, INT(-1)},
    {"request->top_p", offsetof(hws_generate_request, top_p), 8, REAL(0)},
    {"request->top_p", offsetof(hws_generate_request, top_p), 8, REAL(1.5)},
    {"request->top_p", offsetof(hws_generate_request, top_p), 8, REAL(NAN)},
    {"request->stop_tokens", offsetof(hws_generate_request, stop_count), 8, INT(1)},
    {"request->stop_count", offsetof(hws_generate_request, stop_count), 8, INT(-1)},
    {NULL, 0, 0, {NULL}}};
static const hws_generate_request kRequestGood = {
    sizeof kRequestGood, -1, g_tokens, 1, 1, 0, 0, 1, 0, NULL, 0};
static const layout kRequest = {&kRequestGood, sizeof kRequestGood,
                                offsetof(hws_generate_request, stop_tokens), kWrongRequest};

/* The valid call is for rank 1 of two, which times out because there is no rank 0. */
static const wrong_field kWrongAddress[] = {
    {"address->address", offsetof(hws_comm_address, address), sizeof(void*), {NULL}},
    {"address->address", offsetof(hws_comm_address, address), sizeof(void*), {(void*)(uintptr_t) "\xff"}},
    {"address->host", offsetof(hws_comm_address, host), sizeof(void*), {(void*)(uintptr_t) "\xff"}},
    {"address->job", offsetof(hws_comm_address, job), sizeof(void*), {(void*)(uintptr_t) "\xff"}},
    {"address->secret_file", offsetof(hws_comm_address, secret_file), sizeof(void*), {(void*)(uintptr_t) ""}},
    {"address->reserved", offsetof(hws_comm_address, reserved), 4, INT(1)},
    {"address->without_shared_memory", offsetof(hws_comm_address, without_shared_memory), 4, INT(2)},
    {"address->trust_network", offsetof(hws_comm_address, trust_network), 4, INT(2)},
    {"address->timeout_seconds", offsetof(hws_comm_address, timeout_seconds), 8, REAL(-1)},
    {"address->timeout_seconds", offsetof(hws_comm_address, timeout_seconds), 8, REAL(NAN)},
    {"address->silence_seconds", offsetof(hws_comm_address, silence_seconds), 8, REAL(INFINITY)},
    {NULL, 0, 0, {NULL}}};
static const hws_comm_address kAddressGood = {.struct_size = sizeof kAddressGood,
                                              .rank = 1,
                                              .world_size = 2,
                                              .address = "127.0.0.1:9",
                                              .timeout_seconds = 0.05};
static const layout kAddress = {&kAddressGood, sizeof kAddressGood, 48, kWrongAddress};
static const hws_comm_address kOverridesGood = {.struct_size = sizeof kOverridesGood};
static const layout kOverrides = {&kOverridesGood, sizeof kOverridesGood, 48, kWrongAddress + 1};

static const wrong_field kWrongHost[] = {{"host->reserved", offsetof(hws_comm_host, reserved), 4, INT(1)},
                                         {"host->send", offsetof(hws_comm_host, send), sizeof(void*), {NULL}},
                                         {"host->recv", offsetof(hws_comm_host, recv), sizeof(void*), {NULL}},
                                         {"host->world_size", offsetof(hws_comm_host, world_size), 4, INT(0)},
                                         {"host->rank", offsetof(hws_comm_host, rank), 4, INT(2)},
                                         {"host->rank", offsetof(hws_comm_host, rank), 4, INT(-1)},
                                         {NULL, 0, 0, {NULL}}};
static const hws_comm_host kHostGood = {sizeof kHostGood, 0, 2, 0, NULL, send, recv, NULL, NULL, NULL,
                                        on_destroy};
static const layout kHost = {&kHostGood, sizeof kHostGood, sizeof kHostGood, kWrongHost};

/* -------------------------------------------------------------------------------------------------- rows */

#define FUNCTION(name, status, flags, expression, ...) \
  static int32_t call_##name(const value* v) {         \
    (void)v;                                           \
    return expression;                                 \
  }
#include "misuse_rows.inc"
#undef FUNCTION

#define NOTHING \
  { .kind = kNoMore }
#define HANDLE(t) \
  { .kind = kHandle, .name = "handle", .type = t }
#define OUT(t) \
  { .kind = kOut, .name = "out", .type = t }
#define CELL(n, bytes, may_be_null) \
  { .kind = kCell, .name = #n, .low = bytes, .optional = may_be_null }
#define TEXT(n, text)                                            \
  {                                                              \
    .kind = kText, .name = #n, .good = {(void*)(uintptr_t)text } \
  }
#define PATH(n, path)                                            \
  {                                                              \
    .kind = kPath, .name = #n, .good = {(void*)(uintptr_t)path } \
  }
#define ARRAY(n, array, bytes) \
  { .kind = kArray, .name = #n, .good = {(void*)(uintptr_t)array}, .low = bytes }
#define SIZE(n, size, unit, zero) \
  { .kind = kSize, .name = #n, .good = INT(size), .low = zero, .high = unit }
#define RANGE(n, x, lowest, highest) \
  { .kind = kRange, .name = #n, .good = INT(x), .low = lowest, .high = highest }
#define FLAGS(n, x, known) \
  { .kind = kFlags, .name = #n, .good = INT(x), .low = known }
#define SECONDS(n, x, any) \
  { .kind = kSeconds, .name = #n, .good = REAL(x), .optional = any }
#define CALLBACK(n) \
  { .kind = kFunction, .name = #n, .good = INT(1) }
#define DTYPE(n) \
  { .kind = kDtype, .name = #n, .good = {(void*)(uintptr_t) "f32"}, .optional = 1 }
#define NAMES(n) \
  { .kind = kNames, .name = #n, .good = {(void*)(uintptr_t) "[\"a\"]"}, .optional = 1 }
#define STRUCT(n, l) \
  { .kind = kStruct, .name = #n, .layout = &l }
#define RESULT(n, l) \
  { .kind = kStruct, .name = #n, .layout = &l, .optional = 1 }
#define FUNCTION(name, status, flags, expression, ...) {#name, call_##name, status, flags, {__VA_ARGS__}},
static const function kFunctions[] = {
#include "misuse_rows.inc"
};
enum { kFunctionCount = sizeof kFunctions / sizeof kFunctions[0] };

/* ---------------------------------------------------------------------------------------------- the test */

static void make_objects(void** objects, const char* saved) {
  hws_error* error = NULL;
  hws_buffer* buffer = NULL;
  hws_plan* plan = NULL;
  hws_comm* comm = NULL;
  hws_engine* engine = NULL;
  hws_op* op = NULL;
  hws_config* config = text_config();
  CHECK_OK(hws_config_set(config, "/train/steps", "100"));
  CHECK_STATUS(hws_library_info(NULL), HWS_INVALID_ARGUMENT);
  CHECK_OK(hws_error_take(&error));
  CHECK_OK(hws_library_info(&buffer));
  CHECK_OK(hws_plan_create(config, &plan));
  CHECK_OK(hws_comm_create_local(1, &comm));
  CHECK_OK(hws_engine_create(config, 0, &engine));
  CHECK_OK(hws_checkpoint_save_async(engine, check_path(saved), &op));
  objects[kError] = error;
  objects[kBuffer] = buffer;
  objects[kConfig] = config;
  objects[kPlan] = plan;
  objects[kComm] = comm;
  objects[kEngine] = engine;
  objects[kOp] = op;
  hws_tokenizer* tokenizer = NULL;
  const int32_t status = hws_engine_tokenizer(engine, &tokenizer);
  if (status != HWS_UNAVAILABLE) CHECK_OK(status); /* no text module: its functions are left out */
  objects[kTokenizer] = tokenizer;
}

static void destroy_objects(void** objects) {
  hws_error_destroy(objects[kError]);
  hws_buffer_destroy(objects[kBuffer]);
  hws_config_destroy(objects[kConfig]);
  hws_plan_destroy(objects[kPlan]);
  hws_comm_destroy(objects[kComm]);
  hws_engine_destroy(objects[kEngine]);
  hws_op_destroy(objects[kOp]);
  hws_tokenizer_destroy(objects[kTokenizer]);
}

/* Every symbol of the list has a row, and there is no other row. */
static void covers(const char* list) {
  char line[256];
  int symbols = 0;
  FILE* file = fopen(list, "r");
  if (file == NULL) exit(3);
  while (fgets(line, sizeof line, file) != NULL) {
    line[strcspn(line, "\n")] = '\0';
    if (strncmp(line, "hws_", 4) != 0) continue;
    int rows = 0;
    ++symbols;
    for (int i = 0; i < kFunctionCount; ++i) rows += strcmp(kFunctions[i].name, line) == 0;
    if (rows != 1) check_failed(line, rows, "needs exactly one row in misuse_rows.inc");
  }
  fclose(file);
  if (symbols != kFunctionCount) check_failed(list, symbols, "does not hold every row of misuse_rows.inc");
}

/* Calls whose inputs overlap the memory that they write are refused. */
static void overlapping_memory(void) {
  struct {
    uint32_t version[2];
    void* context;
    void* deleter;
    uint64_t flags;
    float* data;
  }* view = NULL;
  hws_engine* engine = g_alive[kEngine];
  static float logits[kLogitsBytes / 4], before[32], after[32];
  hws_batch batch = kBatchGood;
  for (size_t shift = 0; shift <= 8; shift += 4) { /* every input array, whole and in part */
    memset(logits, 0, sizeof logits);
    batch.tokens = batch.targets = (const int32_t*)(void*)((char*)logits + shift);
    batch.document_begin = batch.tokens;
    CHECK_ERROR(hws_engine_forward(engine, &batch, logits, sizeof logits), HWS_INVALID_ARGUMENT, "overlaps");
  }
  const char* name = "final_norm.weight";
  CHECK_OK(hws_tensor_get(engine, HWS_TENSOR_WEIGHT, name, before, sizeof before));
  CHECK_OK(hws_tensor_view(engine, HWS_TENSOR_WEIGHT, name, (struct DLManagedTensorVersioned**)&view));
  CHECK_OK(hws_tensor_set(engine, HWS_TENSOR_WEIGHT, name, view->data, sizeof before));
  CHECK_OK(hws_tensor_get(engine, HWS_TENSOR_WEIGHT, name, view->data, sizeof before));
  CHECK_OK(hws_tensor_get(engine, HWS_TENSOR_WEIGHT, name, after, sizeof after));
  CHECK(memcmp(before, after, sizeof before) == 0);
  void (*deleter)(void*) = NULL;
  memcpy(&deleter, &view->deleter, sizeof deleter);
  deleter(view);
  union {
    double loss;
    int64_t tokens;
  } both;
  CHECK_OK(hws_engine_eval(engine, &kBatchGood, 0, &both.loss, &both.tokens));
}

int main(int argc, char** argv) {
  check_begin();
  make_objects(g_gone, "gone");
  destroy_objects(g_gone);
  make_objects(g_alive, "alive");
  if (argc > 1) covers(argv[1]);
  CHECK_OK(hws_op_wait(g_alive[kOp], -1));
  if (argc > 2) {
    hammer_const_calls(kFunctions, kFunctionCount, argv[2]);
  } else {
    int calls = 0;
    for (int i = 0; i < kFunctionCount; ++i) calls += misuse(&kFunctions[i]);
    CHECK_OK(hws_engine_train_step(g_alive[kEngine], NULL)); /* no cancel of the rows above is left */
    overlapping_memory();
    char note[64];
    snprintf(note, sizeof note, "%d functions, %d calls", kFunctionCount, calls);
    check_note(note);
  }
  destroy_objects(g_alive);
  return check_end();
}
