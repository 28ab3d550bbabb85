/* Trains over the ranks of an MPI job. MPI's point-to-point calls carry Hawser's messages, so training can
 * use any network that MPI supports: InfiniBand, Omni-Path, shared memory. Each process is one rank; the
 * config's mesh must have as many ranks as mpirun starts.
 *   mpicc -std=c11 examples/ranks_over_mpi.c $(pkg-config --cflags --libs hawser) -o ranks_over_mpi
 *   mpirun -n 4 ./ranks_over_mpi CONFIG.json
 * If TCP is fast enough, this program is not needed:
 *   mpirun -n 4 hawser train CONFIG.json --comm env --out RUN */
#define _POSIX_C_SOURCE 200809L
#include <mpi.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hawser.h"

enum {
  kTagData = 1,
  kTagFailure = 2,
  kSmall = 512,       /* messages up to this size are copied, so that the sender need not wait */
  kSmallOnTheWay = 2, /* the number of copied messages in transit to each rank */
  kPiece = 1 << 30    /* MPI counts in int */
};

/* ---- the transport */

typedef struct {
  MPI_Request request;
  char bytes[kSmall];
} small_message;

typedef struct {
  int32_t code;
  char text[1020];
} failure;

typedef struct {
  int rank, world;
  small_message (*small)[kSmallOnTheWay]; /* [world]: copies of the last small messages to each rank */
  int* turn;                              /* [world]: the index of the oldest copy */
  atomic_int failed;                      /* the code of this rank's own failure */
  failure told;                           /* the notice of that failure to the other ranks */
  MPI_Request* telling;                   /* [world]: its sends */
  failure heard;                          /* the notice of another rank's failure */
  MPI_Request hearing;
  const char* message; /* the reason why the last call failed */
} mpi_link;

/* Returns the code of a failure, here or on another rank; HWS_OK if there is none. */
static hws_status look(mpi_link* link) {
  const int own = atomic_load(&link->failed);
  if (own != 0) return own;
  int came = 0;
  if (link->heard.code == 0) MPI_Test(&link->hearing, &came, MPI_STATUS_IGNORE);
  if (link->heard.code != 0) link->message = link->heard.text;
  return link->heard.code;
}

/* Waits until all requests are done. After a failure they are left as they are, because the job ends. */
static hws_status finish(mpi_link* link, int n, MPI_Request* requests, double timeout_seconds) {
  const double until = MPI_Wtime() + timeout_seconds;
  for (;;) {
    int done = 0;
    if (MPI_Testall(n, requests, &done, MPI_STATUSES_IGNORE) != MPI_SUCCESS) return HWS_UNAVAILABLE;
    if (done) return HWS_OK;
    const hws_status failed = look(link);
    if (failed != HWS_OK) return failed;
    if (MPI_Wtime() > until) return HWS_TIMEOUT;
    sched_yield();
  }
}

static hws_status send_small(mpi_link* link, int to, const void* data, int64_t bytes,
                             double timeout_seconds) {
  small_message* slot = &link->small[to][link->turn[to]];
  const hws_status status =
      finish(link, 1, &slot->request, timeout_seconds); /* the message before the last */
  if (status != HWS_OK) return status;
  link->turn[to] = (link->turn[to] + 1) % kSmallOnTheWay;
  memcpy(slot->bytes, data, (size_t)bytes);
  const int sent = MPI_Isend(slot->bytes, (int)bytes, MPI_BYTE, to, kTagData, MPI_COMM_WORLD, &slot->request);
  return sent == MPI_SUCCESS ? HWS_OK : HWS_UNAVAILABLE;
}

static int piece_of(int64_t bytes) { return (int)(bytes < kPiece ? bytes : kPiece); }

/* Sends to and receives from one rank at the same time; either size may be 0. */
static hws_status exchange(void* user, int32_t rank, const void* sent, int64_t sent_bytes, void* received,
                           int64_t received_bytes, double timeout_seconds) {
  mpi_link* link = user;
  const char* from = sent;
  char* to = received;
  link->message = NULL;
  while (sent_bytes > 0 || received_bytes > 0) {
    const int out = piece_of(sent_bytes), in = piece_of(received_bytes);
    MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    if (in > 0 && MPI_Irecv(to, in, MPI_BYTE, rank, kTagData, MPI_COMM_WORLD, &requests[0]) != MPI_SUCCESS)
      return HWS_UNAVAILABLE;
    if (out > 0 &&
        MPI_Isend(from, out, MPI_BYTE, rank, kTagData, MPI_COMM_WORLD, &requests[1]) != MPI_SUCCESS)
      return HWS_UNAVAILABLE;
    const hws_status status = finish(link, 2, requests, timeout_seconds);
    if (status != HWS_OK) return status;
    from += out, sent_bytes -= out;
    to += in, received_bytes -= in;
  }
  return HWS_OK;
}

static hws_status send_to(void* user, int32_t rank, const void* data, int64_t bytes, double timeout_seconds) {
  mpi_link* link = user;
  link->message = NULL;
  if (bytes <= kSmall) return send_small(link, rank, data, bytes, timeout_seconds);
  return exchange(user, rank, data, bytes, NULL, 0, timeout_seconds);
}

static hws_status receive_from(void* user, int32_t rank, void* data, int64_t bytes, double timeout_seconds) {
  return exchange(user, rank, NULL, 0, data, bytes, timeout_seconds);
}

/* Handles the failure of this rank: its own calls check `failed`, and the other ranks receive a notice. This
 * function may run during another call, so MPI must allow several threads. */
static void abort_calls(void* user, hws_status code, const char* message) {
  mpi_link* link = user;
  int none = 0;
  if (link->heard.code != 0 || !atomic_compare_exchange_strong(&link->failed, &none, code)) return;
  link->told.code = code;
  snprintf(link->told.text, sizeof link->told.text, "%s", message);
  for (int to = 0; to < link->world; ++to)
    if (to != link->rank)
      MPI_Isend(&link->told, (int)sizeof link->told, MPI_BYTE, to, kTagFailure, MPI_COMM_WORLD,
                &link->telling[to]);
}

static const char* why(void* user) { return ((mpi_link*)user)->message; }

static int open_link(mpi_link* link) {
  memset(link, 0, sizeof *link);
  MPI_Comm_rank(MPI_COMM_WORLD, &link->rank);
  MPI_Comm_size(MPI_COMM_WORLD, &link->world);
  const size_t world = (size_t)link->world;
  link->small = calloc(world, sizeof *link->small);
  link->turn = calloc(world, sizeof *link->turn);
  link->telling = calloc(world, sizeof *link->telling);
  if (link->small == NULL || link->turn == NULL || link->telling == NULL) return 0;
  for (size_t to = 0; to < world; ++to) {
    link->telling[to] = MPI_REQUEST_NULL;
    for (int i = 0; i < kSmallOnTheWay; ++i) link->small[to][i].request = MPI_REQUEST_NULL;
  }
  return MPI_Irecv(&link->heard, (int)sizeof link->heard, MPI_BYTE, MPI_ANY_SOURCE, kTagFailure,
                   MPI_COMM_WORLD, &link->hearing) == MPI_SUCCESS;
}

/* Closes the link after a successful run: every message has arrived, or is about to. */
static void close_link(mpi_link* link) {
  for (int to = 0; to < link->world; ++to)
    MPI_Waitall(kSmallOnTheWay, (MPI_Request[]){link->small[to][0].request, link->small[to][1].request},
                MPI_STATUSES_IGNORE);
  MPI_Cancel(&link->hearing);
  MPI_Wait(&link->hearing, MPI_STATUS_IGNORE);
  free(link->small);
  free(link->turn);
  free(link->telling);
}

/* Ends the job after a failed run. The other ranks get a second to receive and print the failure, then MPI
 * ends the job. */
static void end_job(mpi_link* link) {
  int sent = 0;
  for (const double until = MPI_Wtime() + 1; MPI_Wtime() < until; sched_yield())
    if (link->telling != NULL) MPI_Testall(link->world, link->telling, &sent, MPI_STATUSES_IGNORE);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

/* ---- the program, which is the same on all ranks */

static int failed(int rank, const char* what) { /* Prints the thread's last error. */
  hws_error* error;
  if (hws_error_take(&error) == HWS_OK)
    fprintf(stderr, "rank %d: %s: %s\n", rank, what, hws_error_message(error));
  hws_error_destroy(error);
  return 0;
}

static hws_config* read_config(const char* path) {
  static char json[1 << 20];
  hws_config* config = NULL;
  FILE* file = fopen(path, "rb");
  if (file == NULL) return perror(path), NULL;
  const size_t bytes = fread(json, 1, sizeof json, file);
  fclose(file);
  if (hws_config_parse(json, bytes, HWS_FORMAT_JSON, &config)) failed(0, path);
  return config;
}

static int32_t show(void* user, const hws_train_record* at) {
  if (*(const int*)user == 0) printf("step %lld: loss %.17g\n", (long long)at->step, at->loss);
  return 0;
}

static int train(mpi_link* link, const char* path) {
  const hws_comm_host host = {.struct_size = sizeof host,
                              .rank = link->rank,
                              .world_size = link->world,
                              .user = link,
                              .send = send_to,
                              .recv = receive_from,
                              .exchange = exchange,
                              .abort = abort_calls,
                              .message = why};
  hws_comm* comm;
  hws_engine* engine;
  hws_config* config = read_config(path);
  if (config == NULL) return 0;
  if (hws_comm_create_host(&host, &comm)) return failed(link->rank, "comm");
  if (hws_engine_create_ranks(config, comm, 0, &engine)) return failed(link->rank, "engine");
  if (hws_engine_train(engine, 0, show, &link->rank, NULL)) return failed(link->rank, "train");
  hws_engine_destroy(engine);
  hws_comm_destroy(comm);
  hws_config_destroy(config);
  return 1;
}

int main(int argc, char** argv) {
  int threads;
  mpi_link link;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &threads);
  if (threads < MPI_THREAD_MULTIPLE || argc != 2) {
    fputs(argc != 2 ? "usage: mpirun -n RANKS ranks_over_mpi CONFIG.json\n"
                    : "ranks_over_mpi: this MPI was built without MPI_THREAD_MULTIPLE\n",
          stderr);
    return MPI_Abort(MPI_COMM_WORLD, 2), 2;
  }
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  if (!open_link(&link) || !train(&link, argv[1])) end_job(&link);
  close_link(&link);
  return MPI_Finalize();
}
