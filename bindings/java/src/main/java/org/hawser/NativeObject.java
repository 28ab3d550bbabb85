package org.hawser;

import java.lang.System.Logger.Level;
import java.lang.ref.Cleaner;
import java.util.function.LongConsumer;

/**
 * An object of the library, and how it is destroyed.
 *
 * <p>{@link #close} destroys the object. Otherwise the garbage collector does so when it finds the object,
 * which may be late or never. For engines and comms this is logged (logger {@code org.hawser}), because they
 * hold threads and memory that the collector does not see.
 */
abstract class NativeObject {
  private static final Cleaner CLEANER = Cleaner.create();

  /** Native methods read this field. They receive the object itself, which keeps it alive during the call. */
  private final long handle;

  private final String kind;
  private final Resource resource;
  private final Cleaner.Cleanable cleanable;

  /**
   * kind: a name such as "the engine"; destroy: destroys the handle; logged: true if a missing close is
   * logged.
   */
  NativeObject(long handle, String kind, LongConsumer destroy, boolean logged) {
    this.handle = handle;
    this.kind = kind;
    this.resource = new Resource(handle, logged ? kind : null, destroy);
    this.cleanable = CLEANER.register(this, resource);
  }

  /**
   * Returns the object if it is open. Returns null for null, which the library refuses if it needs an
   * object.
   */
  static NativeObject open(NativeObject object) {
    if (object != null && object.resource.closed) throw new HawserException.BadHandle(object.kind + " is closed: make another one");
    return object;
  }

  final boolean isClosed() {
    return resource.closed;
  }

  /** Makes every further call fail. */
  final void refuseCalls() {
    resource.closed = true;
  }

  /** Destroys the object once. Waits for its calls on other threads, except in its own callbacks. */
  final void end() {
    refuseCalls();
    cleanable.clean();
  }

  /** Runs {@code action} when {@code object} is no longer reachable. */
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
