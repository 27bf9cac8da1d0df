//! Tests of the JSON reader: places, tolerances, hostile input, and that printed values read back.

use super::json::{Kind, Source, Value, parse};
use proptest::prelude::*;
use schedlab_base::Error;

fn read(text: &str) -> Result<Value, Error> {
    parse(Source::new("t.json", text))
}
fn complaint(text: &str) -> String {
    read(text).expect_err(text).to_string()
}

/// Prints a value as strict JSON.
fn print(value: &Kind, out: &mut String) {
    let quote = |s: &str| serde_json::Value::from(s).to_string();
    match value {
        Kind::Null => out.push_str("null"),
        Kind::Bool(b) => out.push_str(&b.to_string()),
        Kind::Number(n) => out.push_str(n),
        Kind::Text(t) => out.push_str(&quote(t)),
        Kind::List(l) => {
            out.push('[');
            for (i, v) in l.iter().enumerate() {
                out.push_str(if i == 0 { "" } else { ", " });
                print(&v.kind, out);
            }
            out.push(']');
        }
        Kind::Object(o) => {
            out.push('{');
            for (i, m) in o.iter().enumerate() {
                out.push_str(if i == 0 { "" } else { ",\n" });
                out.push_str(&quote(&m.key));
                out.push_str(": ");
                print(&m.value.kind, out);
            }
            out.push('}');
        }
    }
}
fn printed(value: &Value) -> String {
    let mut out = String::new();
    print(&value.kind, &mut out);
    out
}

#[test]
fn members_keep_the_order_and_the_place_of_the_file() {
    let value = read("{\n  \"z\": 1,\n  \"a\": [true, -2.5e3]\n}").unwrap();
    let Kind::Object(members) = &value.kind else { panic!("{value:?}") };
    assert_eq!(members.iter().map(|m| m.key.as_str()).collect::<Vec<_>>(), ["z", "a"]);
    let text = "{\n  \"z\": 1,\n  \"a\": [true, -2.5e3]\n}";
    let spot = Source::new("t.json", text).spot(members[1].value.at);
    assert_eq!(spot.to_string(), "t.json:3:8");
}

#[test]
fn tolerates_comments_trailing_commas_and_capital_booleans() {
    let value = read("/* a * b */ { // c\n \"x\" : [1, 2,], \"y\": True, /**/ \"z\": FALSE, }").unwrap();
    assert_eq!(printed(&value), "{\"x\": [1, 2],\n\"y\": true,\n\"z\": false}");
}

#[test]
fn a_comment_sign_in_a_string_is_text() {
    assert_eq!(printed(&read("[\"/* no */ // no\"]").unwrap()), "[\"/* no */ // no\"]");
}

#[test]
fn escapes_and_surrogate_pairs_are_read() {
    let value = read(r#""\u0041\n\"\\\/\ud83d\ude00""#).unwrap();
    let Kind::Text(text) = value.kind else { panic!() };
    assert_eq!(text, "A\n\"\\/\u{1f600}");
    assert!(complaint(r#""\ud83d""#).contains("\\u escape"));
    assert!(complaint(r#""\u12"#).contains("\\u escape"));
}

fn names(text: &str) -> Vec<String> {
    let Kind::Object(members) = read(text).unwrap().kind else { panic!("{text}") };
    members.iter().map(super::json::Member::name).collect()
}

#[test]
fn repeated_keys_are_numbered_as_workgen_does() {
    // The names that workgen 1.0 gives these keys, one per line.
    assert_eq!(
        names(r#"{"run": 1, "run": 2, "run1": 3, "sleep": 4, "sleep": 5, "run": 6, "run2": 7, "sleep": 8}"#),
        ["run", "run1", "run11", "sleep", "sleep1", "run2", "run22", "sleep2"]
    );
    let Kind::Object(members) = read("{\n\"a\": 1,\n\"b\": {\"a\": 1},\n\"a\": 2 }").unwrap().kind else {
        panic!()
    };
    assert!(members[0].repeats.is_none() && members[1].repeats.is_none());
    assert_eq!(members[2].repeats.map(|r| (r.first, r.number)), Some((2, 1)));
}

#[test]
fn only_a_suspend_may_stand_without_a_value() {
    for text in ["{\"suspend\"}", "{\"suspend\",}", "{\"suspend0\" /* none */ , \"run\": 1}"] {
        let Kind::Object(members) = read(text).unwrap().kind else { panic!("{text}") };
        assert!(matches!(&members[0].value.kind, Kind::Text(t) if t.is_empty()), "{text}");
    }
    for text in ["{\"resume\"}", "{\"suspend\" 1}", "{\"suspend\"", "[\"a\", {\"\"}]"] {
        assert!(complaint(text).contains("expected ':'"), "{text}");
    }
}

#[test]
fn strings_may_have_single_quotes() {
    assert_eq!(
        printed(&read("{'a': 'say \"b\"', \"c\": \"it's\"}").unwrap()),
        "{\"a\": \"say \\\"b\\\"\",\n\"c\": \"it's\"}"
    );
    assert!(complaint("['a\"]").contains("not closed"));
}

#[test]
fn errors_have_their_place_in_the_file() {
    for (text, wanted) in [
        ("", "t.json:1:1: expected a value, found the end of the file"),
        ("{\"a\": 1 \"b\": 2}", "t.json:1:9: expected ',' or '}', found '\"'"),
        ("{\"a\" 1}", "t.json:1:6: expected ':', found '1'"),
        ("{a: 1}", "t.json:1:2: expected a key in quotes or '}', found 'a'"),
        ("[1] x", "t.json:1:5: expected the end of the file, found 'x'"),
        ("[\n\"abc\n\"]", "t.json:2:1: this string is not closed on its line"),
        ("[1, /* x", "t.json:1:5: this comment is never closed"),
        ("[yes]", "t.json:1:2: expected a value (strings need quotes), found 'y'"),
        ("[1.]", "t.json:1:4: expected a digit, found ']'"),
        ("[012]", "t.json:1:2: a number can't start with 0"),
        ("[,]", "t.json:1:2: expected a value, found ','"),
    ] {
        assert_eq!(complaint(text).lines().next(), Some(wanted), "{text:?}");
    }
}

#[test]
fn depth_is_limited_instead_of_overflowing_the_stack() {
    assert!(read(&format!("{}1{}", "[".repeat(30), "]".repeat(30))).is_ok());
    for open in ["[", "{\"a\":", "[{\"a\":"] {
        assert!(complaint(&open.repeat(1_000_000)).contains("deep"));
    }
}

#[test]
fn many_keys_take_no_quadratic_time() {
    let body: Vec<String> = (0..200_000).map(|i| format!("\"k{i}\":{i}")).collect();
    let Kind::Object(members) = read(&format!("{{{}}}", body.join(","))).unwrap().kind else { panic!() };
    assert_eq!(members.len(), 200_000);
    let same = format!("{{{}}}", "\"run\":1,".repeat(100_000));
    assert_eq!(names(&same)[99_999], "run99999");
}

/// Random values.
fn any_json() -> impl Strategy<Value = serde_json::Value> {
    use serde_json::Value as J;
    let leaf = prop_oneof![
        Just(J::Null),
        any::<bool>().prop_map(J::from),
        any::<i64>().prop_map(J::from),
        any::<u64>().prop_map(J::from),
        any::<i32>().prop_map(|i| J::from(f64::from(i) / 4.0)),
        ".*".prop_map(J::from),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(J::from),
            prop::collection::btree_map(".*", inner, 0..6).prop_map(J::from_iter),
        ]
    })
}

proptest! {
    #[test]
    fn printed_values_read_back(json in any_json()) {
        let once = printed(&read(&json.to_string()).unwrap());
        prop_assert_eq!(printed(&read(&once).unwrap()), once.clone());
        // An independent reader reads the same content.
        prop_assert_eq!(serde_json::from_str::<serde_json::Value>(&once).unwrap(), json);
    }

    #[test]
    fn hostile_text_never_panics(text in "\\PC*|[\\[\\]{}\",:/*\\\\ue+.0-9a-f \n-]*") {
        if let Err(e) = read(&text) {
            prop_assert!(e.spot().is_some(), "{}", e);
        }
    }

    #[test]
    fn damaged_json_never_panics(json in any_json(), cut in 0usize..4096, byte in any::<char>()) {
        let mut chars: Vec<char> = json.to_string().chars().collect();
        let at = cut % chars.len();
        chars[at] = byte;
        let _either = read(&chars.iter().collect::<String>());
    }
}
