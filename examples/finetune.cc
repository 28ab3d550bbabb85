// Fine-tunes a Hugging Face folder on pairs of prompt and answer, and writes it back as a Hugging Face
// folder.
//   c++ -std=c++20 examples/finetune.cc $(pkg-config --cflags --libs hawser) -o finetune
//   ./finetune MODEL PAIRS OUT
// PAIRS contains token ids of the model's own tokenizer, one pair per line: "15 496 11 | 318 13". The loss
// covers only the answers; the positions of the prompts are masked. Training can resume from OUT/checkpoint
// bit for bit (Engine::load). Transformers can load OUT/model.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <hawser.hpp>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

struct Pair {
  std::vector<int32_t> tokens;  // prompt and answer
  size_t prompt = 0;            // number of tokens in the prompt
};

Pair parse_pair(const std::string& line) {
  Pair pair;
  std::istringstream words(line);
  for (std::string word; words >> word;) {
    size_t digits = word.size();
    if (word == "|")
      pair.prompt = pair.tokens.size();
    else
      pair.tokens.push_back(std::stoi(word, &digits));
    if (digits != word.size()) throw std::invalid_argument(word);
  }
  if (pair.prompt == 0 || pair.prompt == pair.tokens.size()) throw std::invalid_argument(line);
  return pair;
}

std::vector<Pair> read_pairs(const std::string& path) {
  std::ifstream file(path);
  std::vector<Pair> pairs;
  for (std::string line; std::getline(file, line);) {
    try {
      pairs.push_back(parse_pair(line));
    } catch (const std::exception&) {
      throw std::runtime_error(path + ": \"" + line + "\" is not of the form: ids | ids");
    }
  }
  if (pairs.empty()) throw std::runtime_error(path + " holds no pairs");
  return pairs;
}

// Writes one row. Position t sees tokens[0..t] and predicts tokens[t + 1]. Targets of -100 are masked.
void write_row(const Pair& pair, int32_t* tokens, int32_t* targets, int64_t sequence) {
  std::fill_n(tokens, sequence, 0);
  std::fill_n(targets, sequence, -100);
  std::copy(pair.tokens.begin(), pair.tokens.end(), tokens);
  for (size_t t = pair.prompt - 1; t + 1 < pair.tokens.size(); ++t) targets[t] = pair.tokens[t + 1];
}

void finetune(const std::string& model, const std::vector<Pair>& pairs, const std::string& out) {
  size_t longest = 0;
  for (const Pair& pair : pairs) longest = std::max(longest, pair.tokens.size());

  hawser::Config config = hawser::Config::from_model(model);  // sets model and weights
  config.set("/batch/sequence", std::to_string(longest))
      .set("/batch/micro_batch", "4")
      .set("/batch/grad_accum_steps", "2")
      .set("/optimizer/learning_rate", "0.001")
      .set("/schedule", R"({"kind": "linear", "warmup_steps": 5})")
      .set("/train/steps", "60");
  hawser::Engine engine(config);

  const hawser::Sizes sizes = engine.sizes();
  const int64_t rows = sizes.global_batch, cols = sizes.sequence;
  std::vector<int32_t> tokens(rows * cols), targets(rows * cols);
  for (hawser::StepResult step = {}; step.step < 60;) {
    for (int64_t row = 0; row < rows; ++row)
      write_row(pairs[(step.step * rows + row) % pairs.size()], &tokens[row * cols], &targets[row * cols],
                cols);
    engine.push({rows, cols, tokens, targets, {}});
    step = engine.train_step();
    if (step.step % 10 == 1 || step.step == 60)
      std::printf("step %2d: loss %.4f over %d answer tokens, learning rate %.1e\n",
                  static_cast<int>(step.step), step.loss, static_cast<int>(step.tokens), step.learning_rate);
  }
  std::filesystem::create_directories(out);
  engine.save(out + "/checkpoint");
  engine.export_to(out + "/model");
}

int main(int argc, char** argv) {
  try {
    if (argc != 4) throw std::runtime_error("usage: finetune MODEL PAIRS OUT");
    if (std::filesystem::exists(argv[3]))
      throw std::runtime_error(std::string(argv[3]) + " exists; give a new folder");
    finetune(argv[1], read_pairs(argv[2]), argv[3]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "finetune: %s\n", error.what());
    return 1;
  }
}
