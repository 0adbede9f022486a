//! What goes wrong.

use super::courses::{self, Course, Step};
use super::scenario::Scenario;
use super::state::SimState;
use egret::local::{Cluster, Control, Seat};
use egret_dataplane::ids::{ContainerId, Incarnation};
use egret_dataplane::simulation::{Dice, HostId, ProcessId, Weather};
use std::rc::Rc;
use std::time::Duration;

/// Draws faults, and makes them happen.
pub(super) struct Faults {
    dice: Dice,
    gap: Duration,
    containers: u32,
    state: SimState,
    control: Rc<dyn Control>,
    /// Half of what goes wrong are courses of events around the tmaster.
    around_tmaster: bool,
    /// What is left of the present one; the last is next.
    course: Course,
    /// Tmasters beside the one that has the seat.
    seconds: Vec<ProcessId>,
    /// What happened, for people.
    pub(super) log: Vec<String>,
}

impl Faults {
    pub(super) fn new(scenario: &Scenario, state: &SimState, control: Rc<dyn Control>) -> Self {
        Self {
            dice: Dice::new(scenario.seed ^ 0xfa_17),
            gap: scenario.fault_gap,
            containers: scenario.containers,
            state: state.clone(),
            control,
            around_tmaster: scenario.around_tmaster,
            course: Vec::new(),
            seconds: Vec::new(),
            log: Vec::new(),
        }
    }

    /// How long until the next one. Some come right after another: a fault during the recovery from one.
    pub(super) fn gap(&mut self) -> Duration {
        if let Some((gap, _)) = self.course.last() {
            return *gap;
        }
        let most = if self.dice.once_in(4) { self.gap / 50 } else { self.gap * 2 };
        Duration::from_nanos(self.dice.between(1000, most.as_nanos() as u64))
    }

    /// Lets something go wrong.
    pub(super) fn strike(&mut self, cluster: &mut Cluster) {
        if self.around_tmaster && self.course.is_empty() && self.dice.once_in(2) {
            self.course = courses::draw(&mut self.dice, cluster);
        }
        let what = match self.course.pop() {
            Some((_, step)) => self.go_on(step, cluster),
            None => self.any(cluster),
        };
        self.log.push(format!("{:>12.6} {what}", cluster.world().now().as_secs_f64()));
    }

    fn go_on(&mut self, step: Step, cluster: &mut Cluster) -> String {
        match step {
            Step::Heal => self.make_well(cluster),
            Step::Kill(seat) => cluster.kill(seat),
            Step::Pause(seat, time) => {
                let process = cluster.process(seat);
                process.into_iter().for_each(|process| cluster.world().pause(process, time));
            }
            Step::Full(is_full) => self.state.set_full(is_full),
            Step::Second => return self.second_tmaster(cluster),
            Step::KillSeconds => self.kill_seconds(cluster),
            Step::KillTmasters => {
                self.kill_seconds(cluster);
                cluster.kill(Seat::Tmaster);
            }
            Step::Reset => drop(cluster.world().reset_some()),
        }
        format!("{step:?}")
    }

    fn any(&mut self, cluster: &mut Cluster) -> String {
        let seats = cluster.seats();
        let Some(&seat) = self.dice.choose(&seats) else { return "nothing".to_owned() };
        match self.dice.below(16) {
            0..=4 => {
                cluster.kill(seat);
                format!("kill {seat:?}")
            }
            5 => {
                let container = ContainerId(self.dice.between(0, u64::from(self.containers)) as u32);
                cluster.kill_container(container);
                format!("kill container {container}")
            }
            6 | 7 => self.pause(cluster, seat),
            8 | 9 => format!("reset: {}", cluster.world().reset_some()),
            10 | 11 => self.cut(cluster),
            12 => {
                cluster.world().heal();
                "heal".to_owned()
            }
            13 => self.weather(cluster),
            14 => {
                let is_down = self.dice.once_in(2);
                self.state.set_down(is_down);
                format!("state is down: {is_down}")
            }
            _ => self.second_tmaster(cluster),
        }
    }

    fn pause(&mut self, cluster: &Cluster, seat: Seat) -> String {
        let time = Duration::from_micros(self.dice.between(10, 8_000_000));
        if let Some(process) = cluster.process(seat) {
            cluster.world().pause(process, time);
        }
        format!("pause {seat:?} for {time:?}")
    }

    fn cut(&mut self, cluster: &Cluster) -> String {
        let mut host = || HostId(self.dice.between(0, u64::from(self.containers)) as u32);
        let (from, to) = (host(), host());
        cluster.world().cut(from, to);
        let both = self.dice.once_in(2);
        if both {
            cluster.world().cut(to, from);
        }
        format!("cut {from:?} from {to:?}, both ways: {both}")
    }

    fn weather(&mut self, cluster: &Cluster) -> String {
        let max_delay = Duration::from_micros(*self.dice.choose(&[60, 1000, 200_000]).unwrap_or(&60));
        let wire_bytes = *self.dice.choose(&[1, 4 << 10, 256 << 10]).unwrap_or(&1);
        let weather = Weather { min_delay: Duration::from_micros(20), max_delay, wire_bytes, pieces: true };
        cluster.world().set_weather(weather);
        format!("{weather:?}")
    }

    /// Somebody removes the tmaster's entry, and another tmaster takes the name while the first still runs.
    fn second_tmaster(&mut self, cluster: &Cluster) -> String {
        use egret_control::state::StateManager;
        let removed = self.state.delete(&format!("/tmasters/{}", cluster.topology().name));
        let incarnation = Incarnation(cluster.incarnation(Seat::Tmaster) + 1);
        let main = self.control.tmaster(incarnation);
        self.seconds.push(cluster.world().start(HostId(0), Duration::from_micros(5), main));
        format!("a second tmaster, the entry of the first removed: {removed:?}")
    }

    fn kill_seconds(&mut self, cluster: &Cluster) {
        self.seconds.drain(..).for_each(|process| cluster.world().kill(process));
    }

    /// From now on all is well.
    pub(super) fn heal(&mut self, cluster: &Cluster) {
        self.make_well(cluster);
        self.log.push(format!("{:>12.6} all is healed", cluster.world().now().as_secs_f64()));
    }

    fn make_well(&self, cluster: &Cluster) {
        self.state.set_down(false);
        self.state.set_full(false);
        cluster.world().heal();
        cluster.world().resume_all();
        cluster.world().set_weather(Weather::default());
    }
}
