package org.hawser;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.FloatBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

/** Tests an engine, step by step and as a run. */
class EngineTest {
  /** The losses equal those of the C API bit for bit (tests/bindings/losses.c). */
  @Test
  void sameBitsAsInC() throws Exception {
    Path file = Tiny.build().resolve("../../tests/binding_losses.json");
    Map<?, ?> given = (Map<?, ?>) Json.parse(Files.readString(file));
    int rows = ((Long) given.get("rows")).intValue();
    int columns = ((Long) given.get("columns")).intValue();
    List<?> runs = (List<?>) given.get("runs");
    assertEquals(3, runs.size());
    for (Object item : runs) {
      Map<?, ?> run = (Map<?, ?>) item;
      int ranks = ((Long) run.get("ranks")).intValue();
      try (Config config = Config.parse(Json.write(run.get("config")));
          Engine engine = ranks > 1 ? Engine.create(config, ranks) : Engine.create(config)) {
        List<Object> losses = new ArrayList<>();
        List<Object> norms = new ArrayList<>();
        for (Object batch : (List<?>) given.get("batches")) {
          Map<?, ?> arrays = (Map<?, ?>) batch;
          engine.push(new Batch(rows, columns, ints(arrays.get("tokens")), ints(arrays.get("targets"))));
          StepResult step = engine.trainStep();
          losses.add(step.loss());
          norms.add(step.gradNorm());
        }
        assertEquals(run.get("losses"), losses, run.get("name") + ": losses");
        assertEquals(run.get("grad_norms"), norms, run.get("name") + ": norms");
      }
    }
  }

  private static java.nio.IntBuffer ints(Object list) {
    return Buffers.ints(((List<?>) list).stream().mapToInt(number -> ((Long) number).intValue()).toArray());
  }

  @Test
  void trainTellsItsListener() {
    try (Engine engine = Tiny.engine()) {
      engine.source(Tiny.source(1000));
      List<TrainRecord> records = new ArrayList<>();
      engine.train(records::add);
      assertEquals(8, records.size());
      TrainRecord last = records.get(7);
      assertEquals(8, last.step().step());
      assertEquals(8, last.totalSteps());
      assertEquals(Outcome.ACCEPTED, last.step().outcome());
      assertEquals(32, last.step().samples());
      assertEquals(64, last.step().tokens());
      assertTrue(last.loss() < records.get(0).loss());
      assertTrue(Double.isNaN(last.validationLoss()));
      assertTrue(last.tokensPerSecond() > 0);
      assertEquals(last.loss(), engine.progress().loss());
      engine.train(12, null);
      assertEquals(12, engine.progress().step());
      engine.train(100, record -> record.step().step() < 20);
      assertEquals(20, engine.progress().step());
    }
  }

  @Test
  void stepsAreALoop() {
    try (Engine engine = Tiny.engine()) {
      engine.source(Tiny.source(6));
      long expected = 0;
      for (StepResult step : engine.steps(4)) assertEquals(++expected, step.step());
      assertEquals(4, expected);
      for (StepResult step : engine.steps()) assertEquals(++expected, step.step());
      assertEquals(6, expected, "the source ends at step 6");
      assertThrows(HawserException.OutOfRange.class, engine::trainStep);
    }
  }

  @Test
  void halvesOfAStep() {
    try (Engine engine = Tiny.engine();
        Engine whole = Tiny.engine()) {
      engine.source(Tiny.source(9));
      whole.source(Tiny.source(9));
      assertEquals(Outcome.PENDING, engine.forwardBackward().outcome());
      assertThrows(HawserException.FailedPrecondition.class, engine::trainStep);
      assertEquals(Outcome.DISCARDED, engine.discard(true).outcome());
      engine.forwardBackward();
      assertTrue(engine.tensors().statistics().contains("\"norm\""));
      assertEquals(whole.trainStep().loss(), engine.commit().loss());
      assertEquals(1, engine.progress().step());
    }
  }

  @Test
  void gradientsOfAnObjective() {
    try (Engine engine = Tiny.engine()) {
      Batch batch = Tiny.batch(1);
      engine.push(batch);
      StepResult known = engine.forwardBackward();
      engine.discard(true);
      FloatBuffer gradients = Buffers.floats(64);
      for (int i = 0; i < 64; ++i) gradients.put(i, batch.targets().get(i) < 0 ? 0 : (float) (-1.0 / known.tokens()));
      StepResult own = engine.backwardWith(batch, gradients);
      assertEquals(known.gradNorm(), own.gradNorm());
      assertEquals(known.loss(), own.loss(), 1e-6);
      assertEquals(1, engine.commit().step());
      assertThrows(HawserException.InvalidArgument.class, () -> engine.backwardWith(batch, Buffers.floats(3)));
    }
  }

  @Test
  void pushedBatchesComeFirst() {
    try (Engine engine = Tiny.engine()) {
      Batch batch = Tiny.batch(1);
      engine.push(batch.tokens(), batch.targets());
      assertThrows(HawserException.Busy.class, () -> engine.push(batch));
      assertEquals(1, engine.trainStep().step());
      assertThrows(HawserException.FailedPrecondition.class, engine::trainStep);
      engine.push(batch);
      engine.train(0, record -> {
        engine.push(batch);
        return true;
      });
      assertEquals(8, engine.progress().step());
    }
  }

  @Test
  void documentsChangeTheLoss() {
    try (Engine engine = Tiny.engine()) {
      Batch batch = Tiny.batch(3);
      java.nio.IntBuffer begins = Buffers.ints(64);
      for (int i = 0; i < 64; ++i) begins.put(i, i % 16 / 4 * 4);
      double one = engine.evaluate(batch).loss();
      double four = engine.evaluate(new Batch(4, 16, batch.tokens(), batch.targets(), begins)).loss();
      assertTrue(one != four, one + " and " + four);
      List<Double> losses = new ArrayList<>();
      for (boolean documents : new boolean[] {false, true}) {
        engine.source(source -> {
          source.tokens().put(batch.tokens().duplicate());
          source.targets().put(batch.targets().duplicate());
          if (documents) source.documentBegin().put(begins.duplicate());
          return true;
        });
        losses.add(engine.forwardBackward().loss());
        engine.discard(true);
      }
      assertEquals(List.of(one, four), losses);
    }
  }

  @Test
  void pairsTrainByDpo() {
    String json = Tiny.JSON.replace("\"train\"", "\"objective\": {\"kind\": \"dpo\"}, \"train\"");
    try (Config config = Config.parse(json)) {
      try (Engine engine = Engine.create(config)) {
        Batch pairs = Tiny.batch(3);
        FloatBuffer logprobs = Buffers.floats(64);
        engine.logprobs(pairs, logprobs);
        FloatBuffer references = Buffers.floats(4);
        for (int row = 0; row < 4; ++row) {
          float sum = 0;
          for (int i = 0; i < 16; ++i) sum += logprobs.get(16 * row + i);
          references.put(row, sum);
        }
        assertThrows(HawserException.InvalidArgument.class, () -> engine.push(pairs));
        engine.push(pairs.withReferences(references));
        assertEquals(Math.log(2), engine.forwardBackward().loss(), 1e-5);
        engine.commit();
        engine.push(pairs.withReferences(references));
        assertTrue(engine.forwardBackward().loss() < Math.log(2));
        engine.discard(true);
      }
    }
  }

  @Test
  void progressOfReferences() {
    Path pairs = Tiny.root().resolve("tests/bindings/pairs");
    String data = "\"data\": {\"format\": \"prepared\", \"path\": \"" + pairs + "\"}, ";
    String json = Tiny.JSON.replace("\"train\"", "\"objective\": {\"kind\": \"dpo\"}, " + data + "\"train\"");
    try (Config config = Config.parse(json)) {
      List<String> seen = new ArrayList<>();
      Engine.setThreadProgress(seen::add);
      Engine.create(config).close();
      assertEquals("{\"phase\":\"references\",\"done\":24,\"total\":24}", seen.get(seen.size() - 1));
      Engine.setThreadProgress(now -> false);
      assertThrows(HawserException.Cancelled.class, () -> Engine.create(config));
      Engine.setThreadProgress(now -> {
        throw new IllegalStateException("mine");
      });
      assertThrows(IllegalStateException.class, () -> Engine.create(config));
    } finally {
      Engine.setThreadProgress(null);
    }
  }

  @Test
  void adaptersStandOnOneBase(@org.junit.jupiter.api.io.TempDir Path folder) {
    String from = "\"init\": {\"from\": \"" + folder.resolve("base") + "\"}, \"train\"";
    String onBase = Tiny.JSON.replace("\"train\"", from);
    try (Engine engine = Tiny.engine();
        Config plain = Config.parse(onBase);
        Config tuned = Config.parse(onBase.replace("\"train\"", "\"adapter\": {\"rank\": 2}, \"train\""))) {
      engine.export(folder.resolve("base"), "f32");
      try (Engine base = Engine.inference(plain);
          Engine one = Engine.createOn(base, tuned);
          Engine two = Engine.createOn(base, tuned);
          Engine alone = Engine.create(tuned)) {
        assertThrows(HawserException.FailedPrecondition.class, () -> Engine.inferenceOn(engine, tuned));
        base.close();
        List<Double> losses = new ArrayList<>();
        for (Engine each : List.of(one, two, alone)) {
          for (int step = 0; step < 2; ++step) {
            each.push(Tiny.batch(step));
            each.trainStep();
          }
          losses.add(each.evaluate(Tiny.batch(9)).loss());
        }
        assertEquals(Collections.nCopies(3, losses.get(0)), losses);
      }
    }
  }

  @Test
  void weightsScaleTheLossOfTheirTargets() {
    try (Engine engine = Tiny.engine()) {
      Batch batch = Tiny.batch(3);
      FloatBuffer halves = Buffers.floats(64);
      for (int i = 0; i < 64; ++i) halves.put(i, 0.5f);
      Batch weighted = new Batch(4, 16, batch.tokens(), batch.targets(), null, halves);
      double half = engine.evaluate(batch).loss() / 2;
      assertEquals(half, engine.evaluate(weighted).loss());
      engine.push(weighted);
      assertEquals(half, engine.forwardBackward().loss());
      engine.discard(true);
      engine.source(source -> {
        source.tokens().put(batch.tokens().duplicate());
        source.targets().put(batch.targets().duplicate());
        source.weights().put(halves.duplicate());
        return true;
      });
      assertEquals(half, engine.forwardBackward().loss());
      engine.discard(true);
      halves.put(18, -1);
      HawserException.DataInvalid refused =
          assertThrows(HawserException.DataInvalid.class, () -> engine.push(weighted));
      assertTrue(refused.getMessage().contains("weight -1 at row 1, column 2"), refused.getMessage());
    }
  }

  @Test
  void forwardWritesLogits() {
    try (Engine engine = Tiny.engine()) {
      FloatBuffer logits = Buffers.floats(64 * 61);
      engine.forward(Tiny.batch(1), logits);
      double loss = 0;
      Batch batch = Tiny.batch(1);
      for (int i = 0; i < 64; ++i) {
        double sum = 0;
        for (int v = 0; v < 61; ++v) sum += Math.exp(logits.get(61 * i + v));
        loss += Math.log(sum) - logits.get(61 * i + batch.targets().get(i));
      }
      assertEquals(engine.evaluate(batch).loss(), loss / 64, 1e-5);
      FloatBuffer logprobs = Buffers.floats(64);
      engine.logprobs(batch, logprobs);
      double sum = 0;
      for (int i = 0; i < 64; ++i) sum -= logprobs.get(i);
      assertEquals(engine.evaluate(batch).loss(), sum / 64, 1e-6);
      TopLogprobs top = engine.topLogprobs(batch, 61);
      for (int i = 0; i < 64; ++i) {
        int at = 61 * i;
        while (top.ids().get(at) != batch.targets().get(i)) ++at;
        assertEquals(logprobs.get(i), top.logprobs().get(at), 1e-5);
      }
      assertThrows(HawserException.InvalidArgument.class, () -> engine.push(batch.withTeacher(top)));
    }
  }

  @Test
  void generate() {
    try (Engine engine = Tiny.engine()) {
      int[] made = engine.generate(Generation.of(1, 2, 3).tokens(40));
      assertEquals(40, made.length);
      assertArrayEquals(made, engine.generate(Generation.of(1, 2, 3).tokens(40)));
      List<Integer> heard = new ArrayList<>();
      engine.generate(Generation.of(1, 2, 3).tokens(40), token -> heard.add(token) && heard.size() < 5);
      assertEquals(5, heard.size());
      int[] sampled = engine.generate(Generation.of(1).tokens(40).temperature(2).topK(50).topP(0.99).seed(-1));
      assertFalse(java.util.Arrays.equals(made, sampled));
      assertThrows(HawserException.DataInvalid.class, () -> engine.generate(Generation.of(61)));
      Generation ended = Generation.of(1, 2, 3).tokens(40).stopTokens(999, made[2]);
      assertTrue(engine.generate(ended).length <= 3);
    }
  }

  @Test
  void tokenizersReadAndWrite(@org.junit.jupiter.api.io.TempDir Path folder) throws Exception {
    Path text = folder.resolve("text.txt");
    Path own = folder.resolve("own.json");
    Files.writeString(text, "the rope pulls the ship and the ship pulls the rope\n".repeat(50));
    try {
      Tokenizer.train(List.of(text), 270, own, "<|end|>");
    } catch (HawserException.Unavailable missing) {
      org.junit.jupiter.api.Assumptions.abort(missing.getMessage());
    }
    try (Tokenizer tokenizer = Tokenizer.open(own)) {
      int[] tokens = tokenizer.encode("gr\u00fcn the<|end|>");
      assertEquals("gr\u00fcn the<|end|>", tokenizer.decode(tokens));
      assertEquals("gr\u00fcn the", tokenizer.decode(tokens, true, false));
      assertEquals("gr", tokenizer.decode(java.util.Arrays.copyOf(tokens, 3), false, true));
      assertTrue(tokenizer.info().contains("\"chat_template\":false"));
      assertThrows(HawserException.FailedPrecondition.class, () -> tokenizer.render("{}"));
    }
    try (Engine engine = Tiny.engine()) {
      assertThrows(HawserException.FailedPrecondition.class, engine::tokenizer);
    }
  }

  @Test
  void whatCallbacksThrowArrivesAsItself() {
    try (Engine engine = Tiny.engine()) {
      Error mine = new StackOverflowError("mine");
      engine.source(batch -> {
        throw mine;
      });
      assertSame(mine, assertThrows(Error.class, engine::trainStep));
      assertSame(mine, assertThrows(Error.class, engine::train));
      engine.source(Tiny.source(1000));
      RuntimeException other = new IllegalStateException("other");
      assertSame(other, assertThrows(IllegalStateException.class, () -> engine.train(record -> {
        throw other;
      })));
      assertEquals(1, engine.progress().step());
      assertSame(other, assertThrows(IllegalStateException.class, () -> engine.generate(Generation.of(1), token -> {
        throw other;
      })));
      engine.onMetrics(json -> {
        throw other;
      });
      assertSame(other, assertThrows(IllegalStateException.class, engine::train));
      engine.onMetrics(null);
      assertEquals(3, engine.trainStep().step(), "the engine trains on");
    }
  }

  @Test
  void reports() {
    try (Engine engine = Tiny.engine()) {
      engine.source(Tiny.source(100));
      engine.record(Engine.Detail.KERNELS);
      List<String> metrics = new ArrayList<>();
      engine.onMetrics(metrics::add);
      engine.train();
      assertEquals(8, metrics.size());
      assertEquals(Json.parse(metrics.get(7)), Json.parse(engine.metrics()));
      assertTrue(engine.trace(Format.JSON).contains("traceEvents"));
      assertTrue(engine.profile(Format.TEXT).length() > 100);
      assertTrue(((Map<?, ?>) Json.parse(engine.flight(Format.JSON))).containsKey("ranks"));
      assertEquals(8L, ((Map<?, ?>) Json.parse(engine.info())).get("step"));
      assertTrue(engine.dataInfo().startsWith("{"));
      assertTrue(engine.learningRate() >= 0);
      assertEquals(new Sizes(61, 16, 4, 61), engine.sizes());
    }
  }

  @Test
  void textOfByteModels() {
    try (Config config = Config.builder().json(Tiny.JSON).set("/model/vocab_size", 256).set("/data/vocabulary", "bytes")
            .set("/data/format", "text").set("/data/path", Tiny.root().resolve("LICENSE").toString()).build();
        Engine engine = Engine.create(config)) {
      String text = "h\u00e9 \ud83d\ude00";
      assertArrayEquals(new int[] {'h', 0xc3, 0xa9, ' ', 0xf0, 0x9f, 0x98, 0x80}, engine.encode(text));
      assertEquals(text, engine.decode(engine.encode(text)));
    }
  }
}
