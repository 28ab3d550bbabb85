package org.hawser.spark;

import java.io.Serializable;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.IntStream;
import org.apache.spark.BarrierTaskContext;
import org.apache.spark.SparkException;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.api.java.JavaSparkContext;
import org.hawser.Config;
import org.hawser.Engine;
import org.hawser.HawserException;
import org.hawser.TrainRecord;
import scala.reflect.ClassTag$;

/**
 * Trains with ranks that are tasks of Spark, and continues after the loss of ranks.
 *
 * <pre>{@code
 * SparkTraining.Result result = new SparkTraining(spark).train(config, 4);
 * }</pre>
 *
 * <p>Each rank is a task of a barrier stage. Spark does not run a lost barrier stage again, but this class
 * does: with a new job and secret, from the newest checkpoint, on as many ranks as there are cores for.
 * Results are bit-identical to a run that stopped at the checkpoint and resumed on these ranks. All executors
 * must see the folders of the data and of /checkpoint/path; {@link TokenFiles} writes a column to a data
 * file.
 */
public final class SparkTraining {
  /**
   * Prepares a rank in its executor, for example with a data source. It is serialised and sent to the
   * executor.
   */
  @FunctionalInterface
  public interface Setup extends Serializable {
    /** Called in each rank before it trains. */
    void prepare(Engine engine, int rank);
  }

  /** Receives the record of each step in rank 0's executor. It is serialised and sent to the executor. */
  @FunctionalInterface
  public interface Listener extends Serializable {
    /** Returns false to end the run after this step. */
    boolean onStep(TrainRecord record);
  }

  /**
   * The result of a run.
   *
   * @param step the last step
   * @param loss the loss of the last step
   * @param began the step from which the last attempt resumed; 0 if it started from the beginning
   * @param ranks the number of ranks of the last attempt
   * @param losses a description of each lost rank
   */
  public record Result(long step, double loss, long began, int ranks, List<String> losses) {}

  private final JavaSparkContext spark;
  private int minRanks;
  private int maxLosses = 10;
  private boolean trustNetwork;
  private Setup setup = (engine, rank) -> {};
  private Listener listener = record -> true;

  /** Trains over the executors of a context. */
  public SparkTraining(JavaSparkContext spark) {
    this.spark = spark;
  }

  /**
   * Sets the least number of ranks with which training continues after a loss. Default: the initial number.
   */
  public SparkTraining minRanks(int ranks) {
    this.minRanks = ranks;
    return this;
  }

  /** Sets the number of losses in a row, without a new checkpoint, that ends the job. Default: 10. */
  public SparkTraining maxLosses(int losses) {
    this.maxLosses = losses;
    return this;
  }

  /** Lets ranks connect without a secret. */
  public SparkTraining trustNetwork() {
    this.trustNetwork = true;
    return this;
  }

  /** Sets code that runs in each rank before it trains. */
  public SparkTraining setup(Setup setup) {
    this.setup = setup;
    return this;
  }

  /** Sets code that runs in rank 0 after each step. */
  public SparkTraining listener(Listener listener) {
    this.listener = listener;
    return this;
  }

  /**
   * Trains the config to its end.
   *
   * @throws HawserException for errors of {@link Engine#create} and {@link Engine#train} that a retry would
   * repeat
   * @throws IllegalArgumentException without /checkpoint/path, or if minRanks is larger than ranks
   * @throws IllegalStateException after too many losses
   */
  public Result train(Config config, int ranks) {
    int least = minRanks == 0 ? ranks : minRanks;
    return new Attempts(config, ranks, least, maxLosses, trustNetwork).run(this::start, this::available);
  }

  private int available() {
    return spark.defaultParallelism() / spark.getConf().getInt("spark.task.cpus", 1);
  }

  /** Runs one attempt: a barrier stage with a task for each rank. */
  private List<Ended> start(Attempt attempt) throws LostRankException {
    JavaRDD<Integer> ranks =
        spark.parallelize(IntStream.range(0, attempt.ranks()).boxed().toList(), attempt.ranks());
    RankTask task = new RankTask(attempt, setup, listener);
    try {
      return new ArrayList<>(JavaRDD.fromRDD(
          ranks.rdd().barrier().mapPartitions(task, false, ClassTag$.MODULE$.<Ended>apply(Ended.class)),
          ClassTag$.MODULE$.<Ended>apply(Ended.class)).collect());
    } catch (Exception e) {  // Scala throws checked exceptions without declaring them
      if (e instanceof SparkException && !String.valueOf(e.getMessage()).contains(SetupException.class.getName())) {
        throw new LostRankException(e.getMessage().lines().findFirst().orElse("a task was lost"), e);
      }
      throw e;
    }
  }

  /** The task of the rank with the number of its partition. */
  private static final class RankTask extends scala.runtime.AbstractFunction1<
      scala.collection.Iterator<Integer>, scala.collection.Iterator<Ended>> implements Serializable {
    private static final long serialVersionUID = 1;

    private final Attempt attempt;
    private final Setup setup;
    private final Listener listener;

    RankTask(Attempt attempt, Setup setup, Listener listener) {
      this.attempt = attempt;
      this.setup = setup;
      this.listener = listener;
    }

    @Override
    public scala.collection.Iterator<Ended> apply(scala.collection.Iterator<Integer> partition) {
      BarrierTaskContext context = BarrierTaskContext.get();
      int rank = context.partitionId();
      String host = context.getTaskInfos()[rank].address().replaceFirst(":\\d+$", "");
      String address = context.allGather(rank == 0 ? attempt.freeAddress(host) : "")[0];
      return scala.collection.Iterator$.MODULE$.single(attempt.runRank(rank, address, setup, listener));
    }
  }
}
