// Safetensors reader: a file is an unsigned 64-bit header length, a JSON header {name: {dtype, shape,
// data_offsets}}, then the data. Implements safetensors_file.h.
#include "tests/golden/safetensors_file.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>

namespace hawser::golden {
namespace {

using Json = nlohmann::json;

/// Reads an element of type T from unaligned bytes.
template <typename T>
T element(const std::vector<char>& bytes, int64_t i) {
  T value;
  std::memcpy(&value, bytes.data() + static_cast<size_t>(i) * sizeof(T), sizeof(T));
  return value;
}

double from_bf16(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

double from_f16(uint16_t bits) {
  const int sign = bits >> 15, exponent = (bits >> 10) & 31, fraction = bits & 1023;
  double magnitude = 0;
  if (exponent == 0) {
    magnitude = std::ldexp(fraction, -24);
  } else if (exponent == 31) {
    magnitude = fraction != 0 ? std::nan("") : INFINITY;
  } else {
    magnitude = std::ldexp(1024 + fraction, exponent - 25);
  }
  return sign != 0 ? -magnitude : magnitude;
}

}  // namespace

int64_t StoredTensor::count() const {
  int64_t product = 1;
  for (int64_t extent : shape) product *= extent;
  return product;
}

std::vector<double> StoredTensor::as_doubles() const {
  std::vector<double> values(static_cast<size_t>(count()));
  for (int64_t i = 0; i < count(); ++i) {
    double& value = values[static_cast<size_t>(i)];
    if (dtype == "F64") {
      value = element<double>(bytes, i);
    } else if (dtype == "F32") {
      value = element<float>(bytes, i);
    } else if (dtype == "BF16") {
      value = from_bf16(element<uint16_t>(bytes, i));
    } else if (dtype == "F16") {
      value = from_f16(element<uint16_t>(bytes, i));
    } else {
      throw std::runtime_error("cannot read dtype " + dtype + " as real numbers");
    }
  }
  return values;
}

std::vector<int32_t> StoredTensor::as_int32() const {
  std::vector<int32_t> values(static_cast<size_t>(count()));
  for (int64_t i = 0; i < count(); ++i) {
    int64_t value = 0;
    if (dtype == "I64") {
      value = element<int64_t>(bytes, i);
    } else if (dtype == "I32") {
      value = element<int32_t>(bytes, i);
    } else {
      throw std::runtime_error("cannot read dtype " + dtype + " as token ids");
    }
    if (value < INT32_MIN || value > INT32_MAX) throw std::runtime_error("a token id does not fit 32 bits");
    values[static_cast<size_t>(i)] = static_cast<int32_t>(value);
  }
  return values;
}

std::string read_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error(path + ": cannot be opened");
  return std::string(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
}

Tensors read_safetensors(const std::string& path) {
  const std::string file = read_text(path);
  uint64_t header_bytes = 0;
  if (file.size() < sizeof(header_bytes)) throw std::runtime_error(path + ": too short for safetensors");
  std::memcpy(&header_bytes, file.data(), sizeof(header_bytes));
  if (header_bytes > file.size() - sizeof(header_bytes)) {
    throw std::runtime_error(path + ": the header is longer than the file");
  }
  const size_t data = sizeof(header_bytes) + header_bytes;
  try {
    const Json header = Json::parse(file.substr(sizeof(header_bytes), header_bytes));
    Tensors tensors;
    for (const auto& [name, entry] : header.items()) {
      if (name == "__metadata__") continue;
      StoredTensor tensor{entry.at("dtype"), entry.at("shape"), {}};
      const size_t begin = entry.at("data_offsets").at(0), end = entry.at("data_offsets").at(1);
      if (begin > end || end > file.size() - data) throw std::runtime_error(name + " lies outside the file");
      tensor.bytes.assign(file.begin() + static_cast<ptrdiff_t>(data + begin),
                          file.begin() + static_cast<ptrdiff_t>(data + end));
      tensors.emplace(name, std::move(tensor));
    }
    return tensors;
  } catch (const std::exception& error) {
    throw std::runtime_error(path + ": " + error.what());
  }
}

Tensors read_model_folder(const std::string& folder) {
  const std::string index = folder + "/model.safetensors.index.json";
  if (!std::filesystem::exists(index)) return read_safetensors(folder + "/model.safetensors");
  std::set<std::string> files;
  const Json json = Json::parse(read_text(index));
  for (const auto& [name, file] : json.at("weight_map").items()) files.insert(file.get<std::string>());
  Tensors all;
  for (const std::string& file : files) all.merge(read_safetensors(folder + "/" + file));
  return all;
}

std::string shape_text(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) text += (i != 0 ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

}  // namespace hawser::golden
