// DLManagedTensorVersioned of DLPack 1.0. It is declared here because it is a binary layout, not a library,
// and the header that distributions ship may be older than 1.0. https://dmlc.github.io/dlpack
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/state/tensors.h"

namespace hawser::capi {

struct DlDevice {
  int32_t device_type;  ///< 1: CPU
  int32_t device_id;
};
struct DlDataType {
  uint8_t code;  ///< 2: floating point, 4: bfloat
  uint8_t bits;
  uint16_t lanes;
};
struct DlTensor {
  void* data;
  DlDevice device;
  int32_t ndim;
  DlDataType dtype;
  int64_t* shape;
  int64_t* strides;  ///< in elements
  uint64_t byte_offset;
};
struct DlPackVersion {
  uint32_t major, minor;
};
}  // namespace hawser::capi

struct DLManagedTensorVersioned {
  hawser::capi::DlPackVersion version;
  void* manager_ctx;
  void (*deleter)(DLManagedTensorVersioned* self);
  uint64_t flags;  ///< bit 0: read-only
  hawser::capi::DlTensor dl_tensor;
};

namespace hawser::capi {

inline constexpr uint64_t kDlReadOnly = 1;

static_assert(sizeof(void*) != 8 || (offsetof(DlTensor, device) == 8 && offsetof(DlTensor, ndim) == 16 &&
                                     offsetof(DlTensor, dtype) == 20 && offsetof(DlTensor, shape) == 24 &&
                                     offsetof(DlTensor, strides) == 32 &&
                                     offsetof(DlTensor, byte_offset) == 40 && sizeof(DlTensor) == 48));
static_assert(sizeof(void*) != 8 || (offsetof(DLManagedTensorVersioned, manager_ctx) == 8 &&
                                     offsetof(DLManagedTensorVersioned, deleter) == 16 &&
                                     offsetof(DLManagedTensorVersioned, flags) == 24 &&
                                     offsetof(DLManagedTensorVersioned, dl_tensor) == 32 &&
                                     sizeof(DLManagedTensorVersioned) == 80));

/// Makes a read-only view of f32 or bf16 elements, row-major. The view keeps their arena alive until its
/// deleter runs (once, on any thread).
DLManagedTensorVersioned* make_dlpack_view(train::TensorLocation location);

}  // namespace hawser::capi
