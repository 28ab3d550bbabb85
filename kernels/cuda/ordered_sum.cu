// The ordered sum over members: each thread sums its elements over all members, in the order of the contract.
#include "kernels/cuda/block_record.h"
#include "kernels/cuda/elements.h"
#include "kernels/cuda/table.h"
#include "kernels/cuda/types.h"

namespace hawser::kernels::cuda {
namespace {

/// Addresses of members are passed as kernel parameters, which may have at most 32,764 bytes (compute
/// capability 7.0, CUDA 12.1).
constexpr int kFewMembers = 16, kMostMembers = 2048;
constexpr int kDeepest = 12;  ///< levels of a tree over kMostMembers, plus one

template <int kCapacity>
struct Members {
  const void* in[kCapacity];
};

__device__ __forceinline__ float through(float x, DType type) {
  if (type == DType::kBf16) return rounded_to<bf16>(x);
  return type == DType::kF16 ? rounded_to<f16>(x) : x;
}

/// Loads the addends i to i + N of one member.
template <class T, int N>
struct Addends {
  __device__ static void get(float* x, const void* in, int64_t i) {
    load<N>(x, static_cast<const T*>(in) + i);
  }
};
template <int N>
struct Addends<I8Block, N> {
  __device__ static void get(float* x, const void* in, int64_t i) { load_numbers<I8Block, N>(x, in, i); }
};
template <int N>
struct Addends<I4Block, N> {
  __device__ static void get(float* x, const void* in, int64_t i) { load_numbers<I4Block, N>(x, in, i); }
};

template <class T, int kCapacity>
struct OrderedSums {
  OrderedSum a;
  Members<kCapacity> members;

  template <int N>
  __device__ void addend(float* x, int32_t member, int64_t i) const {
    Addends<T, N>::get(x, members.in[member], i);
#pragma unroll
    for (int k = 0; k < N; ++k) x[k] = through(x[k], a.round_in);
  }

  template <int N>
  __device__ void add_group(float* sum, int32_t begin, int32_t end, int64_t i) const {
    addend<N>(sum, begin, i);
    for (int32_t m = begin + 1; m < end; ++m) {
      float x[N];
      addend<N>(x, m, i);
#pragma unroll
      for (int k = 0; k < N; ++k) sum[k] += x[k];
    }
  }

  template <int N>
  __device__ void sum_in_order(float* total, int64_t i) const {
    const int32_t group = a.sum_group == 0 ? a.members : a.sum_group;
    add_group<N>(total, 0, group, i);
    for (int32_t g = group; g < a.members; g += group) {
      float sum[N];
      add_group<N>(sum, g, g + group, i);
#pragma unroll
      for (int k = 0; k < N; ++k) total[k] += sum[k];
    }
  }

  /// Adds by a tree. The stack holds subtrees that wait for their right neighbour; member m completes as many
  /// of them as m has trailing ones.
  template <int N>
  __device__ void sum_by_tree(float* total, int64_t i) const {
    float stack[kDeepest][N];
    int depth = 0;
    for (int32_t m = 0; m < a.members; ++m) {
      float sum[N];
      addend<N>(sum, m, i);
      for (uint32_t bits = static_cast<uint32_t>(m); (bits & 1u) != 0; bits >>= 1) {
        --depth;
        for (int k = 0; k < N; ++k) sum[k] = stack[depth][k] + sum[k];
      }
      for (int k = 0; k < N; ++k) stack[depth][k] = sum[k];
      ++depth;
    }
    for (int k = 0; k < N; ++k) total[k] = stack[0][k];
  }

  template <int N>
  __device__ void at(int64_t i) const {
    float total[N], out[N] = {};
    if (a.tree) {
      sum_by_tree<N>(total, i);
    } else {
      sum_in_order<N>(total, i);
    }
    if (a.accumulate) load<N>(out, a.out + i);
#pragma unroll
    for (int k = 0; k < N; ++k) {
      total[k] = through(total[k], a.round_to);
      if (a.accumulate) total[k] = out[k] + total[k];
    }
    store<N>(a.out + i, total);
  }
};

template <int kCapacity>
void run(const OrderedSum& args, CudaStream& stream) {
  bool wide = all_wide({args.out});
  Members<kCapacity> members = {};
  for (int32_t m = 0; m < args.members; ++m) {
    members.in[m] = args.in[m];
    wide = wide && (is_block_type(args.in_type) || all_wide({args.in[m]}));  // records are read by bytes
  }
  const auto sum = [&](auto tag) {
    for_each_element(stream, "ordered_sum", args.n, wide,
                     OrderedSums<type_of<decltype(tag)>, kCapacity>{args, members});
  };
  if (args.in_type == DType::kI8Block) return sum(Type<I8Block>{});
  if (args.in_type == DType::kI4Block) return sum(Type<I4Block>{});
  for_type_or_half(args.in_type, sum);
}

}  // namespace

void ordered_sum(const OrderedSum& args, Stream& stream) {
  CudaStream& cuda = cuda_stream(stream);
  if (args.members <= kFewMembers) return run<kFewMembers>(args, cuda);
  if (args.members <= kMostMembers) return run<kMostMembers>(args, cuda);
  cuda.keep_unimplemented("ordered_sum", "more than 2048 members");
}

}  // namespace hawser::kernels::cuda
