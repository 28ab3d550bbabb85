//! Rows of a Parquet file, as JSON objects.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::reader::RowIter;

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
            Some(Ok(row)) => Ok(Some(row.to_json_value().to_string())),
            Some(Err(error)) => Err(Failure::invalid(error)),
        }
    }
}
