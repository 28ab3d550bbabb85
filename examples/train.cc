// Trains a small model from scratch on a text, continues a prompt with it, and exports it as a Hugging Face
// folder.
//   c++ -std=c++20 examples/train.cc $(pkg-config --cflags --libs hawser) -o train && ./train BOOK.txt MODEL
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <hawser.hpp>
#include <string>

void train(const std::string& text, const std::string& model) {
  hawser::Config config = hawser::Config::preset("quickstart");
  config.set("/data/path", text).set("/train", R"({"steps": 100, "eval_every": 50, "eval_batches": 4})");
  hawser::Engine engine(config);
  engine.train([](const hawser::TrainRecord& at) {
    if (at.step % 20 == 0) std::printf("step %d: loss %.3f\n", static_cast<int>(at.step), at.loss);
    if (at.validation_loss == at.validation_loss) std::printf("validation: loss %.3f\n", at.validation_loss);
  });

  const auto prompt = engine.encode("The ");
  hawser::GenerateRequest request;
  request.prompt = prompt;
  request.max_tokens = 60;
  request.temperature = 0.8;
  std::printf("The %s\n", engine.decode(engine.generate(request)).c_str());
  engine.export_to(model, "bf16");
}

int main(int argc, char** argv) {
  if (argc != 3) return std::fprintf(stderr, "usage: train TEXT MODEL\n"), 2;
  if (std::filesystem::exists(argv[2]))
    return std::fprintf(stderr, "train: %s exists; give a new folder\n", argv[2]), 2;
  try {
    train(argv[1], argv[2]);
  } catch (const std::exception& error) {
    return std::fprintf(stderr, "train: %s\n", error.what()), 1;
  }
}
