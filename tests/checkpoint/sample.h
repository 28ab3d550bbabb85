// Sample: a small checkpoint with tensors of several types and ranks, one of them empty, and every kind of
// description.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/checkpoint/checkpoint.h"

namespace hawser::checkpoint {

struct Sample {
  std::vector<float> weight = std::vector<float>(35);
  std::vector<uint16_t> half = {1, 2, 3};
  int64_t count = 42;
  Description description;
  std::vector<TensorView> tensors;

  explicit Sample(int64_t step = 7) {
    for (size_t i = 0; i < weight.size(); ++i) weight[i] = static_cast<float>(i) * 0.25f;
    description.step = step;
    description.state_json = R"({"cursor": 18446744073709551615, "loss": 0.1, "list": [1, 2]})";
    description.config_json = R"({"model": {"width": 8}})";
    description.vocabulary_json = R"({"characters": "a\u00e4"})";
    description.model_json = R"({"width": 8})";
    description.extra_files = {{"config.json", "{\"a\": 1}\n"},
                               {"tokenizer.json", std::string("\0\xff binary", 9)}};
    tensors = {{"weight", DType::kF32, {5, 7}, weight.data()},
               {"half", DType::kBf16, {3}, half.data()},
               {"none", DType::kF32, {0}, nullptr},
               {"count", DType::kI64, {}, &count}};
  }
  Sample(const Sample&) = delete;  // because the views point into it
};

}  // namespace hawser::checkpoint
