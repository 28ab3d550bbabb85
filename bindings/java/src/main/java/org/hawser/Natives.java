package org.hawser;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Locale;
import java.util.Properties;

/**
 * Finds and loads the native libraries: from the folder of -Dhawser.library.path; otherwise from the natives
 * jar on the class path or module path; otherwise through java.library.path. A failure is an {@link
 * UnsatisfiedLinkError} whose message explains what to do.
 */
final class Natives {
  private static final String[] KNOWN = {"linux-x86_64", "linux-aarch64"};
  private static final String MODULE = "libhawser_jni.so";

  private Natives() {}

  /** Loads the libraries. Called once, when the class of native methods is initialised. */
  static void load() {
    String folder = System.getProperty("hawser.library.path");
    if (folder != null) {
      loadFrom(Path.of(folder), "the folder of -Dhawser.library.path");
    } else {
      Path unpacked = Unpacker.unpack(platform());
      if (unpacked != null) loadFrom(unpacked, "the natives jar, unpacked to");
      else loadFromLibraryPath();
    }
    checkVersions();
  }

  /** Returns the platform, such as "linux-x86_64". */
  static String platform() {
    String processor = System.getProperty("os.arch").toLowerCase(Locale.ROOT);
    if (processor.equals("amd64")) processor = "x86_64";
    return System.getProperty("os.name").toLowerCase(Locale.ROOT) + "-" + processor;
  }

  private static void loadFrom(Path folder, String what) {
    Path module = folder.resolve(MODULE).toAbsolutePath();
    if (!Files.isRegularFile(module)) {
      throw new UnsatisfiedLinkError(what + " " + folder.toAbsolutePath() + " has no " + MODULE
          + ": name the folder that has " + MODULE + " and libhawser.so.0");
    }
    try {
      System.load(module.toString());
    } catch (UnsatisfiedLinkError e) {
      throw because(e, module + " cannot be loaded on " + platform() + ": " + e.getMessage() + ". "
          + Processors.mismatch(folder.toAbsolutePath()) + "It needs libhawser.so.0 beside it, for this processor, and a file system from which code may run");
    }
  }

  private static void loadFromLibraryPath() {
    try {
      System.loadLibrary("hawser_jni");
    } catch (UnsatisfiedLinkError e) {
      throw because(e, "no native library for " + platform() + others() + ". " + onLibraryPath() + "Add the jar with classifier natives-"
          + platform() + " to the class path, or name a folder with -Dhawser.library.path, or put " + MODULE
          + " on java.library.path (" + System.getProperty("java.library.path") + "): " + e.getMessage());
    }
  }

  /** Returns the natives jars on the class path that are for other processors. */
  private static String others() {
    StringBuilder found = new StringBuilder();
    for (String known : KNOWN) {
      if (!known.equals(platform()) && Unpacker.has(known)) found.append("; the class path has one for ").append(known);
    }
    return found.toString();
  }

  /** Returns a sentence about the libraries on java.library.path that are for other processors; "" if there are none. */
  private static String onLibraryPath() {
    StringBuilder found = new StringBuilder();
    for (String folder : System.getProperty("java.library.path").split(":")) {
      if (!folder.isEmpty()) found.append(Processors.mismatch(Path.of(folder)));
    }
    return found.toString();
  }

  private static UnsatisfiedLinkError because(Throwable cause, String message) {
    UnsatisfiedLinkError error = new UnsatisfiedLinkError(message);
    error.initCause(cause);
    return error;
  }

  private static void checkVersions() {
    String path = Text.of(NativeJNI.library_path());
    int abi = NativeJNI.hws_library_abi();
    int wanted = NativeJNI.compiled_abi();
    if (abi != wanted) {
      throw new UnsatisfiedLinkError(path + " has ABI " + abi + ", and this binding needs ABI " + wanted
          + ": install the libhawser that belongs to hawser-" + version() + ".jar");
    }
    String module = Text.of(NativeJNI.compiled_version());
    if (!module.equals(version())) {
      throw new UnsatisfiedLinkError(MODULE + " is of version " + module + ", and the jar of version " + version()
          + ": use natives of the jar's version");
    }
    String library = Text.of(NativeJNI.hws_library_version());
    if (isOlder(library, version())) {
      throw new UnsatisfiedLinkError(path + " is of version " + library + ", older than the jar's " + version()
          + ": install version " + version() + " or later");
    }
  }

  /** Returns the version of the jar. */
  static String version() {
    try (InputStream in = Natives.class.getResourceAsStream("version.properties")) {
      Properties properties = new Properties();
      properties.load(in);
      return properties.getProperty("version");
    } catch (IOException e) {
      throw new UncheckedIOException("cannot read version.properties of the jar", e);
    }
  }

  static boolean isOlder(String version, String than) {
    String[] left = version.split("[.-]");
    String[] right = than.split("[.-]");
    for (int i = 0; i < Math.min(left.length, right.length); ++i) {
      int order = Integer.compare(Integer.parseInt(left[i]), Integer.parseInt(right[i]));
      if (order != 0) return order < 0;
    }
    return left.length < right.length;
  }
}
