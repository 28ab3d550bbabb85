// Tests the command line: help, version, exit codes for invalid arguments.
#include "tests/cli/run_command.h"

namespace hawser::cli_test {
namespace command_line_test {

using CommandLine = CommandTest;

TEST_F(CommandLine, HelpNamesEveryCommand) {
  const CommandResult result = succeed("--help");
  for (const char* name : {"train", "eval", "generate", "init", "presets", "schema", "plan", "explain",
                           "inspect", "verify", "convert", "device"}) {
    EXPECT_NE(result.out.find(name), std::string::npos) << name;
    EXPECT_NE(succeed(std::string(name) + " --help").out.find(name), std::string::npos);
  }
}

TEST_F(CommandLine, VersionNamesTheBuildTheMachineAndTheModules) {
  const std::vector<std::string> lines = lines_of(succeed("--version").out);
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_EQ(lines[0], std::string("hawser ") + HAWSER_VERSION);
  EXPECT_EQ(lines[1].substr(0, 8), "commit: ");
  EXPECT_GT(lines[1].size(), 8u);
  const auto device = nlohmann::json::parse(succeed("device --json --seconds 0.01").out);
  EXPECT_EQ(lines[2], "CPU level: " + device.at("measured").at("level").get<std::string>());
  EXPECT_EQ(lines[3].substr(0, 14), "modules: text" + std::string(HAWSER_HAS_TEXT ? "," : " "));
}

TEST_F(CommandLine, CompletionNeedsAShellThatItKnows) {
  refused("completion", {"bash, zsh or fish"});
  refused("completion tcsh", {"tcsh"});
}

TEST_F(CommandLine, WhatItCannotReadIsWrongInput) {
  refused("", {"--help"});
  refused("tarin", {"tarin"});
  refused("train config.json --no-such-option", {"--no-such-option"});
  refused("train --threads 0 config.json", {"--threads"});
  refused("generate x --prompt a --tokens 1", {"--prompt", "--tokens"});
  refused("train config.json --out a --resume b", {"--out", "--resume"});
}

TEST_F(CommandLine, DeviceListsAndMeasures) {
  const auto device = nlohmann::json::parse(succeed("device --json --seconds 0.05").out);
  EXPECT_FALSE(device.at("devices").empty());
  EXPECT_GT(device.at("measured").at("fp32_gflops").get<double>(), 0.0);
  EXPECT_NE(succeed("device --seconds 0.05").out.find("fp32_gflops"), std::string::npos);
}

}  // namespace command_line_test
}  // namespace hawser::cli_test
