#!/usr/bin/env bash
# Tests the jars from an outside Maven project: runs `mvn verify` with a fresh local repository, into which everything
# except
# org.hawser comes from Maven Central, on a JDK of VERSION in /usr/lib/jvm.
#   jar_test.sh DIST SOURCE_FOLDER VERSION
set -euo pipefail
dist=$1 source=$2
JAVA_HOME=$(compgen -G "/usr/lib/jvm/*-$3-*" | head -1) || { echo "skipped: no JDK $3"; exit 77; }
export JAVA_HOME
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "jar_test.sh: $*" >&2; exit 1; }
version=$(sed -n 's/^project(hawser VERSION \([0-9.]*\).*/\1/p' "$source/CMakeLists.txt")

jars=$dist/maven/org/hawser/hawser/$version/hawser-$version
for jar in "$jars.jar" "$jars-natives-linux-x86_64.jar" "$jars-sources.jar" "$jars-javadoc.jar"; do
  [ -s "$jar" ] || fail "no $jar"
done
entries() { python3 -m zipfile --list "$1"; }
entries "$jars.jar" | grep META-INF/LICENSE >/dev/null || fail "no licence in the jar"
entries "$jars-natives-linux-x86_64.jar" | grep META-INF/THIRD_PARTY.txt >/dev/null || fail "no licences in the jar of natives"
entries "$jars-natives-linux-x86_64.jar" | grep META-INF/hawser.spdx.json >/dev/null || fail "no SBOM in it"
python3 -m zipfile --extract "$jars-natives-linux-x86_64.jar" "$work/natives"
readelf -d "$work"/natives/org/hawser/natives/linux-x86_64/libhawser_jni.so | grep -qF 'runpath: [$ORIGIN]' ||
  fail "libhawser_jni.so looks for libhawser in other folders than its own"
[ -s "$jars-natives-text-linux-x86_64.jar" ] || fail "no jar of the text module"
for file in META-INF/LICENSE META-INF/THIRD_PARTY_TEXT.txt org/hawser/natives/linux-x86_64/text/hawser-0/libhawser_text.so; do
  entries "$jars-natives-text-linux-x86_64.jar" | grep "$file" >/dev/null || fail "no $file in the jar of the text module"
done
bytes=$(stat -c %s "$jars-natives-linux-x86_64.jar")
[ "$bytes" -le 2700000 ] || fail "the natives jar has $bytes bytes, more than 2.7 MB"

outside=$work/outside
mkdir -p "$outside/src/test/java/outside"
cat >"$outside/pom.xml" <<XML
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>outside</groupId>
  <artifactId>outside</artifactId>
  <version>1</version>
  <properties>
    <maven.compiler.release>17</maven.compiler.release>
    <project.build.sourceEncoding>UTF-8</project.build.sourceEncoding>
  </properties>
  <repositories>
    <repository><id>dist</id><url>file://$(cd "$dist" && pwd)/maven</url></repository>
  </repositories>
  <dependencies>
    <dependency><groupId>org.hawser</groupId><artifactId>hawser</artifactId><version>$version</version></dependency>
    <dependency>
      <groupId>org.hawser</groupId><artifactId>hawser</artifactId><version>$version</version>
      <classifier>natives-linux-x86_64</classifier><scope>runtime</scope>
    </dependency>
    <dependency>
      <groupId>org.junit.jupiter</groupId><artifactId>junit-jupiter</artifactId><version>5.11.3</version>
      <scope>test</scope>
    </dependency>
  </dependencies>
  <build>
    <plugins>
      <plugin><artifactId>maven-compiler-plugin</artifactId><version>3.13.0</version></plugin>
      <plugin><artifactId>maven-surefire-plugin</artifactId><version>3.5.2</version></plugin>
    </plugins>
  </build>
</project>
XML
cat >"$outside/src/test/java/outside/TrainTest.java" <<'JAVA'
package outside;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.hawser.Config;
import org.hawser.Engine;
import org.hawser.TrainRecord;
import org.junit.jupiter.api.Test;

class TrainTest {
  @Test
  void trains() throws Exception {
    Path text = Files.createTempFile("text", ".txt");
    Files.writeString(text, "Many strands, one pull. ".repeat(400));
    try (Config config = Config.parse("{\"model\": {\"vocab_size\": 256, \"context\": 32, \"layers\": 1, \"width\": 32,"
            + " \"heads\": 2}, \"data\": {\"path\": \"" + text + "\", \"vocabulary\": \"bytes\"}, \"train\": {\"steps\": 30}}");
        Engine engine = Engine.create(config)) {
      List<TrainRecord> records = new ArrayList<>();
      engine.train(records::add);
      assertEquals(30, records.size());
      assertTrue(records.get(29).loss() < records.get(0).loss());
      System.out.println("Java " + Runtime.version() + ": loss " + records.get(29).loss());
    }
  }
}
JAVA
cd "$outside"
mvn --batch-mode -Dmaven.repo.local="$work/repository" verify >"$work/log" 2>&1 || { tail -60 "$work/log"; fail "mvn verify"; }
grep -E "^Java |Tests run: 1," "$work/log" | head -2
[ -d "$work/repository/org/hawser/hawser/$version" ] || fail "org.hawser came from elsewhere"
