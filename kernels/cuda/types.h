// Dispatches a DType that is known at run time to a kernel compiled for it.
#pragma once

#include "kernels/cuda/packed.h"

namespace hawser::kernels::cuda {

template <class T>
struct Type {
  using type = T;
};
template <class Tag>
using type_of = typename Tag::type;

/// Calls body(Type<float>) or body(Type<bf16>), for contracts that allow no other type.
template <class Body>
void for_type(DType type, const Body& body) {
  if (type == DType::kBf16) {
    body(Type<bf16>{});
  } else {
    body(Type<float>{});
  }
}

/// Like for_type, and also calls body(Type<half>).
template <class Body>
void for_type_or_half(DType type, const Body& body) {
  if (type == DType::kF16) {
    body(Type<f16>{});
  } else {
    for_type(type, body);
  }
}

}  // namespace hawser::kernels::cuda
