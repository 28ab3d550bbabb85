// QuantisedTensor: a tensor of a Hugging Face folder whose numbers are stored as codes with scales. Three
// formats are read: NF4 (bitsandbytes), MXFP4 (published GPT-OSS folders), and fp8 with a scale for each
// block of 128 x 128 numbers (published DeepSeek-V3 folders). The model gets the numbers that codes and
// scales represent, and an export writes these numbers.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/checkpoint/hf/config_fields.h"
#include "engine/checkpoint/hf/transfer.h"
#include "engine/checkpoint/hf/weight_files.h"

namespace hawser::checkpoint::hf {

/// Refuses, by name, every quantisation in config.json except NF4 by bitsandbytes, fp8 in blocks of 128 x
/// 128, and MXFP4 for gpt_oss.
void read_quantisation(ConfigFields* config, std::string_view family);
/// Returns config.json of the same model with plain weights.
std::string without_quantisation(const std::string& config_json_text);

/// True if config.json declares 4-bit tensors whose absmax are f32 (no double quantisation).
bool has_plain_absmax(const std::string& config_json_text);

class QuantisedTensor {
 public:
  virtual ~QuantisedTensor() = default;

  const char* format() const { return format_; }  ///< "nf4", "mxfp4" or "fp8"
  const std::vector<int64_t>& shape() const { return shape_; }
  DType type() const { return type_; }                 ///< type of the numbers that the codes represent
  const std::string& codes() const { return codes_; }  ///< name of the tensor of codes
  /// Names of the tensors that belong to it, except the codes.
  const std::vector<std::string>& companions() const { return companions_; }
  /// Throws kCheckpointIncompatible if it is in NF4 and `nested`, which config.json declares, does not match
  /// its absmax: 8 bits if nested, otherwise f32.
  virtual void require_nested(bool /*nested*/) const {}
  /// Writes its numbers to `sink` and returns false; or, if it is in NF4 and `nf4` is not null, passes the
  /// tensor itself to `nf4` and returns true. Adds its numbers to `digest` (may be null). The binding must
  /// have the tensor's shape.
  virtual bool read(const Binding& binding, const ParameterSink& sink, const Nf4Sink* nf4,
                    Digest* digest) const = 0;

 protected:
  QuantisedTensor(const WeightFiles& files, std::string name, const char* format, std::string codes)
      : files_(files), name_(std::move(name)), format_(format), codes_(std::move(codes)) {}

  [[noreturn]] void refuse(const std::string& what) const;
  /// Returns one of its tensors, which must have `count` elements of the dtype.
  const TensorInfo& part(const std::string& suffix, const char* dtype, int64_t count);
  /// Reads `bytes` bytes of one of its tensors from byte `begin` on.
  void read_part(const std::string& suffix, int64_t begin, void* to, int64_t bytes) const;
  /// Refuses the tensor unless all values of a table are finite; the message has the index of the first that
  /// is not. Weights are checked later, before training (engine/state/finite_weights.h).
  void require_finite(const std::string& suffix, std::span<const float> values) const;

  const WeightFiles& files_;
  std::string name_;
  const char* format_;
  std::string codes_;
  std::vector<int64_t> shape_;
  std::vector<std::string> companions_;
  DType type_ = DType::kF32;
};

/// Returns the tensor of this name if it is quantised, otherwise null. Throws kCheckpointIncompatible if a
/// tensor that belongs to it is missing, has another type, or does not fit the others.
std::unique_ptr<QuantisedTensor> open_quantised(const WeightFiles& files, const std::string& name);

bool is_nf4(const WeightFiles& files, const std::string& name);
bool is_mxfp4(const WeightFiles& files, const std::string& name);
bool is_fp8(const WeightFiles& files, const std::string& name);
std::unique_ptr<QuantisedTensor> open_nf4(const WeightFiles& files, const std::string& name);
std::unique_ptr<QuantisedTensor> open_mxfp4(const WeightFiles& files, const std::string& name);
std::unique_ptr<QuantisedTensor> open_fp8(const WeightFiles& files, const std::string& name);

}  // namespace hawser::checkpoint::hf
