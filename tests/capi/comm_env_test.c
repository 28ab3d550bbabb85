/* Comm environment tests: ranks that a launcher's variables describe, with overrides, and a job's secret. */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "free_address.h"

static char g_address[64];

static void set_rank(const char* rank, const char* world_size) {
  setenv("HAWSER_RANK", rank, 1);
  setenv("HAWSER_WORLD_SIZE", world_size, 1);
  setenv("HAWSER_ADDRESS", g_address, 1);
}

static hws_comm_address overrides(void) {
  hws_comm_address address;
  memset(&address, 0, sizeof address);
  address.struct_size = sizeof address;
  address.timeout_seconds = 20;
  return address;
}

static void says_what_it_read(void) {
  unsetenv("HAWSER_RANK");
  hws_buffer* buffer = NULL;
  hws_comm* comm = NULL;
  CHECK_ERROR(hws_comm_read_env(&buffer), HWS_FAILED_PRECONDITION, "no launcher started this process");
  CHECK_ERROR(hws_comm_create_env(NULL, &comm), HWS_FAILED_PRECONDITION, "no launcher");
  set_rank("0", "1");
  CHECK_OK(hws_comm_read_env(&buffer));
  const char* text = check_text(buffer);
  CHECK(strstr(text, "\"launcher\":\"hawser\"") != NULL && strstr(text, "\"local_world_size\":null") != NULL);
  CHECK(strstr(text, "{\"name\":\"HAWSER_RANK\",\"value\":\"0\"}") != NULL);
  CHECK_OK(hws_comm_create_env(NULL, &comm));
  CHECK_OK(hws_comm_info(comm, &buffer));
  text = check_text(buffer);
  CHECK(strstr(text, "\"kind\":\"env\"") != NULL && strstr(text, "\"environment\":{\"launcher\"") != NULL);
  hws_comm_destroy(comm);
}

static void refuses_overrides_that_are_wrong(void) {
  set_rank("0", "1");
  hws_comm* comm = NULL;
  hws_comm_address address = overrides();
  address.rank = 1;
  CHECK_ERROR(hws_comm_create_env(&address, &comm), HWS_INVALID_ARGUMENT, "overrides->rank");
  address = overrides();
  address.silence_seconds = -1;
  CHECK_ERROR(hws_comm_create_env(&address, &comm), HWS_INVALID_ARGUMENT, "silence_seconds");
  address = overrides();
  address.trust_network = 2;
  CHECK_ERROR(hws_comm_create_env(&address, &comm), HWS_INVALID_ARGUMENT, "trust_network");
  address = overrides();
  address.without_shared_memory = -1;
  CHECK_ERROR(hws_comm_create_env(&address, &comm), HWS_INVALID_ARGUMENT, "without_shared_memory");
  address = overrides();
  address.secret_file = "/nowhere/secret";
  CHECK_ERROR(hws_comm_create_env(&address, &comm), HWS_NOT_FOUND, "/nowhere/secret");
  address = overrides();
  address.address = "10.9.8.7:1";
  CHECK_ERROR(hws_comm_create_env(&address, &comm), HWS_FAILED_PRECONDITION, "without a secret");
  address = overrides();
  address.struct_size = 48; /* a program of the first version of this struct */
  address.silence_seconds = -1;
  CHECK_OK(hws_comm_create_env(&address, &comm));
  hws_comm_destroy(comm);
}

static int g_destroyed;
static void on_destroy(void* user) {
  CHECK(strcmp(user, "fail") == 0 || strcmp(user, "too much") == 0 || strcmp(user, "short") == 0);
  ++g_destroyed;
}

static int32_t give_secret(void* user, void* data, size_t capacity, size_t* bytes) {
  const char* secret = user;
  if (strcmp(secret, "fail") == 0) return 7;
  *bytes = strcmp(secret, "too much") == 0 ? capacity + 1 : strlen(secret);
  if (*bytes <= capacity) memcpy(data, secret, *bytes);
  return 0;
}

static const char kSecret[] = "this is known to the ranks of one job only";

static void* run_rank(void* user) {
  hws_comm_address address = overrides();
  address.address = g_address;
  address.rank = *(const int*)user;
  address.world_size = 2;
  address.job = "one";
  address.secret = give_secret;
  address.secret_user = (void*)kSecret;
  hws_comm* comm = NULL;
  CHECK_OK(hws_comm_create_address(&address, &comm));
  hws_comm_destroy(comm);
  return NULL;
}

static void meets_with_a_secret(void) {
  hws_comm* comm = NULL;
  hws_comm_address address = overrides();
  address.address = g_address;
  address.world_size = 1;
  address.secret = give_secret;
  address.secret_user = "fail";
  address.secret_destroy = on_destroy; /* once for each call, whatever becomes of it */
  CHECK_ERROR(hws_comm_create_address(&address, &comm), HWS_CALLBACK, "returned 7");
  address.secret_user = "too much";
  CHECK_ERROR(hws_comm_create_address(&address, &comm), HWS_INVALID_ARGUMENT, "4097 bytes; at most 4096");
  address.secret_file = "secret";
  CHECK_ERROR(hws_comm_create_address(&address, &comm), HWS_INVALID_ARGUMENT, "together with `secret_file`");
  CHECK(g_destroyed == 3);
  CHECK_ERROR(hws_comm_create_env(&address, &comm), HWS_INVALID_ARGUMENT, "together with `secret_file`");
  CHECK(g_destroyed == 4);
  address.struct_size =
      offsetof(hws_comm_address, secret_destroy); /* a caller that does not know the field */
  CHECK_ERROR(hws_comm_create_address(&address, &comm), HWS_INVALID_ARGUMENT, "together with `secret_file`");
  CHECK(g_destroyed == 4);
  address.struct_size = sizeof address;
  address.secret_file = NULL;
  address.secret_user = "short";
  const int32_t status = hws_comm_create_address(&address, &comm);
  CHECK(g_destroyed == 5);
  if (status == HWS_UNAVAILABLE) return; /* no libsodium here */
  check_error(__FILE__, __LINE__, HWS_INVALID_ARGUMENT, "the secret has 5 bytes");
  for (int round = 0; round < 20; ++round) { /* rank 0 may leave while rank 1 still arrives */
    free_address(g_address, sizeof g_address);
    pthread_t thread;
    int ranks[2] = {0, 1};
    CHECK(pthread_create(&thread, NULL, run_rank, &ranks[0]) == 0);
    run_rank(&ranks[1]);
    pthread_join(thread, NULL);
  }
}

int main(void) {
  check_begin();
  free_address(g_address, sizeof g_address);
  says_what_it_read();
  refuses_overrides_that_are_wrong();
  meets_with_a_secret();
  return check_end();
}
