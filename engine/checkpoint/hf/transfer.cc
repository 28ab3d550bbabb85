#include "engine/checkpoint/hf/transfer.h"

#include <algorithm>

#include "engine/base/error.h"
#include "engine/checkpoint/hf/number_format.h"

namespace hawser::checkpoint::hf {
namespace {

/// For each row of each part that has elements in [first, last) of the tensor, calls each(index of the part,
/// index in the part of the first of these elements, its index in the tensor, number of elements). These
/// elements are consecutive in the part and column_step apart in the tensor.
template <typename Each>
void each_row_within(const Binding& binding, int64_t first, int64_t last, Each each) {
  for (size_t k = 0; k < binding.parts.size(); ++k) {
    const BindingPart& part = binding.parts[k];
    if (part.at >= last || part.place(part.size - 1) < first) continue;
    for (int64_t row = 0; row < part.rows(); ++row) {
      const int64_t at = part.at + row * part.row_step, step = part.column_step;
      const int64_t begin = std::max<int64_t>(first - at + step - 1, 0) / step;
      const int64_t end = std::min(part.columns, std::max<int64_t>(last - at + step - 1, 0) / step);
      if (begin < end) each(k, row * part.columns + begin, at + begin * step, end - begin);
    }
  }
}

/// Narrows numbers and appends them to the file.
void append_numbers(SafetensorsWriter* writer, DType dtype, const std::string& name,
                    const std::vector<float>& numbers, std::vector<char>* bytes) {
  const int64_t count = std::ssize(numbers);
  bytes->resize(static_cast<size_t>(count * dtype_bytes(dtype)));
  const int64_t overflow = narrow(dtype, numbers.data(), count, bytes->data());
  if (overflow >= 0)
    fail(Code::kOutOfRange, "tensor {} has the value {}, which {} cannot hold; export with dtype bf16 or f32",
         name, numbers[static_cast<size_t>(overflow)], dtype_name(dtype));
  writer->append(bytes->data(), std::ssize(*bytes));
}

}  // namespace

Placer::Placer(const Binding& binding, const ParameterSink& sink) : binding_(binding) {
  for (const BindingPart& part : binding.parts) {
    float* const data = sink(part.parameter);
    HWS_CHECK(data != nullptr);
    parts_.push_back(data + part.begin);
  }
}

void Placer::append(const float* numbers, int64_t n) {
  each_row_within(binding_, done_, done_ + n, [&](size_t k, int64_t element, int64_t number, int64_t count) {
    const int64_t step = binding_.parts[k].column_step;
    float* const to = parts_[k] + element;
    const float* const from = numbers + (number - done_);
    for (int64_t i = 0; i < count; ++i) to[i] = from[i * step];
  });
  done_ += n;
}

void read_binding(const SafetensorsFile& file, const TensorInfo& info, const Binding& binding,
                  const ParameterSink& sink, Digest* digest) {
  const DType dtype = *dtype_from_name(info.dtype);
  const int64_t width = dtype_bytes(dtype), size = binding.size();
  Placer placer(binding, sink);
  std::vector<char> bytes;
  std::vector<float> numbers;
  for (int64_t first = 0; first < size; first += kTransferNumbers) {
    const int64_t n = std::min(kTransferNumbers, size - first);
    bytes.resize(static_cast<size_t>(n * width)), numbers.resize(static_cast<size_t>(n));
    file.read(info, first * width, bytes.data(), n * width);
    if (digest != nullptr) digest->add(bytes.data(), n * width);
    widen(dtype, bytes.data(), n, numbers.data());
    placer.append(numbers.data(), n);
  }
}

void write_binding(SafetensorsWriter* writer, DType dtype, const Binding& binding,
                   const ParameterSource& source) {
  std::vector<const float*> parts;
  for (const BindingPart& part : binding.parts) {
    const float* const data = source(part.parameter);
    HWS_CHECK(data != nullptr);
    parts.push_back(data + part.begin);
  }
  const int64_t size = binding.size();
  std::vector<float> numbers;
  std::vector<char> bytes;
  for (int64_t first = 0; first < size; first += kTransferNumbers) {
    const int64_t n = std::min(kTransferNumbers, size - first);
    numbers.assign(static_cast<size_t>(n), 0.0f);  // a tensor without parts is zeros
    each_row_within(binding, first, first + n, [&](size_t k, int64_t element, int64_t number, int64_t count) {
      const int64_t step = binding.parts[k].column_step;
      const float* const from = parts[k] + element;
      float* const to = numbers.data() + (number - first);
      for (int64_t i = 0; i < count; ++i) to[i * step] = from[i];
    });
    append_numbers(writer, dtype, binding.hf_name, numbers, &bytes);
  }
}

}  // namespace hawser::checkpoint::hf
