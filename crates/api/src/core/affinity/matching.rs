//! Whether a node is one that is asked for.

use super::{NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm};
use crate::core::{Node, PodSpec};

impl PodSpec {
    /// Whether the node selector and the required node affinity let the pod run there.
    pub fn fits_node(&self, node: &Node) -> bool {
        let labels = node.metadata().labels();
        let selected =
            self.node_selector().iter().all(|(name, value)| labels.get(name) == Some(value));
        let affinity = self.affinity().and_then(|affinity| affinity.node_affinity());
        selected && affinity.is_none_or(|affinity| affinity.requires(node))
    }
}

impl NodeAffinity {
    /// Whether the node fulfils what is required.
    pub fn requires(&self, node: &Node) -> bool {
        self.required_during_scheduling_ignored_during_execution()
            .is_none_or(|selector| selector.matches(node))
    }

    /// The sum of the weights of the preferences that the node fulfils.
    pub fn preference(&self, node: &Node) -> i64 {
        self.preferred_during_scheduling_ignored_during_execution()
            .iter()
            .filter(|term| term.weight() != 0 && term.preference().matches(node))
            .map(|term| i64::from(term.weight()))
            .sum()
    }
}

impl NodeSelector {
    /// Whether any of the terms matches.
    pub fn matches(&self, node: &Node) -> bool {
        self.node_selector_terms().iter().any(|term| term.matches(node))
    }
}

impl NodeSelectorTerm {
    /// Whether all demands hold. A term without demands matches nothing.
    pub fn matches(&self, node: &Node) -> bool {
        let (labels, fields) = (self.match_expressions(), self.match_fields());
        let meta = node.metadata();
        let field = |key: &str| (key == "metadata.name").then(|| meta.name());
        !(labels.is_empty() && fields.is_empty())
            && labels.iter().all(|demand| demand.holds(meta.labels().get(demand.key())))
            && fields.iter().all(|demand| demand.holds(field(demand.key())))
    }
}

impl NodeSelectorRequirement {
    fn holds(&self, label: Option<&str>) -> bool {
        let listed = |label: &str| self.values().iter().any(|value| value == label);
        let number = |text: &str| text.parse::<i64>().ok();
        let bound = self.values().iter().next().and_then(number);
        let both = label.and_then(number).zip(bound);
        match self.operator() {
            "In" => label.is_some_and(listed),
            "NotIn" => !label.is_some_and(listed),
            "Exists" => label.is_some(),
            "DoesNotExist" => label.is_none(),
            "Gt" => both.is_some_and(|(label, bound)| label > bound),
            "Lt" => both.is_some_and(|(label, bound)| label < bound),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use object::ObjectMeta;

    use super::*;

    fn node() -> Node {
        let meta = ObjectMeta::new().with_name("n1").with_labels([("zone", "a"), ("cpus", "8")]);
        Node::new().with_metadata(meta)
    }

    fn demand(key: &str, operator: &str, values: &[&str]) -> NodeSelectorRequirement {
        NodeSelectorRequirement::new()
            .with_key(key)
            .with_operator(operator)
            .with_values(values.iter().copied().collect::<object::List<_>>())
    }

    #[test]
    fn each_operator_says_what_it_means() {
        let cases: [(&str, &str, &[&str], bool); 9] = [
            ("zone", "In", &["a", "b"], true),
            ("zone", "In", &["b"], false),
            ("zone", "NotIn", &["b"], true),
            ("other", "NotIn", &["b"], true),
            ("zone", "Exists", &[], true),
            ("other", "DoesNotExist", &[], true),
            ("cpus", "Gt", &["4"], true),
            ("cpus", "Lt", &["8"], false),
            ("zone", "Gt", &["1"], false),
        ];
        for (key, operator, values, holds) in cases {
            let term =
                NodeSelectorTerm::new().with_match_expressions([demand(key, operator, values)]);
            assert_eq!(term.matches(&node()), holds, "{key} {operator} {values:?}");
        }
    }

    #[test]
    fn a_term_without_demands_matches_nothing() {
        assert!(!NodeSelectorTerm::new().matches(&node()));
        let by_name =
            NodeSelectorTerm::new().with_match_fields([demand("metadata.name", "In", &["n1"])]);
        assert!(by_name.matches(&node()));
    }
}
