package org.hawser;

/** Describes and measures the devices of this machine. */
public final class Devices {
  private Devices() {}

  /** Returns the CPU, then the GPUs or the reason why there are none, as a JSON array. */
  public static String list() {
    return Text.of(Native.hws_device_list());
  }

  /**
   * Measures the peak of matrix products and the memory bandwidth, as JSON. threads and seconds: 0 for the
   * defaults.
   */
  public static String measure(int threads, double seconds) {
    return Text.of(Native.hws_device_measure(threads, seconds));
  }

  /**
   * Measures the operations per second of matrix products in "fp32" or "bf16". threads, seconds: 0 for the
   * defaults.
   */
  public static double peak(int threads, String precision, double seconds) {
    return Native.hws_device_peak(threads, precision, seconds);
  }
}
