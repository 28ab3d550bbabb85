package org.hawser;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

/** Tests that Java throws the errors of a machine whose driver, GPU, libraries or memory do not suffice. */
class GpuFaultsTest {
  @Test
  void eachHasItsExceptionAndItsMessage() throws IOException {
    Path fault = Path.of(System.getenv("HAWSER_GPU_FAULT"));
    Map<?, ?> table = (Map<?, ?>) Json.parse(Files.readString(Tiny.root().resolve("tests/bindings/gpu_faults.json")));
    List<?> rows = (List<?>) table.get("faults");
    assertFalse(rows.isEmpty());
    try (Config config = Config.parse(Json.write(table.get("config")))) {
      for (Object each : rows) {
        Map<?, ?> row = (Map<?, ?>) each;
        Files.writeString(fault, (String) row.get("fault"));
        HawserException thrown = assertThrows(HawserException.class, () -> Engine.create(config).close());
        String message = thrown.getMessage();
        assertEquals(row.get("error"), thrown.getClass().getSimpleName(), message);
        for (Object part : (List<?>) row.get("says")) assertTrue(message.contains((String) part), message + " lacks " + part);
      }
    }
  }
}
