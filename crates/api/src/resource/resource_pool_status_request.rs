//! resource/v1alpha3: ResourcePoolStatusRequest.

use macros::api;
use object::{Condition, List, ObjectMeta, Quantity, Value, count};
use schema::{Column, Errors, Kind, METADATA, Names, Path, Scope, Subresource, age};

use crate::{columns::NONE, rules::Rules, shown::shown_or_null};

/// A question about pools of devices, answered once.
#[api]
pub struct ResourcePoolStatusRequest {
    /// Standard object metadata: name, namespace, labels, annotations.
    #[api(required)]
    metadata: ObjectMeta,
    /// The question. It never changes.
    #[api(checks(Immutable))]
    spec: Must<ResourcePoolStatusRequestSpec>,
    /// The answer.
    status: Option<ResourcePoolStatusRequestStatus>,
}

#[api]
pub struct ResourcePoolStatusRequestSpec {
    /// The driver.
    #[api(checks(Filled, Format("long-name-caseless")))]
    driver: Must<String>,
    /// The pool; absent: all.
    #[api(checks(Format("resource-pool-name")))]
    pool_name: Option<String>,
    /// How many pools to tell of at most.
    #[api(default = 100, checks(Min(1), Max(1000)))]
    limit: Option<i32>,
    /// The property that tells kinds of partitions apart.
    #[api(gate = "DRAPartitionableDevicesType", checks(Format("resource-fully-qualified-name")))]
    default_partition_type_attribute: Option<String>,
}

#[api]
pub struct ResourcePoolStatusRequestStatus {
    /// How many pools there are.
    #[api(tag = 6, required, checks(Filled, Min(0)))]
    pool_count: Option<i32>,
    /// The pools.
    #[api(tag = 2, checks(MaxItems(1000)))]
    pools: List<PoolStatus>,
    /// What holds of the question.
    #[api(keys("type"), merge, merge_key = "type", checks(MaxItems(10)))]
    conditions: List<Condition>,
}

#[api]
pub struct PoolStatus {
    /// The driver.
    #[api(required, checks(Filled, Format("long-name-caseless")))]
    driver: String,
    /// The pool's name.
    #[api(required, checks(Filled, Format("resource-pool-name")))]
    pool_name: String,
    /// Which state of the pool this is.
    #[api(tag = 9, checks(Filled, Min(0)))]
    generation: Must<i64>,
    /// How many slices it has.
    #[api(tag = 8, checks(Min(1)))]
    resource_slice_count: Option<i32>,
    /// How many devices there are.
    #[api(tag = 4, checks(Min(0)))]
    total_devices: Option<i32>,
    /// How many are in use.
    #[api(checks(Min(0)))]
    allocated_devices: Option<i32>,
    /// How many are free.
    #[api(checks(Min(0)))]
    available_devices: Option<i32>,
    /// How many cannot be used.
    #[api(checks(Min(0)))]
    unavailable_devices: Option<i32>,
    /// The node that has it.
    #[api(tag = 3, checks(Format("long-name")))]
    node_name: Option<String>,
    /// What is wrong with it.
    #[api(tag = 10, checks(MaxBytes(256)))]
    validation_error: Option<String>,
    /// How many partitions there are.
    #[api(checks(MaxItems(32), UniqueBy("attribute", "type")))]
    partition_summary: List<PartitionTypeStatus>,
    /// How much of shared devices there is.
    #[api(tag = 13)]
    shareable_summary: Option<ShareableSummaryStatus>,
}

#[api]
pub struct PartitionTypeStatus {
    /// The property that tells kinds apart.
    #[api(tag = 4, required, checks(Filled))]
    attribute: String,
    /// The kind.
    #[api(tag = 1, required, checks(Filled))]
    type_: String,
    /// How many there are.
    #[api(required, checks(Filled, Min(0)))]
    total: Option<i32>,
    /// How many could still be used.
    #[api(required, checks(Filled, Min(0)))]
    allocatable: Option<i32>,
}

#[api]
pub struct ShareableSummaryStatus {
    /// Devices that nobody uses.
    #[api(required, checks(Filled, Min(0)))]
    fully_available_devices: Option<i32>,
    /// Devices that have room left.
    #[api(required, checks(Filled, Min(0)))]
    partially_available_devices: Option<i32>,
    /// How much there is of what.
    #[api(checks(MaxItems(32)))]
    capacity: List<ShareableCapacityStatus>,
}

#[api]
pub struct ShareableCapacityStatus {
    /// Name of the capacity.
    #[api(required, checks(Filled))]
    name: String,
    /// How much there is.
    #[api(required, checks(Filled))]
    total: Option<Quantity>,
    /// How much is in use.
    #[api(required, checks(Filled))]
    consumed: Option<Quantity>,
    /// How much is left.
    #[api(required, checks(Filled))]
    available: Option<Quantity>,
}

impl Kind for ResourcePoolStatusRequest {
    const NAMES: Names = Names::new(
        "resource.k8s.io",
        "v1alpha3",
        "ResourcePoolStatusRequest",
        "resourcepoolstatusrequests",
    );
    const SCOPE: Scope = Scope::Cluster;
    const SHOWS_DELETED: bool = true;
    const BLIND_UPDATES: bool = false;
    const STATUS_KEEPS: &'static [&'static str] = METADATA;
    const DEFAULT_ON: bool = false;
    const SUBRESOURCES: &'static [Subresource] =
        &[Subresource::status("ResourcePoolStatusRequest")];

    const COLUMNS: &'static [Column<Self>] = &[
        Column::NAME,
        Column::text("Driver", |this, _| this.spec().driver().into()),
        Column::text("Total", |this, _| this.sum(PoolStatus::total_devices)),
        Column::text("Available", |this, _| this.sum(PoolStatus::available_devices)),
        Column::text("Allocated", |this, _| this.sum(PoolStatus::allocated_devices)),
        Column::text("Unavailable", |this, _| this.sum(PoolStatus::unavailable_devices)),
        Column::text("Errors", |this, _| {
            this.sum(|pool| Some(i32::from(pool.validation_error().is_some())))
        }),
        Column::new("Pools", "integer", |this, _| {
            let pools = this.status().and_then(ResourcePoolStatusRequestStatus::pool_count);
            pools.unwrap_or_default().into()
        }),
        Column::text("Status", |this, _| this.state().into()),
        Column::text("Completed", |this, now| match this.holds("Complete") {
            Some(condition) => age(condition.last_transition_time(), now).into(),
            None => NONE.into(),
        }),
    ];

    fn prepare_create(&mut self) {
        self.clear_status();
    }

    fn validate_status(&self, old: &Self, errs: &mut Errors) {
        let at = Path::STATUS;
        match (self.status(), old.status()) {
            (new, Some(old)) if new != Some(old) => {
                errs.invalid_shown(&at, shown_or_null(new), "field is immutable");
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
        let (shown, all) = (count(status.pools().len()), status.pool_count().unwrap_or_default());
        if all > shown { format!("Complete ({shown}/{all} pools)") } else { "Complete".to_owned() }
    }
}
