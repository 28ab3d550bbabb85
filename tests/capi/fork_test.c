/* fork test: in the child, calls on the parent's engine return a status, and the child can create its own
 * engine. The parent's engine continues. */
#define _XOPEN_SOURCE 700
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "tiny.h"

static int child(hws_engine* engine, hws_op* op) {
  hws_buffer* out = NULL;
  int fine = hws_engine_train_step(engine, NULL) == HWS_FORKED;
  fine = fine && hws_engine_info(engine, &out) == HWS_FORKED && out == NULL;
  fine = fine && hws_engine_metrics(engine, &out) == HWS_FORKED;
  fine = fine && hws_engine_cancel(engine) == HWS_FORKED;
  fine = fine && hws_op_wait(op, -1) == HWS_FORKED;
  hws_op_destroy(op);
  hws_error* error = NULL;
  fine = fine && hws_error_take(&error) == HWS_OK && strstr(hws_error_message(error), "fork") != NULL;
  hws_error_destroy(error);
  hws_engine_destroy(engine); /* joins nothing */
  fine = fine && hws_engine_info(engine, &out) == HWS_BAD_HANDLE;
  hws_engine* own = tiny_engine(0);
  fine = fine && push_and_step(own, 1).step == 1;
  hws_engine_destroy(own);
  return fine ? 0 : 1;
}

int main(void) {
  check_begin();
  hws_engine* engine = tiny_engine(0);
  push_and_step(engine, 1);
  hws_op* op = NULL;
  CHECK_OK(hws_checkpoint_save_async(engine, check_path("checkpoint"), &op));
  const pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) {
    alarm(30);
    _exit(child(engine, op));
  }
  int status = 0;
  CHECK(waitpid(pid, &status, 0) == pid);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  CHECK_OK(hws_op_wait(op, -1));
  hws_op_destroy(op);
  CHECK(push_and_step(engine, 2).step == 2);
  hws_engine_destroy(engine);
  return check_end();
}
