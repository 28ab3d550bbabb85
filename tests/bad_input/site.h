// Site: a temporary folder of one row, with valid files that the row can damage.
#pragma once

#include <hawser.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <string>

namespace hawser::bad_input {

using Json = nlohmann::json;

class Site {
 public:
  Site();
  ~Site();
  Site(const Site&) = delete;
  Site& operator=(const Site&) = delete;

  const std::string& folder() const { return folder_; }
  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  /// Writes a file (and the folders above it); returns its path.
  std::string write(const std::string& name, const std::string& bytes) const;
  std::string read(const std::string& name) const;

  /// These copy a valid checkpoint (of sound_config after one step) and a valid Hugging Face folder (GPT-2).
  std::string checkpoint() const;    ///< "checkpoint"
  std::string hugging_face() const;  ///< "model"
  /// Changes manifest.json of that checkpoint and signs it again.
  void change_manifest(const std::function<void(Json&)>& change) const;
  /// Changes a JSON file in place.
  void change_json(const std::string& name, const std::function<void(Json&)>& change) const;
  /// Changes the header of a safetensors file; its data stay.
  void change_header(const std::string& name, const std::function<void(Json&)>& change) const;
  /// Makes the last number of an f32 tensor in a safetensors file NaN.
  void make_nan(const std::string& name, const std::string& tensor) const;
  /// Writes a safetensors file with this header text and data.
  void write_safetensors(const std::string& name, const std::string& header, const std::string& data) const;

  /// Sets the message of a program other than the library, whose status the row returns.
  void say(std::string message) { said_ = std::move(message); }
  const std::string& said() const { return said_; }

 private:
  std::string folder_;
  std::string said_;
};

/// Returns a valid tokenizer.json of a family.
std::string tokenizer_json(const std::string& family);
/// Prepares rows.jsonl for the model of the site, with the request's keys changed.
int32_t prepare(const Site& site, const Json& patch = Json::object());

/// A model of one block and 61 tokens whose batches are pushed, with `patch` (RFC 7396) merged in.
Json sound_config(const Json& patch = Json::object());

// Each of these releases everything that it creates, and returns the status of the last call.
int32_t parse(const std::string& text);
int32_t parse_binary(const std::string& bytes);
/// Parses and plans: checks every rule, opens nothing.
int32_t plan(const Json& config);
/// Parses and creates an engine, which `use` may then call.
int32_t create(const Json& config, uint32_t flags = 0,
               const std::function<int32_t(hws_engine*)>& use = nullptr);
/// Works like create without an engine, for calls on a config.
int32_t with_config(const Json& config, const std::function<int32_t(hws_config*)>& use);

}  // namespace hawser::bad_input
