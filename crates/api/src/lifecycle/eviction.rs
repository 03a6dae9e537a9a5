//! lifecycle/v1alpha1: Eviction.

use macros::api;
use object::{Condition, List, ObjectMeta, Time};
use schema::{
    CLIENT_METADATA_FIELDS, ErrorList, FieldPath, Kind, ResourceNames, Subresource, TableColumn,
    ValidateName, age, human_duration, name_validation,
};

use super::responders::check_status;
use crate::columns::NONE;

/// The eviction of a pod, and who takes part in it.
#[api]
pub struct Eviction {
    /// Standard object metadata: name, namespace, labels, annotations.
    metadata: ObjectMeta,
    /// What is evicted.
    spec: Must<EvictionSpec>,
    /// How far it has come.
    status: EvictionStatus,
}

#[api]
pub struct EvictionSpec {
    /// What is evicted. It never changes.
    #[api(validations(Immutable))]
    target: Must<EvictionTarget>,
}

#[api]
pub struct EvictionTarget {
    /// The pod.
    #[api(validations(UnionMember))]
    pod: Option<EvictionPodReference>,
}

#[api]
pub struct EvictionPodReference {
    /// The pod's name.
    #[api(validations(Required, Format("long-name")))]
    name: Must<String>,
    /// The pod's number.
    #[api(go_type = "types.UID", validations(Required, Format("uuid")))]
    uid: Must<String>,
}

#[api]
pub struct EvictionStatus {
    /// What holds of the eviction.
    #[api(keys("type"), merge, merge_key = "type", validations(MaxItems(100)))]
    conditions: List<Condition>,
    /// The generation that was looked at.
    #[api(validations(Min(1), Monotonic, NoUnset))]
    observed_generation: Option<i64>,
    /// Who wants it.
    #[api(keys("name"), merge, merge_key = "name", validations(MaxItems(100), UniqueBy("name")))]
    requesters: List<Requester>,
    /// Who takes part, and whose turn it is.
    #[api(keys("name"), merge, merge_key = "name", validations(MaxItems(11), UniqueBy("name")))]
    target_responders: List<TargetResponder>,
    /// What those say who take part.
    #[api(keys("name"), merge, merge_key = "name", validations(MaxItems(11), UniqueBy("name")))]
    responders: List<ResponderStatus>,
}

#[api(atomic)]
pub struct Requester {
    /// Who it is.
    #[api(validations(Required, Format("prefixed-label-key")))]
    name: Must<String>,
    /// What they want: Eviction, Withdrawn.
    #[api(
        go_type = "v1alpha1.RequesterIntent",
        validations(Required, OneOfValues("Eviction", "Withdrawn"))
    )]
    intent: Must<String>,
}

#[api(atomic)]
pub struct TargetResponder {
    /// Who it is.
    #[api(validations(Required, Format("prefixed-label-key")))]
    name: Must<String>,
    /// When its turn is: the highest first.
    #[api(required, no_omitempty, validations(Required, Min(0), Max(100_000), NoModify, NoUnset))]
    priority: Option<i32>,
    /// What it does.
    #[api(go_type = "v1alpha1.ResponderStateType")]
    #[api(validations(
        Required,
        OneOfValues("Active", "Canceled", "Completed", "Inactive", "Interrupted")
    ))]
    state: Must<String>,
}

#[api]
pub struct ResponderStatus {
    /// Who it is.
    #[api(validations(Required, Format("prefixed-label-key")))]
    name: Must<String>,
    /// When it began.
    #[api(validations(NoModify, NoUnset))]
    start_time: Option<Time>,
    /// When it was last heard of.
    heartbeat_time: Option<Time>,
    /// When it expects to be done.
    expected_completion_time: Option<Time>,
    /// When it was done.
    #[api(validations(NoModify, NoUnset))]
    completion_time: Option<Time>,
    /// What it says, for people.
    #[api(validations(MaxLength(4000)))]
    message: Option<String>,
}

impl Kind for Eviction {
    const NAMES: ResourceNames =
        ResourceNames::new("lifecycle.k8s.io", "v1alpha1", "Eviction", "evictions");
    const FORMER_API_VERSIONS: &'static [&'static str] = &["lifecycle.k8s.io/v1alpha1"];
    const NAME: ValidateName = name_validation::long_name;
    const BLIND_UPDATES: bool = false;
    const STATUS_KEEPS: &'static [&'static str] = CLIENT_METADATA_FIELDS;
    const GATE: Option<&str> = Some("EvictionRequestAPI");
    const GENERATION: bool = true;
    const DEFAULT_ON: bool = false;
    const SUBRESOURCES: &'static [Subresource] = &[Subresource::status("Eviction")];

    const COLUMNS: &'static [TableColumn<Self>] = &[
        TableColumn::NAME,
        TableColumn::text("Target", |this, _| {
            target(this.spec().target().pod().map(EvictionPodReference::name)).0.into()
        }),
        TableColumn::text("Target Type", |this, _| {
            target(this.spec().target().pod().map(EvictionPodReference::name)).1.into()
        }),
        TableColumn::text("Status", |this, _| {
            progress(this.status().observed_generation(), this.status().conditions()).into()
        }),
        TableColumn::text("Active Responder", |this, _| this.status().responder().into()),
        TableColumn::text("Responder Status", |this, now| this.status().state(now).into()),
        TableColumn::text("Responder Expected Finish", |this, now| {
            this.status().finish(now).into()
        }),
        TableColumn::text("Requesters", |this, _| this.status().requesting().into()),
        TableColumn::AGE,
        TableColumn::wide_text("Responder Heartbeat", |this, now| {
            let beat = this.status().active_status().and_then(ResponderStatus::heartbeat_time);
            beat.map_or(UNSET.to_owned(), |beat| format!("{} ago", age(beat, now))).into()
        }),
        TableColumn::wide_text("Responder Status Message", |this, _| {
            let message = this.status().active_status().and_then(ResponderStatus::message);
            message.map(str::trim).filter(|text| !text.is_empty()).unwrap_or(UNSET).into()
        }),
    ];

    fn validate(&self, errs: &mut ErrorList) {
        check_unnamed(self.metadata(), errs);
    }

    fn validate_status_at(&self, old: &Self, now: i64, errs: &mut ErrorList) {
        check_status(self.status(), old.status(), now, errs);
    }
}

const UNSET: &str = "<unset>";

/// A name that is missing is told as one that is wrong, too.
pub(super) fn check_unnamed(meta: &ObjectMeta, errs: &mut ErrorList) {
    if meta.name().is_empty() {
        errs.invalid_each(
            &FieldPath::METADATA.field("name"),
            "",
            name_validation::long_name("", false),
        );
    }
}

/// What is evicted, and what it is.
pub(super) fn target(pod: Option<&str>) -> (&str, &'static str) {
    pod.map_or((UNSET, UNSET), |pod| (pod, "Pod"))
}

/// How far an eviction has come.
pub(super) fn progress(observed: Option<i64>, conditions: &List<Condition>) -> String {
    let holds = |ty: &str| {
        conditions.find(|condition| condition.type_() == ty && condition.status() == "True")
    };
    match holds("TargetEvicted").or(holds("Failed")) {
        Some(condition) => format!("{} ({})", condition.type_(), condition.reason()),
        None if observed.unwrap_or_default() > 0 => "Progressing".to_owned(),
        None => "Pending".to_owned(),
    }
}

impl EvictionStatus {
    /// The responder that is at work, or was last.
    fn active(&self) -> Option<&TargetResponder> {
        let last =
            |state: fn(&str) -> bool| self.target_responders().iter().rfind(|it| state(it.state()));
        last(|state| state == "Active")
            .or(last(|state| matches!(state, "Canceled" | "Interrupted" | "Completed")))
    }

    fn active_status(&self) -> Option<&ResponderStatus> {
        let active = self.active()?;
        self.responders().find(|responder| responder.name() == active.name())
    }

    fn responder(&self) -> String {
        let all = self.target_responders();
        let begun = all.iter().filter(|it| it.state() != "Inactive").count();
        let name = self.active().map_or(UNSET, TargetResponder::name);
        format!("{name} ({begun}/{})", all.len())
    }

    fn state(&self, now: i64) -> String {
        let (Some(active), Some(status)) = (self.active(), self.active_status()) else {
            return UNSET.to_owned();
        };
        match (active.state(), status.start_time(), status.completion_time()) {
            ("Active", Some(start), _) => format!("Started ({} ago)", age(start, now)),
            ("Completed", _, Some(end)) => format!("Completed ({} ago)", age(end, now)),
            (state, ..) => state.to_owned(),
        }
    }

    fn finish(&self, now: i64) -> String {
        let (Some(active), Some(status)) = (self.active(), self.active_status()) else {
            return "<unknown>".to_owned();
        };
        let expected = status.expected_completion_time().filter(|_| status.start_time().is_some());
        match (active.state(), expected) {
            ("Canceled" | "Interrupted" | "Completed", _) => "-".to_owned(),
            ("Active", Some(expected)) => {
                match Time::parse_seconds(expected).unwrap_or_default() - now {
                    left if left > 0 => format!("in {}", human_duration(left)),
                    _ => format!("{} ago", age(expected, now)),
                }
            }
            _ => "<unknown>".to_owned(),
        }
    }

    fn requesting(&self) -> String {
        let wanting = self.requesters().iter().filter(|it| it.intent() != "Withdrawn");
        let mut names: Vec<_> = wanting.map(Requester::name).collect();
        names.sort_unstable();
        match names[..] {
            [] if self.requesters().is_empty() => NONE.to_owned(),
            [] => "<withdrawn>".to_owned(),
            [one] => one.to_owned(),
            [first, ..] => format!("{first} + {} more...", names.len() - 1),
        }
    }
}
