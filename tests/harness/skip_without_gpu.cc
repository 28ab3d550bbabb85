// Linked into programs of GPU tests: without a GPU it prints the reason and exits before the first test with
// status 77, which ctest reports as skipped.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "engine/base/error.h"
#include "engine/device/open_plugin.h"

namespace hawser::testing {
namespace {

class SkipWithoutGpu : public ::testing::EmptyTestEventListener {
  void OnTestProgramStart(const ::testing::UnitTest&) override {
    try {
      device::list_devices(device::open_cuda_plugin());
    } catch (const Error& error) {
      std::printf("skipped: %s\n", error.message().c_str());
      std::fflush(stdout);
      std::_Exit(77);
    }
  }
};

[[maybe_unused]] const bool kAdded = [] {
  ::testing::UnitTest::GetInstance()->listeners().Append(new SkipWithoutGpu);
  return true;
}();

}  // namespace
}  // namespace hawser::testing
