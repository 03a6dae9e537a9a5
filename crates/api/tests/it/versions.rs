//! What the versions of a kind have in common.

#[test]
fn every_version_is_selected_by_the_same_fields() {
    let kinds = api::builtin_resources();
    for kind in &kinds {
        let is_same = |other: &&schema::ResourceDefinition| {
            (other.names.group, other.names.plural) == (kind.names.group, kind.names.plural)
        };
        for other in kinds.iter().filter(is_same) {
            let [own, others] = [kind, other].map(|kind| {
                let mut fields = kind.strategy.selectable_fields();
                fields.sort_unstable();
                fields
            });
            let (group, plural) = (kind.names.group, kind.names.plural);
            assert_eq!(own, others, "{plural}.{group}");
        }
    }
}
