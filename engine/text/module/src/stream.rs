//! Stream: decodes ids to text one by one. A character is returned when its bytes are complete.

use tokenizers::{step_decode_stream, Tokenizer};

use crate::contract::{Failure, Outcome};

pub struct Stream {
    skip_special: bool,
    ids: Vec<u32>,
    prefix: String,
    prefix_index: usize,
}

impl Stream {
    pub fn new(skip_special: bool) -> Self {
        Stream { skip_special, ids: Vec::new(), prefix: String::new(), prefix_index: 0 }
    }

    /// Returns the text that `id` completes.
    pub fn next(&mut self, tokenizer: &Tokenizer, id: u32) -> Outcome<Option<String>> {
        step_decode_stream(
            tokenizer,
            vec![id],
            self.skip_special,
            &mut self.ids,
            &mut self.prefix,
            &mut self.prefix_index,
        )
        .map_err(Failure::invalid)
    }
}
