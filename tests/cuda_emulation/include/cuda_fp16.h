// __half as <cuda_fp16.h> has it, for g++, by the compiler's own half type: round to nearest even.
#pragma once

struct __half {
  _Float16 value;
};

inline float __half2float(__half x) { return static_cast<float>(x.value); }
inline __half __float2half_rn(float x) { return {static_cast<_Float16>(x)}; }
