//! What a stranger does to an item of ours: to its attributes, and to their values, in DynamoDB's JSON.

use arbitrary::{Result as Chosen, Unstructured};
use serde_json::{Map, Value, json};

use crate::{
    mutate::{part, public},
    secrets,
};

/// Numbers as a table gives them, and as none does; one between two bars.
const NUMBERS: &str = "0|-0|1|-1|2|0.5|1.5|1.0|-7|7|999|1000|86399999|86400000|86400001|86400000.5|1795230000123|\
    1795230060000|1795230060000.1|253402300799999|253402300800000|253402300799|500000000000000|4503599627370495|\
    4503599627370496|4503599627370497|9007199254740993|18446744073709551615|18446744073709551616|\
    99999999999999999999999999999999999999|-99999999999999999999999999999999999999|1E+38|1e38|1E-130|\
    9.9999999999999999999999999999999999999E+125|| 7|+7|007|0x7|NaN|Infinity|1_000|\u{661}";

const TEXTS: &str = "| |a|released|expired|forced|RELEASED|lost|first|second|somebody|\u{0}|a\u{0}b|\u{202e}drawkcab|\
    \u{e9}|e\u{301}|0123456789abcdef0123456789abcdef|0123456789ABCDEF0123456789ABCDEF|7|null|LEASE#0000|tomorrow|\
    2026-11-21T03:00:00.123Z|freeze|force_release|unfreeze|raise_floor";

const NAMES: &str = "holder|lease_id|ttl_ms|acquired_at|extended_at|expires_at|metadata|keep_ms|looked_at|\
    look_again_at|sweep_after|fencing_token|version|granted_to|request|request_keys|\
    past_request_1|past_request_2|past_request_3|past_release_1|past_release_2|past_release_3|previous_holder|\
    previous_fencing_token|previous_last_fencing_token|previous_ended|ended|purge_at|frozen|operator|queue|\
    last_fencing_token|notifications|notified_at|refused_at|task_token|ticket|asked_at|deadline|colour|Holder|ttl";

/// One change of an item.
pub fn mutate(item: &mut Map<String, Value>, choices: &mut Unstructured<'_>) -> Chosen<()> {
    let names: Vec<String> = item.keys().cloned().collect();
    if names.is_empty() {
        return Ok(());
    }
    let (own, other) = (choices.choose(&names)?, choices.choose(&names)?);
    match choices.int_in_range(0..=11)? {
        0 => drop(item.remove(own)),
        1 => put(item, part(NAMES, choices)?, value(choices)?),
        2 if own != other => {
            let (a, b) = (public(&item[own]), public(&item[other]));
            put(item, own.clone(), b);
            put(item, other.clone(), a);
        }
        3 => {
            let moved = item.remove(own).as_ref().map(public);
            put(item, part(NAMES, choices)?, moved.unwrap_or_default());
        }
        4..=7 => {
            let near = near(&item[own].clone(), choices)?;
            put(item, own.clone(), near);
        }
        _ => put(item, own.clone(), value(choices)?),
    }
    Ok(())
}

/// Puts it there, and sees to it that a secret can be recognised.
fn put(item: &mut Map<String, Value>, name: String, mut value: Value) {
    if secrets::is_secret(&name)
        && let Some(Value::String(text)) = value.get_mut("S")
        && !text.is_empty()
        && !text.contains(secrets::MARK)
    {
        *text = secrets::secret(&text.chars().filter(char::is_ascii).collect::<String>());
    }
    item.insert(name, value);
}

/// Something that is almost the same.
fn near(value: &Value, choices: &mut Unstructured<'_>) -> Chosen<Value> {
    let Some((kind, inner)) = value.as_object().and_then(|kinds| kinds.iter().next()) else {
        return self::value(choices);
    };
    Ok(match (kind.as_str(), inner) {
        ("N", Value::String(number)) => match (choices.int_in_range(0..=8)?, number.parse::<u64>())
        {
            (0, Ok(n)) => json!({"N": n.wrapping_add(1).to_string()}),
            (1, Ok(n)) => json!({"N": n.wrapping_sub(1).to_string()}),
            (2, _) => json!({"N": format!("-{number}")}),
            (3, _) => json!({"N": format!("{number}.0")}),
            (4, _) => json!({"N": format!("{number}.5")}),
            (5, _) => json!({"N": format!("{number}000")}),
            (6, _) => json!({"S": number}),
            (7, _) => json!({"NS": [number]}),
            _ => json!({"L": [value]}),
        },
        ("S", Value::String(text)) => match choices.int_in_range(0..=7)? {
            0 => json!({"S": format!("{text}x")}),
            1 => json!({"S": text.chars().skip(1).collect::<String>()}),
            2 => json!({"S": text.replace(secrets::MARK, "public").to_uppercase()}),
            3 => json!({"S": text.repeat(2)}),
            4 => json!({"SS": [text]}),
            5 => json!({"B": text}),
            6 => json!({"L": [value]}),
            _ => json!({"M": {"S": value}}),
        },
        ("B", Value::String(bytes)) => match choices.int_in_range(0..=4)? {
            0 => json!({"B": format!("{bytes}x")}),
            1 => json!({"B": bytes.chars().skip(1).collect::<String>()}),
            2 => json!({"B": ""}),
            3 => json!({"S": bytes}),
            _ => json!({"L": [value]}),
        },
        ("L", Value::Array(items)) => {
            let mut items = items.clone();
            match choices.int_in_range(0..=4)? {
                0 => items.clear(),
                1 => items.push(json!({"B": "0123456789abcdef"})),
                2 => items.extend(items.first().cloned()),
                3 => items.push(self::value(choices)?),
                _ => items.resize(
                    *choices.choose(&[127, 128, 129, 2000])?,
                    json!({"B": "ffffffffffffffff"}),
                ),
            }
            json!({ "L": items })
        }
        ("M", Value::Object(fields)) => {
            let mut fields = fields.clone();
            fields.insert(part("|a|who|why|at|act", choices)?, self::value(choices)?);
            json!({ "M": fields })
        }
        ("BOOL", Value::Bool(yes)) => json!({"BOOL": !yes}),
        _ => self::value(choices)?,
    })
}

/// Something altogether different.
fn value(choices: &mut Unstructured<'_>) -> Chosen<Value> {
    Ok(match choices.int_in_range(0..=23)? {
        0 => json!({"NULL": true}),
        1 => json!({"BOOL": choices.arbitrary::<bool>()?}),
        2 => json!({"B": part(TEXTS, choices)?}),
        3 => json!({"L": []}),
        4 => json!({"M": {}}),
        5 => json!({"L": [{"B": part(TEXTS, choices)?}, {"N": "1"}]}),
        6 => json!({"M": {"who": {"S": part(TEXTS, choices)?}}}),
        7 => json!({"SS": ["a"]}),
        8 => json!({"NS": ["1"]}),
        9 => {
            let levels = *choices.choose(&[31, 32, 33, 100])?;
            (0..levels).fold(json!({"S": "x"}), |inner, level| match level % 2 {
                0 => json!({"L": [inner]}),
                _ => json!({"M": {"a": inner}}),
            })
        }
        10 if choices.ratio(1, 20)? => json!({"S": "x".repeat(400_000)}),
        11 => {
            let length = *choices.choose(&[256, 257, 1024, 1025, 2048, 2049])?;
            json!({"S": "x".repeat(length)})
        }
        12..=17 => json!({"N": part(NUMBERS, choices)?}),
        _ => json!({"S": part(TEXTS, choices)?}),
    })
}
