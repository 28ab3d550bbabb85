package org.hawser.spark;

import java.io.Serializable;
import org.hawser.HawserException;

/**
 * How a rank ended.
 *
 * @param error what it failed with; null: nothing
 */
record Ended(HawserException error, long step, double loss, long began) implements Serializable {}
