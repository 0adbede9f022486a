//! `egret config`: the configuration keys there are. Also reads `-c KEY=VALUE`.

use super::failure::{Failure, Outcome};
use super::output::Output;
use egret_dataplane::plan::Config;
use egret_dataplane::plan::config::{ALIASES, KEYS, Key, USER_PREFIX};
use serde_json::json;

/// Runs the command.
pub(crate) fn run(output: Output, filter: Option<&str>) -> Outcome {
    let wanted =
        |key: &&Key| filter.is_none_or(|part| key.name.contains(part) || aliases(key).contains(&part));
    let keys: Vec<&Key> = KEYS.iter().filter(wanted).collect();
    if keys.is_empty() {
        let part = filter.unwrap_or_default();
        return Err(Failure::usage(format!(
            "no configuration key contains `{part}`; `egret config` lists all"
        )));
    }
    let document: Vec<_> = keys.iter().map(|key| describe(key)).collect();
    output.result(&document, || {
        let entries: String = keys.iter().map(|key| text(key)).collect();
        format!(
            "{entries}\nKeys that begin with `{USER_PREFIX}` are your own; every component can read them."
        )
    })
}

fn describe(key: &Key) -> serde_json::Value {
    json!({
        "key": key.name,
        "aliases": aliases(key),
        "default": key.default,
        "values": key.kind.expected(),
        "help": key.help.trim(),
        "unsupported": key.unsupported,
    })
}

fn text(key: &Key) -> String {
    let aliases: String = aliases(key).iter().map(|alias| format!(" (or {alias})")).collect();
    let unsupported = match key.unsupported {
        [] => String::new(),
        values => format!("; {} not supported yet", values.join(", ")),
    };
    let (name, default, help, expected) = (key.name, key.default, key.help.trim(), key.kind.expected());
    format!("{name}{aliases} = {default}\n    {help}\n    Takes {expected}{unsupported}.\n")
}

fn aliases(key: &Key) -> Vec<&'static str> {
    ALIASES.iter().filter(|(_, name)| *name == key.name).map(|(alias, _)| *alias).collect()
}

/// Reads the `-c KEY=VALUE` options, the last one of a key winning.
///
/// # Errors
/// Every one that is wrong, with what would be right.
pub(crate) fn overrides(options: &[String]) -> Result<Config, Failure> {
    let mut config = Config::default();
    let mut problems = Vec::new();
    for option in options {
        match option.split_once('=') {
            None => problems.push(format!("-c {option}: give it as KEY=VALUE")),
            Some((key, value)) => {
                if let Err(error) = config.set(key.trim(), value) {
                    problems.push(format!("-c {option}: {error}"));
                }
            }
        }
    }
    if problems.is_empty() { Ok(config) } else { Err(Failure::usage(problems.join("\n"))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_wrong_option_is_named_with_its_cure() {
        let options = ["topology.container=2", "topology.containers=x", "nonsense", "user.a=b=c"];
        let failure = overrides(&options.map(str::to_owned)).unwrap_err();
        let lines: Vec<_> = failure.message.lines().collect();
        assert_eq!(lines.len(), 3, "{lines:?}");
        assert!(lines[0].contains("did you mean `topology.containers`"), "{}", lines[0]);
        assert!(lines[1].contains("a whole number from 0 to 10000"), "{}", lines[1]);
        assert!(lines[2].contains("KEY=VALUE"), "{}", lines[2]);
    }

    #[test]
    fn the_last_value_of_a_key_wins_and_may_contain_an_equals_sign() {
        let config = overrides(&["user.a=1", "user.a=b=c"].map(str::to_owned)).unwrap();
        assert_eq!(config.text("user.a"), Some("b=c"));
    }
}
