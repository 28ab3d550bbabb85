package org.hawser;

import java.nio.file.Path;
import java.util.function.Supplier;

/**
 * Where ranks of several processes meet, for {@link Comm#address} and {@link Comm#environment}. Each method returns this
 * object; what is not set has its default.
 */
public final class CommAddress {
  private static final int LARGEST_SECRET = 4096;

  String address;
  String host;
  String networkInterface;
  double timeoutSeconds;
  double silenceSeconds;
  String job;
  String secretFile;
  Supplier<byte[]> secret;
  boolean trustNetwork;

  /** Nothing is set. */
  public CommAddress() {}

  /** "host:port": where rank 0 listens and all others connect. */
  public CommAddress address(String hostAndPort) {
    this.address = hostAndPort;
    return this;
  }

  /** The address on which this rank listens until all are connected. Default: the one from which it reaches rank 0. */
  public CommAddress host(String host) {
    this.host = host;
    return this;
  }

  /** The same by the name of an interface, "eth0". */
  public CommAddress networkInterface(String name) {
    this.networkInterface = name;
    return this;
  }

  /** For all ranks to arrive and connect. Default: 60. */
  public CommAddress timeoutSeconds(double seconds) {
    this.timeoutSeconds = seconds;
    return this;
  }

  /** Without a heartbeat for so long, a process counts as cut off. Rank 0's value counts for all. Default: 10. */
  public CommAddress silenceSeconds(double seconds) {
    this.silenceSeconds = seconds;
    return this;
  }

  /** At most 127 bytes that must be equal on all ranks, such as the job's name and the count of its restarts. */
  public CommAddress job(String job) {
    this.job = job;
    return this;
  }

  /** A file with the job's secret, 32 to 4,096 bytes, which not every user may read. */
  public CommAddress secretFile(Path file) {
    this.secretFile = file.toString();
    return this;
  }

  /** Asked for the job's secret, 32 to 4,096 bytes, at most once; what it throws leaves the call as itself. */
  public CommAddress secret(Supplier<byte[]> secret) {
    this.secret = secret;
    return this;
  }

  /** Allows an address beyond the loopback without a secret. */
  public CommAddress trustNetwork() {
    this.trustNetwork = true;
    return this;
  }

  static byte[] checked(byte[] secret) {
    if (secret == null || secret.length > LARGEST_SECRET) {
      throw new IllegalArgumentException(
          "the secret has " + (secret == null ? "no" : secret.length) + " bytes: return 32 to " + LARGEST_SECRET);
    }
    return secret;
  }
}
