use super::*;

fn json(text: &str) -> Value {
    crate::from_json(text.as_bytes()).expect("JSON")
}

/// What `kubectl create configmap --from-literal --dry-run=client -o yaml` printed.
#[test]
fn quotes_as_upstream_does() {
    for (text, printed) in [
        ("yes", r#""yes""#),
        ("y", r#""y""#),
        ("No", r#""No""#),
        ("nO", "nO"),
        ("null", r#""null""#),
        ("~", r#""~""#),
        ("", r#""""#),
        ("1", r#""1""#),
        ("1.5", r#""1.5""#),
        ("1e3", r#""1e3""#),
        ("0777", r#""0777""#),
        ("0x1F", r#""0x1F""#),
        ("08", r#""08""#),
        ("1_000", r#""1_000""#),
        ("12:30:45", r#""12:30:45""#),
        ("12:70", "12:70"),
        ("2024-01-02", r#""2024-01-02""#),
        ("2024-01-02T03:04:05Z", r#""2024-01-02T03:04:05Z""#),
        ("2024-13-02", "2024-13-02"),
        ("a: b", "'a: b'"),
        ("a:b", "a:b"),
        ("a #b", "'a #b'"),
        ("a#b", "a#b"),
        ("-", "'-'"),
        ("- a", "'- a'"),
        ("-a", "-a"),
        ("*a", "'*a'"),
        ("it's", "it's"),
        ("'q'", "'''q'''"),
        ("\"q\"", "'\"q\"'"),
        ("[a]", "'[a]'"),
        ("{{x}}", "'{{x}}'"),
        ("a\tb", r#""a\tb""#),
        (" a", "' a'"),
        ("a ", "'a '"),
        ("%a", "'%a'"),
        ("@a", "'@a'"),
        ("a,b", "a,b"),
        (".", "."),
        ("...", "'...'"),
        ("---", "'---'"),
        (".5", r#"".5""#),
        ("é", "é"),
        ("😀", r#""\U0001F600""#),
        ("<<", "<<"),
        ("=", "="),
        ("a\\b", "a\\b"),
        ("+1", r#""+1""#),
        ("+", "+"),
        ("on", r#""on""#),
        ("?", "'?'"),
        ("?a", "?a"),
        (":a", ":a"),
        ("!a", "'!a'"),
        ("&a", "'&a'"),
        ("|", "'|'"),
        ("0b1", r#""0b1""#),
        ("0o7", r#""0o7""#),
        ("1.", r#""1.""#),
        ("1.2.3", "1.2.3"),
        ("0.0.0.0/0", "0.0.0.0/0"),
        ("1e999", "1e999"),
        ("-.inf", r#""-.inf""#),
        ("100m", "100m"),
    ] {
        assert_eq!(to_yaml(&Value::from(text)), format!("{printed}\n"), "{text:?}");
    }
}

#[test]
fn lays_out_as_upstream_does() {
    let value = json(
        r#"{"b":{"x":[1,[2,3],{"p":1,"q":{}},[]],"y":null},"a":"one\ntwo\n","c":"no end\nline",
            "d":"two ends\n\n","e":" lead\nx\n","f":"trail \nx","a10":1,"a9":2,"Z":0.5,"yes":true,"_":[{"a":["s"]}],
            "g":"gap\n\nx\n"}"#,
    );
    let right = "_:\n- a:\n  - s\nZ: 0.5\na: |\n  one\n  two\na9: 2\na10: 1\nb:\n  x:\n  - 1\n  - - 2\n    - 3\n  - p: 1\n    q: {}\n  - []\n  \"y\": null\nc: |-\n  no end\n  line\nd: |+\n  two ends\n\ne: |2\n   lead\n  x\nf: \"trail \\nx\"\ng: |\n  gap\n\n  x\n\"yes\": true\n";
    assert_eq!(to_yaml(&value), right);
    assert_eq!(from_yaml(right).expect("what was written"), value);
}

#[test]
fn a_text_alone_comes_back() {
    for text in ["\n", "\n\n", "a\n", "a\nb", "a"] {
        let printed = to_yaml(&Value::from(text));
        assert_eq!(from_yaml(&printed), Ok(Value::from(text)), "{printed:?}");
    }
}

#[test]
fn numbers_print_as_in_go() {
    for (n, printed) in [
        (1.5, "1.5"),
        (2.0, "2"),
        (1e21, "1e+21"),
        (0.00001, "1e-05"),
        (1_234_567.5, "1.2345675e+06"),
        (-0.5, "-0.5"),
    ] {
        assert_eq!(to_yaml(&Value::Float(n)), format!("{printed}\n"));
    }
}

#[test]
fn reads_as_go_does() {
    let text = "a: yes\nb: 0777\nc: 0x1F\nd: 1_000\ne: 1e3\nf: ~\ng: 2024-01-02\nh: '1'\ni: !!str 1\nii: !x 1\nib: !!binary aGk=\nj: 12:30:45\nk: 08\nl: nO\nm: 18446744073709551615\nN1: [a, {b: c}]\no: |\n  x\n  y\np: >-\n  folded\n  text\nq:\n1: x\ntrue: on\n";
    let right = r#"{"a":true,"b":511,"c":31,"d":1000,"e":1000,"f":null,"g":"2024-01-02","h":"1","i":"1","ii":"1","ib":"hi","j":"12:30:45","k":8,"l":"nO","m":18446744073709551615,"N1":["a",{"b":"c"}],"o":"x\ny\n","p":"folded text","q":null,"1":"x","true":true}"#;
    assert_eq!(from_yaml(text).expect("well formed"), json(right));
}

#[test]
fn merges_and_refuses() {
    let text = "base: &b {x: 1, z: 2}\none:\n  <<: *b\n  z: 3\ntwo:\n  <<: [{x: 7}, *b]\n";
    let value = from_yaml(text).expect("well formed");
    assert_eq!(value["one"], json(r#"{"x":1,"z":3}"#));
    assert_eq!(value["two"], json(r#"{"x":7,"z":2}"#));

    let wrong = |text| from_yaml(text).expect_err("malformed").to_string();
    assert_eq!(wrong("a:\n\tb: 1"), "yaml: line 2: found character that cannot start any token");
    assert_eq!(wrong("a: [*x, 1]"), "yaml: unknown anchor 'x' referenced");
    assert_eq!(wrong("a: -.inf"), "json: unsupported value: -Inf");
    assert_eq!(
        wrong("~: [x]"),
        r#"unsupported map key of type: %!s(<nil>), key: <nil>, value: []interface {}{"x"}"#
    );
    assert_eq!(
        wrong("a: 1\nb: 2\na: 3\n"),
        "yaml: unmarshal errors:\n  line 3: key \"a\" already set in map"
    );
    assert_eq!(from_yaml_lenient("a: 1\na: 3\n").expect("the last"), json(r#"{"a":3}"#));
    assert_eq!(wrong("a: b: c\n"), "yaml: mapping values are not allowed in this context");
    assert_eq!(
        wrong("a: 1\n  b: c: d\n"),
        "yaml: line 2: mapping values are not allowed in this context"
    );
}

#[test]
fn an_alias_bomb_is_refused() {
    let mut text = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n".to_owned();
    for n in 1..9 {
        let last = n - 1;
        let many = vec![format!("*a{last}"); 10].join(",");
        text.extend([format!("a{n}: &a{n} [{many}]\n")]);
    }
    assert_eq!(
        from_yaml(&text).expect_err("a bomb").to_string(),
        "yaml: document contains excessive aliasing"
    );
}

#[test]
fn aliases_do_not_nest_deeper_than_brackets_may() {
    let mut text = "a0: &a0 [x]\n".to_owned();
    for n in 1..2000 {
        let (open, close) = ("[".repeat(100), "]".repeat(100));
        text.extend([format!("a{n}: &a{n} {open}*a{}{close}\n", n - 1)]);
    }
    let refused = from_yaml(&text).expect_err("200,000 levels").to_string();
    assert_eq!(refused, "yaml: exceeded max depth of 216");
}

#[test]
fn aliases_may_not_be_nearly_all_of_a_large_document() {
    let many = |count: usize| {
        let item = format!("a: &a [{}]\n", vec!["x"; 1000].join(","));
        format!("{item}b: [{}]\n", vec!["*a"; count].join(","))
    };
    assert!(from_yaml(&many(90)).is_ok());
    let refused = from_yaml(&many(2000)).expect_err("two millions").to_string();
    assert_eq!(refused, "yaml: document contains excessive aliasing");
}

#[test]
fn splits_files() {
    let documents =
        split_documents("---\na: 1\n---\n\n--- # two\nb: |\n  x\n   ---\n").expect("well formed");
    assert_eq!(documents, ["a: 1\n", "b: |\n  x\n   ---\n"]);
    assert!(split_documents("a: 1\n--- b\n").is_err());
}

#[test]
fn long_lines_are_broken_at_a_space() {
    let words = |word: &str| [word; 20].join(" ");
    let shown = |text: String| to_yaml(&Value::from_iter([Value::from(text)]));
    let lines = shown(words("plain"));
    assert_eq!(lines.lines().next().map(str::len), Some(85), "the word is ended: {lines}");
    assert!(lines.lines().nth(1).is_some_and(|line| line.starts_with("  plain")), "{lines}");
    assert!(shown(words("a: b")).starts_with("- 'a: b a: b"));
    assert!(shown(words("\u{7} x")).contains("\n  \\a x"), "{}", shown(words("\u{7} x")));
    for word in ["plain", "a: b", "it's", "\u{7}  x", "two   spaces"] {
        let read = from_yaml(&shown(words(word))).expect("YAML");
        assert_eq!(read.items()[0].as_str(), Some(&*words(word)), "{word}");
    }
}
