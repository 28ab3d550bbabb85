//! Containers: methods of Python's dicts and lists that chat templates call.

use minijinja::value::{from_args, Tuple};
use minijinja::{Error, ErrorKind, State, Value};

pub fn of_map(value: &Value, method: &str, args: &[Value]) -> Result<Value, Error> {
    let Some(map) = value.as_object() else { return Err(Error::from(ErrorKind::UnknownMethod)) };
    if let "get" = method {
        let (key, default): (&Value, Option<Value>) = from_args(args)?;
        return Ok(map.get_value(key).or(default).unwrap_or_else(|| Value::from(())));
    }
    let pairs = || map.try_iter_pairs().into_iter().flatten();
    let result = match method {
        "keys" => pairs().map(|(key, _)| key).collect(),
        "values" => pairs().map(|(_, value)| value).collect(),
        "items" => pairs().map(|(key, value)| Value::from(Tuple::from([key, value]))).collect(),
        "copy" => value.clone(),
        _ => return Err(Error::from(ErrorKind::UnknownMethod)),
    };
    let () = from_args(args)?;
    Ok(result)
}

pub fn of_list(state: &State, value: &Value, method: &str, args: &[Value]) -> Result<Value, Error> {
    if method == "copy" && !value.is_tuple() {
        let () = from_args(args)?;
        return Ok(value.clone());
    }
    if !matches!(method, "count" | "index") {
        return Err(Error::from(ErrorKind::UnknownMethod));
    }
    let (what,): (&Value,) = from_args(args)?;
    let mut count = 0;
    for (i, item) in value.try_iter()?.checked().enumerate() {
        state.consume_fuel(1)?;
        if item? == *what {
            count += 1;
            if method == "index" {
                return Ok(Value::from(i));
            }
        }
    }
    match method {
        "index" => Err(Error::new(ErrorKind::InvalidOperation, "the value is not in the list")),
        _ => Ok(Value::from(count)),
    }
}
