package org.hawser;

import java.time.Duration;
import java.util.concurrent.CompletableFuture;

/**
 * A checkpoint that is written while training continues. Every method works at any time, on any thread, and
 * after the engine is closed.
 */
public final class Save extends NativeObject implements AutoCloseable {
  private static final double SLICE_SECONDS = 0.02;

  /**
   * The progress of a save.
   *
   * @param doneBytes bytes of tensors written
   * @param totalBytes their total; after the last byte the files are still made durable
   */
  public record Written(long doneBytes, long totalBytes) {}

  Save(long handle) {
    super(handle, "the save", Native::hws_op_destroy, false);
  }

  /**
   * Waits for the end of the save.
   *
   * @throws HawserException the error of the save
   * @throws HawserException.Cancelled after {@link #cancel}; also if this thread was interrupted, and then
   * its flag stays
   *     set and the save continues
   */
  public void await() {
    await(Duration.ofSeconds(Long.MAX_VALUE / 2));
  }

  /**
   * Waits at most {@code limit}.
   *
   * @throws HawserException.Timeout if the save is still running
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
        throw new HawserException.Cancelled("the thread was interrupted while it waited; the save continues");
      }
    }
  }

  /** Returns true if the save has ended, successfully or not. */
  public boolean isDone() {
    return Native.hws_op_poll(this);
  }

  /** Returns the progress of the save. */
  public Written progress() {
    long[] bytes = Native.hws_op_progress(this);
    return new Written(bytes[0], bytes[1]);
  }

  /**
   * Requests the end of the save, without waiting. The save leaves no files behind, unless it was about to
   * finish.
   */
  public void cancel() {
    Native.hws_op_cancel(this);
  }

  /**
   * Returns a future that completes when the save ends, with its exception if it fails. Cancelling the future
   * cancels the save. A daemon thread waits for the save.
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

  /** Closes this object; the save continues. Waits for an {@link #await} on another thread. */
  @Override
  public void close() {
    end();
  }
}
