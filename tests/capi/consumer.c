/* A program that install_test.sh builds against the installed tree. */
#include <hawser.h>
#include <string.h>

int main(void) {
  hws_config* config = 0;
  if (hws_library_abi() != HWS_ABI_VERSION) return 1;
  if (hws_config_preset("gpt2-124m", &config) != HWS_OK) return 2;
  hws_config_destroy(config);
  return strcmp(hws_status_name(HWS_OK), "HWS_OK") == 0 ? 0 : 3;
}
