// Pair cases: rows that are not pairs, prepared folders under the wrong objective, references that do not
// fit.
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "tests/bad_input/case.h"
#include "tests/bad_input/site.h"

namespace hawser::bad_input {
namespace pair_cases {

constexpr const char* kPair = R"({"prompt": "P", "chosen": "a", "rejected": "b"})";

/// Prepares rows.jsonl with these lines and keys of the request.
int32_t prepare_pairs(const Site& site, const std::string& lines, const Json& patch = Json::object()) {
  site.write("model/tokenizer.json", tokenizer_json("llama3"));
  site.write("rows.jsonl", lines);
  Json request = {{"sequence", 16}};
  request.update(patch);
  return prepare(site, request);
}

/// A row whose third line of rows.jsonl, after a pair, is `json`.
Case pair_row(const std::string& what, const std::string& json, std::vector<std::string> words,
              const Json& patch = Json::object()) {
  words.push_back("rows.jsonl:3");
  return {what, HWS_DATA_INVALID, std::move(words),
          [=](Site& site) { return prepare_pairs(site, std::string(kPair) + "\n\n" + json + "\n", patch); }};
}

std::vector<Case> pair_rows() {
  return {
      pair_row("answers that are equal", R"({"prompt": "P", "chosen": "a", "rejected": "a"})",
               {"chosen equals rejected"}),
      pair_row("no common prompt", R"({"chosen": "one", "rejected": "two"})",
               {"has no prompt", "do not begin alike"}),
      pair_row("an empty answer", R"({"prompt": "P", "chosen": "a", "rejected": ""})",
               {"rejected has no answer"}),
      pair_row("a text and messages",
               R"({"prompt": "P", "chosen": "a", "rejected": [{"role": "assistant", "content": "b"}]})",
               {"two strings or two arrays"}),
      pair_row(
          "the weight of a message",
          R"({"prompt": [{"role": "user", "content": "x"}], "rejected": [{"role": "assistant", "content": "b"}], )"
          R"("chosen": [{"role": "assistant", "content": "a", "weight": 2}]})",
          {"\"weight\"", "pairs do not use"}),
      pair_row("a row that is no pair", R"({"text": "x"})", {"is not a pair", "prepare them separately"}),
      pair_row("a row that is no pair, where they must be", R"({"text": "x"})", {"not a pair", "\"chosen\""},
               {{"pairs", true}}),
      {"a pair, where there must be none",
       HWS_DATA_INVALID,
       {"rows.jsonl:1", "is a pair", "--dpo"},
       [](Site& site) {
         return prepare_pairs(site, kPair, {{"pairs", false}});
       }},
  };
}

/// A config that trains on the prepared pair.
Json pair_config(const Site& site) {
  return sound_config(
      {{"data",
        {{"format", "prepared"}, {"path", site.path("out")}, {"packing", false}, {"validation_fraction", 0}}},
       {"batch", {{"micro_batch", 2}, {"sequence", 16}}},
       {"model", {{"vocab_size", 1024}}},
       {"train", {{"eval_every", 0}}}});
}

/// A row that trains on a pair with these sections of the config.
Case train_on_pair(const std::string& what, int32_t status, std::vector<std::string> words,
                   const std::function<Json(Site&)>& patch, uint32_t flags = 0,
                   const std::function<int32_t(hws_engine*)>& use = nullptr) {
  return {what, status, std::move(words), [=](Site& site) {
            const int32_t prepared = prepare_pairs(site, kPair);
            if (prepared != HWS_OK) return prepared;
            Json config = pair_config(site);
            config.merge_patch(patch(site));
            return create(config, flags, use);
          }};
}

Json with_reference(const std::string& reference) {
  return {{"objective", {{"kind", "dpo"}, {"reference", reference}}}};
}

std::vector<Case> pair_configs() {
  return {
      train_on_pair("pairs under `cross_entropy`", HWS_CONFIG_INVALID,
                    {"/objective/kind", "are pairs", "\"dpo\""}, [](Site&) { return Json::object(); }),
      train_on_pair("`/objective/reference`: a folder without a model", HWS_NOT_FOUND,
                    {"/objective/reference", "nowhere", "neither a checkpoint"},
                    [](Site& site) { return with_reference(site.path("nowhere")); }),
      train_on_pair("`/objective/reference`: a model with another vocabulary", HWS_CONFIG_INVALID,
                    {"/objective/reference", "a vocabulary of 61 tokens", "has 1024", "the same tokenizer"},
                    [](Site& site) { return with_reference(site.checkpoint()); }),
      train_on_pair(
          "evaluating held-out pairs of `dpo` by an engine for inference", HWS_FAILED_PRECONDITION,
          {"/objective/kind", "only if /init/from is a checkpoint", "/objective/reference", "give a batch"},
          [](Site& site) {
            return Json{{"objective", {{"kind", "dpo"}}},
                        {"data", {{"validation_sources", Json::array({{{"path", site.path("out")}}})}}}};
          },
          HWS_ENGINE_INFERENCE,
          [](hws_engine* engine) {
            double loss = 0;
            return hws_engine_eval(engine, nullptr, 0, &loss, nullptr);
          }),
      {"evaluating a run of `dpo` whose first model is gone",
       HWS_NOT_FOUND,
       {"the model with which the run of", "second began", "first any more", "/objective/reference"},
       [](Site& site) {
         const int32_t prepared = prepare_pairs(site, kPair);
         if (prepared != HWS_OK) return prepared;
         Json config = pair_config(site);
         config["objective"]["kind"] = "dpo";
         for (const char* name : {"first", "second"}) {
           const std::string path = site.path(name);
           const int32_t saved = create(
               config, 0, [&](hws_engine* engine) { return hws_checkpoint_save(engine, path.c_str()); });
           if (saved != HWS_OK) return saved;
           config.erase("model"), config["init"]["from"] = path;
         }
         std::filesystem::remove_all(site.path("first"));
         return create(config, HWS_ENGINE_INFERENCE, nullptr);
       }},
  };
}

}  // namespace pair_cases

Area pair_area() {
  using namespace pair_cases;
  Area area{"Pairs in files", "Rows with \"chosen\" and \"rejected\", and what trains on them.", pair_rows()};
  for (Case& each : pair_configs()) area.cases.push_back(std::move(each));
  return area;
}

}  // namespace hawser::bad_input
