//! Estimated cost of a call, and estimated size of its result.

use super::{
    AUTHORIZER_CHECK_COST, CostRange, LIST_CREATE_COST, REGEX_COST, STRING_TRAVERSAL_COST,
    STRUCT_CREATE_COST,
    estimate::{CostEstimator, SizedExpr},
    range::scale,
};
use crate::types::Type;

/// A call of one overload.
pub(super) struct Call<'c, 'a> {
    pub(super) function: &'c str,
    pub(super) overload: &'static str,
    pub(super) target: Option<&'c SizedExpr<'a>>,
    pub(super) args: &'c [SizedExpr<'a>],
    /// The estimated costs of the arguments.
    pub(super) costs: &'c [CostRange],
}

type Cost = (CostRange, Option<CostRange>);

/// Maximum length of a named format's pattern, and of a text of that format.
const FORMAT_PATTERN: f64 = 128.0;
const FORMAT_TEXT: u64 = 64;

pub(super) fn estimate(coster: &CostEstimator<'_>, call: &Call<'_, '_>) -> Cost {
    let args = call.costs.iter().fold(CostRange::ZERO, |sum, cost| sum.plus(*cost));
    let known = lists(coster, call).or_else(|| kubernetes(coster, call));
    if let Some((cost, size)) = known {
        return (cost.plus(args), size);
    }
    language(call, args).unwrap_or((CostRange::fixed(1).plus(args), None))
}

/// The list and set libraries.
fn lists(coster: &CostEstimator<'_>, call: &Call<'_, '_>) -> Option<Cost> {
    let made = |factor: f64, size: CostRange| {
        let cost = size.scaled(factor).plus(CostRange::fixed(1 + LIST_CREATE_COST));
        Some((cost, Some(size)))
    };
    let number = |part: &SizedExpr<'_>, otherwise: u64| match part.literal() {
        Some(n) => u64::try_from(n).unwrap_or_default(),
        None => otherwise,
    };
    match (call.overload, call.target, call.args) {
        ("list_slice", Some(list), [start, end]) => {
            let most = coster.size_of(list).max;
            made(1.0, CostRange::fixed(number(end, most).wrapping_sub(number(start, 0))))
        }
        ("lists_range", None, [size]) => made(1.0, CostRange::fixed(number(size, u64::MAX))),
        ("list_reverse" | "list_flatten", Some(list), []) => made(1.0, coster.size_of(list)),
        ("list_flatten_int", Some(list), [depth]) => {
            #[expect(clippy::cast_precision_loss, reason = "a factor")]
            let depth = number(depth, u64::MAX) as f64;
            made(depth, coster.size_of(list))
        }
        ("list_distinct", Some(list), []) => {
            let size = coster.size_of(list);
            made(2.0, size.times(size))
        }
        (overload, Some(list), args)
            if overload.ends_with("_sort") || overload.ends_with("Keys") =>
        {
            let size = coster.size_of(args.first().unwrap_or(list));
            let text = overload.starts_with("list_string_") || overload.starts_with("list_bytes_");
            made(if text { 2.0 + STRING_TRAVERSAL_COST } else { 2.0 }, size.times(size))
        }
        (overload, None, [a, b]) if overload.starts_with("list_sets_") => {
            let factor = if overload == "list_sets_equivalent_list" { 2.0 } else { 1.0 };
            let size = coster.size_of(a).times(coster.size_of(b));
            Some((size.scaled(factor).plus(CostRange::fixed(1)), None))
        }
        _ => None,
    }
}

/// Functions of constant cost: the builder steps of authorizer checks, and accessors of values.
const CONSTANT_COST_FUNCTIONS: &[&str] = &[
    "serviceAccount",
    "path",
    "group",
    "resource",
    "subresource",
    "namespace",
    "name",
    "allowed",
    "reason",
    "error",
    "errored",
    "format.named",
    "sign",
    "asInteger",
    "isInteger",
    "asApproximateFloat",
    "isGreaterThan",
    "isLessThan",
    "compareTo",
    "add",
    "sub",
    "major",
    "minor",
    "patch",
    "getScheme",
    "getHostname",
    "getHost",
    "getPort",
    "getEscapedPath",
    "getQuery",
    "masked",
    "prefixLength",
    "family",
    "isUnspecified",
    "isLoopback",
    "isLinkLocalMulticast",
    "isLinkLocalUnicast",
    "isGlobalUnicast",
];

/// The Kubernetes libraries.
fn kubernetes(coster: &CostEstimator<'_>, call: &Call<'_, '_>) -> Option<Cost> {
    let one = Some((CostRange::fixed(1), None));
    let size = |part: &SizedExpr<'_>| coster.size_of(part);
    let (target, args) = (call.target, call.args);
    match call.function {
        "check" => Some((CostRange::fixed(AUTHORIZER_CHECK_COST), None)),
        function if CONSTANT_COST_FUNCTIONS.contains(&function) => one,
        "fieldSelector" | "labelSelector" => {
            let length = size(args.first()?);
            Some((selector(length), None))
        }
        "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" | "includes" => {
            let list = target?;
            let Some(items) = CostEstimator::items_of(list) else {
                let each = if call.function == "includes" { 1.0 } else { STRING_TRAVERSAL_COST };
                return Some((size(list).scaled(each), None));
            };
            let mut each = CostRange::fixed(1);
            if matches!(items.ty, Type::Text | Type::Bytes) {
                each = each.plus(size(&items).scaled(STRING_TRAVERSAL_COST));
            }
            Some((size(list).times(each), None))
        }
        "url" | "jsonpatch.escapeKey" => {
            let size = size(args.first()?);
            Some((size.scaled(STRING_TRAVERSAL_COST), Some(size)))
        }
        "lowerAscii" | "upperAscii" | "substring" | "trim" => {
            let size = size(target?);
            Some((size.scaled(STRING_TRAVERSAL_COST), Some(size)))
        }
        "replace" => {
            let [old, new, ..] = args else { return None };
            let text = size(target?);
            let result = replaced(text, size(old), size(new));
            Some((text.scaled(2.0 * STRING_TRAVERSAL_COST), Some(result)))
        }
        "split" => {
            let text = size(target?);
            let most = args.get(1).and_then(SizedExpr::literal).map(i64::cast_unsigned);
            let result = CostRange { min: 0, max: most.unwrap_or(text.max) };
            Some((text.scaled(2.0 * STRING_TRAVERSAL_COST), Some(result)))
        }
        "join" => Some(join(coster, target?, args.first())),
        "find" | "findAll" => {
            let text = size(target?);
            let pattern = size(args.first()?).scaled(REGEX_COST);
            let cost = text.plus(CostRange::fixed(1)).scaled(STRING_TRAVERSAL_COST).times(pattern);
            Some((cost, Some(CostRange { min: 0, max: text.max })))
        }
        "ip" if call.overload == "cidr_ip" => one,
        "cidr" | "isIP" | "isCIDR" | "ip" | "quantity" | "isQuantity" | "semver" | "isSemver" => {
            Some((size(args.first()?).scaled(STRING_TRAVERSAL_COST), None))
        }
        "ip.isCanonical" => Some((size(args.first()?).scaled(2.0 * STRING_TRAVERSAL_COST), None)),
        "containsIP" | "containsCIDR" => Some(contains(coster, call)),
        "validate" => {
            let text = size(args.first()?).scaled(STRING_TRAVERSAL_COST);
            Some((text.scaled(FORMAT_PATTERN * REGEX_COST), None))
        }
        "_==_" => equality(args),
        _ => None,
    }
}

/// A selector is parsed into requirements of at least two characters each.
pub(super) fn selector(length: CostRange) -> CostRange {
    #[expect(clippy::cast_precision_loss, reason = "a factor")]
    let requirement = (LIST_CREATE_COST + STRUCT_CREATE_COST) as f64;
    let requirements = length.scaled(0.5).scaled(requirement);
    CostRange::fixed(LIST_CREATE_COST).plus(length.scaled(STRING_TRAVERSAL_COST)).plus(requirements)
}

/// The possible length of a text after `replace`.
fn replaced(text: CostRange, old: CostRange, new: CostRange) -> CostRange {
    let ceil = |n: u64, by: u64| {
        #[expect(clippy::cast_precision_loss, reason = "as upstream counts")]
        let factor = 1.0 / by as f64;
        if by == 1 { n } else { scale(n, factor) }
    };
    let (most, kept_most) = if old.min == 0 {
        (text.max.saturating_add(1), text.max)
    } else if new.max <= old.min {
        (0, text.max)
    } else {
        (ceil(text.max, old.min), 0)
    };
    let (least, kept_least) = if old.max == 0 {
        (text.min.saturating_add(1), text.min)
    } else if old.max <= new.min {
        (0, text.min)
    } else {
        (ceil(text.min, old.max), 0)
    };
    let count = CostRange { min: least, max: most };
    count.times(new).plus(CostRange { min: kept_least, max: kept_most })
}

fn join(
    coster: &CostEstimator<'_>,
    list: &SizedExpr<'_>,
    separator: Option<&SizedExpr<'_>>,
) -> Cost {
    let count = coster.size_of(list);
    let mut size = match CostEstimator::items_of(list) {
        Some(items) => count.times(coster.size_of(&items)),
        None => CostRange::ZERO,
    };
    if let Some(separator) = separator {
        let between =
            CostRange { min: count.min.saturating_sub(1), max: count.max.saturating_sub(1) };
        size = size.plus(coster.size_of(separator).times(between));
    }
    (size.scaled(STRING_TRAVERSAL_COST), Some(size))
}

/// Comparison of IP addresses, of four or sixteen bytes.
fn contains(coster: &CostEstimator<'_>, call: &Call<'_, '_>) -> Cost {
    let bytes = CostRange { min: 4, max: 16 };
    let mut cost = bytes.plus(bytes).scaled(STRING_TRAVERSAL_COST);
    if call.function == "containsCIDR" {
        cost = cost.plus(bytes.scaled(STRING_TRAVERSAL_COST)).plus(CostRange::fixed(1));
    }
    if call.overload.ends_with("_string")
        && let Some(text) = call.args.first()
    {
        cost = cost.plus(coster.size_of(text).scaled(STRING_TRAVERSAL_COST));
    }
    (cost, None)
}

/// Equality of opaque library types.
fn equality(args: &[SizedExpr<'_>]) -> Option<Cost> {
    let [left, right] = args else { return None };
    if left.ty != right.ty {
        return None;
    }
    let name = match &left.ty {
        Type::Opaque(name, _) | Type::Struct(name) => &**name,
        _ => return None,
    };
    match name {
        "net.IP" | "net.CIDR" | "kubernetes.Quantity" | "kubernetes.Semver" => {
            Some((CostRange::fixed(1), None))
        }
        "kubernetes.NamedFormat" => {
            Some((CostRange { min: 1, max: FORMAT_TEXT }.scaled(STRING_TRAVERSAL_COST), None))
        }
        "kubernetes.URL" => {
            let max = right.computed().map_or(1, |size| size.max);
            Some((CostRange { min: 1, max }.scaled(STRING_TRAVERSAL_COST), None))
        }
        name if name.starts_with("kubernetes.authorization.") => Some((CostRange::fixed(1), None)),
        _ => None,
    }
}

/// The standard library; `sum` is the cost of the arguments.
fn language(call: &Call<'_, '_>, sum: CostRange) -> Option<Cost> {
    let cost = |cost: CostRange, size: Option<CostRange>| Some((cost.plus(sum), size));
    let size = |part: &SizedExpr<'_>| part.computed_or_unknown();
    match (call.overload, call.target, call.args) {
        ("string_format", Some(text), _) => cost(size(text).scaled(STRING_TRAVERSAL_COST), None),
        ("string_to_bytes", _, [text]) => {
            let text = size(text);
            let result = CostRange { min: text.min, max: text.max.wrapping_mul(4) };
            cost(text.scaled(STRING_TRAVERSAL_COST), Some(result))
        }
        ("bytes_to_string", _, [bytes]) => {
            let bytes = size(bytes);
            cost(
                bytes.scaled(STRING_TRAVERSAL_COST),
                Some(CostRange { min: bytes.min / 4, max: bytes.max }),
            )
        }
        ("strings_quote", _, [text]) => {
            let text = size(text);
            let max = text.max.wrapping_mul(2).wrapping_add(2);
            cost(text.scaled(STRING_TRAVERSAL_COST), Some(CostRange { min: text.min + 2, max }))
        }
        ("starts_with_string" | "ends_with_string", _, [part]) => {
            cost(size(part).scaled(STRING_TRAVERSAL_COST), None)
        }
        ("in_list", _, [_, list]) => cost(size(list).scaled(1.0), None),
        ("matches_string", Some(text), [pattern]) | ("matches", None, [text, pattern]) => {
            let text = size(text).plus(CostRange::fixed(1)).scaled(STRING_TRAVERSAL_COST);
            cost(text.times(size(pattern).scaled(REGEX_COST)), None)
        }
        ("contains_string", Some(text), [part]) => cost(
            size(text)
                .scaled(STRING_TRAVERSAL_COST)
                .times(size(part).scaled(STRING_TRAVERSAL_COST)),
            None,
        ),
        ("logical_or" | "logical_and", _, _) => {
            let [left, right] = call.costs else { return None };
            Some((CostRange { min: left.min, max: left.plus(*right).max }, None))
        }
        ("conditional", _, [_, yes, no]) => {
            let [condition, if_yes, if_no] = call.costs else { return None };
            Some((condition.plus(if_yes.union(*if_no)), Some(size(yes).union(size(no)))))
        }
        ("add_list", _, [a, b]) => cost(CostRange::fixed(1), Some(size(a).plus(size(b)))),
        ("add_string" | "add_bytes", _, [a, b]) => {
            let result = size(a).plus(size(b));
            cost(result.scaled(STRING_TRAVERSAL_COST), Some(result))
        }
        (overload, _, [a, b]) if compares(overload) => {
            let max = size(a).max.min(size(b).max);
            cost(CostRange { min: u64::from(max > 0), max }.scaled(STRING_TRAVERSAL_COST), None)
        }
        _ => None,
    }
}

/// Whether an overload traverses both operands.
pub(super) fn compares(overload: &str) -> bool {
    let relation = ["less", "less_equals", "greater", "greater_equals"].iter().any(|relation| {
        let rest = overload.strip_prefix(relation);
        matches!(rest, Some("_string" | "_bytes"))
    });
    relation || matches!(overload, "equals" | "not_equals")
}
