//! A page that puts the results beside those of Informatica's paper (E45 to E48).

use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use qsm_console::failure::Failure;
use qsm_console::figures::duration;
use serde_json::{Value, json};

/// File of the results.
const RESULTS: &str = "host.json";
/// The page.
const PAGE: &str = "README.md";

/// Writes results and page into a folder, which is made if need be.
///
/// # Errors
/// They cannot be written.
pub(super) fn write(folder: &Path, found: &Value) -> Result<(), Failure> {
    let mut found = found.clone();
    found["machine"] = machine();
    let failed = |path: &Path| {
        let doing = format!("write {}", path.display());
        move |error| Failure::io(doing, &error)
    };
    fs::create_dir_all(folder).map_err(failed(folder))?;
    let results = folder.join(RESULTS);
    fs::write(&results, format!("{found:#}\n")).map_err(failed(&results))?;
    let page = folder.join(PAGE);
    fs::write(&page, text(&found)).map_err(failed(&page))
}

/// Circumstances that the figures depend on.
fn machine() -> Value {
    let word = |path: &str, place: usize| {
        let text = fs::read_to_string(path).unwrap_or_default();
        text.split_whitespace().nth(place).map(str::to_owned)
    };
    let kernel = word("/proc/sys/kernel/osrelease", 0).unwrap_or_default();
    json!({
        "cpus": thread::available_parallelism().map_or(0, usize::from),
        // Its version, without what its builder adds.
        "kernel": kernel.split('-').next(),
        // Over the last quarter of an hour.
        "load_average": word("/proc/loadavg", 2),
        "optimised": !cfg!(debug_assertions),
    })
}

/// The page of these results.
fn text(found: &Value) -> String {
    let machine = &found["machine"];
    let plain = |value: &Value| match value.as_str() {
        Some(text) => text.to_owned(),
        None => value.to_string(),
    };
    format!(
        "# Latency of a host, beside the paper\n\n\
         <!-- Written by `make figures-host` out of host.json -->\n\n\
         `make figures-host` runs [`qsm latency host`](../operate/latency.md) on the machine that it is called on, and \
         puts the results beside figures 4 to 7 of Informatica's *Topics in High-Performance Messaging* (S3).\n\n\
         | | | S3: mean | 1 in 1000 above | most | here: mean | 1 in 1000 above | most |\n\
         |---|---|---|---|---|---|---|---|\n{}\n\
         {}\
         **Here**: {} CPUs, Linux {}, load average {} from other programs and this one, {}{} for each \
         measurement, something due each {}.\n\n\
         **The paper**: two SPARC machines with Solaris 2.8 and four CPUs, five sources with 10 messages/s of \
         2000 bytes, 10 receivers, 20 minutes. Its latencies are those of messages from one machine to the other, with \
         the network and two clocks in them, which ran apart by about 7 ms. Those here are of one machine and one \
         clock: how late a thread runs that is due, and how late a packet is read over loopback. So the columns may \
         be compared in their proportions, and not one by one. A `-` is not in the paper.\n\n\
         `host.json` has all of it, with more percentiles.\n",
        rows(found),
        proportion(found),
        plain(&machine["cpus"]),
        plain(&machine["kernel"]),
        plain(&machine["load_average"]),
        match machine["optimised"].as_bool() {
            Some(false) => "a program built without optimisation, ",
            _ => "",
        },
        duration(Duration::from_secs_f64(
            found["seconds"].as_f64().unwrap_or_default()
        )),
        duration(Duration::from_micros(
            found["every_us"].as_u64().unwrap_or_default()
        )),
    )
}

/// Latencies of a scheduling class.
fn class<'a>(found: &'a Value, name: &str) -> &'a Value {
    let mut classes = found["scheduling"].as_array().into_iter().flatten();
    let class = classes.find(|class| class["class"] == name);
    class.map_or(&Value::Null, |class| &class["latencies"])
}

fn rows(found: &Value) -> String {
    let row = |number: &str, what: &str, paper: [&str; 3], here: &Value| {
        let own = ["mean_seconds", "p99.9_seconds", "max_seconds"].map(|key| time(&here[key]));
        format!(
            "| {number} | {what} | {} | {} | {} | {} | {} | {} |\n",
            paper[0], paper[1], paper[2], own[0], own[1], own[2]
        )
    };
    let class = |name| class(found, name);
    let mut rows = row(
        "E45",
        "normal class",
        ["1.8 ms", "5.6 ms", "86 ms"],
        class("normal"),
    );
    rows += &row("E46", "`nice`", ["-", "-", "no less"], class("nice -20"));
    rows += &row(
        "E47",
        "real-time class",
        ["-", "-", "5.2 ms"],
        class("real-time"),
    );
    let receivers = found["contention"].as_array().into_iter().flatten();
    for (place, one) in receivers.enumerate() {
        let paper = match place {
            0 => ["-"; 3],
            _ => ["1.5 ms more", "-", "-"],
        };
        let what = format!("read by {} on one host", receivers_of(one));
        rows += &row("E48", &what, paper, &one["latencies"]);
    }
    rows
}

/// The gain of the real-time class, where it was measured.
fn proportion(found: &Value) -> String {
    let most = |name| class(found, name)["max_seconds"].as_f64();
    match (most("normal"), most("real-time")) {
        (Some(normal), Some(real_time)) if real_time > 0.0 => format!(
            "The most in normal class is {:.1} times that in real-time class; in S3 it is 16.5 times.\n\n",
            normal / real_time
        ),
        _ => String::new(),
    }
}

fn receivers_of(one: &Value) -> String {
    match one["receivers"].as_u64().unwrap_or_default() {
        1 => "one receiver".to_owned(),
        many => format!("{many} receivers"),
    }
}

fn time(seconds: &Value) -> String {
    let time = seconds.as_f64().map(Duration::from_secs_f64);
    time.map_or_else(|| "refused".to_owned(), duration)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In the repository; a package of this crate alone has no page.
    const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/figures-host");

    #[test]
    fn the_page_has_the_figures_of_the_results() {
        let read = |name| fs::read_to_string(Path::new(FOLDER).join(name)).unwrap();
        let found: Value = serde_json::from_str(&read(RESULTS)).unwrap();
        assert!(read(PAGE) == text(&found), "run `make figures-host` again");
    }

    #[test]
    fn what_was_refused_is_said_so() {
        let found = json!({
            "seconds": 1.0, "every_us": 1000,
            "scheduling": [{ "class": "normal", "latencies": { "mean_seconds": 0.001, "max_seconds": 0.5 } },
                           { "class": "real-time", "refused": "no right" }],
            "contention": [{ "receivers": 1, "latencies": { "mean_seconds": 0.002 } }],
            "machine": { "cpus": 2, "kernel": "6", "load_average": "0.1" },
        });
        let page = text(&found);
        assert!(
            page.contains(
                "| E45 | normal class | 1.8 ms | 5.6 ms | 86 ms | 1.0 ms | refused | 500.0 ms |"
            ),
            "{page}"
        );
        assert!(
            page.contains("| 5.2 ms | refused | refused | refused |"),
            "{page}"
        );
        assert!(
            !page.contains("16.5") && page.contains("2 CPUs, Linux 6,"),
            "{page}"
        );
    }
}
