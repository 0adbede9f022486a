//! The network: frames between processes, over TCP and Unix sockets.
//!
//! From the bottom up: [`link`] lays a frame out and takes a stream of bytes apart again; [`handshake`] proves that
//! both ends of a TCP connection know the topology's secret; [`session`] is both in a row, for one connection.
//! They are pure: bytes in, frames out. [`reactor`] is what moves the bytes, with [`uring`] (io_uring) and
//! [`epoll`] behind one trait. [`client`] is a small blocking connection for those who need only one.
//!
//! Nothing here knows what a message means, or which task is where.

pub mod client;
pub mod epoll;
pub mod handshake;
pub mod link;
pub mod reactor;
pub mod session;
pub mod uring;

mod conn;
mod decoder;
pub(crate) mod local;
mod outbox;
mod slots;
mod tcp;

#[cfg(test)]
mod conformance;
#[cfg(test)]
mod protocol_tests;
