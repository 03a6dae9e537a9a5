//! Opaque values, which only library functions can inspect.

use std::{fmt, sync::Arc};

use super::{
    authorizer::{BoundAuthorizer, Decision, GroupCheck, PathCheck, ResourceCheck},
    ip::{CelCidr, CelIp},
    named_format::NamedFormat,
    quantity::CelQuantity,
    semver::Semver,
    url::Url,
};

/// A value of an opaque library type.
#[derive(Clone, Debug)]
pub enum Opaque<'a> {
    Quantity(Arc<CelQuantity>),
    Url(Arc<Url>),
    Ip(CelIp),
    Cidr(CelCidr),
    Format(&'static NamedFormat),
    Semver(Arc<Semver>),
    Authorizer(BoundAuthorizer<'a>),
    PathCheck(Arc<PathCheck<'a>>),
    GroupCheck(Arc<GroupCheck<'a>>),
    ResourceCheck(Arc<ResourceCheck<'a>>),
    Decision(Arc<Decision>),
}

impl Opaque<'_> {
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Self::Quantity(_) => "kubernetes.Quantity",
            Self::Url(_) => "kubernetes.URL",
            Self::Ip(_) => "net.IP",
            Self::Cidr(_) => "net.CIDR",
            Self::Format(_) => "kubernetes.NamedFormat",
            Self::Semver(_) => "kubernetes.Semver",
            Self::Authorizer(_) => "kubernetes.authorization.Authorizer",
            Self::PathCheck(_) => "kubernetes.authorization.PathCheck",
            Self::GroupCheck(_) => "kubernetes.authorization.GroupCheck",
            Self::ResourceCheck(_) => "kubernetes.authorization.ResourceCheck",
            Self::Decision(_) => "kubernetes.authorization.Decision",
        }
    }

    pub(crate) fn equal(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Quantity(a), Self::Quantity(b)) => a.quantity == b.quantity,
            (Self::Url(a), Self::Url(b)) => a.to_string() == b.to_string(),
            (Self::Ip(a), Self::Ip(b)) => a == b,
            (Self::Cidr(a), Self::Cidr(b)) => a == b,
            (Self::Format(a), Self::Format(b)) => a.name == b.name,
            (Self::Semver(a), Self::Semver(b)) => a.cmp(b).is_eq(),
            _ => false,
        }
    }

    pub(crate) fn is_zero(&self) -> bool {
        matches!(self, Self::Quantity(amount) if amount.quantity.is_zero())
    }

    /// The cost of comparing its bytes.
    pub(crate) fn size(&self) -> u64 {
        match self {
            Self::Ip(address) => address.size(),
            Self::Cidr(prefix) => prefix.size(),
            _ => 1,
        }
    }
}

impl fmt::Display for Opaque<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Quantity(amount) => amount.quantity.fmt(f),
            Self::Url(url) => url.fmt(f),
            Self::Ip(address) => address.fmt(f),
            Self::Cidr(prefix) => prefix.fmt(f),
            Self::Format(format) => f.write_str(format.name),
            Self::Semver(version) => version.fmt(f),
            other => f.write_str(other.type_name()),
        }
    }
}
