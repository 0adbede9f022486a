//! Two processes over loopback TCP on io_uring: one writes tuples and sends them, one receives and reads them.
#![allow(unsafe_code)]

use super::{Stage, run_stages, xor_of};
use crate::sample::Cost;
use anyhow::{Result, ensure};
use egret_dataplane::ids::ContainerId;
use io_uring::{IoUring, opcode, squeue, types};
use serde::{Deserialize, Serialize};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::process::Stdio;

/// Bytes of one send or receive at most: what a window of 32 standard blocks lets two stmgrs have under way.
const BATCH: usize = 512 << 10;
/// Bytes before the payload of a tuple: its length, its number.
const TUPLE_HEADER: usize = 16;

/// What flows.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Link {
    /// How many tuples.
    pub tuples: u64,
    /// Bytes of each, its number included.
    pub tuple_bytes: usize,
}

/// A process of the link.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub enum Part {
    /// Writes and sends to this address.
    Sender(SocketAddr),
    /// Receives and reads.
    Receiver,
}

impl Link {
    /// Runs it, with its processes pinned by `policy` as two containers are.
    ///
    /// # Errors
    /// When a process cannot be started or fails.
    pub fn measure(&self, policy: &str) -> Result<Cost> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let listener = Stdio::from(OwnedFd::from(listener));
        let stage = |part| Stage::Link(part, self.clone());
        run_stages(
            policy,
            vec![
                (stage(Part::Receiver), ContainerId(2), listener),
                (stage(Part::Sender(address)), ContainerId(1), Stdio::null()),
            ],
        )
    }

    fn step(&self) -> usize {
        (TUPLE_HEADER + self.tuple_bytes.saturating_sub(8)).next_multiple_of(8)
    }

    pub(super) fn run(&self, part: Part) -> Result<()> {
        match part {
            Part::Sender(address) => self.send(Pipe::new(TcpStream::connect(address)?)?),
            Part::Receiver => {
                let listener = TcpListener::from(std::io::stdin().as_fd().try_clone_to_owned()?);
                self.receive(Pipe::new(listener.accept()?.0)?)
            }
        }
    }

    fn send(&self, mut pipe: Pipe) -> Result<()> {
        let step = self.step();
        let payload: Vec<u8> = (0..self.tuple_bytes.saturating_sub(8)).map(|i| i as u8).collect();
        let mut buffer = vec![0; BATCH.max(step) / step * step];
        let mut sent = 0;
        while sent < self.tuples {
            let mut used = 0;
            for tuple in buffer.chunks_exact_mut(step).take((self.tuples - sent) as usize) {
                tuple[..8].copy_from_slice(&(payload.len() as u64).to_le_bytes());
                tuple[8..TUPLE_HEADER].copy_from_slice(&sent.to_le_bytes());
                tuple[TUPLE_HEADER..TUPLE_HEADER + payload.len()].copy_from_slice(&payload);
                sent += 1;
                used += step;
            }
            pipe.send_all(&buffer[..used])?;
        }
        Ok(())
    }

    fn receive(&self, mut pipe: Pipe) -> Result<()> {
        let mut buffer = vec![0; BATCH];
        let (mut left, mut read) = (self.tuples * self.step() as u64, 0);
        while left > 0 {
            let received = pipe.receive(&mut buffer)?;
            ensure!(received > 0, "the sender has ended {left} bytes too early");
            read ^= xor_of(&buffer[..received]);
            left -= received as u64;
        }
        std::hint::black_box(read);
        Ok(())
    }
}

/// A connection and a ring, with one operation at a time.
struct Pipe {
    ring: IoUring,
    stream: TcpStream,
}

impl Pipe {
    fn new(stream: TcpStream) -> Result<Self> {
        stream.set_nodelay(true)?;
        let ring = IoUring::builder().setup_single_issuer().setup_defer_taskrun().build(8)?;
        Ok(Self { ring, stream })
    }

    fn send_all(&mut self, mut bytes: &[u8]) -> Result<()> {
        let fd = types::Fd(self.stream.as_raw_fd());
        while !bytes.is_empty() {
            let entry = opcode::Send::new(fd, bytes.as_ptr(), bytes.len() as u32).build();
            // SAFETY: the bytes are borrowed until `complete` has seen the operation end.
            let sent = unsafe { self.complete(&entry)? };
            bytes = &bytes[sent..];
        }
        Ok(())
    }

    fn receive(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let fd = types::Fd(self.stream.as_raw_fd());
        let entry = opcode::Recv::new(fd, buffer.as_mut_ptr(), buffer.len() as u32).build();
        // SAFETY: the buffer is borrowed until `complete` has seen the operation end.
        unsafe { self.complete(&entry) }
    }

    /// Carries an operation out, and says how many bytes it moved. A ring that fails ends the process before the memory
    /// is used again.
    ///
    /// # Safety
    /// The memory that `entry` names must stay in its place until this returns.
    unsafe fn complete(&mut self, entry: &squeue::Entry) -> Result<usize> {
        // SAFETY: the caller's promise, and one operation at a time.
        unsafe { self.ring.submission().push(entry)? };
        loop {
            match self.ring.submit_and_wait(1) {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => {
                    eprintln!("error: io_uring: {error}");
                    std::process::abort();
                }
                Ok(_) => {}
            }
            if let Some(done) = self.ring.completion().next() {
                return usize::try_from(done.result())
                    .map_err(|_| std::io::Error::from_raw_os_error(-done.result()).into());
            }
        }
    }
}
