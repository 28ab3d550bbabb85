/**
 * Hawser trains transformer language models inside your program. A {@link org.hawser.Config} specifies what
 * to train, and an {@link org.hawser.Engine} trains it.
 */
package org.hawser;
