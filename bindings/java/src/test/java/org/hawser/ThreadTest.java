package org.hawser;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/**
 * Tests an engine with several threads: interrupt, cancel and close during a run, and views that outlive the
 * engine.
 */
@Timeout(60)
class ThreadTest {
  /** An endless run on a thread of its own. */
  private static final class Run {
    final Engine engine = Tiny.engine();
    final CountDownLatch begun = new CountDownLatch(3);
    final AtomicReference<Throwable> thrown = new AtomicReference<>();
    final Thread thread;
    boolean flag;

    Run(TrainListener listener) {
      engine.source(Tiny.source(Long.MAX_VALUE));
      thread = new Thread(() -> {
        try {
          engine.train(1_000_000_000, record -> {
            begun.countDown();
            return listener == null || listener.onStep(record);
          });
        } catch (Throwable t) {
          thrown.set(t);
        }
        flag = Thread.currentThread().isInterrupted();
      });
      thread.setDaemon(true);
      thread.start();
    }

    Throwable end() throws InterruptedException {
      thread.join(30_000);
      assertTrue(!thread.isAlive(), "the run has ended");
      return thrown.get();
    }
  }

  @Test
  void interruptEndsARun() throws Exception {
    Run run = new Run(null);
    run.begun.await();
    run.thread.interrupt();
    assertInstanceOf(HawserException.Cancelled.class, run.end());
    assertTrue(run.flag, "the thread's flag stays set");
    long step = run.engine.progress().step();
    assertEquals(step + 1, run.engine.trainStep().step(), "the engine trains on");
    run.engine.close();
  }

  @Test
  void interruptEndsOtherLongCalls() {
    try (Engine engine = Tiny.engine()) {
      Thread.currentThread().interrupt();
      assertThrows(HawserException.Cancelled.class,
          () -> engine.generate(Generation.of(1).tokens(1_000_000_000), token -> true));
      assertTrue(Thread.interrupted());
      engine.source(Tiny.source(Long.MAX_VALUE));
      Thread.currentThread().interrupt();
      assertThrows(HawserException.Cancelled.class, () -> engine.steps(1_000_000_000).forEach(step -> {}));
      assertTrue(Thread.interrupted());
    } finally {
      Thread.interrupted();
    }
  }

  @Test
  void cancelEndsARun() throws Exception {
    Run run = new Run(null);
    run.begun.await();
    run.engine.cancel();
    assertInstanceOf(HawserException.Cancelled.class, run.end());
    assertEquals(run.engine.progress().step() + 1, run.engine.trainStep().step());
    run.engine.close();
  }

  @Test
  void closeEndsARun() throws Exception {
    for (int i = 0; i < 20; ++i) {
      Run run = new Run(null);
      if (i % 2 == 0) run.begun.await();
      run.engine.close();
      Throwable thrown = run.end();
      assertTrue(thrown instanceof HawserException.Cancelled || thrown instanceof HawserException.BadHandle,
          () -> "ended with " + thrown);
    }
  }

  @Test
  void closeInItsOwnListener() throws Exception {
    AtomicReference<Engine> engine = new AtomicReference<>();
    CountDownLatch known = new CountDownLatch(1);
    Run run = new Run(record -> {
      try {
        known.await();
      } catch (InterruptedException e) {
        throw new AssertionError(e);
      }
      engine.get().close();
      return true;
    });
    engine.set(run.engine);
    known.countDown();
    assertInstanceOf(HawserException.Cancelled.class, run.end());
  }

  @Test
  void monitorsBesideARun() throws Exception {
    Run run = new Run(null);
    run.begun.await();
    AtomicBoolean ended = new AtomicBoolean();
    List<Thread> monitors = new ArrayList<>();
    AtomicReference<Throwable> unexpected = new AtomicReference<>();
    for (int i = 0; i < 3; ++i) {
      Thread monitor = new Thread(() -> {
        try {
          while (!ended.get()) {
            assertEquals(Progress.Phase.TRAIN, run.engine.progress().phase());
            assertTrue(run.engine.metrics().contains("loss"));
            run.engine.flight(Format.JSON);
            assertThrows(HawserException.Busy.class, run.engine::trainStep);
          }
        } catch (HawserException.BadHandle closed) {
          // The engine was closed in the meantime.
        } catch (Throwable t) {
          if (!run.engine.isClosed()) unexpected.compareAndSet(null, t);
        }
      });
      monitor.start();
      monitors.add(monitor);
    }
    Thread.sleep(200);
    run.engine.close();
    ended.set(true);
    for (Thread monitor : monitors) monitor.join(10_000);
    run.end();
    assertNull(unexpected.get());
  }

  @Test
  void nestedCallsOfAListener() {
    try (Engine engine = Tiny.engine()) {
      engine.source(Tiny.source(100));
      RuntimeException mine = new RuntimeException("mine");
      RuntimeException thrown = assertThrows(RuntimeException.class, () -> engine.train(record -> {
        assertTrue(engine.evaluate(Tiny.batch(1)).loss() > 0);
        assertEquals(3, engine.generate(Generation.of(1).tokens(3)).length);
        assertThrows(HawserException.Busy.class, engine::train);
        assertThrows(HawserException.DataInvalid.class, () -> engine.generate(Generation.of(1000)));
        if (record.step().step() == 3) throw mine;
        return true;
      }));
      assertEquals(mine, thrown);
      assertEquals(3, engine.progress().step());
    }
  }
}
