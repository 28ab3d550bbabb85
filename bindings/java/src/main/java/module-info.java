/** Trains transformer language models inside a Java program. */
module org.hawser {
  exports org.hawser;
}
