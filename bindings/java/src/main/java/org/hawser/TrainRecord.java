package org.hawser;

/**
 * The record that a listener receives after a step of {@link Engine#train}.
 *
 * @param step the result of the step
 * @param validationLoss validation loss in nats; NaN if this step had no validation
 * @param tokensPerSecond positions of this step per second, including masked positions
 * @param totalSteps the step at which this run ends
 * @param saved true if a checkpoint of this step is written as soon as the listener returns
 * @param best true if this step has the lowest validation loss so far
 * @param communicationBytes bytes sent in this step by the first rank of this process; 0 with one rank
 * @param saveFailures the number of checkpoints that this engine could not write so far
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
  /** Returns the loss of the step. */
  public double loss() {
    return step.loss();
  }
}
