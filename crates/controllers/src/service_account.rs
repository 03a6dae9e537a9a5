//! ServiceAccount controller: creates the ServiceAccount `default` in every namespace.

use api::core::{Namespace, ServiceAccount};
use client::Error;
use object::{NamespacedName, ObjectMeta};
use runtime::{CachedApi, Context, Controller, Reconcile, Requeue};
use schema::Kind;

use crate::Config;

pub(crate) const DEFAULT: &str = "default";

pub(crate) fn start(cx: &Context, _: &Config) {
    let accounts = ServiceAccounts { accounts: cx.cached_api() };
    Controller::new("serviceaccount", cx, accounts)
        .watches::<ServiceAccount>(|account| {
            vec![NamespacedName::new("", account.metadata().namespace())]
        })
        .start();
}

/// Reconciler of namespaces.
#[derive(Debug)]
struct ServiceAccounts {
    accounts: CachedApi<ServiceAccount>,
}

impl Reconcile for ServiceAccounts {
    type Kind = Namespace;

    async fn reconcile(
        &self,
        key: &NamespacedName,
        namespace: Option<Namespace>,
    ) -> Result<Requeue, Error> {
        let Some(namespace) = namespace.filter(|namespace| !namespace.is_closing()) else {
            return Ok(Requeue::OnChange);
        };
        if self.accounts.get(&NamespacedName::new(&key.name, DEFAULT)).is_none() {
            let meta = ObjectMeta::new().with_name(DEFAULT).with_namespace(&*key.name);
            let because = namespace.write_cause("a namespace has a default account");
            let account = ServiceAccount::new().with_metadata(meta);
            ignore_race(self.accounts.with_cause(&because).create(account).await)?;
        }
        Ok(Requeue::OnChange)
    }
}

/// Ignores the errors of a create that another client won, or that a terminating namespace rejects.
pub(crate) fn ignore_race<T>(made: Result<T, Error>) -> Result<(), Error> {
    match made {
        Err(error) if error.is_already_exists() || error.is_namespace_terminating() => Ok(()),
        made => made.map(drop),
    }
}
