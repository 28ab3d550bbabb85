// Signal handling of the command. The library installs no handler, so a program that wants to handle Ctrl-C
// installs its own.
#include "bindings/cli/interrupt.h"

#include "bindings/cli/client.h"
#include "capi/include/hawser.h"

namespace hawser::cli {
namespace {

volatile std::sig_atomic_t signal_seen = 0, hangup_seen = 0;

extern "C" void on_signal(int number) {
  signal_seen = 1;
  if (number == SIGHUP) hangup_seen = 1;
}

int32_t poll(void*) { return signal_seen; }

void install(int number, void (*handler)(int), int flags) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = flags;
  sigemptyset(&action.sa_mask);
  sigaction(number, &action, nullptr);
}

}  // namespace

InterruptScope::InterruptScope() {
  signal_seen = 0;
  check(hws_thread_set_interrupt(poll, nullptr, nullptr));
  // SA_RESETHAND: a second Ctrl-C reaches the default handler.
  for (const int number : {SIGINT, SIGTERM})
    install(number, on_signal, static_cast<int>(SA_RESETHAND) | SA_RESTART);
  sigaction(SIGHUP, nullptr, &before_hangup_);
  if (before_hangup_.sa_handler != SIG_IGN) install(SIGHUP, on_signal, SA_RESTART);
}

InterruptScope::~InterruptScope() {
  for (const int number : {SIGINT, SIGTERM}) install(number, SIG_DFL, 0);
  if (hangup_seen != 0)
    install(SIGHUP, SIG_IGN, 0);
  else
    sigaction(SIGHUP, &before_hangup_, nullptr);
  hws_thread_set_interrupt(nullptr, nullptr, nullptr);
}

bool InterruptScope::interrupted() { return signal_seen != 0; }

}  // namespace hawser::cli
