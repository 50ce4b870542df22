//! A preprocessor of mdBook: gives the pages links that lead somewhere in the book.
//!
//! Documents of the root, such as ARCHITECTURE.md, are pages of the book by `{{#include}}`, and
//! pages link to source files. `book.toml` calls this program, which writes such links anew, and
//! refuses to go on where one leads nowhere.

#![forbid(unsafe_code)]

use std::error::Error;
use std::io;
use std::process::ExitCode;

use serde_json::Value;
use tidy::{Book, Repository};

fn main() -> ExitCode {
    // mdBook asks first whether the output format is supported: all are.
    if std::env::args()
        .nth(1)
        .is_some_and(|word| word == "supports")
    {
        return ExitCode::SUCCESS;
    }
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let input: Value = serde_json::from_reader(io::stdin().lock())?;
    let Value::Array(parts) = input else {
        return Err("mdBook sends a list of its context and the book".into());
    };
    let mut content = parts.into_iter().nth(1).ok_or("mdBook sends no book")?;
    let repository = Repository::open()?;
    let mut faults = Vec::new();
    relink(&Book::new(&repository), &mut content, &mut faults);
    if !faults.is_empty() {
        return Err(faults.join("\n").into());
    }
    serde_json::to_writer(io::stdout().lock(), &content)?;
    Ok(())
}

/// Chapters are objects with a text and the path of its source; they lie within each other.
fn relink(book: &Book<'_>, value: &mut Value, faults: &mut Vec<String>) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| relink(book, item, faults)),
        Value::Object(fields) => {
            let page = fields.get("source_path").and_then(Value::as_str);
            let page = page.map(str::to_owned);
            if let (Some(page), Some(Value::String(text))) = (page, fields.get_mut("content")) {
                match book.relink(&page, text) {
                    Ok(linked) => *text = linked,
                    Err(found) => faults.extend(found),
                }
            }
            let items = fields.values_mut();
            items.for_each(|item| relink(book, item, faults));
        }
        _ => {}
    }
}
