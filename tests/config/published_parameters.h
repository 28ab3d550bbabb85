// Published parameters: the number of parameters that the authors of each preset's model state.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace hawser::testing {

inline const std::map<std::string, int64_t>& published_parameters() {
  static const std::map<std::string, int64_t> counts = {
      {"gpt2-124m", 124439808},       {"gpt2-350m", 354823168},       {"gpt2-774m", 774030080},
      {"gpt2-1558m", 1557611200},     {"llama-2-7b", 6738415616},     {"llama-3.2-1b", 1235814400},
      {"llama-3.1-8b", 8030261248},   {"llama-3.1-70b", 70553706496}, {"llama-3.1-405b", 405853388800},
      {"mistral-7b", 7241732096},     {"qwen2.5-0.5b", 494032768},    {"qwen2.5-1.5b", 1543714304},
      {"qwen2.5-7b", 7615616512},     {"qwen3-0.6b", 596049920},      {"qwen3-8b", 8190735360},
      {"gemma-2-2b", 2614341888},     {"mixtral-8x7b", 46702792704},  {"qwen1.5-moe-a2.7b", 14315784192},
      {"qwen3-30b-a3b", 30532122624}, {"gemma-3-1b", 999885952},      {"deepseek-v3-671b", 671026419200},
      {"glm-4.5-air", 106852251264},  {"gpt-oss-20b", 20914757184},   {"gpt-oss-120b", 116829156672},
  };
  return counts;
}

}  // namespace hawser::testing
