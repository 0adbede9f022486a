//! The derive macro of `egret::Tuple`.
