package org.hawser;

import java.lang.System.Logger.Level;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Consumer;

/**
 * Forwards calls of the native module to a transport. An exception becomes a status, and is stored for the
 * thread that trains.
 */
final class TransportCalls {
  private static final int OK = 0;
  private static final int CALLBACK = 74;

  private final Transport transport;
  private final AtomicReference<Throwable> failure = new AtomicReference<>();
  private volatile String message = "";

  TransportCalls(Transport transport) {
    this.transport = transport;
  }

  int run(Consumer<Transport> call) {
    try {
      call.accept(transport);
      return OK;
    } catch (Throwable thrown) { // the thread that trains rethrows any exception
      failure.compareAndSet(null, thrown);
      message = thrown.toString().replace('\0', ' ');
      return CALLBACK;
    }
  }

  void abort(int code, String reason) {
    quietly("abort", () -> transport.abort(Native.hws_status_name(code) + ": " + reason));
  }

  void close() {
    quietly("close", transport::close);
  }

  String message() {
    return message;
  }

  /** Returns and clears the exception that the transport threw. */
  Throwable takeFailure() {
    return failure.getAndSet(null);
  }

  /** Runs a call for which no other call waits, so a failure can only be logged. */
  private static void quietly(String name, Runnable call) {
    try {
      call.run();
    } catch (Throwable thrown) {
      System.getLogger("org.hawser").log(Level.WARNING, "a transport's " + name + " failed", thrown);
    }
  }
}
