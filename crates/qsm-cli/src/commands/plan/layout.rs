//! Layouts on the command line.

use qsm_plan::layouts::Layout;

/// Nodes and groups of a layout, at most.
const MOST: u32 = 1_000_000;

/// Reads a layout: its name, a colon, and its numbers.
///
/// # Errors
/// It is no layout, or its numbers are wrong.
pub(super) fn parse(text: &str) -> Result<Layout, String> {
    let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
    let shape = match kind {
        "private-groups" => "private-groups:NODES",
        "random-extras" => "random-extras:NODES,EXTRAS",
        "zipf" => "zipf:NODES,GROUPS,EACH",
        "hierarchical" => "hierarchical:NODES,GROUPS",
        "planted" => "planted:NODES,GROUPS,extras=EXTRAS",
        "singles" => "singles:NODES,GROUPS",
        _ => {
            return Err(format!(
                "there is no layout {kind}; choose among private-groups, random-extras, zipf, \
                 hierarchical, planted and singles"
            ));
        }
    };
    let number = |text: &str| -> Option<u32> {
        let text = text.strip_prefix("extras=").unwrap_or(text);
        text.parse().ok().filter(|number| *number <= MOST)
    };
    let numbers: Option<Vec<u32>> = rest.split(',').map(number).collect();
    let layout = match (kind, numbers.as_deref()) {
        ("private-groups", Some(&[nodes])) => Layout::PrivateGroups { nodes },
        ("random-extras", Some(&[nodes, extras])) => Layout::RandomExtras { nodes, extras },
        ("zipf", Some(&[nodes, groups, each])) => Layout::Zipf {
            nodes,
            groups,
            each,
        },
        ("hierarchical", Some(&[nodes, groups])) => Layout::Hierarchical { nodes, groups },
        ("planted", Some(&[nodes, groups, extras])) => Layout::Planted {
            nodes,
            groups,
            extras,
        },
        ("planted", Some(&[nodes, groups])) => Layout::Planted {
            nodes,
            groups,
            extras: 0,
        },
        ("singles", Some(&[nodes, groups])) => Layout::Singles { nodes, groups },
        _ => {
            return Err(format!(
                "write {shape}, with whole numbers of at most {MOST}"
            ));
        }
    };
    if layout.nodes() == 0 {
        return Err("a layout needs a node".to_owned());
    }
    Ok(layout)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_are_read_and_nonsense_is_explained() {
        let planted = Layout::Planted {
            nodes: 100,
            groups: 200,
            extras: 5,
        };
        assert_eq!(parse("planted:100,200,extras=5"), Ok(planted));
        assert_eq!(
            parse("private-groups:40"),
            Ok(Layout::PrivateGroups { nodes: 40 })
        );
        for (wrong, says) in [
            ("rings:4", "there is no layout rings"),
            ("zipf:4", "write zipf:NODES,GROUPS,EACH"),
            ("private-groups:0", "needs a node"),
            ("singles:4,99999999", "at most"),
            ("planted:a,b", "whole numbers"),
        ] {
            let error = parse(wrong).unwrap_err();
            assert!(error.contains(says), "{wrong}: {error}");
        }
    }
}
