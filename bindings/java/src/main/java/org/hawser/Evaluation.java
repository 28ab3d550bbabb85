package org.hawser;

/**
 * The result of an evaluation.
 *
 * @param loss nats per unmasked target; NaN or infinite if the model's numbers are
 * @param tokens the number of unmasked targets
 */
public record Evaluation(double loss, long tokens) {}
