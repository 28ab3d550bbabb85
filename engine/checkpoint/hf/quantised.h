// QuantisedTensor: reads a tensor that bitsandbytes quantised to NF4 in a Hugging Face folder. `X.weight`
// holds the packed codes; X.weight.absmax, .quant_map, .quant_state.bitsandbytes__nf4 (JSON) belong to it
// and, if the absmax are quantised in turn, .nested_absmax and .nested_quant_map. All are read unchanged; the
// model gets the numbers that they represent.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "engine/checkpoint/hf/config_fields.h"
#include "engine/checkpoint/hf/transfer.h"
#include "engine/checkpoint/hf/weight_files.h"

namespace hawser::checkpoint::hf {

/// Refuses, by name, every quantisation in config.json except NF4 by bitsandbytes.
void read_quantisation(ConfigFields* config);
/// Returns config.json of the same model with plain weights.
std::string without_quantisation(const std::string& config_json_text);

/// True if config.json declares 4-bit tensors whose absmax are f32 (no double quantisation).
bool has_plain_absmax(const std::string& config_json_text);

/// One quantised tensor of `files`.
class QuantisedTensor {
 public:
  static bool is_one(const WeightFiles& files, const std::string& name);
  /// Throws kCheckpointIncompatible if one of its tensors is missing, has another type, or does not fit the
  /// others.
  QuantisedTensor(const WeightFiles& files, const std::string& name);

  const std::vector<int64_t>& shape() const { return shape_; }
  DType type() const { return type_; }  ///< type of the numbers that the codes represent
  /// Names of the tensors that belong to it, except the codes.
  const std::vector<std::string>& companions() const { return companions_; }
  /// Throws kCheckpointIncompatible if its absmax are quantised and config.json denies it, or the reverse.
  void require_nested(bool nested) const;
  /// Throws kCheckpointIncompatible, with the index, unless all values of a table are finite. The scales are
  /// checked like weights, before training (engine/state/finite_weights.h).
  void require_finite(const std::string& suffix, std::span<const float> values) const;
  /// Writes its numbers to the sinks, or the tensor itself to nf4 (may be null), and adds its numbers to
  /// `digest` (may be null). The binding must have the tensor's shape and not be transposed.
  void read(const Binding& binding, const ParameterSink& sink, const Nf4Sink* nf4, Digest* digest) const;

 private:
  [[noreturn]] void refuse(const std::string& what) const;
  const TensorInfo& part(const std::string& suffix, const char* dtype, int64_t count);
  template <typename T>
  void fill(const std::string& suffix, T* values, int64_t count) const;
  void read_state();

  const WeightFiles& files_;
  std::string name_;
  std::vector<int64_t> shape_;
  std::vector<std::string> companions_;
  DType type_ = DType::kF32;
  float offset_ = 0;
  bool nested_ = false;
  int64_t size_ = 1;
};

}  // namespace hawser::checkpoint::hf
