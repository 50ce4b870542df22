//! Options that every command of a node repeats, out of variables of the environment and a configuration file.
//!
//! ```text
//!   option of the command line  ──►  variable QSM_…  ──►  file  ──►  default
//! ```
//!
//! Variable and file become defaults of clap, so that an option overrides them and nothing conflicts
//! with them.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::{env, fmt, fs};

use clap::{Arg, ArgAction, Args, Command};
use qsm_console::failure::Failure;
use qsm_console::options::NodeOptions;
use toml::{Spanned, Value};

/// Commands whose options take settings.
const COMMANDS: [&str; 12] = [
    "pub", "sub", "open", "keep", "engine", "gms", "nodes", "groups", "regions", "top", "dash",
    "capture",
];

/// Options that can be set: the keys of the file, and with `QSM_` and in capitals the variables.
const KEYS: [&str; 31] = [
    "certificate",
    "cipher",
    "clone-copies",
    "cluster",
    "cores",
    "crl",
    "data-port",
    "data-range",
    "discovery",
    "gone-after",
    "hints",
    "identity",
    "interface",
    "ipv6",
    "key",
    "latency-budget",
    "multicast",
    "name",
    "no-embedded-gms",
    "payload-checksums",
    "plan-common",
    "plan-every",
    "plan-unwanted",
    "private-key",
    "receive-buffer",
    "retention",
    "root",
    "service",
    "slow-after",
    "token",
    "trust",
];

/// Those that may be given again: lists in the file, and with commas in variables.
const LISTS: [&str; 2] = ["interface", "service"];

/// Values by key.
#[derive(Debug, Default)]
pub(crate) struct Settings {
    /// The file that was read, if there is one.
    pub(crate) file: Option<PathBuf>,
    set: BTreeMap<&'static str, Setting>,
}

/// A value, and where it is from.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Setting {
    /// Several of an option that may be given again.
    values: Vec<String>,
    source: Source,
}

/// The place of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Source {
    Variable(String),
    File { path: PathBuf, line: usize },
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Variable(name) => write!(f, "variable {name}"),
            Self::File { path, line } => write!(f, "{}, line {line}", path.display()),
        }
    }
}

impl Settings {
    /// Of the environment and the file that holds.
    ///
    /// # Errors
    /// The file cannot be read, or a value cannot be understood.
    pub(crate) fn load() -> Result<Self, Failure> {
        Self::of(|name| env::var_os(name))
    }

    /// Settings for a command line that begins with this word: none if its command takes none.
    ///
    /// # Errors
    /// As [`Settings::load`].
    pub(crate) fn for_command(word: Option<&String>) -> Result<Self, Failure> {
        match word.is_some_and(|word| COMMANDS.contains(&word.as_str())) {
            true => Self::load(),
            false => Ok(Self::default()),
        }
    }

    fn of(variable: impl Fn(&str) -> Option<OsString>) -> Result<Self, Failure> {
        let file = file(&variable)?;
        let mut set = match &file {
            Some((path, text)) => read(path, text)?,
            None => BTreeMap::new(),
        };
        for key in KEYS {
            let name = variable_of(key);
            if let Some(text) = variable(&name).filter(|text| !text.is_empty()) {
                let text = text.to_string_lossy().into_owned();
                let several =
                    |text: &str| text.split(',').map(|one| one.trim().to_owned()).collect();
                let values = match LISTS.contains(&key) {
                    true => several(&text),
                    false => vec![text],
                };
                let source = Source::Variable(name);
                set.insert(key, Setting { values, source });
            }
        }
        let settings = Self {
            file: file.map(|(path, _)| path),
            set,
        };
        settings.check()?;
        Ok(settings)
    }

    /// Tries each on a command line of its own, and then all together.
    fn check(&self) -> Result<(), Failure> {
        let mut all = Vec::new();
        for (key, setting) in &self.set {
            let words = words(key, setting)?;
            if let Err(error) = nodes_command().try_get_matches_from(&words) {
                let cause = format!(
                    "{}: {key} = {:?} is not understood: {}",
                    setting.source,
                    setting.values.join(","),
                    reason(&error)
                );
                return Err(Failure::usage(cause, REMEDY));
            }
            all.extend(words);
        }
        let together = nodes_command().try_get_matches_from(&all);
        together.map(drop).map_err(|error| {
            let cause = format!("settings do not go together: {}", reason(&error));
            Failure::usage(cause, REMEDY)
        })
    }

    /// Makes them the defaults of the commands that take them.
    pub(crate) fn apply(&self, command: Command) -> Command {
        if self.set.is_empty() {
            return command;
        }
        command.mut_subcommands(|below| match COMMANDS.contains(&below.get_name()) {
            true => below.mut_args(|arg| self.apply_to(arg)),
            false => below,
        })
    }

    fn apply_to(&self, arg: Arg) -> Arg {
        let of_node = arg.get_help_heading().is_some();
        let key = arg.get_long().filter(|_| of_node);
        match key.and_then(|key| self.set.get(key)) {
            Some(setting) => {
                // Once for each process: clap keeps only what lives as long.
                let values = setting.values.iter().cloned().map(String::leak);
                arg.default_values(values.map(|value| &*value))
            }
            None => arg,
        }
    }

    /// Each key with the value that holds, and where it is from.
    pub(crate) fn rows(&self) -> Vec<Row> {
        let command = nodes_command();
        let row = |key: &&'static str| {
            let arg = command
                .get_arguments()
                .find(|arg| arg.get_long() == Some(key));
            let usual = arg.map(Arg::get_default_values).unwrap_or_default();
            let usual: Vec<_> = usual.iter().map(|value| value.to_string_lossy()).collect();
            let set = self.set.get(key);
            Row {
                key,
                value: set.map_or_else(|| usual.join(","), |set| set.values.join(",")),
                source: set.map_or_else(|| "default".to_owned(), |set| set.source.to_string()),
            }
        };
        KEYS.iter().map(row).collect()
    }
}

/// The value of a key that holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    /// The key.
    pub(crate) key: &'static str,
    /// Empty where the program decides.
    pub(crate) value: String,
    /// Variable, file and line, or default.
    pub(crate) source: String,
}

const REMEDY: &str = "correct it or take it out; `qsm help config` says where settings are from";

/// A command with the options of nodes and nothing else.
fn nodes_command() -> Command {
    NodeOptions::augment_args(Command::new("settings").no_binary_name(true))
}

/// The variable of a key.
fn variable_of(key: &str) -> String {
    format!("QSM_{}", key.to_ascii_uppercase().replace('-', "_"))
}

/// The words of a command line that say the same. Flags say nothing if they are off.
fn words(key: &str, setting: &Setting) -> Result<Vec<String>, Failure> {
    let command = nodes_command();
    let arg = command
        .get_arguments()
        .find(|arg| arg.get_long() == Some(key));
    let flag = arg.is_some_and(|arg| matches!(arg.get_action(), ArgAction::SetTrue));
    let word = |value: &String| format!("--{key}={value}");
    match (flag, setting.values.first().map(String::as_str)) {
        (false, _) => Ok(setting.values.iter().map(word).collect()),
        (true, Some("true")) => Ok(vec![format!("--{key}")]),
        (true, Some("false")) => Ok(Vec::new()),
        (true, other) => {
            let cause = format!(
                "{}: {key} = {:?} is neither true nor false",
                setting.source,
                other.unwrap_or_default()
            );
            Err(Failure::usage(cause, REMEDY))
        }
    }
}

/// The cause of an error of clap, without its advice.
fn reason(error: &clap::Error) -> String {
    let text = error.to_string();
    let text = text.split("\n\nFor more").next().unwrap_or_default();
    let text = text.split("\n\nUsage").next().unwrap_or_default();
    text.trim_start_matches("error: ").to_owned()
}

/// The file and its text: the one that `QSM_CONFIG` names, which must be there, or the first of the
/// usual ones.
fn file(
    variable: &impl Fn(&str) -> Option<OsString>,
) -> Result<Option<(PathBuf, String)>, Failure> {
    let unreadable = |path: &Path, error| {
        let doing = format!("read the configuration {}", path.display());
        Failure::io(doing, &error)
    };
    if let Some(named) = variable("QSM_CONFIG") {
        let path = PathBuf::from(named);
        if path.as_os_str().is_empty() {
            return Ok(None);
        }
        let text = fs::read_to_string(&path).map_err(|error| unreadable(&path, error))?;
        return Ok(Some((path, text)));
    }
    let home = variable("HOME").map(|home| PathBuf::from(home).join(".config"));
    let own = variable("XDG_CONFIG_HOME").filter(|path| !path.is_empty());
    let own = own.map(PathBuf::from).or(home);
    let own = own.map(|folder| folder.join("qsm/config.toml"));
    for path in own
        .into_iter()
        .chain([PathBuf::from("/etc/qsm/config.toml")])
    {
        match fs::read_to_string(&path) {
            Ok(text) => return Ok(Some((path, text))),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(unreadable(&path, error)),
        }
    }
    Ok(None)
}

type Table = BTreeMap<Spanned<String>, Spanned<Value>>;

/// Settings of a file.
fn read(path: &Path, text: &str) -> Result<BTreeMap<&'static str, Setting>, Failure> {
    let line = |at: usize| text[..at.min(text.len())].matches('\n').count() + 1;
    let wrong = |at: usize, cause: &str| {
        let cause = format!("{}, line {}: {cause}", path.display(), line(at));
        Failure::usage(cause, REMEDY)
    };
    let table: Table = toml::from_str(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        wrong(at, error.message())
    })?;
    let mut set = BTreeMap::new();
    for (name, value) in table {
        let at = name.span().start;
        let Some(key) = KEYS.into_iter().find(|key| *key == name.get_ref()) else {
            let keys = KEYS.join(", ");
            let cause = format!("there is no setting {:?}, but {keys}", name.get_ref());
            return Err(wrong(at, &cause));
        };
        let values = match value.into_inner() {
            Value::Array(values) if LISTS.contains(&key) => values.iter().map(scalar).collect(),
            value => scalar(&value).map(|value| vec![value]),
        };
        let values: Vec<String> = values.ok_or_else(|| {
            let cause = format!("the value of {key} is neither a text, a number, true nor false");
            wrong(at, &cause)
        })?;
        let path = path.to_owned();
        let source = Source::File {
            path,
            line: line(at),
        };
        set.insert(key, Setting { values, source });
    }
    Ok(set)
}

/// A value as an option takes it.
fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Integer(number) => Some(number.to_string()),
        Value::Float(number) => Some(number.to_string()),
        Value::Boolean(value) => Some(value.to_string()),
        Value::Datetime(_) | Value::Array(_) | Value::Table(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;
    use qsm_console::failure::Code;

    use super::*;
    use crate::Cli;

    /// Settings of these variables, and of a file with this text.
    fn settings(test: &str, text: &str, variables: &[(&str, &str)]) -> Result<Settings, Failure> {
        let name = format!("qsm-settings-{test}-{}.toml", std::process::id());
        let path = env::temp_dir().join(name);
        fs::write(&path, text).unwrap();
        let of = |name: &str| match name {
            "QSM_CONFIG" => Some(path.clone().into_os_string()),
            _ => {
                let found = variables.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| OsString::from(*value))
            }
        };
        let settings = Settings::of(of);
        fs::remove_file(path).unwrap();
        settings
    }

    fn row(settings: &Settings, key: &str) -> Row {
        let rows = settings.rows();
        rows.into_iter().find(|row| row.key == key).unwrap()
    }

    #[test]
    fn every_key_is_an_option_of_nodes() {
        let command = nodes_command();
        let longs: Vec<_> = command.get_arguments().filter_map(Arg::get_long).collect();
        assert!(KEYS.iter().all(|key| longs.contains(key)), "{longs:?}");
        assert!(KEYS.is_sorted());
        let cli = Cli::command();
        for name in COMMANDS {
            assert!(cli.find_subcommand(name).is_some(), "{name}");
        }
    }

    #[test]
    fn an_option_goes_before_a_variable_and_that_before_the_file() {
        let text = "cluster = 'blue'\ndata-port = 9\n\nservice = '10.0.0.1:5'\nipv6 = false\n";
        let variables = [("QSM_CLUSTER", "red"), ("QSM_NAME", "")];
        let settings = settings("order", text, &variables).unwrap();
        assert_eq!(row(&settings, "cluster").source, "variable QSM_CLUSTER");
        let service = row(&settings, "service");
        assert!(service.source.ends_with(", line 4"), "{service:?}");
        assert_eq!(row(&settings, "name").source, "default");
        let value = |line: &str, id: &str| {
            let command = settings.apply(Cli::command());
            let found = command.get_matches_from(line.split(' '));
            let (_, found) = found.subcommand().unwrap();
            let mut raw = found.get_raw(id).unwrap();
            raw.next().unwrap().to_string_lossy().into_owned()
        };
        for line in ["qsm sub a", "qsm nodes", "qsm top", "qsm dash"] {
            assert_eq!(value(line, "cluster"), "red", "{line}");
        }
        assert_eq!(value("qsm sub a --cluster green", "cluster"), "green");
        assert_eq!(value("qsm pub a", "data_port"), "9");
        assert_eq!(value("qsm nodes", "service"), "10.0.0.1:5");
        // What is set does not conflict with what is asked for.
        assert_eq!(value("qsm sub a --attach p", "attach"), "p");
    }

    #[test]
    fn the_help_says_where_settings_are_and_the_table_what_can_be_set() {
        let mut command = crate::definition();
        let config = command.find_subcommand_mut("config").unwrap();
        let help = config.render_long_help().to_string();
        for part in ["QSM_CONFIG", "/etc/qsm/config.toml", "QSM_DATA_PORT"] {
            assert!(help.contains(part), "{part}: {help}");
        }
        let rows = Settings::default().rows();
        assert!(rows.iter().map(|row| row.key).eq(KEYS));
    }

    #[test]
    fn networks_and_services_are_lists() {
        let set = settings("list", "interface = ['lo', 'eth1']\n", &[]).unwrap();
        assert_eq!(row(&set, "interface").value, "lo,eth1");
        let set = settings("names", "", &[("QSM_INTERFACE", "a, b")]).unwrap();
        assert_eq!(set.set["interface"].values, ["a", "b"]);
        let text = "service = ['a:1', '_qsm._udp.example.org']\n";
        let set = settings("services", text, &[]).unwrap();
        assert_eq!(row(&set, "service").value, "a:1,_qsm._udp.example.org");
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place() {
        for (text, place, part) in [
            (
                "\nclustr = 'a'\n",
                "line 2",
                "no setting \"clustr\", but certificate, cipher, clone-copies, cluster,",
            ),
            ("cluster = 'a'\ncluster = 'b'\n", "line 2", "duplicate key"),
            ("cluster = \n", "line 1", "toml"),
            (
                "# x\nservice = 'nowhere'\n",
                "line 2",
                "not an address or a host",
            ),
            ("ipv6 = 3\n", "line 1", "neither true nor false"),
            ("multicast = 'both'\n", "line 1", "ssm"),
            ("cores = {}\n", "line 1", "neither a text"),
            (
                "data-range = '239.1.0.0/16'\nmulticast = 'ssm'\n",
                "settings",
                "do not go together",
            ),
        ] {
            let failure = settings("wrong", text, &[]).unwrap_err();
            assert_eq!(failure.code, Code::Usage, "{failure}");
            assert!(failure.cause.contains(place), "{failure}");
            assert!(part == "toml" || failure.cause.contains(part), "{failure}");
        }
        let failure = settings("variable", "", &[("QSM_DATA_PORT", "x")]).unwrap_err();
        assert!(
            failure.cause.starts_with("variable QSM_DATA_PORT: "),
            "{failure}"
        );
    }

    #[test]
    fn a_file_that_is_named_must_be_there() {
        let none = |name: &str| (name == "QSM_CONFIG").then(|| OsString::from("/no/such/file"));
        let failure = Settings::of(none).unwrap_err();
        assert!(failure.cause.contains("/no/such/file"), "{failure}");
        let empty = |name: &str| (name == "QSM_CONFIG").then(OsString::new);
        assert_eq!(Settings::of(empty).unwrap().file, None);
    }
}
