//! Views of what is a struct, or something simpler in its place.

use std::marker::PhantomData;

use crate::{Lens, Link, Plain, Type, Value, View};

/// A struct, or `true` or `false`.
#[derive(Clone, Debug, PartialEq)]
pub struct OrBool<T>(PhantomData<T>);

/// A struct, or a list of them.
#[derive(Clone, Debug, PartialEq)]
pub struct OrList<T>(PhantomData<T>);

/// A struct, or a list of strings.
#[derive(Clone, Debug, PartialEq)]
pub struct OrTexts<T>(PhantomData<T>);

impl<T: Lens> View for OrBool<T> {
    const TYPE: &'static Type = &Type::Either(Link::Lazy(|| T::SHAPE), Plain::Bool);
    type Ref<'a> = &'a Value;
    type Owned = Value;
    fn view(value: &Value) -> &Value {
        value
    }
}

impl<T: Lens> View for OrList<T> {
    const TYPE: &'static Type = &Type::Either(Link::Lazy(|| T::SHAPE), Plain::List);
    type Ref<'a> = &'a Value;
    type Owned = Value;
    fn view(value: &Value) -> &Value {
        value
    }
}

impl<T: Lens> View for OrTexts<T> {
    const TYPE: &'static Type = &Type::Either(Link::Lazy(|| T::SHAPE), Plain::Texts);
    type Ref<'a> = &'a Value;
    type Owned = Value;
    fn view(value: &Value) -> &Value {
        value
    }
}
