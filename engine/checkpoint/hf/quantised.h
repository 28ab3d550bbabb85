// QuantisedTensor: a tensor of a Hugging Face folder whose numbers are stored as codes with scales. Two
// formats are read: NF4 by bitsandbytes, and MXFP4, in which GPT-OSS is published. The codes are read
// unchanged; the model gets the numbers that they represent, and an export writes these.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/checkpoint/hf/config_fields.h"
#include "engine/checkpoint/hf/transfer.h"
#include "engine/checkpoint/hf/weight_files.h"

namespace hawser::checkpoint::hf {

/// Refuses, by name, every quantisation in config.json except NF4 by bitsandbytes, and MXFP4 for gpt_oss.
void read_quantisation(ConfigFields* config, std::string_view family);
/// Returns config.json of the same model with plain weights.
std::string without_quantisation(const std::string& config_json_text);

/// True if config.json declares 4-bit tensors whose absmax are f32 (no double quantisation).
bool has_plain_absmax(const std::string& config_json_text);

class QuantisedTensor {
 public:
  virtual ~QuantisedTensor() = default;

  const char* format() const { return format_; }  ///< "nf4" or "mxfp4"
  const std::vector<int64_t>& shape() const { return shape_; }
  DType type() const { return type_; }                 ///< type of the numbers that the codes represent
  const std::string& codes() const { return codes_; }  ///< name of the tensor of codes
  /// Names of the tensors that belong to it, except the codes.
  const std::vector<std::string>& companions() const { return companions_; }
  /// Throws kCheckpointIncompatible if it is in NF4 and its absmax are quantised, but config.json denies it,
  /// or the reverse.
  virtual void require_nested(bool /*nested*/) const {}
  /// Writes its numbers to the sinks, or a tensor in NF4 itself to nf4 (may be null), and adds its numbers to
  /// `digest` (may be null). The binding must have the tensor's shape.
  virtual void read(const Binding& binding, const ParameterSink& sink, const Nf4Sink* nf4,
                    Digest* digest) const = 0;

 protected:
  QuantisedTensor(const WeightFiles& files, std::string name, const char* format, std::string codes)
      : files_(files), name_(std::move(name)), format_(format), codes_(std::move(codes)) {}

  [[noreturn]] void refuse(const std::string& what) const;
  /// Returns one of its tensors, which must have `count` elements of the dtype.
  const TensorInfo& part(const std::string& suffix, const char* dtype, int64_t count);
  /// Reads `bytes` bytes of one of its tensors from byte `begin` on.
  void read_part(const std::string& suffix, int64_t begin, void* to, int64_t bytes) const;

  const WeightFiles& files_;
  std::string name_;
  const char* format_;
  std::string codes_;
  std::vector<int64_t> shape_;
  std::vector<std::string> companions_;
  DType type_ = DType::kF32;
};

bool is_nf4(const WeightFiles& files, const std::string& name);
bool is_mxfp4(const WeightFiles& files, const std::string& name);
// Throw kCheckpointIncompatible if a tensor that belongs to it is missing, has another type, or does not fit
// the others.
std::unique_ptr<QuantisedTensor> open_nf4(const WeightFiles& files, const std::string& name);
std::unique_ptr<QuantisedTensor> open_mxfp4(const WeightFiles& files, const std::string& name);

}  // namespace hawser::checkpoint::hf
