#include "tests/cuda_emulation/fake_cudnn.h"

#include <algorithm>
#include <cstring>

#include "kernels/cuda/cudnn/tensor_uid.h"

namespace hawser::cuda_emulation {
namespace {

struct Value {
  cudnnBackendAttributeType_t type;
  int64_t count;
  std::vector<char> bytes;
};

struct Descriptor {
  cudnnBackendDescriptorType_t type;
  std::map<int, Value> values;

  template <class T>
  std::vector<T> all(cudnnBackendAttributeName_t name) const {
    const auto found = values.find(name);
    if (found == values.end()) return {};
    std::vector<T> list(static_cast<size_t>(found->second.count));
    std::memcpy(list.data(), found->second.bytes.data(), list.size() * sizeof(T));
    return list;
  }
  template <class T>
  T one(cudnnBackendAttributeName_t name) const {
    const std::vector<T> list = all<T>(name);
    return list.empty() ? T{} : list.front();
  }
};

Descriptor* of(cudnnBackendDescriptor_t p) { return static_cast<Descriptor*>(p); }

size_t size_of(cudnnBackendAttributeType_t type) {
  switch (type) {
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_DOUBLE:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR:
    case CUDNN_TYPE_FRACTION:
      return 8;
    case CUDNN_TYPE_BOOLEAN:
    case CUDNN_TYPE_CHAR:
      return 1;
    default:
      return 4;
  }
}

cudnnStatus_t create(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t* out) {
  *out = new Descriptor{type, {}};
  ++fake_cudnn().descriptors;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t destroy(cudnnBackendDescriptor_t descriptor) {
  delete of(descriptor);
  --fake_cudnn().descriptors;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t set(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                  cudnnBackendAttributeType_t type, int64_t count, const void* elements) {
  const auto* const bytes = static_cast<const char*>(elements);
  of(descriptor)->values[name] = {type, count, {bytes, bytes + static_cast<size_t>(count) * size_of(type)}};
  return CUDNN_STATUS_SUCCESS;
}

/// Reads an attribute of the one engine configuration: its number, notes or workspace. No attribute holds
/// more elements than were set.
cudnnStatus_t get(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                  cudnnBackendAttributeType_t, int64_t requested, int64_t* count, void* elements) {
  int64_t unused = 0;
  int64_t& n = count != nullptr ? *count : unused;
  n = 0;
  if (name == CUDNN_ATTR_ENGINEHEUR_RESULTS) {
    const bool fits = fake_cudnn().tensors.at(kernels::cuda::cudnn::kQ).dims[0] <= fake_cudnn().most_rows;
    n = fake_cudnn().has_plans && fits ? 1 : 0;
  } else if (name == CUDNN_ATTR_ENGINECFG_SHARED_MEMORY_USED) {
    n = 1;
    std::memset(elements, 0, sizeof(int32_t));
  } else if (name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE ||
             name == CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE) {
    n = 1;
    const std::vector<int64_t>& q = fake_cudnn().tensors.at(kernels::cuda::cudnn::kQ).dims;
    const int64_t bytes = fake_cudnn().plan_bytes + fake_cudnn().head_bytes * q[0] * q[1];
    std::memcpy(elements, &bytes, sizeof(int64_t));
  } else if (const auto found = of(descriptor)->values.find(name); found != of(descriptor)->values.end()) {
    n = std::min(requested, found->second.count);
    std::memcpy(elements, found->second.bytes.data(), static_cast<size_t>(n) * size_of(found->second.type));
  }
  return CUDNN_STATUS_SUCCESS;
}

void note_tensor(const Descriptor& d) {
  FakeTensor t;
  t.dims = d.all<int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS);
  t.strides = d.all<int64_t>(CUDNN_ATTR_TENSOR_STRIDES);
  t.type = d.one<int>(CUDNN_ATTR_TENSOR_DATA_TYPE);
  t.is_virtual = d.one<char>(CUDNN_ATTR_TENSOR_IS_VIRTUAL) != 0;
  t.by_value = d.one<char>(CUDNN_ATTR_TENSOR_IS_BY_VALUE) != 0;
  if (auto* const offsets = d.one<Descriptor*>(CUDNN_ATTR_TENSOR_RAGGED_OFFSET_DESC))
    t.ragged_by = offsets->one<int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID);
  fake_cudnn().tensors[d.one<int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID)] = t;
}

cudnnStatus_t finalize(cudnnBackendDescriptor_t descriptor) {
  if (of(descriptor)->type == CUDNN_BACKEND_TENSOR_DESCRIPTOR) note_tensor(*of(descriptor));
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t execute(cudnnHandle_t, cudnnBackendDescriptor_t, cudnnBackendDescriptor_t pack) {
  FakeCudnn& record = fake_cudnn();
  ++record.runs;
  const auto ids = of(pack)->all<int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  const auto pointers = of(pack)->all<void*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  record.given.clear();
  for (size_t i = 0; i < ids.size(); ++i) record.given[ids[i]] = pointers[i];
  record.all_given.push_back(record.given);
  record.workspace = of(pack)->one<void*>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace

FakeCudnn& fake_cudnn() {
  static FakeCudnn record;
  return record;
}

const kernels::cuda::cudnn::Api& fake_cudnn_api() {
  static const kernels::cuda::cudnn::Api api = {
      .Create =
          [](cudnnHandle_t* handle) {
            *handle = reinterpret_cast<cudnnHandle_t>(&fake_cudnn());
            return CUDNN_STATUS_SUCCESS;
          },
      .Destroy = [](cudnnHandle_t) { return CUDNN_STATUS_SUCCESS; },
      .GetVersion = [] { return size_t{91900}; },
      .GetErrorString = [](cudnnStatus_t) { return "a status"; },
      .GetLastErrorString = [](char* message, size_t) { *message = '\0'; },
      .SetStream = [](cudnnHandle_t, cudaStream_t) { return CUDNN_STATUS_SUCCESS; },
      .GetStream = [](cudnnHandle_t, cudaStream_t*) { return CUDNN_STATUS_SUCCESS; },
      .BackendCreateDescriptor = create,
      .BackendDestroyDescriptor = destroy,
      .BackendSetAttribute = set,
      .BackendGetAttribute = get,
      .BackendFinalize = finalize,
      .BackendExecute = execute,
  };
  return api;
}

}  // namespace hawser::cuda_emulation

// The frontend's queries about the GPU; the linker redirects them to these functions.
extern "C" {
cudaError_t __wrap_cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
cudaError_t __wrap_cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  *properties = {};
  properties->major = hawser::cuda_emulation::fake_cudnn().devices_major;
  return cudaSuccess;
}
}
