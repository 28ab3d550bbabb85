package org.hawser;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.FloatBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Tests state that outlives a step: configs, tensors, checkpoints, Hugging Face folders and plans. */
class StateTest {
  @TempDir Path folder;

  @Test
  void configs() throws Exception {
    Path file = Files.writeString(folder.resolve("config \u00e9.json"), Tiny.JSON);
    try (Config read = Config.read(file);
        Config built = Config.builder().json(Tiny.JSON).set("/seed", 8).set("/precision", "bf16")
            .set("/cpu", Map.of("threads", 1)).build();
        Config copy = Config.parse(built.toBinary())) {
      assertEquals(Json.parse(Tiny.JSON), Json.parse(read.toJson()));
      assertEquals(built.toJson(), copy.toJson());
      assertTrue(built.explain("/seed").contains("8"));
      assertTrue(built.toResolvedJson().length() > 5 * built.toJson().length());
      assertEquals(List.of(), built.validate());
      try (Config wrong = built.with("/model/heads", 5)) {
        Config.Problem problem = wrong.validate().get(0);
        assertEquals("/model/heads", problem.pointer());
        assertFalse(problem.message().isEmpty());
        assertThrows(HawserException.ConfigInvalid.class, () -> Engine.create(wrong));
      }
      try (Config four = built.fitRanks(4);
          Plan plan = four.plan()) {
        assertEquals(4L, ((Map<?, ?>) Json.parse(plan.toJson())).get("ranks"));
        assertTrue(plan.toText().contains("memory") || plan.toText().length() > 100);
        assertTrue(four.prove(1).contains("\"equal\":true"), four.prove(1));
      }
    }
    try (Config config = Config.parse(Tiny.JSON);
        Plan there = config.planOn("h100-80", 1e9, 1)) {
      assertTrue(there.toJson().contains("\"foretold\""));
      assertTrue(there.toText().contains("GPU-hours"));
      assertTrue(there.trace(Format.JSON).contains("traceEvents"));
      assertTrue(there.trace(Format.SVG).startsWith("<svg "));
      assertThrows(HawserException.NotFound.class, () -> config.planOn("h100", 0, 1));
      try (Plan found = config.searchPlans("h100-80", 1, 2, 1)) {
        assertTrue(found.toJson().contains("\"layouts\""));
      }
    }
    assertTrue(Config.presets().contains("gpt2-124m"));
    Config.preset("gpt2-124m").close();
    assertTrue(Config.schema().contains("$schema"));
    assertTrue(Config.binarySchema().length > 100);
  }

  @Test
  void tensors() {
    String name = "embedding.tokens.weight";
    TensorView view;
    try (Engine engine = Tiny.engine()) {
      Tensors tensors = engine.tensors();
      FloatBuffer copy = Buffers.floats(61 * 32);
      tensors.read(Tensor.WEIGHT, name, copy);
      view = tensors.view(Tensor.WEIGHT, name);
      assertArrayEquals(new long[] {61, 32}, view.shape());
      assertEquals(copy, view.floats());
      assertTrue(view.floats().isReadOnly());
      copy.put(5, 0.25f);
      tensors.write(Tensor.WEIGHT, name, copy);
      assertEquals(0.25f, view.floats().get(5));
      FloatBuffer same = Buffers.floats(61 * 32);
      tensors.read(Tensor.WEIGHT, "transformer.wte.weight", same);
      assertEquals(copy, same);
      assertThrows(HawserException.FailedPrecondition.class, () -> tensors.view(Tensor.GRADIENT, name));
      assertTrue(tensors.list().contains(name));
    }
    assertEquals(0.25f, view.floats().get(5), "the memory outlives the engine");
  }

  @Test
  void halfPrecisionViews() {
    try (Config config = Tiny.config().with("/precision", "bf16_pure");
        Engine engine = Engine.create(config)) {
      TensorView view = engine.tensors().view(Tensor.WEIGHT, "embedding.tokens.weight");
      assertTrue(view.isBf16());
      assertThrows(IllegalStateException.class, view::floats);
      FloatBuffer copy = Buffers.floats(61 * 32);
      engine.tensors().read(Tensor.WEIGHT, "embedding.tokens.weight", copy);
      assertEquals(copy.get(7), Float.intBitsToFloat(view.bytes().asShortBuffer().get(7) << 16));
    }
  }

  @Test
  void checkpoints() {
    Path checkpoint = folder.resolve("step-2 \u00e9\ud83d\ude00");
    double third;
    try (Engine engine = Tiny.engine()) {
      engine.source(Tiny.source(100));
      engine.train(2, null);
      engine.save(checkpoint);
      assertThrows(HawserException.AlreadyExists.class, () -> engine.save(checkpoint));
      third = engine.trainStep().loss();
    }
    Checkpoints.verify(checkpoint);
    Path mean = folder.resolve("mean");
    Checkpoints.average(List.of(checkpoint, checkpoint), List.of(1.0, 2.5), mean);
    Checkpoints.verify(mean);
    assertThrows(
        HawserException.InvalidArgument.class,
        () -> Checkpoints.average(List.of(checkpoint), null, folder.resolve("other")));
    assertEquals(2L, ((Map<?, ?>) Json.parse(Checkpoints.inspect(checkpoint))).get("step"));
    try (Engine engine = Tiny.engine()) {
      engine.load(checkpoint);
      engine.source(Tiny.source(100));
      assertEquals(third, engine.trainStep().loss());
      Path exported = folder.resolve("exported");
      engine.export(exported, "f32");
      Checkpoints.fromHuggingFace(exported, folder.resolve("imported"));
      Checkpoints.toHuggingFace(folder.resolve("imported"), folder.resolve("again"), null);
      try (Config config = Config.fromModel(exported)) {
        assertTrue(config.toJson().contains("init"));
      }
    }
    assertThrows(HawserException.NotFound.class, () -> Checkpoints.verify(folder.resolve("none")));
    assertThrows(HawserException.NotFound.class, () -> Checkpoints.latest(folder.resolve("exported")));
  }

  @Test
  void savesBesideTraining() throws Exception {
    try (Engine engine = Tiny.engine()) {
      engine.source(Tiny.source(1000));
      engine.trainStep();
      Path first = folder.resolve("step-1");
      try (Save save = engine.saveAsync(first)) {
        engine.trainStep();
        save.await();
        assertTrue(save.isDone());
        assertEquals(save.progress().totalBytes(), save.progress().doneBytes());
        save.await(Duration.ZERO);
        save.cancel();
      }
      assertEquals(first, Checkpoints.latest(folder));
      CompletableFuture<Void> future = engine.saveAsync(folder.resolve("step-2")).toCompletableFuture();
      assertEquals(null, future.get(30, TimeUnit.SECONDS));
      assertEquals("step-2", ((Map<?, ?>) Json.parse(engine.loadLatest(folder, false))).get("name"));
      Path file = Files.writeString(folder.resolve("file"), "no folder");
      CompletableFuture<Void> failing = engine.saveAsync(file.resolve("step-3")).toCompletableFuture();
      Throwable cause = assertThrows(java.util.concurrent.ExecutionException.class, failing::get).getCause();
      assertTrue(cause instanceof HawserException, cause::toString);
    }
  }

  @Test
  void library() {
    assertEquals(1, Library.abi());
    assertEquals(Natives.version(), Library.version());
    assertTrue(Library.path().toString().endsWith("libhawser.so.0"), Library.path()::toString);
    assertTrue(Library.info().contains(Library.version()));
    assertTrue(Devices.list().contains("cpu"));
    assertTrue(Devices.measure(1, 0.02).startsWith("{"));
    assertTrue(Devices.peak(1, "fp32", 0.02) > 1e6);
    assertThrows(HawserException.InvalidArgument.class, () -> Devices.peak(1, "fp7", 0.02));
  }
}
