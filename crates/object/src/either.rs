//! Views of union-typed fields: a struct, or a simpler value in its place.

use std::marker::PhantomData;

use crate::{Lens, SchemaRef, StructAlternative, Type, Value, View};

/// A struct or a bool.
#[derive(Clone, Debug, PartialEq)]
pub struct StructOrBool<T>(PhantomData<T>);

/// A struct or a list of such structs.
#[derive(Clone, Debug, PartialEq)]
pub struct StructOrList<T>(PhantomData<T>);

/// A struct or a list of strings.
#[derive(Clone, Debug, PartialEq)]
pub struct StructOrStrings<T>(PhantomData<T>);

impl<T: Lens> View for StructOrBool<T> {
    const TYPE: &'static Type =
        &Type::StructOr(SchemaRef::Lazy(|| T::SHAPE), StructAlternative::Bool);
    type Ref<'a> = &'a Value;
    type Owned = Value;
    fn view(value: &Value) -> &Value {
        value
    }
}

impl<T: Lens> View for StructOrList<T> {
    const TYPE: &'static Type =
        &Type::StructOr(SchemaRef::Lazy(|| T::SHAPE), StructAlternative::List);
    type Ref<'a> = &'a Value;
    type Owned = Value;
    fn view(value: &Value) -> &Value {
        value
    }
}

impl<T: Lens> View for StructOrStrings<T> {
    const TYPE: &'static Type =
        &Type::StructOr(SchemaRef::Lazy(|| T::SHAPE), StructAlternative::Strings);
    type Ref<'a> = &'a Value;
    type Owned = Value;
    fn view(value: &Value) -> &Value {
        value
    }
}
