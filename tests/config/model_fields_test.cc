// Model fields test: every key of the config's sections has a row, names of enums have their meaning, and
// every walk along the table of the model's keys preserves the model.
#include "engine/config/model_fields.h"
#include "engine/base/json.h"

#include <gtest/gtest.h>

#include <set>

#include "engine/config/key_reader.h"
#include "engine/parallel/pipeline/schedule.h"
#include "engine/parallel/recompute.h"

namespace hawser::config {
namespace model_fields_test {

nn::ModelConfig model_of(const OrderedJson& section) {
  return resolve(ConfigTree::from_json(OrderedJson{{"model", section}}.dump())).model;
}

OrderedJson small() {
  return {{"vocab_size", 100}, {"context", 32}, {"layers", 3}, {"width", 48}, {"heads", 4}};
}

void add_keys(const TableView& table, const std::string& prefix, std::set<std::string>* keys) {
  for (const FieldView& field : table.fields) {
    if (field.kind == FieldKind::kTable) add_keys(*field.table, prefix + field.name + "/", keys);
    if (field.kind != FieldKind::kTable) keys->insert(prefix + field.name);
  }
}

TEST(ModelFields, TableHasEveryKeyOfTheSchema) {
  std::set<std::string> schema,
      table{"bias/all", "window_layers"};  // expressed by the other biases, and by window
  add_keys(*schema_at("/model")->table, "", &schema);
  nn::ModelConfig model;
  nn::each_model_key(model,
                     [&](const char* key, const auto&, bool) { EXPECT_TRUE(table.insert(key).second); });
  EXPECT_EQ(table, schema);
}

/// Adds the pointers of a struct's rows.
struct AddRows {
  std::set<std::string>* keys;
  std::string prefix;

  template <typename Member>
  void operator()(const char* key, Member& member, bool = true) const {
    if constexpr (Section<Member>)
      each_key(member, AddRows{keys, prefix + key + "/"});
    else
      EXPECT_TRUE(keys->insert(prefix + key).second) << key;
  }
};

TEST(Rows, HaveEveryKeyOfTheSchema) {
  std::set<std::string> keys;
  add_keys(schema(), "", &keys);
  std::erase_if(keys, [](const std::string& key) { return key.starts_with("model/"); });
  // Rules, files and the rest of decode.cc read these.
  std::set<std::string> rows{"preset",
                             "adapter/base",
                             "data/path",
                             "data/vocabulary",
                             "data/vocab_size",
                             "moe/dispatch",
                             "recompute/policy",
                             "recompute/every",
                             "recompute/arrays",
                             "recompute/rows",
                             "recompute/compress",
                             "train/epochs",
                             "train/epoch_samples"};
  ResolvedConfig resolved;
  each_key(resolved, AddRows{&rows, ""});
  each_key(resolved.model.adapter, AddRows{&rows, "adapter/"});
  EXPECT_EQ(rows, keys);
}

TEST(Rows, NamesOfEnumsHaveTheirMeaning) {
  const auto numbers = []<size_t N>(const char* pointer, const char* const(&names)[N]) {
    int64_t number = 0;
    for (const char* name : names) {
      EXPECT_EQ(number_of(*schema_at(pointer), name), number) << pointer;
      EXPECT_EQ(name_of(*schema_at(pointer), number++), name) << pointer;
    }
    return number;  // the last one's, plus one
  };
  const auto after = [](auto last) { return static_cast<int64_t>(last) + 1; };
  EXPECT_EQ(numbers("/precision", {"fp32", "bf16", "bf16_pure", "fp16", "fp8"}), after(Precision::kFp8));
  EXPECT_EQ(numbers("/fp8/recipe", {"delayed", "current", "blocks"}), after(Fp8Recipe::kBlocks));
  EXPECT_EQ(numbers("/output_type", {"fp32", "bf16"}), after(Precision::kBf16));
  EXPECT_EQ(numbers("/cuda/residual", {"f32", "bf16"}), after(DType::kBf16));
  EXPECT_EQ(numbers("/data/format", data::kDataFormatNames), after(DataFormat::kPrepared));
  EXPECT_EQ(numbers("/data/vocabulary", data::kVocabularyKindNames), after(VocabularyKind::kTokenizer));
  EXPECT_EQ(numbers("/data/token_type", data::kTokenTypeNames), after(TokenType::kU32));
  EXPECT_EQ(numbers("/objective/kind",
                    {"cross_entropy", "dpo", "ipo", "hinge", "dpo_sft", "simpo", "orpo", "reward"}),
            after(ObjectiveKind::kReward));
  EXPECT_EQ(numbers("/optimizer/kind", {"adamw", "sgd", "lion", "muon", "adamw8"}),
            after(OptimizerKind::kAdamW8));
  EXPECT_EQ(numbers("/optimizer/muon_scale", {"match_adamw", "spectral"}),
            after(optim::MuonScale::kSpectral));
  EXPECT_EQ(numbers("/schedule/kind", {"constant", "linear", "cosine", "wsd", "inverse_sqrt"}),
            after(ScheduleKind::kInverseSqrt));
  EXPECT_EQ(numbers("/guard/outlier", {"keep", "skip", "rewind"}), after(OutlierPolicy::kRewind));
  EXPECT_EQ(numbers("/checkpoint/on_error", {"stop", "go_on"}), after(SaveFailure::kGoOn));
  EXPECT_EQ(numbers("/checkpoint/when_busy", {"wait", "refuse"}), after(SaveBusy::kRefuse));
  EXPECT_EQ(numbers("/mesh/cp_mode", mesh::kContextModeNames), after(mesh::ContextMode::kGather));
  for (const parallel::pipeline::ScheduleRow& row : parallel::pipeline::kSchedules)
    EXPECT_EQ(number_of(*schema_at("/pipeline/schedule"), row.name), static_cast<int64_t>(row.schedule));
  EXPECT_EQ(numbers("/recompute/policy", {"off", "full", "selective", "every"}),
            after(parallel::RecomputePolicy::kEvery));
  EXPECT_EQ(numbers("/offload/activations", {"off", "host", "disk"}), after(OffloadSpace::kDisk));
  EXPECT_EQ(numbers("/offload/gradients", {"off", "host"}), after(OffloadSpace::kHost));
  EXPECT_EQ(numbers("/zero/reduce", {"per_step", "per_micro_batch"}), after(ReducePolicy::kPerMicroBatch));
  EXPECT_EQ(numbers("/zero/reshard_after_forward", {"full", "keep", "group"}),
            after(ReshardAfterForward::kGroup));
  EXPECT_EQ(numbers("/zero/gradient_type", {"fp32", "bf16"}), after(DType::kBf16));
  EXPECT_EQ(numbers("/zero/sum_order", {"ranks", "tree"}), after(SumOrder::kTree));
  EXPECT_EQ(numbers("/comm/device_transport", {"auto", "host", "nccl"}), after(DeviceTransport::kNccl));
}

TEST(ModelFields, WordsOfEnumsHaveTheirMeaning) {
  const auto read = [](const char* key, const char* word) {
    OrderedJson section = small();
    section["norm"] = "rms_norm", section["position"] = "rotary";
    if (std::string(key) == "/rope/scaling") section["rope"]["factor"] = 2;
    if (std::string(key) == "/moe/score") section["moe"]["experts"] = 4;
    if (std::string(word) == "llama3") section["rope"]["original_context"] = 16;
    section[OrderedJson::json_pointer(key)] = word;
    return model_of(section);
  };
  EXPECT_EQ(read("/norm", "layer_norm").norm, nn::Norm::kLayerNorm);
  EXPECT_EQ(read("/norm", "rms_norm").norm, nn::Norm::kRmsNorm);
  EXPECT_EQ(read("/mlp", "gelu").mlp, nn::MlpKind::kGelu);
  EXPECT_EQ(read("/mlp", "gelu_tanh").mlp, nn::MlpKind::kGeluTanh);
  EXPECT_EQ(read("/mlp", "swiglu").mlp, nn::MlpKind::kSwiGlu);
  EXPECT_EQ(read("/mlp", "geglu").mlp, nn::MlpKind::kGeGlu);
  EXPECT_EQ(read("/mlp", "geglu_exact").mlp, nn::MlpKind::kGeGluExact);
  EXPECT_EQ(read("/mlp", "swiglu_clamped").mlp, nn::MlpKind::kSwiGluClamped);
  EXPECT_EQ(read("/position", "learned").position, nn::Position::kLearned);
  EXPECT_EQ(read("/position", "rotary").position, nn::Position::kRotary);
  EXPECT_EQ(read("/position", "none").position, nn::Position::kNone);
  EXPECT_EQ(read("/moe/score", "softmax").moe.score, nn::RouterScore::kSoftmax);
  EXPECT_EQ(read("/moe/score", "sigmoid").moe.score, nn::RouterScore::kSigmoid);
  EXPECT_EQ(read("/rope/scaling", "linear").rope.scaling, nn::RopeScaling::kLinear);
  EXPECT_EQ(read("/rope/scaling", "llama3").rope.scaling, nn::RopeScaling::kLlama3);
  EXPECT_EQ(read("/rope/scaling", "yarn").rope.scaling, nn::RopeScaling::kYarn);
}

TEST(ModelFields, EveryKeyThatIsWrittenIsReadAndCompared) {
  OrderedJson section = small();
  section.update({{"norm", "rms_norm"}, {"mlp", "swiglu"}, {"window", 8}, {"window_layers", {0, 2}}});
  section["ahead"] = 2;
  section["rope"] = {{"scaling", "yarn"}, {"factor", 4}};
  section["moe"] = {{"experts", 8},  {"groups", 4},        {"top_groups", 3},
                    {"layers", {1}}, {"shared_width", 16}, {"shared_gate", true}};
  const nn::ModelConfig model = model_of(section);
  const OrderedJson written = model_json(model).flatten();
  EXPECT_TRUE(model_differences(model, model_of(model_json(model))).empty());
  for (const auto& [key, value] : written.items()) {
    if (value.is_string() || key.starts_with("/window_layers")) continue;
    const bool is_layers = key.starts_with("/moe/layers");
    nn::ModelConfig other = model;
    nn::each_model_key(other, [&, name = key.substr(1)](const char* k, auto& member, bool) {
      using Member = std::remove_reference_t<decltype(member)>;
      if constexpr (std::is_same_v<Member, bool>) {
        if (name == k) member = !member;
      } else if constexpr (std::is_arithmetic_v<Member>) {
        if (name == k) member += 1;
      } else if constexpr (std::is_same_v<Member, nn::LayerSet>) {
        if (is_layers && std::string("moe/layers") == k) member.has = {true, false, false};
      } else if constexpr (!std::is_enum_v<Member>) {
        if (name == k) member = {9, 0, 9};
      }
    });
    const std::vector<std::string> expected =
        key.starts_with("/dropout/") ? std::vector<std::string>{} : std::vector<std::string>{key};
    EXPECT_EQ(model_differences(model, other), expected);
    EXPECT_NE(model_json(other), model_json(model)) << key;
  }
}

TEST(ModelFields, KeysWithoutMeaningAreNeitherWrittenNorCompared) {
  nn::ModelConfig model = default_model(), other = model;
  EXPECT_FALSE(model_json(model).contains("rope"));
  EXPECT_FALSE(model_json(model)["bias"].contains("gate"));
  other.rope.theta = 5, other.bias.gate = true;
  EXPECT_TRUE(model_differences(model, other).empty());
  other.mlp = nn::MlpKind::kSwiGlu;
  EXPECT_EQ(model_differences(model, other), (std::vector<std::string>{"/mlp", "/bias/gate"}));
}

TEST(ModelFields, NumbersThatOtherFilesStoredNarrowlyAreTheSame) {
  nn::ModelConfig model = default_model(), other = model;
  other.norm_eps = static_cast<double>(static_cast<float>(model.norm_eps));
  EXPECT_TRUE(model_differences(model, other).empty());
  other.norm_eps = model.norm_eps * 1.00001;
  EXPECT_EQ(model_differences(model, other), std::vector<std::string>{"/norm_eps"});
}

}  // namespace model_fields_test
}  // namespace hawser::config
