//! Limits: the resources that a chat template may use. A template may come from an untrusted folder, so it
//! must not be able to end the process or to keep it busy. Nesting, steps, bytes, values and time are
//! bounded, and exceeding a bound is an error.
//!
//! minijinja itself counts fuel (steps and bytes). Fuel does not bound how deep values nest, and comparing or
//! sorting a value costs no fuel for its contents. Every value that gets a name therefore passes `bounded`.

use std::cell::RefCell;
use std::collections::HashMap;
use std::time::{Duration, Instant};

use minijinja::value::{ObjectRepr, Tuple, ValueKind};
use minijinja::{Error, ErrorKind, State, Value};

use crate::contract::Poll;

pub const SOURCE_BYTES: usize = 1 << 20;
pub const TOKENS: usize = 50_000;
/// Maximum tokens between `{%` and `%}`, or `{{` and `}}`: each may be a level of the syntax tree.
pub const TAG_TOKENS: usize = 4096;
/// Maximum `elif`s in one template: each is a level of the syntax tree.
pub const ELIFS: usize = 2000;
/// Maximum nesting of macros, loops and blocks while rendering.
pub const CALL_DEPTH: usize = 200;
/// Maximum nesting of lists and maps. Rows have at most 64 levels, and arguments of tool calls 64 more.
pub const VALUE_DEPTH: u32 = 200;
/// Maximum items of a value when it is written out, beyond the items of the row.
pub const VALUE_ITEMS: u64 = 20_000;
/// Maximum steps. A step is one instruction, or pays for `BYTES_PER_STEP` bytes of text.
pub const STEPS: u64 = 4 << 20;
/// Maximum steps for rows of at least `LONG_ROW` bytes.
pub const LONG_STEPS: u64 = 16 << 20;
pub const LONG_ROW: usize = 256 << 10;
pub const BYTES_PER_STEP: u64 = 64;
pub const SECONDS: u64 = 30;
const STACK: usize = 64 << 20;
const ENOUGH: usize = 6 << 20;

/// Runs `f` with at least 64 MiB of stack, independent of the caller's stack.
pub fn on_own_stack<T>(f: impl FnOnce() -> T) -> T {
    stacker::grow(STACK, f)
}

/// Works like on_own_stack, for code whose recursion the bounds on values and calls limit. Only a thread with
/// a small stack gets another one, because creating a stack takes as long as rendering a short chat.
pub fn on_enough_stack<T>(f: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(ENOUGH, STACK, f)
}

/// Maximum steps of one search with a tokenizer's regular expression, which could otherwise take hours.
const SEARCH_STEPS: std::ffi::c_ulong = 50_000_000;

/// Limits this library's own copy of Oniguruma. A search that takes more steps panics; the panic is caught.
pub fn limit_regular_expressions() {
    // Safety: a plain number, set before any search runs.
    unsafe { onig_sys::onig_set_retry_limit_in_search(SEARCH_STEPS) };
}

/// Size of a value: its levels of lists and maps, and its items when it is written out.
#[derive(Clone, Copy)]
struct Shape {
    depth: u32,
    items: u64,
}

const LEAF: Shape = Shape { depth: 0, items: 1 };

/// State of one rendering.
struct Rendering {
    /// Shapes of lists and maps by address. `kept` keeps the values alive, so that an address belongs to one
    /// value.
    known: HashMap<usize, Shape>,
    kept: Vec<Value>,
    most_items: u64,
    end: Instant,
    poll: Option<Poll>,
    stopped: bool,
}

thread_local! {
    static RENDERING: RefCell<Option<Rendering>> = const { RefCell::new(None) };
}

/// Runs a rendering under these limits. `items`: an upper bound for the items of the row. Also returns true
/// if the caller's poll ended it.
pub fn limited<T>(items: usize, poll: Option<Poll>, render: impl FnOnce() -> T) -> (T, bool) {
    let rendering = Rendering {
        known: HashMap::new(),
        kept: Vec::new(),
        most_items: VALUE_ITEMS + 2 * items as u64,
        end: Instant::now() + Duration::from_secs(SECONDS),
        poll,
        stopped: false,
    };
    let outer = RENDERING.replace(Some(rendering));
    let result = render();
    let ended = RENDERING.replace(outer);
    (result, ended.is_some_and(|rendering| rendering.stopped))
}

fn with_rendering<T>(f: impl FnOnce(&mut Rendering) -> Result<T, Error>) -> Result<T, Error> {
    RENDERING.with_borrow_mut(|rendering| match rendering {
        Some(rendering) => f(rendering),
        None => Err(refusal("no rendering runs".to_owned())),
    })
}

fn refusal(reason: String) -> Error {
    Error::new(ErrorKind::InvalidOperation, reason)
}

/// Implements the filter that every value passes when it gets a name.
pub fn bounded(state: &mut State, value: Value) -> Result<Value, Error> {
    tick()?;
    if is_namespace(&value) {
        return Ok(value);
    }
    held(state, value)
}

/// Like bounded, for a value that goes into a namespace. It must not hold a namespace, which could then hold
/// itself.
pub fn held(state: &mut State, value: Value) -> Result<Value, Error> {
    tick()?;
    if value.as_object().is_none() {
        return Ok(value);
    }
    let (shape, changed) = shape_of(state, &value, VALUE_DEPTH)?;
    let most = with_rendering(|rendering| Ok(rendering.most_items))?;
    if shape.items > most {
        return Err(refusal(format!("a value has more than {most} items when it is written out")));
    }
    Ok(changed.unwrap_or(value))
}

/// Polls the caller, and checks the time limit.
fn tick() -> Result<(), Error> {
    with_rendering(|rendering| {
        if rendering.stopped || rendering.poll.as_ref().is_some_and(Poll::says_stop) {
            rendering.stopped = true;
            return Err(refusal("stopped by the caller".to_owned()));
        }
        if Instant::now() > rendering.end {
            return Err(refusal(format!("rendering one row takes more than {SECONDS} seconds")));
        }
        Ok(())
    })
}

/// Fails unless the remaining steps pay for this many bytes. Call it before the bytes are allocated.
pub fn ensure_bytes(state: &State, bytes: usize) -> Result<(), Error> {
    let left = state.fuel_levels().map_or(u64::MAX, |(_, left)| left);
    if bytes as u64 / BYTES_PER_STEP >= left {
        return Err(Error::from(ErrorKind::OutOfFuel));
    }
    Ok(())
}

/// Returns the number of bytes that the remaining steps pay for.
pub fn bytes_left(state: &State) -> usize {
    let left = state.fuel_levels().map_or(u64::MAX, |(_, left)| left);
    usize::try_from(left.saturating_mul(BYTES_PER_STEP)).unwrap_or(usize::MAX)
}

pub fn is_namespace(value: &Value) -> bool {
    value.as_object().is_some_and(|object| object.type_name().ends_with("::Namespace"))
}

type Shaped = (Shape, Option<Value>);

/// Returns the shape of a value, and a copy of the value if it held an iterator, which each use would
/// evaluate again.
fn shape_of(state: &mut State, value: &Value, levels: u32) -> Result<Shaped, Error> {
    let Some(object) = value.as_object() else { return Ok((LEAF, None)) };
    if levels == 0 {
        return Err(refusal(format!("values are nested in more than {VALUE_DEPTH} levels")));
    }
    if is_namespace(value) {
        return Err(refusal("a namespace inside a list, a map or a namespace is not supported".to_owned()));
    }
    if let Some(items) = object.downcast_ref::<Vec<Value>>() {
        return remembered(state, value, address(items), levels, |state, levels| {
            let (shape, items) = shape_of_items(state, items, levels)?;
            Ok((shape, items.map(Value::from)))
        });
    }
    if let Some(items) = object.downcast_ref::<Tuple>() {
        return remembered(state, value, address(items), levels, |state, levels| {
            let (shape, items) = shape_of_items(state, items, levels)?;
            Ok((shape, items.map(|items| Value::from(Tuple::from(items)))))
        });
    }
    if let Some(map) = object.downcast_ref::<indexmap::IndexMap<Value, Value>>() {
        return remembered(state, value, address(map), levels, |state, levels| {
            let pairs: Vec<Value> = map.iter().flat_map(|(k, v)| [k.clone(), v.clone()]).collect();
            let (shape, items) = shape_of_items(state, &pairs, levels)?;
            Ok((
                shape,
                items.map(|items| {
                    Value::from_pairs(items.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())))
                }),
            ))
        });
    }
    match object.repr() {
        ObjectRepr::Plain => Ok((LEAF, None)),
        ObjectRepr::Map => {
            let pairs = object.try_iter_pairs().into_iter().flatten();
            let map = Value::from_pairs(pairs);
            let (shape, changed) = shape_of(state, &map, levels)?;
            Ok((shape, Some(changed.unwrap_or(map))))
        }
        _ => {
            let list = state.apply_filter("list", std::slice::from_ref(value))?;
            if list.downcast_object_ref::<Vec<Value>>().is_none() {
                return Ok((LEAF, None));
            }
            let (shape, changed) = shape_of(state, &list, levels)?;
            Ok((shape, Some(changed.unwrap_or(list))))
        }
    }
}

fn address<T>(object: &T) -> usize {
    std::ptr::from_ref(object) as usize
}

/// Returns the shape that is known for this address; otherwise calls `measure`.
fn remembered(
    state: &mut State,
    value: &Value,
    address: usize,
    levels: u32,
    measure: impl FnOnce(&mut State, u32) -> Result<Shaped, Error>,
) -> Result<Shaped, Error> {
    if let Some(shape) = with_rendering(|rendering| Ok(rendering.known.get(&address).copied()))? {
        if shape.depth > levels {
            return Err(refusal(format!("values are nested in more than {VALUE_DEPTH} levels")));
        }
        return Ok((shape, None));
    }
    let (shape, changed) = measure(state, levels - 1)?;
    if changed.is_none() {
        with_rendering(|rendering| {
            rendering.known.insert(address, shape);
            rendering.kept.push(value.clone());
            Ok(())
        })?;
    }
    Ok((shape, changed))
}

fn shape_of_items(
    state: &mut State,
    items: &[Value],
    levels: u32,
) -> Result<(Shape, Option<Vec<Value>>), Error> {
    state.consume_fuel(1 + items.len() as u64 / 4)?;
    let mut all = LEAF;
    let mut anew: Option<Vec<Value>> = None;
    for (i, item) in items.iter().enumerate() {
        if item.kind() == ValueKind::Invalid {
            continue;
        }
        let (shape, changed) = shape_of(state, item, levels)?;
        all.depth = all.depth.max(shape.depth + 1);
        all.items = all.items.saturating_add(shape.items);
        if let Some(changed) = changed {
            anew.get_or_insert_with(|| items.to_vec())[i] = changed;
        }
    }
    all.depth = all.depth.max(1);
    Ok((all, anew))
}
