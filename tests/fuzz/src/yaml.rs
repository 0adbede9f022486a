//! A topology in YAML.

use std::path::Path;

/// See the module.
pub fn run(data: &[u8]) {
    let Ok(source) = std::str::from_utf8(data) else { return };
    match egret::yaml::parse(Path::new("fuzz.yaml"), source, &[]) {
        Ok(topology) => assert_eq!(topology.validate(), [], "what is accepted is valid"),
        Err(errors) => assert!(!errors.to_string().is_empty()),
    }
}
