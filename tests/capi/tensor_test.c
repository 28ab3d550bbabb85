/* Tensor tests: tensors by Hawser's and Hugging Face's names, gradients, and zero-copy views. */
#include <math.h>
#include <string.h>

#include "check.h"
#include "tiny.h"

enum { kWidth = 32 };

/* DLPack 1.0, as a consumer declares it. */
typedef struct {
  void* data;
  struct {
    int32_t type, id;
  } device;
  int32_t ndim;
  struct {
    uint8_t code, bits;
    uint16_t lanes;
  } dtype;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
} dl_tensor;
typedef struct dl_managed {
  struct {
    uint32_t major, minor;
  } version;
  void* context;
  void (*deleter)(struct dl_managed*);
  uint64_t flags;
  dl_tensor tensor;
} dl_managed;

static float g_qkv[3 * kWidth * kWidth], g_hf[3 * kWidth * kWidth];

static void names_of_both_kinds(void) {
  hws_engine* engine = tiny_engine(0);
  hws_buffer* list = NULL;
  CHECK_OK(hws_tensor_list(engine, &list));
  const char* text = check_text(list);
  CHECK(strstr(text, "blocks.1.mlp.down.weight") != NULL && strstr(text, "c_attn") != NULL);
  const size_t one = sizeof g_qkv / 3;
  const char* parts[] = {"blocks.0.attention.q.weight", "blocks.0.attention.k.weight",
                         "blocks.0.attention.v.weight"};
  for (int i = 0; i < 3; ++i) {
    CHECK_OK(hws_tensor_get(engine, HWS_TENSOR_WEIGHT, parts[i], g_qkv + i * kWidth * kWidth, one));
  }
  /* GPT-2 keeps q, k, v as one [in, 3 out]. */
  CHECK_OK(
      hws_tensor_get(engine, HWS_TENSOR_WEIGHT, "transformer.h.0.attn.c_attn.weight", g_hf, sizeof g_hf));
  for (int in = 0; in < kWidth; ++in) {
    for (int out = 0; out < 3 * kWidth; ++out) CHECK(g_hf[in * 3 * kWidth + out] == g_qkv[out * kWidth + in]);
  }
  for (size_t i = 0; i < sizeof g_hf / 4; ++i) g_hf[i] = (float)i;
  CHECK_OK(
      hws_tensor_set(engine, HWS_TENSOR_WEIGHT, "transformer.h.0.attn.c_attn.weight", g_hf, sizeof g_hf));
  CHECK_OK(hws_tensor_get(engine, HWS_TENSOR_WEIGHT, parts[2], g_qkv, one));
  CHECK(g_qkv[1] == g_hf[3 * kWidth + 2 * kWidth]);
  memset(g_qkv, 0, one);
  CHECK_OK(hws_tensor_set(engine, HWS_TENSOR_WEIGHT, parts[2], g_qkv, one));
  CHECK_OK(
      hws_tensor_get(engine, HWS_TENSOR_WEIGHT, "transformer.h.0.attn.c_attn.weight", g_hf, sizeof g_hf));
  CHECK(g_hf[2 * kWidth] == 0);

  CHECK_ERROR(hws_tensor_get(engine, HWS_TENSOR_WEIGHT, parts[0], g_qkv, one - 4), HWS_INVALID_ARGUMENT,
              "bytes");
  CHECK_ERROR(hws_tensor_get(engine, HWS_TENSOR_WEIGHT, parts[0], g_qkv, one - 1), HWS_INVALID_ARGUMENT,
              "bytes");
  CHECK_ERROR(hws_tensor_get(engine, HWS_TENSOR_WEIGHT, "nonsense", g_qkv, one), HWS_NOT_FOUND, "nonsense");
  CHECK_ERROR(hws_tensor_get(engine, 5, parts[0], g_qkv, one), HWS_INVALID_ARGUMENT, "kind");
  CHECK_ERROR(hws_tensor_get(engine, HWS_TENSOR_WEIGHT, parts[0], (char*)g_qkv + 2, one),
              HWS_INVALID_ARGUMENT, "aligned");
  CHECK_ERROR(hws_tensor_set(engine, HWS_TENSOR_WEIGHT, parts[0], NULL, one), HWS_INVALID_ARGUMENT, "data");
  CHECK_ERROR(hws_engine_use_average(engine, 2), HWS_INVALID_ARGUMENT, "on");
  CHECK_ERROR(hws_engine_use_average(engine, 1), HWS_FAILED_PRECONDITION, "/optimizer/average");
  hws_engine_destroy(engine);
}

static void gradients_until_commit(void) {
  hws_engine* engine = tiny_engine(0);
  float gradient[kWidth], moment[kWidth];
  const char* name = "final_norm.weight";
  CHECK_STATUS(hws_tensor_get(engine, HWS_TENSOR_GRADIENT, name, gradient, sizeof gradient),
               HWS_FAILED_PRECONDITION);
  tiny_batch batch;
  fill_batch(&batch, 1);
  CHECK_OK(hws_data_push(engine, &batch.batch));
  CHECK_OK(hws_engine_forward_backward(engine, NULL));
  CHECK_OK(hws_tensor_get(engine, HWS_TENSOR_GRADIENT, name, gradient, sizeof gradient));
  double norm = 0;
  for (int i = 0; i < kWidth; ++i) norm += (double)gradient[i] * (double)gradient[i];
  CHECK(norm > 0);
  hws_step_result result = {sizeof result, 0, 0, 0, 0, 0, 0, 0, 0, 0};
  CHECK_OK(hws_engine_commit(engine, &result));
  CHECK_OK(hws_tensor_get(engine, HWS_TENSOR_MOMENT1, name, moment, sizeof moment));
  const double clip =
      result.grad_norm > 1 ? 1 / result.grad_norm : 1; /* m = (1 - beta1) * clipped gradient */
  for (int i = 0; i < kWidth; ++i) CHECK(fabs((double)moment[i] - 0.1 * clip * (double)gradient[i]) < 1e-6);
  CHECK_OK(hws_tensor_get(engine, HWS_TENSOR_MOMENT2, name, moment, sizeof moment));
  CHECK(moment[0] >= 0);
  CHECK_ERROR(hws_engine_use_average(engine, 2), HWS_INVALID_ARGUMENT, "on");
  CHECK_ERROR(hws_engine_use_average(engine, 1), HWS_FAILED_PRECONDITION, "/optimizer/average");
  hws_engine_destroy(engine);
}

static void views_outlive_the_engine(void) {
  hws_engine* engine = tiny_engine(0);
  float copy[kVocab * kWidth];
  struct DLManagedTensorVersioned* out = NULL;
  CHECK_OK(hws_tensor_get(engine, HWS_TENSOR_WEIGHT, "embedding.tokens.weight", copy, sizeof copy));
  CHECK_OK(hws_tensor_view(engine, HWS_TENSOR_WEIGHT, "embedding.tokens.weight", &out));
  dl_managed* view = (dl_managed*)out;
  CHECK(view->version.major == 1 && (view->flags & 1) == 1);
  CHECK(view->tensor.ndim == 2 && view->tensor.shape[0] == kVocab && view->tensor.shape[1] == kWidth);
  CHECK(view->tensor.strides[0] == kWidth && view->tensor.strides[1] == 1 && view->tensor.byte_offset == 0);
  CHECK(view->tensor.dtype.code == 2 && view->tensor.dtype.bits == 32 && view->tensor.dtype.lanes == 1);
  CHECK(view->tensor.device.type == 1 && view->tensor.device.id == 0);
  CHECK(memcmp(view->tensor.data, copy, sizeof copy) == 0);
  push_and_step(engine, 1);
  CHECK(memcmp(view->tensor.data, copy, sizeof copy) != 0); /* a view, no copy */
  CHECK_OK(hws_tensor_get(engine, HWS_TENSOR_WEIGHT, "embedding.tokens.weight", copy, sizeof copy));
  CHECK_ERROR(hws_engine_use_average(engine, 2), HWS_INVALID_ARGUMENT, "on");
  CHECK_ERROR(hws_engine_use_average(engine, 1), HWS_FAILED_PRECONDITION, "/optimizer/average");
  hws_engine_destroy(engine);
  CHECK(memcmp(view->tensor.data, copy, sizeof copy) == 0);
  view->deleter(view);

  engine = tiny_engine(0);
  CHECK_ERROR(hws_tensor_view(engine, HWS_TENSOR_WEIGHT, "nonsense", &out), HWS_NOT_FOUND, "nonsense");
  CHECK(out == NULL);
  CHECK_ERROR(hws_engine_use_average(engine, 2), HWS_INVALID_ARGUMENT, "on");
  CHECK_ERROR(hws_engine_use_average(engine, 1), HWS_FAILED_PRECONDITION, "/optimizer/average");
  hws_engine_destroy(engine);
}

int main(void) {
  check_begin();
  names_of_both_kinds();
  gradients_until_commit();
  views_outlive_the_engine();
  return check_end();
}
