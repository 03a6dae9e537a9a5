//! The seam to the expression language: kinds name the environment in which an
//! expression must compile; whoever has a compiler installs it.

use std::sync::OnceLock;

use schema::{ErrorType, Errors, Path};

/// What an expression may speak of, and what it must give.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Environment {
    pub gives: Gives,
    /// Whether it sees the parameters of a policy.
    pub params: bool,
    /// Whether it may ask what users may do.
    pub authorizer: bool,
    /// The variables before it, by name, with their expressions; `None`: it has none at all.
    pub variables: Option<Vec<(String, String)>>,
    /// Whether it was stored before: then what older servers know not may be used.
    pub stored: bool,
}

/// The kinds of values that expressions give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gives {
    /// Whether a request matches, or is valid.
    Truth,
    /// A message.
    Message,
    /// A message, or nothing.
    Annotation,
    /// Anything: it becomes a variable.
    Anything,
    /// A list of changes.
    JsonPatch,
    /// An object to apply.
    ApplyConfiguration,
    /// Whether a device is one of those that are looked for.
    Device,
    /// A property that is computed from those of a device.
    DeviceAttribute,
}

/// Says what is wrong with an expression.
pub type Compile = fn(&str, &Environment) -> Result<(), Wrong>;

/// Why an expression does not compile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    pub error: ErrorType,
    pub detail: String,
}

static COMPILE: OnceLock<Compile> = OnceLock::new();

/// Lets expressions be checked by this compiler from now on. The first one stays.
pub fn install(compile: Compile) {
    let _ = COMPILE.set(compile);
}

/// Checks that an expression compiles, as far as there is a compiler.
pub(crate) fn check(expression: &str, environment: &Environment, at: &Path, errs: &mut Errors) {
    let Some(compile) = COMPILE.get() else { return };
    if let Err(Wrong { error, detail }) = compile(expression, environment) {
        errs.push(error, at, expression.into(), detail);
    }
}
