//! CEL environments: the variables, functions and types that an expression may use.

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock},
};

use schema::work_budget;

use crate::{
    check::type_check,
    decl_type::DeclType,
    function::Functions,
    library,
    policy::Variables,
    program::Program,
    source::{CompileErrors, ErrorCollector},
    syntax::{self, Macros},
    types::Type,
    validate::validate,
};

/// The declarations that expressions are compiled with.
#[derive(Clone, Debug)]
pub struct Environment {
    variables: Vec<(Arc<str>, Type)>,
    root: Option<Arc<DeclType>>,
    structures: HashMap<Arc<str>, StructType>,
    functions: Arc<Functions>,
    macros: Macros,
    /// A type that has any field, of types that have any field as well: `Object`.
    open_type: Option<&'static str>,
}

#[derive(Clone, Debug)]
enum StructType {
    Node(Arc<DeclType>),
    Fields(Arc<[(Arc<str>, Type)]>),
    Declared(Variables),
}

/// The functions of every environment.
static BASE: LazyLock<Arc<Functions>> = LazyLock::new(|| Functions::of(library::BASE));

impl Default for Environment {
    fn default() -> Self {
        Self {
            variables: Vec::new(),
            root: None,
            structures: HashMap::new(),
            functions: BASE.clone(),
            macros: Macros::default(),
            open_type: None,
        }
    }
}

impl Environment {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn with_variable(mut self, name: &str, ty: Type) -> Self {
        self.variables.push((name.into(), ty));
        self
    }

    /// Declares a variable with a schema. Nothing is declared if expressions cannot access it.
    pub fn with_node(mut self, name: &str, node: &Arc<DeclType>) -> Self {
        self = self.with_types(node);
        if let Some(ty) = node.ty() {
            self.variables.push((name.into(), ty.clone()));
            self.root.get_or_insert_with(|| node.clone());
        }
        self
    }

    /// Declares the object types of a schema.
    pub fn with_types(mut self, node: &Arc<DeclType>) -> Self {
        node.visit_object_types(&mut |name, node| {
            self.structures.insert(name.clone(), StructType::Node(node.clone()));
        });
        self
    }

    /// Declares an object type.
    pub fn with_structure(mut self, name: &str, fields: &[(&str, Type)]) -> Self {
        let fields = fields.iter().map(|(name, ty)| ((*name).into(), ty.clone())).collect();
        self.structures.insert(name.into(), StructType::Fields(fields));
        self
    }

    /// Declares an object type whose fields are the variables of a policy.
    pub(crate) fn with_declared(mut self, name: &str, variables: &Variables) -> Self {
        self.structures.insert(name.into(), StructType::Declared(variables.clone()));
        self
    }

    /// Adds the `cel.bind` macro.
    pub fn with_bind(mut self) -> Self {
        self.macros.bind = true;
        self
    }

    /// Adds the `includes` function, which treats a single value like a list of one.
    pub(crate) fn with_includes(mut self) -> Self {
        let mut libraries = library::BASE.to_vec();
        libraries.push(library::INCLUDES);
        self.functions = Functions::of(&libraries);
        self
    }

    /// Adds the types of mutations: `Object{...}`, `JSONPatch{...}`.
    pub fn with_mutation(mut self) -> Self {
        let mut libraries = library::BASE.to_vec();
        libraries.push(library::JSON_PATCH);
        self.functions = Functions::of(&libraries);
        self.open_type = Some("Object");
        self.with_structure(
            "JSONPatch",
            &[("op", Type::Text), ("path", Type::Text), ("from", Type::Text), ("value", Type::Dyn)],
        )
    }

    /// Compiles `source`; the error messages are upstream's.
    pub fn compile(self: &Arc<Self>, source: &str) -> Result<Program, CompileErrors> {
        let length = source.len() as u64;
        if let Err(why) = work_budget::spend(20 + length / 2) {
            let mut problems = ErrorCollector::default();
            problems.add(None, why.to_string());
            return Err(problems.show(source));
        }
        let mut ast = syntax::parse(source, self.macros)?;
        let mut problems = ErrorCollector::default();
        let checked = type_check(&mut ast, self, &mut problems);
        if problems.is_empty() {
            validate(&ast, &checked, &mut problems);
        }
        if !problems.is_empty() {
            return Err(problems.show(source));
        }
        Ok(Program::new(ast, checked, self.clone()))
    }

    pub(crate) fn functions(&self) -> &Functions {
        &self.functions
    }

    pub(crate) fn variable(&self, name: &str) -> Option<&Type> {
        self.variables.iter().find(|(other, _)| &**other == name).map(|(_, ty)| ty)
    }

    /// The schema of the first variable that has one.
    pub(crate) fn root(&self) -> Option<&Arc<DeclType>> {
        self.root.as_ref()
    }

    /// The object type of this name.
    pub(crate) fn structure(&self, name: &str) -> Option<Type> {
        let known = self.structures.contains_key(name) || self.is_open(name);
        known.then(|| Type::named(name))
    }

    pub(crate) fn field(&self, structure: &str, field: &str) -> Option<Type> {
        match self.structures.get(structure) {
            Some(StructType::Node(node)) => node.entry(field).and_then(|(_, node)| node.ty.clone()),
            Some(StructType::Fields(fields)) => {
                let found = fields.iter().find(|(name, _)| &**name == field);
                found.map(|(_, ty)| ty.clone()).or_else(|| self.unnamed(structure))
            }
            Some(StructType::Declared(variables)) => variables.ty(field).cloned(),
            None if self.is_open(structure) => Some(Type::Dyn),
            None => None,
        }
    }

    /// The type of undeclared fields: JSONPatch accepts them, but no value has their type.
    fn unnamed(&self, structure: &str) -> Option<Type> {
        let patch = self.open_type.is_some() && structure == "JSONPatch";
        patch.then(|| Type::Opaque("".into(), [].into()))
    }

    fn is_open(&self, name: &str) -> bool {
        let rest = self.open_type.and_then(|open| name.strip_prefix(open));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    }
}
