// Tests models of the Hugging Face Hub's cache: by the path of a snapshot, whose files are links, and by
// name.
#include <sys/stat.h>

#include "tests/cli/run_command.h"

namespace hawser::cli_test {
namespace hub_cache_test {

/// Has a model in a cache as `hf download` fills it.
class HubCache : public CommandTest {
 protected:
  void SetUp() override {
    CommandTest::SetUp();
    succeed(
        "train config.json --data text.txt --set /train/steps=1 --set /schedule/warmup_steps=0 --out run");
    succeed("convert run plain");
    for (const char* folder : {"blobs", "refs", "snapshots/abc"})
      fs::create_directories(fs::path(path(kRepository)) / folder);
    for (const auto& entry : fs::directory_iterator(path("plain"))) {
      const std::string name = entry.path().filename(), blob = "of-" + name;
      fs::copy(entry.path(), path(kRepository + "/blobs/" + blob));
      fs::create_symlink("../../blobs/" + blob, path(kSnapshot + "/" + name));
    }
    write_text(path(kRepository + "/refs/main"), "abc");
  }

  const std::string kRepository = "hub/models--ships--tiny", kSnapshot = kRepository + "/snapshots/abc";
  const std::string kDownload = "hf download ships/tiny";
};

TEST_F(HubCache, EveryCommandTakesASnapshotAndAName) {
  write_text(path("chat.jsonl"), "{\"text\": \"the rope\"}\n");
  for (const std::string& model : {kSnapshot, std::string("ships/tiny")}) {
    SCOPED_TRACE(model);
    for (const std::string command : {"plan ", "inspect ", "explain "}) succeed(command + model);
    succeed("prove " + model + " --set /mesh/dp_shard=2");
    const std::string few = " --set /train/steps=2 --set /batch/micro_batch=2 --data text.txt --threads 1";
    const std::string in = model == kSnapshot ? "a" : "b";
    succeed("train " + model + few + " --out tuned-" + in);
    succeed("convert " + model + " checkpoint-" + in);
    succeed("generate " + model + " --prompt the --max-tokens 4 --temperature 0");
    succeed("eval " + model + " --data text.txt --max-batches 1");
    succeed("train config.json" + few + " --set /init/from=" + model + " --out from-" + in +
            " --set /schedule/warmup_steps=0");
    if (HAWSER_HAS_TEXT) {
      succeed("tokenizer encode " + model + " text.txt");
      succeed("prepare " + model + " --data chat.jsonl -o rows-" + in);
    }
  }
  EXPECT_EQ(tensor_files(folder_ / "tuned-a/checkpoints/step-2"),
            tensor_files(folder_ / "tuned-b/checkpoints/step-2"));
  EXPECT_EQ(tensor_files(folder_ / "from-a/checkpoints/step-2"),
            tensor_files(folder_ / "from-b/checkpoints/step-2"));
  succeed(
      "train plain --set /train/steps=2 --set /batch/micro_batch=2 --data text.txt --threads 1 --out "
      "tuned-c");
  EXPECT_EQ(tensor_files(folder_ / "tuned-a/checkpoints/step-2"),
            tensor_files(folder_ / "tuned-c/checkpoints/step-2"));
}

TEST_F(HubCache, TheCacheIsWhereHuggingFaceLooks) {
  const auto found = [&](const std::string& variables) {
    return std::system((variables + " " HAWSER_COMMAND " plan ships/tiny >/dev/null 2>&1").c_str()) == 0;
  };
  const std::string none = "env -u HF_HUB_CACHE -u HF_HOME -u XDG_CACHE_HOME ";
  fs::create_directories(path("home/.cache/huggingface"));
  fs::create_symlink(path("hub"), path("home/.cache/huggingface/hub"));
  EXPECT_TRUE(found(none + "HOME='" + path("home") + "'"));
  EXPECT_TRUE(found(none + "XDG_CACHE_HOME='" + path("home/.cache") + "' HOME=/nowhere"));
  EXPECT_TRUE(found(none + "HF_HOME='~/.cache/huggingface' HOME='" + path("home") + "'"));
  EXPECT_FALSE(found(none + "HOME=/nowhere"));
  EXPECT_FALSE(found("env -u HOME HF_HUB_CACHE=/nowhere"));
}

TEST_F(HubCache, AFolderOfThatNameComesFirst) {
  fs::create_directories(path("ships"));
  fs::copy(path("plain"), path("ships/tiny"), fs::copy_options::recursive);
  EXPECT_NE(succeed("inspect ships/tiny").out.find("Hugging Face folder: ships/tiny"), std::string::npos);
}

TEST_F(HubCache, AModelThatIsNotThereIsAnsweredWithTheDownload) {
  for (const std::string command :
       {"plan ", "train ", "generate --prompt x ", "chat ", "eval --data text.txt ", "inspect ",
        "prepare --data a.jsonl -o b ", "tokenizer encode "})
    refused(command + "ships/other",
            {"ships/other", "not in the cache " + path("hub"), "hf download ships/other"});
  refused("train config.json --data text.txt --set /init/from=ships/other",
          {"/init/from: ships/other", "hf download ships/other"});
}

TEST_F(HubCache, WhatTheCacheLacksIsNamed) {
  fs::rename(path(kRepository + "/refs/main"), path(kRepository + "/refs/other"));
  refused("plan ships/tiny", {"has no refs/main", kDownload, kSnapshot});
  write_text(path(kRepository + "/refs/main"), "fed");
  refused("plan ships/tiny", {"refs/main names the snapshot \"fed\"", kDownload, kSnapshot});
  write_text(path(kRepository + "/refs/main"), "../../..");
  refused("plan ships/tiny", {"refs/main names the snapshot", kDownload});
  write_text(path(kRepository + "/refs/main"), "abc\n");
  succeed("plan ships/tiny");
  fs::remove(path(kSnapshot + "/model.safetensors"));
  write_text(path(kRepository + "/blobs/fed.incomplete"), "");
  for (const std::string& model : {kSnapshot, std::string("ships/tiny")}) {
    for (const std::string command : {"train --data text.txt ", "generate --prompt x ", "inspect "})
      refused(command + model,
              {"half downloaded", "model.safetensors is missing", "blobs/fed.incomplete", kDownload});
  }
  fs::create_symlink("../../blobs/gone", path(kSnapshot + "/model.safetensors"));
  fs::remove(path(kRepository + "/blobs/fed.incomplete"));
  refused("train ships/tiny --data text.txt", {"half downloaded", "a link to ../../blobs/gone", kDownload});
  fs::remove(path(kSnapshot + "/model.safetensors"));
  write_text(
      path(kSnapshot + "/model.safetensors.index.json"),
      R"({"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}})");
  fs::create_symlink("../../blobs/of-model.safetensors",
                     path(kSnapshot + "/model-00001-of-00002.safetensors"));
  write_text(path(kRepository + "/blobs/fed.incomplete"), "");
  refused("inspect ships/tiny", {"half downloaded", "model-00002-of-00002.safetensors is missing"});
}

TEST_F(HubCache, LinksToOtherThanRegularFilesAreRefused) {
  const std::string weights = path("plain/model.safetensors");
  const auto linked = [&](const std::string& target) {
    fs::remove(weights);
    fs::create_symlink(target, weights);
    return refused("convert plain out", {"model.safetensors"}).err;
  };
  ASSERT_EQ(mkfifo(path("fifo").c_str(), 0600), 0);
  for (const std::string& target : {path("fifo"), std::string("/dev/zero"), path("run")})
    EXPECT_NE(linked(target).find("not a regular file"), std::string::npos) << target;
  EXPECT_NE(linked("nowhere").find("does not exist"), std::string::npos);
  EXPECT_NE(linked("model.safetensors").find("Too many levels of symbolic links"), std::string::npos);
}

}  // namespace hub_cache_test
}  // namespace hawser::cli_test
