//! Chromium without a window, driven by its DevTools protocol over pipes: messages of JSON, each with a
//! zero byte at its end, at descriptors 3 and 4.

#![allow(dead_code, reason = "each test file uses its own part")]

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// More than a slow machine needs.
const PATIENCE: Duration = Duration::from_secs(90);
/// Time between two looks at the page.
const LOOK: Duration = Duration::from_millis(100);

/// Names that the program has.
const PROGRAMS: [&str; 2] = ["chromium", "chromium-browser"];

static BROWSERS: AtomicU32 = AtomicU32::new(0);

/// A browser with one page, which ends with the test.
pub(crate) struct Chromium {
    process: Child,
    send: ChildStdin,
    messages: Receiver<Value>,
    session: Option<String>,
    asked: u64,
    /// Errors of scripts and the policy that the page has told.
    pub(crate) errors: Vec<String>,
    folder: PathBuf,
}

impl Drop for Chromium {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
        drop(fs::remove_dir_all(&self.folder));
    }
}

impl Chromium {
    /// A page of this width and height; `None`: there is no such browser here.
    pub(crate) fn open(width: u32, height: u32) -> Option<Self> {
        let there = |program: &&str| {
            let mut asked = Command::new(program);
            asked.arg("--version").stdout(Stdio::null());
            asked.status().is_ok_and(|status| status.success())
        };
        let program = PROGRAMS.into_iter().find(there)?;
        let number = BROWSERS.fetch_add(1, Ordering::Relaxed);
        let folder = format!("qsm-browser-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(folder);
        let mut process = Command::new("sh")
            .args([
                "-c",
                "exec \"$0\" \"$@\" 3<&0 4>&1 0</dev/null 1>/dev/null",
                program,
            ])
            .args([
                "--headless=new",
                "--no-sandbox",
                "--disable-gpu",
                "--hide-scrollbars",
            ])
            .args([
                "--remote-debugging-pipe",
                "--disable-dev-shm-usage",
                "--no-first-run",
            ])
            .arg(format!("--user-data-dir={}", folder.display()))
            .arg(format!("--window-size={width},{height}"))
            .arg("about:blank")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let send = process.stdin.take().unwrap();
        let pipe = process.stdout.take().unwrap();
        let mut browser = Self {
            process,
            send,
            messages: read(pipe),
            session: None,
            asked: 0,
            errors: Vec::new(),
            folder,
        };
        let targets = browser.call("Target.getTargets", json!({}));
        let targets = targets["targetInfos"].as_array().unwrap().iter();
        let page = targets.clone().find(|it| it["type"] == "page").unwrap();
        let attach = json!({ "targetId": page["targetId"], "flatten": true });
        let attached = browser.call("Target.attachToTarget", attach);
        browser.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Runtime", "Log", "Page", "Performance"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        let size =
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        browser.call("Emulation.setDeviceMetricsOverride", size);
        Some(browser)
    }

    /// Calls a method of the protocol.
    #[track_caller]
    pub(crate) fn call(&mut self, method: &str, params: Value) -> Value {
        self.asked += 1;
        let mut question = json!({ "id": self.asked, "method": method, "params": params });
        if let Some(session) = &self.session {
            question["sessionId"] = session.as_str().into();
        }
        let mut bytes = question.to_string().into_bytes();
        bytes.push(0);
        self.send.write_all(&bytes).unwrap();
        loop {
            let message = self.messages.recv_timeout(PATIENCE);
            let message = message.unwrap_or_else(|_| panic!("{method}: no answer"));
            if message["id"] == self.asked {
                assert!(message.get("error").is_none(), "{method}: {message}");
                return message["result"].clone();
            }
            let told = message["method"].as_str().unwrap_or_default();
            let error = told == "Runtime.exceptionThrown"
                || (told == "Log.entryAdded" && message["params"]["entry"]["level"] == "error");
            if error {
                self.errors.push(message["params"].to_string());
            }
        }
    }

    pub(crate) fn go(&mut self, address: &str) {
        self.call("Page.navigate", json!({ "url": address }));
    }

    /// The value of an expression in the page.
    #[track_caller]
    pub(crate) fn value(&mut self, expression: &str) -> Value {
        let ask = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let answer = self.call("Runtime.evaluate", ask);
        assert!(
            answer.get("exceptionDetails").is_none(),
            "{expression}: {answer}"
        );
        answer["result"]["value"].clone()
    }

    /// The text of the element that a selector finds first.
    #[track_caller]
    pub(crate) fn text(&mut self, selector: &str) -> String {
        let element = json!(selector);
        let text = self.value(&format!(
            "document.querySelector({element})?.textContent ?? ''"
        ));
        text.as_str().unwrap_or_default().to_owned()
    }

    /// Waits until an expression is true.
    #[track_caller]
    pub(crate) fn wait(&mut self, expression: &str) {
        let until = Instant::now() + PATIENCE;
        while self.value(&format!("Boolean({expression})")) != true {
            if Instant::now() > until {
                let page = self.value("document.body.innerText");
                panic!("{expression} is not so, errors {:?}: {page}", self.errors);
            }
            thread::sleep(LOOK);
        }
    }

    /// Presses a key and lets it go.
    pub(crate) fn press(&mut self, key: &str) {
        let code = match key {
            "Enter" => 13,
            "Escape" => 27,
            "ArrowDown" => 40,
            "ArrowRight" => 39,
            _ => 0,
        };
        let mut event = json!({ "type": "keyDown", "key": key, "windowsVirtualKeyCode": code });
        if key.len() == 1 {
            event["text"] = key.into();
        }
        self.call("Input.dispatchKeyEvent", event);
        self.call(
            "Input.dispatchKeyEvent",
            json!({ "type": "keyUp", "key": key }),
        );
    }

    /// A number among the browser's own measurements.
    pub(crate) fn metric(&mut self, name: &str) -> f64 {
        let metrics = self.call("Performance.getMetrics", json!({}));
        let metrics = metrics["metrics"].as_array().unwrap().iter();
        let found = metrics.clone().find(|metric| metric["name"] == name);
        found.and_then(|metric| metric["value"].as_f64()).unwrap()
    }

    /// Light or dark, as the user's system says.
    pub(crate) fn prefer(&mut self, scheme: &str) {
        let feature = json!({ "name": "prefers-color-scheme", "value": scheme });
        self.call(
            "Emulation.setEmulatedMedia",
            json!({ "features": [feature] }),
        );
    }
}

/// Messages, as they come.
fn read(pipe: impl std::io::Read + Send + 'static) -> Receiver<Value> {
    let (send, messages) = channel();
    thread::spawn(move || {
        let mut pipe = BufReader::new(pipe);
        loop {
            let mut bytes = Vec::new();
            let length = pipe.read_until(0, &mut bytes).unwrap_or(0);
            if length == 0 {
                return;
            }
            bytes.pop();
            let message = serde_json::from_slice(&bytes);
            if message.is_ok_and(|message| send.send(message).is_err()) {
                return;
            }
        }
    });
    messages
}
