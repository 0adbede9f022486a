//! The multi-call binary, built by this package so that its tests know where it is.

use std::process::ExitCode;

fn main() -> ExitCode {
    egret_control::main()
}
