package org.hawser;

/**
 * What a listener hears after a step of {@link Engine#train}.
 *
 * @param step the step itself
 * @param validationLoss in nats; NaN when this step had no validation
 * @param tokensPerSecond positions of this step, masked ones too, by its time
 * @param totalSteps the step at which this run ends
 * @param saved whether a checkpoint of this step is written as soon as the listener returns
 * @param best whether it has the lowest validation loss so far
 * @param communicationBytes sent in this step by the first rank of this process; 0 with one rank
 * @param saveFailures checkpoints that this engine could not write so far
 */
public record TrainRecord(
    StepResult step,
    double validationLoss,
    double tokensPerSecond,
    long totalSteps,
    boolean saved,
    boolean best,
    long communicationBytes,
    long saveFailures) {
  /** The loss of the step. */
  public double loss() {
    return step.loss();
  }
}
