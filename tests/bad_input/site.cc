#include "tests/bad_input/site.h"

#include <stdlib.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include "engine/checkpoint/digest.h"

namespace fs = std::filesystem;

namespace hawser::bad_input {
namespace {

void require(int32_t status) {
  if (status == HWS_OK) return;
  hws_error* error = nullptr;
  hws_error_take(&error);
  const std::string message = hws_error_message(error);
  hws_error_destroy(error);
  throw std::runtime_error("what rows damage could not be made: " + message);
}

std::string make_folder() {
  std::string pattern = (fs::temp_directory_path() / "hawser-bad-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary folder");
  return pattern;
}

/// Takes one step on a batch of ones.
int32_t step(hws_engine* engine) {
  static const std::array<int32_t, 32> ones = [] {
    std::array<int32_t, 32> a;
    a.fill(1);
    return a;
  }();
  hws_batch batch = {};
  batch.struct_size = sizeof batch;
  batch.rows = 2;
  batch.cols = 16;
  batch.tokens = batch.targets = ones.data();
  require(hws_data_push(engine, &batch));
  return hws_engine_train_step(engine, nullptr);
}

/// Valid files that are created once and copied for each row.
struct Sound {
  std::string folder = make_folder();
  Sound() {
    require(create(sound_config(), 0, [&](hws_engine* engine) {
      require(step(engine));
      return hws_checkpoint_save(engine, (folder + "/checkpoint").c_str());
    }));
    require(hws_checkpoint_export((folder + "/checkpoint").c_str(), (folder + "/model").c_str(), nullptr));
  }
  ~Sound() {
    std::error_code ignored;
    fs::remove_all(folder, ignored);
  }
};

std::string copy_of(const char* name, const std::string& to) {
  static const Sound sound;
  fs::copy(sound.folder + "/" + name, to, fs::copy_options::recursive);
  return to;
}

}  // namespace

Site::Site() : folder_(make_folder()) {}

Site::~Site() {
  std::error_code ignored;
  fs::permissions(folder_, fs::perms::owner_all, ignored);
  fs::remove_all(folder_, ignored);
}

std::string Site::write(const std::string& name, const std::string& bytes) const {
  fs::create_directories(fs::path(path(name)).parent_path());
  std::ofstream(path(name), std::ios::binary | std::ios::trunc) << bytes;
  return path(name);
}

std::string Site::read(const std::string& name) const {
  std::ifstream file(path(name), std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::string Site::checkpoint() const { return copy_of("checkpoint", path("checkpoint")); }
std::string Site::hugging_face() const { return copy_of("model", path("model")); }

void Site::change_manifest(const std::function<void(Json&)>& change) const {
  Json json = Json::parse(read("checkpoint/manifest.json"));
  json.erase("manifest_digest");
  change(json);
  std::string text = json.dump(1);
  text.resize(text.size() - 2);
  const std::string digest = checkpoint::Digest::of(text.data(), static_cast<int64_t>(text.size()));
  write("checkpoint/manifest.json", text + ",\n \"manifest_digest\": \"" + digest + "\"\n}\n");
}

void Site::change_json(const std::string& name, const std::function<void(Json&)>& change) const {
  Json json = Json::parse(read(name));
  change(json);
  write(name, json.dump());
}

namespace {

/// The parts of a safetensors file before its data: the header's size, in 8 bytes, and the header.
struct Header {
  explicit Header(const std::string& bytes) {
    uint64_t size = 0;
    for (size_t i = 8; i-- > 0;) size = size << 8 | static_cast<uint8_t>(bytes[i]);
    end = 8 + size;
    json = Json::parse(bytes.substr(8, size));
  }
  size_t end = 0;
  Json json;
};

}  // namespace

void Site::change_header(const std::string& name, const std::function<void(Json&)>& change) const {
  const std::string bytes = read(name);
  Header header(bytes);
  change(header.json);
  write_safetensors(name, header.json.dump(), bytes.substr(header.end));
}

void Site::make_nan(const std::string& name, const std::string& tensor) const {
  std::string bytes = read(name);
  const Header header(bytes);
  const auto end = header.end + header.json.at(tensor).at("data_offsets").at(1).get<size_t>();
  bytes.replace(end - 4, 4, {0, 0, char(0xc0), 0x7f});
  write(name, bytes);
}

void Site::write_safetensors(const std::string& name, const std::string& header,
                             const std::string& data) const {
  std::string bytes(8, '\0');
  for (size_t i = 0; i < 8; ++i) bytes[i] = static_cast<char>(header.size() >> (8 * i) & 0xff);
  write(name, bytes + header + data);
}

Json sound_config(const Json& patch) {
  Json config = Json::parse(R"({
    "seed": 7, "cpu": {"threads": 1},
    "model": {"vocab_size": 61, "context": 16, "layers": 1, "width": 16, "heads": 2, "mlp": "gelu_tanh"},
    "batch": {"micro_batch": 2, "sequence": 16}, "train": {"steps": 4}})");
  config.merge_patch(patch);
  return config;
}

int32_t parse(const std::string& text) {
  hws_config* config = nullptr;
  const int32_t status = hws_config_parse(text.data(), text.size(), HWS_FORMAT_JSON, &config);
  hws_config_destroy(config);
  return status;
}

int32_t parse_binary(const std::string& bytes) {
  hws_config* config = nullptr;
  const int32_t status = hws_config_parse(bytes.data(), bytes.size(), HWS_FORMAT_BINARY, &config);
  hws_config_destroy(config);
  return status;
}

std::string tokenizer_json(const std::string& family) {
  std::ifstream file(std::string(HAWSER_TOKENIZERS) + "/" + family + "/tokenizer.json", std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

int32_t prepare(const Site& site, const Json& patch) {
  Json request = {{"model", site.path("model")}, {"files", {site.path("rows.jsonl")}},
                  {"out", site.path("out")},     {"sequence", 64},
                  {"template", "plain"},         {"threads", 1}};
  request.merge_patch(patch);
  hws_buffer* report = nullptr;
  const int32_t status = hws_data_prepare(request.dump().c_str(), nullptr, nullptr, nullptr, &report);
  hws_buffer_destroy(report);
  return status;
}

int32_t with_config(const Json& json, const std::function<int32_t(hws_config*)>& use) {
  const std::string text = json.dump();
  hws_config* config = nullptr;
  int32_t status = hws_config_parse(text.data(), text.size(), HWS_FORMAT_JSON, &config);
  if (status == HWS_OK) status = use(config);
  hws_config_destroy(config);
  return status;
}

int32_t plan(const Json& json) {
  return with_config(json, [](hws_config* config) {
    hws_plan* made = nullptr;
    const int32_t status = hws_plan_create(config, &made);
    hws_plan_destroy(made);
    return status;
  });
}

int32_t create(const Json& json, uint32_t flags, const std::function<int32_t(hws_engine*)>& use) {
  return with_config(json, [&](hws_config* config) {
    hws_engine* engine = nullptr;
    int32_t status = hws_engine_create(config, flags, &engine);
    if (status == HWS_OK && use) status = use(engine);
    hws_engine_destroy(engine);
    return status;
  });
}

}  // namespace hawser::bad_input
