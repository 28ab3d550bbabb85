//! libhawser_text.so: exposes tokenizers, chat templates and Parquet through the C functions of
//! `../../text_module.h`.

mod containers;
mod contract;
mod encode;
mod filters;
mod formats;
mod growth;
mod limits;
mod methods;
mod open;
mod python;
#[cfg_attr(not(feature = "parquet"), path = "no_rows.rs")]
mod rows;
mod stream;
mod tags;
mod template;
mod train;

use std::ffi::c_char;
use std::sync::Once;

use tokenizers::{OffsetType, Tokenizer};

use contract::{guarded, str_of, Failure, Module, Poll, Sink, Source, OK};
use limits::{on_enough_stack, on_own_stack};
use rows::Rows;
use stream::Stream;
use template::Template;

/// Only this library uses the allocator; the host program keeps its own.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

unsafe extern "C" fn tokenizer_open(
    json: *const c_char,
    bytes: usize,
    out: *mut *mut Tokenizer,
    error: *const Sink,
) -> i32 {
    guarded(&*error, || {
        let json = str_of(json, bytes)?;
        *out = Box::into_raw(Box::new(on_own_stack(|| open::open(json))?));
        Ok(())
    })
}

unsafe extern "C" fn tokenizer_close(tokenizer: *mut Tokenizer) {
    drop(Box::from_raw(tokenizer));
}

unsafe extern "C" fn vocabulary_size(tokenizer: *const Tokenizer) -> u32 {
    let tokenizer = &*tokenizer;
    tokenizer.get_vocab(true).values().max().map_or(0, |greatest| greatest.saturating_add(1))
}

unsafe extern "C" fn token_of(
    tokenizer: *const Tokenizer,
    id: u32,
    token: *const Sink,
    special: *mut i32,
    error: *const Sink,
) -> i32 {
    guarded(&*error, || {
        let tokenizer = &*tokenizer;
        let name = tokenizer.id_to_token(id);
        let name = name.ok_or_else(|| Failure::invalid(format_args!("no token has id {id}")))?;
        let added = tokenizer.get_added_vocabulary();
        *special = i32::from(added.is_special_token(&name));
        (*token).write(name.as_bytes())
    })
}

unsafe extern "C" fn id_of(tokenizer: *const Tokenizer, token: *const c_char, bytes: usize, id: *mut i64) {
    let found = str_of(token, bytes).ok().and_then(|token| (*tokenizer).token_to_id(token));
    *id = found.map_or(-1, i64::from);
}

unsafe extern "C" fn encode(
    tokenizer: *const Tokenizer,
    first: *const c_char,
    first_bytes: usize,
    second: *const c_char,
    second_bytes: usize,
    add_special: i32,
    poll: *const Poll,
    ids: *const Sink,
    spans: *const Sink,
    error: *const Sink,
) -> i32 {
    guarded(&*error, || {
        let first = str_of(first, first_bytes)?;
        let second = match second.is_null() {
            true => None,
            false => Some(str_of(second, second_bytes)?),
        };
        let offsets = if spans.is_null() { OffsetType::None } else { OffsetType::Byte };
        let encoding =
            on_enough_stack(|| encode::encode(&*tokenizer, first, second, add_special != 0, offsets, *poll))?;
        (*ids).write(encoding.get_ids())?;
        if spans.is_null() {
            return Ok(());
        }
        let pairs: Vec<[u64; 2]> =
            encoding.get_offsets().iter().map(|&(begin, end)| [begin as u64, end as u64]).collect();
        (*spans).write(&pairs)
    })
}

unsafe extern "C" fn decode(
    tokenizer: *const Tokenizer,
    ids: *const u32,
    count: usize,
    skip_special: i32,
    text: *const Sink,
    error: *const Sink,
) -> i32 {
    guarded(&*error, || {
        let ids = if count == 0 { &[] } else { std::slice::from_raw_parts(ids, count) };
        let tokenizer = &*tokenizer;
        let decoded = on_enough_stack(|| tokenizer.decode(ids, skip_special != 0));
        let decoded = decoded.map_err(Failure::invalid)?;
        (*text).write(decoded.as_bytes())
    })
}

unsafe extern "C" fn stream_open(skip_special: i32, out: *mut *mut Stream) -> i32 {
    *out = Box::into_raw(Box::new(Stream::new(skip_special != 0)));
    OK
}

unsafe extern "C" fn stream_close(stream: *mut Stream) {
    drop(Box::from_raw(stream));
}

unsafe extern "C" fn stream_next(
    tokenizer: *const Tokenizer,
    stream: *mut Stream,
    id: u32,
    text: *const Sink,
    error: *const Sink,
) -> i32 {
    guarded(&*error, || match (*stream).next(&*tokenizer, id)? {
        Some(piece) => (*text).write(piece.as_bytes()),
        None => Ok(()),
    })
}

unsafe extern "C" fn train_bpe(
    texts: *const Source,
    vocabulary: u32,
    specials: *const c_char,
    specials_bytes: usize,
    poll: *const Poll,
    json: *const Sink,
    error: *const Sink,
) -> i32 {
    guarded(&*error, || {
        let specials = str_of(specials, specials_bytes)?;
        let texts = &*texts;
        let trained = on_own_stack(|| train::train_bpe(texts, vocabulary, specials, *poll))?;
        (*json).write(trained.as_bytes())
    })
}

unsafe extern "C" fn template_open(
    source: *const c_char,
    bytes: usize,
    out: *mut *mut Template,
    has_generation: *mut i32,
    error: *const Sink,
) -> i32 {
    guarded(&*error, || {
        let source = str_of(source, bytes)?;
        let template = on_own_stack(|| Template::open(source))?;
        *has_generation = i32::from(template.has_generation());
        *out = Box::into_raw(Box::new(template));
        Ok(())
    })
}

unsafe extern "C" fn template_close(template: *mut Template) {
    drop(Box::from_raw(template));
}

unsafe extern "C" fn template_render(
    template: *const Template,
    variables: *const c_char,
    bytes: usize,
    now: i64,
    poll: *const Poll,
    text: *const Sink,
    learned: *const Sink,
    error: *const Sink,
) -> i32 {
    guarded(&*error, || {
        let variables = str_of(variables, bytes)?;
        let rendered = on_enough_stack(|| (*template).render(variables, now, Some(*poll)))?;
        (*text).write(rendered.text.as_bytes())?;
        (*learned).write(&rendered.learned)
    })
}

unsafe extern "C" fn rows_open(
    path: *const c_char,
    bytes: usize,
    out: *mut *mut Rows,
    total: *mut i64,
    error: *const Sink,
) -> i32 {
    guarded(&*error, || {
        let path = std::slice::from_raw_parts(path.cast(), bytes);
        let rows = on_own_stack(|| Rows::open(path))?;
        *total = rows.total;
        *out = Box::into_raw(Box::new(rows));
        Ok(())
    })
}

unsafe extern "C" fn rows_close(rows: *mut Rows) {
    drop(Box::from_raw(rows));
}

unsafe extern "C" fn rows_next(
    rows: *mut Rows,
    more: *mut i32,
    json: *const Sink,
    error: *const Sink,
) -> i32 {
    guarded(&*error, || {
        let rows = &mut *rows;
        let row = on_enough_stack(|| rows.next())?;
        *more = i32::from(row.is_some());
        match row {
            Some(row) => (*json).write(row.as_bytes()),
            None => Ok(()),
        }
    })
}

static MODULE: Module = Module {
    build_id: concat!(env!("HAWSER_TEXT_BUILD_ID"), "\0").as_ptr().cast(),
    tokenizer_open,
    tokenizer_close,
    vocabulary_size,
    token_of,
    id_of,
    encode,
    decode,
    stream_open,
    stream_close,
    stream_next,
    train_bpe,
    template_open,
    template_close,
    template_render,
    rows_open,
    rows_close,
    rows_next,
};

/// Returns the module. The first call silences panics (their messages become errors) and prevents the crates
/// from starting threads.
#[no_mangle]
pub extern "C" fn hawser_text_module() -> *const Module {
    static PREPARE: Once = Once::new();
    PREPARE.call_once(|| {
        std::panic::set_hook(Box::new(|_| {}));
        tokenizers::utils::parallelism::set_parallelism(false);
        limits::limit_regular_expressions();
    });
    &MODULE
}
