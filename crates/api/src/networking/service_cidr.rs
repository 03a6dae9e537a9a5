//! networking/v1: ServiceCIDR.

use macros::api;
use object::{Condition, List, ObjectMeta, Value, names};
use schema::{
    CLIENT_METADATA_FIELDS, ErrorList, FieldPath, Kind, ResourceNames, Scope, Subresource,
    TableColumn,
};

use crate::{columns, shown::format_go};

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
    const NAMES: ResourceNames =
        ResourceNames::new("networking.k8s.io", "v1", "ServiceCIDR", "servicecidrs");
    const FORMER_API_VERSIONS: &'static [&'static str] = &["networking.k8s.io/v1beta1"];
    const SCOPE: Scope = Scope::Cluster;
    const STATUS_KEEPS: &'static [&'static str] = CLIENT_METADATA_FIELDS;
    const SUBRESOURCES: &'static [Subresource] = &[Subresource::status("ServiceCIDR")];
    const COLUMNS: &'static [TableColumn<Self>] = &[
        TableColumn::NAME,
        TableColumn::text("CIDRs", |range, _| columns::join(range.spec().cidrs().iter()).into()),
        TableColumn::AGE,
    ];

    fn validate(&self, errs: &mut ErrorList) {
        self.spec().check(&FieldPath::SPEC.field("cidrs"), errs);
    }

    fn validate_update(&self, old: &Self, errs: &mut ErrorList) {
        const KEPT: &str = "field is immutable";
        let at = FieldPath::SPEC.field("cidrs");
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
    fn check(&self, at: &FieldPath, errs: &mut ErrorList) {
        let cidrs = self.cidrs();
        match cidrs.len() {
            0 => return errs.required(at, "at least one CIDR required"),
            1 | 2 => {}
            _ => {
                return errs.invalid_formatted(at, format_go(self), "may only hold up to 2 values");
            }
        }
        at.for_each_item(cidrs.iter(), |cidr, at| errs.invalid_each(at, cidr, names::cidr(cidr)));
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
