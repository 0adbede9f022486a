//! What goes wrong.

use super::scenario::Scenario;
use super::state::SimState;
use egret::local::{Cluster, Control, Seat};
use egret_dataplane::ids::{ContainerId, Incarnation};
use egret_dataplane::simulation::{Dice, HostId, Weather};
use std::rc::Rc;
use std::time::Duration;

/// Draws faults, and makes them happen.
pub(super) struct Faults {
    dice: Dice,
    gap: Duration,
    containers: u32,
    state: SimState,
    control: Rc<dyn Control>,
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
            log: Vec::new(),
        }
    }

    /// How long until the next one. Some come right after another: a fault during the recovery from one.
    pub(super) fn gap(&mut self) -> Duration {
        let most = if self.dice.once_in(4) { self.gap / 50 } else { self.gap * 2 };
        Duration::from_nanos(self.dice.between(1000, most.as_nanos() as u64))
    }

    /// Lets something go wrong.
    pub(super) fn strike(&mut self, cluster: &mut Cluster) {
        let seats = cluster.seats();
        let Some(&seat) = self.dice.choose(&seats) else { return };
        let what = match self.dice.below(16) {
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
        };
        self.log.push(format!("{:>12.6} {what}", cluster.world().now().as_secs_f64()));
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
        cluster.world().start(HostId(0), Duration::from_micros(5), self.control.tmaster(incarnation));
        format!("a second tmaster, the entry of the first removed: {removed:?}")
    }

    /// From now on all is well.
    pub(super) fn heal(&mut self, cluster: &Cluster) {
        self.state.set_down(false);
        cluster.world().heal();
        cluster.world().resume_all();
        cluster.world().set_weather(Weather::default());
        self.log.push(format!("{:>12.6} all is healed", cluster.world().now().as_secs_f64()));
    }
}
