//! The rules for probes and for what is called at the start and the end of containers.

use object::names;
use schema::{ErrorList, FieldPath};

use super::{
    ExecAction, GRPCAction, HTTPGetAction, Lifecycle, LifecycleHandler, Probe, SIGNALS,
    SleepAction, TCPSocketAction,
};
use crate::rules::ValidateField;

const ONLY_ONE: &str = "may not specify more than 1 handler type";

/// What a container must say of its end, by the operating system of the pod.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PodTermination<'a> {
    pub(crate) grace: i64,
    pub(crate) os: Option<&'a str>,
}

/// Which probe it is: the rules differ a little.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum ProbeType {
    Liveness,
    Readiness,
    Startup,
}

impl Probe {
    pub(crate) fn check(
        &self,
        role: ProbeType,
        end: PodTermination,
        at: &FieldPath,
        errs: &mut ErrorList,
    ) {
        let handler = self.probe_handler();
        Handler {
            exec: handler.exec(),
            http: handler.http_get(),
            tcp: handler.tcp_socket(),
            grpc: handler.grpc(),
            sleep: None,
        }
        .check(end, at, errs);
        for (name, n) in [
            ("initialDelaySeconds", self.initial_delay_seconds()),
            ("timeoutSeconds", self.timeout_seconds()),
            ("periodSeconds", self.period_seconds()),
            ("successThreshold", self.success_threshold()),
            ("failureThreshold", self.failure_threshold()),
        ] {
            errs.non_negative(&at.field(name), n.into());
        }
        let grace = at.field("terminationGracePeriodSeconds");
        if let Some(seconds) = self.termination_grace_period_seconds() {
            if seconds <= 0 {
                errs.invalid(&grace, seconds, "must be greater than 0");
            }
            if role == ProbeType::Readiness {
                errs.invalid(&grace, seconds, "must not be set for readinessProbes");
            }
        }
        if role != ProbeType::Readiness && self.success_threshold() != 1 {
            errs.invalid(&at.field("successThreshold"), self.success_threshold(), "must be 1");
        }
    }
}

impl Lifecycle {
    pub(crate) fn check(&self, end: PodTermination, at: &FieldPath, errs: &mut ErrorList) {
        at.if_present("postStart", self.post_start(), |handler, at| handler.check(end, at, errs));
        at.if_present("preStop", self.pre_stop(), |handler, at| handler.check(end, at, errs));
        at.if_present("stopSignal", self.stop_signal(), |it, at| {
            check_signal(it, end.os, at, errs);
        });
    }
}

impl LifecycleHandler {
    fn check(&self, end: PodTermination, at: &FieldPath, errs: &mut ErrorList) {
        Handler {
            exec: self.exec(),
            http: self.http_get(),
            tcp: self.tcp_socket(),
            grpc: None,
            sleep: self.sleep(),
        }
        .check(end, at, errs);
    }
}

/// The ways to ask or to tell a container something; one of them is taken.
struct Handler<'a> {
    exec: Option<&'a ExecAction>,
    http: Option<&'a HTTPGetAction>,
    tcp: Option<&'a TCPSocketAction>,
    grpc: Option<&'a GRPCAction>,
    sleep: Option<&'a SleepAction>,
}

impl Handler<'_> {
    fn check(&self, end: PodTermination, at: &FieldPath, errs: &mut ErrorList) {
        let mut first = true;
        let mut is_first = |name: &str, errs: &mut ErrorList| {
            if !first {
                errs.forbidden(&at.field(name), ONLY_ONE);
            }
            std::mem::replace(&mut first, false)
        };
        if let Some(exec) = self.exec
            && is_first("exec", errs)
            && exec.command().is_empty()
        {
            errs.required(&at.field("exec").field("command"), "");
        }
        if let Some(http) = self.http
            && is_first("httpGet", errs)
        {
            http.check(&at.field("httpGet"), errs);
        }
        if let Some(tcp) = self.tcp
            && is_first("tcpSocket", errs)
        {
            errs.port_or_name(&at.field("tcpSocket").field("port"), &tcp.port());
        }
        if let Some(grpc) = self.grpc
            && is_first("grpc", errs)
        {
            grpc.check(&at.field("grpc"), errs);
        }
        if let Some(sleep) = self.sleep
            && is_first("sleep", errs)
            && !(0..=end.grace).contains(&sleep.seconds())
        {
            let why = format!(
                "must be non-negative and less than terminationGracePeriodSeconds ({})",
                end.grace
            );
            errs.invalid(&at.field("sleep"), sleep.seconds(), why);
        }
        if first {
            errs.required(at, "must specify a handler type");
        }
    }
}

impl HTTPGetAction {
    fn check(&self, at: &FieldPath, errs: &mut ErrorList) {
        errs.required_field(at, "path", self.path());
        errs.port_or_name(&at.field("port"), &self.port());
        errs.one_of(&at.field("scheme"), self.scheme(), &["HTTP", "HTTPS"]);
        for header in self.http_headers().iter() {
            let wrong = names::http_header_name(header.name());
            errs.invalid_each(&at.field("httpHeaders"), header.name(), wrong);
        }
        at.if_present("protocol", self.protocol(), |it, at| {
            errs.one_of(at, it, &["HTTP1", "HTTP2"]);
        });
    }
}

impl GRPCAction {
    fn check(&self, at: &FieldPath, errs: &mut ErrorList) {
        errs.port(&at.field("port"), self.port());
        at.if_present("mode", self.mode(), |mode, at| errs.one_of(at, mode, &["Plaintext", "TLS"]));
    }
}

fn check_signal(signal: &str, os: Option<&str>, at: &FieldPath, errs: &mut ErrorList) {
    let known = match os {
        None => {
            return errs.forbidden(at, "may not be set for containers with empty `spec.os.name`");
        }
        Some("windows") => &["SIGKILL", "SIGTERM"][..],
        Some("linux") => &SIGNALS,
        Some(_) => return,
    };
    errs.one_of(at, signal, known);
}
