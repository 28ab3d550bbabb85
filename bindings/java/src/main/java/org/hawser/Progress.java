package org.hawser;

/**
 * The progress of an engine. Numbers of the last step are NaN before the first step and after a load.
 *
 * @param phase the current activity
 * @param step the number of steps taken, including skipped and discarded steps
 * @param untilStep the step at which the running train call ends; 0 if none runs
 * @param totalSteps the step at which the config ends a run
 * @param samples data cursor: rows consumed since the start
 * @param tokens positions in these rows
 * @param skipped the number of steps skipped or discarded
 * @param done rows evaluated or tokens generated in this phase
 * @param total the total of {@code done}; 0 if the phase counts nothing
 * @param loss loss of the last step
 * @param gradNorm norm of the gradients of the last step
 * @param learningRate learning rate of the last step
 * @param stepSeconds wall time of the last step
 * @param tokensPerSecond positions per second in the last step
 * @param validationLoss loss of the last validation within train; NaN if there was none
 * @param runningSeconds time since the running call began; 0 if none runs
 * @param saveFailures the number of checkpoints that this engine could not write
 * @param saving true while a checkpoint is being written during training
 */
public record Progress(
    Phase phase,
    long step,
    long untilStep,
    long totalSteps,
    long samples,
    long tokens,
    long skipped,
    long done,
    long total,
    double loss,
    double gradNorm,
    double learningRate,
    double stepSeconds,
    double tokensPerSecond,
    double validationLoss,
    double runningSeconds,
    long saveFailures,
    boolean saving) {
  /** The activity of an engine. */
  public enum Phase {
    /** No long call is running. */
    IDLE,
    /** The engine is training. */
    TRAIN,
    /** The engine is evaluating, perhaps for the validation within train. */
    EVAL,
    /** The engine is generating. */
    GENERATE,
    /** The engine is saving, perhaps a checkpoint within train. */
    SAVE,
    /** The engine is loading. */
    LOAD,
    /** This version does not define the phase. */
    UNKNOWN;

    private static final Phase[] ALL = values();

    static Phase of(int number) {
      return number >= 0 && number < ALL.length ? ALL[number] : UNKNOWN;
    }
  }
}
