package org.hawser;

import java.nio.ByteBuffer;

/**
 * How the one rank of this process reaches the others, written by the host program. See {@link Comm#host}.
 *
 * <p>Messages between two ranks arrive in the order and with the sizes in which they were sent; none is empty. The methods
 * run on threads of the library, one at a time except for {@link #abort}, and must not call the library. Buffers are direct,
 * lie in the library's memory and are valid during the call only. What a method throws ends the training call of this rank
 * and leaves it as itself.
 */
public interface Transport extends AutoCloseable {
  /**
   * Sends what remains of {@code data} to a rank; may return before it arrives. Must not wait for the receiver if there are
   * at most 512 bytes and fewer than two such messages are on their way to it.
   */
  void send(int toRank, ByteBuffer data, double timeoutSeconds);

  /** Receives from a rank until {@code data} is full. */
  void receive(int fromRank, ByteBuffer data, double timeoutSeconds);

  /** Sends to and receives from one rank; may do both at the same time, for speed. Here the lower rank sends first. */
  default void exchange(int rank, ByteBuffer sent, ByteBuffer received, double timeoutSeconds) {
    if (ownRank() < rank) {
      send(rank, sent, timeoutSeconds);
      receive(rank, received, timeoutSeconds);
    } else {
      receive(rank, received, timeoutSeconds);
      send(rank, sent, timeoutSeconds);
    }
  }

  /** The rank of this process. */
  int ownRank();

  /**
   * This rank has failed: its running and later calls must throw at once, and those of its peers soon. Called on any thread,
   * also beside a running call.
   */
  default void abort(String reason) {}

  /** Called once, on any thread, when nothing uses the transport any more. */
  @Override
  default void close() {}
}
