// A CUDA stream of the emulator, for tests.
#pragma once

#include <gtest/gtest.h>

#include "kernels/cuda/cuda_stream.h"
#include "tests/cuda_emulation/emulation.h"

namespace hawser::cuda_emulation {

/// It has only two multiprocessors, so that grids are shorter than the work.
struct EmulatedStream : kernels::cuda::CudaStream {
  EmulatedStream() : CudaStream(nullptr, 2, &sticky) {}
  kernels::cuda::StickyError sticky;
};

/// Runs body(stream) with threads and blocks in this order. Findings of the stream or the emulator fail the
/// test.
template <class Body>
void run_in_order(Order order, const Body& body) {
  EmulatedStream stream;
  set_order(order);
  body(stream);
  set_order(Order::kAscending);
  EXPECT_EQ(stream.sticky.code, 0) << stream.sticky.message;
  for (const std::string& finding : take_findings()) ADD_FAILURE() << finding;
}

}  // namespace hawser::cuda_emulation
