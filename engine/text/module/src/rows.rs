//! Rows: reads the rows of a Parquet file as JSON objects.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;

use parquet::file::metadata::ParquetMetaData;
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
        check_columns(reader.metadata())?;
        Ok(Rows { rows: RowIter::from_file_into(Box::new(reader)), total })
    }

    /// Returns the next row; `None` at the end.
    pub fn next(&mut self) -> Outcome<Option<String>> {
        match self.rows.next() {
            None => Ok(None),
            Some(Ok(row)) => Ok(Some(object_of(&row).to_string())),
            Some(Err(error)) => Err(Failure::invalid(error)),
        }
    }
}

/// A column of at most this many bytes may expand by any factor.
const FREE_BYTES: i64 = 64 << 20;
/// Maximum expansion of a larger column when it is read. Texts expand 3 to 10 times.
const MOST_EXPANSION: i64 = 200;
/// A column of at most this many values may have any number of values per row.
const FREE_VALUES: i64 = 1 << 20;
const MOST_VALUES: i64 = 100_000;

/// Refuses columns that expand too far. A column of equal values takes almost no bytes in the file, but
/// reading its row holds the whole column in memory.
fn check_columns(metadata: &ParquetMetaData) -> Outcome<()> {
    for group in metadata.row_groups() {
        for column in group.columns() {
            let (long, short) = (column.uncompressed_size(), column.compressed_size().max(1));
            if long > FREE_BYTES && long / MOST_EXPANSION > short {
                return Err(Failure::invalid(format_args!(
                    "column {} has {long} bytes, which the file holds in {short}; at most {MOST_EXPANSION} times as \
                     many are read",
                    column.column_path()
                )));
            }
            let (values, rows) = (column.num_values(), group.num_rows().max(1));
            if values > FREE_VALUES && values / MOST_VALUES > rows {
                return Err(Failure::invalid(format_args!(
                    "column {} has {values} values in {rows} rows; at most {MOST_VALUES} for each row are read",
                    column.column_path()
                )));
            }
        }
    }
    Ok(())
}

fn object_of(row: &Row) -> Value {
    Value::Object(row.get_column_iter().map(|(name, field)| (name.clone(), json_of(field))).collect())
}

/// Converts a field. A byte column is a text if it holds UTF-8, because older writers do not mark texts.
/// Other bytes become an object, which cannot be mistaken for a text.
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
