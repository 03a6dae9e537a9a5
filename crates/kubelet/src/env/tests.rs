use object::yaml::from_yaml;

use super::*;

#[test]
fn references_expand_and_dollars_escape() {
    let known = |name: &str| (name == "A").then_some("1");
    for (text, want) in [
        ("$(A)-$(A)", "1-1"),
        ("$(B)", "$(B)"),
        ("$$(A)", "$(A)"),
        ("$A ${A} $", "$A ${A} $"),
        ("$(A", "$(A"),
        ("$(A)$(", "1$("),
        ("$($(A))", "$($(A))"),
        (")$(A", ")$(A"),
    ] {
        assert_eq!(expand(text, known).as_deref(), Ok(want), "{text}");
    }
}

/// Each variable references the previous one twice: forty of them would expand to a terabyte.
#[test]
fn references_to_references_do_not_fill_the_memory() {
    let one = |at: usize| format!("{{name: v{}, value: '$(v{at})$(v{at})'}}", at + 1);
    let all: Vec<_> = (0..40).map(one).collect();
    let text = format!("{{name: a, env: [{{name: v0, value: x}}, {}]}}", all.join(", "));
    let refused = vars(&text, &EnvSources::default()).unwrap_err();
    assert!(refused.contains("variable v18: longer than 131072 bytes"), "{refused}");
    let known = |_: &str| Some(BIG);
    let words = || std::iter::repeat_n("$(A)", 100_000);
    assert!(expand_all(words(), known).unwrap_err().contains("longer than 2097152"));
    assert!(expand(&"$(A)".repeat(100_000), known).is_err());
}

const BIG: &str = "0123456789012345678901234567890123456789012345678901234567890123456789";

/// The same large value under many names.
#[test]
fn an_environment_is_no_longer_than_the_kernel_takes() {
    let data = BTreeMap::from([("k".to_owned(), vec![b'x'; 1 << 20])]);
    let sources =
        EnvSources { config_maps: [("m".to_owned(), Some(data))].into(), ..EnvSources::default() };
    let one = |at: usize| format!("{{prefix: p{at}, configMapRef: {{name: m}}}}");
    let all: Vec<_> = (0..1000).map(one).collect();
    let refused = vars(&format!("{{name: a, envFrom: [{}]}}", all.join(", ")), &sources);
    assert_eq!(refused.unwrap_err(), "the environment is longer than 2097152 bytes");
}

/// Expansion takes linear time for many variables and for many unterminated references.
#[test]
fn long_lists_and_texts_take_little_time() {
    let began = std::time::Instant::now();
    let mut vars = Vars::default();
    for at in 0..60_000 {
        vars.set(&format!("v{at}"), "x".into()).unwrap();
    }
    let open = format!("){}", "$(".repeat(1 << 20));
    assert_eq!(expand(&open, |_| None).unwrap(), open);
    assert!(began.elapsed().as_secs() < 60, "{:?}", began.elapsed());
}

fn vars(container: &str, sources: &EnvSources) -> Result<Vec<(String, String)>, String> {
    let text = format!(
        "metadata: {{name: p, namespace: ns, labels: {{k: v}}}}\nspec: {{containers: [{container}]}}"
    );
    let pod = Pod::from(from_yaml(&text).unwrap());
    let container = pod.spec().containers().iter().next().unwrap().clone();
    env(&pod, &container, sources)
}

#[test]
fn variables_come_from_everywhere_and_the_last_wins() {
    let data = [("x".to_owned(), b"1".to_vec()), ("yy".to_owned(), b"2".to_vec())];
    let sources = EnvSources {
        config_maps: [("m".to_owned(), Some(data.into()))].into(),
        services: [("S_HOST".to_owned(), "10.0.0.1".to_owned())].into(),
        ..EnvSources::default()
    };
    let got = vars(
        "{name: a, envFrom: [{configMapRef: {name: m}}], env: [{name: yy, value: '3'}, \
         {name: z, value: '$(yy)$(S_HOST)'}, {name: nn, valueFrom: {fieldRef: {fieldPath: metadata.name}}}, \
         {name: l, valueFrom: {fieldRef: {fieldPath: \"metadata.labels['k']\"}}}, \
         {name: c, valueFrom: {resourceFieldRef: {resource: requests.cpu, divisor: 1m}}}], \
         resources: {requests: {cpu: 250m}}}",
        &sources,
    );
    let want = [
        ("x", "1"),
        ("yy", "3"),
        ("z", "310.0.0.1"),
        ("nn", "p"),
        ("l", "v"),
        ("c", "250"),
        ("S_HOST", "10.0.0.1"),
    ];
    let want = want.map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(got.unwrap(), want);
}

#[test]
fn what_is_missing_is_named_unless_optional() {
    let none = EnvSources::default();
    let needed = "{name: a, env: [{name: v, valueFrom: {secretKeyRef: {name: s, key: k}}}]}";
    assert_eq!(vars(needed, &none).unwrap_err(), "secret \"s\" not found");
    let optional = needed.replace("key: k", "key: k, optional: true");
    assert_eq!(vars(&optional, &none).unwrap(), []);
}
