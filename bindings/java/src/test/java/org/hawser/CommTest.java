package org.hawser;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.IntFunction;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/**
 * Tests ranks as threads, over sockets, and over a transport of the host program. All give the losses of one
 * rank.
 */
@Timeout(120)
class CommTest {
  private static final byte[] SECRET = "a secret of at least thirty-two bytes".getBytes();

  private static Config ranks(int ranks) {
    try (Config one = Tiny.config()) {
      return one.fitRanks(ranks);
    }
  }

  private static List<Double> losses(Engine engine) {
    engine.source(Tiny.source(4));
    List<Double> losses = new ArrayList<>();
    for (StepResult step : engine.steps()) losses.add(step.loss());
    return losses;
  }

  /** Makes a comm for each of two ranks and trains over them, each on a thread of its own. */
  private static List<CompletableFuture<List<Double>>> train(IntFunction<Comm> comm) {
    List<CompletableFuture<List<Double>>> ranks = new ArrayList<>();
    for (int rank = 0; rank < 2; ++rank) {
      int own = rank;
      ranks.add(CompletableFuture.supplyAsync(() -> {
        try (Config config = ranks(2);
            Comm joined = comm.apply(own);
            Engine engine = Engine.create(config, joined)) {
          return losses(engine);
        }
      }, task -> new Thread(task).start()));
    }
    return ranks;
  }

  private static void assertSameLosses(List<CompletableFuture<List<Double>>> ranks) throws Exception {
    List<Double> expected;
    try (Config config = ranks(2);
        Engine engine = Engine.create(config, 2)) {
      expected = losses(engine);
    }
    assertEquals(4, expected.size());
    for (CompletableFuture<List<Double>> rank : ranks) assertEquals(expected, rank.get(60, TimeUnit.SECONDS));
  }

  private static String freeAddress() throws IOException {
    try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
      return "127.0.0.1:" + socket.getLocalPort();
    }
  }

  @Test
  void threadsOfThisProcess() {
    try (Comm comm = Comm.local(2);
        Config config = ranks(2)) {
      Map<?, ?> info = (Map<?, ?>) Json.parse(comm.info());
      assertEquals("local", info.get("kind"));
      assertEquals(2L, info.get("world_size"));
      try (Engine engine = Engine.create(config, comm)) {
        assertThrows(HawserException.Busy.class, () -> Engine.create(config, comm));
        assertEquals(4, losses(engine).size());
      }
      try (Engine engine = Engine.inference(config, comm)) {
        assertTrue(engine.evaluate(Tiny.batch(1)).loss() > 0);
        assertThrows(HawserException.FailedPrecondition.class, engine::trainStep);
      }
    }
    try (Config one = Tiny.config()) {
      assertThrows(HawserException.ConfigInvalid.class, () -> Engine.create(one, 2));
    }
  }

  @Test
  void socketsWithASecret() throws Exception {
    String address = freeAddress();
    assertSameLosses(train(rank -> Comm.address(rank, 2,
        new CommAddress().address(address).job("test").secret(() -> SECRET).timeoutSeconds(30).silenceSeconds(10))));
  }

  @Test
  void socketsWithoutSharedMemory() throws Exception {
    String address = freeAddress();
    assertSameLosses(train(rank -> Comm.address(rank, 2,
        new CommAddress().address(address).withoutSharedMemory().timeoutSeconds(30))));
  }

  @Test
  void secretsThatDoNotDo() throws Exception {
    String address = freeAddress();
    RuntimeException mine = new RuntimeException("no secret today");
    assertSame(mine, assertThrows(RuntimeException.class, () -> Comm.address(0, 2,
        new CommAddress().address(address).secret(() -> {
          throw mine;
        }))));
    assertThrows(IllegalArgumentException.class,
        () -> Comm.address(0, 2, new CommAddress().address(address).secret(() -> new byte[5000])));
    assertThrows(HawserException.InvalidArgument.class,
        () -> Comm.address(0, 2, new CommAddress().address(address).secret(() -> new byte[5])));
    assertThrows(HawserException.FailedPrecondition.class,
        () -> Comm.address(0, 2, new CommAddress().address("192.0.2.1:4000")));
    assertThrows(HawserException.Timeout.class,
        () -> Comm.address(0, 2, new CommAddress().address(address).timeoutSeconds(0.3)));
    assertThrows(HawserException.FailedPrecondition.class, Comm::environment);
    assertThrows(HawserException.FailedPrecondition.class, Comm::readEnvironment);
  }

  /** A transport for two ranks of one process, which sends messages through queues. */
  private static class Queues {
    final List<BlockingQueue<byte[]>> inboxes = List.of(new LinkedBlockingQueue<>(), new LinkedBlockingQueue<>());
    final CountDownLatch closed = new CountDownLatch(2);
    volatile boolean aborted;

    Transport rank(int own) {
      return new Transport() {
        @Override
        public int ownRank() {
          return own;
        }

        @Override
        public void send(int toRank, ByteBuffer data, double timeoutSeconds) {
          sending(own);
          byte[] copy = new byte[data.remaining()];
          data.get(copy);
          inboxes.get(toRank).add(copy);
        }

        @Override
        public void receive(int fromRank, ByteBuffer data, double timeoutSeconds) {
          long end = System.nanoTime() + (long) (timeoutSeconds * 1e9);
          try {
            while (System.nanoTime() < end && !aborted) {
              byte[] message = inboxes.get(own).poll(20, TimeUnit.MILLISECONDS);
              if (message == null) continue;
              data.put(message);
              return;
            }
          } catch (InterruptedException e) {
            throw new IllegalStateException(e);
          }
          throw new IllegalStateException(aborted ? "the other rank has failed" : "nothing came");
        }

        @Override
        public void abort(String reason) {
          aborted = true;
        }

        @Override
        public void close() {
          closed.countDown();
        }
      };
    }

    void sending(int rank) {}
  }

  @Test
  void aTransportOfTheHost() throws Exception {
    Queues queues = new Queues();
    assertSameLosses(train(rank -> Comm.host(2, queues.rank(rank))));
    assertTrue(queues.closed.await(10, TimeUnit.SECONDS), "both transports are closed");
  }

  @Test
  void whatATransportThrowsArrivesAsItself() {
    IllegalStateException mine = new IllegalStateException("the cable is cut");
    Queues queues = new Queues() {
      private int sent;

      @Override
      synchronized void sending(int rank) {
        if (rank == 1 && ++sent > 6) throw mine;
      }
    };
    List<CompletableFuture<List<Double>>> ranks = train(rank -> Comm.host(2, queues.rank(rank)));
    Throwable first = assertThrows(Exception.class, () -> ranks.get(1).get(60, TimeUnit.SECONDS)).getCause();
    assertSame(mine, first, () -> Arrays.toString(first.getStackTrace()));
    Throwable other = assertThrows(Exception.class, () -> ranks.get(0).get(60, TimeUnit.SECONDS)).getCause();
    assertInstanceOf(RuntimeException.class, other);
  }

  @Test
  void transportsThatDoNotDo() {
    Queues queues = new Queues();
    assertThrows(HawserException.InvalidArgument.class, () -> Comm.host(1, queues.rank(1)));
    assertEquals(1, queues.closed.getCount(), "the refused transport is closed");
  }
}
