// Tests of ranks that are started as processes with different configs. Each rank reports the differing field
// at once.
#include "tests/cli/run_command.h"

namespace hawser::cli_test {
namespace different_configs_test {

class DifferentConfigs : public CommandTest {
 protected:
  /// Returns the command of one of two ranks. Its errors go to the file "err0" or "err1".
  static std::string rank(int number, const std::string& meeting, const std::string& setting) {
    const std::string n = std::to_string(number);
    return "(" HAWSER_COMMAND " train config.json --out run --comm 127.0.0.1:" + meeting + " --rank " + n +
           " --world 2 --trust-network --set /mesh/dp_shard=2 " + setting + " >/dev/null 2>err" + n + ")";
  }
};

TEST_F(DifferentConfigs, EndAllRanksWithTheFieldThatDiffers) {
  write_text(path("other.txt"), read_text(path("text.txt")) + "more");
  for (const auto& [setting, field] :
       {std::pair{"--set /optimizer/learning_rate=0.5", "/optimizer/learning_rate"},
        {"--set /telemetry/samples=[{\\\"text\\\":\\\"a\\\"}]", "/telemetry/samples"},
        {"--data other.txt", "/data/"}}) {
    const std::string meeting = free_port(), data = "--data text.txt ";
    const auto begun = std::chrono::steady_clock::now();
    const std::string command = "cd '" + folder_.string() + "' && " + rank(0, meeting, data) + " & cd '" +
                                folder_.string() + "' && " +
                                rank(1, meeting, setting[2] == 's' ? data + setting : setting) + "; wait";
    EXPECT_EQ(std::system(command.c_str()), 0);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
    EXPECT_LT(took.count(), 30) << "a rank waited for the other until the deadline";
    for (const char* file : {"err0", "err1"}) {
      const std::string said = read_text(path(file));
      const std::string words = std::string("the ranks were given different configs: ") + field;
      EXPECT_NE(said.find(words), std::string::npos) << setting << ", " << file << ": " << said;
    }
  }
}

}  // namespace different_configs_test
}  // namespace hawser::cli_test
