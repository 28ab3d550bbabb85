package org.hawser.spark;

import java.io.BufferedOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.Iterator;
import java.util.OptionalInt;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;

/** Writes files of tokens that ranks read. */
public final class TokenFiles {
  private TokenFiles() {}

  /**
   * Writes a column of token arrays, in the order of the rows, for /data with "format": "tokens" and "token_type": "u32".
   * The driver reads the frame one partition at a time. An existing file is replaced once the new file is
   * complete.
   *
   * @param separator a token written after each row, for /data/separator
   * @return the number of tokens
   * @throws UncheckedIOException if the file cannot be written
   */
  public static long write(Dataset<Row> frame, String column, Path path, OptionalInt separator) {
    Path fresh = path.resolveSibling(path.getFileName() + ".new");
    long count = 0;
    try (OutputStream file = new BufferedOutputStream(Files.newOutputStream(fresh))) {
      for (Iterator<Row> rows = frame.select(column).toLocalIterator(); rows.hasNext();) {
        for (Object token : rows.next().getList(0)) {
          put(((Number) token).longValue(), file);
          ++count;
        }
        if (separator.isPresent()) {
          put(separator.getAsInt(), file);
          ++count;
        }
      }
    } catch (IOException e) {
      throw new UncheckedIOException("cannot write " + fresh, e);
    }
    try {
      Files.move(fresh, path, StandardCopyOption.REPLACE_EXISTING);
    } catch (IOException e) {
      throw new UncheckedIOException("cannot write " + path, e);
    }
    return count;
  }

  private static void put(long token, OutputStream file) throws IOException {
    if (token < 0 || token > 0xFFFFFFFFL) {
      throw new IllegalArgumentException("the token " + token + " is not one of 0 to 4294967295");
    }
    for (int shift = 0; shift < 32; shift += 8) file.write((int) (token >> shift));
  }
}
