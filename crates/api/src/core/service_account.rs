//! core/v1: ServiceAccount.

use macros::api;
use object::{List, ObjectMeta};
use schema::{FieldPath, Kind, ResourceNames, Subresource, TableColumn, WarningList, verbs};

use super::{LocalObjectReference, ObjectReference};

/// An identity for the processes of pods.
#[api]
pub struct ServiceAccount {
    /// Standard object metadata: name, namespace, labels, annotations.
    metadata: ObjectMeta,
    /// Secrets that pods of this account may use.
    #[api(keys("name"), merge, merge_key = "name")]
    secrets: List<ObjectReference>,
    /// Secrets that are added to the imagePullSecrets of pods of this account.
    image_pull_secrets: List<LocalObjectReference>,
    /// Whether pods of this account get its token mounted by default.
    automount_service_account_token: Option<bool>,
}

/// Lets pods mount only the secrets that the account names.
const ENFORCED: &str = "kubernetes.io/enforce-mountable-secrets";

impl Kind for ServiceAccount {
    const NAMES: ResourceNames =
        ResourceNames::new("", "v1", "ServiceAccount", "serviceaccounts").short(&["sa"]);
    const UPDATE_CHECKS_GENERATE_NAME: bool = true;
    const SHOWS_DELETED: bool = true;
    const SUBRESOURCES: &'static [Subresource] =
        &[Subresource::handler("token", "TokenRequest", verbs::CREATE)
            .of_group("authentication.k8s.io", "v1")];
    const COLUMNS: &'static [TableColumn<Self>] = &[TableColumn::NAME, TableColumn::AGE];

    fn warn(&self, old: Option<&Self>, warnings: &mut WarningList) {
        let enforces = |account: &Self| account.metadata().annotations().get(ENFORCED).is_some();
        if enforces(self) && !old.is_some_and(enforces) {
            let why = "deprecated in v1.32+; prefer separate namespaces to isolate access to \
                       mounted secrets";
            warnings.push_at(&FieldPath::METADATA.field("annotations").key(ENFORCED), why);
        }
    }

    fn prepare_create(&mut self) {
        self.clean_secrets();
    }

    fn prepare_update(&mut self, _old: &Self) {
        self.clean_secrets();
    }
}

impl ServiceAccount {
    /// A secret is of the same namespace: only its name counts.
    fn clean_secrets(&mut self) {
        let names = self.secrets().iter().map(super::reference::ObjectReference::name);
        let clean: List<_> = names.map(|name| ObjectReference::new().with_name(name)).collect();
        self.set_secrets(clean);
    }
}
