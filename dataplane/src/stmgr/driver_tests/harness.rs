//! Real stmgrs in threads, with a tmaster and instances played by the test.

use crate::frame::{
    AckBuilder, AckHeader, AckKind, AckReader, AckRecord, BatchBuilder, BatchHeader, BatchReader,
    Destination, Owner, Root,
};
use crate::ids::{BlockId, ContainerId, Epoch, Incarnation, StreamIndex, TaskId};
use crate::memory::{Channel, ChannelEnd, Descriptor, DescriptorKind, OwnedBlock, Pool, Waker};
use crate::message::{
    Heartbeat, InstanceAccepted, Message, PROTOCOL_VERSION, RegisterInstance, RegisterStmgr, RunState,
    TaskCounters,
};
use crate::net::handshake::{Secret, fresh_nonce};
use crate::net::link::{Body, FrameHeader, FrameLimits, HEADER_BYTES, Outgoing};
use crate::net::session::Session;
use crate::plan::{PackingPlan, PhysicalPlan, StmgrAddress, Topology, config};
use crate::stmgr::sinks::ControlSink;
use crate::stmgr::{ExitReason, SOCKET_NAME, StmgrError, StmgrOptions, run};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};
use std::collections::VecDeque;
use std::io::{IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

pub(super) const DEADLINE: Duration = Duration::from_secs(20);

/// Waits until `look` finds something.
pub(super) fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < DEADLINE, "waited too long for {what}");
        std::thread::yield_now();
    }
}

/// A topology that runs over real stmgrs.
pub(super) struct Cluster {
    pub(super) topology: Topology,
    pub(super) packing: PackingPlan,
    pub(super) secret: Secret,
    folder: tempfile::TempDir,
    tmaster: Arc<Mutex<Option<SocketAddr>>>,
    listener: TcpListener,
    addresses: Mutex<Vec<String>>,
    pub(super) stmgrs: Vec<JoinHandle<Result<ExitReason, StmgrError>>>,
}

impl Cluster {
    /// Starts a stmgr for each container, driven by `reactor`.
    pub(super) fn start(mut topology: Topology, places: &[u32], reactor: &str) -> Self {
        topology.config.set(config::REACTOR, reactor).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut cluster = Self {
            packing: crate::stmgr::core::tests::packing(&topology, places),
            topology,
            secret: Secret::generate().unwrap(),
            folder: tempfile::tempdir().unwrap(),
            tmaster: Arc::new(Mutex::new(Some(listener.local_addr().unwrap()))),
            listener,
            addresses: Mutex::default(),
            stmgrs: Vec::new(),
        };
        for container in cluster.packing.containers.clone() {
            let options = cluster.options(container.id);
            std::fs::create_dir(&options.container_dir).unwrap();
            cluster.stmgrs.push(std::thread::spawn(move || run(options.make())));
        }
        cluster
    }

    fn options(&self, container: ContainerId) -> OptionsOf {
        OptionsOf {
            topology: self.topology.clone(),
            packing: self.packing.clone(),
            container,
            container_dir: self.folder.path().join(format!("container-{container}")),
            secret: self.secret.clone(),
            tmaster: self.tmaster.clone(),
        }
    }

    pub(super) fn socket(&self, container: u32) -> std::path::PathBuf {
        self.folder.path().join(format!("container-{container}")).join(SOCKET_NAME)
    }

    /// The next connection of a stmgr to the tmaster, proven and registered.
    pub(super) fn accept(&self) -> (Talk, RegisterStmgr) {
        wait_for("a stmgr to connect", || self.try_accept())
    }

    /// The same if it is there by now.
    pub(super) fn try_accept(&self) -> Option<(Talk, RegisterStmgr)> {
        self.listener.set_nonblocking(true).unwrap();
        let (stream, _) = self.listener.accept().ok()?;
        stream.set_nonblocking(false).unwrap();
        let limits = FrameLimits::control_only();
        let (session, challenge) = Session::server(&self.secret, fresh_nonce().unwrap(), limits);
        let mut talk = Talk::new(stream, session);
        talk.send_frame(&challenge);
        match talk.next() {
            Message::RegisterStmgr(register) => Some((talk, register)),
            other => panic!("a stmgr began with {other:?}"),
        }
    }

    /// The tmaster is elsewhere from now on.
    pub(super) fn move_tmaster(&mut self) {
        self.listener = TcpListener::bind("127.0.0.1:0").unwrap();
        *self.tmaster.lock().unwrap() = Some(self.listener.local_addr().unwrap());
    }

    /// Plays the tmaster until every stmgr runs; returns the conversations in the order of containers.
    pub(super) fn run_all(&self) -> Vec<Talk> {
        let mut talks: Vec<_> = self.packing.containers.iter().map(|_| self.accept()).collect();
        talks.sort_by_key(|(_, register)| register.container);
        *self.addresses.lock().unwrap() = talks.iter().map(|(_, r)| r.address.clone()).collect();
        let plan = self.plan(1, talks.iter().map(|(_, register)| register.address.clone()));
        talks.iter_mut().for_each(|(talk, _)| talk.send(&Message::Plan(Box::new(plan.clone()))));
        talks.iter_mut().for_each(|(talk, _)| {
            talk.expect("the mesh", |m| (*m == Message::MeshWhole(Epoch(1))).then_some(()));
            talk.send(&Message::SetState(RunState::Running));
        });
        talks.into_iter().map(|(talk, _)| talk).collect()
    }

    /// Where the stmgr of the container at this position takes its peers' connections.
    pub(super) fn address_of(&self, position: usize) -> String {
        self.addresses.lock().unwrap()[position].clone()
    }

    pub(super) fn plan(&self, epoch: u64, addresses: impl Iterator<Item = String>) -> PhysicalPlan {
        let containers = self.packing.containers.iter();
        let stmgrs = containers.zip(addresses).map(|(c, address)| StmgrAddress { container: c.id, address });
        PhysicalPlan {
            epoch: Epoch(epoch),
            topology: self.topology.clone(),
            packing: self.packing.clone(),
            stmgrs: stmgrs.collect(),
            ended: Vec::new(),
        }
    }

    /// Ends it, and checks that all stmgrs do.
    pub(super) fn stop(self, talks: Vec<Talk>, instances: Vec<Instance>) {
        let is_stop = |m: &Message| (*m == Message::SetState(RunState::Stopped)).then_some(());
        let leave = |mut talk: Talk| {
            talk.send(&Message::SetState(RunState::Stopped));
            std::thread::spawn(move || {
                talk.expect("its last word", is_stop);
                talk.expect_close();
            })
        };
        let leaving: Vec<_> = talks.into_iter().map(leave).collect();
        for mut instance in instances {
            instance.talk.expect("a stop", is_stop);
        }
        leaving.into_iter().for_each(|talk| talk.join().unwrap());
        for stmgr in self.stmgrs {
            assert_eq!(stmgr.join().unwrap().unwrap(), ExitReason::Stopped);
        }
        for container in &self.packing.containers {
            let socket = self.folder.path().join(format!("container-{}", container.id)).join(SOCKET_NAME);
            assert!(!socket.exists(), "the socket is removed");
        }
    }
}

/// What a thread needs to make its own [`StmgrOptions`].
struct OptionsOf {
    topology: Topology,
    packing: PackingPlan,
    container: ContainerId,
    container_dir: std::path::PathBuf,
    secret: Secret,
    tmaster: Arc<Mutex<Option<SocketAddr>>>,
}

impl OptionsOf {
    fn make(self) -> StmgrOptions {
        let Self { topology, packing, container, container_dir, secret, tmaster } = self;
        StmgrOptions {
            topology,
            packing,
            container,
            incarnation: Incarnation(1),
            container_dir,
            secret,
            locate_tmaster: Box::new(move || *tmaster.lock().unwrap()),
            listen_host: "127.0.0.1".parse().unwrap(),
            executor: Some((1, Incarnation(1))),
        }
    }
}

/// A blocking stream that may also be asked without waiting.
pub(super) trait Stream: Read + Write + Send {
    fn wait_at_most(&self, timeout: Duration);
}

impl Stream for TcpStream {
    fn wait_at_most(&self, timeout: Duration) {
        self.set_read_timeout(Some(timeout)).unwrap();
    }
}

impl Stream for UnixStream {
    fn wait_at_most(&self, timeout: Duration) {
        self.set_read_timeout(Some(timeout)).unwrap();
    }
}

/// A conversation in control messages.
pub(super) struct Talk {
    stream: Box<dyn Stream>,
    session: Session,
    inbox: VecDeque<Message>,
}

impl Talk {
    pub(super) fn new(stream: impl Stream + 'static, session: Session) -> Self {
        stream.wait_at_most(DEADLINE);
        Self { stream: Box::new(stream), session, inbox: VecDeque::new() }
    }

    pub(super) fn send_frame(&mut self, frame: &Outgoing) {
        let mut bytes = frame.header.encode().to_vec();
        match &frame.body {
            Body::Empty => {}
            Body::Bytes(body) => bytes.extend_from_slice(body),
            Body::Block(_) => panic!("the test sends bytes only"),
        }
        self.stream.write_all(&bytes).unwrap();
    }

    pub(super) fn send(&mut self, message: &Message) {
        self.send_frame(&Outgoing::control(message));
    }

    /// Reads a piece; `false` when the other end has closed.
    pub(super) fn read(&mut self) -> bool {
        let mut buffer = [0; 16 << 10];
        let count = match self.stream.read(&mut buffer) {
            Ok(count) => count,
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => 0,
            Err(error) => panic!("nothing came: {error}"),
        };
        let (mut sink, mut replies) = (ControlSink::default(), Vec::new());
        self.session.on_bytes(&buffer[..count], |frame| replies.push(frame), &mut sink).map(drop).unwrap();
        replies.iter().for_each(|frame| self.send_frame(frame));
        self.inbox.extend(sink.messages);
        count > 0
    }

    /// The next message.
    pub(super) fn next(&mut self) -> Message {
        while self.inbox.is_empty() {
            assert!(self.read(), "closed while a message was expected");
        }
        self.inbox.pop_front().unwrap()
    }

    /// The first message that `pick` likes; others before it are passed over.
    pub(super) fn expect<T>(&mut self, what: &str, mut pick: impl FnMut(&Message) -> Option<T>) -> T {
        let start = Instant::now();
        loop {
            let message = self.next();
            if let Some(found) = pick(&message) {
                return found;
            }
            assert!(start.elapsed() < DEADLINE, "waited too long for {what}, got {message:?}");
        }
    }

    pub(super) fn heartbeat(&mut self, mut fits: impl FnMut(&Heartbeat) -> bool) -> Heartbeat {
        self.expect("a heartbeat", |message| match message {
            Message::Heartbeat(heartbeat) if fits(heartbeat) => Some(heartbeat.clone()),
            _ => None,
        })
    }

    /// Waits until the other end closes.
    pub(super) fn expect_close(&mut self) {
        while self.read() {}
    }
}

/// A registered instance.
pub(super) struct Instance {
    pub(super) talk: Talk,
    pub(super) task: TaskId,
    pub(super) accepted: InstanceAccepted,
    pub(super) pool: Arc<Pool>,
    pub(super) end: ChannelEnd,
    pub(super) counters: TaskCounters,
    waker: Waker,
    pub(super) free: Vec<BlockId>,
    waiting: VecDeque<Descriptor>,
}

impl Instance {
    pub(super) fn register(cluster: &Cluster, container: u32, task: u32, incarnation: u32) -> Self {
        let path = cluster.socket(container);
        let stream = wait_for("the socket", || UnixStream::connect(&path).ok());
        let message = Message::RegisterInstance(RegisterInstance {
            version: PROTOCOL_VERSION,
            topology: cluster.topology.name.clone(),
            task: TaskId(task),
            incarnation: Incarnation(incarnation),
            pid: 1000 + task,
            ended: false,
        });
        let mut talk = Talk::new(stream.try_clone().unwrap(), Session::trusted(FrameLimits::control_only()));
        talk.send(&message);
        let (accepted, [pool, channel, wake]) = receive_acceptance(&stream);
        let pool = Arc::new(Pool::attach(pool).unwrap());
        let end = Channel::attach(channel).unwrap().instance_end();
        let (free, waiting) = (Vec::new(), VecDeque::new());
        let waker = pool.stmgr_waker(wake);
        let counters = TaskCounters::default();
        Self { talk, task: TaskId(task), accepted, pool, end, counters, waker, free, waiting }
    }

    pub(super) fn say(&mut self, descriptor: Descriptor) {
        self.end.producer.push(descriptor).unwrap();
        self.waker.wake();
    }

    /// The next descriptor that is no grant; grants are kept.
    pub(super) fn poll(&mut self) -> Option<Descriptor> {
        while let Some(descriptor) = self.end.consumer.pop() {
            match descriptor.kind {
                DescriptorKind::Grant => self.free.push(descriptor.block),
                _ => self.waiting.push_back(descriptor),
            }
        }
        self.waiting.pop_front()
    }

    pub(super) fn next(&mut self) -> Descriptor {
        wait_for("a descriptor", || self.poll())
    }

    fn look_for_grants(&mut self) {
        while let Some(descriptor) = self.end.consumer.pop() {
            match descriptor.kind {
                DescriptorKind::Grant => self.free.push(descriptor.block),
                _ => self.waiting.push_back(descriptor),
            }
        }
    }

    /// A free block with room for a tuple of `bytes` bytes, when there is one.
    pub(super) fn take_block(&mut self, bytes: usize) -> Option<OwnedBlock> {
        self.look_for_grants();
        let class = self.pool.class_for(bytes + crate::frame::BLOCK_OVERHEAD).unwrap();
        let at = self.free.iter().position(|&block| self.pool.class_of(block) == Some(class))?;
        self.pool.claim(self.free.swap_remove(at))
    }

    /// Emits one tuple in a block of its own.
    pub(super) fn emit(&mut self, target: Destination, tuple: &[u8]) -> Descriptor {
        self.emit_rooted(target, &[], tuple)
    }

    /// Emits one tuple that belongs to trees.
    pub(super) fn emit_rooted(&mut self, target: Destination, roots: &[Root], tuple: &[u8]) -> Descriptor {
        let block = wait_for("a free block", || self.take_block(tuple.len()));
        let stream = StreamIndex(matches!(target, Destination::Broadcast(_)).into());
        let header = BatchHeader { source: self.task, target, stream, edge_base: roots.len() as u64 };
        let mut batch = BatchBuilder::new(block, header);
        batch.append(roots, tuple.len(), |space| space.copy_from_slice(tuple)).unwrap();
        let (block, descriptor) = batch.finish();
        drop(block);
        self.counters.emitted += 1;
        self.counters.sent += 1;
        self.end.counters.store(&self.counters);
        self.say(descriptor);
        descriptor
    }

    /// Sends acks in a block of their own.
    pub(super) fn ack(&mut self, spout: TaskId, records: &[AckRecord]) {
        let block = wait_for("a free block", || self.take_block(0));
        let owner = Owner::new(spout, Incarnation(1));
        let header = AckHeader { source: self.task, owner, kind: AckKind::Ack };
        let mut acks = AckBuilder::new(block, header);
        records.iter().for_each(|record| record.ids().for_each(|id| acks.push(id, record.xor).unwrap()));
        let (block, descriptor) = acks.finish();
        drop(block);
        self.say(descriptor);
    }

    /// Reads a block of acks, and says done.
    pub(super) fn take_acks(&mut self, descriptor: Descriptor) -> (AckHeader, Vec<AckRecord>) {
        assert_eq!((descriptor.kind, descriptor.target), (DescriptorKind::Ack, self.task.0));
        let block = self.pool.claim(descriptor.block).unwrap();
        let reader = AckReader::new(&block.bytes()[..descriptor.used as usize]).unwrap();
        let read = (reader.header(), reader.records().collect());
        drop(block);
        self.say(Descriptor::of_block(DescriptorKind::Done, descriptor.block));
        read
    }

    /// The roots of a block that was lost; says done.
    pub(super) fn take_lost(&mut self, descriptor: Descriptor) -> Vec<Root> {
        assert_eq!((descriptor.kind, descriptor.target), (DescriptorKind::Lost, self.task.0));
        let block = self.pool.claim(descriptor.block).unwrap();
        let reader = BatchReader::new(&block.bytes()[..descriptor.used as usize]).unwrap();
        let roots = reader.tuples().flat_map(|tuple| tuple.unwrap().roots.iter()).collect();
        drop(block);
        self.say(Descriptor::of_block(DescriptorKind::Done, descriptor.block));
        roots
    }

    /// As [`say`](Self::say), but what can wait does not wake the stmgr.
    fn mention(&mut self, descriptor: Descriptor) {
        self.end.producer.push(descriptor).unwrap();
        self.waker.nudge();
    }

    /// Reads the one tuple of a received block, and says done as an instance does.
    pub(super) fn consume(&mut self, descriptor: Descriptor) -> (TaskId, Vec<u8>) {
        assert_eq!((descriptor.kind, descriptor.target), (DescriptorKind::Data, self.task.0));
        let block = self.pool.claim(descriptor.block).unwrap();
        let reader = BatchReader::new(&block.bytes()[..descriptor.used as usize]).unwrap();
        reader.validate().unwrap();
        let tuple = reader.tuples().next().unwrap().unwrap().archive.to_vec();
        let source = reader.header().source;
        drop(block);
        self.counters.executed += u64::from(descriptor.count);
        self.end.counters.store(&self.counters);
        self.mention(Descriptor::of_block(DescriptorKind::Done, descriptor.block));
        (source, tuple)
    }

    /// Says that it has ended.
    pub(super) fn finish(&mut self) {
        self.say(Descriptor::end(self.task));
    }
}

/// The first message of a stmgr to its instance, with the three descriptors beside it.
fn receive_acceptance(stream: &UnixStream) -> (InstanceAccepted, [OwnedFd; 3]) {
    let mut bytes = [0; 1024];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let pieces = &mut [IoSliceMut::new(&mut bytes[..HEADER_BYTES])];
    rustix::net::recvmsg(stream.as_fd(), pieces, &mut ancillary, RecvFlags::CMSG_CLOEXEC).unwrap();
    let files: Vec<OwnedFd> = ancillary
        .drain()
        .filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(files) => Some(files),
            _ => None,
        })
        .flatten()
        .collect();
    let header = FrameHeader::decode(bytes[..HEADER_BYTES].try_into().unwrap()).unwrap();
    let mut body = vec![0; header.len as usize];
    (&*stream).read_exact(&mut body).unwrap();
    match Message::decode(&body).unwrap() {
        Message::InstanceAccepted(accepted) => (accepted, files.try_into().unwrap()),
        other => panic!("not accepted: {other:?}"),
    }
}
