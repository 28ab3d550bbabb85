package org.hawser.spark;

import java.io.File;
import java.security.SecureRandom;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.function.IntSupplier;
import java.util.stream.Stream;
import org.hawser.Config;
import org.hawser.HawserException;
import org.hawser.Json;

/** The loop that continues after the loss of a rank: makes attempts until one succeeds. */
final class Attempts {
  /** Runs one attempt. */
  interface Start {
    List<Ended> start(Attempt attempt) throws LostRankException;
  }

  private static final int SECRET_BYTES = 32;

  private final Config config;
  private final int ranks;
  private final int least;
  private final int maxLosses;
  private final boolean trustNetwork;
  private final String checkpoints;
  private final String name = UUID.randomUUID().toString();
  private final List<String> losses = new ArrayList<>();

  Attempts(Config config, int ranks, int least, int maxLosses, boolean trustNetwork) {
    if (least < 1 || least > ranks) {
      throw new IllegalArgumentException("minRanks is " + least + "; give 1 to " + ranks + ", the number of ranks");
    }
    this.config = config;
    this.ranks = ranks;
    this.least = least;
    this.maxLosses = maxLosses;
    this.trustNetwork = trustNetwork;
    this.checkpoints = pathOf(config);
  }

  private static String pathOf(Config config) {
    Map<?, ?> resolved = (Map<?, ?>) Json.parse(config.toResolvedJson());
    if (resolved.get("checkpoint") instanceof Map<?, ?> checkpoint
        && checkpoint.get("path") instanceof String path && !path.isEmpty()) {
      return path;
    }
    throw new IllegalArgumentException(
        "set /checkpoint/path to a folder that all ranks see: after a loss, training resumes there");
  }

  SparkTraining.Result run(Start start, IntSupplier available) {
    int count = ranks;
    int inARow = 0;
    long newest = newestStep();
    while (true) {
      Attempt attempt = attempt(count);
      try {
        Ended end = resultOf(start.start(attempt));
        return new SparkTraining.Result(end.step(), end.loss(), end.began(), attempt.ranks(), List.copyOf(losses));
      } catch (LostRankException loss) {
        long step = newestStep();
        inARow = step > newest ? 1 : inARow + 1;
        newest = Math.max(newest, step);
        losses.add(loss.getMessage());
        if (inARow >= maxLosses) {
          throw new IllegalStateException(
              "ranks were lost " + inARow + " times without a new checkpoint; the last: " + loss.getMessage(), loss);
        }
        count = Math.max(least, Math.min(ranks, available.getAsInt()));
      }
    }
  }

  /**
   * Makes the next attempt, on the largest number of ranks, at most {@code most}, that divides the rows of a
   * step.
   */
  private Attempt attempt(int most) {
    byte[] secret = trustNetwork ? null : new byte[SECRET_BYTES];
    if (secret != null) new SecureRandom().nextBytes(secret);
    for (int count = most;; --count) {
      try (Config fitted = config.fitRanks(count)) {
        return new Attempt(fitted.toJson(), checkpoints, count, name + "." + losses.size(), secret);
      } catch (HawserException.ConfigInvalid e) {
        if (count == least) throw e;
      }
    }
  }

  /** Returns the step of the newest checkpoint, complete or not; -1 if there is none. */
  private long newestStep() {
    String[] names = new File(checkpoints).list((folder, name) -> name.matches("step-\\d{1,18}"));
    return names == null ? -1 : Stream.of(names).mapToLong(name -> Long.parseLong(name.substring(5))).max().orElse(-1);
  }

  /**
   * Returns the result of rank 0. Throws LostRankException for a loss, and an error that would recur as it
   * is.
   */
  private static Ended resultOf(List<Ended> ended) throws LostRankException {
    HawserException lost = null;
    for (Ended end : ended) {
      HawserException error = end.error();
      if (error == null) continue;
      if (!(error instanceof HawserException.Unavailable || error instanceof HawserException.Timeout
          || error instanceof HawserException.Aborted)) {
        throw error;
      }
      lost = error;
    }
    if (lost != null) throw new LostRankException(lost.getMessage(), lost);
    return ended.get(0);
  }
}
