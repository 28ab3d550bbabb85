/* Trains one model on two processes, each of which stores half of it (ZeRO-3), over the program's own
 * transport: plain sockets. Any connection can be used, for example TCP between hosts, because a transport
 * only needs a send and a receive.
 *   cc examples/ranks_over_sockets.c $(pkg-config --cflags --libs hawser) -o ranks && ./ranks */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hawser.h"

enum { kRanks = 2, kRows = 8, kCols = 32, kSteps = 60 };

static const char* config_json =
    "{\"model\": {\"vocab_size\": 16, \"context\": 32, \"layers\": 2, \"width\": 32, \"heads\": 2},"
    " \"mesh\": {\"dp_shard\": 2}, \"zero\": {\"stage\": 3},"
    " \"batch\": {\"global_batch\": 8}, \"train\": {\"steps\": 60},"
    " \"optimizer\": {\"learning_rate\": 0.01}, \"schedule\": {\"kind\": \"constant\"}}";

/* ---- the transport, whose `user` is the socket to the other rank */

static int32_t wait_for(int fd, short events, double timeout_seconds) {
  struct pollfd ready = {fd, events, 0};
  const int n = poll(&ready, 1, 1 + (int)(1000 * (timeout_seconds < 1e6 ? timeout_seconds : 1e6)));
  return n > 0 || (n < 0 && errno == EINTR) ? HWS_OK : n == 0 ? HWS_TIMEOUT : HWS_UNAVAILABLE;
}

static int32_t send_all(void* user, int32_t to_rank, const void* data, int64_t bytes,
                        double timeout_seconds) {
  const int fd = *(const int*)user;
  (void)to_rank; /* there is only one other rank */
  for (const char* at = data; bytes > 0;) {
    const int32_t status = wait_for(fd, POLLOUT, timeout_seconds);
    if (status != HWS_OK) return status;
    const ssize_t n = send(fd, at, (size_t)bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno != EAGAIN && errno != EINTR) return HWS_UNAVAILABLE;
    if (n > 0) at += n, bytes -= n;
  }
  return HWS_OK;
}

static int32_t receive_all(void* user, int32_t from_rank, void* data, int64_t bytes, double timeout_seconds) {
  const int fd = *(const int*)user;
  (void)from_rank;
  for (char* at = data; bytes > 0;) {
    const int32_t status = wait_for(fd, POLLIN, timeout_seconds);
    if (status != HWS_OK) return status;
    const ssize_t n = recv(fd, at, (size_t)bytes, MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
      return HWS_UNAVAILABLE; /* 0: the peer has ended */
    if (n > 0) at += n, bytes -= n;
  }
  return HWS_OK;
}

/* Makes running calls return at once, here and on the other rank. */
static void abort_link(void* user, int32_t code, const char* message) {
  (void)code, (void)message;
  shutdown(*(const int*)user, SHUT_RDWR);
}

/* ---- the program, which is the same in both processes */

static int failed(int rank, const char* what) { /* Prints the thread's last error. */
  hws_error* error;
  if (hws_error_take(&error) == HWS_OK)
    fprintf(stderr, "rank %d: %s: %s\n", rank, what, hws_error_message(error));
  hws_error_destroy(error);
  return 1;
}

static int train(int rank, int fd) {
  const hws_comm_host host = {.struct_size = sizeof host,
                              .rank = rank,
                              .world_size = kRanks,
                              .user = &fd,
                              .send = send_all,
                              .recv = receive_all,
                              .abort = abort_link};
  hws_comm* comm;
  hws_config* config;
  hws_engine* engine;
  if (hws_comm_create_host(&host, &comm)) return failed(rank, "comm");
  if (hws_config_parse(config_json, strlen(config_json), HWS_FORMAT_JSON, &config))
    return failed(rank, "config");
  if (hws_engine_create_ranks(config, comm, 0, &engine)) return failed(rank, "engine");
  double first = 0, last = 0;
  for (int step = 0; step < kSteps; ++step) { /* every process pushes the whole global batch */
    int32_t tokens[kRows * kCols], targets[kRows * kCols];
    for (int i = 0; i < kRows * kCols; ++i) {
      tokens[i] = (i / kCols * 5 + i % kCols + step) % 16;
      targets[i] = (tokens[i] + 1) % 16;
    }
    const hws_batch batch = {
        .struct_size = sizeof batch, .rows = kRows, .cols = kCols, .tokens = tokens, .targets = targets};
    hws_step_result result = {.struct_size = sizeof result};
    if (hws_data_push(engine, &batch)) return failed(rank, "push");
    if (hws_engine_train_step(engine, &result)) return failed(rank, "step");
    if (step == 0) first = result.loss;
    last = result.loss; /* the loss of the global batch, in every process */
    if (rank == 0 && result.step % 10 == 0) printf("step %lld: loss %.4f\n", (long long)result.step, last);
  }
  hws_engine_destroy(engine);
  hws_config_destroy(config);
  hws_comm_destroy(comm);
  return last < 0.5 * first ? 0 : 1;
}

int main(void) {
  int fds[kRanks], status = 1;
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds) != 0) return 1;
  const pid_t child = fork(); /* must come before the library creates threads, which a fork does not copy */
  if (child < 0) return 1;
  const int rank = child == 0 ? 1 : 0;
  close(fds[1 - rank]);
  const int mine = train(rank, fds[rank]);
  if (rank == 1) return mine;
  if (waitpid(child, &status, 0) != child) return 1;
  return mine != 0 || status != 0;
}
