//! Contains the tests of the crate in one program, which is linked only once.

mod bad_input;
mod callbacks;
mod checkpoints;
mod comm;
mod complete;
mod config;
mod engine;
mod gpu_faults;
mod same_bits;
mod tiny;
