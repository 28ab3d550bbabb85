// GGUF test: the bytes of a file, read by a reader of its own, and what is refused. tests/gguf compares the
// files with llama.cpp itself.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>

#include "engine/checkpoint/gguf/export_adapter.h"
#include "engine/checkpoint/gguf/export_file.h"
#include "engine/checkpoint/gguf/tensors.h"
#include "tests/checkpoint/hf_folder_case.h"

namespace hawser::checkpoint::gguf {
namespace gguf_test {

/// A reader of the format that knows the types of values that Hawser writes.
struct GgufFile {
  struct Entry {
    std::vector<uint64_t> dims;  // the fastest first, as in the file
    uint32_t type = 0;
    uint64_t offset = 0;
  };
  std::map<std::string, std::string> values;  // as text; arrays as their number of values
  std::map<std::string, Entry> tensors;
  std::string bytes;
  size_t data = 0;

  explicit GgufFile(const std::string& path) : bytes(read_text(path)) {
    EXPECT_EQ(bytes.substr(0, 4), "GGUF");
    at_ = 4;
    EXPECT_EQ(number<uint32_t>(), 3u);
    const uint64_t tensor_count = number<uint64_t>(), value_count = number<uint64_t>();
    for (uint64_t i = 0; i < value_count; ++i) {
      const std::string key = text();
      EXPECT_EQ(values.count(key), 0u) << key << " twice";
      values[key] = value(number<uint32_t>());
    }
    for (uint64_t i = 0; i < tensor_count; ++i) {
      const std::string name = text();
      EXPECT_EQ(tensors.count(name), 0u) << name << " twice";
      Entry& entry = tensors[name];
      entry.dims.resize(number<uint32_t>());
      for (uint64_t& dim : entry.dims) dim = number<uint64_t>();
      entry.type = number<uint32_t>();
      entry.offset = number<uint64_t>();
      EXPECT_EQ(entry.offset % 32, 0u);
    }
    data = (at_ + 31) / 32 * 32;
  }

  std::vector<float> f32(const std::string& name) const {
    const Entry& entry = tensors.at(name);
    EXPECT_EQ(entry.type, 0u);
    size_t n = 1;
    for (const uint64_t dim : entry.dims) n *= dim;
    std::vector<float> numbers(n);
    EXPECT_LE(data + entry.offset + 4 * n, bytes.size());
    std::memcpy(numbers.data(), bytes.data() + data + entry.offset, 4 * n);
    return numbers;
  }

 private:
  template <typename T>
  T number() {
    T n;
    std::memcpy(&n, bytes.data() + at_, sizeof n);
    at_ += sizeof n;
    return n;
  }
  std::string text() {
    const uint64_t n = number<uint64_t>();
    at_ += n;
    return bytes.substr(at_ - n, n);
  }
  std::string value(uint32_t type) {
    switch (type) {
      case 4:
        return std::to_string(number<uint32_t>());
      case 5:
        return std::to_string(number<int32_t>());
      case 6:
        return std::to_string(number<float>());
      case 7:
        return number<uint8_t>() != 0 ? "true" : "false";
      case 8:
        return text();
      case 9: {
        const uint32_t inner = number<uint32_t>();
        const uint64_t n = number<uint64_t>();
        for (uint64_t i = 0; i < n; ++i) value(inner);
        return std::to_string(n);
      }
      default:
        ADD_FAILURE() << "type " << type;
        return "";
    }
  }
  size_t at_ = 0;
};

struct Model : hf::Case {
  explicit Model(const hf::Json& config) : Case(config) {
    float next = 0.5f;
    for (const nn::Parameter& p : table->all()) {
      values[p.name].resize(static_cast<size_t>(p.size));
      for (float& v : values[p.name]) v = next = next < 900 ? next + 0.25f : -900.0f;
    }
  }
  void to(const std::string& path, const std::string& dtype = "f32", hf::ExtraFiles files = {}) const {
    files["config.json"] = config_.dump();
    std::set<std::string> held;
    export_file(
        path, model, *table,
        [&](const std::string& name) {
          held.insert(name);
          EXPECT_LE(held.size(), 3u) << "more than one tensor's parameters at once";
          return values.at(name).data();
        },
        files, dtype, [&] { held.clear(); });
    EXPECT_TRUE(held.empty());
  }
};

TEST(Gguf, EachFamilyHasEachOfItsNumbers) {
  for (const std::string& family : hf::family_names()) {
    SCOPED_TRACE(family);
    const Scratch scratch;
    hf::Json config = hf::config_of(family);
    if (config.contains("mlp_only_layers")) config["mlp_only_layers"] = hf::Json::array();
    if (family == "qwen3_moe") config["norm_topk_prob"] = true;
    if (family.starts_with("gemma")) config["query_pre_attn_scalar"] = 8;
    if (family == "gpt2") config["activation_function"] = "gelu_new";
    if (family == "gpt_oss") config["rope_parameters"] = {{"rope_type", "default"}};
    const Model model(config);
    model.to(scratch / "model.gguf");
    const GgufFile file(scratch / "model.gguf");
    double ours = 0, theirs = 0;
    size_t numbers = 0;
    for (const nn::Parameter& p : model.table->all())
      for (const float v : model.values.at(p.name)) {
        const bool shifted = model.model.norm_weight_offset == 1 && p.name.ends_with("norm.weight");
        ours += std::sqrt(std::abs(static_cast<double>(v) + (shifted ? 1 : 0))), ++numbers;
      }
    for (const auto& [name, entry] : file.tensors)
      if (name != "output.weight" || !model.model.tied_head)  // a copy of the table for some architectures
        for (const float v : file.f32(name)) theirs += std::sqrt(std::abs(static_cast<double>(v))), --numbers;
    EXPECT_EQ(numbers, 0u);
    EXPECT_NEAR(theirs, ours, 1e-9 * ours);
    EXPECT_EQ(file.values.at("tokenizer.ggml.model"), "no_vocab");
    EXPECT_EQ(file.values.at("general.file_type"), "0");
  }
}

TEST(Gguf, RowsOfRotatedHeadsAlternate) {
  EXPECT_EQ(pair_order(8, 4, 0), (std::vector<int64_t>{0, 2, 1, 3, 4, 6, 5, 7}));
  EXPECT_EQ(pair_order(6, 6, 2), (std::vector<int64_t>{0, 1, 2, 4, 3, 5}));
  const Scratch scratch;
  const Model model(hf::config_of("llama"));  // heads of 8 rows
  model.to(scratch / "model.gguf");
  const std::vector<float> theirs = GgufFile(scratch / "model.gguf").f32("blk.1.attn_k.weight");
  const std::vector<float>& ours = model.values.at("blocks.1.attention.k.weight");
  for (size_t head = 0; head < 2; ++head)
    for (size_t j = 0; j < 4; ++j)
      for (size_t c = 0; c < 24; ++c) {
        EXPECT_EQ(theirs[((head * 8 + 2 * j) * 24) + c], ours[((head * 8 + j) * 24) + c]);
        EXPECT_EQ(theirs[((head * 8 + 2 * j + 1) * 24) + c], ours[((head * 8 + 4 + j) * 24) + c]);
      }
}

TEST(Gguf, KeysOfLatentAttentionAreTransposed) {
  const Scratch scratch;
  const Model model(hf::config_of("deepseek_v3"));  // 4 heads of 6 + 5 rows of 10 numbers
  model.to(scratch / "model.gguf");
  const GgufFile file(scratch / "model.gguf");
  EXPECT_EQ(file.tensors.at("blk.0.attn_k_b.weight").dims, (std::vector<uint64_t>{6, 10, 4}));
  EXPECT_EQ(file.tensors.at("blk.0.attn_v_b.weight").dims, (std::vector<uint64_t>{10, 5, 4}));
  const std::vector<float> keys = file.f32("blk.0.attn_k_b.weight"),
                           values = file.f32("blk.0.attn_v_b.weight");
  const std::vector<float>& ours = model.values.at("blocks.0.attention.kv_b.weight");
  for (size_t head = 0; head < 4; ++head)
    for (size_t c = 0; c < 10; ++c) {
      for (size_t j = 0; j < 6; ++j) EXPECT_EQ(keys[(head * 10 + c) * 6 + j], ours[(head * 11 + j) * 10 + c]);
      for (size_t j = 0; j < 5; ++j)
        EXPECT_EQ(values[(head * 5 + j) * 10 + c], ours[(head * 11 + 6 + j) * 10 + c]);
    }
}

TEST(Gguf, Q8HasAScaleForEach32Numbers) {
  std::vector<float> numbers(64);
  for (size_t i = 0; i < 32; ++i) numbers[i] = static_cast<float>(i) - 15;  // largest magnitude 16
  char bytes[68];
  EXPECT_EQ(encode(Type::kQ8_0, numbers.data(), 64, bytes), -1);
  for (size_t block = 0; block < 2; ++block) {
    float scale;
    hf::widen(DType::kF16, bytes + 34 * block, 1, &scale);
    EXPECT_NEAR(scale, block == 0 ? 16.0f / 127 : 0.0f, 1e-4f);
    for (size_t i = 0; i < 32; ++i) {
      const float exact = numbers[32 * block + i];
      EXPECT_EQ(static_cast<int8_t>(bytes[34 * block + 2 + i]), std::lround(exact / 16 * 127)) << i;
    }
  }
  numbers[40] = INFINITY;
  EXPECT_EQ(encode(Type::kQ8_0, numbers.data(), 64, bytes), 40);
  numbers[40] = 3e9f;  // its scale is beyond f16
  EXPECT_EQ(encode(Type::kQ8_0, numbers.data(), 64, bytes), 32);
}

TEST(Gguf, RefusalsNameTheReasonAndLeaveNothing) {
  const Scratch scratch;
  const std::string path = scratch / "model.gguf";
  const Model llama(hf::config_of("llama"));
  const auto refused = [&](const std::string& word, Code code, const std::function<void()>& call) {
    const Error error = error_of(call);
    EXPECT_EQ(error.code(), code);
    EXPECT_NE(error.message().find(word), error.message().npos) << error.message();
    EXPECT_EQ(listing(scratch.path()), "");
  };
  refused("'q4'", Code::kInvalidArgument, [&] { llama.to(path, "q4"); });
  refused("rows of 24", Code::kInvalidArgument, [&] { llama.to(path, "q8_0"); });
  Model huge(hf::config_of("llama"));
  huge.values.at("blocks.1.mlp.up.weight")[3] = 1e6f;
  refused("blk.1.ffn_up.weight has the value", Code::kOutOfRange, [&] { huge.to(path, "f16"); });
  refused("tokenizer.json", Code::kCheckpointCorrupt, [&] {
    llama.to(path, "f32", {{"tokenizer.json", "["}});
  });
  refused("tokenizer.json", Code::kCheckpointCorrupt, [&] {
    llama.to(path, "f32", {{"tokenizer.json", "{}"}});
  });
  refused("Unigram", Code::kFailedPrecondition, [&] {
    llama.to(path, "f32", {{"tokenizer.json", R"({"model": {"type": "Unigram"}})"}});
  });
  llama.to(path);
  const std::string before = read_text(path);
  EXPECT_EQ(error_of([&] { llama.to(path); }).code(), Code::kAlreadyExists);
  EXPECT_EQ(read_text(path), before);
  EXPECT_EQ(listing(scratch.path()), "model.gguf");
}

}  // namespace gguf_test
}  // namespace hawser::checkpoint::gguf
