// Nf4Stored: a tensor that bitsandbytes quantised to NF4. `X.weight` holds the packed codes. X.weight.absmax,
// .quant_map and .quant_state.bitsandbytes__nf4 (JSON) belong to it, and also .nested_absmax and
// .nested_quant_map if the absmax are quantised in turn.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "engine/base/error.h"
#include "engine/base/json.h"
#include "engine/checkpoint/hf/quantised.h"
#include "engine/nn/nf4.h"

namespace hawser::checkpoint::hf {
namespace {

constexpr const char* kState = ".quant_state.bitsandbytes__nf4";
constexpr int64_t kMaxStateBytes = 4096;

class Nf4Stored : public QuantisedTensor {
 public:
  Nf4Stored(const WeightFiles& files, const std::string& name);

  void require_nested(bool nested) const override;
  bool read(const Binding& binding, const ParameterSink& sink, const Nf4Sink* nf4,
            Digest* digest) const override;

 private:
  template <typename T>
  void fill(const std::string& suffix, T* values, int64_t count) const {
    read_part(suffix, 0, values, count * static_cast<int64_t>(sizeof(T)));
  }
  void read_state();

  float offset_ = 0;
  bool nested_ = false;
  int64_t size_ = 1;
};

Nf4Stored::Nf4Stored(const WeightFiles& files, const std::string& name)
    : QuantisedTensor(files, name, "nf4", name) {
  read_state();
  const int64_t blocks = (size_ + kNf4Block - 1) / kNf4Block;
  part("", "U8", (size_ + 1) / 2);
  part(".absmax", nested_ ? "U8" : "F32", blocks);
  part(".quant_map", "F32", 16);
  if (nested_) {
    part(".nested_absmax", "F32", (blocks + nn::kNf4Nested - 1) / nn::kNf4Nested);
    part(".nested_quant_map", "F32", 256);
  }
}

void Nf4Stored::read_state() {
  const WeightFiles::TensorLocation& place = files_.tensors.at(name_ + kState);
  const int64_t bytes = place.info->bytes();
  if (place.info->dtype != "U8" || bytes > kMaxStateBytes) refuse("has no readable quant_state");
  std::string text(static_cast<size_t>(bytes), '\0');
  read_part(kState, 0, text.data(), bytes);
  companions_.push_back(name_ + kState);
  ConfigFields state(text);
  const std::string type = state.text("quant_type", ""), dtype = state.text("dtype", "");
  if (type != "nf4" || state.integer("blocksize", 0) != kNf4Block)
    refuse(fmt::format("has the quant_state {}; supported is nf4 in blocks of 64", text));
  if (dtype != "float32" && dtype != "bfloat16" && dtype != "float16")
    refuse(fmt::format("was quantised from {}, not float32, bfloat16 or float16", dtype));
  type_ = dtype == "float32" ? DType::kF32 : dtype == "bfloat16" ? DType::kBf16 : DType::kF16;
  shape_ = state.integers("shape");
  nested_ = state.has("nested_offset");
  if (nested_) {
    if (state.integer("nested_blocksize", 0) != nn::kNf4Nested || state.text("nested_dtype", "") != "float32")
      refuse(fmt::format("has the quant_state {}; supported are nested blocks of 256 in float32", text));
    if (state.is_null("nested_offset"))
      refuse(
          "has a quant_state whose nested_offset is null; its absmax cannot be computed without that number");
    offset_ = static_cast<float>(state.number("nested_offset", 0, -1e30));
  }
  if (!state.problems().empty() || shape_.size() != 2) refuse(fmt::format("has the quant_state {}", text));
  for (const int64_t extent : shape_) {
    if (extent < 1 || extent > INT32_MAX) refuse(fmt::format("has the shape {}", shape_text(shape_)));
    size_ *= extent;
  }
}

void Nf4Stored::require_nested(bool nested) const {
  if (nested_ == nested) return;
  refuse(fmt::format("has absmax in {}, but config.json says bnb_4bit_use_double_quant {}; set it to {}",
                     nested_ ? "8 bits" : "f32", nested, nested_));
}

bool Nf4Stored::read(const Binding& binding, const ParameterSink& sink, const Nf4Sink* nf4,
                     Digest* digest) const {
  nn::Nf4Tensor t;
  t.size = size_, t.offset = offset_, t.type = type_;
  const auto whole = [&](const std::string& suffix, auto* values, int64_t count) {
    values->resize(static_cast<size_t>(count));
    fill(suffix, values->data(), count);
  };
  whole("", &t.codes, (size_ + 1) / 2);
  fill(".quant_map", t.values.data(), 16);
  require_finite(".quant_map", t.values);
  if (nested_) {
    whole(".absmax", &t.absmax, t.blocks());
    whole(".nested_absmax", &t.nested_absmax, (t.blocks() + nn::kNf4Nested - 1) / nn::kNf4Nested);
    fill(".nested_quant_map", t.nested_values.data(), 256);
    require_finite(".nested_quant_map", t.nested_values);
  } else {
    whole(".absmax", &t.plain_absmax, t.blocks());
  }
  std::vector<float> numbers(nf4 == nullptr || digest != nullptr ? static_cast<size_t>(size_) : 0);
  if (!numbers.empty()) nn::nf4_decode(t, numbers.data());
  if (digest != nullptr) digest->add(numbers.data(), size_ * int64_t{sizeof(float)});
  if (nf4 != nullptr)
    (*nf4)(binding.parts[0].parameter, std::move(t));
  else
    Placer(binding, sink).append(numbers.data(), size_);
  return nf4 != nullptr;
}

}  // namespace

bool is_nf4(const WeightFiles& files, const std::string& name) {
  return files.tensors.count(name + kState) != 0;
}

std::unique_ptr<QuantisedTensor> open_nf4(const WeightFiles& files, const std::string& name) {
  return std::make_unique<Nf4Stored>(files, name);
}

}  // namespace hawser::checkpoint::hf
