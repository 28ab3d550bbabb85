package org.hawser;

import java.time.Duration;
import java.util.concurrent.CompletableFuture;

/**
 * A checkpoint that is written while training goes on. Every method works at any time, on any thread, and after the engine
 * is closed.
 */
public final class Save extends NativeObject implements AutoCloseable {
  private static final double SLICE_SECONDS = 0.02;

  /**
   * How far a save is.
   *
   * @param doneBytes bytes of tensors written
   * @param totalBytes of so many; after the last one the files are still made durable
   */
  public record Written(long doneBytes, long totalBytes) {}

  Save(long handle) {
    super(handle, "the save", Native::hws_op_destroy, false);
  }

  /**
   * Waits for the end.
   *
   * @throws HawserException what the save failed with
   * @throws HawserException.Cancelled after {@link #cancel}; and if this thread was interrupted, whose flag stays set: the
   *     save then goes on
   */
  public void await() {
    await(Duration.ofSeconds(Long.MAX_VALUE / 2));
  }

  /**
   * Waits at most {@code limit}.
   *
   * @throws HawserException.Timeout if the save goes on
   */
  public void await(Duration limit) {
    long start = System.nanoTime();
    while (true) {
      double left = limit.getSeconds() + limit.getNano() / 1e9 - (System.nanoTime() - start) / 1e9;
      boolean ended = isDone();
      try {
        Native.hws_op_wait(this, Math.max(0, Math.min(left, SLICE_SECONDS)));
        return;
      } catch (HawserException.Timeout running) {
        if (ended || left <= 0) throw running;
      }
      if (Thread.currentThread().isInterrupted()) {
        throw new HawserException.Cancelled("the thread was interrupted while it waited; the save goes on");
      }
    }
  }

  /** Whether it has ended, well or not. */
  public boolean isDone() {
    return Native.hws_op_poll(this);
  }

  /** How far it is. */
  public Written progress() {
    long[] bytes = Native.hws_op_progress(this);
    return new Written(bytes[0], bytes[1]);
  }

  /** Asks it to stop, and does not wait. It leaves no files behind, unless it was just ending. */
  public void cancel() {
    Native.hws_op_cancel(this);
  }

  /**
   * Completes when the save ends, with its exception if it fails. Cancelling the future cancels the save. A daemon thread
   * waits for it.
   */
  public CompletableFuture<Void> toCompletableFuture() {
    CompletableFuture<Void> future = new CompletableFuture<>();
    Thread waiter = new Thread(() -> {
      try {
        Native.hws_op_wait(this, -1);
        future.complete(null);
      } catch (Throwable thrown) {
        future.completeExceptionally(thrown);
      }
    }, "hawser-save");
    waiter.setDaemon(true);
    waiter.start();
    future.whenComplete((nothing, thrown) -> {
      if (future.isCancelled()) cancel();
    });
    return future;
  }

  /** Forgets the save, which goes on. Waits for an {@link #await} on another thread. */
  @Override
  public void close() {
    end();
  }
}
