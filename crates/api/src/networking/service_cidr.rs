//! networking/v1: ServiceCIDR.

use macros::api;
use object::{Condition, List, ObjectMeta, Value, names};
use schema::{Column, Errors, Kind, METADATA, Names, Path, Scope, Subresource};

use crate::{columns, shown::shown};

/// A range that addresses of services are taken from.
#[api]
pub struct ServiceCIDR {
    /// Standard object metadata: name, namespace, labels, annotations.
    metadata: ObjectMeta,
    /// Desired state.
    spec: ServiceCIDRSpec,
    /// Observed state.
    status: ServiceCIDRStatus,
}

#[api]
pub struct ServiceCIDRSpec {
    /// The ranges, one for each family.
    cidrs: List<String>,
}

#[api]
pub struct ServiceCIDRStatus {
    /// Current conditions of the object.
    #[api(keys("type"), merge, merge_key = "type")]
    conditions: List<Condition>,
}

impl Kind for ServiceCIDR {
    const NAMES: Names = Names::new("networking.k8s.io", "v1", "ServiceCIDR", "servicecidrs");
    const SCOPE: Scope = Scope::Cluster;
    const STATUS_KEEPS: &'static [&'static str] = METADATA;
    const SUBRESOURCES: &'static [Subresource] = &[Subresource::status("ServiceCIDR")];
    const COLUMNS: &'static [Column<Self>] = &[
        Column::NAME,
        Column::text("CIDRs", |range, _| columns::join(range.spec().cidrs().iter()).into()),
        Column::AGE,
    ];

    fn validate(&self, errs: &mut Errors) {
        self.spec().check(&Path::SPEC.field("cidrs"), errs);
    }

    fn validate_update(&self, old: &Self, errs: &mut Errors) {
        const KEPT: &str = "field is immutable";
        let at = Path::SPEC.field("cidrs");
        let (new, old) = (self.spec().cidrs(), old.spec().cidrs());
        match (old.len(), new.len()) {
            (a, b) if a == b || (a, b) == (1, 2) => {
                for (i, (new, old)) in new.iter().zip(old.iter()).enumerate() {
                    if new != old {
                        errs.invalid(&at.index(i), new, KEPT);
                    }
                }
                if a != b {
                    self.spec().check(&at, errs);
                }
            }
            _ => errs.invalid(&at, Value::from(new.clone()), KEPT),
        }
    }
}

impl ServiceCIDRSpec {
    fn check(&self, at: &Path, errs: &mut Errors) {
        let cidrs = self.cidrs();
        match cidrs.len() {
            0 => return errs.required(at, "at least one CIDR required"),
            1 | 2 => {}
            _ => return errs.invalid_shown(at, shown(self), "may only hold up to 2 values"),
        }
        at.each(cidrs.iter(), |cidr, at| errs.complaints(at, cidr, names::cidr(cidr)));
        let family = |cidr: &str| names::sloppy_cidr(cidr).map(|(address, _)| address.is_ipv4());
        let families: Vec<_> = cidrs.iter().map(family).collect();
        if let [Some(one), Some(two)] = families[..]
            && one == two
        {
            let why = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and \
                       2001:db8::/64";
            errs.invalid(at, Value::from(cidrs.clone()), why);
        }
    }
}
