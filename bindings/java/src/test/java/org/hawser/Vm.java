package org.hawser;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;

/** Another Java VM, as a user would start it. */
final class Vm {
  private final List<String> command = new ArrayList<>();

  /** What it printed, and how it ended. */
  record Result(int code, String output) {}

  Vm(String... arguments) {
    command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
    // Without performance data: VMs of containers that share /tmp warn on standard output of each other's files.
    command.addAll(List.of("-Xmx128m", "-XX:+UseSerialGC", "-XX:-UsePerfData"));
    boolean module = List.of(arguments).contains("-p");
    if (Runtime.version().feature() >= 22) { // which warn of native libraries that nobody has allowed
      command.add("--enable-native-access=" + (module ? "org.hawser" : "ALL-UNNAMED"));
    }
    command.addAll(List.of(arguments));
  }

  /** A VM that has this build's natives, the classes of the binding, and those of the tests and examples. */
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

  /** A jar that the build has made; classifier: "" for that of the classes. */
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
