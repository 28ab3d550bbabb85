/**
 * Hawser trains transformer language models inside your program. {@link org.hawser.Config} says what to train,
 * {@link org.hawser.Engine} trains it.
 */
package org.hawser;
