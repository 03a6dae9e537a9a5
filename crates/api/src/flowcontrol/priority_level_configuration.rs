//! flowcontrol/v1: PriorityLevelConfiguration.

use macros::api;
use object::{Lens, List, ObjectMeta, Time, Value, from_json};
use schema::{
    ErrorList, FieldPath, Kind, ResourceNames, Scope, Subresource, TableColumn, normalize,
};

use crate::{columns::NONE, rules::or_null, shown::format_go};

/// How many requests of one priority are served at once.
#[api]
pub struct PriorityLevelConfiguration {
    /// Standard object metadata: name, namespace, labels, annotations.
    metadata: ObjectMeta,
    /// How many, and what happens to the rest.
    #[api(required)]
    spec: PriorityLevelConfigurationSpec,
    /// What the server makes of it.
    status: PriorityLevelConfigurationStatus,
}

#[api]
pub struct PriorityLevelConfigurationSpec {
    /// Whether there is a limit: Limited, Exempt.
    #[api(go_type = "v1.PriorityLevelEnablement", validations(Required), discriminator)]
    type_: Must<String>,
    /// The limit.
    #[api(union)]
    limited: Option<LimitedPriorityLevelConfiguration>,
    /// What a level without a limit gives to others.
    #[api(union)]
    exempt: Option<ExemptPriorityLevelConfiguration>,
}

#[api]
pub struct LimitedPriorityLevelConfiguration {
    /// Its share of the server's concurrency.
    #[api(default = 30, unpublished_default)]
    nominal_concurrency_shares: Option<i32>,
    /// What happens to requests that must wait.
    #[api(required)]
    limit_response: LimitResponse,
    /// How much of its part others may borrow.
    #[api(default = 0, unpublished_default)]
    lendable_percent: Option<i32>,
    /// How much it may borrow, in parts of its own.
    borrowing_limit_percent: Option<i32>,
}

#[api]
pub struct LimitResponse {
    /// Whether they wait: Queue, Reject.
    #[api(go_type = "v1.LimitResponseType", validations(Required), discriminator)]
    type_: Must<String>,
    /// How they wait.
    #[api(union)]
    queuing: Option<QueuingConfiguration>,
}

#[api]
pub struct QueuingConfiguration {
    /// How many queues there are.
    #[api(no_omitempty, default = 64, unpublished_default)]
    queues: i32,
    /// How many of them a flow may use.
    #[api(no_omitempty, default = 8, unpublished_default)]
    hand_size: i32,
    /// How many requests wait in one.
    #[api(no_omitempty, default = 50, unpublished_default)]
    queue_length_limit: i32,
}

#[api]
pub struct ExemptPriorityLevelConfiguration {
    /// Its share of the server's concurrency.
    #[api(default = 0, unpublished_default)]
    nominal_concurrency_shares: Option<i32>,
    /// How much of its part others may borrow.
    #[api(default = 0, unpublished_default)]
    lendable_percent: Option<i32>,
}

#[api]
pub struct PriorityLevelConfigurationStatus {
    /// What holds of the level.
    #[api(keys("type"), merge, merge_key = "type")]
    conditions: List<PriorityLevelConfigurationCondition>,
}

#[api]
pub struct PriorityLevelConfigurationCondition {
    /// Type of the condition.
    #[api(required, go_type = "v1.PriorityLevelConfigurationConditionType")]
    type_: String,
    /// Whether it holds: True, False, Unknown.
    #[api(go_type = "v1.ConditionStatus")]
    status: String,
    /// When it last changed.
    last_transition_time: Time,
    /// Why, in a word.
    reason: String,
    /// Why, for people.
    message: String,
}

impl Kind for PriorityLevelConfiguration {
    const NAMES: ResourceNames = ResourceNames::new(
        "flowcontrol.apiserver.k8s.io",
        "v1",
        "PriorityLevelConfiguration",
        "prioritylevelconfigurations",
    );
    const UPDATE_CHECKS_GENERATE_NAME: bool = true;
    const FORMER_API_VERSIONS: &'static [&'static str] = &[
        "flowcontrol.apiserver.k8s.io/v1beta1",
        "flowcontrol.apiserver.k8s.io/v1beta2",
        "flowcontrol.apiserver.k8s.io/v1beta3",
    ];
    const SCOPE: Scope = Scope::Cluster;
    const STATUS_KEEPS: &'static [&'static str] = &["*"];
    const GENERATION: bool = true;
    const COLUMNS: &'static [TableColumn<Self>] = &[
        TableColumn::NAME,
        TableColumn::text("Type", |level, _| level.spec().type_().into()),
        TableColumn::text("NominalConcurrencyShares", |level, _| {
            level.spec().limited().map_or(NONE.into(), |it| it.nominal_concurrency_shares().into())
        }),
        TableColumn::text("Queues", |level, _| level.queuing(QueuingConfiguration::queues)),
        TableColumn::text("HandSize", |level, _| level.queuing(QueuingConfiguration::hand_size)),
        TableColumn::text("QueueLengthLimit", |level, _| {
            level.queuing(QueuingConfiguration::queue_length_limit)
        }),
        TableColumn::AGE,
    ];
    const SUBRESOURCES: &'static [Subresource] =
        &[Subresource::status("PriorityLevelConfiguration")];

    fn validate(&self, errs: &mut ErrorList) {
        if self.metadata().annotations().get(KEEP_ZERO).is_some() {
            let why = format!("annotation '{KEEP_ZERO}' is forbidden");
            errs.forbidden(&FieldPath::METADATA.field("annotations"), why);
        }
        self.spec().check(self.metadata().name(), &FieldPath::SPEC, errs);
        self.check_fixed(&FieldPath::SPEC, errs);
        self.validate_status(self, errs);
    }

    fn validate_update(&self, _: &Self, errs: &mut ErrorList) {
        self.validate(errs);
    }

    fn validate_status(&self, _: &Self, errs: &mut ErrorList) {
        let types = self.status().conditions().iter();
        let types = types.map(PriorityLevelConfigurationCondition::type_);
        super::check_conditions(types, errs);
    }
}

/// What older versions said to keep a share of zero.
const KEEP_ZERO: &str = "flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares";
const MAX_QUEUES: i32 = 10_000_000;
/// How much of a hash can be used to choose queues.
const MAX_BITS: u32 = 60;
/// The mandatory level beside the exempt one.
const CATCH_ALL: &str = r#"{"type":"Limited","limited":{"nominalConcurrencyShares":5,
    "lendablePercent":0,"limitResponse":{"type":"Reject"}}}"#;

impl PriorityLevelConfiguration {
    fn queuing(&self, of: fn(&QueuingConfiguration) -> i32) -> Value {
        let limited = self.spec().limited();
        let queuing = limited.and_then(|limited| limited.limit_response().queuing());
        queuing.map_or(NONE.into(), |queuing| of(queuing).into())
    }

    fn check_fixed(&self, at: &FieldPath, errs: &mut ErrorList) {
        let spec = self.spec();
        let (kept, except) = match self.metadata().name() {
            "exempt" => (
                spec.type_() == "Exempt" && spec.limited().is_none(),
                " except the 'spec.exempt' field",
            ),
            "catch-all" => {
                let mut fixed = from_json(CATCH_ALL.as_bytes()).expect("written above");
                normalize(PriorityLevelConfigurationSpec::SHAPE, &mut fixed);
                (*spec.tree() == fixed, "")
            }
            _ => return,
        };
        if !kept {
            let shown = format_go(spec);
            let name = self.metadata().name();
            let why = format!("spec of '{name}'{except} must equal the fixed value");
            errs.invalid_formatted(at, shown, why);
        }
    }
}

impl PriorityLevelConfigurationSpec {
    fn check(&self, name: &str, at: &FieldPath, errs: &mut ErrorList) {
        if (name == "exempt") != (self.type_() == "Exempt") {
            let why = "must be 'Exempt' if and only if `name` is 'exempt'";
            errs.invalid(&at.field("type"), self.type_(), why);
        }
        let ty = self.type_();
        if let Some(limited) = self.limited() {
            limited.limit_response().check_union(&at.field("limited").field("limitResponse"), errs);
        }
        match (self.limited(), ty) {
            (Some(limited), "Limited") => limited.check(&at.field("limited"), errs),
            (Some(_), _) => errs.forbidden(&at.field("limited"), ""),
            (None, "Limited") => errs.required(&at.field("limited"), ""),
            (None, _) => {}
        }
        match (self.exempt(), ty) {
            (Some(exempt), "Exempt") => {
                let at = at.field("exempt");
                check_shares(exempt.nominal_concurrency_shares(), &at, errs);
                check_lendable(exempt.lendable_percent(), &at, errs);
            }
            (Some(_), _) => errs.forbidden(&at.field("exempt"), ""),
            (None, _) => {}
        }
        if !matches!(ty, "" | "Exempt" | "Limited") {
            errs.not_supported(&at.field("type"), ty, &["Exempt", "Limited"]);
        }
    }
}

impl LimitedPriorityLevelConfiguration {
    fn check(&self, at: &FieldPath, errs: &mut ErrorList) {
        check_shares(self.nominal_concurrency_shares(), at, errs);
        self.limit_response().check(&at.field("limitResponse"), errs);
        check_lendable(self.lendable_percent(), at, errs);
        if self.borrowing_limit_percent().is_some_and(|percent| percent < 0) {
            let why = "if specified, must be a non-negative integer";
            let bad = or_null(self.borrowing_limit_percent());
            errs.invalid(&at.field("borrowingLimitPercent"), bad, why);
        }
    }
}

impl LimitResponse {
    /// Errors that are reported for exempt levels too.
    fn check_union(&self, at: &FieldPath, errs: &mut ErrorList) {
        match (self.queuing(), self.type_()) {
            (None, "Queue") => errs.required(&at.field("queuing"), ""),
            (None, _) | (Some(_), "Queue") => {}
            (Some(_), _) => errs.forbidden(&at.field("queuing"), ""),
        }
    }

    fn check(&self, at: &FieldPath, errs: &mut ErrorList) {
        if let (Some(queuing), "Queue") = (self.queuing(), self.type_()) {
            queuing.check(&at.field("queuing"), errs);
        }
        if !matches!(self.type_(), "" | "Queue" | "Reject") {
            errs.not_supported(&at.field("type"), self.type_(), &["Queue", "Reject"]);
        }
    }
}

impl QueuingConfiguration {
    fn check(&self, at: &FieldPath, errs: &mut ErrorList) {
        let (queues, hand) = (self.queues(), self.hand_size());
        if self.queue_length_limit() <= 0 {
            let at = at.field("queueLengthLimit");
            errs.invalid(&at, self.queue_length_limit(), "must be positive");
        }
        if queues <= 0 {
            errs.invalid(&at.field("queues"), queues, "must be positive");
        } else if queues > MAX_QUEUES {
            let why = format!("must not be greater than {MAX_QUEUES}");
            errs.invalid(&at.field("queues"), queues, why);
        }
        let at = at.field("handSize");
        if hand <= 0 {
            errs.invalid(&at, hand, "must be positive");
        } else if hand > queues {
            let why = format!("should not be greater than queues ({queues})");
            errs.invalid(&at, hand, why);
        } else if (f64::from(queues).log2() * f64::from(hand)).ceil() > f64::from(MAX_BITS) {
            let why = format!(
                "required entropy bits of deckSize {queues} and handSize {hand} should not be \
                 greater than {MAX_BITS}"
            );
            errs.invalid(&at, hand, why);
        }
    }
}

fn check_shares(shares: i32, at: &FieldPath, errs: &mut ErrorList) {
    if shares < 0 {
        let at = at.field("nominalConcurrencyShares");
        errs.invalid(&at, shares, "must be a non-negative integer");
    }
}

fn check_lendable(percent: i32, at: &FieldPath, errs: &mut ErrorList) {
    if !(0..=100).contains(&percent) {
        let why = "must be between 0 and 100, inclusive";
        errs.invalid(&at.field("lendablePercent"), percent, why);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{create_errors, created_from_json};

    #[test]
    fn hands_are_not_larger_than_the_deck() {
        let level: PriorityLevelConfiguration = created_from_json(
            r#"{"metadata":{"name":"l"},"spec":{"type":"Limited","limited":{"limitResponse":{
                "type":"Queue","queuing":{"queues":2,"handSize":3}}}}}"#,
        );
        let wrong = create_errors(&level);
        let at = "spec.limited.limitResponse.queuing.handSize";
        let why = "should not be greater than queues (2)";
        assert_eq!(wrong, [format!("{at}: Invalid value: 3: {why}")]);
    }

    #[test]
    fn queues_are_asked_for_whatever_the_type_of_the_level() {
        let level: PriorityLevelConfiguration = created_from_json(
            r#"{"metadata":{"name":"l"},"spec":{"type":"X","limited":{"limitResponse":{"type":"Queue"}}}}"#,
        );
        let wrong = create_errors(&level);
        let at = "spec.limited.limitResponse.queuing: Required value";
        assert!(wrong.iter().any(|wrong| wrong == at), "{wrong:?}");
    }
}
