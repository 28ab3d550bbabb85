// A full handle table gave HWS_OUT_OF_MEMORY without a message, because taking the message needs a handle.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "capi/include/hawser.h"

namespace full_table_test {

TEST(FullTable, SaysSo) {
  std::vector<hws_buffer*> all;
  int32_t status = HWS_OK;
  while (status == HWS_OK && all.size() < 100000) {
    hws_buffer* info = nullptr;
    status = hws_library_info(&info);
    if (info != nullptr) all.push_back(info);
  }
  EXPECT_EQ(status, HWS_OUT_OF_MEMORY);
  std::vector<hws_error*> errors;
  for (int i = 0; i < 200; ++i) {  // for example, on 200 threads
    hws_buffer* info = nullptr;
    EXPECT_EQ(hws_library_info(&info), HWS_OUT_OF_MEMORY);
    hws_error* error = nullptr;
    ASSERT_EQ(hws_error_take(&error), HWS_OK) << i;
    EXPECT_EQ(hws_error_code(error), HWS_OUT_OF_MEMORY);
    EXPECT_NE(std::strstr(hws_error_message(error), "handles are in use"), nullptr)
        << hws_error_message(error);
    errors.push_back(error);
  }
  for (hws_error* error : errors) hws_error_destroy(error);
  for (hws_buffer* buffer : all) hws_buffer_destroy(buffer);
  hws_buffer* info = nullptr;
  EXPECT_EQ(hws_library_info(&info), HWS_OK);
  hws_buffer_destroy(info);
}

/// A host program that keeps many error handles cannot take another, but the last error stays until the
/// program has destroyed some of them.
TEST(FullTable, KeepsAnErrorThatHasNoHandle) {
  std::vector<hws_error*> errors;
  int32_t status = HWS_OK;
  while (status == HWS_OK && errors.size() < 100000) {
    EXPECT_EQ(hws_library_info(nullptr), HWS_INVALID_ARGUMENT);
    hws_error* error = nullptr;
    status = hws_error_take(&error);
    if (error != nullptr) errors.push_back(error);
  }
  EXPECT_EQ(status, HWS_OUT_OF_MEMORY);
  hws_error_destroy(errors.back());
  errors.pop_back();
  hws_error* kept = nullptr;
  EXPECT_EQ(hws_error_take(&kept), HWS_OK);
  EXPECT_EQ(hws_error_code(kept), HWS_INVALID_ARGUMENT);
  hws_error_destroy(kept);
  for (hws_error* error : errors) hws_error_destroy(error);
}

}  // namespace full_table_test
