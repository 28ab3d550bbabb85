// Tests that impossible layouts are rejected, each with the reason.
#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "engine/mesh/layout.h"

namespace hawser::mesh {
namespace layout_check_test {

using enum Axis;

TEST(LayoutCheck, RefusesTheImpossibleByName) {
  const struct {
    Layout layout;
    std::vector<int64_t> shape;
    const char* says;
  } cases[] = {
      {{}, {}, "a tensor of 0 dims"},
      {{}, {1, 2, 3, 4, 5}, "a tensor of 5 dims"},
      {{}, {4, 0}, "dim 1 has 0 elements"},
      {{}, {int64_t{1} << 40, int64_t{1} << 40}, "more than 281474976710656 elements"},
      {{{}, {2}}, {4}, "there is no stage 2; pp has stages 0 to 1"},
      {{{}, {1, 0}}, {4}, "stage 0 after stage 1"},
      {{{replicate({})}, {}}, {4}, "Replicate over nothing names no axis"},
      {{{shard({kTp}, 0), partial({kTp})}, {}}, {4}, "tp and tp overlap"},
      {{{shard({kTp}, 0), partial({inner_half(kTp, 2)})}, {}}, {4}, "tp and tp.inner overlap"},
      {{{shard({outer_half(kTp, 2)}, 0), partial({inner_half(kTp, 4)})}, {}}, {4}, "split it in one way"},
      {{{shard({outer_half(kTp, 3)}, 0)}, {}}, {4}, "tp of degree 4 cannot be split with 3 outside"},
      {{{partial({outer_half(kPp, 2)})}, {}}, {4}, "pp is split"},
      {{{shard({kPp}, 0)}, {}}, {4}, "stages hold whole tensors"},
      {{{shard({kEp}, 0), partial({kDpShard})}, {}}, {4}, "ep and dp_shard arrange the same ranks"},
      {{{flat({kCp, kDpShard}, 0, 64)}, {}}, {4}, "names dp_shard after cp; name axes in mesh order"},
      {{{shard({kTp}, 1)}, {}}, {4}, "Shard(dim 1) over tp of a tensor of 1 dims"},
      {{{shard({kTp}, -1)}, {}}, {4}, "Shard(dim -1)"},
      {{{shard({kTp}, 0, 3)}, {}}, {4}, "3 pieces do not divide 4 elements"},
      {{{shard({kTp}, 0), shard({kDpShard}, 0, 3)}, {}}, {15}, "pieces of 5 do not fit into the 4"},
      {{{flat({kDpShard}, 61, 64)}, {}}, {4}, "the tensor's 4 elements do not fit into the buffer"},
      {{{flat({kDpShard}, -1, 64)}, {}}, {4}, "do not fit into the buffer"},
      {{{flat({kDpShard}, 0, 64), flat({kCp}, 0, 64)}, {}}, {4}, "a tensor is in only one flat buffer"},
  };
  const DeviceMesh mesh({2, 2, 2, 2, 4, 4, 1});
  for (const auto& c : cases) {
    try {
      check_layout(mesh, c.layout, c.shape);
      ADD_FAILURE() << "accepted, although: " << c.says;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kInvalidArgument);
      EXPECT_NE(error.message().find(c.says), std::string::npos) << error.message() << "\nlacks: " << c.says;
    }
  }
}

}  // namespace layout_check_test
}  // namespace hawser::mesh
