//! Files of pages. There is no other file, and no build step.

/// A file of the page.
#[derive(Debug)]
pub(crate) struct Asset {
    pub(crate) path: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) text: &'static str,
}

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const PICTURE: &str = "image/svg+xml";
const STYLE: &str = "text/css; charset=utf-8";

const fn asset(path: &'static str, kind: &'static str, text: &'static str) -> Asset {
    Asset { path, kind, text }
}

/// Files of all pages.
pub(crate) const SHARED: [Asset; 6] = [
    asset("/icon.svg", PICTURE, include_str!("../page/icon.svg")),
    asset("/style.css", STYLE, include_str!("../page/style.css")),
    asset("/stream.js", SCRIPT, include_str!("../page/stream.js")),
    asset("/table.js", SCRIPT, include_str!("../page/table.js")),
    asset("/token.js", SCRIPT, include_str!("../page/token.js")),
    asset("/words.js", SCRIPT, include_str!("../page/words.js")),
];

/// Files of the page of a cluster. `uplot.js` and `uplot.css` are a library of others (`third-party/`).
pub(crate) const CLUSTER: [Asset; 9] = [
    asset("/", HTML, include_str!("../page/cluster/index.html")),
    asset("/main.js", SCRIPT, include_str!("../page/cluster/main.js")),
    asset(
        "/model.js",
        SCRIPT,
        include_str!("../page/cluster/model.js"),
    ),
    asset(
        "/topology.js",
        SCRIPT,
        include_str!("../page/cluster/topology.js"),
    ),
    asset(
        "/charts.js",
        SCRIPT,
        include_str!("../page/cluster/charts.js"),
    ),
    asset(
        "/panel.js",
        SCRIPT,
        include_str!("../page/cluster/panel.js"),
    ),
    asset(
        "/uplot.js",
        SCRIPT,
        include_str!("../third-party/uplot/uPlot.iife.min.js"),
    ),
    asset(
        "/uplot-licence.txt",
        "text/plain; charset=utf-8",
        include_str!("../third-party/uplot/LICENSE"),
    ),
    asset(
        "/uplot.css",
        STYLE,
        include_str!("../third-party/uplot/uPlot.min.css"),
    ),
];

/// Files of the page of an object.
pub(crate) const OBJECT: [Asset; 5] = [
    asset("/", HTML, include_str!("../page/object/index.html")),
    asset("/main.js", SCRIPT, include_str!("../page/object/main.js")),
    asset("/rows.js", SCRIPT, include_str!("../page/object/rows.js")),
    asset("/value.js", SCRIPT, include_str!("../page/object/value.js")),
    asset(
        "/object.css",
        STYLE,
        include_str!("../page/object/object.css"),
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    /// Ways to make elements or code out of text.
    const UNSAFE: [&str; 10] = [
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "createContextualFragment",
        "setHTML",
        "DOMParser",
        "srcdoc",
        "eval(",
        "new Function",
    ];

    fn all() -> impl Iterator<Item = &'static Asset> {
        SHARED.iter().chain(&CLUSTER).chain(&OBJECT)
    }

    #[test]
    fn no_script_makes_elements_or_code_out_of_text() {
        for asset in all().filter(|asset| asset.kind == SCRIPT) {
            for word in UNSAFE {
                assert!(!asset.text.contains(word), "{}: {word}", asset.path);
            }
        }
    }

    #[test]
    fn pages_have_no_script_or_style_within_and_name_no_other_host() {
        for page in all().filter(|asset| asset.kind == HTML) {
            for part in page.text.split("<script").skip(1) {
                assert!(part.contains("src=\"/"), "{part}");
                assert!(part.contains("></script>"), "{part}");
            }
            for word in [
                "<style",
                " style=",
                " onclick",
                " onload",
                "javascript:",
                "//",
            ] {
                assert!(!page.text.contains(word), "{word}");
            }
        }
        let own = all().filter(|asset| !asset.path.contains("uplot"));
        for asset in own {
            let text = asset.text.replace("http://www.w3.org/2000/svg", "");
            assert!(
                !text.contains("http:") && !text.contains("https:"),
                "{}",
                asset.path
            );
        }
    }
}
