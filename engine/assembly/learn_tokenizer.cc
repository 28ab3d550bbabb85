#include "engine/assembly/learn_tokenizer.h"

#include <string>
#include <vector>

#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/reader.h"
#include "engine/data/content.h"
#include "engine/text/learn_bpe.h"

namespace hawser::train {
namespace {

/// Returns the files of the newest readable checkpoint that has a tokenizer.json; none without such a one.
text::TextFiles saved_files(const std::string& folder) {
  if (folder.empty()) return {};
  std::vector<checkpoint::Damaged> damaged;
  for (const checkpoint::Candidate& candidate : checkpoint::candidates(folder, &damaged)) try {
      const auto reader = checkpoint::Reader::open(folder + "/" + candidate.name);
      const text::TextFiles& files = reader->description().extra_files;
      if (files.contains("tokenizer.json")) return files;
    } catch (const Error& error) {
      if (!checkpoint::is_damage(error)) throw;
    }
  return {};
}

}  // namespace

void learn_tokenizer(Assembly* assembly) {
  const config::ResolvedConfig& config = assembly->config;
  if (config.data.learned_tokens == 0 || config.data.sources.empty()) return;
  text::TextFiles files = saved_files(config.checkpoint.path);
  std::string where = config.checkpoint.path;
  if (files.empty()) {
    std::vector<std::string> paths;
    for (const data::DataSource& source : config.data.sources) {
      if (!config.data.as_is) data::check_is_text(source.path);
      paths.push_back(source.path);
    }
    files = text::learn_model_text(paths, config.data.learned_tokens, config.model.context);
    where = "the vocabulary of this run";
  }
  assembly->tokens = std::make_shared<const ModelTokens>(std::move(files), where, config.model.vocab_size);
  assembly->vocabulary = data::Vocabulary::of_tokenizer(assembly->tokens);
}

}  // namespace hawser::train
