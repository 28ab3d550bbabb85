// JSON of 100,000 nested arrays or objects overflowed the stack of the host program's thread, because values
// are copied, compared and printed recursively. The test gives deep texts to every place that reads JSON, on
// a thread with a small stack.
#include <gtest/gtest.h>
#include <pthread.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "capi/include/hawser.h"

namespace deep_json_test {

namespace fs = std::filesystem;

constexpr size_t kStack = size_t{256} << 10;

class Folder {
 public:
  Folder() {
    std::string pattern = (fs::temp_directory_path() / "hawser-deep-XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~Folder() { fs::remove_all(path_); }
  std::string path() const { return path_; }
  void write(const std::string& name, const std::string& text) const {
    fs::create_directories(fs::path(path_ + "/" + name).parent_path());
    std::ofstream(path_ + "/" + name, std::ios::binary) << text;
  }

 private:
  std::string path_;
};

std::string repeated(const std::string& text, size_t times) {
  std::string result;
  for (size_t i = 0; i < times; ++i) result += text;
  return result;
}

struct Shape {
  const char* name;
  std::string value;
};

std::vector<Shape> shapes() {
  constexpr size_t kLevels = 100000;
  return {{"arrays", repeated("[", kLevels) + repeated("]", kLevels)},
          {"objects", repeated("{\"a\":", kLevels) + "1" + repeated("}", kLevels)},
          {"both", repeated("[{\"a\":", kLevels) + "1" + repeated("}]", kLevels)},
          {"arrays without ends", repeated("[", kLevels)},
          {"65 levels", repeated("[", 65) + repeated("]", 65)}};
}

std::string last_message() {
  hws_error* error = nullptr;
  if (hws_error_take(&error) != HWS_OK) return "";
  const std::string message = hws_error_message(error);
  hws_error_destroy(error);
  return message;
}

void run(void* call) { (*static_cast<const std::function<void()>*>(call))(); }

void on_small_stack(const std::function<void()>& call) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, kStack);
  pthread_t thread;
  const auto begin = [](void* given) -> void* { return run(given), nullptr; };
  ASSERT_EQ(pthread_create(&thread, &attributes, begin, const_cast<std::function<void()>*>(&call)), 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
}

constexpr const char* kLlama = R"({"model_type": "llama", "hidden_size": 16, "num_attention_heads": 2,
  "num_hidden_layers": 1, "intermediate_size": 16, "vocab_size": 32, "max_position_embeddings": 16)";

void write_model(const Folder& folder, const std::string& more_of_config = "") {
  folder.write("config.json", kLlama + more_of_config + "}");
  folder.write("model.safetensors", std::string("\x02\0\0\0\0\0\0\0{}", 10));
}

hws_status parse(const std::string& text, hws_config** config) {
  return hws_config_parse(text.data(), text.size(), HWS_FORMAT_JSON, config);
}

hws_status config_from(const Folder& folder) {
  hws_config* config = nullptr;
  const hws_status status = hws_config_from_model(folder.path().c_str(), &config);
  hws_config_destroy(config);
  return status;
}

hws_status engine_from(const std::string& config_json) {
  hws_config* config = nullptr;
  hws_status status = parse(config_json, &config);
  if (status != HWS_OK) return status;
  hws_engine* engine = nullptr;
  status = hws_engine_create(config, HWS_ENGINE_INFERENCE, &engine);
  hws_engine_destroy(engine);
  hws_config_destroy(config);
  return status;
}

struct Place {
  const char* name;
  hws_status (*read)(const Folder&, const std::string& deep);
  bool may_be_ignored = false;  ///< the text is not needed here, so it need not be an error
};

/// Returns the places that read texts from a caller.
std::vector<Place> arguments() {
  return {
      {"a config",
       [](const Folder&, const std::string& deep) {
         hws_config* config = nullptr;
         return parse(deep, &config);
       }},
      {"a section of a config",
       [](const Folder&, const std::string& deep) {
         hws_config* config = nullptr;
         return parse("{\"model\": " + deep + "}", &config);
       }},
      {"a value that is set",
       [](const Folder&, const std::string& deep) {
         hws_config* config = nullptr;
         if (parse("{}", &config) != HWS_OK) return hws_status{HWS_OK};
         const hws_status status = hws_config_set(config, "/model", deep.c_str());
         hws_config_destroy(config);
         return status;
       }},
      {"a request to prepare rows",
       [](const Folder&, const std::string& deep) {
         hws_buffer* out = nullptr;
         return hws_data_prepare(deep.c_str(), nullptr, nullptr, nullptr, &out);
       }},
      {"a value of such a request",
       [](const Folder&, const std::string& deep) {
         hws_buffer* out = nullptr;
         return hws_data_prepare(("{\"files\": " + deep + "}").c_str(), nullptr, nullptr, nullptr, &out);
       }},
      {"a list of files",
       [](const Folder& folder, const std::string& deep) {
         return hws_tokenizer_train(deep.c_str(), 300, nullptr, (folder.path() + "/own.json").c_str());
       }},
  };
}

/// Returns the places that read files of rows and settings of a model.
std::vector<Place> settings() {
  return {
      {"prepared.json",
       [](const Folder& folder, const std::string& deep) {
         folder.write("prepared.json", deep);
         hws_buffer* out = nullptr;
         return hws_data_preview(folder.path().c_str(), 0, &out);
       }},
      {"a key of prepared.json",
       [](const Folder& folder, const std::string& deep) {
         folder.write("prepared.json", "{\"hawser\": " + deep + "}");
         hws_buffer* out = nullptr;
         return hws_data_preview(folder.path().c_str(), 0, &out);
       }},
      {"config.json",
       [](const Folder& folder, const std::string& deep) {
         write_model(folder, ", \"rope_scaling\": " + deep);
         return config_from(folder);
       }},
      {"tokenizer_config.json",
       [](const Folder& folder, const std::string& deep) {
         write_model(folder);
         folder.write("tokenizer_config.json", "{\"hawser_vocabulary\": " + deep + "}");
         return config_from(folder);
       },
       true},
  };
}

/// Returns the places that read files of weights and other large files.
std::vector<Place> contents() {
  return {
      {"the index of weights",
       [](const Folder& folder, const std::string& deep) {
         folder.write("config.json", std::string(kLlama) + "}");
         folder.write("model.safetensors.index.json", "{\"weight_map\": " + deep + "}");
         return engine_from("{\"init\": {\"from\": \"" + folder.path() + "\"}}");
       }},
      {"a header of weights",
       [](const Folder& folder, const std::string& deep) {
         write_model(folder);
         const uint64_t size = deep.size();
         folder.write("model.safetensors", std::string(reinterpret_cast<const char*>(&size), 8) + deep);
         return engine_from("{\"init\": {\"from\": \"" + folder.path() + "\"}}");
       }},
      {"adapter_config.json",
       [](const Folder& folder, const std::string& deep) {
         write_model(folder);
         folder.write("adapter_config.json", "{\"target_modules\": " + deep + "}");
         folder.write("adapter_model.safetensors", "");
         return engine_from("{\"init\": {\"from\": \"" + folder.path() + "\"}, \"adapter\": {\"from\": \"" +
                            folder.path() + "\"}}");
       }},
      {"a manifest",
       [](const Folder& folder, const std::string& deep) {
         folder.write("manifest.json", "{\"version\": " + deep + "}");
         hws_buffer* out = nullptr;
         return hws_checkpoint_inspect(folder.path().c_str(), &out);
       }},
      {"tokenizer.json",
       [](const Folder& folder, const std::string& deep) {
         folder.write("tokenizer.json", "{\"model\": " + deep + "}");
         hws_tokenizer* tokenizer = nullptr;
         return hws_tokenizer_open(folder.path().c_str(), &tokenizer);
       }},
      {"rows of text, which are judged by their beginning",
       [](const Folder& folder, const std::string& deep) {
         folder.write("rows.txt", "{\"text\": " + deep + "}\n");
         return engine_from(R"({"model": {"layers": 1, "width": 16, "heads": 2, "context": 16},
            "data": {"format": "text", "vocabulary": "characters", "path": ")" +
                            folder.path() + "/rows.txt\"}}");
       },
       true},
  };
}

TEST(DeepJson, IsAnErrorWhereverTheLibraryReadsJson) {
  std::vector<Place> places;
  for (const auto& part : {arguments(), settings(), contents()})
    places.insert(places.end(), part.begin(), part.end());
  for (const Place& place : places) {
    for (const Shape& shape : shapes()) {
      SCOPED_TRACE(std::string(place.name) + ": " + shape.name);
      const Folder folder;
      hws_status status = HWS_OK;
      std::string message;
      on_small_stack([&] {
        status = place.read(folder, shape.value);
        message = last_message();
      });
      EXPECT_TRUE(status != HWS_OK || place.may_be_ignored);
      EXPECT_NE(status, HWS_INTERNAL) << message;
    }
  }
}

/// This test needs the text module, because without it the tokenizer itself is refused.
TEST(DeepJson, IsAnErrorInTheOtherFilesOfATokenizer) {
  for (const char* name :
       {"generation_config.json", "tokenizer_config.json", "special_tokens_map.json", "config.json"}) {
    for (const Shape& shape : shapes()) {
      SCOPED_TRACE(std::string(name) + ": " + shape.name);
      const Folder folder;
      folder.write("tokenizer.json",
                   R"({"version": "1.0", "truncation": null, "padding": null, "added_tokens": [],
        "normalizer": null, "pre_tokenizer": null, "post_processor": null, "decoder": null,
        "model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}})");
      folder.write(name, "{\"eos_token_id\": " + shape.value + "}");
      hws_status status = HWS_OK;
      std::string message;
      on_small_stack([&] {
        hws_tokenizer* tokenizer = nullptr;
        status = hws_tokenizer_open(folder.path().c_str(), &tokenizer);
        message = last_message();
        hws_tokenizer_destroy(tokenizer);
      });
      EXPECT_NE(status, HWS_OK);
      EXPECT_NE(status, HWS_INTERNAL) << message;
    }
  }
}

}  // namespace deep_json_test
