//! IP families of a Service: defaulting and validation of `ipFamilyPolicy`, `ipFamilies` and
//! `clusterIPs`.

use api::core::{Service, ServiceSpec};
use object::{List, Value};
use schema::{ErrorList, FieldPath};

const SPEC: FieldPath = FieldPath::Root.field("spec");

/// Sets the defaults, and returns what is invalid. `families` are the cluster's one or two IP
/// families, the default one first.
pub(super) fn default_families(
    service: &mut Service,
    old: Option<&Service>,
    families: &[&str],
) -> ErrorList {
    let mut errs = ErrorList::default();
    if !service.spec().needs_cluster_ip() || old.is_some_and(|old| keeps_families(service, old)) {
        return errs;
    }
    let before = old.map(Service::spec).filter(|spec| spec.needs_cluster_ip());
    default_policy(service, before);
    service.check_addresses(old, &mut errs);
    if !errs.is_empty() {
        return errs;
    }
    check_policy(service.spec_mut(), before, &mut errs);
    infer(service.spec_mut(), families, &mut errs);
    if !errs.is_empty() {
        return errs;
    }
    let spec = service.spec_mut();
    let everywhere = spec.cluster_ip() == "None" && spec.selector().is_empty();
    if !everywhere {
        check_families(spec, families, &mut errs);
    }
    if !errs.is_empty() {
        return errs;
    }
    if spec.ip_families().is_empty() {
        spec.set_ip_families(families.iter().take(1).copied().collect::<List<String>>());
    }
    let both = everywhere || families.len() == 2;
    if both && spec.ip_families().len() == 1 && spec.ip_family_policy() != Some("SingleStack") {
        let first = spec.ip_families().iter().next().unwrap_or_default().to_owned();
        let other = if first == "IPv4" { "IPv6" } else { "IPv4" };
        spec.set_ip_families([first.as_str(), other]);
    }
    errs
}

/// The addresses that must be allocated: the index in `clusterIPs`, and the family.
pub(super) fn missing_ips(service: &Service, old: Option<&Service>) -> Vec<(usize, String)> {
    let spec = service.spec();
    let before = old.map(Service::spec).filter(|spec| spec.needs_cluster_ip());
    let given = match before {
        _ if !spec.needs_cluster_ip() || is_headless(spec) => return Vec::new(),
        None => 0,
        Some(before)
            if is_headless(before) || old.is_some_and(|old| keeps_families(service, old)) =>
        {
            return Vec::new();
        }
        // The secondary address may be released and allocated again; the primary one stays.
        Some(before) if before.ip_families().len() == 1 => 1,
        Some(_) => 2,
    };
    let families = spec.ip_families().iter().map(str::to_owned);
    families.enumerate().skip(given).collect()
}

/// Whether an update leaves a PreferDualStack Service as it is. It then keeps its families,
/// whatever the cluster supports now.
fn keeps_families(service: &Service, old: &Service) -> bool {
    let (spec, before) = (service.spec(), old.spec());
    let prefers = |policy: Option<&str>| policy.is_some_and(|own| own == "PreferDualStack");
    spec.type_() == before.type_()
        && prefers(spec.ip_family_policy())
        && (before.ip_family_policy().is_none() || prefers(before.ip_family_policy()))
        && spec.cluster_ips() == before.cluster_ips()
        && spec.ip_families() == before.ip_families()
}

fn is_headless(spec: &ServiceSpec) -> bool {
    spec.cluster_ips().iter().next() == Some("None")
}

/// Sets the default policy: that of the old Service, or SingleStack.
fn default_policy(service: &mut Service, before: Option<&ServiceSpec>) {
    let spec = service.spec_mut();
    if spec.ip_family_policy().is_some() {
        return;
    }
    let everywhere = spec.cluster_ip() == "None" && spec.selector().is_empty();
    let policy = match before.and_then(ServiceSpec::ip_family_policy) {
        Some(policy) => policy.to_owned(),
        None if everywhere => "RequireDualStack".to_owned(),
        None => "SingleStack".to_owned(),
    };
    spec.set_ip_family_policy(policy);
}

/// Checks that a SingleStack Service has one address and family, and that a dual-stack Service does
/// not lose its secondary ones.
fn check_policy(spec: &mut ServiceSpec, before: Option<&ServiceSpec>, errs: &mut ErrorList) {
    let at = SPEC.field("ipFamilyPolicy");
    let policy = spec.ip_family_policy().unwrap_or_default().to_owned();
    if policy == "SingleStack" {
        if let Some(before) = before {
            if spec.cluster_ips() == before.cluster_ips() && spec.cluster_ips().len() > 1 {
                spec.set_cluster_ips(first(spec.cluster_ips()));
            }
            if spec.ip_families() == before.ip_families() && spec.ip_families().len() > 1 {
                spec.set_ip_families(first(spec.ip_families()));
            }
        }
        for (count, what) in
            [(spec.cluster_ips().len(), "cluster IPs"), (spec.ip_families().len(), "IP families")]
        {
            if count == 2 {
                let why = format!(
                    "must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are \
                     specified"
                );
                errs.invalid(&at, policy.as_str(), why);
            }
        }
        return;
    }
    let Some(before) = before else { return };
    for (new, old, what) in [
        (spec.cluster_ips(), before.cluster_ips(), "cluster IP"),
        (spec.ip_families(), before.ip_families(), "IP family"),
    ] {
        if !new.is_empty() && new.len() < old.len() {
            let why = format!("must be 'SingleStack' to release the secondary {what}");
            errs.invalid(&at, policy.as_str(), why);
        }
    }
}

/// Infers missing families from the addresses.
fn infer(spec: &mut ServiceSpec, all: &[&str], errs: &mut ErrorList) {
    let addresses = spec.cluster_ips().clone();
    let mut families: Vec<String> = spec.ip_families().iter().map(str::to_owned).collect();
    for (i, address) in addresses.iter().enumerate() {
        if address == "None" {
            break;
        } else if i < families.len() {
            continue;
        }
        let own = if address.contains(':') { "IPv6" } else { "IPv4" };
        if all.contains(&own) {
            families.push(own.to_owned());
        } else {
            let at = SPEC.field("clusterIPs");
            let why = format!("{own} is not configured on this cluster");
            errs.invalid(&at.index(i), Value::from(addresses.clone()), why);
        }
    }
    spec.set_ip_families(families.iter().map(String::as_str).collect::<List<String>>());
}

fn check_families(spec: &ServiceSpec, all: &[&str], errs: &mut ErrorList) {
    if spec.ip_family_policy() == Some("RequireDualStack") && all.len() < 2 {
        let why = "this cluster is not configured for dual-stack services";
        errs.invalid(&SPEC.field("ipFamilyPolicy"), "RequireDualStack", why);
    }
    for (i, wanted) in spec.ip_families().iter().enumerate().filter(|(_, one)| !all.contains(one)) {
        let at = SPEC.field("ipFamilies");
        errs.invalid(&at.index(i), wanted, "not configured on this cluster");
    }
}

fn first(list: &List<String>) -> List<String> {
    list.iter().take(1).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(spec: ServiceSpec) -> Service {
        Service::new().with_spec(spec.with_type("ClusterIP"))
    }

    #[test]
    fn one_family_is_what_a_service_gets_by_default() {
        let mut plain = service(ServiceSpec::new());
        assert!(default_families(&mut plain, None, &["IPv4"]).is_empty());
        assert_eq!(plain.spec().ip_family_policy(), Some("SingleStack"));
        assert_eq!(plain.spec().ip_families().iter().collect::<Vec<_>>(), ["IPv4"]);
        let mut headless =
            service(ServiceSpec::new().with_cluster_ip("None").with_cluster_ips(["None"]));
        assert!(default_families(&mut headless, None, &["IPv4"]).is_empty());
        assert_eq!(headless.spec().ip_families().len(), 2);
    }

    #[test]
    fn what_the_cluster_lacks_is_refused() {
        let mut both = service(ServiceSpec::new().with_ip_family_policy("RequireDualStack"));
        let errs = default_families(&mut both, None, &["IPv4"]);
        assert!(errs.0[0].to_string().ends_with("not configured for dual-stack services"));
        let mut other = service(ServiceSpec::new().with_ip_families(["IPv6"]));
        let errs = default_families(&mut other, None, &["IPv4"]);
        assert_eq!(errs.0[0].path, "spec.ipFamilies[0]");
    }

    const BOTH: &[&str] = &["IPv4", "IPv6"];

    fn families(service: &Service) -> Vec<&str> {
        service.spec().ip_families().iter().collect()
    }

    #[test]
    fn two_families_where_the_cluster_has_them() {
        let mut plain = service(ServiceSpec::new());
        assert!(default_families(&mut plain, None, BOTH).is_empty());
        assert_eq!(families(&plain), ["IPv4"]);
        for policy in ["PreferDualStack", "RequireDualStack"] {
            let mut both = service(ServiceSpec::new().with_ip_family_policy(policy));
            assert!(default_families(&mut both, None, BOTH).is_empty());
            assert_eq!(families(&both), BOTH);
            assert_eq!(missing_ips(&both, None).len(), 2);
        }
        let spec = ServiceSpec::new().with_ip_family_policy("PreferDualStack");
        let mut other = service(spec.with_ip_families(["IPv6"]));
        assert!(default_families(&mut other, None, BOTH).is_empty());
        assert_eq!(families(&other), ["IPv6", "IPv4"]);
    }

    #[test]
    fn the_second_address_comes_and_goes() {
        let one = ServiceSpec::new().with_cluster_ip("10.0.0.1").with_cluster_ips(["10.0.0.1"]);
        let one = one.with_ip_families(["IPv4"]).with_ip_family_policy("SingleStack");
        let one = service(one);
        let mut two = one.clone();
        two.spec_mut().set_ip_family_policy("RequireDualStack");
        assert!(default_families(&mut two, Some(&one), BOTH).is_empty());
        assert_eq!(missing_ips(&two, Some(&one)), [(1, "IPv6".to_owned())]);
        two.spec_mut().set_cluster_ips(["10.0.0.1", "fd00::1"]);
        let mut back = two.clone();
        back.spec_mut().set_ip_family_policy("SingleStack");
        assert!(default_families(&mut back, Some(&two), BOTH).is_empty());
        assert_eq!(back.spec().cluster_ips().len(), 1);
        assert!(missing_ips(&back, Some(&two)).is_empty());
    }

    #[test]
    fn who_prefers_two_keeps_what_there_was() {
        let spec = ServiceSpec::new().with_cluster_ip("10.0.0.1").with_cluster_ips(["10.0.0.1"]);
        let spec = spec.with_ip_families(["IPv4"]).with_ip_family_policy("PreferDualStack");
        let old = service(spec);
        let mut same = old.clone();
        assert!(default_families(&mut same, Some(&old), BOTH).is_empty());
        assert_eq!((families(&same), missing_ips(&same, Some(&old)).len()), (vec!["IPv4"], 0));
    }
}
