package org.hawser.spark;

import java.io.Serializable;
import org.hawser.HawserException;

/**
 * The outcome of a rank.
 *
 * @param error the failure; null if the rank succeeded
 */
record Ended(HawserException error, long step, double loss, long began) implements Serializable {}
