package org.hawser;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;

/** Starts another Java VM, as a user would. */
final class Vm {
  private final List<String> command = new ArrayList<>();

  /** The exit code and the output of the VM. */
  record Result(int code, String output) {}

  Vm(String... arguments) {
    command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
    // Performance data is off, because VMs of containers that share /tmp warn on standard output about each
    // other's files.
    command.addAll(List.of("-Xmx128m", "-XX:+UseSerialGC", "-XX:-UsePerfData"));
    boolean module = List.of(arguments).contains("-p");
    if (Runtime.version().feature() >= 22) { // newer VMs warn of native access that is not enabled
      command.add("--enable-native-access=" + (module ? "org.hawser" : "ALL-UNNAMED"));
    }
    command.addAll(List.of(arguments));
  }

  /** Returns a VM with this build's natives and the classes of the binding, the tests and the examples. */
  static Vm withClasses(String... arguments) {
    Vm vm = new Vm("-Dhawser.library.path=" + System.getProperty("hawser.library.path"), "-cp", classPath(),
        "-Dhawser.root=" + Tiny.root(), "-Dhawser.build=" + Tiny.build());
    vm.command.addAll(List.of(arguments));
    return vm;
  }

  static String classPath() {
    Path maven = Tiny.build().resolve("maven");
    return maven.resolve("classes") + ":" + maven.resolve("test-classes");
  }

  /** Returns a jar of this build. classifier: "" for the jar of the classes. */
  static Path jar(String classifier) throws IOException {
    String name = "hawser-" + Natives.version() + classifier + ".jar";
    try (Stream<Path> jars = Files.list(Tiny.build().resolve("maven"))) {
      return jars.filter(jar -> jar.getFileName().toString().equals(name)).findFirst().orElseThrow();
    }
  }

  ProcessBuilder builder() {
    ProcessBuilder builder = new ProcessBuilder(command).redirectErrorStream(true);
    builder.environment().remove("JAVA_TOOL_OPTIONS");
    return builder;
  }

  Result run() throws IOException, InterruptedException {
    Process process = builder().start();
    String output = new String(process.getInputStream().readAllBytes());
    assertTrue(process.waitFor(120, TimeUnit.SECONDS), "the VM ends");
    return new Result(process.exitValue(), output);
  }
}
