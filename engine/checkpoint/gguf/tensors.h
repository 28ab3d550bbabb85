// Tensors: lists the tensors of a GGUF file and how each is made from our parameters.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/checkpoint/gguf/format.h"
#include "engine/checkpoint/hf/hf_model.h"
#include "engine/nn/model_config.h"
#include "engine/nn/parameter.h"

namespace hawser::checkpoint::gguf {

/// Consecutive rows of one of our parameters. A row is a run of the last dim; a vector has rows of 1 number.
struct Rows {
  size_t parameter = 0;  ///< index into Tensor::parameters
  int64_t first = 0, count = 0;
};

struct Tensor {
  std::string name;
  std::vector<int64_t> shape;
  std::vector<std::string> parameters;
  std::vector<Rows> rows;   ///< in the order of the file; empty: zeros, or `constant`
  bool transposed = false;  ///< each entry of `rows` is a matrix that is written transposed
  double offset = 0;        ///< is added to each number
  double factor = 1;        ///< multiplies each number first
  bool exact = false;       ///< is always stored in f32: vectors, a router or a table of positions
  std::vector<float> constant;
};

/// Lists the tensors in the order in which they are written, which takes each block's parameters together.
/// The model has no obstacle (architecture.h).
std::vector<Tensor> tensors_of(std::string_view family, const nn::ModelConfig& model,
                               const nn::ParameterTable& table);

/// Appends the tensor to the file.
void write_tensor(Writer* writer, const Tensor& tensor, const nn::ParameterTable& table,
                  const hf::ParameterSource& source);

/// Returns the order of rows in which the halves of each head of `head_dim` rows, from its row `from` on,
/// alternate: llama.cpp rotates adjacent elements there. Any other row keeps its place.
std::vector<int64_t> pair_order(int64_t rows, int64_t head_dim, int64_t from);

}  // namespace hawser::checkpoint::gguf
