package org.hawser;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Tests how the native libraries are found, and the errors if they are missing or do not fit. */
class NativesTest {
  private static final String MAIN = "org.hawser.TrainOnce";

  @TempDir Path folder;

  private static Path natives() {
    return Path.of(System.getProperty("hawser.library.path"));
  }

  private static String tests() {
    return Tiny.build().resolve("maven/test-classes").toString();
  }

  private static String nativesJar() throws IOException {
    return Vm.jar("-natives-" + Natives.platform()).toString();
  }

  private static void trains(Vm vm) throws Exception {
    Vm.Result result = vm.run();
    assertTrue(result.code() == 0 && result.output().startsWith("loss 4."), result::toString);
  }

  private static String refused(Vm vm) throws Exception {
    Vm.Result result = vm.run();
    assertTrue(result.code() == 0 && result.output().startsWith("refused: "), result::toString);
    return result.output();
  }

  private static void assertHas(String text, String... words) {
    for (String word : words) assertTrue(text.contains(word), text + " lacks " + word);
  }

  private Vm withNativesJar(String... more) throws IOException {
    List<String> arguments = new ArrayList<>(List.of("-Dhawser.cache=" + folder));
    arguments.addAll(List.of(more));
    arguments.addAll(List.of("-cp", Vm.jar("") + ":" + nativesJar() + ":" + tests(), MAIN));
    return new Vm(arguments.toArray(String[]::new));
  }

  @Test
  void fromTheClassPathUnpackedOnce() throws Exception {
    trains(withNativesJar());
    List<Path> files;
    try (Stream<Path> all = Files.walk(folder)) {
      files = all.filter(Files::isRegularFile).sorted().toList();
    }
    assertTrue(files.size() >= 2, files::toString);
    assertTrue(files.stream().noneMatch(file -> file.toString().endsWith(".part")), files::toString);
    assertEquals("rwx------", java.nio.file.attribute.PosixFilePermissions.toString(
        Files.getPosixFilePermissions(files.get(0).getParent())));
    Object time = Files.getLastModifiedTime(files.get(0));
    trains(withNativesJar());
    assertEquals(time, Files.getLastModifiedTime(files.get(0)));
    Files.writeString(files.get(0), "cut");
    trains(withNativesJar());
  }

  @Test
  void theTextModuleComesFromAJarOfItsOwn() throws Exception {
    String text = Vm.jar("-natives-text-" + Natives.platform()).toString();
    trains(new Vm("-Dhawser.cache=" + folder, "-cp", Vm.jar("") + ":" + nativesJar() + ":" + text + ":" + tests(), MAIN));
    try (Stream<Path> all = Files.walk(folder)) {
      assertEquals(1, all.filter(file -> file.endsWith("hawser-0/libhawser_text.so")).count());
    }
  }

  @Test
  void manyAtOnce() throws Exception {
    List<Process> all = new ArrayList<>();
    for (int i = 0; i < 6; ++i) all.add(withNativesJar().builder().start());
    for (Process process : all) {
      String output = new String(process.getInputStream().readAllBytes());
      assertEquals(0, process.waitFor());
      assertTrue(output.startsWith("loss 4."), output);
    }
  }

  @Test
  void fromTheModulePath() throws Exception {
    Path tests = folder.resolve("module");
    String maven = Tiny.build().resolve("maven").toString();
    trains(new Vm("-Dhawser.cache=" + folder, "-p", Vm.jar("").toString(), "-cp", nativesJar(), "--patch-module",
        "org.hawser=" + tests(), "-m", "org.hawser/" + MAIN));
    trains(new Vm("-Dhawser.cache=" + tests, "-p", Vm.jar("") + ":" + nativesJar(), "--add-modules",
        "org.hawser.natives", "--patch-module", "org.hawser=" + tests(), "-m", "org.hawser/" + MAIN));
    assertTrue(Files.exists(tests), maven);
  }

  @Test
  void fromAFolder() throws Exception {
    trains(new Vm("-Dhawser.library.path=" + natives(), "-cp", Vm.jar("") + ":" + tests(), MAIN));
    trains(new Vm("-Djava.library.path=" + natives(), "-cp", Vm.jar("") + ":" + tests(), MAIN));
  }

  @Test
  void nothingThere() throws Exception {
    String said = refused(new Vm("-Djava.library.path=" + folder, "-cp", Vm.jar("") + ":" + tests(), MAIN));
    assertHas(said, "natives-" + Natives.platform(), "-Dhawser.library.path", folder.toString());
    said = refused(new Vm("-Dhawser.library.path=" + folder, "-cp", Vm.jar("") + ":" + tests(), MAIN));
    assertHas(said, folder.toString(), "libhawser_jni.so");
  }

  @Test
  void anotherProcessor() throws Exception {
    String said = refused(withNativesJar("-Dos.arch=aarch64"));
    assertHas(said, "linux-aarch64", "the class path has one for " + Natives.platform());
    boolean onArm = Natives.platform().endsWith("aarch64");
    String own = onArm ? "aarch64" : "x86-64";
    String mismatch = " is for " + (onArm ? "x86-64" : "aarch64") + " processors, but this VM is " + own;
    for (String name : List.of("libhawser_jni.so", "libhawser.so.0")) {
      // The run path also has the folder two levels up, which must not have the right library.
      Path other = Files.createDirectories(folder.resolve("others").resolve(name).resolve("natives"));
      for (String each : List.of("libhawser_jni.so", "libhawser.so.0")) {
        byte[] bytes = Files.readAllBytes(natives().resolve(each));
        if (each.equals(name)) bytes[18] = (byte) (onArm ? 62 : 183); // e_machine of ELF
        Files.write(other.resolve(each), bytes);
      }
      said = refused(new Vm("-Dhawser.library.path=" + other, "-cp", Vm.jar("") + ":" + tests(), MAIN));
      assertHas(said, other.resolve("libhawser_jni.so") + " cannot be loaded on " + Natives.platform(),
          other.resolve(name) + mismatch, "library for " + own);
      said = refused(new Vm("-Djava.library.path=" + other, "-cp", Vm.jar("") + ":" + tests(), MAIN));
      assertHas(said, other.resolve(name) + mismatch);
    }
  }

  @Test
  void aFolderThatCannotBeWritten() throws Exception {
    Path file = Files.writeString(folder.resolve("file"), "no folder");
    String said = refused(new Vm("-Dhawser.cache=" + file, "-cp", Vm.jar("") + ":" + nativesJar() + ":" + tests(), MAIN));
    assertHas(said, file.toString(), "-Dhawser.cache");
  }

  /** Makes a libhawser.so.0 that contains only its version numbers. */
  private Path withLibrary(int abi, String version) throws Exception {
    Path made = Files.createDirectories(folder.resolve("abi" + abi));
    Path source = Files.writeString(made.resolve("library.c"), "unsigned hws_library_abi(void) { return " + abi + "; }\n"
        + "const char* hws_library_version(void) { return \"" + version + "\"; }\n");
    Path script = Files.writeString(made.resolve("library.map"), "HAWSER_0 { global: hws_*; local: *; };\n");
    Process compiler = new ProcessBuilder("cc", "-shared", "-fPIC", "-Wl,-soname,libhawser.so.0",
        "-Wl,--version-script=" + script, "-o",
        made.resolve("libhawser.so.0").toString(), source.toString()).inheritIO().start();
    assertEquals(0, compiler.waitFor());
    Files.copy(natives().resolve("libhawser_jni.so"), made.resolve("libhawser_jni.so"));
    return made;
  }

  @Test
  void anotherAbi() throws Exception {
    Path other = withLibrary(7, "9.0.0");
    String said = refused(new Vm("-Dhawser.library.path=" + other, "-cp", Vm.jar("") + ":" + tests(), MAIN));
    assertHas(said, other.resolve("libhawser.so.0").toString(), "ABI 7", "ABI 1");
  }

  @Test
  void anotherVersion() throws Exception {
    Path other = withLibrary(1, "0.0.9");
    String said = refused(new Vm("-Dhawser.library.path=" + other, "-cp", Vm.jar("") + ":" + tests(), MAIN));
    assertHas(said, other.resolve("libhawser.so.0").toString(), "0.0.9", Natives.version());
    Path properties = Files.createDirectories(folder.resolve("classes/org/hawser")).resolve("version.properties");
    Files.writeString(properties, "version=0.2.0\n");
    said = refused(new Vm("-Dhawser.library.path=" + natives(), "-cp", folder.resolve("classes") + ":" + Vm.classPath(), MAIN));
    assertHas(said, "libhawser_jni.so is of version " + Natives.version(), "0.2.0");
    assertTrue(Natives.isOlder("0.1.0", "0.1.1") && Natives.isOlder("0.9.9", "0.10.0"));
    assertFalse(Natives.isOlder("0.1.0", "0.1.0") || Natives.isOlder("1.0.0", "0.9.0"));
  }
}
