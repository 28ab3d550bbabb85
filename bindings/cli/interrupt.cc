// Signal handling of the command. The library installs no handler; a program that wants Ctrl-C does this.
#include "bindings/cli/interrupt.h"

#include <atomic>

namespace hawser::cli {
namespace {

std::atomic<const hws_engine*> engine_to_cancel{nullptr};
volatile std::sig_atomic_t signal_seen = 0, hangup_seen = 0;

extern "C" void on_signal(int number) {
  signal_seen = 1;
  if (number == SIGHUP) hangup_seen = 1;
  const hws_engine* engine = engine_to_cancel.load(std::memory_order_relaxed);
  if (engine != nullptr) hws_engine_cancel(engine);
}

void install(int number, void (*handler)(int), int flags) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = flags;
  sigemptyset(&action.sa_mask);
  sigaction(number, &action, nullptr);
}

}  // namespace

InterruptScope::InterruptScope(const hws_engine* engine) {
  engine_to_cancel.store(engine, std::memory_order_relaxed);
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
  engine_to_cancel.store(nullptr, std::memory_order_relaxed);
}

bool InterruptScope::interrupted() { return signal_seen != 0; }

}  // namespace hawser::cli
