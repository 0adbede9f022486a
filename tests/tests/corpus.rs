//! The inputs that fuzzing found worth keeping, once more: every target must return.
#![allow(clippy::unwrap_used, clippy::expect_used, unreachable_pub, unsafe_code)]

#[path = "../fuzz/src/block.rs"]
mod block;
#[path = "../fuzz/src/bytes.rs"]
mod bytes;
#[path = "../../control/src/state/codec.rs"]
mod codec;
#[path = "../fuzz/src/descriptor.rs"]
mod descriptor;
#[path = "../fuzz/src/frame.rs"]
mod frame;
#[path = "../fuzz/src/message.rs"]
mod message;
#[path = "../fuzz/src/ring.rs"]
mod ring;
#[path = "../fuzz/src/state.rs"]
mod state;
#[path = "../fuzz/src/yaml.rs"]
mod yaml;

use std::fs;
use std::path::Path;

fn replay(target: &str, run: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target);
    let mut inputs = 0;
    for file in fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
        let path = file.unwrap().path();
        // Shown when it fails.
        println!("{}", path.display());
        run(&fs::read(path).unwrap());
        inputs += 1;
    }
    assert!(inputs > 0, "{} holds inputs", folder.display());
}

macro_rules! replayed {
    ($($name:ident: $target:ident),*) => {$(
        #[test]
        fn $name() {
            replay(stringify!($target), $target::run);
        }
    )*};
}

replayed!(
    blocks_return: block, descriptors_return: descriptor, frames_return: frame, messages_return: message,
    rings_return: ring, state_files_return: state, topologies_return: yaml
);
