//! Status conditions that this server itself writes.

use object::{Object, Status, Time, Value, View};
use server::{ApplyRequest, Registry, RequestContext, ServedResource, UserInfo};
use store::Version;

/// A condition to set.
#[derive(Clone, Debug)]
pub(crate) struct ConditionUpdate<'a> {
    pub(crate) kind: &'a str,
    pub(crate) status: &'a str,
    pub(crate) reason: &'a str,
    pub(crate) message: &'a str,
}

impl ConditionUpdate<'_> {
    /// Writes the condition to the status of an object, unless it is already there.
    pub(crate) async fn write_if_changed(
        &self,
        registry: &Registry,
        served: &ServedResource,
        name: &str,
        object: &Value,
    ) -> Result<(), Status> {
        if self.is_in(object) {
            return Ok(());
        }
        let now = Time::format(registry.clock().now()).to_string();
        let change = |old: &Version<Value>| {
            let mut object = old.object.clone();
            self.put(&mut object, &now);
            Ok(object)
        };
        let own = UserInfo::new("system:apiserver", &["system:masters"]);
        let mut call = RequestContext::new(own, "kube-apiserver");
        registry.guaranteed_update(&mut call, served, ("", name), "status", change).await.map(drop)
    }

    /// Like `write_if_changed`, by server-side apply with this field manager.
    pub(crate) async fn apply(
        &self,
        registry: &Registry,
        served: &ServedResource,
        manager: &str,
        object: &Value,
    ) -> Result<(), Status> {
        if self.is_in(object) {
            return Ok(());
        }
        let (names, name) = (&served.definition.names, Object::view(object).metadata().name());
        let mut wanted = Value::object();
        wanted["apiVersion"] = names.api_version().into();
        wanted["kind"] = names.kind.into();
        wanted["metadata"]["name"] = name.into();
        wanted["status"]["conditions"] = self.find(object).cloned().into_iter().collect();
        self.put(&mut wanted, &Time::format(registry.clock().now()));
        let own = UserInfo::new("system:apiserver", &["system:masters"]);
        let applied = ApplyRequest { object: &wanted, force: true, creates: false };
        let mut call = RequestContext::new(own, manager);
        registry.apply(&mut call, served, ("", name), "status", applied).await.map(drop)
    }

    fn find<'v>(&self, object: &'v Value) -> Option<&'v Value> {
        let all = object.get("status").get("conditions").items();
        all.iter().find(|own| own.get("type").as_str() == Some(self.kind))
    }

    fn is_in(&self, object: &Value) -> bool {
        self.find(object).is_some_and(|own| {
            let said = ["status", "reason", "message"].map(|field| own.get(field).as_str());
            said == [Some(self.status), Some(self.reason), Some(self.message)]
        })
    }

    /// Replaces the condition of the same type. `lastTransitionTime` changes only with the status.
    fn put(&self, object: &mut Value, now: &str) {
        let old = self.find(object).filter(|own| own.get("status").as_str() == Some(self.status));
        let since = old.and_then(|own| own.get("lastTransitionTime").as_str()).unwrap_or(now);
        let mut condition = Value::object();
        condition["type"] = self.kind.into();
        condition["status"] = self.status.into();
        condition["reason"] = self.reason.into();
        condition["message"] = self.message.into();
        condition["lastTransitionTime"] = since.into();
        let others = object.get("status").get("conditions").items().iter();
        let others = others.filter(|own| own.get("type").as_str() != Some(self.kind)).cloned();
        let all: Vec<Value> = others.chain([condition]).collect();
        object["status"]["conditions"] = all.into_iter().collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_goes_with_the_status() {
        let mut object = Value::object();
        let mut condition =
            ConditionUpdate { kind: "Available", status: "True", reason: "Passed", message: "" };
        condition.put(&mut object, "2026-01-01T00:00:00Z");
        assert!(condition.is_in(&object));
        condition.reason = "Local";
        assert!(!condition.is_in(&object));
        let since = |object: &Value| {
            let all = object.get("status").get("conditions").items().to_vec();
            assert_eq!(all.len(), 1, "{all:?}");
            all[0].get("lastTransitionTime").as_str().unwrap_or_default().to_owned()
        };
        condition.put(&mut object, "2026-01-02T00:00:00Z");
        assert_eq!(since(&object), "2026-01-01T00:00:00Z");
        condition.status = "False";
        condition.put(&mut object, "2026-01-03T00:00:00Z");
        assert_eq!(since(&object), "2026-01-03T00:00:00Z");
    }
}
