// Checkpoint cases: checkpoints that were damaged, edited by hand, or that refer to files elsewhere.
#include <sys/stat.h>

#include <filesystem>

#include "tests/bad_input/case.h"
#include "tests/bad_input/site.h"

namespace hawser::bad_input {
namespace checkpoint_cases {

namespace fs = std::filesystem;

constexpr const char* kShard = "checkpoint/tensors-00001-of-00001.safetensors";
constexpr const char* kShardName = "tensors-00001-of-00001.safetensors";

int32_t load(const std::string& path, const Json& config = sound_config(), uint32_t flags = 0) {
  return create(config, flags,
                [&](hws_engine* engine) { return hws_checkpoint_load(engine, path.c_str(), 0); });
}

/// A row that changes a valid checkpoint and loads it.
Case changed(const std::string& what, std::vector<std::string> words,
             const std::function<void(Site&)>& change, int32_t status = HWS_CHECKPOINT_CORRUPT) {
  return {what, status, std::move(words), [change](Site& site) {
            const std::string path = site.checkpoint();
            change(site);
            return load(path);
          }};
}

/// A row whose manifest was changed and signed again, as by an attacker instead of a faulty disk.
Case manifest(const std::string& what, std::vector<std::string> words,
              const std::function<void(Json&)>& change, int32_t status = HWS_CHECKPOINT_CORRUPT) {
  return changed(
      what, std::move(words), [change](Site& site) { site.change_manifest(change); }, status);
}

/// Returns the first piece of a tensor of the manifest.
Json& piece(Json& json, const char* tensor = "embedding.token.weight") {
  return json["tensors"].contains(tensor) ? json["tensors"][tensor]["pieces"][0]
                                          : json["tensors"].begin().value()["pieces"][0];
}

std::vector<Case> files() {
  return {
      {"a path that is not there",
       HWS_NOT_FOUND,
       {".../none", "No such file"},
       [](Site& site) { return load(site.path("none")); }},
      {"a folder without a manifest",
       HWS_NOT_FOUND,
       {"... is not a checkpoint", "manifest.json"},
       [](Site& site) { return load(site.folder()); }},
      {"verify of a file",
       HWS_NOT_FOUND,
       {".../a", "Not a directory"},
       [](Site& site) { return hws_checkpoint_verify(site.write("a", "x").c_str()); }},
      {"latest in a folder without checkpoints",
       HWS_NOT_FOUND,
       {"there is no checkpoint (step-*, best) below ..."},
       [](Site& site) {
         hws_buffer* path = nullptr;
         return hws_checkpoint_latest(site.folder().c_str(), &path);
       }},
      {"latest where every checkpoint is damaged",
       HWS_CHECKPOINT_CORRUPT,
       {"no intact checkpoint below", "step-3", "has no manifest.json", "move the damaged ones away"},
       [](Site& site) {
         fs::create_directory(site.path("step-3"));
         hws_buffer* path = nullptr;
         return hws_checkpoint_latest(site.folder().c_str(), &path);
       }},
      {"latest where the newest is of a newer version",
       HWS_CHECKPOINT_INCOMPATIBLE,
       {"step-3/manifest.json has version 5", "reads up to 4", "use a newer Hawser"},
       [](Site& site) {
         site.write("step-3/manifest.json", R"({"format": "hawser-checkpoint", "version": 5})");
         hws_buffer* path = nullptr;
         return hws_checkpoint_latest(site.folder().c_str(), &path);
       }},
      changed("a missing shard", {kShardName, "is missing", "manifest lists it"},
              [](Site& site) { fs::remove(site.path(kShard)); }),
      changed("a shard that is cut short", {kShardName, "cut short"},
              [](Site& site) { fs::resize_file(site.path(kShard), fs::file_size(site.path(kShard)) - 8); }),
      changed("a shard with a byte more", {kShardName, "belong to no tensor"},
              [](Site& site) { site.write(kShard, site.read(kShard) + "x"); }),
      changed("a flipped byte in a shard", {kShardName, "tensor", "is damaged", "use an older checkpoint"},
              [](Site& site) {
                std::string bytes = site.read(kShard);
                bytes.back() = static_cast<char>(bytes.back() ^ 1);
                site.write(kShard, bytes);
              }),
      changed("a link in place of a shard",
              {kShardName, "symbolic link, which is not followed", "put the file itself there"},
              [](Site& site) {
                fs::rename(site.path(kShard), site.path("elsewhere"));
                fs::create_symlink("../elsewhere", site.path(kShard));
              }),
      changed("a FIFO in place of a shard", {kShardName, "not a regular file", "FIFOs"},
              [](Site& site) {
                fs::remove(site.path(kShard));
                ::mkfifo(site.path(kShard).c_str(), 0600);
              }),
      changed(
          "a FIFO as the manifest", {".../checkpoint is not a checkpoint", "manifest.json"},
          [](Site& site) {
            fs::remove(site.path("checkpoint/manifest.json"));
            ::mkfifo(site.path("checkpoint/manifest.json").c_str(), 0600);
          },
          HWS_NOT_FOUND),
      changed(
          "a link to a device as the manifest", {".../checkpoint is not a checkpoint", "manifest.json"},
          [](Site& site) {
            fs::remove(site.path("checkpoint/manifest.json"));
            fs::create_symlink("/dev/zero", site.path("checkpoint/manifest.json"));
          },
          HWS_NOT_FOUND),
  };
}

std::vector<Case> manifests() {
  return {
      changed("an empty manifest", {"manifest.json is not valid JSON", "byte"},
              [](Site& site) { site.write("checkpoint/manifest.json", ""); }),
      changed(
          "1,000,000 open brackets as manifest", {"manifest.json", "nested deeper than 64"},
          [](Site& site) { site.write("checkpoint/manifest.json", "{\"a\":" + std::string(1000000, '[')); }),
      changed("a key that appears twice", {"manifest.json", "'a' appears twice"},
              [](Site& site) { site.write("checkpoint/manifest.json", "{\"a\":1,\"a\":2}"); }),
      changed("a flipped letter in the manifest",
              {"manifest.json is damaged", "digest", "use an older checkpoint"},
              [](Site& site) {
                std::string text = site.read("checkpoint/manifest.json");
                text[text.find("\"step\": 1") + 8] = '7';
                site.write("checkpoint/manifest.json", text);
              }),
      manifest(
          "another format", {"manifest.json", "'torch', not hawser-checkpoint"},
          [](Json& j) { j["format"] = "torch"; }, HWS_CHECKPOINT_INCOMPATIBLE),
      manifest(
          "a newer version", {"version 99", "reads up to 4", "use a newer Hawser"},
          [](Json& j) { j["version"] = 99; }, HWS_CHECKPOINT_INCOMPATIBLE),
      manifest(
          "a model field that this Hawser does not know",
          {"belongs to another model", "/model/experts: not known here, 8 in the checkpoint"},
          [](Json& j) { j["model"]["experts"] = 8; }, HWS_CHECKPOINT_INCOMPATIBLE),
      manifest(
          "a counter that this Hawser does not know", {"trainer state", "'tokens_seen'", "newer"},
          [](Json& j) { j["state"]["tokens_seen"] = 8; }, HWS_CHECKPOINT_INCOMPATIBLE),
      manifest("no step", {"the manifest has no step"}, [](Json& j) { j.erase("step"); }),
      manifest("step -1", {"the step '-1'", "not an integer"}, [](Json& j) { j["step"] = -1; }),
      manifest("step 1.5", {"the step '1.5'", "not an integer"}, [](Json& j) { j["step"] = 1.5; }),
      manifest("a state that is a list", {"state that is not an object"},
               [](Json& j) { j["state"] = Json::array(); }),
      manifest("a state without its counters", {"trainer state has no 'step'"},
               [](Json& j) { j["state"] = Json::object(); }),
      manifest("a file outside of the folder", {"'../secret'", "points outside the checkpoint"},
               [](Json& j) { j["files"]["../secret"] = j["files"][kShardName]; }),
      manifest("an absolute file", {"'/etc/passwd'", "points outside the checkpoint"},
               [](Json& j) { j["files"]["/etc/passwd"] = j["files"][kShardName]; }),
      manifest("a carried file outside of the folder",
               {"'extra/../../secret'", "points outside the checkpoint"},
               [](Json& j) { j["files"]["extra/../../secret"] = j["files"][kShardName]; }),
      manifest("a piece in a file that is not listed",
               {"a piece of tensor", "unlisted file 'other.safetensors'"},
               [](Json& j) { piece(j)["file"] = "other.safetensors"; }),
      manifest("a piece of other bytes", {"a piece of tensor", "has 7 bytes where elements"},
               [](Json& j) { piece(j)["bytes"] = 7; }),
      manifest("a piece at another offset", {kShardName, "at byte", "but the manifest says"},
               [](Json& j) { piece(j)["offset"] = 0; }),
      manifest("a piece at offset 2^64-1", {"the offset '18446744073709551615'", "0 to 2^63 - 1"},
               [](Json& j) { piece(j)["offset"] = UINT64_MAX; }),
      manifest("a tensor with a gap", {"is incomplete", "no piece has its elements"},
               [](Json& j) { j["tensors"].begin().value()["pieces"] = Json::array(); }),
      manifest("a tensor stored twice", {"twice", kShardName},
               [](Json& j) {
                 Json& pieces = j["tensors"].begin().value()["pieces"];
                 pieces.push_back(pieces[0]);
               }),
      manifest("a shape that overflows", {"tensor", "whose size overflows"},
               [](Json& j) {
                 j["tensors"].begin().value()["shape"] = {int64_t{1} << 40, int64_t{1} << 40};
               }),
      manifest("an unknown dtype", {"unknown dtype 'F13'"},
               [](Json& j) { j["tensors"].begin().value()["dtype"] = "F13"; }),
      manifest("a file of another size", {kShardName, "bytes, but the manifest says 5"},
               [](Json& j) { j["files"][kShardName]["bytes"] = 5; }),
      manifest("a tensor that the shard has and the manifest has not",
               {kShardName, "tensors, but the manifest lists"},
               [](Json& j) { j["tensors"].erase(j["tensors"].begin()); }),
  };
}

std::vector<Case> belonging() {
  return {
      {"the checkpoint of another model",
       HWS_CHECKPOINT_INCOMPATIBLE,
       {"belongs to another model", "/model/layers: 2 here, 1 in the checkpoint"},
       [](Site& site) {
         return load(site.checkpoint(), sound_config(Json::parse(R"({"model": {"layers": 2}})")));
       }},
      {"the checkpoint of another optimizer",
       HWS_CHECKPOINT_INCOMPATIBLE,
       {"optimizer.v.", "does not keep", "/optimizer", "/init/from"},
       [](Site& site) {
         return load(site.checkpoint(),
                     sound_config(Json::parse(R"({"optimizer": {"kind": "sgd", "momentum": 0.9}})")));
       }},
      {"a checkpoint whose optimizer had other rules",
       HWS_CHECKPOINT_INCOMPATIBLE,
       {"optimizer.v.", "does not keep", "/optimizer", "/init/from"},
       [](Site& site) {
         return load(
             site.checkpoint(),
             sound_config(Json::parse(R"({"optimizer": {"rules": [{"of": "*norm*", "kind": "lion"}]}})")));
       }},
      manifest(
          "a checkpoint whose rules gave a tensor another optimizer with as many moments",
          {"state of optimizer \"muon\" for \"embedding.tokens.weight\"",
           "this engine's optimizer is \"adamw\"", "/optimizer/rules"},
          [](Json& j) {
            j["config"]["optimizer"]["rules"] =
                Json::parse(R"([{"of": "embedding.*", "kind": "muon"}, {"of": "*", "rate": 2}])");
          },
          HWS_CHECKPOINT_INCOMPATIBLE),
      manifest(
          "the checkpoint of another optimizer with as many moments",
          {"state of optimizer \"lion\"", "this engine's optimizer is \"adamw\"", "/optimizer/kind",
           "/init/from"},
          [](Json& j) { j["config"]["optimizer"]["kind"] = "lion"; }, HWS_CHECKPOINT_INCOMPATIBLE),
  };
}

std::vector<Case> others() {
  return {
      {"saving over something",
       HWS_ALREADY_EXISTS,
       {".../checkpoint", "choose another name"},
       [](Site& site) {
         const std::string path = site.checkpoint();
         return create(sound_config(), 0,
                       [&](hws_engine* engine) { return hws_checkpoint_save(engine, path.c_str()); });
       }},
      {"saving below a file",
       HWS_NOT_FOUND,
       {".../a", "not a folder"},
       [](Site& site) {
         const std::string path = site.write("a", "x") + "/step-1";
         return create(sound_config(), 0,
                       [&](hws_engine* engine) { return hws_checkpoint_save(engine, path.c_str()); });
       }},
      {"saving to `/`",
       HWS_INVALID_ARGUMENT,
       {"'/'", "does not end in a name"},
       [](Site&) {
         return create(sound_config(), 0,
                       [&](hws_engine* engine) { return hws_checkpoint_save(engine, "/"); });
       }},
      {"`init.from` a folder that is neither",
       HWS_NOT_FOUND,
       {"/init/from", "neither a checkpoint", "Hugging Face"},
       [](Site& site) {
         return create(Json{{"init", {{"from", site.folder()}}}, {"batch", {{"micro_batch", 1}}}});
       }},
  };
}

std::vector<Case> exports() {
  return {
      {"export of something else",
       HWS_NOT_FOUND,
       {"... is neither a checkpoint", "manifest.json", "config.json"},
       [](Site& site) {
         return hws_checkpoint_export(site.folder().c_str(), site.path("out").c_str(), nullptr);
       }},
      {"export in `f64`",
       HWS_INVALID_ARGUMENT,
       {"`dtype`", "f64", "bf16"},
       [](Site& site) {
         return hws_checkpoint_export(site.checkpoint().c_str(), site.path("out").c_str(), "f64");
       }},
      {"export of a folder in `q8_0`",
       HWS_INVALID_ARGUMENT,
       {"'q8_0'", "GGUF", ".gguf"},
       [](Site& site) {
         return hws_checkpoint_export(site.checkpoint().c_str(), site.path("out").c_str(), "q8_0");
       }},
      {"export to a GGUF file that exists",
       HWS_ALREADY_EXISTS,
       {"model.gguf exists already"},
       [](Site& site) {
         return hws_checkpoint_export(site.checkpoint().c_str(), site.write("model.gguf", "mine").c_str(),
                                      "");
       }},
      {"export to GGUF of a model that llama.cpp cannot compute",
       HWS_FAILED_PRECONDITION,
       {"llama.cpp cannot compute this gpt2 model", "/model/mlp"},
       [](Site& site) {
         Json config = sound_config();
         config["model"]["mlp"] = "gelu";
         return create(config, 0, [&](hws_engine* engine) {
           return hws_engine_export(engine, site.path("model.gguf").c_str(), "f16");
         });
       }},
  };
}

}  // namespace checkpoint_cases

Area checkpoint_area() {
  using namespace checkpoint_cases;
  Area area = {
      "Checkpoints",
      "A valid checkpoint, changed and then loaded. Links, FIFOs and devices are never opened; no file "
      "outside of the "
      "folder is. Where the manifest was changed it was given its right digest again.",
      files()};
  for (const auto& more : {manifests(), belonging(), others(), exports()})
    area.cases.insert(area.cases.end(), more.begin(), more.end());
  return area;
}

}  // namespace hawser::bad_input
