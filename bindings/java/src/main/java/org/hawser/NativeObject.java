package org.hawser;

import java.lang.System.Logger.Level;
import java.lang.ref.Cleaner;
import java.util.function.LongConsumer;

/**
 * An object of the library and its end.
 *
 * <p>{@link #close} ends it. An object that nobody closed ends when the garbage collector has found it, which may be late
 * or never, so that is logged (logger {@code org.hawser}) where it matters: for engines and comms, which hold threads and
 * memory that the collector does not see.
 */
abstract class NativeObject {
  private static final Cleaner CLEANER = Cleaner.create();

  /** Read by the native methods, which get the object itself and so keep it alive. */
  private final long handle;

  private final String kind;
  private final Resource resource;
  private final Cleaner.Cleanable cleanable;

  /** kind: "the engine"; destroy: the function that ends the handle; logged: whether a missing close matters. */
  NativeObject(long handle, String kind, LongConsumer destroy, boolean logged) {
    this.handle = handle;
    this.kind = kind;
    this.resource = new Resource(handle, logged ? kind : null, destroy);
    this.cleanable = CLEANER.register(this, resource);
  }

  /** The object, if it can be used; null for null, which the library refuses where it needs an object. */
  static NativeObject open(NativeObject object) {
    if (object != null && object.resource.closed) throw new HawserException.BadHandle(object.kind + " is closed: make another one");
    return object;
  }

  final boolean isClosed() {
    return resource.closed;
  }

  /** From now on every call is refused. */
  final void refuseCalls() {
    resource.closed = true;
  }

  /** Ends the object, once. Waits for calls of it on other threads, except in its own callbacks. */
  final void end() {
    refuseCalls();
    cleanable.clean();
  }

  /** Runs {@code action} once nothing refers to {@code object} any more. */
  static void whenUnreachable(Object object, Runnable action) {
    CLEANER.register(object, action);
  }

  private static final class Resource implements Runnable {
    private final long handle;
    private final String logged;
    private final LongConsumer destroy;
    private volatile boolean closed;

    Resource(long handle, String logged, LongConsumer destroy) {
      this.handle = handle;
      this.logged = logged;
      this.destroy = destroy;
    }

    @Override
    public void run() {
      if (!closed && logged != null) {
        System.getLogger("org.hawser")
            .log(Level.WARNING, "{0} was never closed: use try-with-resources, or call close()", logged);
      }
      destroy.accept(handle);
    }
  }
}
