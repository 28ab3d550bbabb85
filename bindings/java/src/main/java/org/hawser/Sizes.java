package org.hawser;

/**
 * What a batch is made of. The numbers never change while an engine lives.
 *
 * @param vocabulary tokens and targets lie in [0, vocabulary); a target may also be -100, which masks its position
 * @param sequence columns of a training batch, and the most that evaluate and forward take
 * @param globalBatch rows of a training batch, over all ranks and micro-batches
 * @param outputs numbers that forward gives for each token: vocabulary, or 1 for a model that ends in a score
 */
public record Sizes(long vocabulary, long sequence, long globalBatch, long outputs) {}
