//! Groups of the community are given with its consent.

use schema::{ErrorList, FieldPath};

use super::CustomResourceDefinition;

const APPROVED: &str = "api-approved.kubernetes.io";

/// A group of the community says where it was agreed to, or that it was not.
pub(super) fn check(
    crd: &CustomResourceDefinition,
    old: Option<&CustomResourceDefinition>,
    errs: &mut ErrorList,
) {
    let group = crd.spec().group();
    let within = |domain: &str| group == domain || group.ends_with(&format!(".{domain}"));
    if !within("k8s.io") && !within("kubernetes.io") {
        return;
    }
    let said = |crd: &CustomResourceDefinition| {
        crd.metadata().annotations().get(APPROVED).unwrap_or_default().to_owned()
    };
    let new = said(crd);
    if old.is_some_and(|old| approval(&said(old)) == approval(&new)) {
        return;
    }
    let annotations = FieldPath::METADATA.field("annotations");
    let at = annotations.key(APPROVED);
    let see = "see https://github.com/kubernetes/enhancements/pull/1111";
    match approval(&new) {
        Approval::Missing => {
            let why = format!("protected groups must have approval annotation {APPROVED:?}, {see}");
            errs.required(&at, why);
        }
        Approval::Invalid => {
            let why = format!(
                "protected groups must have approval annotation {APPROVED:?} with either a URL or \
                 a reason starting with \"unapproved\", {see}"
            );
            errs.invalid(&at, new, why);
        }
        Approval::Given | Approval::Bypassed => {}
    }
}

#[derive(PartialEq, Eq)]
enum Approval {
    Missing,
    Invalid,
    Bypassed,
    Given,
}

fn approval(annotation: &str) -> Approval {
    let url = || {
        let (scheme, rest) = annotation.split_once("://")?;
        let host = rest.split('/').next()?;
        (!scheme.is_empty() && !host.is_empty() && !annotation.contains(' ')).then_some(())
    };
    match annotation {
        "" => Approval::Missing,
        text if text.starts_with("unapproved") => Approval::Bypassed,
        _ if url().is_some() => Approval::Given,
        _ => Approval::Invalid,
    }
}
