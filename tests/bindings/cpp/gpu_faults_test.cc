// Tests that C++ throws the errors of a machine whose driver, GPU, libraries or memory do not suffice.
// HAWSER_GPU_FAULT names the file that chooses the fault (tests/cuda_emulation/gpu_faults.cc).
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/bindings/cpp/tiny.h"

namespace gpu_faults_test {

using nlohmann::json;

/// Creates an engine; returns the class and the message of the exception.
std::pair<std::string, std::string> thrown_by(const hawser::Config& config) {
  try {
    const hawser::Engine engine(config);
  } catch (const hawser::DeviceUnavailable& error) {
    return {"DeviceUnavailable", error.what()};
  } catch (const hawser::OutOfMemory& error) {
    return {"OutOfMemory", error.what()};
  }
  return {"nothing", ""};
}

TEST(CppGpuFaults, EachHasItsClassAndItsMessage) {
  std::ifstream file(HAWSER_GPU_FAULTS);
  const json table = json::parse(file);
  ASSERT_FALSE(table.at("faults").empty());
  const hawser::Config config = hawser::Config::parse(table.at("config").dump());
  for (const json& row : table.at("faults")) {
    std::ofstream(std::getenv("HAWSER_GPU_FAULT")) << row.at("fault").get<std::string>();
    const auto [thrown, message] = thrown_by(config);
    EXPECT_EQ(thrown, row.at("error")) << row.at("fault") << ": " << message;
    for (const std::string part : row.at("says"))
      EXPECT_NE(message.find(part), std::string::npos) << part << " is not in: " << message;
  }
}

}  // namespace gpu_faults_test
