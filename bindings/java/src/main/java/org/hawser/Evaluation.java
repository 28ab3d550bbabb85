package org.hawser;

/**
 * A loss without gradients.
 *
 * @param loss nats per unmasked target; NaN or infinite if the model's numbers are
 * @param tokens unmasked targets
 */
public record Evaluation(double loss, long tokens) {}
