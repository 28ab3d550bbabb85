// CommandTest: a fixture that runs `hawser` in a new folder for each test, with a small text and a small
// config, and returns exit code and output.
#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace hawser::cli_test {

namespace fs = std::filesystem;

struct CommandResult {
  int exit_code = -1;
  std::string out, err;
};

inline std::string read_text(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

inline void write_text(const fs::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

/// Returns the rows of metrics.jsonl without values that depend on the clock.
inline std::vector<nlohmann::json> metric_rows(const fs::path& run) {
  std::vector<nlohmann::json> rows;
  for (const std::string& line : lines_of(read_text(run / "metrics.jsonl"))) {
    rows.push_back(nlohmann::json::parse(line));
    rows.back().erase("seconds");
    rows.back().erase("tokens_per_second");
  }
  return rows;
}

/// Returns the bytes of all tensor files of a checkpoint, by name.
inline std::map<std::string, std::string> tensor_files(const fs::path& checkpoint) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::directory_iterator(checkpoint)) {
    if (entry.path().extension() == ".safetensors") files[entry.path().filename()] = read_text(entry.path());
  }
  return files;
}

/// Returns a port on which no process listens, for processes that must know it in advance. It is below the
/// ports that the system assigns to connections, because a connection may take one of those at any moment.
inline std::string free_port() {
  for (int tried = 0; tried < 10000; ++tried) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    const int port = 10000 + (getpid() + tried) % 10000;
    address.sin_port = htons(static_cast<uint16_t>(port));
    const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const bool free = bind(socket, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
    close(socket);
    if (free) return std::to_string(port);
  }
  return "no free port";
}

class CommandTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "hawser-cli-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    std::string text;  // words in an order that a small model can partly learn
    uint32_t state = 1;
    const char* words[] = {"the ", "rope ", "pulls ", "a ", "ship ", "along ", "the quay\n", "and back. "};
    while (text.size() < 12000) {
      state = state * 1664525u + 1013904223u;
      text += words[state >> 29];
    }
    write_text(path("text.txt"), text);
    write_text(path("config.json"), config().dump(2));
  }
  void TearDown() override { fs::remove_all(folder_); }

  /// Returns a config of a model that takes milliseconds per step and has GPT-2's form, so that it can be
  /// exported.
  static nlohmann::json config() {
    return nlohmann::json::parse(R"({
      "seed": 3,
      "model": {"context": 32, "layers": 1, "width": 32, "heads": 2, "mlp": "gelu_tanh"},
      "data": {"format": "text", "vocabulary": "bytes"},
      "batch": {"micro_batch": 4},
      "optimizer": {"learning_rate": 0.003},
      "schedule": {"decay_steps": 20, "warmup_steps": 2},
      "train": {"steps": 20, "eval_every": 5, "eval_batches": 2, "log_every": 5},
      "checkpoint": {"every": 10}
    })");
  }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  /// Runs `hawser` with these arguments, as a shell reads them, in the test's folder.
  /// The Hub's cache is the folder "hub" there, because no test may depend on the models of its user.
  CommandResult run(const std::string& arguments) const {
    const std::string command = "cd '" + folder_.string() + "' && HF_HUB_CACHE='" + path("hub") +
                                "' " HAWSER_COMMAND " " + arguments + " >'" + path("stdout") + "' 2>'" +
                                path("stderr") + "' </dev/null";
    CommandResult result;
    const int status = std::system(command.c_str());
    result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    result.out = read_text(path("stdout"));
    result.err = read_text(path("stderr"));
    return result;
  }

  /// Like run, but expects success.
  CommandResult succeed(const std::string& arguments) const {
    CommandResult result = run(arguments);
    EXPECT_EQ(result.exit_code, 0) << arguments << "\n" << result.err;
    return result;
  }

  /// Like run, but expects a refusal as wrong input with a message that contains all of `parts`.
  CommandResult refused(const std::string& arguments, const std::vector<std::string>& parts) const {
    CommandResult result = run(arguments);
    EXPECT_EQ(result.exit_code, 2) << arguments << "\n" << result.out << result.err;
    EXPECT_TRUE(result.err.starts_with("hawser: error: ")) << result.err;
    for (const std::string& part : parts) {
      EXPECT_NE(result.err.find(part), std::string::npos) << "no \"" << part << "\" in: " << result.err;
    }
    return result;
  }

  /// Starts `hawser` in the background and discards its output.
  pid_t start(const std::vector<std::string>& arguments) const {
    const pid_t child = fork();
    if (child != 0) return child;
    if (chdir(folder_.c_str()) != 0 || freopen("/dev/null", "w", stdout) == nullptr) _exit(99);
    std::vector<char*> words = {const_cast<char*>("hawser")};
    for (const std::string& argument : arguments) words.push_back(const_cast<char*>(argument.c_str()));
    words.push_back(nullptr);
    execv(HAWSER_COMMAND, words.data());
    _exit(99);
  }

  /// Waits until the run's metrics have `rows` rows.
  void wait_for_rows(const std::string& run, size_t rows) const {
    for (int i = 0; i < 3000 && lines_of(read_text(folder_ / run / "metrics.jsonl")).size() < rows; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }

  static int exit_code_of(pid_t child) {
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

  /// Starts `hawser`, sends it `signal` once its metrics have `rows` rows, and returns its exit code.
  int run_and_signal(const std::vector<std::string>& arguments, const std::string& run, size_t rows,
                     int signal) const {
    const pid_t child = start(arguments);
    wait_for_rows(run, rows);
    kill(child, signal);
    return exit_code_of(child);
  }

  fs::path folder_;
};

}  // namespace hawser::cli_test
