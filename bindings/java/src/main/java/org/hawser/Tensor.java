package org.hawser;

/** What an engine keeps of each parameter. */
public enum Tensor {
  /** The parameter itself. */
  WEIGHT,
  /** Its gradient, while a step is pending: unscaled, unclipped. */
  GRADIENT,
  /** AdamW's m, SGD's momentum buffer. */
  MOMENT1,
  /** AdamW's v. */
  MOMENT2
}
