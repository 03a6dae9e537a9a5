//! The fields of an AuthenticationConfiguration.

use crate::structured::{Shape, Struct};

pub(super) const CONFIGURATION: Struct = Struct(
    "AuthenticationConfiguration",
    &[("jwt", Shape::List(&JWT)), ("anonymous", Shape::Object(&ANONYMOUS))],
);
const JWT: Struct = Struct(
    "JWTAuthenticator",
    &[
        ("issuer", Shape::Object(&ISSUER)),
        ("claimMappings", Shape::Object(&MAPPINGS)),
        ("claimValidationRules", Shape::List(&CLAIM_RULE)),
        ("userValidationRules", Shape::List(&USER_RULE)),
    ],
);
const ISSUER: Struct = Struct(
    "Issuer",
    &[
        ("url", Shape::Text),
        ("discoveryURL", Shape::Text),
        ("certificateAuthority", Shape::Text),
        ("audiences", Shape::Texts),
        ("audienceMatchPolicy", Shape::Text),
        ("egressSelectorType", Shape::Text),
    ],
);
const MAPPINGS: Struct = Struct(
    "ClaimMappings",
    &[
        ("username", Shape::Object(&PREFIXED)),
        ("groups", Shape::Object(&PREFIXED)),
        ("uid", Shape::Object(&SOURCE)),
        ("extra", Shape::List(&EXTRA)),
    ],
);
const PREFIXED: Struct = Struct(
    "PrefixedClaimOrExpression",
    &[("claim", Shape::Text), ("prefix", Shape::Text), ("expression", Shape::Text)],
);
const SOURCE: Struct =
    Struct("ClaimOrExpression", &[("claim", Shape::Text), ("expression", Shape::Text)]);
const EXTRA: Struct =
    Struct("ExtraMapping", &[("key", Shape::Text), ("valueExpression", Shape::Text)]);
const CLAIM_RULE: Struct = Struct(
    "ClaimValidationRule",
    &[
        ("claim", Shape::Text),
        ("requiredValue", Shape::Text),
        ("expression", Shape::Text),
        ("message", Shape::Text),
    ],
);
const USER_RULE: Struct =
    Struct("UserValidationRule", &[("expression", Shape::Text), ("message", Shape::Text)]);
const ANONYMOUS: Struct = Struct(
    "AnonymousAuthConfig",
    &[("enabled", Shape::Bool), ("conditions", Shape::List(&ANONYMOUS_CONDITION))],
);
const ANONYMOUS_CONDITION: Struct = Struct("AnonymousAuthCondition", &[("path", Shape::Text)]);
