//! Bodies, read by a schema.

use serde_json::{Map, Number, Value};

use crate::error::Cause;
use crate::form::{Definition, Field, Form, Forms, Variant};
use crate::varint;

/// Objects within objects, at most.
const DEPTH_MAX: usize = 64;

/// A body that is being read from its front.
pub(crate) struct Body<'a> {
    forms: &'a Forms,
    left: &'a [u8],
    /// Names of the fields that are being read, the outermost first.
    path: Vec<&'a str>,
}

impl<'a> Body<'a> {
    pub(crate) fn new(forms: &'a Forms, bytes: &'a [u8]) -> Self {
        Self {
            forms,
            left: bytes,
            path: Vec::new(),
        }
    }

    pub(crate) fn left(&self) -> usize {
        self.left.len()
    }

    /// Where it is, as `.levels.price`.
    pub(crate) fn path(&self) -> String {
        self.path.iter().map(|name| format!(".{name}")).collect()
    }

    /// An object of these fields. The path stays where it fails.
    pub(crate) fn fields(&mut self, fields: &'a [Field]) -> Result<Value, Cause> {
        let mut object = Map::new();
        for field in fields {
            if self.path.len() == DEPTH_MAX {
                return Err(Cause::Deep);
            }
            self.path.push(&field.name);
            object.insert(field.name.clone(), self.value(&field.form)?);
            self.path.pop();
        }
        Ok(Value::Object(object))
    }

    fn value(&mut self, form: &'a Form) -> Result<Value, Cause> {
        match form {
            Form::Bool => Ok(Value::Bool(self.flag()?)),
            Form::Unsigned(8) => Ok(Value::from(self.byte()?)),
            Form::Signed(8) => Ok(Value::from(self.byte()? as i8)),
            Form::Unsigned(bits) => Ok(unsigned(varint::take_wide(&mut self.left, *bits)?)),
            Form::Signed(bits) => Ok(signed(varint::take_wide(&mut self.left, *bits)?)),
            Form::F32 => {
                let short = f32::from_le_bytes(self.chunk()?);
                // As short as people wrote it: the digits of an f32 and no more.
                let decimal = short
                    .to_string()
                    .parse()
                    .unwrap_or_else(|_| f64::from(short));
                Ok(float(if short.is_finite() {
                    decimal
                } else {
                    short.into()
                }))
            }
            Form::F64 => Ok(float(f64::from_le_bytes(self.chunk()?))),
            Form::Text => {
                let bytes = self.counted()?;
                let text = str::from_utf8(bytes).map_err(|_| Cause::Text)?;
                Ok(Value::from(text))
            }
            Form::Bytes => {
                let hexadecimal = self.counted()?.iter().map(|byte| format!("{byte:02x}"));
                Ok(Value::from(hexadecimal.collect::<String>()))
            }
            Form::Maybe(form) => match self.flag()? {
                true => self.value(form),
                false => Ok(Value::Null),
            },
            Form::List(form) => self.list(form),
            Form::Map(key, value) => self.map(key, value),
            Form::Named(name) => self.named(name),
        }
    }

    fn list(&mut self, form: &'a Form) -> Result<Value, Cause> {
        let count = self.count()?;
        (0..count).map(|_| self.value(form)).collect()
    }

    /// An object if all keys are texts, else a list of pairs.
    fn map(&mut self, key: &'a Form, value: &'a Form) -> Result<Value, Cause> {
        let count = self.count()?;
        let mut pairs = Vec::new();
        for _ in 0..count {
            pairs.push([self.value(key)?, self.value(value)?]);
        }
        if *key != Form::Text {
            return Ok(pairs
                .into_iter()
                .map(|pair| Value::from(pair.to_vec()))
                .collect());
        }
        let named = |[key, value]: [Value; 2]| (key.as_str().unwrap_or_default().to_owned(), value);
        Ok(Value::Object(pairs.into_iter().map(named).collect()))
    }

    fn named(&mut self, name: &str) -> Result<Value, Cause> {
        match self.forms.definitions.get(name) {
            Some(Definition::Struct(fields)) => self.fields(fields),
            Some(Definition::Enum(variants)) => self.variant(variants),
            // Names were looked up when the schema was read.
            None => Err(Cause::Other(format!("{name} is not defined"))),
        }
    }

    fn variant(&mut self, variants: &'a [Variant]) -> Result<Value, Cause> {
        let found = varint::take(&mut self.left, 32)?;
        let place = usize::try_from(found).ok();
        let variant = place.and_then(|place| variants.get(place));
        let variant = variant.ok_or(Cause::Variant { found })?;
        let Some(form) = &variant.content else {
            return Ok(Value::from(&*variant.name));
        };
        if self.path.len() == DEPTH_MAX {
            return Err(Cause::Deep);
        }
        self.path.push(&variant.name);
        let content = self.value(form)?;
        self.path.pop();
        Ok(Value::Object(
            [(variant.name.clone(), content)].into_iter().collect(),
        ))
    }

    /// Number of items that follow. Each has a byte at least, which the schema sees to, so no more
    /// than there are bytes.
    fn count(&mut self) -> Result<usize, Cause> {
        let count = varint::take(&mut self.left, 64)?;
        let count = usize::try_from(count).map_err(|_| Cause::Short)?;
        match count <= self.left.len() {
            true => Ok(count),
            false => Err(Cause::Short),
        }
    }

    fn counted(&mut self) -> Result<&'a [u8], Cause> {
        let length = self.count()?;
        let (bytes, rest) = self.left.split_at(length);
        self.left = rest;
        Ok(bytes)
    }

    fn chunk<const BYTES: usize>(&mut self) -> Result<[u8; BYTES], Cause> {
        let (chunk, rest) = self.left.split_first_chunk().ok_or(Cause::Short)?;
        self.left = rest;
        Ok(*chunk)
    }

    fn byte(&mut self) -> Result<u8, Cause> {
        self.chunk::<1>().map(|[byte]| byte)
    }

    fn flag(&mut self) -> Result<bool, Cause> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            found => Err(Cause::Flag { found }),
        }
    }
}

fn unsigned(number: u128) -> Value {
    match u64::try_from(number) {
        Ok(number) => Value::from(number),
        Err(_) => Value::from(number.to_string()),
    }
}

/// Of a number in zigzag: 0, -1, 1, -2, …
fn signed(zigzag: u128) -> Value {
    let number = (zigzag >> 1) as i128 ^ -((zigzag & 1) as i128);
    match i64::try_from(number) {
        Ok(number) => Value::from(number),
        Err(_) => Value::from(number.to_string()),
    }
}

fn float(number: f64) -> Value {
    match Number::from_f64(number) {
        Some(number) => Value::Number(number),
        None => Value::from(number.to_string()),
    }
}
