//! Runs a single task of a component in memory: real collectors and blocks, but no ring, stmgr or process.

use crate::collector::{EmitError, Emitter, InputTable, Outlet, SpoutCollector};
use crate::topology::Metrics;
use crate::topology::Runner;
use crate::tuple::{Row, RowLayout, Values};
use crate::{Context, Next, Result, Spout, Value};
use egret_dataplane::ids::{BlockId, ComponentIndex, ContainerId, Epoch, Incarnation, TaskId};
use egret_dataplane::memory::{Class, Descriptor, OwnedBlock, Pool, PoolConfig};
use egret_dataplane::plan::topology::DEFAULT_STREAM;
use egret_dataplane::plan::{
    Component, Config, ContainerPlan, Field, FieldKind, Grouping, Input, PackingPlan, PhysicalPlan, Program,
    Resources, Role, Schema, StmgrAddress, Stream, TaskPlan, Topology, config,
};
use rkyv::util::AlignedVec;
use serde_json::json;
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

/// The component's position, between a source and a sink.
const IT: ComponentIndex = ComponentIndex(1);

/// One component of a topology, set up as task `index` of `parallelism`.
pub(super) struct Bench {
    topology: Topology,
    index: u32,
    /// A new folder when there is none.
    container_dir: Option<PathBuf>,
    incarnation: u32,
}

/// The fields of a tuple, as text.
pub(super) type Texts = Vec<String>;

impl Bench {
    /// A spout `it` of this built-in type.
    pub(super) fn spout(kind: &str, args: serde_json::Value) -> Self {
        Self::new(kind, args, &[])
    }

    /// A bolt `it` of this built-in type that reads a stream of these fields.
    pub(super) fn bolt(kind: &str, args: serde_json::Value, fields: &[(&str, FieldKind)]) -> Self {
        Self::new(kind, args, fields)
    }

    fn new(kind: &str, args: serde_json::Value, fields: &[(&str, FieldKind)]) -> Self {
        let found = super::find(kind).unwrap();
        let args = super::Args::check(found.args, args.as_object().unwrap().clone()).unwrap();
        (found.check)(&args, 1).unwrap();
        let schema = schema(fields);
        let source = super::InputSchema { from: "source", stream: DEFAULT_STREAM, schema: &schema };
        let inputs = if found.role == Role::Bolt { vec![source] } else { Vec::new() };
        let outputs = (found.outputs)(&args, &inputs).unwrap();
        let source = component("source", Role::Spout, vec![default_stream(schema.clone())], None);
        let mut it = component("it", found.role, outputs, (found.role == Role::Bolt).then_some("source"));
        (it.kind, it.args) = (kind.to_owned(), args.to_json());
        let mut components = vec![source, it];
        if !components[1].outputs.is_empty() {
            components.push(component("sink", Role::Bolt, Vec::new(), Some("it")));
        }
        let mut config = Config::default();
        config.set(config::TUPLE_MAX_BYTES, "64KiB").unwrap();
        let topology = Topology { name: "bench".to_owned(), config, components, program: Program::Builtin };
        Self { topology, index: 0, container_dir: None, incarnation: 1 }
    }

    /// Makes it task `index` of `parallelism`.
    pub(super) fn task(mut self, index: u32, parallelism: u32) -> Self {
        self.topology.components[1].parallelism = parallelism;
        self.index = index;
        self
    }

    /// Sets an entry of the topology's configuration.
    pub(super) fn config(mut self, key: &str, value: &str) -> Self {
        self.topology.config.set(key, value).unwrap();
        self
    }

    /// Makes it a process of this container folder and incarnation.
    pub(super) fn process(mut self, container_dir: &Path, incarnation: u32) -> Self {
        self.container_dir = Some(container_dir.to_owned());
        self.incarnation = incarnation;
        self
    }

    /// The context of the task, in the folder that [`process`](Self::process) gave.
    pub(super) fn context(&self) -> Context {
        let task = TaskId(self.topology.tasks(IT).start + self.index);
        let context = Context::new(Arc::new(self.topology.clone()), task, Metrics::default()).unwrap();
        context.in_process(self.container_dir.clone().unwrap(), Incarnation(self.incarnation))
    }

    /// Sets it up: `open` or `prepare` is called.
    pub(super) fn start(self) -> Result<Running> {
        let Parts { plan, context, emitter, blocks, folder } = self.parts();
        let it = &plan.topology.components[IT.0 as usize];
        let factory = (super::find(&it.kind).unwrap().make)(super::Args::from_json(&it.args).unwrap());
        let mut runner = factory.make(emitter);
        match &mut runner {
            Runner::Spout(spout) => spout.open(&context)?,
            Runner::Bolt(bolt) => bolt.prepare(&context)?,
        }
        Ok(Running { plan, task: context.task(), runner, blocks, _folder: folder })
    }

    /// Sets up this spout with the emitter of a tracked topology. Nothing is acked or failed but by the test.
    pub(super) fn track<S: Spout>(self, mut spout: S) -> Result<Tracked<S>> {
        let parts = self.config(config::RELIABILITY_MODE, "ATLEAST_ONCE").parts();
        let Parts { plan, context, emitter, blocks, folder } = parts;
        spout.open(&context)?;
        Ok(Tracked { spout, out: SpoutCollector::new(emitter), plan, blocks, _folder: folder })
    }

    fn parts(mut self) -> Parts {
        let folder = tempfile::tempdir().unwrap();
        self.container_dir.get_or_insert_with(|| folder.path().to_owned());
        let context = self.context();
        let packing = packing(&self.topology);
        let stmgrs = vec![StmgrAddress { container: ContainerId(1), address: "127.0.0.1:1".to_owned() }];
        let plan =
            PhysicalPlan { epoch: Epoch(1), topology: self.topology, packing, stmgrs, ended: Vec::new() };
        let blocks = Blocks::default();
        let emitter =
            Emitter::new(&plan, context.task(), &[], 0, Box::new(TestOutlet::new(blocks.clone()))).unwrap();
        Parts { plan, context, emitter, blocks, folder }
    }
}

/// What a component runs on.
struct Parts {
    plan: PhysicalPlan,
    context: Context,
    emitter: Emitter,
    blocks: Blocks,
    folder: tempfile::TempDir,
}

/// A spout whose tuples are tracked, by the test.
pub(super) struct Tracked<S: Spout> {
    pub(super) spout: S,
    out: SpoutCollector<S::Id>,
    plan: PhysicalPlan,
    blocks: Blocks,
    _folder: tempfile::TempDir,
}

impl<S: Spout> Tracked<S> {
    /// The first field of everything that it emits until it does not.
    pub(super) fn all(&mut self) -> (Vec<String>, Result<Next>) {
        self.some(usize::MAX)
    }

    /// The same, of so many calls at most.
    pub(super) fn some(&mut self, calls: usize) -> (Vec<String>, Result<Next>) {
        let mut last = Ok(Next::Emitted);
        for _ in 0..calls {
            last = self.spout.next_tuple(&mut self.out);
            if !matches!(last, Ok(Next::Emitted)) {
                break;
            }
        }
        self.out.emitter.flush();
        let texts = self.blocks.texts(&self.plan.topology);
        (texts.into_iter().map(|mut tuple| tuple.remove(0)).collect(), last)
    }
}

/// A component that was started.
pub(super) struct Running {
    plan: PhysicalPlan,
    task: TaskId,
    runner: Runner,
    blocks: Blocks,
    _folder: tempfile::TempDir,
}

impl Running {
    /// Asks a spout for one more tuple.
    pub(super) fn next(&mut self) -> Result<Next> {
        let Runner::Spout(spout) = &mut self.runner else { panic!("it is a bolt") };
        spout.next_tuples(1)
    }

    /// Runs a spout until it is exhausted; errors are returned beside what it emitted.
    pub(super) fn drain(&mut self) -> (Vec<Texts>, Vec<String>) {
        let mut errors = Vec::new();
        loop {
            match self.next() {
                Ok(Next::Exhausted) => return (self.emitted(), errors),
                Ok(Next::Emitted | Next::Idle) => {}
                Ok(Next::Wait(time)) => panic!("it waits {time:?}"),
                Err(error) => errors.push(error.to_string()),
            }
        }
    }

    /// Gives a bolt these tuples.
    pub(super) fn execute(&mut self, rows: &[&[Value<'_>]]) -> Result<()> {
        let sent = Blocks::default();
        let source = TaskId(1);
        let outlet = Box::new(TestOutlet::new(sent.clone()));
        let mut emitter = Emitter::new(&self.plan, source, &[], 0, outlet).unwrap();
        let layout = RowLayout::new(self.plan.topology.components[0].outputs[0].schema.clone());
        for row in rows {
            assert!(Values::new(&layout, row).is_some(), "{row:?} is no row of the source");
            let mut collector = crate::BoltCollector::new(emitter);
            collector.emit_values(row).unanchored()?;
            emitter = collector.emitter;
        }
        emitter.flush();
        let table = InputTable::new(&self.plan.topology, self.task);
        let Runner::Bolt(bolt) = &mut self.runner else { panic!("it is a spout") };
        for block in sent.take() {
            bolt.execute(&mut table.open(&block).unwrap(), u32::MAX)?;
        }
        Ok(())
    }

    /// Gives a bolt tuples of one text field.
    pub(super) fn execute_texts(&mut self, texts: &[&str]) -> Result<()> {
        let rows: Vec<[Value<'_>; 1]> = texts.iter().map(|text| [Value::Str(text)]).collect();
        let rows: Vec<&[Value<'_>]> = rows.iter().map(<[_; 1]>::as_slice).collect();
        self.execute(&rows)
    }

    /// All inputs of a bolt have ended.
    pub(super) fn finish(&mut self) -> Result<()> {
        let Runner::Bolt(bolt) = &mut self.runner else { panic!("it is a spout") };
        bolt.finish()
    }

    /// A bolt has nothing to execute.
    pub(super) fn idle(&mut self) -> Result<()> {
        let Runner::Bolt(bolt) = &mut self.runner else { panic!("it is a spout") };
        bolt.idle()
    }

    /// What it emitted since it was asked last.
    pub(super) fn emitted(&mut self) -> Vec<Texts> {
        self.runner.emitter().flush();
        self.blocks.texts(&self.plan.topology)
    }

    /// Emitted, acked and failed so far.
    pub(super) fn counts(&mut self) -> (u64, u64, u64) {
        let counters = &self.runner.emitter().counters;
        (counters.emitted, counters.acked, counters.failed)
    }
}

/// Copies of the blocks that were pushed.
#[derive(Clone, Default)]
struct Blocks(Rc<RefCell<Vec<AlignedVec<16>>>>);

impl Blocks {
    fn take(&self) -> Vec<AlignedVec<16>> {
        std::mem::take(&mut self.0.borrow_mut())
    }

    /// The tuples in them.
    fn texts(&self, topology: &Topology) -> Vec<Texts> {
        let layout = match topology.components[1].outputs.first() {
            Some(stream) => RowLayout::new(stream.schema.clone()),
            None => return Vec::new(),
        };
        let mut tuples = Vec::new();
        for block in self.take() {
            for tuple in egret_dataplane::frame::BatchReader::new(&block).unwrap().tuples() {
                let row = Row::new(&layout, tuple.unwrap().archive).unwrap();
                tuples.push(row.fields().map(|(_, value)| value.unwrap().to_string()).collect());
            }
        }
        tuples
    }
}

struct TestOutlet {
    pool: Arc<Pool>,
    blocks: Blocks,
}

impl TestOutlet {
    fn new(blocks: Blocks) -> Self {
        let config = PoolConfig { counts: [4, 2, 2], max_tuple_bytes: 64 << 10 };
        Self { pool: Arc::new(Pool::create(&config).unwrap()), blocks }
    }
}

impl Outlet for TestOutlet {
    fn take_block(&mut self, min_bytes: usize) -> Result<Option<OwnedBlock>, EmitError> {
        let class = self.pool.class_for(min_bytes).unwrap_or(Class::Large);
        Ok(self.pool.blocks(class).find_map(|id| self.pool.claim(BlockId(id))))
    }

    fn wait_for_block(&mut self, min_bytes: usize) -> Result<OwnedBlock, EmitError> {
        self.take_block(min_bytes)?.ok_or(EmitError::Stopped)
    }

    fn push(&mut self, block: OwnedBlock, descriptor: Descriptor) {
        let mut copy = AlignedVec::new();
        copy.extend_from_slice(&block.bytes()[..descriptor.used as usize]);
        self.blocks.0.borrow_mut().push(copy);
    }
}

fn schema(fields: &[(&str, FieldKind)]) -> Schema {
    let fields = fields.iter().map(|(name, kind)| Field { name: (*name).to_owned(), kind: *kind });
    Schema { fields: fields.collect() }
}

fn default_stream(schema: Schema) -> Stream {
    Stream { name: DEFAULT_STREAM.to_owned(), schema }
}

fn component(id: &str, role: Role, outputs: Vec<Stream>, from: Option<&str>) -> Component {
    let input = |from: &str| Input {
        from: from.to_owned(),
        stream: DEFAULT_STREAM.to_owned(),
        grouping: Grouping::Global,
    };
    Component {
        id: id.to_owned(),
        role,
        parallelism: 1,
        kind: "null-sink".to_owned(),
        args: json!({}).to_string(),
        outputs,
        inputs: from.map(input).into_iter().collect(),
        resources: Resources::default(),
        config: Config::default(),
    }
}

fn packing(topology: &Topology) -> PackingPlan {
    let task = |id: u32| {
        let (component, index) = topology.component_of(TaskId(id)).unwrap();
        let component = topology.components[component.0 as usize].id.clone();
        TaskPlan { task: TaskId(id), component, index, resources: Resources::default() }
    };
    let tasks = (1..=topology.task_count()).map(task).collect();
    let container = ContainerPlan { id: ContainerId(1), tasks, required: Resources::default() };
    PackingPlan { topology: topology.name.clone(), containers: vec![container] }
}
