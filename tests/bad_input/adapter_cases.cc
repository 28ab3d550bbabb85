// Adapter cases: configs that match no module or have no effect, and PEFT folders that fit no model.
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "tests/bad_input/case.h"
#include "tests/bad_input/site.h"

namespace hawser::bad_input {
namespace adapter_cases {

constexpr const char* kConfig = "peft/adapter_config.json";
constexpr const char* kWeights = "peft/adapter_model.safetensors";
constexpr char kTrainedSinks[] =
    R"({"adapter": {"rank": 4, "targets": ["attention.q"], "train": ["*.sinks"]}, "model": {"norm": "rms_norm", "mlp": "swiglu_clamped", "position": "rotary", "sinks": true, "tied_head": false, "bias": {"all": true, "norm": false, "router": true}, "moe": {"experts": 4, "top_k": 2, "width": 8}}})";
constexpr const char* kDora = R"({"rank": 4, "dora": true})";

/// Makes a row with `adapter` as that section of sound_config.
Case bad(const std::string& adapter, std::vector<std::string> words) {
  return {"`" + adapter + "`", HWS_CONFIG_INVALID, std::move(words), [adapter](Site&) {
            return plan(sound_config(Json{{"adapter", Json::parse(adapter)}}));
          }};
}

Json with_model(const Site& site, Json adapter) {
  return sound_config(Json{{"init", {{"from", site.path("model")}}}, {"adapter", std::move(adapter)}});
}

/// A row that changes a valid PEFT folder for the site's Hugging Face folder, and loads it.
Case folder(const std::string& what, int32_t status, std::vector<std::string> words,
            const std::function<void(Site&)>& change, const char* adapter = R"({"rank": 4})") {
  return {what, status, std::move(words), [change, adapter](Site& site) {
            site.hugging_face();
            const std::string peft = site.path("peft");
            const int32_t made = create(with_model(site, Json::parse(adapter)), 0, [&](hws_engine* engine) {
              return hws_engine_export_adapter(engine, peft.c_str());
            });
            if (made != HWS_OK) return made;
            change(site);
            return create(with_model(site, Json{{"from", peft}}));
          }};
}

Case setting(const std::string& patch, std::vector<std::string> words) {
  return folder("adapter_config.json with `" + patch + "`", HWS_CONFIG_INVALID, std::move(words),
                [patch](Site& site) {
                  site.change_json(kConfig, [&](Json& json) { json.merge_patch(Json::parse(patch)); });
                });
}

Case weights(const std::string& what, std::vector<std::string> words,
             const std::function<void(Json&)>& change) {
  return folder(what, HWS_CHECKPOINT_INCOMPATIBLE, std::move(words),
                [change](Site& site) { site.change_header(kWeights, change); });
}

std::vector<Case> configs() {
  return {
      bad(R"({"rank": 4, "targets": ["attention.kq"]})",
          {"/adapter/targets/0", "no module's name", "did you mean"}),
      bad(R"({"rank": 4, "targets": ["attn.c_attn"]})",
          {"/adapter/targets/0", "names look like", "attention.q"}),
      bad(R"({"rank": 4, "targets": ["attention.q", "attention.qkv"]})",
          {"/adapter/targets", "both attention.qkv and attention.q"}),
      bad(R"({"rank": 4, "ranks": [{"of": "mlp.gate", "rank": 2}]})", {"/adapter/ranks/0/of", "mlp.gate"}),
      bad(R"({"rank": 4, "alphas": [{"of": "mlp.up"}]})", {"/adapter/alphas/0/alpha", "is missing"}),
      bad(R"({"rank": 17})",
          {"/adapter/rank", "rank 17 is above the 16 inputs", "use 16 or less", "adapter.ranks"}),
      bad(R"({"rank": -1})", {"/adapter/rank", "-1", "minimum 0"}),
      bad(R"({"rank": 4, "dropout": 1})", {"/adapter/dropout", "not less than 1"}),
      bad(R"({"rank": 4, "train": ["head.weight"]})",
          {"/adapter/train/0", "no parameter's name", "head.weight"}),
      bad(R"({"alpha": 8})", {"/adapter/alpha", "no effect: adapter.rank is 0", "such as 16"}),
      bad(R"({"targets": ["*"]})", {"/adapter/targets", "no effect"}),
      bad(R"({"dora": true})", {"/adapter/dora", "no effect: adapter.rank is 0"}),
      bad(R"({"base": "nf4"})", {"/adapter/base", "no effect: adapter.rank is 0"}),
      bad(R"({"rank": 4, "base": "int4"})", {"/adapter/base", "int4", "nf4"}),
      bad(R"({"rank": 4, "base": "nf4", "train": ["blocks.*"]})",
          {"/adapter/base", "nf4 would store nothing", "fewer parameters in adapter.train"}),
      {"`adapter.base` nf4 with tensor-parallel ranks that would cut its blocks",
       HWS_CONFIG_INVALID,
       {"/adapter/base", "blocks of 64", "attention.o.weight: each rank would hold [16, 8] of [16, 16]",
        "set mesh.tp to 1"},
       [](Site&) {
         return plan(
             sound_config(Json::parse(R"({"mesh": {"tp": 2}, "adapter": {"rank": 4, "base": "nf4"}})")));
       }},
      {"checkpoints of an adapter on an nf4 base that no folder has",
       HWS_CONFIG_INVALID,
       {"/adapter/base", "do not contain an nf4 base", "init.from"},
       [](Site& site) {
         return plan(sound_config(Json{{"adapter", {{"rank", 4}, {"base", "nf4"}}},
                                       {"checkpoint", {{"path", site.path("saved")}}}}));
       }},
      {"an unknown field `qlora`",
       HWS_CONFIG_INVALID,
       {"qlora", "/adapter/base", "4 bits"},
       [](Site&) { return plan(sound_config(Json::parse(R"({"qlora": true})"))); }},
      {"an adapter on experts",
       HWS_CONFIG_INVALID,
       {"/adapter/targets/0", "moe.experts.up cannot have an adapter",
        "experts, routers and embedding tables cannot"},
       [](Site&) {
         return plan(sound_config(
             Json::parse(R"({"model": {"moe": {"experts": 4, "width": 8}, "bias": {"all": false}},
                                                 "adapter": {"rank": 2, "targets": ["moe.experts.*"]}})")));
       }},
      {"an adapter that freezes all it has with `optimizer.frozen`",
       HWS_CONFIG_INVALID,
       {"/optimizer/frozen", "nothing to train"},
       [](Site&) {
         return create(sound_config(
             Json::parse(R"({"adapter": {"rank": 2}, "optimizer": {"frozen": ["*.adapter_?.weight"]}})")));
       }},
  };
}

/// Returns untrusted adapter_config.json files that exceed a bound.
std::vector<Case> bounds() {
  return {
      setting(R"({"target_modules": "(q{1,1000}){1,1000}"})", {"target_modules", "more than 10000 states"}),
      folder("an expression of 65 groups within each other", HWS_CONFIG_INVALID,
             {"target_modules", "more than 64 levels of nested groups"},
             [](Site& site) {
               site.change_json(kConfig, [](Json& json) {
                 json["target_modules"] = std::string(65, '(') + "c_fc" + std::string(65, ')');
               });
             }),
      folder("12 expressions of 9,000 states", HWS_CONFIG_INVALID,
             {"rank_pattern", "have more than 100000 states together"},
             [](Site& site) {
               site.change_json(kConfig, [](Json& json) {
                 for (int i = 0; i < 12; ++i) json["rank_pattern"]["a{9000}" + std::to_string(i)] = 2;
               });
             }),
      folder("100,000 names that the model does not have", HWS_CONFIG_INVALID,
             {"modules_to_save", "the model has no module '0'", "has further problems"},
             [](Site& site) {
               site.change_json(kConfig, [](Json& json) {
                 json["modules_to_save"] = Json::array();
                 for (int i = 0; i < 100000; ++i) json["modules_to_save"].push_back(std::to_string(i));
               });
             }),
  };
}

std::vector<Case> folders() {
  return {
      folder("a folder without adapter_config.json", HWS_NOT_FOUND,
             {"is not a PEFT folder", "adapter_model.safetensors"},
             [](Site& site) { std::remove(site.path(kConfig).c_str()); }),
      folder("an adapter_config.json that is no JSON", HWS_CONFIG_PARSE, {"adapter_config.json", "JSON"},
             [](Site& site) { site.write(kConfig, "{"); }),
      setting(R"({"peft_type": "IA3"})", {"peft_type is '\"IA3\"'", "only \"LORA\""}),
      setting(R"({"use_dora": 1})", {"use_dora is '1'", "true or false"}),
      setting(R"({"use_qalora": true, "lora_ga_config": {"direction": "ArB2r"}})",
              {"use_qalora", "lora_ga_config", "not supported"}),
      setting(R"({"bias": "all"})", {"bias", "only \"none\""}),
      setting(R"({"lora_bias": true, "layer_replication": [[0, 1]]})", {"lora_bias", "layer_replication"}),
      setting(R"({"init_lora_weights": "pissa"})", {"init_lora_weights", "changes the base model's weights"}),
      setting(R"({"r": 0})", {"r is '0'", "a number from 1"}),
      setting(R"({"target_modules": ["q_proj"]})",
              {"target_modules", "selects no linear layer of this model"}),
      setting(R"({"target_modules": "(?=.*attn).*"})",
              {"target_modules", "cannot read the regular expression"}),
      setting(R"({"target_modules": ["c_fc", "wte"]})",
              {"target_modules", "it selects transformer.wte", "leave it out"}),
      setting(R"({"modules_to_save": ["classifier"]})",
              {"modules_to_save", "the model has no module 'classifier'"}),
      setting(R"({"modules_to_save": ["wte"]})",
              {"modules_to_save", "transformer.wte", "embedding and the head"}),
      setting(R"({"a_key_of_tomorrow": 3})", {"a_key_of_tomorrow", "could change the outputs"}),
      folder("weights of another rank", HWS_CHECKPOINT_INCOMPATIBLE,
             {"does not fit", "lora_A.weight has shape [4, 16] instead of [3, 16]"},
             [](Site& site) { site.change_json(kConfig, [](Json& json) { json["r"] = 3; }); }),
      folder("`use_dora` without magnitudes", HWS_CHECKPOINT_INCOMPATIBLE,
             {"does not fit", "mlp.c_fc.lora_magnitude_vector is missing"},
             [](Site& site) { site.change_json(kConfig, [](Json& json) { json["use_dora"] = true; }); }),
      folder(
          "magnitudes without `use_dora`", HWS_CHECKPOINT_INCOMPATIBLE,
          {"does not fit", "has no tensor 'base_model.model.transformer.h.0.mlp.c_fc.lora_magnitude_vector'"},
          [](Site& site) { site.change_json(kConfig, [](Json& json) { json["use_dora"] = false; }); }, kDora),
      folder(
          "magnitudes of another shape", HWS_CHECKPOINT_INCOMPATIBLE,
          {"does not fit", "mlp.c_fc.lora_magnitude_vector has shape [32, 2] instead of [64]"},
          [](Site& site) {
            site.change_header(kWeights, [](Json& h) {
              h["base_model.model.transformer.h.0.mlp.c_fc.lora_magnitude_vector"]["shape"] = {32, 2};
            });
          },
          kDora),
      weights("a tensor of another name", {"does not fit", "is missing", "has no tensor 'mine'"},
              [](Json& h) {
                const std::string name = "base_model.model.transformer.h.0.mlp.c_fc.lora_A.weight";
                h["mine"] = h[name];
                h.erase(name);
              }),
  };
}

std::vector<Case> not_finite() {
  return {
      folder("a factor that is NaN", HWS_NUMERIC,
             {"peft are not finite", "element [3, 15] is nan", "blocks.0.mlp.up.adapter_a.weight"},
             [](Site& site) {
               site.make_nan(kWeights, "base_model.model.transformer.h.0.mlp.c_fc.lora_A.weight");
             }),
      folder(
          "a magnitude that is NaN", HWS_NUMERIC,
          {"peft are not finite", "element [63] is nan", "blocks.0.mlp.up"},
          [](Site& site) {
            site.make_nan(kWeights, "base_model.model.transformer.h.0.mlp.c_fc.lora_magnitude_vector");
          },
          kDora),
  };
}

/// Calls with an engine whose base is random, in NF4.
int32_t with_nf4(const std::function<int32_t(hws_engine*)>& call) {
  return create(sound_config(Json::parse(R"({"adapter": {"rank": 2, "base": "nf4"}})")), 0, call);
}

std::vector<Case> exports() {
  return {
      {"saving an adapter whose nf4 base no folder has",
       HWS_FAILED_PRECONDITION,
       {"base in nf4", "it would be lost", "/init/from"},
       [](Site& site) {
         const std::string saved = site.path("saved");
         return with_nf4([&](hws_engine* engine) { return hws_checkpoint_save(engine, saved.c_str()); });
       }},
      {"setting a weight that is kept in nf4",
       HWS_FAILED_PRECONDITION,
       {"blocks.0.mlp.up.weight", "kept in nf4", "cannot hold these numbers exactly"},
       [](Site&) {
         return with_nf4([](hws_engine* engine) {
           const std::vector<float> zeros(64 * 16);
           return hws_tensor_set(engine, HWS_TENSOR_WEIGHT, "blocks.0.mlp.up.weight", zeros.data(),
                                 zeros.size() * sizeof(float));
         });
       }},
      {"export of an adapter that is not there",
       HWS_FAILED_PRECONDITION,
       {"has no adapter", "/adapter/rank"},
       [](Site& site) {
         return hws_checkpoint_export_adapter(site.checkpoint().c_str(), site.path("out").c_str());
       }},
      {"export of an adapter in a form that the family has not",
       HWS_FAILED_PRECONDITION,
       {"cannot be exported to PEFT", "must name attention.qkv"},
       [](Site& site) {
         site.hugging_face();
         return create(
             with_model(site, Json{{"rank", 4}, {"targets", {"attention.q"}}}), 0,
             [&](hws_engine* engine) { return hws_engine_export_adapter(engine, site.path("out").c_str()); });
       }},
      {"export of an adapter with trained attention sinks",
       HWS_FAILED_PRECONDITION,
       {"cannot hold blocks.0.attention.sinks without the modules in", "export the merged model"},
       [](Site& site) {
         return create(sound_config(Json::parse(kTrainedSinks)), 0, [&](hws_engine* engine) {
           return hws_engine_export_adapter(engine, site.path("out").c_str());
         });
       }},
      {"export of a reward model's adapter whose base pads by the token that ends texts",
       HWS_FAILED_PRECONDITION,
       {"pad_token_id in config.json of", "also a token that ends texts", "set pad_token_id to null"},
       [](Site& site) {
         site.hugging_face();
         site.change_json("model/config.json", [](Json& json) {
           json["pad_token_id"] = 3, json["eos_token_id"] = {2, 3};
         });
         Json config = with_model(site, Json{{"rank", 4}});
         config["model"]["head"] = "score";
         return create(config, 0, [&](hws_engine* engine) {
           return hws_engine_export_adapter(engine, site.path("out").c_str());
         });
       }},
  };
}

std::vector<Case> resumptions() {
  return {
      {"resuming with another rank",
       HWS_CHECKPOINT_INCOMPATIBLE,
       {"another model", "/adapter/rank: 2 here, 4 in the checkpoint"},
       [](Site& site) {
         const auto config = [](int64_t rank) { return sound_config(Json{{"adapter", {{"rank", rank}}}}); };
         const std::string saved = site.path("saved");
         create(config(4), 0, [&](hws_engine* engine) { return hws_checkpoint_save(engine, saved.c_str()); });
         return create(config(2), 0,
                       [&](hws_engine* engine) { return hws_checkpoint_load(engine, saved.c_str(), 0); });
       }},
      {"resuming with magnitudes that the checkpoint has not",
       HWS_CHECKPOINT_INCOMPATIBLE,
       {"another model", "/adapter/dora: true here, null in the checkpoint"},
       [](Site& site) {
         const std::string saved = site.path("saved");
         create(sound_config(Json{{"adapter", {{"rank", 4}}}}), 0,
                [&](hws_engine* engine) { return hws_checkpoint_save(engine, saved.c_str()); });
         return create(sound_config(Json{{"adapter", Json::parse(kDora)}}), 0,
                       [&](hws_engine* engine) { return hws_checkpoint_load(engine, saved.c_str(), 0); });
       }},
      {"resuming without the adapter",
       HWS_CHECKPOINT_INCOMPATIBLE,
       {"another model", "/adapter/rank: not known here"},
       [](Site& site) {
         const std::string saved = site.path("saved");
         create(sound_config(Json{{"adapter", {{"rank", 2}}}}), 0,
                [&](hws_engine* engine) { return hws_checkpoint_save(engine, saved.c_str()); });
         return create(sound_config(), 0,
                       [&](hws_engine* engine) { return hws_checkpoint_load(engine, saved.c_str(), 0); });
       }},
  };
}

/// A row with a saved adapter of the site's Hugging Face folder; `then` receives the config that opens it.
Case saved(const std::string& what, int32_t status, std::vector<std::string> words,
           const std::function<int32_t(Site&, const Json& init)>& then) {
  return {what, status, std::move(words), [then](Site& site) {
            site.hugging_face();
            const std::string tuned = site.path("tuned");
            const int32_t made = create(with_model(site, Json{{"rank", 4}}), 0, [&](hws_engine* engine) {
              return hws_checkpoint_save(engine, tuned.c_str());
            });
            return made != HWS_OK ? made : then(site, Json{{"from", tuned}});
          }};
}

int32_t open(const Json& init) { return create(sound_config(Json{{"init", init}}), HWS_ENGINE_INFERENCE); }

Case base_with_nan(const std::string& what, const Json& adapter) {
  return {
      what, HWS_NUMERIC, {"model are not finite", "is nan", "blocks.0.mlp.up.weight"}, [adapter](Site& site) {
        site.hugging_face();
        site.make_nan("model/model.safetensors", "transformer.h.0.mlp.c_fc.weight");
        return create(with_model(site, adapter));
      }};
}

std::vector<Case> bases() {
  return {
      saved("a checkpoint whose base is gone", HWS_NOT_FOUND,
            {"without its base weights", "has no model", "/init/base"},
            [](Site& site, const Json& init) {
              std::remove(site.path("model/config.json").c_str());
              return open(init);
            }),
      saved("a checkpoint whose base has changed", HWS_CHECKPOINT_INCOMPATIBLE,
            {"was trained on the weights in", "differ (1 of the tensors", "transformer.wte.weight"},
            [](Site& site, const Json& init) {
              std::string bytes = site.read("model/model.safetensors");
              bytes.back() = static_cast<char>(bytes.back() ^ 1);
              site.write("model/model.safetensors", bytes);
              return open(init);
            }),
      base_with_nan("a base with a weight that is NaN", Json{{"rank", 4}}),
      base_with_nan("the same in nf4", Json{{"rank", 4}, {"base", "nf4"}}),
      {"`init.base` for a model that has all weights",
       HWS_CONFIG_INVALID,
       {"/init/base", "has all its weights", "leave it out"},
       [](Site& site) {
         return open(Json{{"from", site.hugging_face()}, {"base", site.path("model")}});
       }},
      {"`init.base` without `init.from`",
       HWS_CONFIG_INVALID,
       {"/init/base", "leave it out"},
       [](Site& site) {
         return open(Json{{"base", site.hugging_face()}});
       }},
      {"a frozen weight below an adapter set by the host",
       HWS_FAILED_PRECONDITION,
       {"belongs to the frozen base", "change it there"},
       [](Site& site) {
         site.hugging_face();
         return create(with_model(site, Json{{"rank", 4}}), 0, [](hws_engine* engine) {
           const std::vector<float> zeros(16);
           return hws_tensor_set(engine, HWS_TENSOR_WEIGHT, "final_norm.weight", zeros.data(),
                                 zeros.size() * sizeof(float));
         });
       }},
  };
}

}  // namespace adapter_cases

Area adapter_area() {
  using namespace adapter_cases;
  Area area = {"Adapters",
               "The adapter section of a valid config; then the PEFT folder of a valid GPT-2 (one block of "
               "width 16), changed "
               "and loaded. All problems of `adapter_config.json` come at once.",
               configs()};
  for (const auto& more : {folders(), bounds(), not_finite(), exports(), resumptions(), bases()})
    area.cases.insert(area.cases.end(), more.begin(), more.end());
  return area;
}

}  // namespace hawser::bad_input
