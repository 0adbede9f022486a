//! Egret's control plane.
