package org.hawser;

/**
 * Where an engine is. Numbers of the last step are NaN before the first one and after a load.
 *
 * @param phase what runs now
 * @param step steps taken, skipped and discarded ones too
 * @param untilStep the step at which the running train call ends; 0: none runs
 * @param totalSteps the step at which the config ends a run
 * @param samples data cursor: rows consumed since the start
 * @param tokens positions in these rows
 * @param skipped steps skipped or discarded
 * @param done of the phase: rows evaluated, tokens generated
 * @param total of these there are so many; 0: nothing is counted
 * @param loss of the last step, as the next four
 * @param gradNorm norm of the gradients
 * @param learningRate learning rate
 * @param stepSeconds wall time
 * @param tokensPerSecond positions by time
 * @param validationLoss of the last validation within train; NaN: none yet
 * @param runningSeconds since the running call began; 0 if none runs
 * @param saveFailures checkpoints that this engine could not write
 * @param saving whether a checkpoint is being written beside training
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
  /** What an engine is doing. */
  public enum Phase {
    /** No call runs that takes long. */
    IDLE,
    /** Training. */
    TRAIN,
    /** Evaluating, also the validation within train. */
    EVAL,
    /** Generating. */
    GENERATE,
    /** Saving, also the checkpoints within train. */
    SAVE,
    /** Loading. */
    LOAD,
    /** One that this version does not know. */
    UNKNOWN;

    private static final Phase[] ALL = values();

    static Phase of(int number) {
      return number >= 0 && number < ALL.length ? ALL[number] : UNKNOWN;
    }
  }
}
