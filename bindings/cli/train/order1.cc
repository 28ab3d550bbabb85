// Fits and measures the order-1 model.
#include "bindings/cli/train/order1.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <vector>

#include "bindings/cli/client.h"
#include "bindings/cli/load_config.h"
#include "bindings/cli/text/text_stream.h"

namespace hawser::cli {
namespace {

constexpr uintmax_t kLargestFile = uintmax_t{256} << 20;
constexpr int32_t kLargestVocabulary = 4096;

double cross_entropy(const int32_t* tokens, int64_t train, int64_t all) {
  const int64_t vocabulary = *std::max_element(tokens, tokens + all) + int64_t{1};
  if (vocabulary > kLargestVocabulary) return std::nan("");
  std::vector<double> pairs(static_cast<size_t>(vocabulary * vocabulary), 0.0);
  std::vector<double> follows(static_cast<size_t>(vocabulary), 0.0);  // count(a) as the first of a pair
  std::vector<double> share(static_cast<size_t>(vocabulary), 1.0);
  for (int64_t t = 0; t < train; ++t) share[static_cast<size_t>(tokens[t])] += 1.0;
  for (double& p : share) p /= static_cast<double>(train + vocabulary);
  for (int64_t t = 0; t + 1 < train; ++t) {
    pairs[static_cast<size_t>(tokens[t] * vocabulary + tokens[t + 1])] += 1.0;
    follows[static_cast<size_t>(tokens[t])] += 1.0;
  }
  double sum = 0.0;
  for (int64_t t = train; t + 1 < all; ++t) {
    const auto a = static_cast<size_t>(tokens[t]), b = static_cast<size_t>(tokens[t + 1]);
    sum -= std::log((pairs[a * static_cast<size_t>(vocabulary) + b] + share[b]) / (follows[a] + 1.0));
  }
  return sum / static_cast<double>(all - train - 1);
}

}  // namespace

double order1_validation_loss(const hws_engine* engine, const std::string& text_file,
                              double validation_fraction) {
  std::error_code error;
  if (std::filesystem::file_size(text_file, error) > kLargestFile || error) return std::nan("");
  if (has_tokenizer(engine)) return std::nan("");  // its tokens would make too many pairs to count
  const std::string text = read_file(text_file);
  hws_buffer* raw = nullptr;
  if (hws_text_encode(engine, text.data(), text.size(), &raw) != HWS_OK) return std::nan("");
  const Buffer buffer(raw);
  const auto all = static_cast<int64_t>(hws_buffer_size(buffer.get()) / sizeof(int32_t));
  const auto train = static_cast<int64_t>(std::floor(static_cast<double>(all) * (1.0 - validation_fraction)));
  if (train < 2 || train + 2 > all) return std::nan("");
  return cross_entropy(static_cast<const int32_t*>(hws_buffer_data(buffer.get())), train, all);
}

}  // namespace hawser::cli
