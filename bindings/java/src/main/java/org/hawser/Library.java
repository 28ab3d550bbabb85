package org.hawser;

import java.nio.file.Path;

/** The native library that was loaded. */
public final class Library {
  private Library() {}

  /** Its version, "0.1.0". */
  public static String version() {
    return Native.hws_library_version();
  }

  /** The number of its binary interface. */
  public static int abi() {
    return Native.hws_library_abi();
  }

  /** Version, compiler, CPU levels and optional modules, as JSON. */
  public static String info() {
    return Text.of(Native.hws_library_info());
  }

  /** The file that was loaded. */
  public static Path path() {
    return Path.of(Text.of(NativeJNI.library_path()));
  }
}
