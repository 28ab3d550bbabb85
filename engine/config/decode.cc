// Decode: reads an effective config into ResolvedConfig along the rows of its sections, then sets the members
// that follow from several fields.
#include "engine/config/decode.h"

#include "engine/config/key_reader.h"
#include "engine/config/model_fields.h"
#include "engine/config/rules.h"
#include "engine/config/rules_adapter.h"
#include "engine/parallel/recompute.h"

namespace hawser::config {
namespace {

/// The choice "bpe" means a tokenizer that is first learned from the data.
void decode_vocabulary(const Effective& c, DataConfig* data) {
  if (data->format != DataFormat::kText) return;
  const KeyReader read{c, "/data/"};
  const bool learns = c.is("/data/vocabulary", "bpe");
  read("vocab_size", data->learned_tokens, learns);
  read("vocabulary", data->vocabulary, !learns);
  if (learns) data->vocabulary = VocabularyKind::kTokenizer;
}

RecomputeConfig decode_recompute(const Effective& c) {
  using enum parallel::RecomputePolicy;
  const KeyReader read{c, "/recompute/"};
  auto policy = kOff;
  read("policy", policy);
  std::vector<std::string> arrays;
  read("arrays", arrays, policy == kSelective);
  int64_t every = 1;
  read("every", every, policy == kEvery);
  RecomputeConfig recompute = parallel::recompute_config(policy, arrays, every);
  read("rows", recompute.remakes.rows);
  std::vector<std::string> compress;
  read("compress", compress);
  recompute.compress = parallel::compress_set(compress);
  return recompute;
}

}  // namespace

ResolvedConfig decode(const Effective& c) {
  ResolvedConfig resolved;
  each_key(resolved, KeyReader{c});
  resolved.model = decode_model(c);
  resolved.model.adapter = decode_adapter(c, resolved.model);
  resolved.model.int8_linears = resolved.zero.quantized_weights == parallel::QuantizedWeights::kInt8;
  if (!c.is("/moe/dispatch", "capacity")) resolved.moe.capacity_factor = 0;
  decode_vocabulary(c, &resolved.data);
  resolved.data.pairs = resolved.objective.rows_per_example() == 2;
  resolved.pipeline.chunks = chunks_of_rank(c);
  resolved.recompute = decode_recompute(c);
  return resolved;
}

}  // namespace hawser::config
