#include "engine/checkpoint/hf/transfer.h"

#include <algorithm>
#include <vector>

#include "engine/base/error.h"
#include "engine/checkpoint/hf/number_format.h"

namespace hawser::checkpoint::hf {
namespace {

constexpr int64_t kChunk = int64_t{1} << 20;  // elements per buffer

/// Narrows numbers and appends them to the file.
class NumberWriter {
 public:
  NumberWriter(SafetensorsWriter* writer, DType dtype, const std::string& name)
      : writer_(writer), dtype_(dtype), name_(name) {}

  void append(const float* values, int64_t n) {
    for (int64_t at = 0; at < n; at += kChunk) {
      const int64_t part = std::min(kChunk, n - at);
      bytes_.resize(static_cast<size_t>(part * dtype_bytes(dtype_)));
      const int64_t overflow = narrow(dtype_, values + at, part, bytes_.data());
      if (overflow >= 0)
        fail(Code::kOutOfRange,
             "tensor {} has the value {}, which {} cannot hold; export with dtype bf16 or f32", name_,
             values[at + overflow], dtype_name(dtype_));
      writer_->append(bytes_.data(), static_cast<int64_t>(bytes_.size()));
    }
  }

 private:
  SafetensorsWriter* writer_;
  DType dtype_;
  const std::string& name_;
  std::vector<char> bytes_;
};

/// The columns [begin, begin + outs) of a transposed tensor [ins, total] that belong to one parameter.
template <typename T>
struct Columns {
  T* data;  // [outs, ins]
  int64_t begin, outs;
};

/// Returns the columns of each parameter of a transposed binding, in order; `locate` is its sink or source.
template <typename T, typename Locate>
std::vector<Columns<T>> columns_of(const Binding& binding, const nn::ParameterTable& table,
                                   const Locate& locate) {
  std::vector<Columns<T>> parts;
  int64_t column = 0;
  for (const BindingPart& part : binding.parts) {
    parts.push_back({locate(part.parameter), column, table.at(part.parameter).shape[0]});
    HWS_CHECK(parts.back().data != nullptr);
    column += parts.back().outs;
  }
  return parts;
}

}  // namespace

void read_binding(const SafetensorsFile& file, const TensorInfo& info, const Binding& binding,
                  const nn::ParameterTable& table, const ParameterSink& sink, Digest* digest) {
  const DType dtype = *dtype_from_name(info.dtype);
  const int64_t width = dtype_bytes(dtype);
  std::vector<char> bytes;
  const auto read = [&](int64_t first, int64_t n, float* dst) {  // elements
    bytes.resize(static_cast<size_t>(n * width));
    file.read(info, first * width, bytes.data(), n * width);
    if (digest != nullptr) digest->add(bytes.data(), n * width);
    widen(dtype, bytes.data(), n, dst);
  };
  if (!binding.transposed) {
    int64_t at = 0;
    for (const BindingPart& part : binding.parts) {
      float* const dst = sink(part.parameter);
      HWS_CHECK(dst != nullptr);
      for (int64_t done = 0; done < part.size; done += kChunk)
        read(at + done, std::min(kChunk, part.size - done), dst + part.begin + done);
      at += part.size;
    }
    return;
  }
  const int64_t ins = info.shape[0], total = info.shape[1];
  const std::vector<Columns<float>> parts = columns_of<float>(binding, table, sink);
  const int64_t rows = std::max<int64_t>(kChunk / std::max<int64_t>(total, 1), 1);
  std::vector<float> block(static_cast<size_t>(std::min(rows, ins) * total));
  for (int64_t first = 0; first < ins; first += rows) {
    const int64_t n = std::min(rows, ins - first);
    read(first * total, n * total, block.data());
    for (const Columns<float>& part : parts)
      for (int64_t out = 0; out < part.outs; ++out)
        for (int64_t row = 0; row < n; ++row)
          part.data[out * ins + first + row] = block[static_cast<size_t>(row * total + part.begin + out)];
  }
}

void write_binding(SafetensorsWriter* writer, DType dtype, const Binding& binding,
                   const nn::ParameterTable& table, const ParameterSource& source) {
  NumberWriter numbers(writer, dtype, binding.hf_name);
  if (binding.parts.empty()) {
    const std::vector<float> zeros(static_cast<size_t>(binding.hf_shape[0]));
    return numbers.append(zeros.data(), binding.hf_shape[0]);
  }
  if (!binding.transposed) {
    for (const BindingPart& part : binding.parts) {
      const float* const src = source(part.parameter);
      HWS_CHECK(src != nullptr);
      numbers.append(src + part.begin, part.size);
    }
    return;
  }
  const int64_t ins = binding.hf_shape[0], total = binding.hf_shape[1];
  const std::vector<Columns<const float>> parts = columns_of<const float>(binding, table, source);
  const int64_t rows = std::max<int64_t>(kChunk / std::max<int64_t>(total, 1), 1);
  std::vector<float> block(static_cast<size_t>(std::min(rows, ins) * total));
  for (int64_t first = 0; first < ins; first += rows) {
    const int64_t n = std::min(rows, ins - first);
    for (const Columns<const float>& part : parts)
      for (int64_t out = 0; out < part.outs; ++out)
        for (int64_t row = 0; row < n; ++row)
          block[static_cast<size_t>(row * total + part.begin + out)] = part.data[out * ins + first + row];
    numbers.append(block.data(), n * total);
  }
}

}  // namespace hawser::checkpoint::hf
