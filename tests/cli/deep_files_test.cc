// Tests of files, nested 100,000 levels deep, that the command itself parses as JSON. They are an error, or a
// line that counts as damaged, and never overflow the stack.
#include "tests/cli/run_command.h"

namespace hawser::cli_test {
namespace deep_files_test {

class DeepFiles : public CommandTest {
 protected:
  static std::string deep(const std::string& open, const std::string& close) {
    std::string text;
    for (int i = 0; i < 100000; ++i) text += open;
    text += "1";
    for (int i = 0; i < 100000; ++i) text += close;
    return text;
  }
  static std::vector<std::string> shapes() { return {deep("[", "]"), deep("{\"a\":", "}")}; }

  void expect_error(const std::string& arguments, const std::string& part) const {
    const CommandResult result = run(arguments);
    EXPECT_TRUE(result.exit_code == 1 || result.exit_code == 2) << arguments << ": " << result.exit_code;
    EXPECT_NE(result.err.find(part), std::string::npos) << result.err;
  }
};

TEST_F(DeepFiles, AreRefusedByName) {
  succeed("train config.json --data text.txt --set /train/steps=2 --out run");
  for (const std::string& value : shapes()) {
    write_text(path("q.jsonl"), "{\"query\": \"a\", \"choices\": " + value + ", \"gold\": 0}\n");
    expect_error("eval run --choices q.jsonl", "q.jsonl:1: values are nested in more than");
    write_text(path("q.jsonl"), value + "\n");
    expect_error("eval run --choices q.jsonl", "q.jsonl:1: values are nested in more than");
    write_text(path("flight-rank-0.json"), "{\"ranks\": " + value + "}");
    expect_error("flight flight-rank-0.json", "is not a flight record");
    write_text(path("deep.json"), "{\"model\": " + value + "}");
    for (const char* command : {"plan", "explain", "prove", "train"})
      expect_error(std::string(command) + " deep.json", "deep.json");
    expect_error("plan config.json --set '/model=" + value.substr(0, 60000) + "'", "/model");
    fs::create_directories(path("rows"));
    write_text(path("rows/prepared.json"), "{\"hawser\": " + value + "}");
    expect_error("train config.json --data rows", "prepared.json");
  }
}

TEST_F(DeepFiles, OfARunAreDamagedLinesAndNoMore) {
  succeed("train config.json --data text.txt --out run");
  for (const std::string& value : shapes()) {
    const std::string rows = read_text(path("run/metrics.jsonl"));
    write_text(path("run/metrics.jsonl"), rows + "{\"step\": 21, \"experts\": " + value + "}\n");
    write_text(path("run/overrides.json"), value);
    succeed("train --resume run --set /train/steps=" + std::to_string(lines_of(rows).size() + 1));
    EXPECT_EQ(lines_of(read_text(path("run/metrics.jsonl"))).size(), lines_of(rows).size() + 1);
  }
}

}  // namespace deep_files_test
}  // namespace hawser::cli_test
