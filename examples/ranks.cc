// Trains one model on four ranks in one process. Each rank stores a quarter of its weights, gradients and
// moments (ZeRO-3). With another comm, the same config trains on one process or machine per rank, with
// bit-identical results.
//   c++ -std=c++20 examples/ranks.cc $(pkg-config --cflags --libs hawser) -o ranks && ./ranks BOOK.txt
#include <cstdio>
#include <exception>
#include <hawser.hpp>
#include <string>

void train(const std::string& text) {
  const hawser::Comm comm = hawser::Comm::local(4);  // use Comm::env() under mpirun, torchrun or srun
  hawser::Config config = hawser::Config::preset("quickstart");
  config.set("/data/path", text).set("/train/steps", "20").set("/schedule/warmup_steps", "5");
  config.set("/mesh", R"({"dp_shard": 4})").set("/zero/stage", "3");
  config.set("/batch", R"({"micro_batch": 2, "global_batch": 8})");

  hawser::Engine engine(config, comm);  // drives all ranks of this process
  for (const hawser::StepResult& step : engine.steps())
    std::printf("step %d: loss %.17g\n", static_cast<int>(step.step), step.loss);  // the global loss
}

int main(int argc, char** argv) {
  if (argc != 2) return std::fprintf(stderr, "usage: ranks TEXT\n"), 2;
  try {
    train(argv[1]);
  } catch (const std::exception& error) {
    return std::fprintf(stderr, "ranks: %s\n", error.what()), 1;
  }
}
