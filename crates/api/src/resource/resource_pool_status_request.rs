//! resource/v1alpha3: ResourcePoolStatusRequest.

use macros::api;
use object::{Condition, List, ObjectMeta, Quantity, Value, saturating_i32};
use schema::{
    CLIENT_METADATA_FIELDS, ErrorList, FieldPath, Kind, ResourceNames, Scope, Subresource,
    TableColumn, age,
};

use crate::{columns::NONE, rules::ValidateField, shown::format_go_option};

/// A question about pools of devices, answered once.
#[api]
pub struct ResourcePoolStatusRequest {
    /// Standard object metadata: name, namespace, labels, annotations.
    #[api(required)]
    metadata: ObjectMeta,
    /// The question. It never changes.
    #[api(validations(Immutable))]
    spec: Must<ResourcePoolStatusRequestSpec>,
    /// The answer.
    status: Option<ResourcePoolStatusRequestStatus>,
}

#[api]
pub struct ResourcePoolStatusRequestSpec {
    /// The driver.
    #[api(validations(Required, Format("long-name-caseless")))]
    driver: Must<String>,
    /// The pool; absent: all.
    #[api(validations(Format("resource-pool-name")))]
    pool_name: Option<String>,
    /// How many pools to tell of at most.
    #[api(default = 100, validations(Min(1), Max(1000)))]
    limit: Option<i32>,
    /// The attribute that distinguishes kinds of partitions.
    #[api(
        feature_gate = "DRAPartitionableDevicesType",
        validations(Format("resource-fully-qualified-name"))
    )]
    default_partition_type_attribute: Option<String>,
}

#[api]
pub struct ResourcePoolStatusRequestStatus {
    /// How many pools there are.
    #[api(tag = 6, required, validations(Required, Min(0)))]
    pool_count: Option<i32>,
    /// The pools.
    #[api(tag = 2, validations(MaxItems(1000)))]
    pools: List<PoolStatus>,
    /// What holds of the question.
    #[api(keys("type"), merge, merge_key = "type", validations(MaxItems(10)))]
    conditions: List<Condition>,
}

#[api]
pub struct PoolStatus {
    /// The driver.
    #[api(required, validations(Required, Format("long-name-caseless")))]
    driver: String,
    /// The pool's name.
    #[api(required, validations(Required, Format("resource-pool-name")))]
    pool_name: String,
    /// Which state of the pool this is.
    #[api(tag = 9, validations(Required, Min(0)))]
    generation: Must<i64>,
    /// How many slices it has.
    #[api(tag = 8, validations(Min(1)))]
    resource_slice_count: Option<i32>,
    /// How many devices there are.
    #[api(tag = 4, validations(Min(0)))]
    total_devices: Option<i32>,
    /// How many are in use.
    #[api(validations(Min(0)))]
    allocated_devices: Option<i32>,
    /// How many are free.
    #[api(validations(Min(0)))]
    available_devices: Option<i32>,
    /// How many cannot be used.
    #[api(validations(Min(0)))]
    unavailable_devices: Option<i32>,
    /// The node that has it.
    #[api(tag = 3, validations(Format("long-name")))]
    node_name: Option<String>,
    /// What is wrong with it.
    #[api(tag = 10, validations(MaxBytes(256)))]
    validation_error: Option<String>,
    /// How many partitions there are.
    #[api(validations(MaxItems(32), UniqueBy("attribute", "type")))]
    partition_summary: List<PartitionTypeStatus>,
    /// How much of shared devices there is.
    #[api(tag = 13)]
    shareable_summary: Option<ShareableSummaryStatus>,
}

#[api]
pub struct PartitionTypeStatus {
    /// The attribute that distinguishes the kinds.
    #[api(tag = 4, required, validations(Required))]
    attribute: String,
    /// The kind.
    #[api(tag = 1, required, validations(Required))]
    type_: String,
    /// How many there are.
    #[api(required, validations(Required, Min(0)))]
    total: Option<i32>,
    /// How many could still be used.
    #[api(required, validations(Required, Min(0)))]
    allocatable: Option<i32>,
}

#[api]
pub struct ShareableSummaryStatus {
    /// Number of unused devices.
    #[api(required, validations(Required, Min(0)))]
    fully_available_devices: Option<i32>,
    /// Devices that have room left.
    #[api(required, validations(Required, Min(0)))]
    partially_available_devices: Option<i32>,
    /// Available amounts, by name.
    #[api(validations(MaxItems(32)))]
    capacity: List<ShareableCapacityStatus>,
}

#[api]
pub struct ShareableCapacityStatus {
    /// Name of the capacity.
    #[api(required, validations(Required))]
    name: String,
    /// How much there is.
    #[api(required, validations(Required))]
    total: Option<Quantity>,
    /// How much is in use.
    #[api(required, validations(Required))]
    consumed: Option<Quantity>,
    /// How much is left.
    #[api(required, validations(Required))]
    available: Option<Quantity>,
}

impl Kind for ResourcePoolStatusRequest {
    const NAMES: ResourceNames = ResourceNames::new(
        "resource.k8s.io",
        "v1alpha3",
        "ResourcePoolStatusRequest",
        "resourcepoolstatusrequests",
    );
    const FORMER_API_VERSIONS: &'static [&'static str] =
        &["resource.k8s.io/v1alpha3", "resource.k8s.io/v1beta1", "resource.k8s.io/v1beta2"];
    const SCOPE: Scope = Scope::Cluster;
    const SHOWS_DELETED: bool = true;
    const BLIND_UPDATES: bool = false;
    const STATUS_KEEPS: &'static [&'static str] = CLIENT_METADATA_FIELDS;
    const DEFAULT_ON: bool = false;
    const SUBRESOURCES: &'static [Subresource] =
        &[Subresource::status("ResourcePoolStatusRequest").without_table()];

    const COLUMNS: &'static [TableColumn<Self>] = &[
        TableColumn::NAME,
        TableColumn::text("Driver", |this, _| this.spec().driver().into()),
        TableColumn::text("Total", |this, _| this.sum(PoolStatus::total_devices)),
        TableColumn::text("Available", |this, _| this.sum(PoolStatus::available_devices)),
        TableColumn::text("Allocated", |this, _| this.sum(PoolStatus::allocated_devices)),
        TableColumn::text("Unavailable", |this, _| this.sum(PoolStatus::unavailable_devices)),
        TableColumn::text("Errors", |this, _| {
            this.sum(|pool| Some(i32::from(pool.validation_error().is_some())))
        }),
        TableColumn::new("Pools", "integer", |this, _| {
            let pools = this.status().and_then(ResourcePoolStatusRequestStatus::pool_count);
            pools.unwrap_or_default().into()
        }),
        TableColumn::text("Status", |this, _| this.state().into()),
        TableColumn::text("Completed", |this, now| match this.holds("Complete") {
            Some(condition) => age(condition.last_transition_time(), now).into(),
            None => NONE.into(),
        }),
    ];

    fn prepare_create(&mut self) {
        self.clear_status();
    }

    fn validate_status(&self, old: &Self, errs: &mut ErrorList) {
        let at = FieldPath::STATUS;
        match (self.status(), old.status()) {
            (new, Some(old)) if new != Some(old) => {
                errs.invalid_formatted(&at, format_go_option(new), "field is immutable");
            }
            (Some(new), None) => errs.conditions(&at.field("conditions"), new.conditions()),
            _ => {}
        }
    }
}

impl ResourcePoolStatusRequest {
    /// The condition of this type, if it holds before any other that ends the request.
    fn holds(&self, ty: &str) -> Option<&Condition> {
        let conditions = self.status()?.conditions();
        let ended = |condition: &&Condition| {
            matches!(condition.type_(), "Complete" | "Failed") && condition.status() == "True"
        };
        conditions.iter().find(ended).filter(|condition| condition.type_() == ty)
    }

    fn sum(&self, of: impl Fn(&PoolStatus) -> Option<i32>) -> Value {
        match self.status() {
            Some(status) if self.holds("Failed").is_none() => {
                let sum = status.pools().iter().filter_map(of).fold(0, i32::saturating_add);
                sum.to_string().into()
            }
            _ => "-".into(),
        }
    }

    fn state(&self) -> String {
        let Some(status) = self.status() else { return "Pending".to_owned() };
        if self.holds("Failed").is_some() {
            return "Failed".to_owned();
        } else if self.holds("Complete").is_none() {
            return "Pending".to_owned();
        }
        let (shown, all) =
            (saturating_i32(status.pools().len()), status.pool_count().unwrap_or_default());
        if all > shown { format!("Complete ({shown}/{all} pools)") } else { "Complete".to_owned() }
    }
}
