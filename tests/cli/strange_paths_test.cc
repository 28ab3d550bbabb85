// Tests invalid paths: not UTF-8, dangling links, folders without permission, names that are too long. Each
// is refused with its reason, in the command's own words, before anything is written.
#include "tests/cli/run_command.h"

namespace hawser::cli_test {
namespace strange_paths_test {

using StrangePaths = CommandTest;

/// Expects no error texts of libraries or of the C++ runtime.
void expect_own_words(const CommandResult& result) {
  for (const char* raw :
       {"[json.exception", "filesystem error", "what()", "terminate", "basic_string", "std::"})
    EXPECT_EQ(result.err.find(raw), std::string::npos) << result.err;
}

size_t entries(const fs::path& folder) {
  using Entries = fs::recursive_directory_iterator;
  return static_cast<size_t>(
      std::distance(Entries(folder, fs::directory_options::skip_permission_denied), Entries()));
}

TEST_F(StrangePaths, ThatAreNotUtf8AreRefusedNamingOptionAndByte) {
  const std::string bad =
                        "'a\xff"
                        "b'",
                    cut = "'\xe2\x82'", train = "train config.json --data text.txt ";
  const struct {
    std::string words, option, byte;
  } rows[] = {
      {train + "--out " + bad, "--out", "byte 1"},
      {train + "--out " + cut, "--out", "byte 0"},
      {train + "--out run/'\xc0\xaf'", "--out", "byte 4"},
      {"train config.json --data " + bad, "--data", "byte 1"},
      {"train --resume " + bad, "--resume", "byte 1"},
      {"train " + bad + " --data text.txt", "config", "byte 1"},
      {train + "--set /init/from=" + bad, "--set", "byte 12"},
      {train + "--comm 127.0.0.1:9 --rank 0 --world 1 --secret-file " + bad, "--secret-file", "byte 1"},
      {"launch -n 1 " + train + "--out " + bad, "--out", "byte 1"},
      {"eval " + bad + " --data text.txt", "checkpoint", "byte 1"},
      {"eval made --data " + bad, "--data", "byte 1"},
      {"generate " + bad + " --tokens 1", "checkpoint", "byte 1"},
      {"init quickstart -o " + bad, "--output", "byte 1"},
      {"plan " + bad, "config", "byte 1"},
      {"prove " + bad, "config", "byte 1"},
      {"explain " + bad, "config", "byte 1"},
      {"explain quickstart " + bad, "pointer", "byte 1"},
      {"inspect " + bad, "checkpoint", "byte 1"},
      {"inspect " + bad + " --json", "checkpoint", "byte 1"},
      {"verify " + bad, "checkpoint", "byte 1"},
      {"convert " + bad + " new", "source", "byte 1"},
      {"convert made " + bad, "destination", "byte 1"},
      {"flight " + bad, "records", "byte 1"},
  };
  run("verify nothing");  // creates the files that run() itself leaves here
  const size_t before = entries(folder_);
  for (const auto& row : rows) {
    const CommandResult result = refused(row.words, {row.option, "not valid UTF-8 at " + row.byte});
    EXPECT_TRUE(nlohmann::json::accept(nlohmann::json(result.err).dump()))
        << row.words;  // the message itself is UTF-8
    expect_own_words(result);
    EXPECT_EQ(entries(folder_), before) << row.words;
  }
}

TEST_F(StrangePaths, AWorkingFolderThatIsNotUtf8IsNamed) {
  const std::string folder = path("w\xff");
  fs::create_directory(folder);
  const auto in_folder = [&](const std::string& words) {
    const int status = std::system(
        ("cd '" + folder + "' && " HAWSER_COMMAND " " + words + " >/dev/null 2>'" + path("stderr") + "'")
            .c_str());
    CommandResult result;
    result.exit_code = WEXITSTATUS(status);
    result.err = read_text(path("stderr"));
    return result;
  };
  const CommandResult result = in_folder("train ../config.json --data ../text.txt --out run");
  EXPECT_EQ(result.exit_code, 2) << result.err;
  EXPECT_NE(result.err.find("the path of the working folder"), std::string::npos) << result.err;
  expect_own_words(result);
  EXPECT_TRUE(fs::is_empty(folder));
  const CommandResult fine = in_folder("train '" + path("config.json") + "' --data '" + path("text.txt") +
                                       "' --set /train/steps=1 --out '" + path("run") + "'");
  EXPECT_EQ(fine.exit_code, 0) << fine.err;
}

TEST_F(StrangePaths, ThatLeadNowhereAreRefusedWithTheirReason) {
  succeed("train config.json --data text.txt --set /train/steps=1 --out made");
  fs::create_symlink("nowhere", path("dangling"));
  fs::create_symlink("loop", path("loop"));
  const std::string train = "train config.json --data text.txt --out ", name(300, 'n');
  const std::string link = "dangling is a symbolic link to nowhere",
                    loop = "Too many levels of symbolic links", longer = "File name too long";
  const struct {
    std::string words, reason;
  } rows[] = {
      {train + "dangling", link},
      {train + "dangling/run", link},
      {train + "loop", loop},
      {train + name, longer},
      {train + "text.txt", "text.txt is a file"},
      {train + "text.txt/run", "text.txt is not a folder"},
      {"launch -n 1 " + train + "dangling", link},
      {"train config.json --data dangling", link},
      {"train config.json --data loop", loop},
      {"train config.json --data " + name, longer},
      {"train config.json --data text.txt/x", "text.txt/x: no such file"},
      {"train --resume dangling", link},
      {"train --resume loop", loop},
      {"train --resume " + name, longer},
      {"train --resume text.txt", "text.txt"},
      {"train dangling --data text.txt", link},
      {"train ./" + name + " --data text.txt", longer},
      {"plan dangling", link},
      {"plan loop", loop},
      {"inspect dangling", link},
      {"verify loop", loop},
      {"inspect text.txt/x", "text.txt/x: no such file"},
      {"eval made --data dangling", link},
      {"generate dangling --tokens 1", link},
      {"convert dangling new", link},
      {"convert made dangling", link},
      {"convert made " + name, longer},
      {"init quickstart -o dangling", link},
      {"init quickstart -o " + name, longer},
      {"init quickstart -o no/such/file.json", "No such file or directory"},
      {"flight " + name, longer},
  };
  const size_t before = entries(folder_);
  for (const auto& row : rows) {
    expect_own_words(refused(row.words, {row.reason}));
    EXPECT_EQ(entries(folder_), before) << row.words;
  }
}

/// Root may access everything, so under root the command runs as another user; skipped if the machine does
/// not allow that.
TEST_F(StrangePaths, WithoutPermissionAreRefusedWithTheirReason) {
  const std::string user = geteuid() == 0 ? "setpriv --reuid 65534 --regid 65534 --clear-groups " : "";
  fs::permissions(folder_, fs::perms(0755));
  if (std::system((user + HAWSER_COMMAND " --version >/dev/null 2>&1").c_str()) != 0)
    GTEST_SKIP() << "cannot run the command as a user without rights";
  for (const char* name : {"locked", "readable"}) fs::create_directory(path(name));
  write_text(path("locked/config.json"), config().dump());
  fs::permissions(path("locked"), fs::perms(geteuid() == 0 ? 0700 : 0));
  fs::permissions(path("readable"), fs::perms(0555));
  succeed("train config.json --data text.txt --set /train/steps=1 --out made");
  const std::string train = "train config.json --data text.txt --out ";
  run("verify nothing");
  const size_t before = entries(folder_);
  for (const std::string& words :
       {train + "locked", train + "locked/run", train + "readable/run", train + "readable",
        std::string("train config.json --data locked/text.txt"), std::string("train --resume locked/run"),
        std::string("train locked/config.json --data text.txt"), std::string("plan locked/config.json"),
        std::string("inspect locked/run"), std::string("convert made readable/model"),
        std::string("init quickstart -o readable/config.json"), std::string("flight locked")}) {
    const std::string command = "cd '" + folder_.string() + "' && " + user + HAWSER_COMMAND " " + words +
                                " >/dev/null 2>'" + path("stderr") + "'";
    CommandResult result;
    result.exit_code = WEXITSTATUS(std::system(command.c_str()));
    result.err = read_text(path("stderr"));
    EXPECT_EQ(result.exit_code, 2) << words << "\n" << result.err;
    EXPECT_NE(result.err.find("Permission denied"), std::string::npos) << words << "\n" << result.err;
    expect_own_words(result);
    EXPECT_EQ(entries(folder_), before) << words;
  }
  fs::permissions(path("locked"), fs::perms(0755));
}

}  // namespace strange_paths_test
}  // namespace hawser::cli_test
