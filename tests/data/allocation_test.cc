// Allocation test: a step allocates nothing, so reading its rows must not either. This binary counts operator
// new (counting_new.cc).
#include <atomic>

#include "engine/base/utf8.h"
#include "tests/data/data_files.h"

extern std::atomic<int64_t> operator_new_calls;

namespace hawser::data {
namespace allocation_test {

class AllocationTest : public DataTest {
 protected:
  static void expect_none(const DataConfig& config, const Vocabulary& vocabulary) {
    const auto dataset = Dataset::open(config, vocabulary, 1, 33, 0);
    OwnedRows rows(4, 33);
    const Rows view = rows.view();
    const int64_t before = operator_new_calls;
    for (uint64_t sample = 0; sample < 200; sample += 4) dataset->read(Split::kTrain, sample, view);
    for (uint64_t sample = 0; sample < 4; sample += 4) dataset->read(Split::kValidation, sample, view);
    EXPECT_EQ(operator_new_calls - before, 0);
  }
};

TEST_F(AllocationTest, ReadingAllocatesNothing) {
  DataConfig config = tokens_config(
      {{write_tokens("a", counting<uint32_t>(3000)), 2}, {write_tokens("b", counting<uint32_t>(2500)), 1}});
  config.validation_fraction = 0.2;
  config.packing = true;
  config.separator = 40;
  expect_none(config, Vocabulary());

  write_tokens("m.bin", counting<uint16_t>(3000));
  std::vector<int64_t> starts;
  for (int64_t i = 0; i < 300; i += 2) starts.push_back(i);
  write("m.idx", MegatronIndex::of(std::vector<int32_t>(300, 10), starts, 8, 2).bytes());
  config.format = DataFormat::kMegatron;
  config.separator = -1;
  config.sources = {{path("m")}};
  expect_none(config, Vocabulary());

  std::string text;
  for (uint32_t i = 0; i < 3000; ++i) append_code_point(i % 3 == 0 ? 0x20AC : 'a' + i % 26, &text);
  config.format = DataFormat::kText;
  config.sources = {{write("t", text)}, {write("u", text)}};
  for (const Vocabulary& vocabulary : {Vocabulary::bytes(), Vocabulary::characters_of({path("t")})}) {
    config.vocabulary = vocabulary.kind();
    config.packing = true;
    expect_none(config, vocabulary);
    config.packing = false;
    expect_none(config, vocabulary);
  }
}

}  // namespace allocation_test
}  // namespace hawser::data
