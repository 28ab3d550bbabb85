package org.hawser;

/**
 * The sizes of a batch. They never change during the life of an engine.
 *
 * @param vocabulary the size of the vocabulary: tokens and targets are in [0, vocabulary); a target may also
 * be -100, which
 *     masks its position
 * @param sequence the columns of a training batch, and the largest number of columns for evaluate and forward
 * @param globalBatch the rows of a training batch, over all ranks and micro-batches. With /batch/ramp: the
 *     largest; "step_rows" of {@link Engine#info} gives the rows of the next step
 * @param outputs the numbers that forward writes for each token: vocabulary, or 1 for a model that ends in a
 * score
 */
public record Sizes(long vocabulary, long sequence, long globalBatch, long outputs) {}
