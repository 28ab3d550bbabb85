package org.hawser;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.PosixFilePermissions;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;

/**
 * Unpacks the natives jars, once per content, into a folder of the user's cache: -Dhawser.cache, otherwise
 * $XDG_CACHE_HOME/hawser, otherwise ~/.cache/hawser. The folder's name is the digest of the jars' indexes,
 * which contain the digest of each file. A file gets its name when it is complete, so several VMs may unpack
 * at once. The jar of the text module may be missing.
 */
final class Unpacker {
  private Unpacker() {}

  /** Returns true if the class path has natives for a platform. */
  static boolean has(String platform) {
    return loader().getResource(folder(platform) + "index") != null;
  }

  /** Returns the folder with the unpacked files; null if the class path has none for the platform. */
  static Path unpack(String platform) {
    try {
      String natives = folder(platform);
      String text = natives + "text/";
      String index = index(natives);
      if (index == null) return null;
      String textIndex = index(text);
      byte[] both = (textIndex == null ? index : index + textIndex).getBytes(StandardCharsets.UTF_8);
      Path folder = cache().resolve(Natives.version() + "-" + digest(both).substring(0, 16));
      createPrivate(folder);
      unpack(natives, index, folder);
      if (textIndex != null) unpack(text, textIndex, folder);
      return folder;
    } catch (IOException e) {
      UnsatisfiedLinkError error = new UnsatisfiedLinkError("cannot unpack the natives jar to " + cache() + ": " + e
          + ". Name a folder that can be written with -Dhawser.cache, or one that has the libraries with "
          + "-Dhawser.library.path");
      error.initCause(e);
      throw error;
    }
  }

  /** Returns the index in a folder of the class path; null if there is none. */
  private static String index(String from) throws IOException {
    try (InputStream in = loader().getResourceAsStream(from + "index")) {
      return in == null ? null : new String(in.readAllBytes(), StandardCharsets.UTF_8);
    }
  }

  private static void unpack(String from, String index, Path folder) throws IOException {
    for (String line : index.split("\n")) {
      String[] fields = line.split(" ", 3); // digest, size, name
      unpack(from, fields[2], fields[0], Long.parseLong(fields[1]), folder);
    }
  }

  private static void unpack(String from, String name, String digest, long size, Path folder) throws IOException {
    Path file = folder.resolve(name);
    if (Files.isRegularFile(file) && Files.size(file) == size) return;
    byte[] bytes;
    try (InputStream in = loader().getResourceAsStream(from + name)) {
      if (in == null) throw new IOException("the jar has no " + name);
      bytes = in.readAllBytes();
    }
    if (!digest(bytes).equals(digest)) throw new IOException(name + " of the jar is damaged: its digest differs");
    createPrivate(file.getParent());
    Path part = Files.createTempFile(file.getParent(), name.substring(name.lastIndexOf('/') + 1), ".part");
    try {
      Files.write(part, bytes);
      Files.move(part, file, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
    } finally {
      Files.deleteIfExists(part);
    }
  }

  private static void createPrivate(Path folder) throws IOException {
    Files.createDirectories(folder, PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rwx------")));
  }

  private static Path cache() {
    String given = System.getProperty("hawser.cache");
    if (given != null) return Path.of(given);
    String xdg = System.getenv("XDG_CACHE_HOME");
    boolean useful = xdg != null && xdg.startsWith("/");
    return (useful ? Path.of(xdg) : Path.of(System.getProperty("user.home"), ".cache")).resolve("hawser");
  }

  private static ClassLoader loader() {
    ClassLoader loader = Unpacker.class.getClassLoader();
    return loader != null ? loader : ClassLoader.getSystemClassLoader();
  }

  private static String folder(String platform) {
    return "org/hawser/natives/" + platform + "/";
  }

  private static String digest(byte[] bytes) {
    try {
      return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(bytes));
    } catch (NoSuchAlgorithmException e) {
      throw new AssertionError("every JDK has SHA-256", e);
    }
  }
}
