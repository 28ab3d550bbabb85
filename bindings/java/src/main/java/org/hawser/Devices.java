package org.hawser;

/** What this machine can compute with. */
public final class Devices {
  private Devices() {}

  /** The CPU, then GPUs or why there are none, as a JSON array. */
  public static String list() {
    return Text.of(Native.hws_device_list());
  }

  /** Peaks of matrix products and the bandwidth of memory, as JSON. threads and seconds: 0 for the defaults. */
  public static String measure(int threads, double seconds) {
    return Text.of(Native.hws_device_measure(threads, seconds));
  }

  /** Operations a second of matrix products in "fp32" or "bf16". threads and seconds: 0 for the defaults. */
  public static double peak(int threads, String precision, double seconds) {
    return Native.hws_device_peak(threads, precision, seconds);
  }
}
