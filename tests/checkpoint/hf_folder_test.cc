// Folder test: import and export of complete Hugging Face folders are exact in both directions for every
// family, dtype, name style and shard layout, and nothing is written if something does not fit.
#include <cmath>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>

#include "engine/checkpoint/hf/hf_config.h"
#include "engine/checkpoint/hf/hf_model.h"
#include "engine/checkpoint/hf/import_record.h"
#include "engine/checkpoint/hf/number_format.h"
#include "engine/checkpoint/safetensors_writer.h"
#include "tests/checkpoint/hf_folder_case.h"

namespace hawser::checkpoint::hf {
namespace hf_folder_test {

TEST(HfFolder, ExportOfImportGivesTheSameFiles) {
  const std::vector<Style> styles = {
      {"F32", true, 1}, {"BF16", true, 3}, {"F16", false, 1}, {"F32", false, 2}};
  for (const std::string& family : family_names())
    for (const Style& style : styles)
      for (const bool tied : {true, false}) {
        SCOPED_TRACE(fmt::format("{} {} prefixed {} shards {} tied {}", family, style.dtype, style.prefixed,
                                 style.shards, tied));
        const Scratch scratch;
        Json config = config_of(family);
        config["tie_word_embeddings"] = tied;
        Case a(config);
        a.fill(style);
        a.write(scratch / "in", style.shards);
        write_text(scratch / "in/tokenizer.json", "{\"x\": 1}");
        write_text(scratch / "in/tokenizer.model", std::string("\0\1\2", 3));
        ASSERT_TRUE(is_hf_folder(scratch / "in"));
        const ExtraFiles extra = a.import(scratch / "in");
        a.export_to(scratch / "out", extra);
        expect_same_folder(scratch / "in", scratch / "out");
        EXPECT_EQ(listing(scratch.path()), "in out");
      }
}

TEST(HfFolder, ExpertsInOneTensorAreReadAndWrittenAsTheyCame) {
  for (const std::string& family : family_names())
    for (const bool fused : {false, true}) {
      if (!has_experts(family) || is_gpt_oss(family)) continue;  // GPT-OSS has one style
      const Style style{"BF16", true, 2, {fused, true}};
      SCOPED_TRACE(fmt::format("{} {}", family, fused));
      const Scratch scratch;
      Case a(config_of(family));
      a.fill(style);
      const std::string layer = "model.layers.1.mlp.experts.";
      EXPECT_EQ(a.tensors.count(layer + (fused ? "gate_up_proj" : "3.gate_proj.weight")), 1u);
      a.write(scratch / "in", style.shards);
      a.export_to(scratch / "out", a.import(scratch / "in"));
      expect_same_folder(scratch / "in", scratch / "out");
    }
}

TEST(HfFolder, ExpertsAreReadUnderOldAndNewNames) {
  const auto moe_of = [](const char* family, const Json& changes) {
    Json config = config_of(family);
    config["num_hidden_layers"] = 4;
    for (const char* key : {"num_experts", "mlp_only_layers"}) config.erase(key);
    config.update(changes);
    return read_config(config.dump(), {}, Strictness::kStrict).model.moe;
  };
  for (const char* name : {"num_experts", "num_local_experts"}) {
    const nn::MoeConfig qwen = moe_of("qwen3_moe", {{name, 6}, {"decoder_sparse_step", 2}});
    EXPECT_EQ(qwen.experts, 6);
    EXPECT_EQ(qwen.layers.has, (std::vector<bool>{false, true, false, true}));
    EXPECT_FALSE(qwen.normalize);
  }
  EXPECT_EQ(moe_of("mixtral", Json::object()).experts, 4);
  EXPECT_TRUE(moe_of("mixtral", Json::object()).normalize);
  const nn::MoeConfig dots = moe_of("dots1", {{"first_k_dense_replace", 3}});
  EXPECT_EQ(dots.score, nn::RouterScore::kSigmoid);
  EXPECT_EQ(dots.shared_width, 24);
  EXPECT_EQ(dots.layers.has, (std::vector<bool>{false, false, false, true}));
}

TEST(HfFolder, BothStylesOfExpertsHoldTheSameMatrices) {
  const Scratch scratch;
  Case apart(config_of("qwen3_moe")), fused(config_of("qwen3_moe"));
  apart.fill({});
  fused.fill({"F32", true, 1, {true, false}});
  // The fused tensor has, for each expert e, gate and then up.
  const std::string layer = "model.layers.1.mlp.experts.";
  std::string gate_up, down;
  for (int e = 0; e < 4; ++e) {
    gate_up += apart.tensors.at(fmt::format("{}{}.gate_proj.weight", layer, e)).bytes;
    gate_up += apart.tensors.at(fmt::format("{}{}.up_proj.weight", layer, e)).bytes;
    down += apart.tensors.at(fmt::format("{}{}.down_proj.weight", layer, e)).bytes;
  }
  for (auto& [name, tensor] : fused.tensors)
    if (apart.tensors.count(name) != 0) tensor = apart.tensors.at(name);
  fused.tensors.at(layer + "gate_up_proj").bytes = gate_up;
  fused.tensors.at(layer + "down_proj").bytes = down;
  EXPECT_EQ(fused.tensors.at(layer + "gate_up_proj").shape, (std::vector<int64_t>{4, 24, 24}));
  apart.write(scratch / "apart", 1);
  fused.write(scratch / "fused", 1);
  apart.import(scratch / "apart");
  fused.import(scratch / "fused");
  for (const auto& [name, values] : apart.values)
    EXPECT_EQ(std::memcmp(values.data(), fused.values.at(name).data(), 4 * values.size()), 0) << name;
}

TEST(HfFolder, ExpertsThatAreMissingDoubledOrOfAnotherShapeAreNamed) {
  const auto message = [](const auto& change) {
    const Scratch scratch;
    Case a(config_of("mixtral"));
    a.fill({});
    change(&a.tensors);
    a.write(scratch / "in", 1);
    try {
      a.import(scratch / "in");
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const std::string third = "model.layers.1.block_sparse_moe.experts.3.w2.weight";
  EXPECT_NE(message([&](auto* t) { t->erase(third); }).find("missing (1): " + third), std::string::npos);
  EXPECT_NE(message([&](auto* t) {
              t->insert({"model.layers.1.block_sparse_moe.experts.4.w2.weight", t->at(third)});
            }).find("experts.4.w2.weight"),
            std::string::npos);
  EXPECT_NE(message([&](auto* t) {
              t->at(third).shape = {20, 24};
            }).find(third + " is [20, 24]"),
            std::string::npos);
}

TEST(HfFolder, Gpt2ProjectionsAreSplitAndTransposed) {
  const Scratch scratch;
  Case a(config_of("gpt2"));
  a.fill({});
  Stored& weight = a.tensors.at("transformer.h.1.attn.c_attn.weight");
  ASSERT_EQ(weight.shape, (std::vector<int64_t>{24, 72}));
  for (int in = 0; in < 24; ++in)
    for (int out = 0; out < 72; ++out) {
      const float value = static_cast<float>(in * 100 + out);
      std::memcpy(weight.bytes.data() + 4 * (in * 72 + out), &value, 4);
    }
  a.write(scratch / "in", 1);
  a.import(scratch / "in");
  const auto at = [&](const char* letter, int out, int in) {
    return a.values.at(
        fmt::format("blocks.1.attention.{}.weight", letter))[static_cast<size_t>(out * 24 + in)];
  };
  EXPECT_EQ(at("q", 0, 0), 0.0f);
  EXPECT_EQ(at("q", 23, 5), 523.0f);
  EXPECT_EQ(at("k", 0, 7), 724.0f);
  EXPECT_EQ(at("v", 2, 23), 2350.0f);
}

TEST(HfFolder, OldBuffersAreRecognisedAndGivenBack) {
  const Scratch scratch;
  Case a(config_of("gpt2"));
  a.fill({"F32", false, 1});
  std::string mask, mask16;
  for (int row = 0; row < 16; ++row)
    for (int column = 0; column < 16; ++column) {
      const float value = column <= row ? 1.0f : 0.0f;
      mask.append(reinterpret_cast<const char*>(&value), 4);
      mask16 += column <= row ? '\1' : '\0';
    }
  const float minus = -1e4f;
  a.tensors["h.0.attn.bias"] = {"F32", {1, 1, 16, 16}, mask};
  a.tensors["h.1.attn.bias"] = {"BOOL", {1, 1, 16, 16}, mask16};
  a.tensors["h.0.attn.masked_bias"] = {"F32", {}, std::string(reinterpret_cast<const char*>(&minus), 4)};
  a.tensors["lm_head.weight"] = a.tensors.at("wte.weight");  // tied, but stored anyway
  a.write(scratch / "in", 1);
  a.export_to(scratch / "out", a.import(scratch / "in"));
  expect_same_folder(scratch / "in", scratch / "out");

  Case b(config_of("llama"));
  b.fill({"BF16", true, 1});
  std::string frequencies;
  for (int i = 0; i < 4; ++i) {
    const float value = static_cast<float>(std::pow(10000.0, -i / 4.0));
    frequencies.append(reinterpret_cast<const char*>(&value), 4);
  }
  b.tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = {"F32", {4}, frequencies};
  b.write(scratch / "in2", 2);
  b.export_to(scratch / "out2", b.import(scratch / "in2"));
  expect_same_folder(scratch / "in2", scratch / "out2");

  // Constant buffers with other values are refused.
  a.tensors["h.1.attn.bias"].bytes[5] = '\1';
  b.tensors["model.layers.0.self_attn.rotary_emb.inv_freq"].bytes[7] ^= 1;
  std::filesystem::remove_all(scratch / "in");
  std::filesystem::remove_all(scratch / "in2");
  a.write(scratch / "in", 1);
  b.write(scratch / "in2", 1);
  EXPECT_EQ(error_of([&] { a.import(scratch / "in"); }).code(), Code::kCheckpointIncompatible);
  EXPECT_EQ(error_of([&] { b.import(scratch / "in2"); }).code(), Code::kCheckpointIncompatible);
  a.tensors["h.1.attn.bias"] = {"BOOL", {1, 1, 16, 16}, mask16};
  a.tensors["lm_head.weight"].bytes[0] ^= 1;
  std::filesystem::remove_all(scratch / "in");
  a.write(scratch / "in", 1);
  EXPECT_NE(error_of([&] { a.import(scratch / "in"); }).message().find("tie_word_embeddings"),
            std::string::npos);
}

TEST(HfFolder, WhatDoesNotFitIsListedAndNothingIsWritten) {
  const Scratch scratch;
  Case a(config_of("qwen3"));
  a.fill({});
  a.tensors.erase("model.layers.1.mlp.up_proj.weight");
  a.tensors.erase("lm_head.weight");
  a.tensors["model.layers.2.mlp.up_proj.weight"] = {"F32", {1}, "abcd"};
  a.tensors.at("model.norm.weight") = {"F32", {12, 2}, std::string(96, '\0')};
  a.tensors.at("model.layers.0.self_attn.q_norm.weight") = {"F64", {8}, std::string(64, '\0')};
  a.write(scratch / "in", 1);
  const Error error = error_of([&] { a.import(scratch / "in"); });
  EXPECT_EQ(error.code(), Code::kCheckpointIncompatible);
  const Json details = Json::parse(error.details());
  EXPECT_EQ(details["missing"], (Json{"model.layers.1.mlp.up_proj.weight", "lm_head.weight"}));
  EXPECT_EQ(details["unknown"], (Json{"'model.layers.2.mlp.up_proj.weight'"}));
  EXPECT_EQ(details["shapes"], (Json{"model.norm.weight is [12, 2], not [24]"}));
  EXPECT_EQ(details["dtypes"], (Json{"model.layers.0.self_attn.q_norm.weight is F64"}));
  for (const char* word : {"missing (2)", "unknown (1)", "lm_head.weight"})
    EXPECT_NE(error.message().find(word), std::string::npos) << error.message();
  for (const auto& [name, values] : a.values)
    for (const float value : values) ASSERT_EQ(value, -7.0f) << name;
}

TEST(HfFolder, IndexesThatLieAreRefused) {
  const Scratch scratch;
  Case a(config_of("llama"));
  a.fill({});
  a.write(scratch / "in", 2);
  const std::string path = scratch / "in/model.safetensors.index.json";
  const Json good = Json::parse(read_text(path));
  const auto refused = [&](const Json& index, Code code) {
    write_text(path, index.dump());
    EXPECT_EQ(error_of([&] { a.import(scratch / "in"); }).code(), code) << index.dump().substr(0, 300);
  };
  for (const char* file : {"../in/model-00001-of-00002.safetensors", "/etc/passwd", "", "..", "a/b"}) {
    Json index = good;
    index["weight_map"]["model.norm.weight"] = file;
    refused(index, Code::kCheckpointCorrupt);
  }
  Json index = good;
  index["weight_map"]["model.norm.weight"] = "absent.safetensors";
  refused(index, Code::kNotFound);
  index = good;
  index["weight_map"]["more"] = "model-00001-of-00002.safetensors";
  refused(index, Code::kCheckpointCorrupt);
  index = good;
  index["weight_map"]["model.norm.weight"] = 3;
  refused(index, Code::kCheckpointCorrupt);
  refused({{"weight_map", Json::object()}}, Code::kCheckpointCorrupt);
  refused({{"a", 1}}, Code::kCheckpointCorrupt);
  write_text(path, std::string(100'000, '['));
  EXPECT_EQ(error_of([&] { a.import(scratch / "in"); }).code(), Code::kCheckpointCorrupt);
  std::filesystem::remove(path);
  EXPECT_FALSE(is_hf_folder(scratch / "in"));
  EXPECT_EQ(error_of([&] { a.import(scratch / "in"); }).code(), Code::kNotFound);
}

TEST(HfFolder, DtypeCanBeChosen) {
  const Scratch scratch;
  Case a(config_of("llama"));
  a.fill({"BF16", true, 1});
  for (auto& [name, tensor] : a.tensors)
    for (size_t i = 1; i < tensor.bytes.size(); i += 2) tensor.bytes[i] = 0x3f;  // finite, about 1
  a.write(scratch / "in", 1);
  const ExtraFiles extra = a.import(scratch / "in");
  a.export_to(scratch / "f32", extra, "f32");
  EXPECT_EQ(Json::parse(read_text(scratch / "f32/config.json"))["torch_dtype"], "float32");
  Case b(config_of("llama"));
  const ExtraFiles wide = b.import(scratch / "f32");
  EXPECT_EQ(a.values, b.values);
  b.export_to(scratch / "bf16", wide, "bf16");
  EXPECT_TRUE(read_text(scratch / "bf16/model.safetensors") == read_text(scratch / "in/model.safetensors"));
  EXPECT_EQ(Json::parse(read_text(scratch / "bf16/config.json"))["torch_dtype"], "bfloat16");
  b.values.at("final_norm.weight")[3] = 1e5f;
  const Error error = error_of([&] { b.export_to(scratch / "f16", wide, "f16"); });
  EXPECT_EQ(error.code(), Code::kOutOfRange);
  EXPECT_NE(error.message().find("model.norm.weight"), std::string::npos) << error.message();
  EXPECT_EQ(error_of([&] { b.export_to(scratch / "f16", wide, "fp16"); }).code(), Code::kInvalidArgument);
  EXPECT_EQ(error_of([&] { b.export_to(scratch / "in", wide); }).code(), Code::kAlreadyExists);
  EXPECT_EQ(listing(scratch.path()), "bf16 f32 in");
}

TEST(HfFolder, AModelMadeHereCanBeExportedAndComesBack) {
  for (const std::string& family : family_names()) {
    SCOPED_TRACE(family);
    const Scratch scratch;
    Case a(config_of(family));
    float next = 0.5f;
    for (const nn::Parameter& p : a.table->all())
      for (int64_t i = 0; i < p.size; ++i) a.values[p.name].push_back(next += 0.25f);
    a.export_to(scratch / "out", {}, "");
    EXPECT_EQ(listing(scratch / "out"), "config.json model.safetensors");
    Case b(Json::parse(read_text(scratch / "out/config.json")));
    b.import(scratch / "out");
    EXPECT_EQ(a.values, b.values);
  }
}

TEST(HfFolder, AChangedModelGetsANewConfigWithTheOldTokens) {
  const Scratch scratch;
  Json config = config_of("llama");
  config["eos_token_id"] = {7, 8};
  config["_name_or_path"] = "somewhere";
  Case a(config);
  a.fill({"BF16", true, 2});
  a.write(scratch / "in", 2);
  const ExtraFiles extra = a.import(scratch / "in");
  a.model.context = 64;  // same tensors, different context
  a.model.padding_token = 3;
  a.export_to(scratch / "out", extra);
  const Json made = Json::parse(read_text(scratch / "out/config.json"));
  EXPECT_EQ(made["max_position_embeddings"], 64);
  EXPECT_EQ(made["eos_token_id"], (Json{7, 8}));
  EXPECT_EQ(made["pad_token_id"], 3);
  EXPECT_EQ(made["_name_or_path"], "somewhere");
  EXPECT_EQ(made["dtype"], "bfloat16");
  EXPECT_TRUE(read_text(scratch / "out/model-00001-of-00002.safetensors") ==
              read_text(scratch / "in/model-00001-of-00002.safetensors"));
  // A separate head is another set of tensors, so the export uses Transformers' own layout.
  a.model.tied_head = true;
  a.table = std::make_unique<nn::ParameterTable>(a.model);
  a.export_to(scratch / "tied", extra);
  EXPECT_EQ(listing(scratch / "tied"), "config.json model.safetensors");
  Case b(Json::parse(read_text(scratch / "tied/config.json")));
  b.import(scratch / "tied");
  EXPECT_EQ(b.values.at("final_norm.weight"), a.values.at("final_norm.weight"));
}

TEST(HfFolder, CarriedFilesHaveALimit) {
  const Scratch scratch;
  Case a(config_of("gpt2"));
  a.fill({});
  a.write(scratch / "in", 1);
  write_text(scratch / "in/tokenizer.model", "x");
  std::filesystem::resize_file(scratch / "in/tokenizer.model", (int64_t{128} << 20) + 1);  // sparse
  const Error error = error_of([&] { a.import(scratch / "in"); });
  EXPECT_EQ(error.code(), Code::kOutOfRange);
  EXPECT_NE(error.message().find("tokenizer.model"), std::string::npos);
}

TEST(HfFolder, ADamagedRecordIsAnError) {
  const Scratch scratch;
  Case a(config_of("gpt2"));
  a.fill({});
  a.write(scratch / "in", 1);
  ExtraFiles extra = a.import(scratch / "in");
  for (
      const char* text :
      {"", "{}", "[]", R"({"version": 1})",
       R"({"version": 1, "prefixed": true, "sharded": false, "files": [{"name": "../x", "metadata": {}, "tensors": []}]})"}) {
    extra[kRecordName] = text;
    EXPECT_EQ(error_of([&] { a.export_to(scratch / "out", extra); }).code(), Code::kCheckpointCorrupt)
        << text;
  }
  EXPECT_EQ(listing(scratch.path()), "in");
}

}  // namespace hf_folder_test
}  // namespace hawser::checkpoint::hf
