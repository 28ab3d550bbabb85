// Far runs: runs problems on far devices (tests/harness/far_device), and lets a test control their plugin.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include "tests/harness/far_device/far_control.h"
#include "tests/harness/layout_run.h"
#include "tests/harness/reference_run.h"

namespace hawser::testing {

/// Returns the problem on far devices, whose transfers go through host memory or, with "nccl", from device to
/// device.
inline Problem far(Problem problem, const char* transport = "host") {
  problem.device = "cuda", problem.device_transport = transport;
  return problem;
}

/// Returns the plugin's control.
inline FarControl& control() {
  static FarControl* const control = [] {
    void* const plugin = dlopen(HAWSER_FAR_PLUGIN, RTLD_NOW | RTLD_LOCAL);
    return reinterpret_cast<FarControl* (*)()>(dlsym(plugin, "hawser_far_control"))();
  }();
  return *control;
}

/// Expects bit-identical results after three steps, in all values of a record. Links between devices access
/// only memory that they have registered.
inline void expect_far_like_cpu(const Problem& problem, const Layout& layout,
                                const char* transport = "host") {
  EXPECT_EQ(
      first_difference(reference_run(problem, layout, 3), run_layout(far(problem, transport), layout, 3)), "")
      << layout.name();
  EXPECT_EQ(control().registered, 0);
  EXPECT_EQ(control().outside_registered, 0) << layout.name();
}

}  // namespace hawser::testing
