//! Connections to what an object stands for: nothing is stored, and plugins have a say.

use std::sync::Mutex;

use object::{Status, Value};

use super::{Call, Registry};
use crate::{Admission, Operation, Reinvocation, Served};

impl Registry {
    /// Lets plugins see what is asked of a part of an object; gives it as they want it.
    pub async fn connect(
        &self,
        call: &mut Call,
        served: &Served,
        (namespace, name, subresource): (&str, &str, &str),
        options: Value,
    ) -> Result<Value, Status> {
        let mut admission = Admission {
            registry: self,
            served,
            user: &call.user,
            operation: Operation::Connect,
            subresource,
            namespace: namespace.into(),
            name: name.into(),
            object: options,
            old: None,
            revision: 0,
            reinvocation: Reinvocation::default(),
            dry_run: false,
            said: Mutex::default(),
        };
        let mut decided = self.run_mutating(&mut admission).await;
        if decided.is_ok() {
            decided = self.run_validating(&admission).await;
        }
        let said = admission.take_said();
        let options = admission.object;
        call.hear(said);
        decided.map(|()| options)
    }
}
