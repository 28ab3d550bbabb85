package org.hawser;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Runs the examples as users would. The service has a test of its own: tests/bindings/service_test.py. */
class ExamplesTest {
  @TempDir Path folder;

  private static Vm.Result result(String main, Object... arguments) throws Exception {
    String[] command = new String[arguments.length + 4];
    command[0] = "-Dhawser.library.path=" + System.getProperty("hawser.library.path");
    command[1] = "-cp";
    command[2] = Tiny.build().resolve("maven/classes") + ":" + Tiny.build().resolve("examples");
    command[3] = main;
    for (int i = 0; i < arguments.length; ++i) command[4 + i] = arguments[i].toString();
    return new Vm(command).run();
  }

  private static String run(String main, Object... arguments) throws Exception {
    Vm.Result result = result(main, arguments);
    assertEquals(0, result.code(), result.output());
    return result.output();
  }

  private static List<Double> losses(String output) {
    return Pattern.compile("loss ([0-9.]+)").matcher(output).results().map(loss -> Double.valueOf(loss.group(1))).toList();
  }

  private static void assertLearns(List<Double> losses, int count) {
    assertEquals(count, losses.size(), losses::toString);
    assertTrue(losses.get(count - 1) < losses.get(0), losses::toString);
  }

  @Test
  void train() throws Exception {
    String output = run("Train", Tiny.root().resolve("LICENSE"), 60);
    assertLearns(losses(output), 6);
    assertTrue(output.lines().anyMatch(line -> line.startsWith("The ")), output);
  }

  @Test
  void finetune() throws Exception {
    Path model = folder.resolve("model");
    try (Engine engine = Tiny.engine()) {
      engine.export(model, "bf16");
    }
    byte[] tokens = new byte[8000];
    for (int i = 0; i < tokens.length; i += 2) tokens[i] = (byte) (i / 2 % 61);
    Path data = Files.write(folder.resolve("data.bin"), tokens);
    String output = run("Finetune", model, data, folder.resolve("out"), 8);
    assertLearns(losses(output), 8);
    assertTrue(Files.readString(folder.resolve("out/config.json")).contains("bfloat16"));
    assertTrue(Files.mismatch(model.resolve("model.safetensors"), folder.resolve("out/model.safetensors")) >= 0);
    Vm.Result again = result("Finetune", model, data, folder.resolve("out"), 8);
    assertEquals(2, again.code(), again.output());
    assertTrue(again.output().endsWith("out exists; give a new folder\n"), again.output());
  }

  @Test
  void source() throws Exception {
    String output = run("Source", 200);
    assertLearns(losses(output), 200);
    assertTrue(output.contains("] 200/200"), output);
  }

  @Test
  void ranks() throws Exception {
    String output = run("Ranks", 5);
    assertLearns(losses(output), 5);
    assertTrue(output.contains("communication"), output);
  }
}
