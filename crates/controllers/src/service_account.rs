//! Every namespace has a ServiceAccount `default`.

use api::core::{Namespace, ServiceAccount};
use client::Error;
use object::{Key, ObjectMeta};
use runtime::{Context, Controller, Next, Objects, Reconcile};
use schema::Kind;

use crate::Config;

pub(crate) const DEFAULT: &str = "default";

pub(crate) fn start(cx: &Context, _: &Config) {
    let accounts = ServiceAccounts { accounts: cx.objects() };
    Controller::new("serviceaccount", cx, accounts)
        .watches::<ServiceAccount>(|account| vec![Key::new("", account.metadata().namespace())])
        .start();
}

#[derive(Debug)]
struct ServiceAccounts {
    accounts: Objects<ServiceAccount>,
}

impl Reconcile for ServiceAccounts {
    type Kind = Namespace;

    async fn reconcile(&self, key: &Key, namespace: Option<Namespace>) -> Result<Next, Error> {
        let Some(namespace) = namespace.filter(|namespace| !namespace.is_closing()) else {
            return Ok(Next::OnChange);
        };
        if self.accounts.get(&Key::new(&key.name, DEFAULT)).is_none() {
            let meta = ObjectMeta::new().with_name(DEFAULT).with_namespace(&*key.name);
            let because = namespace.causes("a namespace has a default account");
            let account = ServiceAccount::new().with_metadata(meta);
            ignore_race(self.accounts.because(&because).create(account).await)?;
        }
        Ok(Next::OnChange)
    }
}

/// It is there already, or need not be any more.
pub(crate) fn ignore_race<T>(made: Result<T, Error>) -> Result<(), Error> {
    match made {
        Err(error) if error.is_already_exists() || error.is_namespace_terminating() => Ok(()),
        made => made.map(drop),
    }
}
