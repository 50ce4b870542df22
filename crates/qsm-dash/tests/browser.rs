//! The pages in Chromium, of a cluster and objects that are made up. Where there is no Chromium, tests are passed over;
//! `make dash-check` installs it. With `QSM_DASH_PICTURES=FOLDER` pictures are left there.

#[path = "support/chromium.rs"]
mod chromium;
mod support;

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, SystemTime};

use chromium::Chromium;
use qsm_dash::{
    Change, Content, Dash, Line, OBJECT_ROWS_MAX, ObjectKind, ObjectPage, VALUE_BYTES_MAX,
};
use serde_json::json;
use support::{HOSTILE, Made, TOKEN, serve, show};

/// Lines of a table that exist, seen or spare.
const LINES_MAX: u64 = 40;
/// Time that the page's thread may compute for a change, of the second between two.
const COMPUTED_MAX: f64 = 0.1;

/// A browser that sees everything.
fn open(dash: &Dash) -> Option<Chromium> {
    let Some(mut browser) = Chromium::open(1440, 1000) else {
        lab::pass_over("there is no Chromium; `make dash-check` installs it");
        return None;
    };
    browser.go(&format!("http://{}/#token={TOKEN}", dash.address()));
    browser.wait("document.querySelector('.state')?.textContent === 'live'");
    Some(browser)
}

fn picture(browser: &mut Chromium, name: &str) {
    let Ok(folder) = std::env::var("QSM_DASH_PICTURES") else {
        return;
    };
    let shot = browser.call("Page.captureScreenshot", json!({ "format": "png" }));
    let path = Path::new(&folder).join(format!("{name}.base64"));
    fs::write(path, shot["data"].as_str().unwrap()).unwrap();
}

#[test]
fn what_is_wrong_is_on_top_and_a_click_explains_it() {
    let dash = serve(Made::new(60, 20));
    let Some(mut browser) = open(&dash) else {
        return;
    };
    browser.wait("document.querySelectorAll('#picture .node').length === 60");
    browser.wait("document.querySelector('#problems .problem.bad')");
    let problem = browser.text("#problems .problem");
    assert!(
        problem.contains("node node-007") && problem.contains("away: silent"),
        "{problem}"
    );
    // The one that is away is the first line of the table, and red in the picture.
    browser.wait("document.querySelector('#panel-nodes .grid-line.bad')");
    let first = browser.text("#panel-nodes .grid-line");
    assert!(first.starts_with("node-007away: silent"), "{first}");
    browser.wait("document.querySelectorAll('#picture .node.bad').length === 1");
    browser.value("document.querySelector('#problems .problem').click()");
    browser.wait("document.querySelector('#panel .answer h3')");
    assert_eq!(browser.text("#panel .answer h3"), "this is node-007");
    assert_eq!(browser.text("#panel h2 bdi"), "node-007");
    // The node that sends is joined with the channel of its region.
    browser.wait("document.querySelectorAll('#picture .send').length === 1");
    // So it is in a picture of another width, as when the panel opens.
    browser.value("document.querySelector('#picture .send').id = 'before'");
    browser.value("document.querySelector('#picture').parentElement.style.width = '500px'");
    browser.wait("document.querySelectorAll('#picture .send:not(#before)').length === 1");
    assert_eq!(browser.errors, [""; 0]);
}

#[test]
fn everything_is_reached_by_keys() {
    let dash = serve(Made::new(60, 20));
    let Some(mut browser) = open(&dash) else {
        return;
    };
    browser.wait("document.querySelectorAll('#picture .node').length === 60");
    browser.press("2");
    browser.wait("document.activeElement.getAttribute('aria-label') === 'Groups'");
    browser.press("ArrowDown");
    browser.press("ArrowDown");
    browser.press("Enter");
    browser.wait("!document.querySelector('#panel').hidden");
    assert_eq!(browser.text("#panel .kind"), "group");
    browser.press("Escape");
    browser.wait("document.querySelector('#panel').hidden");
    // The focus is back where it was.
    browser.wait("document.activeElement.getAttribute('aria-label') === 'Groups'");
    browser.press("/");
    browser.wait("document.activeElement.id === 'filter'");
    browser.call("Input.insertText", json!({ "text": "prices/000019" }));
    let seen =
        "[...document.querySelectorAll('#panel-groups .grid-line')].filter(it => !it.hidden)";
    browser.wait(&format!("{seen}.length === 1"));
    browser.value("document.activeElement.blur()");
    browser.press("t");
    browser.wait("document.activeElement.classList.contains('node')");
    let first = browser.value("document.activeElement.getAttribute('aria-label')");
    browser.press("ArrowRight");
    let next = browser.value("document.activeElement.getAttribute('aria-label')");
    assert_ne!(first, next);
    browser.press("Enter");
    browser.wait("!document.querySelector('#panel').hidden");
    let name = browser.text("#panel h2 bdi");
    assert_eq!(next, format!("{name}, live"));
    assert_eq!(browser.errors, [""; 0]);
}

#[test]
fn hostile_names_are_text() {
    let dash = serve(Made::new(5, HOSTILE.len()));
    let Some(mut browser) = open(&dash) else {
        return;
    };
    browser.press("2");
    let lines = "[...document.querySelectorAll('#panel-groups .grid-line')]";
    browser.wait(&format!("{lines}.length === {}", HOSTILE.len()));
    for name in HOSTILE {
        let name = json!(name);
        let line = format!("{lines}.find(it => it.firstChild.textContent === {name})");
        browser.wait(&line);
        browser.value(&format!("{line}.click()"));
        browser.wait(&format!(
            "document.querySelector('#panel h2 bdi').textContent === {name}"
        ));
        let told = format!("'this is ' + {name}");
        browser.wait(&format!(
            "document.querySelector('#panel .answer h3')?.textContent === {told}"
        ));
    }
    assert_eq!(
        browser
            .value("document.images.length + document.querySelectorAll('b b, [onerror]').length"),
        0
    );
    assert_eq!(browser.value("document.scripts.length"), 2);
    assert_eq!(browser.value("document.title"), "Quicksilver");
    assert_eq!(browser.errors, [""; 0]);
    // Even a page that had a mistake could not make HTML or scripts out of text.
    for mistake in [
        "document.body.innerHTML = '<b>a</b>'",
        "document.body.setAttribute('onclick', 'document.title = 1')",
        "document.body.append(Object.assign(document.createElement('script'), { text: 'document.title = 1' }))",
    ] {
        let refused = format!(
            "(() => {{ try {{ {mistake}; return 'made' }} catch (e) {{ return e.name }} }})()"
        );
        assert_eq!(browser.value(&refused), "TypeError", "{mistake}");
    }
    assert_eq!(browser.value("document.title"), "Quicksilver");
}

#[test]
fn who_has_no_token_is_asked_for_it() {
    let dash = serve(Made::new(5, 2));
    let Some(mut browser) = open(&dash) else {
        return;
    };
    browser.value("sessionStorage.clear()");
    browser.go(&format!("http://{}/?again", dash.address()));
    browser.wait("document.querySelectorAll('#picture .node').length === 5");
    browser.wait("document.querySelectorAll('.locked:not([hidden])').length === 2");
    browser.value("document.querySelector('#picture .node').dispatchEvent(new MouseEvent('click', { bubbles: true }))");
    browser.wait("document.querySelector('#panel form')");
    let give = |token: &str| {
        format!(
            "document.querySelector('#panel input').value = '{token}';
             document.querySelector('#panel form').requestSubmit()"
        )
    };
    browser.value(&give("0123456789abcdeX"));
    browser.wait(
        "document.querySelector('#panel form') && !document.querySelector('#panel input').value",
    );
    browser.value(&give(TOKEN));
    browser.wait("document.querySelector('#panel .answer h3')");
    browser.wait("document.querySelectorAll('.locked:not([hidden])').length === 0");
}

#[test]
fn a_server_that_ends_is_said_to_be_lost() {
    let dash = serve(Made::new(5, 2));
    let Some(mut browser) = open(&dash) else {
        return;
    };
    drop(dash);
    browser.wait(
        "document.querySelector('.state.bad')?.textContent.startsWith('no connection to qsm dash')",
    );
}

#[test]
fn two_hundred_nodes_and_many_groups_stay_smooth() {
    let dash = serve(Made::new(200, 20_000));
    let Some(mut browser) = open(&dash) else {
        return;
    };
    // Times of the page's thread, whatever else this machine does.
    browser.call("Performance.disable", json!({}));
    browser.call("Performance.enable", json!({ "timeDomain": "threadTicks" }));
    browser.wait("document.querySelectorAll('#picture .node').length === 200");
    browser.wait("document.querySelector('#problems .problem.bad')");
    browser.value(
        "window.told = 0; window.long = []; window.frames_ms = [];
         new MutationObserver(() => (window.told += 1)).observe(document.querySelector('.value b'), { childList: true });
         new PerformanceObserver((list) => list.getEntries().forEach((it) => window.long.push(it.duration)))
           .observe({ type: 'longtask' }); 0",
    );
    let before = browser.metric("TaskDuration");
    browser.wait("window.told >= 5");
    let computed = browser.metric("TaskDuration") - before;
    let changes = browser.value("window.told").as_f64().unwrap();
    browser.value(
        "let before = performance.now();
         const frame = (now) => { window.frames_ms.push(now - before); before = now; requestAnimationFrame(frame); };
         requestAnimationFrame(frame); 0",
    );
    browser.wait("window.told >= 10");
    let told = browser.value(
        "(() => { const sorted = window.frames_ms.sort((a, b) => a - b); const at = (part) => sorted[Math.floor(part * (sorted.length - 1))].toFixed(1);
         return `${sorted.length} frames, median ${at(0.5)} ms, 99 % ${at(0.99)} ms, longest ${at(1)} ms; long tasks: ${window.long.map(Math.round).join(' ') || 'none'}` })()",
    );
    let each = computed / changes;
    println!(
        "{changes} changes, {:.1} ms computed for each; {}",
        1000.0 * each,
        told.as_str().unwrap()
    );
    assert!(each < COMPUTED_MAX, "{computed} s for {changes} changes");
    // Of a long table only what is seen exists.
    browser.press("2");
    browser.wait("document.querySelector('#panel-groups .grid-line')");
    assert_eq!(browser.text("#tab-groups .number-of"), "20,000");
    let lines = browser.value("document.querySelectorAll('#panel-groups .grid-line').length");
    assert!(
        lines.as_u64().is_some_and(|lines| lines <= LINES_MAX),
        "{lines}"
    );
    browser.value("document.querySelector('#panel-groups .grid-body').scrollTop = 1e9");
    browser.wait("document.querySelector('#panel-groups').textContent.includes('prices/019999')");
    browser.press("1");
    picture(&mut browser, "light");
    browser.prefer("dark");
    browser.value("document.querySelector('#problems .problem').click()");
    browser.wait("document.querySelector('#panel .answer h3')");
    thread::sleep(Duration::from_millis(500));
    picture(&mut browser, "dark");
    assert_eq!(browser.errors, [""; 0]);
}

/// A browser that shows an object.
fn open_object(page: &ObjectPage) -> Option<Chromium> {
    let Some(mut browser) = Chromium::open(1280, 900) else {
        lab::pass_over("there is no Chromium; `make dash-check` installs it");
        return None;
    };
    browser.go(&format!("http://{}/#token={TOKEN}", page.address()));
    browser.wait("document.querySelector('.state')?.textContent === 'live'");
    Some(browser)
}

/// Lines that are seen.
const LINES: &str = "[...document.querySelectorAll('.grid-line:not([hidden])')]";

fn set(page: &ObjectPage, key: &str, value: &str) {
    page.take(Change::Set {
        key: key.to_owned(),
        written: SystemTime::now(),
        value: Content::of(value.as_bytes()),
    });
}

fn push(page: &ObjectPage, number: u64, text: &str) {
    page.take(Change::Line(Line {
        time: SystemTime::now(),
        sender: Some("ab.2".to_owned()),
        number: Some(number),
        content: Content::of(text.as_bytes()),
    }));
}

#[test]
fn entries_of_a_map_are_lines_that_change_and_open() {
    let page = show(ObjectKind::Map);
    for name in HOSTILE {
        set(&page, name, name);
    }
    set(&page, "eur", &"1".repeat(2 * VALUE_BYTES_MAX));
    let Some(mut browser) = open_object(&page) else {
        return;
    };
    browser.wait(&format!("{LINES}.length === {}", HOSTILE.len() + 1));
    let line = |key: &str| {
        let key = json!(key);
        format!("{LINES}.find(it => it.firstChild.textContent === {key})")
    };
    for name in HOSTILE {
        browser.value(&format!("{}.click()", line(name)));
        let name = json!(name);
        browser.wait(&format!(
            "document.querySelector('#panel h2 bdi').textContent === {name} && \
             document.querySelector('#panel pre').textContent === {name}"
        ));
    }
    browser.value(&format!("{}.click()", line("eur")));
    browser.wait("document.querySelector('#panel pre').textContent.length === 65536");
    assert!(
        browser
            .text("#note")
            .contains("Of a long value the first 64 KiB")
    );
    set(&page, "eur", "2");
    browser.wait(&format!("{}.classList.contains('fresh')", line("eur")));
    browser.wait("document.querySelector('#panel pre').textContent === '2'");
    browser.wait(&format!("!{}.classList.contains('fresh')", line("eur")));
    picture(&mut browser, "map");
    page.take(Change::Removed {
        key: "eur".to_owned(),
    });
    browser.wait("document.querySelector('#panel').textContent.includes('It is gone.')");
    browser.press("Escape");
    browser.wait("document.querySelector('#panel').hidden");
    browser.press("/");
    browser.call("Input.insertText", json!({ "text": "JAVASCRIPT:" }));
    browser.wait(&format!("{LINES}.length === 1"));
    browser.wait("document.querySelector('#counts').textContent === '1 of 4 entries'");
    assert_eq!(browser.value("document.images.length"), 0);
    assert_eq!(browser.value("document.scripts.length"), 1);
    assert_eq!(browser.text("h1"), HOSTILE[0]);
    page.say(false, "binds anew: messages are lost");
    browser.wait("document.querySelector('.state.bad')?.textContent.startsWith('binds anew')");
    assert_eq!(browser.errors, [""; 0]);
    drop(page);
    browser.wait("document.querySelector('.state.bad')?.textContent.startsWith('no connection')");
}

#[test]
fn a_list_follows_its_end_and_a_text_is_seen_as_it_is_written() {
    let page = show(ObjectKind::Messages);
    let Some(mut browser) = open_object(&page) else {
        return;
    };
    let many = OBJECT_ROWS_MAX as u64 + 5;
    (1..=many).for_each(|number| push(&page, number, &format!("message {number}")));
    let last =
        |number: u64| format!("{LINES}.some(it => it.textContent.includes('message {number}'))");
    browser.wait(&last(many));
    browser
        .wait("document.querySelector('#note').textContent.startsWith('5 older lines left out')");
    let lines = browser.value(&format!("{LINES}.length"));
    assert!(
        lines.as_u64().is_some_and(|lines| lines <= LINES_MAX),
        "{lines}"
    );
    picture(&mut browser, "messages");
    browser.value("document.querySelector('.grid-body').scrollTop = 0");
    browser.wait(&last(6));
    push(&page, many + 1, "more");
    browser
        .wait("document.querySelector('#note').textContent.startsWith('6 older lines left out')");
    assert_eq!(
        browser.value("document.querySelector('.grid-body').scrollTop"),
        0
    );
    browser.value("document.querySelector('.grid-body').scrollTop = 1e9");
    browser.wait(&format!(
        "{LINES}.some(it => it.textContent.includes('more'))"
    ));
    push(&page, many + 2, "end");
    browser.wait(&format!(
        "{LINES}.some(it => it.textContent.includes('end'))"
    ));
    assert_eq!(browser.errors, [""; 0]);

    let page = show(ObjectKind::Text);
    page.take(Change::Text("<b>one</b> 𝄞".to_owned()));
    browser.go(&format!("http://{}/#token={TOKEN}", page.address()));
    browser.wait("document.querySelector('.writing')?.textContent === '<b>one</b> 𝄞'");
    page.take(Change::Text("<b>one</b> 𝄢 two".to_owned()));
    browser.wait("document.querySelector('.writing')?.textContent === '<b>one</b> 𝄢 two'");
    browser.wait("document.querySelector('.writing mark')?.textContent === '𝄢 two'");
    browser.prefer("dark");
    picture(&mut browser, "text");
    browser.wait("!document.querySelector('.writing mark')");
    assert_eq!(browser.value("document.querySelectorAll('b').length"), 0);
    assert_eq!(browser.errors, [""; 0]);
}

#[test]
fn an_object_is_shown_once_the_token_is_given() {
    let page = show(ObjectKind::Map);
    set(&page, "eur", "1");
    let Some(mut browser) = open_object(&page) else {
        return;
    };
    browser.value("sessionStorage.clear()");
    browser.go(&format!("http://{}/?again", page.address()));
    browser.wait("document.querySelector('#locked form')");
    assert_eq!(
        browser.value("document.querySelector('#object').hidden"),
        true
    );
    let give = |token: &str| {
        format!(
            "document.querySelector('#locked input').value = '{token}';
             document.querySelector('#locked form').requestSubmit()"
        )
    };
    browser.value(&give("0123456789abcdeX"));
    browser.wait("document.querySelector('.state').textContent === 'the token was refused'");
    browser.value(&give(TOKEN));
    browser.wait(&format!("{LINES}.length === 1"));
    assert_eq!(
        browser.value("document.querySelector('#locked').hidden"),
        true
    );
}
