//! Impersonation. The legacy verb `impersonate` permits acting as a user without restriction.
//! Constrained impersonation needs two permissions: whom to impersonate (`impersonate:MODE`), and
//! what to do as that user (`impersonate-on:MODE:VERB`). The modes are: a node, the node that the
//! service account's pod runs on, a service account, and any other user.

use std::collections::BTreeMap;

use http::request::Parts;
use object::{
    Status, Text,
    names::{dns1123_label, dns1123_subdomain},
};

use crate::{
    Attributes, Server, UserInfo,
    filters::{authorize, forbidden},
    identity_headers::{Unusable, extra, single, values},
};

const AUTHENTICATION: &str = "authentication.k8s.io";
/// With at least so many values, `*` is authorized first, to save requests to the authorizers.
const MANY: usize = 4;

/// The impersonation modes, in the order in which they are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ImpersonationMode {
    AssociatedNode,
    ArbitraryNode,
    ServiceAccount,
    UserInfo,
    /// Unrestricted, by the verb `impersonate`.
    Legacy,
}

const MODES: [ImpersonationMode; 5] = [
    ImpersonationMode::AssociatedNode,
    ImpersonationMode::ArbitraryNode,
    ImpersonationMode::ServiceAccount,
    ImpersonationMode::UserInfo,
    ImpersonationMode::Legacy,
];

/// The user to impersonate and the verb that permitted it, which is empty for legacy impersonation;
/// `None` if the request does not impersonate. `asked` returns the attributes of the request.
pub(crate) async fn impersonate(
    server: &Server,
    head: &Parts,
    user: &UserInfo,
    asked: impl FnOnce() -> Attributes,
) -> Result<Option<(UserInfo, Text)>, Status> {
    let Some(wanted) = requested_user(head)? else { return Ok(None) };
    let (mut first, asked) = (None, asked());
    for mode in MODES.into_iter().filter(|mode| mode.applies(&wanted, user)) {
        match (ImpersonationCheck { server, user, mode }).check(&wanted, &asked).await {
            Ok(actual) if mode == ImpersonationMode::Legacy => {
                return Ok(Some((actual, Text::default())));
            }
            Ok(actual) => return Ok(Some((actual, mode.verb()))),
            Err(status) => first = first.or(Some(status)),
        }
    }
    Err(first.unwrap_or_else(|| Status::internal("all impersonation modes failed")))
}

/// The user that the headers name; `None` if there is none. Upstream treats an empty name as absent
/// and uses the first of several; here both are errors, because the client meant to impersonate a
/// user.
fn requested_user(head: &Parts) -> Result<Option<UserInfo>, Status> {
    let read = || -> Result<(Option<&str>, UserInfo), Unusable> {
        let headers = &head.headers;
        let name = single(headers, "impersonate-user")?;
        let groups = values(headers, "impersonate-group")?;
        let mut wanted = UserInfo::new(name.unwrap_or_default(), &groups);
        wanted.uid = single(headers, "impersonate-uid")?.unwrap_or_default().into();
        extra(headers, "impersonate-extra-", &mut wanted.extra)?;
        Ok((name, wanted))
    };
    let (name, wanted) = read().map_err(|why| Status::bad_request(why.to_string()))?;
    match name {
        None if only_name(&wanted) => Ok(None),
        None | Some("") => {
            let why = format!("requested {} without impersonating a user name", go_user(&wanted));
            Err(Status::bad_request(why))
        }
        Some(_) => Ok(Some(wanted)),
    }
}

impl ImpersonationMode {
    fn name(self) -> &'static str {
        match self {
            Self::AssociatedNode => "associated-node",
            Self::ArbitraryNode => "arbitrary-node",
            Self::ServiceAccount => "serviceaccount",
            Self::UserInfo => "user-info",
            Self::Legacy => "",
        }
    }

    fn verb(self) -> Text {
        match self {
            Self::Legacy => "impersonate".into(),
            mode => format!("impersonate:{}", mode.name()).into(),
        }
    }

    fn applies(self, wanted: &UserInfo, user: &UserInfo) -> bool {
        let (node, account) = (node(&wanted.name), account(&wanted.name));
        match self {
            Self::AssociatedNode => {
                let on = user.extra.get("authentication.kubernetes.io/node-name");
                let on = on.filter(|on| on.len() == 1).and_then(|on| on.first());
                only_name(wanted)
                    && node.is_some()
                    && node == on.map(String::as_str)
                    && self::account(&user.name).is_some()
            }
            Self::ArbitraryNode => only_name(wanted) && node.is_some(),
            Self::ServiceAccount => only_name(wanted) && account.is_some(),
            Self::UserInfo => node.is_none() && account.is_none(),
            Self::Legacy => true,
        }
    }
}

/// Authorizes impersonation in one mode.
struct ImpersonationCheck<'a> {
    server: &'a Server,
    user: &'a UserInfo,
    mode: ImpersonationMode,
}

impl ImpersonationCheck<'_> {
    async fn check(&self, wanted: &UserInfo, asked: &Attributes) -> Result<UserInfo, Status> {
        if self.mode != ImpersonationMode::Legacy {
            let verb = format!("impersonate-on:{}:{}", self.mode.name(), asked.verb);
            self.allow(&Attributes { verb: verb.into(), ..asked.clone() }).await?;
        }
        let mut actual = wanted.clone();
        self.name(wanted, &mut actual).await?;
        if !wanted.uid.is_empty() {
            self.allow(&self.attributes(AUTHENTICATION, "uids", &wanted.uid)).await?;
        }
        self.groups(&wanted.groups).await?;
        self.extra(&wanted.extra).await?;
        let group = match &*actual.name {
            "system:anonymous" => "system:unauthenticated",
            _ if actual.in_group("system:unauthenticated") => return Ok(actual),
            _ => "system:authenticated",
        };
        if !actual.in_group(group) {
            actual.groups.push(group.into());
        }
        Ok(actual)
    }

    async fn name(&self, wanted: &UserInfo, actual: &mut UserInfo) -> Result<(), Status> {
        let narrow = self.mode != ImpersonationMode::Legacy;
        let mut attributes = self.attributes(self.group(), "users", &wanted.name);
        if let Some(name) = node(&wanted.name).filter(|_| narrow) {
            attributes.resource = "nodes".into();
            attributes.name = if self.mode == ImpersonationMode::AssociatedNode {
                "*".into()
            } else {
                name.into()
            };
            actual.groups = vec!["system:nodes".into()];
        } else if let Some((namespace, name)) = account(&wanted.name) {
            attributes.resource = "serviceaccounts".into();
            (attributes.namespace, attributes.name) = (namespace.into(), name.into());
            if wanted.groups.is_empty() {
                actual.groups = vec![
                    "system:serviceaccounts".into(),
                    format!("system:serviceaccounts:{namespace}").into(),
                ];
            }
        }
        self.allow(&attributes).await
    }

    async fn groups(&self, groups: &[Text]) -> Result<(), Status> {
        let mut attributes = self.attributes(self.group(), "groups", "");
        if self.mode != ImpersonationMode::Legacy {
            for (group, why) in [
                ("", "impersonating the empty string group is not allowed"),
                ("system:masters", "impersonating the system:masters group is not allowed"),
            ] {
                if groups.iter().any(|own| own == group) {
                    attributes.name = group.into();
                    return Err(forbidden(self.user, &attributes, why));
                }
            }
            attributes.name = "*".into();
            if groups.len() >= MANY && self.allow(&attributes).await.is_ok() {
                return Ok(());
            }
        }
        for group in groups {
            attributes.name = group.clone();
            self.allow(&attributes).await?;
        }
        Ok(())
    }

    async fn extra(&self, extra: &BTreeMap<String, Vec<String>>) -> Result<(), Status> {
        let mut attributes = self.attributes(AUTHENTICATION, "userextras", "");
        if self.mode != ImpersonationMode::Legacy {
            for (key, values) in extra {
                let why = if key.is_empty() {
                    "impersonating the empty string key in extra is not allowed".to_owned()
                } else if !is_domain_prefixed(key) {
                    format!(
                        "impersonating an invalid key in extra is not allowed: extra.key: Invalid \
                         value: {key:?}: must be a domain-prefixed path (such as \
                         \"acme.io/foo\")"
                    )
                } else if *key != key.to_lowercase() {
                    format!("impersonating a non-lowercase key in extra is not allowed: {key:?}")
                } else if values.is_empty() {
                    "impersonating empty values in extra is not allowed".to_owned()
                } else if values.iter().any(String::is_empty) {
                    "impersonating the empty string value in extra is not allowed".to_owned()
                } else {
                    continue;
                };
                return Err(forbidden(self.user, &attributes, &why));
            }
            let many = extra.values().map(Vec::len).sum::<usize>() >= MANY;
            (attributes.subresource, attributes.name) = ("*".into(), "*".into());
            if many && self.allow(&attributes).await.is_ok() {
                return Ok(());
            }
        }
        for (key, values) in extra {
            attributes.subresource = key.as_str().into();
            for value in values {
                attributes.name = value.as_str().into();
                self.allow(&attributes).await?;
            }
        }
        Ok(())
    }

    async fn allow(&self, attributes: &Attributes) -> Result<(), Status> {
        if self.mode != ImpersonationMode::AssociatedNode {
            return authorize(self.server, self.user, attributes).await;
        }
        // The decision must not depend on the node that the service account's pod runs on, so the
        // extra values are replaced by their keys.
        let mut user = self.user.clone();
        let keys = user.extra.keys().cloned().collect();
        let key = "authentication.kubernetes.io/associated-node-keys".to_owned();
        user.extra = BTreeMap::from([(key, keys)]);
        authorize(self.server, &user, attributes).await
    }

    /// The API group of the resources `users` and `groups` in this mode.
    fn group(&self) -> &'static str {
        if self.mode == ImpersonationMode::Legacy { "" } else { AUTHENTICATION }
    }

    fn attributes(&self, group: &str, resource: &str, name: &str) -> Attributes {
        Attributes {
            verb: self.mode.verb(),
            group: group.into(),
            version: "v1".into(),
            resource: resource.into(),
            name: name.into(),
            is_resource: true,
            ..Attributes::default()
        }
    }
}

fn only_name(user: &UserInfo) -> bool {
    user.uid.is_empty() && user.groups.is_empty() && user.extra.is_empty()
}

/// The node name in the user name of a kubelet.
fn node(name: &str) -> Option<&str> {
    name.strip_prefix("system:node:").filter(|node| dns1123_subdomain(node).is_empty())
}

/// The namespace and name in the user name of a service account.
fn account(name: &str) -> Option<(&str, &str)> {
    let (namespace, name) = name.strip_prefix("system:serviceaccount:")?.split_once(':')?;
    let is_one = dns1123_label(namespace).is_empty() && dns1123_subdomain(name).is_empty();
    is_one.then_some((namespace, name))
}

/// Whether a key is a path below a domain, such as `acme.io/foo`.
fn is_domain_prefixed(key: &str) -> bool {
    let legal = |c: char| c.is_ascii_alphanumeric() || "/-._~%!$&'()*+,;=:".contains(c);
    key.split_once('/').is_some_and(|(domain, path)| {
        !path.is_empty() && dns1123_subdomain(domain).is_empty() && path.chars().all(legal)
    })
}

/// Formats a user without a name as Go's `%#v` does.
fn go_user(user: &UserInfo) -> String {
    let list = |values: Vec<&str>| match &*values {
        [] => "[]string(nil)".to_owned(),
        values => {
            let values: Vec<_> = values.iter().map(|value| format!("{value:?}")).collect();
            format!("[]string{{{}}}", values.join(", "))
        }
    };
    let groups = list(user.groups.iter().map(|group| &**group).collect());
    let of = |values: &Vec<String>| list(values.iter().map(String::as_str).collect());
    let extra: Vec<_> =
        user.extra.iter().map(|(key, values)| format!("{key:?}:{}", of(values))).collect();
    let extra = match &*extra {
        [] => "map[string][]string(nil)".to_owned(),
        extra => format!("map[string][]string{{{}}}", extra.join(", ")),
    };
    let uid = &*user.uid;
    format!("&user.DefaultInfo{{Name:\"\", UID:{uid:?}, Groups:{groups}, Extra:{extra}}}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn modes(wanted: &UserInfo, user: &UserInfo) -> Vec<ImpersonationMode> {
        MODES.into_iter().filter(|mode| mode.applies(wanted, user)).collect()
    }

    #[test]
    fn who_is_wanted_says_which_rights_count() {
        let mut pod = UserInfo::new("system:serviceaccount:d:s", &[]);
        let key = "authentication.kubernetes.io/node-name".to_owned();
        pod.extra.insert(key, vec!["n1".to_owned()]);
        let nodes = [
            ImpersonationMode::AssociatedNode,
            ImpersonationMode::ArbitraryNode,
            ImpersonationMode::Legacy,
        ];
        assert_eq!(modes(&UserInfo::new("system:node:n1", &[]), &pod), nodes);
        assert_eq!(modes(&UserInfo::new("system:node:n2", &[]), &pod), nodes[1..]);
        let account = UserInfo::new("system:serviceaccount:d:t", &[]);
        assert_eq!(
            modes(&account, &pod),
            [ImpersonationMode::ServiceAccount, ImpersonationMode::Legacy]
        );
        let grouped = UserInfo::new("system:serviceaccount:d:t", &["g"]);
        assert_eq!(modes(&grouped, &pod), [ImpersonationMode::Legacy]);
        assert_eq!(
            modes(&UserInfo::new("bob", &["g"]), &pod),
            [ImpersonationMode::UserInfo, ImpersonationMode::Legacy]
        );
        assert_eq!(node("system:node:No"), None);
    }

    #[test]
    fn only_names_that_can_be_are_accounts() {
        assert_eq!(account("system:serviceaccount:d:s"), Some(("d", "s")));
        for wrong in ["D:s", "d:", ":s", "d:s:t", "d:S", "d"] {
            assert_eq!(account(&format!("system:serviceaccount:{wrong}")), None, "{wrong}");
        }
        assert!(is_domain_prefixed("acme.io/foo") && !is_domain_prefixed("foo"));
    }
}
