//! Egret's user library.
