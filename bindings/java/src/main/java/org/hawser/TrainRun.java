package org.hawser;

/** One call of train: its listener, and whether the engine was closed during the call. */
final class TrainRun {
  private final Engine engine;
  private final TrainListener listener;
  private boolean closed;

  TrainRun(Engine engine, TrainListener listener) {
    this.engine = engine;
    this.listener = listener;
  }

  boolean onStep(TrainRecord record) {
    closed = engine.isClosed();
    return !closed && (listener == null || listener.onStep(record));
  }

  /** Throws if the run has ended because another thread closed the engine. */
  void check() {
    if (closed) throw new HawserException.Cancelled("the engine was closed while it trained; the run ended after its step");
  }
}
