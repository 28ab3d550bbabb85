package org.hawser;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.FloatBuffer;
import java.nio.IntBuffer;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;

/** Tests wrong buffers, wrong text and closed objects: each error states what is wrong and what to do. */
class BadInputTest {
  private static final ByteOrder OTHER =
      ByteOrder.nativeOrder() == ByteOrder.LITTLE_ENDIAN ? ByteOrder.BIG_ENDIAN : ByteOrder.LITTLE_ENDIAN;

  private static void refused(Executable call, String... words) {
    String message = assertThrows(IllegalArgumentException.class, call).getMessage();
    for (String word : words) assertTrue(message.contains(word), message + " lacks " + word);
  }

  @Test
  void heapBuffers() {
    try (Engine engine = Tiny.engine()) {
      IntBuffer heap = IntBuffer.allocate(64);
      refused(() -> engine.push(heap, Buffers.ints(64)), "heap", "Buffers.ints", "allocateDirect");
      refused(() -> engine.push(Buffers.ints(64), heap), "heap");
      refused(() -> engine.evaluate(new Batch(4, 16, heap, heap)), "heap");
      refused(() -> engine.forward(Tiny.batch(1), FloatBuffer.allocate(64 * 61)), "heap", "Buffers.floats");
      refused(() -> engine.tensors().read(Tensor.WEIGHT, "embedding.tokens.weight", FloatBuffer.allocate(61 * 32)), "heap");
      refused(() -> engine.tensors().write(Tensor.WEIGHT, "embedding.tokens.weight", FloatBuffer.allocate(61 * 32)), "heap");
    }
  }

  @Test
  void buffersInTheOtherByteOrder() {
    try (Engine engine = Tiny.engine()) {
      IntBuffer wrong = ByteBuffer.allocateDirect(256).order(OTHER).asIntBuffer();
      refused(() -> engine.push(wrong, wrong), "byte order", "nativeOrder");
      FloatBuffer logits = ByteBuffer.allocateDirect(4 * 64 * 61).order(OTHER).asFloatBuffer();
      refused(() -> engine.forward(Tiny.batch(1), logits), "byte order");
    }
  }

  @Test
  void sizes() {
    try (Engine engine = Tiny.engine()) {
      refused(() -> engine.push(Buffers.ints(63), Buffers.ints(64)), "tokens has 63", "4 x 16");
      refused(() -> engine.push(Buffers.ints(64), Buffers.ints(65)), "targets has 65");
      refused(() -> engine.push(Buffers.ints(64).position(1), Buffers.ints(64)), "tokens has 63", "flip()");
      refused(() -> new Batch(0, 16, Buffers.ints(0), null), "at least one row", "0 x 16");
      refused(() -> new Batch(1 << 20, 1 << 20, Buffers.ints(0), null), "1048576 x 1048576");
      refused(() -> engine.push(new Batch(4, 16, Buffers.ints(64), null)), "targets");
      refused(() -> new Batch(4, 16, null, null), "tokens");
      refused(() -> engine.forward(Tiny.batch(1), Buffers.floats(64 * 61 - 1)), "3903", "3904");
      refused(() -> Buffers.ints(-1), "-1");
      assertThrows(HawserException.InvalidArgument.class,
          () -> engine.push(new Batch(2, 16, Buffers.ints(32), Buffers.ints(32))));
      assertThrows(HawserException.InvalidArgument.class,
          () -> engine.tensors().read(Tensor.WEIGHT, "embedding.tokens.weight", Buffers.floats(1)));
      assertThrows(HawserException.NotFound.class,
          () -> engine.tensors().read(Tensor.WEIGHT, "no such tensor", Buffers.floats(1)));
    }
  }

  @Test
  void readOnlyBuffersAreForReading() {
    try (Engine engine = Tiny.engine()) {
      Batch batch = Tiny.batch(1);
      FloatBuffer logits = Buffers.floats(64 * 61).asReadOnlyBuffer();
      refused(() -> engine.forward(batch, logits), "read-only", "writable");
      engine.push(batch.tokens().asReadOnlyBuffer(), batch.targets().asReadOnlyBuffer());
      assertEquals(1, engine.trainStep().step());
    }
  }

  @Test
  void slicesAreReadWhereTheyBegin() {
    try (Engine engine = Tiny.engine()) {
      Batch batch = Tiny.batch(5);
      IntBuffer larger = Buffers.ints(100);
      larger.position(17).put(batch.tokens().duplicate()).flip().position(17);
      assertEquals(engine.evaluate(batch), engine.evaluate(new Batch(4, 16, larger, batch.targets())));
      assertEquals(17, larger.position());
    }
  }

  @Test
  void idsOutsideTheVocabulary() {
    try (Engine engine = Tiny.engine()) {
      Batch batch = Tiny.batch(1);
      batch.tokens().put(18, 61);
      HawserException e = assertThrows(HawserException.DataInvalid.class, () -> engine.push(batch));
      assertTrue(e.getMessage().contains("61"), e.getMessage());
      assertTrue(e.details().startsWith("{"), e.details());
      engine.source(source -> {
        source.targets().put(0, 99);
        return true;
      });
      assertThrows(HawserException.DataInvalid.class, engine::trainStep);
    }
  }

  @Test
  void closedObjects() {
    Engine engine = Tiny.engine();
    Config config = Tiny.config();
    Comm comm = Comm.local(2);
    Tensors tensors = engine.tensors();
    engine.close();
    engine.close();
    config.close();
    comm.close();
    for (Executable call : new Executable[] {engine::trainStep, engine::train, engine::progress, engine::metrics,
        engine::cancel, tensors::list, config::toJson, config::validate, comm::info, () -> Engine.create(config),
        () -> engine.push(Buffers.ints(64), Buffers.ints(64))}) {
      HawserException e = assertThrows(HawserException.BadHandle.class, call);
      assertTrue(e.getMessage().contains("is closed"), e.getMessage());
    }
    assertThrows(HawserException.BadHandle.class, () -> engine.steps().iterator());
    assertEquals("a closed config", config.toString());
  }

  @Test
  void configs() {
    HawserException e = assertThrows(HawserException.ConfigInvalid.class, () -> Config.parse("{\"modle\": 1}"));
    assertEquals(21, e.code());
    assertEquals("HWS_CONFIG_INVALID", e.status());
    assertTrue(e.getMessage().contains("modle"));
    assertThrows(HawserException.ConfigParse.class, () -> Config.parse("{"));
    assertThrows(HawserException.ConfigParse.class, () -> Config.parse("\u0000"));
    assertThrows(HawserException.NotFound.class, () -> Config.preset("gpt5"));
    assertThrows(HawserException.NotFound.class, () -> Config.fromModel(Path.of("/nowhere")));
    try (Config config = Tiny.config()) {
      refused(() -> config.explain("/a\0b"), "character 0", "index 2");
      HawserException wrong = assertThrows(HawserException.class, () -> config.with("/model/layers", "many"));
      assertEquals("/model/layers", wrong.pointer());
      refused(() -> config.with("/model/layers", Double.NaN), "NaN");
    }
  }

  @Test
  void json() {
    for (String wrong : new String[] {"", "{", "[1,]", "{\"a\" 1}", "01", "1.", "+1", "tru", "\"\\x\"", "\"\n\"",
        "\"\\u12", "\"\\u12g4\"", "1 2", "[".repeat(2000), "nan", "-", "{\"a\":1,}", "'a'"}) {
      refused(() -> Json.parse(wrong), "not JSON");
    }
    String text = "{\"a\":[1,-2.5,1.0E-7,true,null,\"\\u0001\\\"\\\\\u00e9\ud83d\ude00\"],\"b\":{}}";
    assertEquals(text, Json.write(Json.parse(text)));
    assertEquals("/\b\f\n\r\t\u20ac", Json.parse(" \"\\/\\b\\f\\n\\r\\t\\u20AC\" "));
  }
}
