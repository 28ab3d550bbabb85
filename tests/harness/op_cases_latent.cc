// Rows of the op-case table for keys and values of latent attention.
#include "kernels/cpu/latent_keys_reference.h"
#include "tests/harness/op_cases.h"

namespace hawser::testing {
namespace op_cases_latent {

using kernels::LatentKeys;
using kernels::LatentKeysBackward;
using kernels::LatentShape;

LatentShape latent_shape(int64_t rows, int64_t heads, int64_t own, int64_t shared, int64_t value,
                         int64_t gap) {
  LatentShape s;
  s.rows = rows, s.heads = heads, s.own = own, s.shared = shared, s.value = value;
  s.shared_stride = shared + gap;
  s.kv_stride = heads * (own + shared + value) + gap;
  return s;
}

std::string name_of(const LatentShape& s) {
  return std::to_string(s.rows) + "x" + std::to_string(s.heads) + "_" + std::to_string(s.own) + "_" +
         std::to_string(s.shared) + "_" + std::to_string(s.value) + "/" + type_word(s.type);
}

void* offset(void* base, int64_t elements, DType type) {
  return static_cast<char*>(base) + elements * dtype_bytes(type);
}

/// Keys and values are side by side in a row.
OpCase forward_case(LatentShape s, DType type) {
  s.type = type;
  const int64_t values = s.heads * s.key_head();
  OpCase c = {"latent_keys", name_of(s), {}, nullptr, nullptr};
  c.operands = {input("up", type, s.rows * s.heads * s.up_head(), 1),
                input("shared", type, s.rows * s.shared_stride, 2), output("kv", type, s.rows * s.kv_stride)};
  c.fast = [=](const FastCall& call) {
    call.table.latent_keys(
        LatentKeys{s, call.data[2], offset(call.data[2], values, type), call.data[0], call.data[1]},
        call.stream);
  };
  c.reference = [=](RealOperands& x) {
    latent_keys_reference(s, x[2].data(), x[2].data() + values, x[0].data(), x[1].data());
  };
  return c;
}

OpCase backward_case(LatentShape s, DType type) {
  s.type = type;
  const int64_t values = s.heads * s.key_head();
  OpCase c = {"latent_keys_backward", name_of(s), {}, nullptr, nullptr};
  c.operands = {input("dkv", type, s.rows * s.kv_stride, 1),
                output("d_up", type, s.rows * s.heads * s.up_head()),
                output("d_shared", type, s.rows * s.shared_stride, 1e-6)};
  c.fast = [=](const FastCall& call) {
    call.table.latent_keys_backward(
        LatentKeysBackward{s, call.data[1], call.data[2], call.data[0], offset(call.data[0], values, type)},
        call.stream);
  };
  c.reference = [=](RealOperands& x) {
    latent_keys_backward_reference(s, x[1].data(), x[2].data(), x[0].data(), x[0].data() + values);
  };
  return c;
}

}  // namespace op_cases_latent

void add_latent_cases(std::vector<OpCase>& cases) {
  using namespace op_cases_latent;
  for (const DType type : {DType::kF32, DType::kBf16, DType::kF16}) {
    for (const LatentShape& s :
         {latent_shape(5, 3, 7, 4, 5, 3), latent_shape(1, 1, 1, 2, 1, 0), latent_shape(70, 4, 32, 16, 24, 16),
          latent_shape(300, 2, 128, 64, 128, 0)}) {
      cases.push_back(forward_case(s, type));
      cases.push_back(backward_case(s, type));
    }
  }
}

void add_latent_gradients(std::vector<GradientCase>& cases) {
  using namespace op_cases_latent;
  const LatentShape s = latent_shape(3, 2, 3, 2, 4, 1);
  const int64_t values = s.heads * s.key_head();
  const auto n = static_cast<size_t>(s.rows * s.kv_stride);
  GradientCase c = {
      "latent_keys_backward",
      "joined",
      {random_values(s.rows * s.heads * s.up_head(), 1), random_values(s.rows * s.shared_stride, 2)},
      nullptr,
      nullptr};
  c.forward = [=](const ComplexOperands& in) {
    std::vector<Complex> kv(n);
    latent_keys_reference(s, kv.data(), kv.data() + values, in[0].data(), in[1].data());
    return ComplexOperands{kv};
  };
  c.backward = [=](const RealOperands& in, const RealOperands& dkv) {
    RealOperands d = {std::vector<double>(in[0].size()), std::vector<double>(in[1].size())};
    latent_keys_backward_reference(s, d[0].data(), d[1].data(), dkv[0].data(), dkv[0].data() + values);
    return d;
  };
  cases.push_back(c);
}

}  // namespace hawser::testing
