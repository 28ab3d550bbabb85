package org.hawser;

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;

/** Finds libraries for processors of another architecture, which the loader reports as missing or malformed. */
final class Processors {
  private static final int HEADER_BYTES = 20;

  private Processors() {}

  /** Returns a sentence about a library of the folder that is not for this VM's processor; "" if there is none. */
  static String mismatch(Path folder) {
    String own = machine(Path.of("/proc/self/exe"));
    try (DirectoryStream<Path> libraries = Files.newDirectoryStream(folder, "libhawser*.so*")) {
      for (Path library : libraries) {
        String theirs = machine(library);
        if (!own.isEmpty() && !theirs.isEmpty() && !theirs.equals(own)) {
          return library + " is for " + theirs + " processors, but this VM is " + own + ": use the natives jar or the "
              + "library for " + own + ". ";
        }
      }
    } catch (IOException e) {
      return "";
    }
    return "";
  }

  /** Returns the architecture for which an ELF file was built; "" if it is no such file. */
  private static String machine(Path file) {
    byte[] header;
    try (InputStream in = Files.newInputStream(file)) {
      header = in.readNBytes(HEADER_BYTES);
    } catch (IOException e) {
      return "";
    }
    if (header.length < HEADER_BYTES || header[0] != 0x7f || header[1] != 'E' || header[2] != 'L' || header[3] != 'F') {
      return "";
    }
    int number = (header[18] & 0xff) | (header[19] & 0xff) << 8;
    return switch (number) {
      case 62 -> "x86-64";
      case 183 -> "aarch64";
      default -> "ELF machine " + number;
    };
  }
}
