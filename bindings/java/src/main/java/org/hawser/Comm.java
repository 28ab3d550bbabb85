package org.hawser;

/**
 * The ranks that this process holds, and their ways to all others. A comm serves one engine at a time. When one rank fails,
 * all do; local ranks can then serve a new engine, a comm of another kind is used up.
 *
 * <p>Close it when no further engine is to be made over it; engines keep what they need of it.
 */
public final class Comm extends NativeObject implements AutoCloseable {
  private final TransportCalls transport;

  private Comm(long handle, TransportCalls transport) {
    super(handle, "the comm", Native::hws_comm_destroy, true);
    this.transport = transport;
  }

  /** {@code ranks} ranks, 1 to 4,096, as threads of this process. */
  public static Comm local(int ranks) {
    return new Comm(Native.hws_comm_create_local(ranks), null);
  }

  /**
   * One rank of a job of processes, over TCP. Returns when all have come.
   *
   * @param rank of this process; each of 0 to worldSize - 1 is taken once
   * @throws HawserException.Timeout names the ranks that did not come
   * @throws HawserException.Permission if this rank and the others have different secrets
   * @throws HawserException.FailedPrecondition for an address beyond the loopback without secret or trustNetwork
   */
  public static Comm address(int rank, int worldSize, CommAddress at) {
    return new Comm(Native.hws_comm_create_address(rank, worldSize, at.address, at.host, at.networkInterface,
        at.timeoutSeconds, at.silenceSeconds, at.job, at.secretFile, at.secret, at.trustNetwork ? 1 : 0), null);
  }

  /** The same with rank, world and address from the environment variables of a launcher (torchrun, mpirun, srun, ...). */
  public static Comm environment() {
    return environment(new CommAddress());
  }

  /** The same; what is set in {@code overrides} overrides the variables, and its job is appended to the launcher's. */
  public static Comm environment(CommAddress overrides) {
    return new Comm(Native.hws_comm_create_env(overrides.address, overrides.host, overrides.networkInterface,
        overrides.timeoutSeconds, overrides.silenceSeconds, overrides.job, overrides.secretFile, overrides.secret,
        overrides.trustNetwork ? 1 : 0), null);
  }

  /** What {@link #environment} would use, without connecting, as JSON. */
  public static String readEnvironment() {
    return Text.of(Native.hws_comm_read_env());
  }

  /** One rank over a transport of the host program, which is closed when nothing uses it any more. */
  public static Comm host(int worldSize, Transport transport) {
    TransportCalls calls = new TransportCalls(transport);
    return new Comm(Native.hws_comm_create_host(transport.ownRank(), worldSize, calls), calls);
  }

  /** "kind", "world_size" and "local_ranks", as JSON. */
  public String info() {
    return Text.of(Native.hws_comm_info(this));
  }

  /** What the transport threw, once; null: nothing. */
  Throwable takeFailure() {
    return transport == null ? null : transport.takeFailure();
  }

  /** Ends the comm, once its engine is closed. */
  @Override
  public void close() {
    end();
  }
}
