// Tests `hawser plan --published`: tables of published runs, and what is wrong with them.
#include "tests/cli/run_command.h"

namespace hawser::cli_test {
namespace published_command_test {

using nlohmann::json;

class PublishedCommand : public CommandTest {
 protected:
  static json row() {
    return {{"name", "small"},
            {"use", "held back"},
            {"gpus", 16},
            {"tp", 2},
            {"cp", 1},
            {"pp", 2},
            {"dp", 4},
            {"chunks", 1},
            {"batch", 16},
            {"micro_batch", 1},
            {"layers", 4},
            {"width", 1024},
            {"heads", 8},
            {"sequence", 1024},
            {"vocabulary", 1024},
            {"reported", {{"tflops", 100}}}};
  }
  static json table(const json& row) {
    return {{"name", "A table"},
            {"source", "a paper"},
            {"stack", "megatron-2021"},
            {"flops", {{"text", "72 of a layer"}, {"layer", 72}, {"attention", 12}, {"head", 6}}},
            {"assumptions", {"none"}},
            {"all_rows", {{"config", {{"model", {{"position", "learned"}}}}}}},
            {"rows", {row}}};
  }
  void write(const json& row) { write_text(path("table.json"), table(row).dump()); }
};

TEST_F(PublishedCommand, PrintsWhatIsForetoldBesideWhatWasReported) {
  write(row());
  const json report = json::parse(succeed("plan --published --tables table.json --json").out);
  const json& one = report.at("tables").at(0);
  EXPECT_EQ(one.at("not_hawser"), "Megatron-LM of 2021");
  const json& foretold = one.at("rows").at(0);
  EXPECT_EQ(foretold.at("unit"), "TFLOP/s");
  const double flops = 4. * 1024 * (72 * 1024 + 12 * 1024) + 6. * 1024 * 1024;
  const double rate = flops * 16 * 1024 / foretold.at("seconds").get<double>() / 16 / 1e12;
  EXPECT_NEAR(foretold.at("foretold").get<double>(), rate, 1e-9 * rate);
  EXPECT_NEAR(foretold.at("error").get<double>(), rate / 100 - 1, 1e-9);
  EXPECT_EQ(one.at("held_back").at("rows"), 1);
  const std::string text = succeed("plan --published --tables table.json").out;
  for (const char* const part : {"A table", "source: a paper", "FLOPs of a step: 72 of a layer",
                                 "assumed: none", "not Hawser", "small", "held back: 1 row"})
    EXPECT_NE(text.find(part), std::string::npos) << part;
}

TEST_F(PublishedCommand, RefusesRowsWhoseNumbersDoNotFit) {
  const auto refuses = [&](const char* key, const json& value, const std::vector<std::string>& parts) {
    json changed = row();
    changed[key] = value;
    write(changed);
    refused("plan --published --tables table.json", parts);
  };
  refuses("gpus", 32, {"A table", "small", "tp 2 x cp 1 x pp 2 x dp 4 are 16 ranks, not 32 GPUs"});
  refuses("batch", 18, {"dp 4 x micro_batch 1 does not divide batch 18"});
  refuses("layers", 5, {"pp 2 x chunks 1 does not divide 5 layers"});
  refuses("use", "perhaps", {"/use", "perhaps", "held back"});
  refuses("tp", 0, {"/tp is 0"});
  refuses("reported", {{"tflops", -1}}, {"/reported/tflops is -1"});
  refuses("variant", "selective", {"/variant", "selective"});
  json without = row();
  without.erase("heads");
  write(without);
  refused("plan --published --tables table.json", {"/heads is missing"});
}

TEST_F(PublishedCommand, RefusesFilesThatAreNoTables) {
  write_text(path("table.json"), "[]");
  refused("plan --published --tables table.json", {"table.json is not a JSON object"});
  json one = table(row());
  one["stack"] = "nobody";
  write_text(path("table.json"), one.dump());
  refused("plan --published --tables table.json", {"nobody", "stacks/nobody.json"});
  one.erase("source");
  write_text(path("table.json"), one.dump());
  refused("plan --published --tables table.json", {"/source"});
  refused("plan --published --tables missing.json", {"missing.json"});
  refused("plan gpt2-124m --published", {"--published"});
}

/// Rows that state too little have no prediction.
TEST_F(PublishedCommand, LeavesOutRowsThatStateTooLittle) {
  write({{"name", "vague"}, {"use", "not enough stated"}, {"gpus", 7}, {"reported", {{"seconds", 2}}}});
  const json report = json::parse(succeed("plan --published --tables table.json --json").out);
  const json& one = report.at("tables").at(0).at("rows").at(0);
  EXPECT_FALSE(one.contains("foretold"));
  EXPECT_EQ(one.at("reported"), 2);
  EXPECT_FALSE(report.at("tables").at(0).contains("held_back"));
}

}  // namespace published_command_test
}  // namespace hawser::cli_test
