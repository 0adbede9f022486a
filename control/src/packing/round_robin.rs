//! Round robin: the tasks, in the order of their numbers, go to one container after the other.
//!
//! A container whose limits a task would break is passed over. Task numbers do not depend on the containers: they are
//! the topology's. What each task is counted with is what its component asks for, or else the topology's default; no
//! task is given what is left over in its container, so the sum never exceeds the container's limit.

use super::{Packing, PackingError, TooSmall};
use egret_dataplane::ids::{ContainerId, TaskId};
use egret_dataplane::plan::{ContainerPlan, PackingPlan, Resources, TaskPlan, Topology, config};

/// See the module.
#[derive(Clone, Copy, Debug, Default)]
pub struct RoundRobin;

/// A resource, as the limits and the messages know it.
struct Dimension {
    what: &'static str,
    limit_key: &'static str,
    default_key: &'static str,
    of: fn(&Resources) -> u64,
    show: fn(u128) -> String,
}

const DIMENSIONS: [Dimension; 3] = [
    Dimension {
        what: "RAM",
        limit_key: config::CONTAINER_RAM,
        default_key: config::COMPONENT_RAM,
        of: |r| r.ram_bytes,
        show: show_bytes,
    },
    Dimension {
        what: "CPU",
        limit_key: config::CONTAINER_CPU,
        default_key: config::COMPONENT_CPU,
        of: |r| r.cpu_millis,
        show: show_cores,
    },
    Dimension {
        what: "disk",
        limit_key: config::CONTAINER_DISK,
        default_key: config::COMPONENT_DISK,
        of: |r| r.disk_bytes,
        show: show_bytes,
    },
];

/// A topology with its numbers worked out.
struct Job {
    name: String,
    tasks: Vec<TaskPlan>,
    stmgr: Resources,
    /// What a container may need at most.
    limits: Resources,
}

/// A container that is being filled. Sums are wide, so that they cannot overflow.
#[derive(Clone)]
struct Bin {
    tasks: Vec<TaskPlan>,
    needed: [u128; 3],
}

impl Packing for RoundRobin {
    fn pack(&self, topology: &Topology) -> Result<PackingPlan, PackingError> {
        let job = Job::of(topology);
        let wanted = topology.config.number(config::CONTAINERS) as usize;
        let bins = if wanted == 0 { job.fewest() } else { job.place(wanted.min(job.tasks.len()), true) };
        let bins = bins.ok_or_else(|| job.refusal(wanted))?;
        let containers = bins.into_iter().enumerate().map(|(i, bin)| bin.into_plan(i)).collect();
        Ok(PackingPlan { topology: job.name, containers })
    }
}

impl Job {
    fn of(topology: &Topology) -> Self {
        let config = &topology.config;
        let default = Resources {
            cpu_millis: config.millis(config::COMPONENT_CPU),
            ram_bytes: config.number(config::COMPONENT_RAM),
            disk_bytes: config.number(config::COMPONENT_DISK),
        };
        let unlimited = |limit| if limit == 0 { u64::MAX } else { limit };
        let limits = Resources {
            cpu_millis: unlimited(config.millis(config::CONTAINER_CPU)),
            ram_bytes: unlimited(config.number(config::CONTAINER_RAM)),
            disk_bytes: unlimited(config.number(config::CONTAINER_DISK)),
        };
        let stmgr = Resources { ram_bytes: config.number(config::STMGR_RAM), ..Resources::default() };
        let mut tasks = Vec::new();
        for component in &topology.components {
            let resources = or_default(&component.resources, &default);
            tasks.extend((0..component.parallelism).map(|index| TaskPlan {
                task: TaskId(0),
                component: component.id.clone(),
                index,
                resources,
            }));
        }
        for (number, task) in (1..).zip(&mut tasks) {
            task.task = TaskId(number);
        }
        Self { name: topology.name.clone(), tasks, stmgr, limits }
    }

    /// As few containers as hold all tasks.
    fn fewest(&self) -> Option<Vec<Bin>> {
        let room = |d: &Dimension| u128::from((d.of)(&self.limits).saturating_sub((d.of)(&self.stmgr)));
        let total = |d: &Dimension| self.tasks.iter().map(|t| u128::from((d.of)(&t.resources))).sum::<u128>();
        let at_least = DIMENSIONS.iter().map(|d| total(d).div_ceil(room(d).max(1))).max().unwrap_or(1).max(1);
        let at_least = usize::try_from(at_least).unwrap_or(usize::MAX);
        (at_least..=self.tasks.len()).find_map(|count| self.place(count, true))
    }

    /// The tasks in `count` containers, or `None` when the limits count and a task finds no room.
    fn place(&self, count: usize, limited: bool) -> Option<Vec<Bin>> {
        let empty =
            Bin { tasks: Vec::new(), needed: DIMENSIONS.each_ref().map(|d| (d.of)(&self.stmgr).into()) };
        let mut bins = vec![empty; count];
        let mut turn = 0;
        for task in &self.tasks {
            let mut candidates = (0..count).map(|k| (turn + k) % count);
            let chosen = candidates.find(|i| !limited || self.fits(&bins[*i], task))?;
            bins[chosen].add(task);
            turn = chosen + 1;
        }
        Some(bins)
    }

    fn fits(&self, bin: &Bin, task: &TaskPlan) -> bool {
        let fits = |(d, needed): (&Dimension, &u128)| {
            needed + u128::from((d.of)(&task.resources)) <= u128::from((d.of)(&self.limits))
        };
        DIMENSIONS.iter().zip(&bin.needed).all(fits)
    }

    /// The error that names the container which would need most, were there no limits.
    fn refusal(&self, wanted: usize) -> PackingError {
        let count = if wanted == 0 { self.tasks.len() } else { wanted.min(self.tasks.len()) };
        let bins = self.place(count, false).unwrap_or_default();
        let mut worst: Option<(u128, usize, usize)> = None;
        for (i, bin) in bins.iter().enumerate() {
            for (d, dimension) in DIMENSIONS.iter().enumerate() {
                let over = bin.needed[d].saturating_sub((dimension.of)(&self.limits).into());
                if over > 0 && worst.is_none_or(|(most, ..)| over > most) {
                    worst = Some((over, i, d));
                }
            }
        }
        let (_, bin, dimension) = worst.unwrap_or_default();
        self.too_small(bin, &bins[bin], &DIMENSIONS[dimension], bins[bin].needed[dimension])
    }

    fn too_small(&self, index: usize, bin: &Bin, d: &Dimension, needed: u128) -> PackingError {
        let mut reserved = Vec::new();
        let stmgr = (d.of)(&self.stmgr);
        if stmgr > 0 {
            reserved.push(format!("its stmgr reserves {} (`{}`)", (d.show)(stmgr.into()), config::STMGR_RAM));
        }
        for tasks in bin.tasks.chunk_by(|a, b| a.component == b.component) {
            let sum: u128 = tasks.iter().map(|t| u128::from((d.of)(&t.resources))).sum();
            let (count, id) = (tasks.len(), &tasks[0].component);
            let (s, verb) = if count == 1 { ("", "reserves") } else { ("s", "reserve") };
            reserved.push(format!("{count} task{s} of `{id}` {verb} {}", (d.show)(sum)));
        }
        let key = d.limit_key;
        let remedy = format!(
            "set `{key}` to at least {} (0 is no limit), reserve less (`{}`) or use more containers (`{}`)",
            (d.show)(needed),
            d.default_key,
            config::CONTAINERS
        );
        PackingError::TooSmall(Box::new(TooSmall {
            container: container_id(index),
            what: d.what,
            needed: (d.show)(needed),
            given: (d.show)((d.of)(&self.limits).into()),
            key,
            reserved: reserved.join(", "),
            remedy,
        }))
    }
}

impl Bin {
    fn add(&mut self, task: &TaskPlan) {
        for (needed, d) in self.needed.iter_mut().zip(&DIMENSIONS) {
            *needed += u128::from((d.of)(&task.resources));
        }
        self.tasks.push(task.clone());
    }

    fn into_plan(self, index: usize) -> ContainerPlan {
        // Within the limits, each of which is a u64.
        let [ram, cpu, disk] = self.needed.map(|n| u64::try_from(n).unwrap_or(u64::MAX));
        let required = Resources { cpu_millis: cpu, ram_bytes: ram, disk_bytes: disk };
        ContainerPlan { id: container_id(index), tasks: self.tasks, required }
    }
}

/// What is asked for, with the default for what is not.
fn or_default(asked: &Resources, default: &Resources) -> Resources {
    let choose = |asked, default| if asked == 0 { default } else { asked };
    Resources {
        cpu_millis: choose(asked.cpu_millis, default.cpu_millis),
        ram_bytes: choose(asked.ram_bytes, default.ram_bytes),
        disk_bytes: choose(asked.disk_bytes, default.disk_bytes),
    }
}

fn container_id(index: usize) -> ContainerId {
    ContainerId(index as u32 + 1)
}

fn show_bytes(bytes: u128) -> String {
    let units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
    let exact = units.iter().find(|(shift, _)| bytes > 0 && bytes.is_multiple_of(1 << shift));
    exact.map_or_else(|| format!("{bytes} bytes"), |(shift, unit)| format!("{} {unit}", bytes >> shift))
}

fn show_cores(millis: u128) -> String {
    format!("{}.{:03} cores", millis / 1000, millis % 1000)
}
