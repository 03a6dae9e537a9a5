//! Which families of addresses a Service has, and how many.

use api::core::{Service, ServiceSpec};
use object::{List, Value};
use schema::{Errors, Path};

const SPEC: Path = Path::Root.field("spec");

/// Fills in what follows from what is given; says what does not fit. The cluster has
/// addresses of one `family`.
pub(super) fn settle(service: &mut Service, old: Option<&Service>, family: &str) -> Errors {
    let mut errs = Errors::default();
    if !service.spec().needs_cluster_ip() {
        return errs;
    }
    let before = old.map(Service::spec).filter(|spec| spec.needs_cluster_ip());
    default_policy(service, before);
    service.check_addresses(old, &mut errs);
    if !errs.is_empty() {
        return errs;
    }
    check_policy(service.spec_mut(), before, &mut errs);
    infer(service.spec_mut(), family, &mut errs);
    if !errs.is_empty() {
        return errs;
    }
    let spec = service.spec_mut();
    if spec.cluster_ip() == "None" && spec.selector().is_empty() {
        if spec.ip_families().is_empty() {
            spec.set_ip_families([family]);
        }
        if spec.ip_families().len() < 2 && spec.ip_family_policy() != Some("SingleStack") {
            let first = spec.ip_families().iter().next().unwrap_or_default().to_owned();
            let other = if first == "IPv4" { "IPv6" } else { "IPv4" };
            spec.set_ip_families([first.as_str(), other]);
        }
        return errs;
    }
    check_family(spec, family, &mut errs);
    if errs.is_empty() && spec.ip_families().is_empty() {
        spec.set_ip_families([family]);
    }
    errs
}

/// Who says nothing wants what was before, or one family.
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

/// One family, and what is given for two; two, and what is taken away.
fn check_policy(spec: &mut ServiceSpec, before: Option<&ServiceSpec>, errs: &mut Errors) {
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
        let reduced = old.len() == 2 && new.len() == 1 && new.iter().next() == old.iter().next();
        if reduced {
            let why = format!("must be 'SingleStack' to release the secondary {what}");
            errs.invalid(&at, policy.as_str(), why);
        }
    }
}

/// An address tells its family.
fn infer(spec: &mut ServiceSpec, family: &str, errs: &mut Errors) {
    let addresses = spec.cluster_ips().clone();
    let mut families: Vec<String> = spec.ip_families().iter().map(str::to_owned).collect();
    for (i, address) in addresses.iter().enumerate() {
        if address == "None" {
            break;
        } else if i < families.len() {
            continue;
        }
        let own = if address.contains(':') { "IPv6" } else { "IPv4" };
        if own == family {
            families.push(own.to_owned());
        } else {
            let at = SPEC.field("clusterIPs");
            let why = format!("{own} is not configured on this cluster");
            errs.invalid(&at.index(i), Value::from(addresses.clone()), why);
        }
    }
    spec.set_ip_families(families.iter().map(String::as_str).collect::<List<String>>());
}

fn check_family(spec: &ServiceSpec, family: &str, errs: &mut Errors) {
    if spec.ip_family_policy() == Some("RequireDualStack") {
        let why = "this cluster is not configured for dual-stack services";
        errs.invalid(&SPEC.field("ipFamilyPolicy"), "RequireDualStack", why);
    }
    for (i, wanted) in spec.ip_families().iter().enumerate().filter(|(_, one)| *one != family) {
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
        assert!(settle(&mut plain, None, "IPv4").is_empty());
        assert_eq!(plain.spec().ip_family_policy(), Some("SingleStack"));
        assert_eq!(plain.spec().ip_families().iter().collect::<Vec<_>>(), ["IPv4"]);
        let mut headless =
            service(ServiceSpec::new().with_cluster_ip("None").with_cluster_ips(["None"]));
        assert!(settle(&mut headless, None, "IPv4").is_empty());
        assert_eq!(headless.spec().ip_families().len(), 2);
    }

    #[test]
    fn what_the_cluster_lacks_is_refused() {
        let mut both = service(ServiceSpec::new().with_ip_family_policy("RequireDualStack"));
        let errs = settle(&mut both, None, "IPv4");
        assert!(errs.0[0].to_string().ends_with("not configured for dual-stack services"));
        let mut other = service(ServiceSpec::new().with_ip_families(["IPv6"]));
        let errs = settle(&mut other, None, "IPv4");
        assert_eq!(errs.0[0].path, "spec.ipFamilies[0]");
    }
}
