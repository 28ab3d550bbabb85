// Tests checkpoints that cannot be read at present, which do not count as damaged: the command reports the
// error and leaves the run unchanged, so that the same command works once the checkpoint can be read.
#include <cerrno>

#include "tests/cli/run_command.h"

namespace hawser::cli_test {
namespace unreadable_test {

class Unreadable : public CommandTest {
 protected:
  void SetUp() override {
    CommandTest::SetUp();
    succeed("train config.json --data text.txt --out run");
  }

  /// Returns every file of the run with its bytes.
  std::map<std::string, std::string> contents() const {
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::recursive_directory_iterator(path("run")))
      files[entry.path().string()] = entry.is_regular_file() ? read_text(entry.path()) : "";
    return files;
  }

  /// Runs `hawser` so that opening files of `folder` fails with `error`, `times` times.
  CommandResult run_refusing(const std::string& folder, int error, int times,
                             const std::string& arguments) const {
    const std::pair<const char*, std::string> variables[] = {{"LD_PRELOAD", HAWSER_REFUSING_FILES},
                                                             {"HAWSER_REFUSED", folder},
                                                             {"HAWSER_REFUSAL", std::to_string(error)},
                                                             {"HAWSER_REFUSALS", std::to_string(times)}};
    for (const auto& [name, value] : variables) setenv(name, value.c_str(), 1);
    CommandResult result = run(arguments);
    for (const auto& [name, value] : variables) unsetenv(name);
    return result;
  }

  void expect_left_alone(const CommandResult& result, const std::string& word) const {
    EXPECT_NE(result.exit_code, 0) << result.out;
    EXPECT_NE(result.err.find(word), std::string::npos) << result.err;
    EXPECT_EQ(contents(), before_) << result.err;
  }
  void remember() { before_ = contents(); }

  std::map<std::string, std::string> before_;
};

constexpr const char* kNewest = "checkpoints/step-20";

TEST_F(Unreadable, OneErrorIsNoDamage) {
  remember();
  for (const int error : {EIO, EMFILE, EACCES, ENFILE}) {
    for (const char* command : {"train --resume run", "train --resume run --set /train/steps=30"})
      expect_left_alone(run_refusing(kNewest, error, 1, command), kNewest);
  }
  const CommandResult result = succeed("train --resume run --set /train/steps=22");
  EXPECT_NE(result.out.find("step-20"), std::string::npos) << result.out;
}

TEST_F(Unreadable, AnElasticRunDoesNotBeginAnew) {
  remember();
  for (const int times : {1, 3, 100})
    expect_left_alone(run_refusing("", EIO, times, "train --elastic config.json --data text.txt --out run"),
                      "checkpoints");
}

TEST_F(Unreadable, ANewerVersionIsNoDamage) {
  write_text(path("run/checkpoints/step-20/manifest.json"),
             R"({"format": "hawser-checkpoint", "version": 5})");
  remember();
  expect_left_alone(run("train --resume run --set /train/steps=30"), "has version 5");
}

TEST_F(Unreadable, WhereAllAreDamagedNothingIsBegunAnew) {
  for (const char* name : {"step-10", "step-20", "best"})
    write_text(path("run/checkpoints/" + std::string(name) + "/manifest.json"), "{");
  remember();
  for (const char* command : {"train --resume run", "train --elastic config.json --data text.txt --out run"})
    expect_left_alone(run(command), "no intact checkpoint");
}

}  // namespace unreadable_test
}  // namespace hawser::cli_test
