//! `kubernetes.io/enforce-mountable-secrets`: pods of the annotated service account may use only
//! the Secrets that the account lists.

use api::core::ServiceAccount as Account;
use object::Value;

const ANNOTATION: &str = "kubernetes.io/enforce-mountable-secrets";

/// The Secrets and image pull secrets that pods of an account may use.
#[derive(Debug)]
pub(super) struct MountableSecrets {
    account: String,
    secrets: Vec<String>,
    pulls: Vec<String>,
}

impl MountableSecrets {
    /// `None` if the account lacks the annotation.
    pub(super) fn of(account: &Account) -> Option<Self> {
        let set = account.metadata().annotations().get(ANNOTATION).unwrap_or_default();
        let on = matches!(set, "1" | "t" | "T" | "true" | "TRUE" | "True");
        on.then(|| Self {
            account: account.metadata().name().to_owned(),
            secrets: account.secrets().iter().map(|own| own.name().to_owned()).collect(),
            pulls: account.image_pull_secrets().iter().map(|own| own.name().to_owned()).collect(),
        })
    }

    /// The message for the first Secret that the account does not list. With `added`, only the
    /// ephemeral containers are checked.
    pub(super) fn violation(&self, spec: &Value, added: bool) -> Option<String> {
        if added {
            return self.variables(spec, "ephemeralContainers", "ephemeral container");
        }
        let mut volumes = spec.get("volumes").items().iter().flat_map(of_volume);
        let volume = volumes.find_map(|name| self.refuse("volume with", name));
        let pulls = spec.get("imagePullSecrets").items().iter().map(|own| text(own, "name"));
        let pull = || {
            let (at, name) =
                pulls.enumerate().find(|(_, name)| !self.pulls.iter().any(|own| own == name))?;
            Some(format!(
                "imagePullSecrets[{at}].name=\"{name}\" is not allowed because service account {} \
                 does not reference that imagePullSecret",
                self.account
            ))
        };
        volume
            .or_else(|| self.variables(spec, "initContainers", "init container"))
            .or_else(|| self.variables(spec, "containers", "container"))
            .or_else(pull)
    }

    fn variables(&self, spec: &Value, list: &str, word: &str) -> Option<String> {
        spec.get(list).items().iter().find_map(|container| {
            let name = text(container, "name");
            let one = container.get("env").items().iter().find_map(|variable| {
                let secret = variable.get("valueFrom").get("secretKeyRef");
                let who =
                    format!("{word} {name} with envVar {} referencing", text(variable, "name"));
                if secret.is_null() { None } else { self.refuse(&who, text(secret, "name")) }
            });
            one.or_else(|| {
                container.get("envFrom").items().iter().find_map(|from| {
                    let secret = from.get("secretRef");
                    let who = format!("{word} {name} with envFrom referencing");
                    if secret.is_null() { None } else { self.refuse(&who, text(secret, "name")) }
                })
            })
        })
    }

    fn refuse(&self, who: &str, secret: &str) -> Option<String> {
        let account = &self.account;
        (!self.secrets.iter().any(|own| own == secret)).then(|| {
            format!(
                "{who} secret.secretName=\"{secret}\" is not allowed because service account \
                 {account} does not reference that secret"
            )
        })
    }
}

/// The Secrets that a volume refers to, by whatever field. Upstream checks only volumes of the type
/// `secret`, so that a projected volume evades the limit.
fn of_volume(volume: &Value) -> Vec<&str> {
    let mut found = Vec::new();
    for kind in ["secret", "azureFile"] {
        found.extend(volume.get(kind).get("secretName").as_str());
    }
    for kind in ["cephfs", "cinder", "flexVolume", "rbd", "scaleIO", "iscsi", "storageos"] {
        found.extend(volume.get(kind).get("secretRef").get("name").as_str());
    }
    found.extend(volume.get("csi").get("nodePublishSecretRef").get("name").as_str());
    let sources = volume.get("projected").get("sources").items().iter();
    found.extend(sources.filter_map(|source| source.get("secret").get("name").as_str()));
    found
}

fn text<'a>(tree: &'a Value, name: &str) -> &'a str {
    tree.get(name).as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use object::View;

    use super::*;

    #[test]
    fn what_is_not_listed_is_refused() {
        let tree = |json: &str| object::from_json(json.as_bytes()).unwrap();
        let account = tree(
            r#"{"metadata":{"name":"a","annotations":{"kubernetes.io/enforce-mountable-secrets":"true"}},
                "secrets":[{"name":"s"}],"imagePullSecrets":[{"name":"p"}]}"#,
        );
        let limits = MountableSecrets::of(Account::view(&account)).unwrap();
        let because = "is not allowed because service account a does not reference that secret";
        for (spec, what) in [
            (r#"{"volumes":[{"secret":{"secretName":"s"}}],"imagePullSecrets":[{"name":"p"}]}"#, None),
            (
                r#"{"volumes":[{"secret":{"secretName":"t"}}]}"#,
                Some(format!(r#"volume with secret.secretName="t" {because}"#)),
            ),
            (
                r#"{"initContainers":[{"name":"i","env":[{"name":"E","valueFrom":{"secretKeyRef":{"name":"t"}}}]}]}"#,
                Some(format!(
                    r#"init container i with envVar E referencing secret.secretName="t" {because}"#
                )),
            ),
            (
                r#"{"containers":[{"name":"c","envFrom":[{"secretRef":{"name":"t"}}]}]}"#,
                Some(format!(
                    r#"container c with envFrom referencing secret.secretName="t" {because}"#
                )),
            ),
            (
                r#"{"imagePullSecrets":[{"name":"p"},{"name":"q"}]}"#,
                Some(
                    r#"imagePullSecrets[1].name="q" is not allowed because service account a does not reference that imagePullSecret"#.to_owned(),
                ),
            ),
        ] {
            assert_eq!(limits.violation(&tree(spec), false), what, "{spec}");
        }
        let added = tree(
            r#"{"ephemeralContainers":[{"name":"e","envFrom":[{"secretRef":{"name":"t"}}]}]}"#,
        );
        assert!(
            limits
                .violation(&added, true)
                .unwrap()
                .starts_with("ephemeral container e with envFrom")
        );
        assert_eq!(limits.violation(&added, false), None);
        assert!(
            MountableSecrets::of(Account::view(&tree(r#"{"metadata":{"name":"a"}}"#))).is_none()
        );
    }
}
