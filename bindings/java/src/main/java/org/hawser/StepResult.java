package org.hawser;

/**
 * The result of one training step.
 *
 * @param outcome the outcome of the step
 * @param step the number of the step, from 1; skipped and discarded steps count
 * @param loss mean over the unmasked targets of the global batch, in nats
 * @param gradNorm norm of the gradients of all distinct parameters, before clipping
 * @param learningRate learning rate of this step
 * @param tokens the number of unmasked targets
 * @param samples data cursor after the step: rows consumed since the start
 * @param skipped steps skipped or discarded so far
 * @param seconds wall time of the step
 */
public record StepResult(
    Outcome outcome,
    long step,
    double loss,
    double gradNorm,
    double learningRate,
    long tokens,
    long samples,
    long skipped,
    double seconds) {}
