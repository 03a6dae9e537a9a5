//! The fields of an AuthenticationConfiguration.

use crate::structured::{ConfigSchema, FieldKind};

pub(super) const CONFIGURATION: ConfigSchema = ConfigSchema(
    "AuthenticationConfiguration",
    &[("jwt", FieldKind::List(&JWT)), ("anonymous", FieldKind::Object(&ANONYMOUS))],
);
const JWT: ConfigSchema = ConfigSchema(
    "JWTAuthenticator",
    &[
        ("issuer", FieldKind::Object(&ISSUER)),
        ("claimMappings", FieldKind::Object(&MAPPINGS)),
        ("claimValidationRules", FieldKind::List(&CLAIM_RULE)),
        ("userValidationRules", FieldKind::List(&USER_RULE)),
    ],
);
const ISSUER: ConfigSchema = ConfigSchema(
    "Issuer",
    &[
        ("url", FieldKind::Text),
        ("discoveryURL", FieldKind::Text),
        ("certificateAuthority", FieldKind::Text),
        ("audiences", FieldKind::Texts),
        ("audienceMatchPolicy", FieldKind::Text),
        ("egressSelectorType", FieldKind::Text),
    ],
);
const MAPPINGS: ConfigSchema = ConfigSchema(
    "ClaimMappings",
    &[
        ("username", FieldKind::Object(&PREFIXED)),
        ("groups", FieldKind::Object(&PREFIXED)),
        ("uid", FieldKind::Object(&SOURCE)),
        ("extra", FieldKind::List(&EXTRA)),
    ],
);
const PREFIXED: ConfigSchema = ConfigSchema(
    "PrefixedClaimOrExpression",
    &[("claim", FieldKind::Text), ("prefix", FieldKind::Text), ("expression", FieldKind::Text)],
);
const SOURCE: ConfigSchema = ConfigSchema(
    "ClaimOrExpression",
    &[("claim", FieldKind::Text), ("expression", FieldKind::Text)],
);
const EXTRA: ConfigSchema =
    ConfigSchema("ExtraMapping", &[("key", FieldKind::Text), ("valueExpression", FieldKind::Text)]);
const CLAIM_RULE: ConfigSchema = ConfigSchema(
    "ClaimValidationRule",
    &[
        ("claim", FieldKind::Text),
        ("requiredValue", FieldKind::Text),
        ("expression", FieldKind::Text),
        ("message", FieldKind::Text),
    ],
);
const USER_RULE: ConfigSchema = ConfigSchema(
    "UserValidationRule",
    &[("expression", FieldKind::Text), ("message", FieldKind::Text)],
);
const ANONYMOUS: ConfigSchema = ConfigSchema(
    "AnonymousAuthConfig",
    &[("enabled", FieldKind::Bool), ("conditions", FieldKind::List(&ANONYMOUS_CONDITION))],
);
const ANONYMOUS_CONDITION: ConfigSchema =
    ConfigSchema("AnonymousAuthCondition", &[("path", FieldKind::Text)]);
