//! Rows of a Parquet file, as JSON objects.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::reader::RowIter;
use parquet::record::{Field, Row};
use serde_json::{json, Value};

use crate::contract::{Failure, Outcome};

pub struct Rows {
    rows: RowIter<'static>,
    pub total: i64,
}

impl Rows {
    pub fn open(path: &[u8]) -> Outcome<Self> {
        let file = File::open(OsStr::from_bytes(path)).map_err(Failure::invalid)?;
        let reader = SerializedFileReader::new(file).map_err(Failure::invalid)?;
        let total = reader.metadata().file_metadata().num_rows();
        Ok(Rows { rows: RowIter::from_file_into(Box::new(reader)), total })
    }

    /// The next row; `None` at the end.
    pub fn next(&mut self) -> Outcome<Option<String>> {
        match self.rows.next() {
            None => Ok(None),
            Some(Ok(row)) => Ok(Some(object_of(&row).to_string())),
            Some(Err(error)) => Err(Failure::invalid(error)),
        }
    }
}

fn object_of(row: &Row) -> Value {
    Value::Object(row.get_column_iter().map(|(name, field)| (name.clone(), json_of(field))).collect())
}

/// Columns of bytes are texts where they hold UTF-8: older writers do not say that they do. Other bytes become
/// nothing that could pass for a text.
fn json_of(field: &Field) -> Value {
    match field {
        Field::Bytes(bytes) => match std::str::from_utf8(bytes.data()) {
            Ok(text) => text.into(),
            Err(_) => json!({ "bytes": bytes.len() }),
        },
        Field::Group(row) => object_of(row),
        Field::ListInternal(list) => list.elements().iter().map(json_of).collect(),
        other => other.to_json_value(),
    }
}
