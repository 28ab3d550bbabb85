//! The C API of Hawser, `hawser.h`, as declarations that bindgen generates. The crate `hawser-train` is the safe
//! way to use it.
//!
//! Each item has its comment from the header. `NULL` there means a null pointer or `None`.
#![no_std]
#![allow(non_camel_case_types, non_upper_case_globals, rustdoc::broken_intra_doc_links)]
#![allow(rustdoc::invalid_html_tags, clippy::doc_lazy_continuation, clippy::doc_overindented_list_items)]

mod bindings;
pub use bindings::*;
