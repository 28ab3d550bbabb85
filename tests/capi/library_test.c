/* hws_library_*, hws_status_name, hws_device_*, hws_error_* and hws_buffer_*. */
#include <pthread.h>
#include <string.h>

#include "check.h"

static void library(void) {
  CHECK(hws_library_abi() == HWS_ABI_VERSION);
  CHECK(strchr(hws_library_version(), '.') != NULL);
  hws_buffer* info = NULL;
  CHECK_OK(hws_library_info(&info));
  const char* text = check_text(info);
  CHECK(strstr(text, hws_library_version()) != NULL);
  CHECK(strcmp(hws_status_name(HWS_OK), "HWS_OK") == 0);
  CHECK(strcmp(hws_status_name(HWS_CONFIG_INVALID), "HWS_CONFIG_INVALID") == 0);
  CHECK(strcmp(hws_status_name(12345), "HWS_UNKNOWN") == 0);
}

static void devices(void) {
  hws_buffer* out = NULL;
  CHECK_OK(hws_device_list(&out));
  CHECK(strstr(check_text(out), "cpu") != NULL);
  CHECK_OK(hws_device_measure(1, 0.02, &out));
  const char* text = check_text(out);
  CHECK(text[0] == '{' && strchr(text, ':') != NULL);
  CHECK_ERROR(hws_data_prepare("{\"model\": 3}", NULL, NULL, NULL, &out), HWS_INVALID_ARGUMENT,
              "\"model\" is 3");
  CHECK_ERROR(hws_data_preview("nowhere", 0, &out), HWS_NOT_FOUND, "prepared.json");
  CHECK_ERROR(hws_device_measure(-1, 0.02, &out), HWS_INVALID_ARGUMENT, "threads");
  CHECK_ERROR(hws_device_measure(1, -1, &out), HWS_INVALID_ARGUMENT, "seconds");
  CHECK(out == NULL);
  double flops = 0;
  CHECK_OK(hws_device_peak(1, "bf16", 0.01, &flops));
  CHECK(flops > 0);
  CHECK_ERROR(hws_device_peak(1, "fp8", 0.01, &flops), HWS_INVALID_ARGUMENT, "\"fp8\"");
}

static void buffers(void) {
  hws_buffer* out = NULL;
  CHECK_OK(hws_library_info(&out));
  CHECK(hws_buffer_size(out) > 0 && hws_buffer_data(out) != NULL);
  hws_buffer_destroy(out);
  CHECK(hws_buffer_size(out) == 0 && hws_buffer_data(out) == NULL);
  hws_buffer_destroy(out);
  hws_buffer_destroy(NULL);
  CHECK_ERROR(hws_library_info(NULL), HWS_INVALID_ARGUMENT, "`out` is NULL");
}

static void* read_elsewhere(void* user) {
  hws_error* error = user;
  hws_error* mine = NULL;
  CHECK_STATUS(hws_error_take(&mine), HWS_NOT_FOUND);
  CHECK(mine == NULL);
  CHECK(hws_error_code(error) == HWS_NOT_FOUND);
  CHECK(strstr(hws_error_message(error), "no-such-preset") != NULL);
  CHECK(hws_error_details(error)[0] == '{');
  return NULL;
}

static void errors(void) {
  hws_config* config = NULL;
  CHECK_STATUS(hws_config_preset("no-such-preset", &config), HWS_NOT_FOUND);
  CHECK(config == NULL);
  hws_buffer* info = NULL;
  CHECK_OK(hws_library_info(&info)); /* success changes nothing */
  hws_buffer_destroy(info);
  hws_error* error = NULL;
  CHECK_OK(hws_error_take(&error));
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, read_elsewhere, error) == 0);
  pthread_join(thread, NULL);
  hws_error_destroy(error);
  CHECK(hws_error_code(error) == HWS_BAD_HANDLE);
  CHECK(strcmp(hws_error_message(error), "") == 0 && strcmp(hws_error_details(NULL), "") == 0);
  CHECK_STATUS(hws_error_take(&error), HWS_NOT_FOUND);
  CHECK_STATUS(hws_error_take(NULL), HWS_INVALID_ARGUMENT);
}

int main(void) {
  check_begin();
  library();
  devices();
  buffers();
  errors();
  return check_end();
}
