package org.hawser.spark;

import java.io.IOException;
import java.io.Serializable;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.file.Path;
import java.util.concurrent.atomic.AtomicReference;
import org.hawser.Comm;
import org.hawser.CommAddress;
import org.hawser.Config;
import org.hawser.Engine;
import org.hawser.HawserException;
import org.hawser.TrainRecord;

/**
 * One attempt to train: the inputs of its ranks, and the code that each rank runs.
 *
 * @param config JSON with a mesh for {@code ranks} ranks
 * @param secret null if the network is trusted
 */
record Attempt(String config, String checkpoints, int ranks, String job, byte[] secret) implements Serializable {
  /** Returns a free address of this machine on which rank 0 can listen. */
  String freeAddress(String host) {
    try (ServerSocket probe = new ServerSocket(0, 1, InetAddress.getByName(host))) {
      return (host.contains(":") ? "[" + host + "]" : host) + ":" + probe.getLocalPort();
    } catch (IOException e) {
      throw new UncheckedIOException("no port is free on " + host, e);
    }
  }

  /** Runs one rank in its process: connects, resumes from the newest checkpoint and trains to the end. */
  Ended runRank(int rank, String address, SparkTraining.Setup setup, SparkTraining.Listener listener) {
    CommAddress at = new CommAddress().address(address).job(job);
    if (secret == null) at.trustNetwork();
    else at.secret(() -> secret);
    try (Config parsed = Config.parse(config);
        Comm comm = Comm.address(rank, ranks, at);
        Engine engine = Engine.create(parsed, comm)) {
      return train(engine, rank, setup, listener);
    } catch (HawserException e) {
      return new Ended(e, 0, 0, 0);
    }
  }

  private Ended train(Engine engine, int rank, SparkTraining.Setup setup, SparkTraining.Listener listener) {
    try {
      engine.loadLatest(Path.of(checkpoints), false);
    } catch (HawserException.NotFound e) {  // there is no checkpoint yet
    }
    long began = engine.progress().step();
    AtomicReference<RuntimeException> thrown = new AtomicReference<>();
    users(() -> setup.prepare(engine, rank));
    engine.train(record -> rank != 0 || told(listener, record, thrown));
    if (thrown.get() != null) throw thrown.get();
    return new Ended(null, engine.progress().step(), engine.progress().loss(), began);
  }

  private static boolean told(
      SparkTraining.Listener listener, TrainRecord record, AtomicReference<RuntimeException> thrown) {
    boolean[] more = {false};
    try {
      users(() -> more[0] = listener.onStep(record));
    } catch (SetupException e) {  // the listener's exception ends the run on all ranks
      thrown.set(e);
    }
    return more[0];
  }

  /** Runs code of the user. Its exceptions are marked, because a retry would repeat them. */
  private static void users(Runnable code) {
    try {
      code.run();
    } catch (HawserException e) {
      throw e;
    } catch (RuntimeException e) {
      throw new SetupException(e);
    }
  }
}
