//! Tests wrong arrays, texts and numbers: each error states what is wrong and what to do.

use hawser::{Batch, Code, Config, Error, GenerateRequest, LoadData, TensorKind};

use crate::tiny;

fn refused(result: hawser::Result<()>, code: Code, texts: &[&str]) {
    let error: Error = result.unwrap_err();
    assert_eq!(error.code(), code, "{error:?}");
    for text in texts {
        assert!(error.message().contains(text), "{text:?} is not in {error}");
    }
}

#[test]
fn batches() {
    let mut engine = tiny::engine();
    let tokens = tiny::Tokens::new(1);
    let push = |engine: &mut hawser::Engine, rows, cols, tokens: &[i32], targets: &[i32]| {
        engine.push(&Batch::new(rows, cols, tokens).with_targets(targets))
    };
    let (good, targets) = (&tokens.tokens[..], &tokens.targets[..]);
    refused(
        push(&mut engine, 4, 16, &good[..63], targets),
        Code::InvalidArgument,
        &["tokens", "63", "4 x 16"],
    );
    refused(
        push(&mut engine, 4, 16, good, &targets[1..]),
        Code::InvalidArgument,
        &["targets", "63", "4 x 16"],
    );
    refused(push(&mut engine, usize::MAX, 16, good, targets), Code::InvalidArgument, &["64"]);
    refused(push(&mut engine, 16, 4, good, targets), Code::InvalidArgument, &["16"]);
    refused(push(&mut engine, 0, 0, &[], &[]), Code::InvalidArgument, &[]);
    refused(engine.push(&Batch::new(4, 16, good)), Code::InvalidArgument, &["targets"]);
    let short = Batch::new(4, 16, good).with_targets(targets).with_document_begin(&targets[..3]);
    refused(engine.push(&short), Code::InvalidArgument, &["document", "3"]);
    for (wrong, text) in [(61, "61"), (-1, "-1"), (i32::MIN, "-2147483648")] {
        let mut tokens = tokens.tokens.clone();
        tokens[17] = wrong;
        refused(push(&mut engine, 4, 16, &tokens, targets), Code::DataInvalid, &[text]);
    }
    engine.push(&tokens.batch()).unwrap();
    refused(engine.push(&tokens.batch()), Code::Busy, &[]);
    engine.train_step().unwrap();
}

#[test]
fn texts_and_paths() {
    let mut engine = tiny::engine();
    refused(Config::parse("{\"model\": ").map(|_| ()), Code::ConfigParse, &[]);
    refused(Config::parse("").map(|_| ()), Code::ConfigParse, &[]);
    refused(Config::parse("{\"modle\": {}}").map(|_| ()), Code::ConfigInvalid, &["modle"]);
    refused(Config::from_binary(&[1, 2, 3]).map(|_| ()), Code::ConfigParse, &[]);
    refused(Config::preset("quick\0start").map(|_| ()), Code::InvalidArgument, &["name", "NUL", "5"]);
    refused(Config::from_model("/nowhere").map(|_| ()), Code::NotFound, &["/nowhere"]);
    refused(Config::from_value(&f64::NAN).map(|_| ()), Code::ConfigInvalid, &[]);
    refused(engine.load("/nowhere/emoji-😀", LoadData::Same), Code::NotFound, &["😀"]);
    refused(engine.save("a\0b"), Code::InvalidArgument, &["path", "NUL"]);
    refused(engine.encode("a").map(|_| ()), Code::FailedPrecondition, &[]);
    let latin1 = std::os::unix::ffi::OsStrExt::from_bytes(b"/nowhere/\xff");
    refused(
        engine.load(std::path::Path::new::<std::ffi::OsStr>(latin1), LoadData::Same),
        Code::NotFound,
        &[],
    );
}

#[test]
fn numbers_and_tensors() {
    let mut engine = tiny::engine();
    refused(engine.train(Some(u64::MAX)), Code::InvalidArgument, &["until_step", "18446744073709551615"]);
    refused(engine.generate(&GenerateRequest::new(&[], 3)).map(|_| ()), Code::InvalidArgument, &[]);
    refused(engine.generate(&GenerateRequest::new(&[61], 3)).map(|_| ()), Code::DataInvalid, &["61"]);
    let hot = GenerateRequest { temperature: f64::NAN, ..GenerateRequest::new(&[1], 3) };
    refused(engine.generate(&hot).map(|_| ()), Code::InvalidArgument, &["temperature"]);
    let mut values = vec![0.0; 31];
    refused(
        engine.read_tensor(TensorKind::Weight, "final_norm.weight", &mut values),
        Code::InvalidArgument,
        &["128"],
    );
    refused(
        engine.set_tensor(TensorKind::Weight, "final_norm.weight", &values),
        Code::InvalidArgument,
        &["128"],
    );
    refused(engine.view::<f32>(TensorKind::Weight, "no such").map(|_| ()), Code::NotFound, &["no such"]);
    refused(engine.commit().map(|_| ()), Code::FailedPrecondition, &[]);
}
