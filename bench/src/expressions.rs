//! CPU time of CEL expressions: compiling and evaluating validation rules of a custom resource.

use std::{
    hint::black_box,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, anyhow};
use cel::{Bindings, CALL_LIMIT, DeclType, Environment};
use object::from_json;

const TIMES: u32 = 2_000;

const SCHEMA: &str = r#"{"type": "object", "properties": {
    "replicas": {"type": "integer"}, "name": {"type": "string", "maxLength": 63},
    "ports": {"type": "array", "maxItems": 16, "items": {"type": "object", "properties": {
        "name": {"type": "string", "maxLength": 15}, "port": {"type": "integer"}}}}}}"#;

const OBJECT: &str = r#"{"replicas": 3, "name": "web-1", "ports": [
    {"name": "http", "port": 80}, {"name": "https", "port": 443}, {"name": "metrics", "port": 9090}]}"#;

const RULES: &[(&str, &str)] = &[
    ("compare", "self.replicas <= 10"),
    ("match", "self.name.matches('^[a-z][a-z0-9-]*$')"),
    ("all of a list", "self.ports.all(p, p.port > 0 && p.port < 65536)"),
    ("unique in a list", "self.ports.all(p, self.ports.exists_one(q, q.name == p.name))"),
];

/// Measures each rule and prints a line for it.
pub(crate) fn measure() -> Result<()> {
    let schema = from_json(SCHEMA.as_bytes()).context("the schema")?;
    let object = from_json(OBJECT.as_bytes()).context("the object")?;
    let node = DeclType::from_json_schema(&schema, false);
    let environment = Arc::new(Environment::new().with_node("self", &node));
    println!("{:<28} {:>12} {:>12}", "expressions", "compile", "evaluate");
    for (name, rule) in RULES {
        let compile = || environment.compile(black_box(rule)).map_err(|errors| anyhow!("{errors}"));
        let program = compile()?;
        let compiling = each(|| drop(black_box(compile())));
        let bindings = Bindings::new().tree("self", &object, Some(&node))?;
        let evaluating = each(|| drop(black_box(program.evaluate(&bindings, CALL_LIMIT))));
        let micros = |time: Duration| format!("{:.2} µs", time.as_secs_f64() * 1e6);
        println!("{name:<28} {:>12} {:>12}", micros(compiling), micros(evaluating));
    }
    Ok(())
}

fn each(work: impl Fn()) -> Duration {
    let began = Instant::now();
    for _ in 0..TIMES {
        work();
    }
    began.elapsed() / TIMES
}
