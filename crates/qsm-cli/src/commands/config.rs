//! `qsm config`: what is set, and where.

use clap::Args;
use qsm_console::examples;
use qsm_console::failure::Failure;
use qsm_console::output;
use qsm_console::table::{Align, Table};
use serde_json::{Map, Value, json};

use crate::settings::{Row, Settings};

/// Arguments of `qsm config`.
#[derive(Debug, Clone, Args)]
#[command(before_help = examples!(
    "qsm config                                    what holds here, and where it is from"
    "QSM_INTERFACE=eth1 qsm config                 variables go before the file"
    "QSM_CONFIG=lab.toml qsm config --json"
))]
pub(crate) struct ConfigArgs {
    /// Write JSON: one object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Runs the command.
///
/// # Errors
/// The configuration cannot be understood, or the output not be written.
pub(crate) fn run(args: &ConfigArgs) -> Result<(), Failure> {
    let settings = Settings::load()?;
    let text = match args.json {
        true => format!("{}\n", json(&settings)),
        false => text(&settings),
    };
    output::write(text)
}

fn text(settings: &Settings) -> String {
    let mut table = Table::new(&[
        ("SETTING", Align::Left),
        ("VALUE", Align::Left),
        ("FROM", Align::Left),
    ]);
    for Row { key, value, source } in settings.rows() {
        let value = if value.is_empty() { "-" } else { &value };
        table.row([key, value, &source]);
    }
    let file = match &settings.file {
        Some(path) => format!("file: {}\n", path.display()),
        None => "file: none\n".to_owned(),
    };
    file + &table.render()
}

fn json(settings: &Settings) -> Value {
    let rows = settings
        .rows()
        .into_iter()
        .map(|Row { key, value, source }| {
            let value = Some(value).filter(|value| !value.is_empty());
            (key.to_owned(), json!({ "value": value, "from": source }))
        });
    json!({ "file": settings.file, "settings": rows.collect::<Map<_, _>>() })
}
