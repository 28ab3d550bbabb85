//! Tests that the first call reports a library with another ABI. library_test.sh of hawser-sys runs this test
//! with such a library.

use std::time::Duration;

#[test]
#[ignore = "needs a library of another ABI"]
fn every_way_in_says_so() {
    let errors = [
        hawser::Config::preset("quickstart").map(|_| ()),
        hawser::Comm::local(2).map(|_| ()),
        hawser::library_info().map(|_| ()),
        hawser::devices().map(|_| ()),
        hawser::peak_flops(1, "fp32", Duration::ZERO).map(|_| ()),
        hawser::verify_checkpoint("/nowhere"),
        hawser::import_checkpoint("/nowhere", "/nowhere", &[]),
        hawser::set_thread_interrupt(|| false),
    ];
    for error in errors.map(Result::unwrap_err) {
        assert_eq!(error.code(), hawser::Code::AbiMismatch);
        println!("{:?}: {error}", error.code());
    }
}
