package org.hawser;

/** The tensors that an engine stores for each parameter. */
public enum Tensor {
  /** The parameter itself. */
  WEIGHT,
  /** The gradient while a step is pending, unscaled and unclipped. */
  GRADIENT,
  /** AdamW's m or SGD's momentum buffer. */
  MOMENT1,
  /** AdamW's v. */
  MOMENT2,
  /** The moving average of the parameter (optimizer.average). */
  AVERAGE
}
