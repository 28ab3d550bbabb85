package org.hawser;

/** The exact schedule and memory of a config, computed without allocating a tensor. Any thread may use it. */
public final class Plan extends NativeObject implements AutoCloseable {
  Plan(long handle) {
    super(handle, "the plan", Native::hws_plan_destroy, false);
  }

  /** Instructions, "memory" by category, "total_bytes", "parameters", "flops_per_token", "fits" and more, as JSON. */
  public String toJson() {
    return Text.of(Native.hws_plan_report(this, 0));
  }

  /** The list of instructions and the memory by category, for people. */
  public String toText() {
    return Text.of(Native.hws_plan_report(this, 3));
  }

  /** Frees its memory now. */
  @Override
  public void close() {
    end();
  }
}
