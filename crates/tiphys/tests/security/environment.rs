//! Attacks with pods whose spec is small and whose expansion is not.

use crate::attack::Attack;

/// Each variable references the previous one twice: forty of them expand to a terabyte, which the kubelet must not
/// allocate.
#[test]
fn variables_do_not_fill_the_nodes_memory() {
    let attack = Attack::new("bomb");
    let double = |at: usize| format!("{{name: v{}, value: $(v{at})$(v{at})}}", at + 1);
    let all: Vec<_> = (0..40).map(double).collect();
    let env = format!("    env: [{{name: v0, value: x}}, {}]", all.join(", "));
    attack.pod("doubled", "true", &env, "");
    let why = ".status.containerStatuses[0].state.waiting.message";
    attack.world.until("it is refused", || attack.get("doubled", why).contains("longer than"));

    // one variable in thousands of arguments, then one ConfigMap referenced thousands of times
    let words = vec!["$(big)"; 50_000].join(", ");
    let big = "x".repeat(100_000);
    attack.pod(
        "words",
        "true",
        &format!("    env: [{{name: big, value: {big}}}]\n    args: [{words}]"),
        "",
    );
    attack.world.until("it is refused", || attack.get("words", why).contains("longer than"));
    attack.create(&format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: m}}\ndata: {{a: {}}}",
        "x".repeat(900_000)
    ));
    let many = |one: &dyn Fn(usize) -> String| (0..2000).map(one).collect::<Vec<_>>().join(", ");
    let from = many(&|at| format!("{{prefix: p{at}, configMapRef: {{name: m}}}}"));
    attack.pod("sources", "true", &format!("    envFrom: [{from}]"), "");
    attack.world.until("it is refused", || attack.get("sources", why).contains("longer than"));
    let projected =
        many(&|at| format!("{{configMap: {{name: m, items: [{{key: a, path: p{at}}}]}}}}"));
    let volume = format!("  volumes: [{{name: v, projected: {{sources: [{projected}]}}}}]");
    attack.pod("projected", "true", "    volumeMounts: [{name: v, mountPath: /v}]", &volume);
    attack.world.until("it is refused", || {
        attack.kubectl(&["get", "events"]).contains("the pod's files are larger than")
    });
    attack.assert_unharmed();
    attack.end();
}
