//! The text of a schema.

use std::collections::BTreeSet;

use crate::error::SchemaError;
use crate::form::{Definition, Field, Form, Forms, Type, Variant};
use crate::header::Header;
use crate::token::{Token, tokens};

/// Forms within forms of a text, at most: `[[[…]]]`.
const DEPTH_MAX: usize = 32;

/// Reads the text of a schema, and looks up its names.
pub(crate) fn forms(text: &str) -> Result<Forms, SchemaError> {
    let tokens = tokens(text)?;
    let last = tokens.last().map_or(1, |token| token.line);
    let mut parser = Parser {
        tokens: &tokens,
        last,
        named: Vec::new(),
    };
    let mut forms = Forms::default();
    while parser.peek().is_some() {
        parser.item(&mut forms)?;
    }
    for (name, line) in parser.named {
        if !forms.definitions.contains_key(name) {
            let reason = format!("{name} is not defined; write `struct {name} {{ … }}` or `enum`");
            return Err(SchemaError { line, reason });
        }
    }
    refuse_empty(&forms, last)?;
    Ok(forms)
}

/// A list of structures without fields could be as long as it likes in no bytes at all, and a
/// structure that always holds itself never ends: both are of structures that take no byte before
/// something else does.
fn refuse_empty(forms: &Forms, line: usize) -> Result<(), SchemaError> {
    let mut sized: BTreeSet<&str> = BTreeSet::new();
    loop {
        let before = sized.len();
        for (name, definition) in &forms.definitions {
            let takes = match definition {
                Definition::Enum(variants) => !variants.is_empty(),
                Definition::Struct(fields) => fields.iter().any(|field| match &field.form {
                    Form::Named(name) => sized.contains(&**name),
                    _ => true,
                }),
            };
            if takes {
                sized.insert(name);
            }
        }
        if sized.len() == before {
            break;
        }
    }
    match forms
        .definitions
        .keys()
        .find(|name| !sized.contains(&***name))
    {
        None => Ok(()),
        Some(name) => {
            let reason = format!("{name} has no content; leave it out, or give it a field");
            Err(SchemaError { line, reason })
        }
    }
}

struct Parser<'a> {
    tokens: &'a [Token<'a>],
    /// Line of the last token.
    last: usize,
    /// Names used, with their lines.
    named: Vec<(&'a str, usize)>,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<&'a str> {
        self.tokens.first().map(|token| token.text)
    }

    fn line(&self) -> usize {
        self.tokens.first().map_or(self.last, |token| token.line)
    }

    fn fail<T>(&self, expected: &str) -> Result<T, SchemaError> {
        let found = self
            .peek()
            .map_or_else(|| "the end".to_owned(), |text| format!("`{text}`"));
        let reason = format!("{found} where {expected} should be");
        Err(SchemaError {
            line: self.line(),
            reason,
        })
    }

    fn next(&mut self, expected: &str) -> Result<&'a str, SchemaError> {
        let Some((first, rest)) = self.tokens.split_first() else {
            return self.fail(expected);
        };
        self.tokens = rest;
        Ok(first.text)
    }

    /// Passes a mark, if it is there.
    fn pass(&mut self, mark: &str) -> bool {
        let there = self.peek() == Some(mark);
        if there {
            self.tokens = &self.tokens[1..];
        }
        there
    }

    fn expect(&mut self, mark: &str) -> Result<(), SchemaError> {
        match self.pass(mark) {
            true => Ok(()),
            false => self.fail(&format!("`{mark}`")),
        }
    }

    fn name(&mut self) -> Result<&'a str, SchemaError> {
        let is_name = |text: &str| {
            let first = text.chars().next();
            first.is_some_and(|first| first.is_ascii_alphabetic() || first == '_')
        };
        match self.peek().is_some_and(is_name) {
            true => self.next("a name"),
            false => self.fail("a name"),
        }
    }

    fn number<T: std::str::FromStr>(&self, text: &str, what: &str) -> Result<T, SchemaError> {
        text.parse().map_err(|_| SchemaError {
            line: self.line(),
            reason: format!("`{text}` where {what} should be"),
        })
    }

    fn item(&mut self, forms: &mut Forms) -> Result<(), SchemaError> {
        let line = self.line();
        let again = |name: &str| SchemaError {
            line,
            reason: format!("{name} is defined already"),
        };
        match self.peek() {
            Some("type") => {
                let (header, kind) = self.message()?;
                let name = kind.name.clone();
                match forms.types.insert(header, kind) {
                    None => Ok(()),
                    Some(other) => Err(SchemaError {
                        line,
                        reason: format!(
                            "{name} has number {} v{} of {}; give it another",
                            header.kind, header.version, other.name
                        ),
                    }),
                }
            }
            Some("struct" | "enum") => {
                let (name, definition) = self.definition()?;
                let known = forms.definitions.insert(name.to_owned(), definition);
                known.map_or(Ok(()), |_| Err(again(name)))
            }
            _ => self.fail("`type`, `struct` or `enum`"),
        }
    }

    fn message(&mut self) -> Result<(Header, Type), SchemaError> {
        self.expect("type")?;
        let name = self.name()?.to_owned();
        self.expect("=")?;
        let what = "the number of the type, 0 to 4294967295,";
        let text = self.next(what)?;
        let kind = self.number(text, what)?;
        let version = match self.peek().and_then(|text| text.strip_prefix('v')) {
            None => 1,
            Some(text) => {
                let version = self.number(text, "a version, such as v2,")?;
                self.next("a version")?;
                version
            }
        };
        let fields = self.fields()?;
        Ok((Header { kind, version }, Type { name, fields }))
    }

    fn definition(&mut self) -> Result<(&'a str, Definition), SchemaError> {
        let keyword = self.next("`struct` or `enum`")?;
        let name = self.name()?;
        let definition = match keyword {
            "struct" => Definition::Struct(self.fields()?),
            _ => Definition::Enum(self.variants()?),
        };
        Ok((name, definition))
    }

    fn fields(&mut self) -> Result<Vec<Field>, SchemaError> {
        let mut fields: Vec<Field> = Vec::new();
        self.expect("{")?;
        while !self.pass("}") {
            let line = self.line();
            let name = self.name()?.to_owned();
            if fields.iter().any(|field| field.name == name) {
                let reason = format!("there are two fields {name}");
                return Err(SchemaError { line, reason });
            }
            self.expect(":")?;
            let form = self.form(0)?;
            fields.push(Field { name, form });
            if !self.pass(",") {
                self.expect("}")?;
                break;
            }
        }
        Ok(fields)
    }

    fn variants(&mut self) -> Result<Vec<Variant>, SchemaError> {
        let mut variants = Vec::new();
        self.expect("{")?;
        while !self.pass("}") {
            let name = self.name()?.to_owned();
            let content = match self.pass("(") {
                true => {
                    let form = self.form(0)?;
                    self.expect(")")?;
                    Some(form)
                }
                false => None,
            };
            variants.push(Variant { name, content });
            if !self.pass(",") {
                self.expect("}")?;
                break;
            }
        }
        Ok(variants)
    }

    fn form(&mut self, depth: usize) -> Result<Form, SchemaError> {
        if depth == DEPTH_MAX {
            return self.fail("a form less deep");
        }
        let mut form = self.simple(depth + 1)?;
        while self.pass("?") {
            form = Form::Maybe(Box::new(form));
        }
        Ok(form)
    }

    fn simple(&mut self, depth: usize) -> Result<Form, SchemaError> {
        if self.pass("[") {
            let form = self.form(depth)?;
            self.expect("]")?;
            return Ok(Form::List(Box::new(form)));
        }
        if self.pass("{") {
            let key = self.form(depth)?;
            self.expect(":")?;
            let value = self.form(depth)?;
            self.expect("}")?;
            return Ok(Form::Map(Box::new(key), Box::new(value)));
        }
        let line = self.line();
        let name = self.name()?;
        Ok(match name {
            "bool" => Form::Bool,
            "f32" => Form::F32,
            "f64" => Form::F64,
            "string" => Form::Text,
            "bytes" => Form::Bytes,
            _ => whole(name).unwrap_or_else(|| {
                self.named.push((name, line));
                Form::Named(name.to_owned())
            }),
        })
    }
}

/// Whole numbers: `u8` to `u128`, `i8` to `i128`.
fn whole(name: &str) -> Option<Form> {
    let (sign, bits) = name.split_at_checked(1)?;
    let bits = bits
        .parse()
        .ok()
        .filter(|bits| [8, 16, 32, 64, 128].contains(bits))?;
    match sign {
        "u" => Some(Form::Unsigned(bits)),
        "i" => Some(Form::Signed(bits)),
        _ => None,
    }
}
