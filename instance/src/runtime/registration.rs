//! How an instance gets to know its stmgr: one message there, one back with three file descriptors.

use super::env::{InstanceEnv, SOCKET};
use super::mailbox::Attachment;
use egret_dataplane::memory::{Channel, Pool, PoolError};
use egret_dataplane::message::{InstanceAccepted, Message, PROTOCOL_VERSION, RegisterInstance};
use egret_dataplane::net::link::Outgoing;
use egret_dataplane::net::reactor::{ConnId, IntroductionError, Reactor};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Why there is no registration.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RegisterError {
    /// The stmgr does not answer, now: to be tried again.
    #[error("cannot reach the stmgr: {0}")]
    Unreachable(io::Error),
    /// The stmgr does not want this instance: final.
    #[error("the stmgr refused this instance: {0}")]
    Refused(String),
    /// It answered something else: of another version, or no stmgr.
    #[error("the stmgr's answer makes no sense: {0}")]
    Nonsense(String),
    /// What it gave cannot be mapped.
    #[error(transparent)]
    Memory(#[from] PoolError),
}

impl From<IntroductionError> for RegisterError {
    fn from(error: IntroductionError) -> Self {
        match error {
            IntroductionError::Unreachable(error) => Self::Unreachable(error),
            IntroductionError::Nonsense(what) => Self::Nonsense(what),
        }
    }
}

/// A connection whose other end has taken this instance.
pub(crate) struct Registered {
    pub(crate) conn: ConnId,
    pub(crate) accepted: InstanceAccepted,
    pub(crate) attachment: Attachment,
}

/// Connects to the container's stmgr and registers with it.
pub(crate) fn register(
    env: &InstanceEnv,
    ended: bool,
    net: &mut dyn Reactor,
) -> Result<Registered, RegisterError> {
    let message = Message::RegisterInstance(RegisterInstance {
        version: PROTOCOL_VERSION,
        topology: env.topology.clone(),
        task: env.task,
        incarnation: env.incarnation,
        pid: std::process::id(),
        ended,
    });
    let (conn, answer) = net.introduce(&env.container_dir, SOCKET, &Outgoing::control(&message))?;
    let taken = match Message::decode(&answer.body) {
        Ok(Message::InstanceAccepted(accepted)) => {
            attach(answer.files, accepted.ended).map(|attachment| (accepted, attachment))
        }
        Ok(Message::Refused(reason)) => Err(RegisterError::Refused(reason)),
        Ok(other) => Err(RegisterError::Nonsense(format!("{other:?}"))),
        Err(error) => Err(RegisterError::Nonsense(error.to_string())),
    };
    match taken {
        Ok((accepted, attachment)) => Ok(Registered { conn, accepted, attachment }),
        Err(error) => {
            net.close(conn);
            Err(error)
        }
    }
}

fn attach(fds: Vec<OwnedFd>, knows_end: bool) -> Result<Attachment, RegisterError> {
    let [pool, channel, eventfd]: [OwnedFd; 3] = fds
        .try_into()
        .map_err(|fds: Vec<_>| RegisterError::Nonsense(format!("{} file descriptors of 3", fds.len())))?;
    let pool = Arc::new(Pool::attach(pool)?);
    let stmgr = pool.stmgr_waker(eventfd);
    Ok(Attachment { channel: Channel::attach(channel)?, pool, stmgr, knows_end })
}
