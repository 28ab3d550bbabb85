package org.hawser;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.MatchResult;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/** Tests that the binding covers all of hawser.h (functions, statuses, constants), and has one version. */
class CompleteTest {
  private final String header = read(Tiny.root().resolve("capi/include/hawser.h"));
  private final Path binding = Tiny.root().resolve("bindings/java");

  private static String read(Path file) {
    try {
      return Files.readString(file);
    } catch (IOException e) {
      throw new AssertionError(e);
    }
  }

  private static String readAll(Path folder, String... suffixes) throws IOException {
    StringBuilder all = new StringBuilder();
    try (Stream<Path> files = Files.walk(folder)) {
      for (Path file : files.sorted().toList()) {
        for (String suffix : suffixes) if (file.toString().endsWith(suffix)) all.append(read(file));
      }
    }
    return all.toString();
  }

  private List<MatchResult> inHeader(String regex) {
    return Pattern.compile(regex, Pattern.MULTILINE).matcher(header).results().toList();
  }

  @Test
  void everyFunctionIsUsed() throws IOException {
    String java = readAll(binding.resolve("src/main/java"), ".java");
    String support = readAll(binding.resolve("native"), ".c", "java.i"); // callbacks, errors and buffers
    List<String> missing = new ArrayList<>();
    int functions = 0;
    for (MatchResult match : inHeader("^HWS_API [^(]*?\\b(hws_\\w+)\\(")) {
      String name = match.group(1);
      ++functions;
      boolean called = Pattern.compile("\\b(Native|NativeJNI)(\\.|::)" + name + "\\b").matcher(java).find();
      boolean supported = Pattern.compile("\\b" + name + "\\(").matcher(support).find();
      if (!called && !supported) missing.add(name);
    }
    assertTrue(functions > 70, functions + " functions found");
    assertEquals(List.of(), missing, "functions of hawser.h that no public class calls");
  }

  @Test
  void everyStatusHasItsException() {
    int statuses = 0;
    for (MatchResult match : inHeader("^#define (HWS_\\w+) (\\d+)$")) {
      int code = Integer.parseInt(match.group(2));
      String name = match.group(1);
      if (name.equals("HWS_ABI_VERSION") || code == 0 || !name.equals(Native.hws_status_name(code))) continue;
      ++statuses;
      HawserException made = HawserException.of(code, "text", "{}");
      assertEquals(code, made.code());
      assertEquals(name, made.status());
      String expected = name.equals("HWS_CALLBACK") ? "CallbackFailed" : camel(name.substring(4));
      assertEquals(expected, made.getClass().getSimpleName());
    }
    assertEquals(28, statuses);
    assertSame(HawserException.class, HawserException.of(99, "later", "{}").getClass());
  }

  private static String camel(String name) {
    StringBuilder out = new StringBuilder();
    for (String word : name.split("_")) out.append(word.charAt(0)).append(word.substring(1).toLowerCase());
    return out.toString();
  }

  @Test
  void enumsAreThoseOfTheHeader() {
    assertConstants("HWS_STEP_", Outcome.values());
    assertConstants("HWS_PHASE_", Progress.Phase.values());
    assertConstants("HWS_TENSOR_", Tensor.values());
    assertConstants("HWS_TRACE_", Engine.Detail.values());
    assertTrue(header.contains("#define HWS_FORMAT_JSON " + Format.JSON.number + " "));
    assertTrue(header.contains("#define HWS_FORMAT_TEXT " + Format.TEXT.number + " "));
    assertTrue(header.contains("#define HWS_FORMAT_SVG " + Format.SVG.number + " "));
  }

  private void assertConstants(String prefix, Enum<?>[] values) {
    int found = 0;
    for (MatchResult match : inHeader("^#define " + prefix + "(\\w+) (\\d+)\\b")) {
      assertEquals(match.group(1), values[Integer.parseInt(match.group(2))].name());
      ++found;
    }
    long known = Stream.of(values).filter(value -> !value.name().equals("UNKNOWN")).count();
    assertEquals(known, found, prefix);
  }

  @Test
  void oneVersion() {
    String cmake = read(Tiny.root().resolve("CMakeLists.txt"));
    assertTrue(cmake.contains("project(hawser VERSION " + Natives.version() + " "), "pom.xml has " + Natives.version());
  }
}
