//! Open: reads a tokenizer.json. If it is invalid, the error names the component that cannot be read.

use serde_json::{from_str, from_value, Error, Map, Value};
use tokenizers::{
    DecoderWrapper, ModelWrapper, NormalizerWrapper, PostProcessorWrapper, PreTokenizerWrapper, Tokenizer,
};

use crate::contract::{Failure, Outcome};
use crate::growth;

pub fn open(json: &str) -> Outcome<Tokenizer> {
    let mut tokenizer: Tokenizer = json.parse().map_err(|error| why(json, error))?;
    // Callers decide about truncation and padding.
    tokenizer.with_truncation(None).map_err(Failure::invalid)?;
    tokenizer.with_padding(None);
    growth::check(&tokenizer)?;
    Ok(tokenizer)
}

/// A component: its name, a function that reads it, and the key of its parts.
struct Component {
    name: &'static str,
    read: fn(Value) -> Option<Error>,
    parts: &'static str,
}

const COMPONENTS: [Component; 5] = [
    Component {
        name: "normalizer",
        read: |value| from_value::<NormalizerWrapper>(value).err(),
        parts: "normalizers",
    },
    Component {
        name: "pre_tokenizer",
        read: |value| from_value::<PreTokenizerWrapper>(value).err(),
        parts: "pretokenizers",
    },
    Component { name: "model", read: |value| from_value::<ModelWrapper>(value).err(), parts: "" },
    Component {
        name: "post_processor",
        read: |value| from_value::<PostProcessorWrapper>(value).err(),
        parts: "processors",
    },
    Component { name: "decoder", read: |value| from_value::<DecoderWrapper>(value).err(), parts: "decoders" },
];

/// Explains why a text is not a tokenizer; the parser's own message only has the position.
fn why(json: &str, error: tokenizers::Error) -> Failure {
    let root: Value = match from_str(json) {
        Ok(root) => root,
        Err(error) if error.is_eof() => return Failure::invalid(format_args!("it ends too early: {error}")),
        Err(error) => {
            return Failure::invalid(format_args!(
                "it is not JSON: {error}; a tokenizer of another form, such as tokenizer.model, must be saved as \
                 tokenizer.json first (in Transformers: save_pretrained)"
            ))
        }
    };
    let Some(root) = root.as_object().filter(|root| root.contains_key("model")) else {
        return Failure::invalid(
            "it is JSON, but not a tokenizer, which is an object with \"model\"; give the tokenizer.json of the \
             model's folder",
        );
    };
    let problem =
        COMPONENTS.iter().find_map(|component| component.problem(root.get(component.name)?, component.name));
    Failure::invalid(problem.unwrap_or_else(|| error.to_string()))
}

impl Component {
    fn problem(&self, value: &Value, path: &str) -> Option<String> {
        if value.is_null() && self.name != "model" {
            return None;
        }
        let error = (self.read)(value.clone())?;
        let parts = value.get(self.parts).and_then(Value::as_array);
        let inner = parts.into_iter().flatten().enumerate();
        let deeper =
            inner.into_iter().find_map(|(i, part)| self.problem(part, &format!("{path}/{}/{i}", self.parts)));
        Some(deeper.unwrap_or_else(|| format!("its {path}{} cannot be read: {}", kind(value), words(&error))))
    }
}

fn kind(value: &Value) -> String {
    let kind = value.as_object().and_then(|object: &Map<String, Value>| object.get("type"));
    kind.map_or_else(String::new, |kind| format!(", of type {kind},"))
}

/// Returns the crate's message, except if it names types of the crate's code.
fn words(error: &Error) -> String {
    let words = error.to_string();
    if words.contains("untagged enum MergeType") {
        return "its merges must be pairs of tokens, all arrays of two or all texts with a space".to_owned();
    }
    if words.contains("untagged enum") {
        return "the type is unknown, or does not have these fields (supported: what tokenizers 0.23 writes)"
            .to_owned();
    }
    words
}
