//! Tests of the pure core: events in, effects out.

use super::*;
use egret_dataplane::message::{Heartbeat, Latency, TaskCounters};
use egret_dataplane::message::{PROTOCOL_VERSION, RegisterStmgr};
use egret_dataplane::plan::{
    Component, Config, ContainerPlan, Grouping, Input, Program, Resources, Role, Schema, Stream, TaskPlan,
};

const SECOND: Duration = Duration::from_secs(1);
const CLIENT: PeerId = PeerId(99);

/// A tmaster of a spout (task 1, container 1) and a bolt (task 2, container 2), and its clock.
struct Bench {
    tmaster: Tmaster,
    now: Duration,
}

fn component(id: &str, role: Role, inputs: Vec<Input>) -> Component {
    let outputs = vec![Stream { name: "default".to_owned(), schema: Schema::default() }];
    let (kind, args) = (String::new(), "null".to_owned());
    let resources = Resources::default();
    let config = Config::default();
    Component { id: id.to_owned(), role, parallelism: 1, kind, args, outputs, inputs, resources, config }
}

fn setup(stored: Option<PhysicalPlan>) -> Setup {
    let input = Input { from: "s".to_owned(), stream: "default".to_owned(), grouping: Grouping::Shuffle };
    let topology = Topology {
        name: "t".to_owned(),
        config: Config::default(),
        components: vec![component("s", Role::Spout, vec![]), component("b", Role::Bolt, vec![input])],
        program: Program::Builtin,
    };
    let container = |id: u32, component: &str| ContainerPlan {
        id: ContainerId(id),
        tasks: vec![TaskPlan {
            task: TaskId(id),
            component: component.to_owned(),
            index: 0,
            resources: Resources::default(),
        }],
        required: Resources::default(),
    };
    let packing =
        PackingPlan { topology: "t".to_owned(), containers: vec![container(1, "s"), container(2, "b")] };
    Setup { topology, packing, stored, memory: None, processes: vec![] }
}

fn stmgr(container: u32, incarnation: u32, address: &str) -> RegisterStmgr {
    RegisterStmgr {
        version: PROTOCOL_VERSION,
        topology: "t".to_owned(),
        container: ContainerId(container),
        incarnation: Incarnation(incarnation),
        address: address.to_owned(),
        epoch: Epoch(0),
        ended: vec![],
    }
}

impl Bench {
    fn new() -> Self {
        Self { tmaster: Tmaster::new(setup(None)), now: SECOND }
    }

    /// Both stmgrs registered (peers 1 and 2), linked, tuples flowing.
    fn running() -> Self {
        let mut bench = Self::new();
        bench.register(1, stmgr(1, 1, "h:1"));
        bench.register(2, stmgr(2, 1, "h:2"));
        bench.says(1, Message::MeshWhole(Epoch(1)));
        bench.says(2, Message::MeshWhole(Epoch(1)));
        assert_eq!(bench.tmaster.status().state, TopologyState::Running);
        bench
    }

    fn event(&mut self, event: Event) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.tmaster.handle(event, self.now, &mut effects);
        self.tmaster.flush(&mut effects);
        effects
    }

    fn says(&mut self, peer: u64, message: Message) -> Vec<Effect> {
        self.event(Event::Message(PeerId(peer), message))
    }

    fn register(&mut self, peer: u64, stmgr: RegisterStmgr) -> Vec<Effect> {
        self.says(peer, Message::RegisterStmgr(stmgr))
    }

    fn tick(&mut self, passed: Duration) -> Vec<Effect> {
        self.now += passed;
        self.event(Event::Tick)
    }

    fn closed(&mut self, peer: u64) -> Vec<Effect> {
        self.event(Event::Closed(PeerId(peer)))
    }

    /// As it does when it was told to stop.
    fn leaves(&mut self, peer: u64) -> Vec<Effect> {
        assert_eq!(self.says(peer, Message::SetState(RunState::Stopped)), []);
        self.closed(peer)
    }

    fn state(&self) -> TopologyState {
        self.tmaster.status().state
    }
}

fn plan_sent(effects: &[Effect]) -> Option<(&[PeerId], &PhysicalPlan)> {
    effects.iter().find_map(|effect| match effect {
        Effect::Send(peers, Message::Plan(plan)) => Some((peers.as_slice(), plan.as_ref())),
        _ => None,
    })
}

fn final_status(effects: &[Effect]) -> Option<&TopologyStatus> {
    effects.iter().find_map(|effect| match effect {
        Effect::Final(status) => Some(status.as_ref()),
        _ => None,
    })
}

fn refused(effects: &[Effect], peer: u64) -> bool {
    let told = |e: &Effect| matches!(e, Effect::Send(to, Message::Refused(_)) if *to == [PeerId(peer)]);
    effects.iter().any(told) && effects.contains(&Effect::Close(PeerId(peer)))
}

fn set_state(peers: &[u64], state: RunState) -> Effect {
    Effect::Send(peers.iter().map(|p| PeerId(*p)).collect(), Message::SetState(state))
}

fn counters(task: u32, incarnation: u32, sent: u64, executed: u64) -> Message {
    let (task, incarnation) = (TaskId(task), Incarnation(incarnation));
    let counters =
        TaskCounters { task, incarnation, sent, executed, emitted: sent, ..TaskCounters::default() };
    Message::Heartbeat(Heartbeat { tasks: vec![counters], ..Heartbeat::default() })
}

#[test]
fn no_plan_before_every_stmgr_has_registered_and_no_tuples_before_every_mesh_is_whole() {
    let mut bench = Bench::new();
    assert_eq!(bench.register(1, stmgr(1, 1, "h:1")), []);
    let effects = bench.register(2, stmgr(2, 1, "h:2"));
    let Some((to, plan)) = plan_sent(&effects) else { panic!("no plan in {effects:?}") };
    assert_eq!((to, plan.epoch), ([PeerId(1), PeerId(2)].as_slice(), Epoch(1)));
    assert_eq!(plan.stmgrs[1].address, "h:2");
    assert!(matches!(&effects[0], Effect::Store(stored) if **stored == *plan), "stored before it is sent");

    assert_eq!(bench.says(1, Message::MeshWhole(Epoch(1))), []);
    assert_eq!(bench.state(), TopologyState::Starting);
    assert_eq!(bench.says(2, Message::MeshWhole(Epoch(1))), [set_state(&[1, 2], RunState::Running)]);
}

#[test]
fn a_stmgr_that_comes_back_at_the_same_or_a_new_address_gets_a_higher_epoch() {
    let mut bench = Bench::running();
    for (epoch, peer, incarnation, address) in [(2, 3, 2, "h:1"), (3, 4, 3, "h:9")] {
        bench.closed(peer - 1 - u64::from(peer == 3));
        let effects = bench.register(peer, stmgr(1, incarnation, address));
        let Some((to, plan)) = plan_sent(&effects) else { panic!("no plan in {effects:?}") };
        assert_eq!((plan.epoch, plan.stmgrs[0].address.as_str()), (Epoch(epoch), address));
        assert_eq!(to, [PeerId(peer), PeerId(2)]);
        assert_eq!(bench.state(), TopologyState::Running, "the others go on");
        let effects = bench.says(peer, Message::MeshWhole(Epoch(epoch)));
        assert_eq!(effects, [set_state(&[peer], RunState::Running)]);
    }
}

/// BR-034.
#[test]
fn an_old_epoch_never_overwrites_a_newer_plan() {
    let mut bench = Bench::new();
    bench.register(1, RegisterStmgr { epoch: Epoch(7), ..stmgr(1, 1, "h:1") });
    let effects = bench.register(2, RegisterStmgr { epoch: Epoch(3), ..stmgr(2, 1, "h:2") });
    assert_eq!(plan_sent(&effects).map(|(_, plan)| plan.epoch), Some(Epoch(8)));
    bench.says(1, Message::MeshWhole(Epoch(8)));
    assert_eq!(bench.says(2, Message::MeshWhole(Epoch(3))), [], "whole for an old plan says nothing");
    assert_eq!(bench.state(), TopologyState::Starting);
}

#[test]
fn a_restarted_tmaster_goes_on_from_the_stored_plan() {
    let mut first = Bench::running();
    first.says(1, Message::TaskEnded(TaskId(1)));
    let stored = first.tmaster.plan.clone();
    let mut bench = Bench { tmaster: Tmaster::new(setup(stored)), now: SECOND };
    bench.register(5, RegisterStmgr { epoch: Epoch(1), ..stmgr(1, 1, "h:1") });
    let effects = bench.register(6, RegisterStmgr { epoch: Epoch(1), ..stmgr(2, 1, "h:7") });
    let Some((_, plan)) = plan_sent(&effects) else { panic!("no plan in {effects:?}") };
    assert_eq!((plan.epoch, plan.ended.as_slice()), (Epoch(2), [TaskId(1)].as_slice()));
    bench.says(5, Message::MeshWhole(Epoch(2)));
    bench.says(6, Message::MeshWhole(Epoch(2)));
    assert_eq!(bench.state(), TopologyState::Running);
    let effects = bench.says(6, Message::TaskEnded(TaskId(2)));
    assert!(effects.contains(&set_state(&[5, 6], RunState::Stopped)), "{effects:?}");
}

/// BR-064.
#[test]
fn of_two_stmgrs_of_a_container_the_newer_incarnation_has_it() {
    let mut bench = Bench::running();
    assert!(refused(&bench.register(3, stmgr(1, 0, "h:5")), 3), "a zombie");
    let effects = bench.register(4, stmgr(1, 2, "h:6"));
    assert!(refused(&effects, 1), "the older is told: {effects:?}");
    assert!(plan_sent(&effects).is_some());
    assert_eq!(bench.closed(1), [], "its end changes nothing");
    assert!(refused(&bench.register(5, stmgr(1, 1, "h:1")), 5), "nor does it get the container back");
}

/// BR-064.
#[test]
fn a_zombie_is_refused_however_late_it_comes() {
    let mut bench = Bench::running();
    bench.register(3, stmgr(1, 7, "h:6"));
    bench.closed(3);
    bench.tick(1000 * SECOND);
    assert!(refused(&bench.register(4, stmgr(1, 6, "h:1")), 4));
    assert!(plan_sent(&bench.register(5, stmgr(1, 8, "h:1"))).is_some());
}

fn stmgr_process(incarnation: u32) -> ProcessStatus {
    ProcessStatus {
        role: ProcessRole::Stmgr,
        container: ContainerId(1),
        task: None,
        component: None,
        pid: 1,
        incarnation: Incarnation(incarnation),
    }
}

#[test]
fn a_restarted_tmaster_counts_on() {
    let mut first = Bench::running();
    first.says(1, counters(1, 1, 10, 0));
    first.says(2, counters(2, 1, 0, 4));
    first.says(2, counters(2, 2, 0, 5));
    let (component, message) = ("b".to_owned(), "cannot write".to_owned());
    let severity = Severity::Incomplete;
    first.says(2, Message::Report(Report { component, task: TaskId(2), severity, message }));
    let drops = |processes| {
        let dropped = vec![("instance_died".to_owned(), 2)];
        Message::Heartbeat(Heartbeat { dropped, processes, ..Heartbeat::default() })
    };
    first.says(1, drops(vec![stmgr_process(3)]));
    first.tick(3 * SECOND);
    let memory = first.tmaster.remember();
    assert!(memory.is_some() && first.tmaster.remember().is_none());
    let stored = first.tmaster.plan.clone();
    let mut bench = Bench { tmaster: Tmaster::new(Setup { memory, ..setup(stored) }), now: SECOND };
    assert!(refused(&bench.register(7, stmgr(1, 2, "h:1")), 7), "a zombie, also for the next tmaster");
    bench.register(1, stmgr(1, 3, "h:1"));
    bench.register(2, stmgr(2, 1, "h:2"));
    bench.says(1, drops(Vec::new()));
    bench.says(1, Message::MeshWhole(Epoch(2)));
    bench.says(2, Message::MeshWhole(Epoch(2)));
    bench.tick(2 * SECOND);
    bench.says(2, counters(2, 2, 0, 6));
    bench.says(1, Message::TaskEnded(TaskId(1)));
    bench.says(2, Message::TaskEnded(TaskId(2)));
    bench.leaves(1);
    let effects = bench.leaves(2);
    let Some(status) = final_status(&effects) else { panic!("not final: {effects:?}") };
    assert_eq!((status.state, status.lost, status.reports.len()), (TopologyState::Failed, 0, 1));
    assert_eq!((status.elapsed_s, status.components[1].executed, status.dropped[0].1), (5.0, 10, 2));
}

#[test]
fn latencies_come_from_a_tasks_own_container_only() {
    let mut bench = Bench::running();
    let latency = |task| {
        Message::Latency(Latency {
            task: TaskId(task),
            incarnation: Incarnation(1),
            histogram: vec![1, 2, 3],
        })
    };
    for message in [latency(1), latency(2)] {
        let effects = bench.says(1, message);
        assert!(matches!(&effects[..], [Effect::Warn(_)]), "{effects:?}");
    }
}

#[test]
fn strangers_are_refused_with_the_reason() {
    let mut bench = Bench::new();
    assert!(refused(&bench.register(1, RegisterStmgr { version: 99, ..stmgr(1, 1, "h:1") }), 1));
    assert!(refused(&bench.register(2, RegisterStmgr { topology: "u".into(), ..stmgr(1, 1, "h:1") }), 2));
    assert!(refused(&bench.register(3, stmgr(7, 1, "h:1")), 3));
    assert!(refused(&bench.says(4, Message::MeshWhole(Epoch(1))), 4), "before it has registered");
}

#[test]
fn when_all_tasks_have_ended_the_topology_completes_with_the_last_counters() {
    let mut bench = Bench::running();
    bench.event(Event::Message(CLIENT, Message::Watch));
    bench.now += SECOND;
    bench.says(1, counters(1, 1, 10, 0));
    let effects = bench.says(1, Message::TaskEnded(TaskId(1)));
    assert!(matches!(&effects[..], [Effect::Store(plan)] if plan.ended == [TaskId(1)]), "{effects:?}");
    bench.says(2, counters(2, 1, 0, 9));
    assert!(bench.says(2, Message::TaskEnded(TaskId(2))).contains(&set_state(&[1, 2], RunState::Stopped)));
    assert_eq!(final_status(&bench.leaves(1)), None);
    bench.says(2, counters(2, 1, 0, 10));
    let effects = bench.leaves(2);
    let Some(status) = final_status(&effects) else { panic!("not final: {effects:?}") };
    assert_eq!((status.state, status.lost, status.elapsed_s), (TopologyState::Completed, 0, 1.0));
    let pushed = Effect::Send(vec![CLIENT], Message::Status(Box::new(status.clone())));
    assert_eq!(effects[1..], [pushed, Effect::Exit], "kept first, then pushed, then the end");
}

#[test]
fn a_stmgr_that_does_not_close_in_time_is_not_waited_for() {
    let mut bench = Bench::running();
    bench.says(1, counters(1, 1, 10, 0));
    bench.says(99, Message::Request(Request::Stop));
    assert_eq!(final_status(&bench.tick(STOP_DEADLINE - SECOND)), None);
    let effects = bench.tick(SECOND);
    let status = final_status(&effects);
    assert_eq!(status.map(|s| (s.state, s.lost)), Some((TopologyState::Killed, 10)));
}

#[test]
fn a_stmgr_that_was_away_at_the_stop_is_told_when_it_comes_back() {
    let mut bench = Bench::running();
    bench.closed(1);
    bench.says(99, Message::Request(Request::Stop));
    assert_eq!(final_status(&bench.leaves(2)), None, "container 1 does not know yet");
    assert_eq!(bench.register(3, stmgr(1, 1, "h:1")), [set_state(&[3], RunState::Stopped)]);
    assert!(final_status(&bench.leaves(3)).is_some());
}

#[test]
fn a_tmaster_restarted_during_the_stop_tells_who_is_left_and_does_not_wait_for_who_has_left() {
    let mut first = Bench::running();
    first.says(1, Message::TaskEnded(TaskId(1)));
    let stored = first.tmaster.plan.clone();
    first.says(2, Message::TaskEnded(TaskId(2)));
    // The state was away when the second task ended; container 1 has left, container 2 does not know yet.
    let setup = Setup { memory: first.tmaster.remember(), ..setup(stored) };
    let mut bench = Bench { tmaster: Tmaster::new(setup), now: SECOND };
    bench.tick(SECOND);
    bench.tick(STRAGGLERS);
    assert_eq!(bench.register(7, stmgr(2, 1, "h:2")), [set_state(&[7], RunState::Stopped)]);
    assert_eq!(final_status(&bench.leaves(7)), None, "container 1 may be about to register");
    let effects = bench.tick(STOP_DEADLINE - STRAGGLERS);
    assert_eq!(final_status(&effects).map(|s| s.state), Some(TopologyState::Completed));
}

/// It may have been killed: the system closes its connection in order then, too.
#[test]
fn a_stmgr_that_is_gone_without_a_word_during_the_stop_may_not_have_heard_of_it() {
    let mut bench = Bench::running();
    bench.says(1, Message::TaskEnded(TaskId(1)));
    bench.says(2, Message::TaskEnded(TaskId(2)));
    bench.leaves(1);
    assert_eq!(final_status(&bench.closed(2)), None);
    assert_eq!(bench.register(7, stmgr(2, 1, "h:2")), [set_state(&[7], RunState::Stopped)]);
    assert!(final_status(&bench.leaves(7)).is_some());
}

#[test]
fn nobody_leaves_before_the_stop() {
    let mut bench = Bench::running();
    let effects = bench.says(1, Message::SetState(RunState::Stopped));
    assert!(matches!(&effects[..], [Effect::Warn(_)]), "{effects:?}");
}

#[test]
fn what_a_replaced_tmaster_hears_of_ends_counts_for_the_one_that_waits() {
    let mut first = Bench::running();
    let mut second = Bench { tmaster: Tmaster::new(setup(first.tmaster.plan.clone())), now: SECOND };
    second.register(7, stmgr(2, 2, "h:2"));
    first.says(1, Message::TaskEnded(TaskId(1)));
    first.says(2, Message::TaskEnded(TaskId(2)));
    let ended = first.tmaster.ended.clone();
    assert_eq!(
        second.event(Event::EndedElsewhere([TaskId(1)].into())).len(),
        1,
        "it is stored, and that is all"
    );
    second.event(Event::EndedElsewhere(ended));
    assert_eq!(second.tick(SECOND)[0], set_state(&[7], RunState::Stopped), "container 1 has left already");
    second.leaves(7);
    let effects = second.tick(STOP_DEADLINE);
    assert_eq!(final_status(&effects).map(|s| s.state), Some(TopologyState::Completed));
    // One whose stmgrs have registered hears it from them.
    let mut other = Bench::running();
    assert_eq!(other.event(Event::EndedElsewhere([TaskId(1)].into())), []);
}

#[test]
fn a_drain_ends_as_interrupted() {
    let mut bench = Bench::running();
    let effects = bench.says(99, Message::Request(Request::Drain));
    assert_eq!(effects, [set_state(&[1, 2], RunState::Draining), Effect::Send(vec![CLIENT], Message::Done)]);
    assert_eq!(bench.state(), TopologyState::Draining);
    bench.says(1, Message::TaskEnded(TaskId(1)));
    bench.says(2, Message::TaskEnded(TaskId(2)));
    bench.leaves(1);
    let effects = bench.leaves(2);
    assert_eq!(final_status(&effects).map(|s| s.state), Some(TopologyState::Interrupted));
}

#[test]
fn a_drain_before_anything_flowed_stops_at_once() {
    let mut bench = Bench::new();
    bench.register(1, stmgr(1, 1, "h:1"));
    assert!(bench.says(99, Message::Request(Request::Drain)).contains(&set_state(&[1], RunState::Stopped)));
    assert_eq!(final_status(&bench.leaves(1)), None, "the other may be about to register");
    assert_eq!(bench.register(2, stmgr(2, 1, "h:2")), [set_state(&[2], RunState::Stopped)]);
    let effects = bench.leaves(2);
    assert_eq!(final_status(&effects).map(|s| s.state), Some(TopologyState::Interrupted));
}

#[test]
fn a_stop_does_not_wait_long_for_a_stmgr_that_never_came() {
    let mut bench = Bench::new();
    bench.register(1, stmgr(1, 1, "h:1"));
    bench.says(99, Message::Request(Request::Stop));
    assert_eq!(final_status(&bench.leaves(1)), None);
    let effects = bench.tick(STRAGGLERS);
    assert_eq!(final_status(&effects).map(|s| s.state), Some(TopologyState::Killed));
}

#[test]
fn a_drain_of_a_restarted_tmaster_waits_until_its_stmgrs_are_back() {
    let stored = Bench::running().tmaster.plan.clone();
    let mut bench = Bench { tmaster: Tmaster::new(setup(stored)), now: SECOND };
    bench.says(99, Message::Request(Request::Drain));
    bench.register(1, stmgr(1, 1, "h:1"));
    bench.register(2, stmgr(2, 1, "h:2"));
    bench.says(1, Message::MeshWhole(Epoch(2)));
    assert_eq!(bench.says(2, Message::MeshWhole(Epoch(2))), [set_state(&[1, 2], RunState::Draining)]);
}

#[test]
fn lost_counts_what_died_with_an_instance_over_its_incarnations() {
    let mut bench = Bench::running();
    bench.says(1, counters(1, 1, 10, 0));
    bench.says(2, counters(2, 1, 0, 4));
    bench.says(2, counters(2, 2, 0, 3));
    bench.says(1, Message::TaskEnded(TaskId(1)));
    bench.says(2, Message::TaskEnded(TaskId(2)));
    bench.leaves(1);
    assert_eq!(final_status(&bench.leaves(2)).map(|s| s.lost), Some(3));
}

#[test]
fn only_a_containers_own_tasks_can_be_ended_by_its_stmgr() {
    let mut bench = Bench::running();
    let effects = bench.says(1, Message::TaskEnded(TaskId(2)));
    assert!(matches!(&effects[..], [Effect::Warn(_)]), "{effects:?}");
}

#[test]
fn reports_are_kept_up_to_a_bound() {
    let mut bench = Bench::running();
    for n in 0..REPORTS_MAX + 3 {
        let (component, message) = ("b".to_owned(), n.to_string());
        let report = Report { component, task: TaskId(2), severity: Severity::Error, message };
        bench.says(2, Message::Report(report));
    }
    let reports = bench.tmaster.status().reports;
    assert_eq!((reports.len(), reports[0].message.as_str()), (REPORTS_MAX, "3"));
}

#[test]
fn a_task_that_ends_without_all_of_its_results_fails_the_topology() {
    // The word that it has ended and its last report come on different ways.
    for report_at in 0..3 {
        let mut bench = Bench::running();
        for step in 0..3 {
            if step == report_at {
                let (component, message) = ("b".to_owned(), "cannot write".to_owned());
                let severity = Severity::Incomplete;
                bench.says(2, Message::Report(Report { component, task: TaskId(2), severity, message }));
            }
            match step {
                0 => _ = bench.says(1, Message::TaskEnded(TaskId(1))),
                1 => _ = bench.says(2, Message::TaskEnded(TaskId(2))),
                _ => _ = bench.leaves(1),
            }
        }
        let effects = bench.leaves(2);
        let last = final_status(&effects).unwrap();
        assert_eq!(last.state, TopologyState::Failed, "reported at step {report_at}");
        assert_eq!(last.reports.len(), 1);
    }
}
