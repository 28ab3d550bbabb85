package org.hawser;

import java.nio.file.Path;

/** Describes the native library that was loaded. */
public final class Library {
  private Library() {}

  /** Returns the version of the library, such as "0.1.0". */
  public static String version() {
    return Native.hws_library_version();
  }

  /** Returns the number of the library's binary interface (ABI). */
  public static int abi() {
    return Native.hws_library_abi();
  }

  /** Returns version, compiler, CPU level and the modules found, as JSON. */
  public static String info() {
    return Text.of(Native.hws_library_info());
  }

  /** Returns the file that was loaded. */
  public static Path path() {
    return Path.of(Text.of(NativeJNI.library_path()));
  }
}
