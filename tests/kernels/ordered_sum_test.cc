// The ordered sum performs exactly the additions of its contract, in their order, with the same bits on every
// level.
#include "kernels/include/ordered_sum.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <memory>

#include "kernels/cpu/ordered_sum_reference.h"
#include "kernels/include/reduce.h"
#include "tests/harness/guarded_buffer.h"
#include "tests/harness/kernel_levels.h"
#include "tests/harness/test_stream.h"

namespace hawser::kernels {
namespace ordered_sum_test {

using testing::GuardedBuffer;
using testing::SerialStream;

/// Returns x rounded to a type and back by the conversion kernel, which has its own tests.
float converted(float x, DType type) {
  SerialStream stream;
  uint16_t narrow = 0;
  if (type == DType::kF32) return x;
  testing::kernel_tables()[0]->convert({&narrow, &x, type, DType::kF32, 1}, stream);
  testing::kernel_tables()[0]->convert({&x, &narrow, DType::kF32, type, 1}, stream);
  return x;
}

/// Returns a random value; sums of such values depend on their order.
float spread_value(std::mt19937& random) {
  return std::ldexp(static_cast<float>(static_cast<int32_t>(random())), static_cast<int>(random() % 24) - 40);
}

struct Members {
  Members(int32_t members, int64_t n, std::mt19937& random) {
    for (int32_t m = 0; m < members; ++m) {
      arrays.push_back(std::make_unique<GuardedBuffer<float>>(n));
      for (int64_t i = 0; i < n; ++i) (*arrays.back())[i] = spread_value(random);
      pointers.push_back(arrays.back()->data());
    }
  }
  std::vector<std::unique_ptr<GuardedBuffer<float>>> arrays;
  std::vector<const void*> pointers;
};

std::vector<OrderedSum> ways(int32_t members) {
  std::vector<OrderedSum> all;
  for (const DType type : {DType::kF32, DType::kBf16, DType::kF16}) {
    all.push_back({.round_in = type, .members = members});
    all.push_back({.round_in = type, .round_to = type, .members = members});
  }
  for (int32_t group = 1; group <= members; ++group) {
    if (members % group == 0) all.push_back({.members = members, .sum_group = group});
  }
  if ((members & (members - 1)) == 0) all.push_back({.members = members, .tree = true});
  for (size_t i = 0, count = all.size(); i < count; ++i) {
    all.push_back(all[i]);
    all.back().accumulate = true;
  }
  return all;
}

TEST(OrderedSum, AddsInExactlyItsOrderOnEveryLevel) {
  std::mt19937 random(11);
  for (const int32_t members : {1, 2, 3, 4, 6, 8, 16, 40}) {
    for (const int64_t n : {0, 1, 5, 16, 17, 64, 65, 200}) {
      const Members in(members, n, random);
      for (OrderedSum args : ways(members)) {
        for (const KernelTable* table : testing::kernel_tables()) {
          GuardedBuffer<float> out(n);
          for (int64_t i = 0; i < n; ++i) out[i] = static_cast<float>(i) * 0.3f;
          args.in = in.pointers.data(), args.out = out.data(), args.n = n;
          SerialStream stream;
          table->ordered_sum(args, stream);
          ASSERT_TRUE(out.intact());
          for (int64_t i = 0; i < n; ++i) {
            const float expected = ordered_sum_reference<float>(
                args, static_cast<float>(i) * 0.3f,
                [&](int32_t m) { return converted((*in.arrays[m])[i], args.round_in); }, converted);
            ASSERT_EQ(std::bit_cast<uint32_t>(expected), std::bit_cast<uint32_t>(out[i]))
                << table->name << " members " << members << " group " << args.sum_group << " tree "
                << args.tree << " element " << i << " of " << n;
          }
        }
      }
    }
  }
}

TEST(OrderedSum, NarrowInputsAreTheSameAsWideOnesThatAreRounded) {
  std::mt19937 random(12);
  const int64_t n = 333;
  const Members wide(5, n, random);
  for (const DType type : {DType::kBf16, DType::kF16}) {
    for (const KernelTable* table : testing::kernel_tables()) {
      SerialStream stream(2);
      std::vector<std::vector<uint16_t>> narrow(5, std::vector<uint16_t>(static_cast<size_t>(n)));
      std::vector<const void*> pointers;
      for (size_t m = 0; m < narrow.size(); ++m) {
        table->convert({narrow[m].data(), wide.pointers[m], type, DType::kF32, n}, stream);
        pointers.push_back(narrow[m].data());
      }
      GuardedBuffer<float> a(n), b(n);
      table->ordered_sum(
          {.out = a.data(), .in = pointers.data(), .in_type = type, .round_to = type, .members = 5, .n = n},
          stream);
      table->ordered_sum({.out = b.data(),
                          .in = wide.pointers.data(),
                          .round_in = type,
                          .round_to = type,
                          .members = 5,
                          .n = n},
                         stream);
      EXPECT_TRUE(a.same_bits(b) && a.intact() && b.intact()) << table->name;
    }
  }
}

TEST(OrderedSum, MayWriteOverAnyInputAndIgnoresTheNumberOfWorkers) {
  std::mt19937 random(13);
  const int64_t n = 40001;
  for (const KernelTable* table : testing::kernel_tables()) {
    const Members in(3, n, random);
    GuardedBuffer<float> expected(n);
    SerialStream serial;
    table->ordered_sum({.out = expected.data(), .in = in.pointers.data(), .members = 3, .n = n}, serial);
    for (size_t over = 0; over < 3; ++over) {
      GuardedBuffer<float> place(n);
      std::memcpy(place.data(), in.pointers[over], static_cast<size_t>(n) * 4);
      std::vector<const void*> pointers = in.pointers;
      pointers[over] = place.data();
      SerialStream stream(3, testing::TaskOrder::kShuffled);
      table->ordered_sum({.out = place.data(), .in = pointers.data(), .members = 3, .n = n}, stream);
      EXPECT_TRUE(place.same_bits(expected) && place.intact()) << table->name << " over " << over;
    }
  }
}

}  // namespace ordered_sum_test
}  // namespace hawser::kernels
