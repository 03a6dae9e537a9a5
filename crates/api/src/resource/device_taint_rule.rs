//! resource/v1, v1beta2 and v1alpha3: DeviceTaintRule.

use macros::api;
use object::{Condition, List, ObjectMeta, Time};
use schema::{
    CLIENT_METADATA_FIELDS, ErrorList, FieldPath, Kind, ResourceNames, Scope, StorageConfig,
    Subresource, TableColumn, WriteContext, age,
};

use super::{DeviceTaint, slice_rules::check_pool};
use crate::{core::volume::sources::check_csi_driver, rules::ValidateField};

/// A taint for all devices that match.
#[api]
pub struct DeviceTaintRule {
    /// Standard object metadata: name, namespace, labels, annotations.
    metadata: ObjectMeta,
    /// Which devices, and what taint.
    spec: Must<DeviceTaintRuleSpec>,
    /// How far it has come.
    status: DeviceTaintRuleStatus,
}

#[api]
pub struct DeviceTaintRuleSpec {
    /// The devices; absent: none.
    device_selector: Option<DeviceTaintSelector>,
    /// The taint.
    #[api(required)]
    taint: DeviceTaint,
}

#[api]
pub struct DeviceTaintSelector {
    /// The driver.
    #[api(tag = 2)]
    driver: Option<String>,
    /// The pool.
    pool: Option<String>,
    /// The device.
    device: Option<String>,
}

#[api]
pub struct DeviceTaintRuleStatus {
    /// What holds of the rule.
    #[api(keys("type"), merge, merge_key = "type")]
    conditions: List<Condition>,
}

impl Kind for DeviceTaintRule {
    const NAMES: ResourceNames =
        ResourceNames::new("resource.k8s.io", "v1", "DeviceTaintRule", "devicetaintrules");
    const FORMER_API_VERSIONS: &'static [&'static str] =
        &["resource.k8s.io/v1alpha3", "resource.k8s.io/v1beta2"];
    const SCOPE: Scope = Scope::Cluster;
    const STORAGE: StorageConfig = StorageConfig::new("devicetaintrules", "v1beta2");
    const STATUS_KEEPS: &'static [&'static str] = CLIENT_METADATA_FIELDS;
    const SUBRESOURCES: &'static [Subresource] =
        &[Subresource::status("DeviceTaintRule").without_table()];

    const GENERATION: bool = true;
    const NEEDS: Option<&'static schema::Part> = Some(&crate::parts::DYNAMIC_RESOURCES);
    const COLUMNS: &'static [TableColumn<Self>] = &[
        TableColumn::NAME,
        TableColumn::text("Key", |rule, _| rule.spec().taint().key().into()),
        TableColumn::text("Value", |rule, _| rule.spec().taint().value().into()),
        TableColumn::text("Effect", |rule, _| rule.spec().taint().effect().into()),
        TableColumn::text("TimeAdded", |rule, now| {
            rule.spec().taint().time_added().map_or(String::new(), |time| age(time, now)).into()
        }),
        TableColumn::AGE,
    ];

    fn stamp(&mut self, by: &WriteContext) {
        if self.spec().taint().time_added().is_none() {
            self.spec_mut().taint_mut().set_time_added(Time::format(by.now));
        }
    }

    fn sign(&mut self, old: Option<&Self>, by: &WriteContext) {
        let taint = self.spec().taint();
        let anew = old.map(|old| old.spec().taint()).is_some_and(|old| {
            old.effect() != taint.effect() && old.time_added() == taint.time_added()
        });
        if anew {
            self.spec_mut().taint_mut().set_time_added(Time::format(by.now));
        }
    }

    fn validate(&self, errs: &mut ErrorList) {
        if let Some(selector) = self.spec().device_selector() {
            selector.check(&FieldPath::SPEC.field("deviceSelector"), errs);
        }
        self.spec().taint().check(&FieldPath::SPEC.field("taint"), errs);
    }

    fn validate_status(&self, _: &Self, errs: &mut ErrorList) {
        let (conditions, at) = (self.status().conditions(), FieldPath::STATUS.field("conditions"));
        errs.conditions(&at, conditions);
        errs.max_items(&at, conditions.len(), MAX_CONDITIONS);
    }
}

const MAX_CONDITIONS: usize = 8;

impl DeviceTaintSelector {
    fn check(&self, at: &FieldPath, errs: &mut ErrorList) {
        at.if_present("driver", self.driver(), |driver, at| check_csi_driver(at, driver, errs));
        at.if_present("pool", self.pool(), |pool, at| check_pool(pool, at, errs));
        at.if_present("device", self.device(), |device, at| errs.label(at, device));
    }
}
