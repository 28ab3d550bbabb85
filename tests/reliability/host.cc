// See host.h.
#include "tests/reliability/host.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>

namespace hawser::testing {

namespace fs = std::filesystem;

uint64_t seed() {
  static const uint64_t value = [] {
    const char* given = std::getenv("HAWSER_SEED");
    const uint64_t s = given ? std::strtoull(given, nullptr, 10) : std::random_device()();
    std::printf("HAWSER_SEED=%llu\n", static_cast<unsigned long long>(s));
    return s;
  }();
  return value;
}

void require(int32_t status, const char* what) {
  if (status == HWS_OK) return;
  hws_error* error = nullptr;
  hws_error_take(&error);
  ADD_FAILURE() << what << ": " << hws_status_name(status) << ": " << hws_error_message(error);
  hws_error_destroy(error);
}

Host::Host(int32_t ranks_, int layers, const std::string& more) : ranks(ranks_) {
  std::string name = (fs::temp_directory_path() / "hawser-fail-XXXXXX").string();
  folder = mkdtemp(name.data());
  std::ofstream text(path("text.txt"));
  for (int i = 0; i < 300; ++i) text << "line " << i % 10 << " of a text that is easy to learn\n";
  text.close();
  json = "{" + more + R"("seed": 3, "cpu": {"threads": )" + std::to_string(ranks + 1) + R"(},
      "model": {"vocab_size": 256, "context": 8, "layers": )" +
         std::to_string(layers) + R"(, "width": 16, "heads": 2, "mlp": "gelu_tanh",
                "norm": "layer_norm", "position": "learned", "tied_head": true},
      "data": {"format": "text", "vocabulary": "bytes", "path": ")" +
         path("text.txt") + R"("},
      "batch": {"micro_batch": 1, "global_batch": 2, "sequence": 8},
      "mesh": {"dp_shard": )" +
         std::to_string(ranks) + R"(}, "zero": {"stage": )" + std::to_string(ranks > 1 ? 3 : 0) + R"(},
      "optimizer": {"learning_rate": 0.01}, "train": {"steps": 1000000}, "comm": {"timeout_seconds": 20}})";
  EXPECT_NE(hws_config_preset("none", &config), HWS_OK);  // the first error creates what is created once
  hws_error* error = nullptr;
  require(hws_error_take(&error), "take");
  hws_error_destroy(error);
  require(parse(), "parse");
  if (ranks > 1) require(hws_comm_create_local(ranks, &comm), "comm");
}

Host::~Host() {
  hws_engine_destroy(engine);
  hws_comm_destroy(comm);
  hws_config_destroy(config);
  fs::remove_all(folder);
}

}  // namespace hawser::testing
