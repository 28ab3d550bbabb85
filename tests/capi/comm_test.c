/* Comm tests: local ranks, ranks over a transport of the host program, ranks at an address; engines over
 * them. */
#define _POSIX_C_SOURCE 200809L
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"
#include "tiny.h"

static float g_one[kMaxWeights], g_local[kMaxWeights], g_host[2][kMaxWeights];

/* Returns the config of the tiny model over `ranks` ranks, with the same global batch and micro-batches. */
static hws_config* ranks_config(int ranks, const char* stage) {
  hws_config* config = tiny_config();
  CHECK_OK(hws_config_set(config, "/mesh/dp_shard", ranks == 1 ? "1" : ranks == 2 ? "2" : "4"));
  CHECK_OK(hws_config_set(config, "/batch", "{\"micro_batch\":1,\"global_batch\":4,\"sequence\":16}"));
  CHECK_OK(hws_config_set(config, "/cpu/threads", "1"));
  CHECK_OK(hws_config_set(config, "/zero/stage", stage));
  return config;
}

/* Takes three steps and reads the weights after them. */
static hws_step_result run(hws_engine* engine, float* weights, int64_t* count) {
  hws_step_result result = push_and_step(engine, 1);
  for (uint32_t i = 2; i <= 3; ++i) result = push_and_step(engine, i);
  *count = all_weights(engine, weights, kMaxWeights);
  return result;
}

static void creates_local_ranks(void) {
  static const struct {
    int32_t ranks, status;
  } cases[] = {{1, HWS_OK},
               {4, HWS_OK},
               {4096, HWS_OK},
               {0, HWS_INVALID_ARGUMENT},
               {-1, HWS_INVALID_ARGUMENT},
               {4097, HWS_INVALID_ARGUMENT}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
    hws_comm* comm = (hws_comm*)(void*)g_one;
    CHECK_STATUS(hws_comm_create_local(cases[i].ranks, &comm), cases[i].status);
    CHECK((comm == NULL) == (cases[i].status != HWS_OK));
    hws_comm_destroy(comm);
  }
  CHECK_ERROR(hws_comm_create_local(2, NULL), HWS_INVALID_ARGUMENT, "out");
  hws_comm* comm = NULL;
  hws_buffer* out = NULL;
  CHECK_OK(hws_comm_create_local(3, &comm));
  CHECK_OK(hws_comm_info(comm, &out));
  CHECK(strcmp(check_text(out), "{\"kind\":\"local\",\"world_size\":3,\"local_ranks\":[0,1,2]}") == 0);
  hws_comm_destroy(comm);
}

static void trains_over_local_ranks(void) {
  int64_t count = 0, one_count = 0;
  hws_step_result results[2];
  for (int i = 0; i < 2; ++i) { /* 0: one rank without a comm; 1: four, each with a quarter of the model */
    hws_config* config = ranks_config(i == 0 ? 1 : 4, i == 0 ? "0" : "3");
    hws_engine* engine = NULL;
    hws_comm* comm = NULL;
    hws_buffer* out = NULL;
    if (i == 0) {
      CHECK_OK(hws_engine_create(config, 0, &engine));
    } else {
      CHECK_OK(hws_comm_create_local(4, &comm));
      CHECK_OK(hws_engine_create_ranks(config, comm, 0, &engine));
      hws_engine* second = NULL;
      CHECK_ERROR(hws_engine_create_ranks(config, comm, 0, &second), HWS_BUSY, "one engine");
      CHECK(second == NULL);
      hws_comm_destroy(comm); /* the engine keeps what it needs */
      CHECK_OK(hws_engine_info(engine, &out));
      CHECK(strstr(check_text(out), "\"ranks\":4") != NULL);
    }
    hws_config_destroy(config);
    if (engine == NULL) return;
    results[i] = run(engine, i == 0 ? g_one : g_local, i == 0 ? &one_count : &count);
    tiny_batch batch;
    double loss = 0;
    int64_t tokens = 0;
    fill_batch(&batch, 9);
    CHECK_OK(hws_engine_eval(engine, &batch.batch, 0, &loss, &tokens));
    CHECK(loss > 0 && tokens > 0);
    CHECK_OK(hws_engine_flight(engine, HWS_FORMAT_JSON, &out));
    const char* flight = check_text(out);
    CHECK((strstr(flight, "{\"ranks\":[]}") != NULL) == (i == 0));
    CHECK((strstr(flight, "\"state\":\"finished\"") != NULL) == (i == 1));
    CHECK_OK(hws_engine_flight(engine, HWS_FORMAT_TEXT, &out));
    CHECK((strstr(check_text(out), "rank 3 of 4: its last 12 of") != NULL) == (i == 1));
    CHECK_ERROR(hws_engine_flight(engine, HWS_FORMAT_BINARY, &out), HWS_INVALID_ARGUMENT, "format");
    hws_engine_destroy(engine);
  }
  CHECK(results[0].tokens == results[1].tokens && results[0].samples == results[1].samples);
  CHECK(results[0].loss - results[1].loss < 1e-5 && results[1].loss - results[0].loss < 1e-5);
  CHECK(count == one_count && count > 1000);
  for (int64_t i = 0; i < count; ++i) {
    const float difference = g_one[i] - g_local[i];
    if (difference > 1e-4f || difference < -1e-4f) {
      CHECK(difference == 0);
      break;
    }
  }
}

static void a_comm_serves_again_after_its_engine(void) {
  hws_comm* comm = NULL;
  CHECK_OK(hws_comm_create_local(2, &comm));
  hws_config* config = ranks_config(2, "1");
  for (int i = 0; i < 2; ++i) {
    hws_engine* engine = NULL;
    CHECK_OK(hws_engine_create_ranks(config, comm, i == 0 ? 0 : HWS_ENGINE_INFERENCE, &engine));
    hws_engine_destroy(engine);
  }
  hws_config_destroy(config);
  hws_comm_destroy(comm);
}

static void the_mesh_and_the_comm_must_agree(void) {
  static const struct {
    int mesh;
    int32_t ranks; /* 0: no comm */
  } cases[] = {{4, 2}, {1, 2}, {2, 0}, {2, 1}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
    hws_config* config = ranks_config(cases[i].mesh, "0");
    hws_comm* comm = NULL;
    hws_engine* engine = NULL;
    if (cases[i].ranks == 0) {
      CHECK_ERROR(hws_engine_create(config, 0, &engine), HWS_CONFIG_INVALID, "hws_engine_create_ranks");
    } else {
      CHECK_OK(hws_comm_create_local(cases[i].ranks, &comm));
      CHECK_ERROR(hws_engine_create_ranks(config, comm, 0, &engine), HWS_CONFIG_INVALID, "/mesh");
    }
    CHECK(engine == NULL);
    hws_comm_destroy(comm);
    hws_config_destroy(config);
  }
}

static void a_plan_needs_no_comm(void) {
  hws_config* config = ranks_config(4, "3");
  CHECK_OK(hws_config_set(config, "/batch", "{\"micro_batch\":1,\"global_batch\":16384,\"sequence\":16}"));
  CHECK_OK(hws_config_set(config, "/mesh", "{\"dp_shard\":64,\"dp_replicate\":256}"));
  hws_plan* plan = NULL;
  hws_buffer* out = NULL;
  CHECK_OK(hws_plan_create(config, &plan));
  CHECK_OK(hws_plan_report(plan, HWS_FORMAT_TEXT, &out));
  const char* text = check_text(out);
  CHECK(strstr(text, "16384 ranks") != NULL && strstr(text, "per rank") != NULL &&
        strstr(text, "ZeRO-3") != NULL);
  CHECK_OK(hws_plan_report(plan, HWS_FORMAT_JSON, &out));
  text = check_text(out);
  CHECK(strstr(text, "\"ranks\":16384") != NULL && strstr(text, "\"stage\":3") != NULL);
  hws_plan_destroy(plan);
  hws_config_destroy(config);
}

/* ---- a transport of the host program: two ranks of one process over a socket pair */

typedef struct link {
  int fd;
  int destroyed, aborted;
} link_t;

static int32_t move(const link_t* link, void* in, const void* out, int64_t bytes, double seconds) {
  for (int64_t done = 0; done < bytes;) {
    struct pollfd ready = {link->fd, in != NULL ? POLLIN : POLLOUT, 0};
    if (poll(&ready, 1, (int)(seconds * 1000) + 1) == 0) return HWS_TIMEOUT;
    const size_t left = (size_t)(bytes - done);
    const ssize_t n = in != NULL ? recv(link->fd, (char*)in + done, left, 0)
                                 : send(link->fd, (const char*)out + done, left, MSG_NOSIGNAL);
    if (n <= 0) return HWS_UNAVAILABLE;
    done += n;
  }
  return HWS_OK;
}
static int32_t on_send(void* user, int32_t to, const void* data, int64_t bytes, double seconds) {
  (void)to;
  return move(user, NULL, data, bytes, seconds);
}
static int32_t on_recv(void* user, int32_t from, void* data, int64_t bytes, double seconds) {
  (void)from;
  return move(user, data, NULL, bytes, seconds);
}
static void on_abort(void* user, int32_t code, const char* message) {
  link_t* link = user;
  (void)code, (void)message;
  link->aborted = 1;
  shutdown(link->fd, SHUT_RDWR);
}
static const char* on_message(void* user) {
  (void)user;
  return "the rope parted";
}
static void on_destroy(void* user) {
  link_t* link = user;
  ++link->destroyed;
  if (link->fd >= 0) close(link->fd);
}

static hws_comm_host host_of(link_t* link, int32_t rank) {
  hws_comm_host host;
  memset(&host, 0, sizeof host);
  host.struct_size = sizeof host;
  host.rank = rank;
  host.world_size = 2;
  host.user = link;
  host.send = on_send;
  host.recv = on_recv;
  host.abort = on_abort;
  host.message = on_message;
  host.destroy = on_destroy;
  return host;
}

typedef struct member {
  link_t link;
  int32_t rank, status;
  hws_step_result result;
  int64_t count;
} member_t;

static void* run_member(void* user) {
  member_t* me = user;
  const hws_comm_host host = host_of(&me->link, me->rank);
  hws_comm* comm = NULL;
  hws_engine* engine = NULL;
  hws_config* config = ranks_config(2, "2");
  me->status = hws_comm_create_host(&host, &comm);
  if (me->status == HWS_OK) me->status = hws_engine_create_ranks(config, comm, 0, &engine);
  hws_comm_destroy(comm);
  hws_config_destroy(config);
  for (uint32_t i = 1; i <= 3 && me->status == HWS_OK; ++i) {
    tiny_batch batch;
    fill_batch(&batch, i);
    me->result.struct_size = sizeof me->result;
    me->status = hws_data_push(engine, &batch.batch);
    if (me->status == HWS_OK) me->status = hws_engine_train_step(engine, &me->result);
  }
  if (me->status == HWS_OK) me->count = all_weights(engine, g_host[me->rank], kMaxWeights);
  if (me->link.destroyed != 0) me->status = -1; /* the engine still needed it */
  hws_engine_destroy(engine);
  return NULL;
}

static void trains_over_the_hosts_transport(void) {
  member_t members[2];
  int fds[2];
  pthread_t other;
  memset(members, 0, sizeof members);
  CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
  for (int i = 0; i < 2; ++i) members[i].rank = i, members[i].link.fd = fds[i];
  CHECK(pthread_create(&other, NULL, run_member, &members[1]) == 0);
  run_member(&members[0]);
  pthread_join(other, NULL);
  for (int i = 0; i < 2; ++i) {
    CHECK_STATUS(members[i].status, HWS_OK);
    CHECK(members[i].link.destroyed == 1 && members[i].link.aborted == 0 && members[i].count > 1000);
  }
  CHECK(members[0].result.loss == members[1].result.loss);
  CHECK(memcmp(g_host[0], g_host[1], (size_t)members[0].count * 4) == 0);

  /* Local ranks compute the same bits. */
  hws_comm* comm = NULL;
  hws_engine* engine = NULL;
  hws_config* config = ranks_config(2, "2");
  int64_t count = 0;
  CHECK_OK(hws_comm_create_local(2, &comm));
  CHECK_OK(hws_engine_create_ranks(config, comm, 0, &engine));
  const hws_step_result result = run(engine, g_local, &count);
  CHECK(result.loss == members[0].result.loss && result.grad_norm == members[0].result.grad_norm);
  CHECK(count == members[0].count && memcmp(g_local, g_host[0], (size_t)count * 4) == 0);
  hws_engine_destroy(engine);
  hws_comm_destroy(comm);
  hws_config_destroy(config);
}

static void a_peer_that_is_gone_ends_the_engine(void) {
  int fds[2];
  CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
  close(fds[1]);
  link_t link = {fds[0], 0, 0};
  const hws_comm_host host = host_of(&link, 0);
  hws_comm* comm = NULL;
  hws_engine* engine = NULL;
  hws_buffer* out = NULL;
  hws_config* config = ranks_config(2, "0");
  CHECK_OK(hws_comm_create_host(&host, &comm));
  CHECK_OK(hws_comm_info(comm, &out));
  CHECK(strcmp(check_text(out), "{\"kind\":\"host\",\"world_size\":2,\"local_ranks\":[0]}") == 0);
  CHECK_ERROR(hws_engine_create_ranks(config, comm, 0, &engine), HWS_UNAVAILABLE, "the rope parted");
  CHECK(engine == NULL && link.aborted == 1 && link.destroyed == 0);
  hws_comm_destroy(comm);
  CHECK(link.destroyed == 1);
  hws_config_destroy(config);
}

static void a_rank_that_cannot_begin_tells_its_peer(void) {
  int fds[2];
  CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
  link_t link = {fds[0], 0, 0};
  const hws_comm_host host = host_of(&link, 0);
  hws_comm* comm = NULL;
  hws_engine* engine = NULL;
  hws_config* config = ranks_config(2, "0");
  CHECK_OK(hws_config_set(config, "/data",
                          "{\"format\":\"text\",\"vocabulary\":\"bytes\",\"path\":\"/no/file\"}"));
  CHECK_OK(hws_config_set(config, "/model/vocab_size", "256"));
  CHECK_OK(hws_comm_create_host(&host, &comm));
  CHECK_ERROR(hws_engine_create_ranks(config, comm, 0, &engine), HWS_NOT_FOUND, "/no/file");
  CHECK(link.aborted == 1);
  hws_comm_destroy(comm);
  hws_config_destroy(config);
  close(fds[1]);
}

static void refuses_bad_transports(void) {
  for (int i = 0; i < 8; ++i) {
    link_t link = {-1, 0, 0};
    struct {
      hws_comm_host host;
      int64_t unknown;
    } given;
    memset(&given, 0, sizeof given);
    hws_comm_host* host = &given.host;
    *host = host_of(&link, 1);
    const char* words = "";
    int32_t status = HWS_INVALID_ARGUMENT;
    if (i == 0) host->send = NULL, words = "host->send";
    if (i == 1) host->recv = NULL, words = "host->recv";
    if (i == 2) host->rank = 2, words = "host->rank";
    if (i == 3) host->rank = -1, words = "host->rank";
    if (i == 4) host->world_size = 0, words = "host->world_size";
    if (i == 5) host->reserved = 1, words = "host->reserved";
    if (i == 6) {
      host->struct_size = sizeof given;
      given.unknown = 1;
      status = HWS_ABI_MISMATCH, words = "newer";
    }
    if (i == 7) host->struct_size = 8, status = HWS_ABI_MISMATCH, words = "struct_size";
    hws_comm* comm = (hws_comm*)(void*)g_one;
    CHECK_ERROR(hws_comm_create_host(host, &comm), status, words);
    CHECK(comm == NULL);
    CHECK(link.destroyed == (i == 7 ? 0 : 1)); /* what cannot be read cannot be destroyed */
  }
  link_t link = {-1, 0, 0};
  const hws_comm_host host = host_of(&link, 0);
  CHECK_ERROR(hws_comm_create_host(&host, NULL), HWS_INVALID_ARGUMENT, "out");
  CHECK(link.destroyed == 1);
  hws_comm* comm = NULL;
  CHECK_ERROR(hws_comm_create_host(NULL, &comm), HWS_INVALID_ARGUMENT, "host");
}

static void meets_at_an_address(void) {
  static const struct {
    const char *address, *words;
    int32_t rank, world_size;
    double timeout_seconds;
  } cases[] = {
      {NULL, "address->address", 0, 1, 0},          {"127.0.0.1", "127.0.0.1", 0, 1, 1},
      {"127.0.0.1:0", "rank 3", 3, 2, 1},           {"127.0.0.1:0", "world of 0", 0, 0, 1},
      {"127.0.0.1:1", "timeout_seconds", 0, 1, -1},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
    hws_comm_address address;
    memset(&address, 0, sizeof address);
    address.struct_size = sizeof address;
    address.rank = cases[i].rank;
    address.world_size = cases[i].world_size;
    address.address = cases[i].address;
    address.timeout_seconds = cases[i].timeout_seconds;
    hws_comm* comm = (hws_comm*)(void*)g_one;
    const int32_t status = hws_comm_create_address(&address, &comm);
    CHECK(comm == NULL);
    CHECK_STATUS(status, HWS_INVALID_ARGUMENT);
    check_error(__FILE__, (int)i, HWS_INVALID_ARGUMENT, cases[i].words);
  }
  hws_comm* comm = NULL;
  CHECK_ERROR(hws_comm_create_address(NULL, &comm), HWS_INVALID_ARGUMENT, "address");
}

int main(void) {
  check_begin();
  creates_local_ranks();
  trains_over_local_ranks();
  a_comm_serves_again_after_its_engine();
  the_mesh_and_the_comm_must_agree();
  a_plan_needs_no_comm();
  trains_over_the_hosts_transport();
  a_peer_that_is_gone_ends_the_engine();
  a_rank_that_cannot_begin_tells_its_peer();
  refuses_bad_transports();
  meets_at_an_address();
  return check_end();
}
