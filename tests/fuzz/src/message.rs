//! A control message.

use egret_dataplane::message::Message;

/// See the module.
pub fn run(data: &[u8]) {
    if let Ok(message) = Message::decode(data) {
        let again = Message::decode(&message.encode()).expect("what was read can be written and read");
        // Not a number is not equal to itself.
        assert_eq!(format!("{again:?}"), format!("{message:?}"));
    }
}
