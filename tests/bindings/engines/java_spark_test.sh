#!/usr/bin/env bash
# Tests hawser-spark with a real Spark on this machine: submits SparkTrainingProgram to local-cluster[2,1,1024]. Uses
# the
# Spark of the package pyspark. Skipped (77) without pyspark, or if its jars are neither in Maven's cache nor registry.
#   java_spark_test.sh PYTHON BUILD_OF_JAVA VERSION
set -euo pipefail
python=$1 build=$2 version=$3
SPARK_HOME=$("$python" -c 'import os, pyspark; print(os.path.dirname(pyspark.__file__))' 2>/dev/null) || exit 77
export SPARK_HOME
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

mvn -B -q -f bindings/java/pom.xml install -DskipTests -Dhawser.build="$build"
mvn -B -q -f bindings/java/hawser-spark/pom.xml package -Dhawser.build="$build"
jars=$(echo "$build"/maven/hawser-$version.jar "$build"/maven/hawser-$version-natives-*.jar "$build"/maven-spark/hawser-spark-$version.jar)
"$SPARK_HOME/bin/spark-submit" --master 'local-cluster[2,1,1024]' --class org.hawser.spark.SparkTrainingProgram \
  --conf spark.ui.enabled=false --conf spark.driver.host=127.0.0.1 --conf spark.driver.bindAddress=127.0.0.1 \
  --conf spark.scheduler.barrier.maxConcurrentTasksCheck.interval=1s --conf spark.task.maxFailures=1 \
  --jars "${jars// /,}" "$build/maven-spark/hawser-spark-$version-tests.jar" "$work" >"$work/out" 2>"$work/err" ||
  { cat "$work/out"; tail -40 "$work/err"; exit 1; }
cat "$work/out"
