//! What the server does with pods.

use crate::advice::CommonWarnings;
use schema::{
    ErrorList, FieldPath, GracefulDeletion, Kind, ResourceNames, SelectableField, Subresource,
    TableColumn, WarningList, verbs,
};

use super::{Pod, PodStatus, columns, connections, defaults, rules, status_rules, warnings};

impl Kind for Pod {
    const NAMES: ResourceNames =
        ResourceNames::new("", "v1", "Pod", "pods").short(&["po"]).categories(&["all"]);
    const UPDATE_CHECKS_GENERATE_NAME: bool = true;
    const SHOWS_DELETED: bool = true;
    const GENERATION: bool = true;
    const STATUS_KEEPS: &'static [&'static str] = &["deletionTimestamp", "ownerReferences"];
    const SUBRESOURCES: &'static [Subresource] = &[
        Subresource::connect("attach", "PodAttachOptions", connections::ATTACH),
        Subresource::built("binding", "Binding"),
        Subresource::hooks("ephemeralcontainers", "Pod"),
        Subresource::handler("eviction", "Eviction", verbs::CREATE).of_group("policy", "v1"),
        Subresource::connect("exec", "PodExecOptions", connections::EXEC),
        Subresource::handler("log", "Pod", &["get"]).parameters(connections::LOG),
        Subresource::connect("portforward", "PodPortForwardOptions", connections::PORT_FORWARD),
        Subresource::proxy("PodProxyOptions"),
        Subresource::hooks("resize", "Pod"),
        Subresource::status("Pod").resetting(&[
            &["spec"],
            &["metadata", "deletionTimestamp"],
            &["metadata", "ownerReferences"],
        ]),
    ];

    const COLUMNS: &'static [TableColumn<Self>] = columns::COLUMNS;
    const INDEXES: &'static [SelectableField<Self>] = &[
        SelectableField::with_watch_topic("spec.nodeName", |pod| pod.spec().node_name().into()),
        SelectableField::filter_only("spec.restartPolicy", |pod| {
            pod.spec().restart_policy().into()
        }),
        SelectableField::filter_only("spec.schedulerName", |pod| {
            pod.spec().scheduler_name().into()
        }),
        SelectableField::filter_only("spec.serviceAccountName", |pod| {
            pod.spec().service_account_name().into()
        }),
        SelectableField::filter_only("spec.hostNetwork", |pod| {
            pod.spec().host_network().to_string()
        }),
        SelectableField::filter_only("status.phase", |pod| pod.status().phase().into()),
        SelectableField::filter_only("status.podIP", |pod| pod.status().ip().into()),
        // Known, but of no pod: so it is upstream.
        SelectableField::filter_only("status.podIPs", |_| String::new()),
        SelectableField::filter_only("status.nominatedNodeName", |pod| {
            pod.status().nominated_node_name().into()
        }),
    ];

    fn warn_status(&self, told: &mut WarningList) {
        let (status, at) = (self.status(), FieldPath::STATUS);
        for (i, address) in status.pod_ips().iter().enumerate() {
            told.ip(&at.field("podIPs").index(i).field("ip"), address.ip());
        }
        for (i, address) in status.host_ips().iter().enumerate() {
            told.ip(&at.field("hostIPs").index(i).field("ip"), address.ip());
        }
    }

    fn warn(&self, old: Option<&Self>, told: &mut WarningList) {
        if old.is_none() {
            told.hostname(self.metadata().name(), "the Pod's hostname");
            warnings::warn(self.spec(), self.metadata(), &FieldPath::Root, told);
        }
    }

    fn grace(&self, asked: Option<i64>) -> GracefulDeletion {
        if !self.is_scheduled() || self.is_finished() {
            return GracefulDeletion::Seconds(0);
        }
        let given = self.spec().termination_grace_period_seconds();
        match asked.unwrap_or(given) {
            seconds @ 0.. => GracefulDeletion::Seconds(seconds),
            _ => GracefulDeletion::Seconds(1),
        }
    }

    fn ended(&self) -> Option<(&'static str, &'static str)> {
        match self.status().phase() {
            "Succeeded" => Some(("Succeeded", "The pod has completed successfully.")),
            "Failed" => Some(("Failed", "The pod failed.")),
            _ => None,
        }
    }

    fn default_fields(&mut self) {
        defaults::pod(self);
    }

    fn validate(&self, errs: &mut ErrorList) {
        rules::check_new(self, errs);
    }

    fn validate_update(&self, old: &Self, errs: &mut ErrorList) {
        rules::check_changed(self, old, errs);
    }

    fn validate_status(&self, old: &Self, errs: &mut ErrorList) {
        status_rules::check(self, old, errs);
    }

    fn prepare_create(&mut self) {
        self.set_status(PodStatus::new().with_phase("Pending"));
        self.gate();
        defaults::pod_resources(self.spec_mut());
        let class = self.qos_class();
        self.status_mut().set_qos_class(class);
    }

    fn prepare_update(&mut self, old: &Self) {
        if let (None, Some(resources)) = (self.spec().resources(), old.spec().resources()) {
            self.spec_mut().set_resources(resources.clone());
        }
    }

    fn prepare_part(&mut self, part: &str, old: &Self) {
        self.keep_but(part, old);
    }

    fn validate_part(&self, part: &str, old: &Self, errs: &mut ErrorList) {
        self.check_part(part, old, errs);
    }

    fn prepare_status(&mut self, old: &Self) {
        self.keep_status(old.status());
    }
}

impl Pod {
    /// Keeps what older clients leave out of a status.
    fn keep_status(&mut self, old: &PodStatus) {
        let status = self.status_mut();
        if status.qos_class().is_empty() {
            status.set_qos_class(old.qos_class());
        }
        if status.observed_generation() == 0 {
            status.set_observed_generation(old.observed_generation());
        }
        if status.resource_claim_statuses().is_empty() {
            status.set_resource_claim_statuses(old.resource_claim_statuses().clone());
        }
        if let (None, Some(claims)) =
            (status.extended_resource_claim_status(), old.extended_resource_claim_status())
        {
            status.set_extended_resource_claim_status(claims.clone());
        }
        if status.node_allocatable_resource_claim_statuses().is_empty() {
            status.set_node_allocatable_resource_claim_statuses(
                old.node_allocatable_resource_claim_statuses().clone(),
            );
        }
        if status.conditions().is_empty() {
            return;
        }
        for condition in status.conditions_mut().iter_mut() {
            let before = old.conditions().find(|old| old.type_() == condition.type_());
            if let (0, Some(before)) = (condition.observed_generation(), before) {
                condition.set_observed_generation(before.observed_generation());
            }
        }
    }
}
