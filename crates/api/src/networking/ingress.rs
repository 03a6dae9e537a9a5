//! networking/v1: Ingress.

use std::collections::BTreeSet;

use crate::{
    advice::CommonWarnings, columns, core::TypedLocalObjectReference, rules::ValidateField,
};
use macros::api;
use object::{List, ObjectMeta, Value, names};
use schema::{
    ErrorList, FieldPath, Kind, ResourceNames, StorageConfig, Subresource, TableColumn, WarningList,
};

/// Rules that route HTTP requests from outside to services, by host and path.
#[api]
pub struct Ingress {
    /// Standard object metadata: name, namespace, labels, annotations.
    metadata: ObjectMeta,
    /// Desired routing.
    spec: IngressSpec,
    /// Observed status, such as the address of the load balancer.
    status: IngressStatus,
}

#[api]
pub struct IngressSpec {
    /// IngressClass whose controller implements the rules.
    #[api(tag = 4)]
    ingress_class_name: Option<String>,
    /// Backend of requests that match no rule.
    #[api(tag = 1)]
    default_backend: Option<IngressBackend>,
    /// TLS settings: hosts, and the Secrets with their certificates.
    tls: List<IngressTLS>,
    /// Rules by host and path.
    rules: List<IngressRule>,
}

#[api]
pub struct IngressTLS {
    /// Hosts that the certificate covers.
    hosts: List<String>,
    /// Secret of type kubernetes.io/tls with certificate and key.
    secret_name: String,
}

#[api]
pub struct IngressRule {
    /// Host name of the requests, such as www.example.com or *.example.com. If empty, all.
    host: String,
    /// What becomes of the requests.
    #[api(inline)]
    ingress_rule_value: IngressRuleValue,
}

#[api]
pub struct IngressRuleValue {
    /// What becomes of requests over HTTP.
    http: Option<HTTPIngressRuleValue>,
}

#[api]
pub struct HTTPIngressRuleValue {
    /// Paths and their backends.
    paths: Must<List<HTTPIngressPath>>,
}

#[api]
pub struct HTTPIngressPath {
    /// Path of the request; begins with a slash.
    path: String,
    /// How the path is matched: Exact, Prefix or ImplementationSpecific.
    #[api(tag = 3, no_omitempty, go_type = "v1.PathType", required)]
    #[api(enum_values("Exact", "ImplementationSpecific", "Prefix"))]
    path_type: Option<String>,
    /// Service or object that receives the requests.
    #[api(tag = 2)]
    backend: Must<IngressBackend>,
}

#[api]
pub struct IngressBackend {
    /// Service that receives the requests.
    #[api(tag = 4)]
    service: Option<IngressServiceBackend>,
    /// Object of the same namespace that receives the requests, instead of a service.
    #[api(tag = 3)]
    resource: Option<TypedLocalObjectReference>,
}

#[api]
pub struct IngressServiceBackend {
    /// The name of the service.
    name: Must<String>,
    /// The port of the service.
    port: ServiceBackendPort,
}

#[api(atomic)]
pub struct ServiceBackendPort {
    /// Name of the service's port.
    name: String,
    /// Number of the service's port.
    number: i32,
}

#[api]
pub struct IngressStatus {
    /// Status of the load balancer.
    load_balancer: IngressLoadBalancerStatus,
}

#[api]
pub struct IngressLoadBalancerStatus {
    /// Addresses by which the load balancer is reached.
    ingress: List<IngressLoadBalancerIngress>,
}

#[api]
pub struct IngressLoadBalancerIngress {
    /// IP address of the load balancer.
    ip: String,
    /// DNS name of the load balancer.
    hostname: String,
    /// State of each port of the load balancer.
    #[api(tag = 4)]
    ports: List<IngressPortStatus>,
}

#[api]
pub struct IngressPortStatus {
    /// The number of the port.
    port: Must<i32>,
    /// Protocol: TCP, UDP or SCTP.
    #[api(go_type = "v1.Protocol", enum_values("SCTP", "TCP", "UDP"))]
    protocol: Must<String>,
    /// Reason why the port does not work, if it does not.
    error: Option<String>,
}

impl Kind for Ingress {
    const NAMES: ResourceNames =
        ResourceNames::new("networking.k8s.io", "v1", "Ingress", "ingresses").short(&["ing"]);
    const UPDATE_CHECKS_GENERATE_NAME: bool = true;
    const FORMER_API_VERSIONS: &'static [&'static str] =
        &["networking.k8s.io/v1beta1", "extensions/v1beta1"];
    const STORAGE: StorageConfig = StorageConfig::new("ingress", "v1");
    const GENERATION: bool = true;
    const SUBRESOURCES: &'static [Subresource] =
        &[Subresource::status("Ingress").writes_metadata()];
    const NEEDS: Option<&'static schema::Part> = Some(&crate::parts::INGRESS);
    const COLUMNS: &'static [TableColumn<Self>] = &[
        TableColumn::NAME,
        TableColumn::text("Class", |this, _| {
            this.spec().ingress_class_name().unwrap_or(columns::NONE).into()
        }),
        TableColumn::text("Hosts", |this, _| this.hosts().into()),
        TableColumn::text("Address", |this, _| this.addresses().into()),
        TableColumn::text("Ports", |this, _| {
            if this.spec().tls().is_empty() { "80".into() } else { "80, 443".into() }
        }),
        TableColumn::AGE,
    ];

    fn warn(&self, old: Option<&Self>, warnings: &mut WarningList) {
        let noted = self.metadata().annotations().get(CLASS).is_some();
        if old.is_none() && noted && self.spec().ingress_class_name().is_none() {
            warnings.push(format!(
                "annotation {CLASS:?} is deprecated, please use 'spec.ingressClassName' instead"
            ));
        }
    }

    fn warn_status(&self, warnings: &mut WarningList) {
        let at = FieldPath::STATUS.field("loadBalancer");
        for (i, ingress) in self.status().load_balancer().ingress().iter().enumerate() {
            warnings.ip(&at.field("ingress").index(i), ingress.ip());
        }
    }

    fn validate(&self, errs: &mut ErrorList) {
        self.spec().check(&FieldPath::SPEC, errs);
        let class = self.spec().ingress_class_name();
        let note = self.metadata().annotations().get(CLASS);
        if let (Some(class), Some(note)) = (class, note)
            && class != note
        {
            let why = "must match `ingressClassName` when both are specified";
            errs.invalid(&FieldPath::Root.field("annotations").field(CLASS), note, why);
        }
    }

    fn validate_update(&self, _old: &Self, errs: &mut ErrorList) {
        self.spec().check(&FieldPath::SPEC, errs);
    }

    fn validate_status(&self, old: &Self, errs: &mut ErrorList) {
        let at = FieldPath::STATUS.field("loadBalancer");
        let at = at.field("ingress");
        let before = old.status().load_balancer().ingress().iter();
        let had: Vec<&str> = before.map(IngressLoadBalancerIngress::ip).collect();
        for (i, point) in self.status().load_balancer().ingress().iter().enumerate() {
            let (at, ip, name) = (at.index(i), point.ip(), point.hostname());
            if !ip.is_empty() {
                errs.invalid_each(&at.field("ip"), ip, names::legacy_ip(ip, &had));
            }
            if !name.is_empty() {
                errs.subdomain(&at.field("hostname"), name);
                check_not_ip(name, &at.field("hostname"), errs);
            }
        }
    }
}

impl Ingress {
    /// The hosts it serves, as tables show them.
    fn hosts(&self) -> String {
        let rules = self.spec().rules();
        let named: Vec<_> = rules.iter().map(IngressRule::host).enumerate().collect();
        let named: Vec<_> = named.into_iter().filter(|(_, host)| !host.is_empty()).collect();
        let shown = columns::join(named.iter().take(3).map(|(_, host)| *host));
        match named.get(2) {
            _ if shown.is_empty() => "*".into(),
            Some((third, _)) if rules.len() > third + 1 => {
                format!("{shown} + {} more...", rules.len() - 3)
            }
            _ => shown,
        }
    }

    /// Where it is reached, as tables show it.
    fn addresses(&self) -> String {
        let each = self.status().load_balancer().ingress().iter().map(|at| match at.ip() {
            "" => at.hostname(),
            ip => ip,
        });
        let each: BTreeSet<_> = each.filter(|address| !address.is_empty()).collect();
        columns::join(each.into_iter())
    }
}

/// Where the class was named before it had a field.
const CLASS: &str = "kubernetes.io/ingress.class";

impl IngressSpec {
    fn check(&self, at: &FieldPath, errs: &mut ErrorList) {
        if self.rules().is_empty() && self.default_backend().is_none() {
            let why = "either `defaultBackend` or `rules` must be specified";
            errs.invalid(at, Value::Null, why);
        }
        at.if_present("defaultBackend", self.default_backend(), |backend, at| {
            backend.check(at, errs);
        });
        at.field("rules").for_each_item(self.rules().iter(), |rule, at| rule.check(at, errs));
        at.field("tls").for_each_item(self.tls().iter(), |tls, at| {
            at.field("hosts")
                .for_each_item(tls.hosts().iter(), |host, at| check_host(host, at, errs));
            errs.optional_format(
                &at.field("secretName"),
                tls.secret_name(),
                names::dns1123_subdomain,
            );
        });
        at.if_present("ingressClassName", self.ingress_class_name(), |it, at| {
            errs.subdomain(at, it);
        });
    }
}

fn check_host(host: &str, at: &FieldPath, errs: &mut ErrorList) {
    let wrong = if host.contains('*') {
        names::wildcard_dns1123_subdomain(host)
    } else {
        names::dns1123_subdomain(host)
    };
    errs.invalid_each(at, host, wrong);
}

fn check_not_ip(name: &str, at: &FieldPath, errs: &mut ErrorList) {
    if names::sloppy_ip(name).is_some() {
        errs.invalid(at, name, "must be a DNS name, not an IP address");
    }
}

impl IngressRule {
    fn check(&self, at: &FieldPath, errs: &mut ErrorList) {
        if !self.host().is_empty() {
            check_not_ip(self.host(), &at.field("host"), errs);
            check_host(self.host(), &at.field("host"), errs);
        }
        let Some(http) = self.ingress_rule_value().http() else { return };
        let at = at.field("http");
        let at = at.field("paths");
        if http.paths().is_empty() {
            errs.required(&at, "");
        }
        at.for_each_item(http.paths().iter(), |path, at| path.check(at, errs));
    }
}

impl HTTPIngressPath {
    fn check(&self, at: &FieldPath, errs: &mut ErrorList) {
        let Some(kind) = self.path_type() else {
            return errs.required(&at.field("pathType"), "pathType must be specified");
        };
        let (path, at_path) = (self.path(), at.field("path"));
        let absolute = path.starts_with('/');
        match kind {
            "Exact" | "Prefix" => {
                if !absolute {
                    errs.invalid(&at_path, path, "must be an absolute path");
                }
                for part in ["//", "/./", "/../", "%2f", "%2F"] {
                    if path.contains(part) {
                        errs.invalid(&at_path, path, format!("must not contain '{part}'"));
                    }
                }
                for end in ["/..", "/."] {
                    if path.ends_with(end) {
                        errs.invalid(&at_path, path, format!("cannot end with '{end}'"));
                    }
                }
            }
            "ImplementationSpecific" if absolute || path.is_empty() => {}
            "ImplementationSpecific" => errs.invalid(&at_path, path, "must be an absolute path"),
            other => errs.not_supported(
                &at.field("pathType"),
                other,
                &["Exact", "ImplementationSpecific", "Prefix"],
            ),
        }
        self.backend().check(&at.field("backend"), errs);
    }
}

impl IngressBackend {
    fn check(&self, at: &FieldPath, errs: &mut ErrorList) {
        match (self.resource(), self.service()) {
            (Some(_), Some(_)) => {
                errs.invalid(at, "", "cannot set both resource and service backends");
            }
            (None, None) => errs.invalid(at, "", "resource or service backend is required"),
            (Some(resource), None) => {
                let at = at.field("resource");
                at.if_present("apiGroup", resource.api_group(), |group, at| {
                    errs.subdomain(at, group);
                });
                for (name, text) in [("kind", resource.kind()), ("name", resource.name())] {
                    errs.required_field(&at, name, text);
                    errs.invalid_each(&at.field(name), text, names::path_segment_name(text));
                }
            }
            (None, Some(service)) => service.check(at, errs),
        }
    }
}

impl IngressServiceBackend {
    fn check(&self, backend: &FieldPath, errs: &mut ErrorList) {
        let at = backend.field("service");
        errs.required_format(&at.field("name"), self.name(), names::dns1123_label);
        let port = at.field("port");
        match (self.port().name(), self.port().number()) {
            ("", 0) => errs.required(backend, "port name or number is required"),
            ("", number) => errs.port(&port.field("number"), number),
            (name, 0) => errs.invalid_each(&port.field("name"), name, names::port_name(name)),
            _ => errs.invalid(backend, "", "cannot set both port name & port number"),
        }
    }
}
