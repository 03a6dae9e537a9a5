//! The seam to the expression language: kinds name the environment in which an
//! expression must compile; whoever has a compiler installs it.

use std::sync::OnceLock;

use schema::{ErrorList, ErrorType, FieldPath};

/// What an expression may speak of, and what it must give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
pub struct CelEnvironment {
    pub result_type: ExpectedResult,
    /// Whether it sees the parameters of a policy.
    pub params: bool,
    /// Whether it may ask what users may do.
    pub authorizer: bool,
    /// Whether it sees the variables that were declared before it.
    pub variables: bool,
    /// Whether it was stored before: then what older servers know not may be used.
    pub is_stored: bool,
}

/// The kinds of values that expressions give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpectedResult {
    /// Whether a request matches, or is valid.
    Bool,
    /// A message.
    Message,
    /// A message, or nothing.
    Annotation,
    /// Anything: it becomes a variable.
    Any,
    /// A list of changes.
    JsonPatch,
    /// An object to apply.
    ApplyConfiguration,
    /// Whether a device is one of those that are looked for.
    DeviceSelector,
    /// A property that is computed from those of a device.
    DerivedDeviceAttribute,
}

/// Compiles the expressions of one object.
pub trait Compiler {
    /// Says what is wrong with an expression.
    fn compile(
        &mut self,
        expression: &str,
        environment: &CelEnvironment,
    ) -> Result<(), CompileError>;

    /// Says what is wrong with the expression of a variable, which the expressions after it see.
    fn declare(
        &mut self,
        name: &str,
        expression: &str,
        environment: &CelEnvironment,
    ) -> Result<(), CompileError>;
}

/// Makes a compiler for the expressions of one object.
pub type Start = fn() -> Box<dyn Compiler>;

/// Why an expression does not compile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompileError {
    pub error: ErrorType,
    pub detail: String,
}

static START: OnceLock<Start> = OnceLock::new();

/// Lets expressions be checked by these compilers from now on. The first ones stay.
pub fn install_compiler(start: Start) {
    let _ = START.set(start);
}

/// The expressions of one object, which are checked as far as there is a compiler.
pub(crate) struct Session(Option<Box<dyn Compiler>>);

impl Session {
    pub(crate) fn start() -> Self {
        Self(START.get().map(|start| start()))
    }

    /// Checks that an expression compiles.
    pub(crate) fn check(
        &mut self,
        expression: &str,
        environment: &CelEnvironment,
        at: &FieldPath,
        errs: &mut ErrorList,
    ) {
        let compiled = self.0.as_mut().map(|it| it.compile(expression, environment));
        tell(compiled, expression, at, errs);
    }

    /// Checks that the expression of a variable compiles; those after it see the variable.
    pub(crate) fn declare(
        &mut self,
        (name, expression): (&str, &str),
        environment: &CelEnvironment,
        at: &FieldPath,
        errs: &mut ErrorList,
    ) {
        let compiled = self.0.as_mut().map(|it| it.declare(name, expression, environment));
        tell(compiled, expression, at, errs);
    }
}

fn tell(
    compiled: Option<Result<(), CompileError>>,
    expression: &str,
    at: &FieldPath,
    errs: &mut ErrorList,
) {
    if let Some(Err(CompileError { error, detail })) = compiled {
        errs.push(error, at, expression.into(), detail);
    }
}
