#!/usr/bin/env bash
# Makes the jars of org.hawser in a Maven repository of their own, dist/maven: classes, natives, natives of the text
# module, sources and javadoc.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/portable_build.sh"

[ -n "${HAWSER_BUILD:-}" ] || install_packages swig maven default-jdk-headless
portable_build -DHAWSER_JAVA=ON
[ -d "$build/bindings/java" ] || fail "$build was configured without HAWSER_JAVA"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
copy_source "$work/tree"
cp -r "$build/bindings/java" "$work/java"  # a copy, because Maven writes into it
mkdir -p "$work/java/natives/META-INF"
cp "$build/hawser.spdx.json" "$work/java/natives/META-INF"
if [ -d "$work/java/natives-text" ]; then
  mkdir -p "$work/java/natives-text/META-INF"
  cp "$root/LICENSE" "$build/THIRD_PARTY_TEXT.txt" "$build/hawser-text.spdx.json" "$work/java/natives-text/META-INF"
fi
mvn --batch-mode --quiet --file "$work/tree/bindings/java/pom.xml" -DskipTests -Dhawser.build="$work/java" \
  "-Dhawser.platform=linux-$processor" \
  package org.apache.maven.plugins:maven-deploy-plugin:3.1.3:deploy \
  -DaltDeploymentRepository="dist::file:$work/maven"
# All jars but the natives are the same for every architecture. Natives of another architecture stay.
if [ -d "$dist/maven" ]; then
  find "$dist/maven" -type f ! \( -name '*-natives-*' ! -name "*-linux-$processor.jar*" \) -delete
fi
cp -rT "$work/maven" "$dist/maven"
find "$dist/maven" -name '*.jar'
