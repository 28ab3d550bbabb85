//! The tests of the crate, in one program that links once.

mod callbacks;
mod complete;
mod engine;
mod same_bits;
mod tiny;
