// Tests that engines, their callbacks and failing calls leak no memory. The test does not run with a
// sanitizer, whose allocator keeps freed memory; the sanitizer has its own check for leaks.
#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "tests/bindings/cpp/tiny.h"

namespace lifetime_test {

using hawser::Engine;

long resident_kib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.rfind("VmRSS:", 0) == 0) return std::stol(line.substr(6));
  return 0;
}

TEST(CppHandles, EnginesLeaveNothingBehind) {
  const auto use_one = [](std::uint32_t number) {
    Engine engine(tiny::config());
    engine.set_metrics([data = std::vector<char>(1 << 16)](std::string_view) { static_cast<void>(data); });
    engine.push(tiny::Tokens(number).batch());
    engine.train_step();
    static_cast<void>(engine.view("final_norm.weight").size());
    EXPECT_THROW(engine.load(std::string(100 << 10, 'x')), hawser::Error);
  };
  for (std::uint32_t i = 0; i < 50; ++i) use_one(i);
  const long before = resident_kib();
  for (std::uint32_t i = 0; i < 200; ++i) use_one(i);
  const long grown = resident_kib() - before;
  RecordProperty("grown_kib", std::to_string(grown));
  EXPECT_LT(grown, 1024);
}

}  // namespace lifetime_test
