#include "capi/src/dlpack.h"

#include <memory>
#include <utility>
#include <vector>

namespace hawser::capi {
namespace {

/// All memory that the consumer's pointer refers to, freed together.
struct View {
  DLManagedTensorVersioned managed = {};
  train::TensorLocation location;
  std::vector<int64_t> strides;
};

void destroy_view(DLManagedTensorVersioned* self) {
  if (self != nullptr) delete static_cast<View*>(self->manager_ctx);
}

}  // namespace

DLManagedTensorVersioned* make_dlpack_view(train::TensorLocation location) {
  auto view = std::make_unique<View>();
  view->location = std::move(location);
  std::vector<int64_t>& shape = view->location.shape;
  view->strides.resize(shape.size());
  int64_t stride = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    view->strides[i] = stride;
    stride *= shape[i];
  }
  DLManagedTensorVersioned& managed = view->managed;
  managed.version = {1, 0};
  managed.manager_ctx = view.get();
  managed.deleter = destroy_view;
  managed.flags = kDlReadOnly;
  managed.dl_tensor.data = const_cast<void*>(view->location.data);
  managed.dl_tensor.device = {1, 0};
  managed.dl_tensor.ndim = static_cast<int32_t>(shape.size());
  const bool narrow = view->location.type == DType::kBf16;
  managed.dl_tensor.dtype = narrow ? DlDataType{4, 16, 1} : DlDataType{2, 32, 1};
  managed.dl_tensor.shape = shape.data();
  managed.dl_tensor.strides = view->strides.data();
  managed.dl_tensor.byte_offset = 0;
  return &view.release()->managed;
}

}  // namespace hawser::capi
