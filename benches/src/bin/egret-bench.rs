//! The command `egret-bench`.

use std::process::ExitCode;

fn main() -> ExitCode {
    egret_benches::cli::main()
}
