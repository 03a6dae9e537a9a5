//! Suggestions for a command that does not exist.

/// Maximum number of letters that a suggested command may differ by.
const DISTANCE: usize = 2;

/// The commands in the order of upstream's groups, which is the order of suggestions.
const COMMANDS: &[&str] = &[
    "create",
    "expose",
    "run",
    "set",
    "explain",
    "get",
    "edit",
    "delete",
    "rollout",
    "scale",
    "autoscale",
    "certificate",
    "cluster-info",
    "top",
    "cordon",
    "uncordon",
    "drain",
    "taint",
    "describe",
    "logs",
    "attach",
    "exec",
    "port-forward",
    "proxy",
    "cp",
    "auth",
    "debug",
    "events",
    "diff",
    "apply",
    "patch",
    "replace",
    "wait",
    "kustomize",
    "label",
    "annotate",
    "completion",
    "alpha",
    "config",
    "plugin",
    "version",
    "api-versions",
    "api-resources",
    "options",
    "kuberc",
];

/// The paragraph behind the error about an unknown command; empty if none is similar.
pub(super) fn text(word: &str) -> String {
    let lower = word.to_lowercase();
    let similar = |command: &&&str| {
        distance(&lower, command) <= DISTANCE || command.starts_with(lower.as_str())
    };
    let found: String = COMMANDS.iter().filter(similar).map(|name| format!("\t{name}\n")).collect();
    if found.is_empty() { found } else { format!("\n\nDid you mean this?\n{found}") }
}

/// The Levenshtein distance of two words.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.chars().count()).collect();
    for (at, x) in a.chars().enumerate() {
        let mut left = at + 1;
        let mut next = vec![left];
        for ((y, up), corner) in b.chars().zip(row.iter().skip(1)).zip(&row) {
            left = (corner + usize::from(x != y)).min(up + 1).min(left + 1);
            next.push(left);
        }
        row = next;
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similar_commands_are_suggested_in_the_order_of_upstream() {
        for (word, commands) in [
            ("ge", "set get cp"),
            ("gett", "set get"),
            ("desc", "describe"),
            ("Applyy", "apply"),
            ("nosuchcommand", ""),
        ] {
            let found = text(word);
            let found: Vec<&str> = found.lines().filter_map(|l| l.strip_prefix('\t')).collect();
            assert_eq!(found.join(" "), commands, "{word}");
        }
        assert_eq!(text("gett"), "\n\nDid you mean this?\n\tset\n\tget\n");
    }

    #[test]
    fn every_suggestion_is_a_command() {
        for name in COMMANDS {
            assert!(
                crate::commands::COMMANDS.iter().any(|command| command.name == *name),
                "{name}"
            );
        }
    }
}
