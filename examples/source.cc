// Trains on data that the program generates: sums such as "17+25=42". The loss covers only the digits after
// "=". The source returns each batch by its position, so training resumes where it stopped. A bar shows the
// progress.
//   c++ -std=c++20 examples/source.cc $(pkg-config --cflags --libs hawser) -o source && ./source CHECKPOINTS
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <hawser.hpp>
#include <string>

constexpr const char* kConfig = R"({
    "model": {"vocab_size": 128, "context": 8, "layers": 2, "width": 64, "heads": 4},
    "batch": {"micro_batch": 32},
    "optimizer": {"learning_rate": 0.003},
    "schedule": {"kind": "cosine", "warmup_steps": 20},
    "train": {"steps": 400}})";

// Returns the text of a sample, which depends only on the sample's number.
std::string sum_of(std::int64_t sample) {
  const std::uint64_t random = (static_cast<std::uint64_t>(sample) + 1) * 0x9E3779B97F4A7C15u;
  const int a = static_cast<int>(random >> 32) & 31, b = static_cast<int>(random >> 48) & 31;
  return std::to_string(a) + "+" + std::to_string(b) + "=" + std::to_string(a + b) + ";";
}

// Fills a batch. Tokens are characters, and only the tokens of the answer are targets.
bool fill(hawser::SourceBatch& batch) {
  for (std::int64_t row = 0; row < batch.rows; ++row) {
    const std::string text = sum_of(batch.samples + row);
    const std::int64_t answer = static_cast<std::int64_t>(text.find('=')) + 1;
    const std::int64_t begin = row * batch.cols;
    const auto length = static_cast<std::int64_t>(text.size());
    for (std::int64_t t = 0; t + 1 < length && t < batch.cols; ++t) {
      batch.tokens[begin + t] = text[static_cast<std::size_t>(t)];
      if (t + 1 >= answer) batch.targets[begin + t] = text[static_cast<std::size_t>(t) + 1];
    }
  }
  return true;  // the source never ends
}

void show_bar(const hawser::TrainRecord& at) {
  constexpr int kWidth = 40;
  const int done = static_cast<int>(kWidth * at.step / at.total_steps);
  std::fprintf(stderr, "\r[%s%s] %d/%d  loss %.4f ", std::string(done, '=').c_str(),
               std::string(kWidth - done, ' ').c_str(), static_cast<int>(at.step),
               static_cast<int>(at.total_steps), at.loss);
  if (at.step == at.total_steps) std::fputc('\n', stderr);
}

void train(const std::string& checkpoints) {
  hawser::Config config = hawser::Config::parse(kConfig);
  config.set("/checkpoint/path", checkpoints).set("/checkpoint/every", "100");
  hawser::Engine engine(config);
  try {
    engine.load_latest(checkpoints);
    std::printf("goes on after step %d\n", static_cast<int>(engine.progress().step));
  } catch (const hawser::NotFound&) {  // there is no checkpoint at the first start
  }
  engine.set_source(fill);
  engine.train(show_bar);
  std::printf("loss %.4f\n", engine.progress().loss);
}

int main(int argc, char** argv) {
  if (argc != 2) return std::fprintf(stderr, "usage: source CHECKPOINTS\n"), 2;
  try {
    train(argv[1]);
  } catch (const std::exception& error) {
    return std::fprintf(stderr, "source: %s\n", error.what()), 1;
  }
}
