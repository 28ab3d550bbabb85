// Mxfp4Stored: a tensor in MXFP4 (Open Compute Project, "OCP Microscaling Formats (MX) Specification",
// version 1.0, sections 5.3.3 and 5.4.1): each block of 32 numbers shares one scale, a power of two.
// `X_blocks` [..., blocks, 16] holds two codes in a byte, the first of them in the low four bits; `X_scales`
// [..., blocks] holds the exponents of the scales plus 127.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "engine/base/error.h"
#include "engine/checkpoint/hf/quantised.h"

namespace hawser::checkpoint::hf {
namespace {

constexpr const char *kBlocks = "_blocks", *kScales = "_scales";
constexpr int64_t kBlockNumbers = 32, kBlockBytes = kBlockNumbers / 2;
constexpr uint8_t kNanScale = 255;
constexpr int kExponentBias = 127;

/// The numbers of the 16 codes: E2M1, with the sign in the highest bit.
constexpr std::array<float, 16> kNumbers = {0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,  4.0f,  6.0f,
                                            -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f};

class Mxfp4Stored : public QuantisedTensor {
 public:
  Mxfp4Stored(const WeightFiles& files, const std::string& name)
      : QuantisedTensor(files, name, "mxfp4", name + kBlocks) {
    const std::vector<int64_t>& stored = files.tensors.at(codes_).info->shape;
    if (stored.size() < 2 || stored.back() != kBlockBytes)
      refuse(fmt::format("has {} of the shape {}; its last dimension must be {}, the bytes of a block",
                         codes_, shape_text(stored), kBlockBytes));
    const std::vector<int64_t> groups(stored.begin(), stored.end() - 1);
    for (const int64_t dim : groups) blocks_ *= dim;
    part(kBlocks, "U8", blocks_ * kBlockBytes);
    if (const TensorInfo& scales = part(kScales, "U8", blocks_); scales.shape != groups)
      refuse(fmt::format("has {} of the shape {}, not {}", scales.name, shape_text(scales.shape),
                         shape_text(groups)));
    shape_ = groups;
    shape_.back() *= kBlockNumbers;
    type_ = DType::kBf16;  // holds every number of MXFP4 exactly
  }

  bool read(const Binding& binding, const ParameterSink& sink, const Nf4Sink* /*nf4*/,
            Digest* digest) const override {
    Placer placer(binding, sink);
    std::vector<uint8_t> codes, scales;
    std::vector<float> numbers;
    constexpr int64_t kAtOnce = kTransferNumbers / kBlockNumbers;
    for (int64_t first = 0; first < blocks_; first += kAtOnce) {
      const int64_t n = std::min(kAtOnce, blocks_ - first);
      codes.resize(static_cast<size_t>(n * kBlockBytes)), scales.resize(static_cast<size_t>(n));
      numbers.resize(static_cast<size_t>(n * kBlockNumbers));
      read_part(kBlocks, first * kBlockBytes, codes.data(), n * kBlockBytes);
      read_part(kScales, first, scales.data(), n);
      decode(codes, scales, first, numbers.data());
      placer.append(numbers.data(), std::ssize(numbers));
      if (digest != nullptr) digest->add(numbers.data(), std::ssize(numbers) * int64_t{sizeof(float)});
    }
    return false;
  }

 private:
  /// Decodes consecutive blocks. `first` is the index of the first of them in the tensor.
  void decode(const std::vector<uint8_t>& codes, const std::vector<uint8_t>& scales, int64_t first,
              float* numbers) const {
    for (size_t block = 0; block < scales.size(); ++block) {
      if (scales[block] == kNanScale)
        refuse(
            fmt::format("has the scale {}, which is NaN, at index {} of {}{}; the file is damaged: download "
                        "it again",
                        kNanScale, first + static_cast<int64_t>(block), name_, kScales));
      const float scale = std::ldexp(1.0f, scales[block] - kExponentBias);
      const uint8_t* const bytes = codes.data() + block * static_cast<size_t>(kBlockBytes);
      for (int64_t i = 0; i < kBlockBytes; ++i) {
        *numbers++ = kNumbers[bytes[i] & 15u] * scale;
        *numbers++ = kNumbers[bytes[i] >> 4u] * scale;
      }
    }
  }

  int64_t blocks_ = 1;
};

}  // namespace

bool is_mxfp4(const WeightFiles& files, const std::string& name) {
  return files.tensors.count(name + kBlocks) != 0;
}

std::unique_ptr<QuantisedTensor> open_mxfp4(const WeightFiles& files, const std::string& name) {
  return std::make_unique<Mxfp4Stored>(files, name);
}

}  // namespace hawser::checkpoint::hf
