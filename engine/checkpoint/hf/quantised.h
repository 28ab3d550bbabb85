// Tensors that bitsandbytes quantised to NF4 in a Hugging Face folder. Beside `X.weight`, the packed codes,
// there are X.weight.absmax, .quant_map, .quant_state.bitsandbytes__nf4 (JSON) and, if the absmax are
// quantised in turn, .nested_absmax and .nested_quant_map. All are read as they are; the model gets the
// numbers that they stand for.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "engine/checkpoint/hf/config_fields.h"
#include "engine/checkpoint/hf/transfer.h"
#include "engine/checkpoint/hf/weight_files.h"

namespace hawser::checkpoint::hf {

/// Refuses, by name, every quantisation in config.json other than that.
void read_quantisation(ConfigFields* config);
/// config.json of the same model with plain weights.
std::string without_quantisation(const std::string& config_json_text);

/// Whether that config.json says so of its tensors, and that their absmax are f32.
bool has_plain_absmax(const std::string& config_json_text);

/// One such tensor of `files`.
class QuantisedTensor {
 public:
  static bool is_one(const WeightFiles& files, const std::string& name);
  /// Throws kCheckpointIncompatible for tensors that are missing, of another type, or that do not fit each
  /// other.
  QuantisedTensor(const WeightFiles& files, const std::string& name);

  const std::vector<int64_t>& shape() const { return shape_; }
  DType type() const { return type_; }  ///< of the numbers that it stands for
  /// The tensors beside it.
  const std::vector<std::string>& companions() const { return companions_; }
  /// Throws kCheckpointIncompatible if its absmax are quantised and config.json says otherwise, or the other
  /// way round.
  void require_nested(bool nested) const;
  /// Throws kCheckpointIncompatible, with the index, unless all values of a table are finite. The scales are
  /// checked like weights, before training (engine/state/finite_weights.h).
  void require_finite(const std::string& suffix, std::span<const float> values) const;
  /// Its numbers -> sinks, or the tensor itself -> nf4 (may be null), and its numbers to `digest` (may be
  /// null). The binding has its shape and is not transposed.
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
