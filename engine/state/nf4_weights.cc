#include "engine/state/nf4_weights.h"

#include <vector>

#include "engine/base/error.h"
#include "engine/nn/initial_values.h"

namespace hawser::train {
namespace {

/// Returns which records of the tensor a rank has: those of some rows, or of a part of each row. Ranks
/// divide no record (nn::has_whole_records).
nn::Nf4Share share_of(const nn::Parameter& p, const mesh::Box& share) {
  if (p.room == p.size) return {};
  if (p.cut.dim == 0) return {share.begin[0] * p.shape[1] / kNf4Block};
  return {share.begin[1] / kNf4Block, p.local_shape[1] / kNf4Block, p.shape[1] / kNf4Block};
}

}  // namespace

nn::Nf4Tensor quantise(const nn::Parameter& p, const float* numbers, DType type) {
  nn::Nf4Tensor tensor = nn::nf4_quantise(numbers, p.size);
  tensor.type = type;
  return tensor;
}

void write_nf4(const Rank& rank, const nn::Parameter& p, const nn::Nf4Tensor& tensor) {
  const GroupState& s = rank.executor().state(p.group);
  if (!s.weights) return;  // another stage has it
  const mesh::Box share = rank.layout().share_of(p);
  HWS_CHECK(share.elements() == p.room);  // no features are divided unequally
  const std::vector<uint8_t> records = nn::nf4_records(tensor, p.nested);
  const std::vector<float> scales = nn::nf4_scales(tensor, p.nested, share_of(p, share));
  rank.link().write(s.scales + p.scales, scales.data(), std::ssize(scales) * int64_t{sizeof(float)});
  for (const mesh::ElementRun& run : rank.layout().state_of(p, rank.number()))
    write_bytes(rank.link(), s.weights.from(run.at), records.data() + dtype_bytes(DType::kNf4, run.begin),
                dtype_bytes(DType::kNf4, run.size()));
}

void draw_nf4(Rank* rank, const nn::ParameterTable& table, const config::ResolvedConfig& config) {
  std::vector<float> numbers;
  for (const nn::Parameter& p : table.all()) {
    if (p.read != nn::Read::kNf4 || !rank->layout().group(p.group).here) continue;
    numbers.resize(static_cast<size_t>(p.size));
    nn::fill_initial(numbers.data(), p, 0, p.size, config.init.std, config.seed, rank->stream());
    write_nf4(*rank, p, quantise(p, numbers.data(), DType::kF32));
  }
}

void read_weights(const Rank& rank, const nn::Parameter& p, const mesh::ElementRun& run, float* out) {
  const GroupState& s = rank.executor().state(p.group);
  const StateArray from = s.weights.from(run.at);
  if (p.read != nn::Read::kNf4) return read_values(rank.link(), out, from, run.size());
  std::vector<uint8_t> records(static_cast<size_t>(dtype_bytes(DType::kNf4, run.size())));
  std::vector<float> scales(static_cast<size_t>(nn::nf4_scales(p.size, p.nested)));
  read_bytes(rank.link(), records.data(), from, std::ssize(records));
  rank.link().read(scales.data(), s.scales + p.scales, std::ssize(scales) * int64_t{sizeof(float)});
  nn::nf4_decode(records.data(), scales.data(), run.begin, run.size(), out);
}

}  // namespace hawser::train
