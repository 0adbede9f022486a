//! The conversation with a topology's tmaster: found through the state, and found again when it restarts.

use super::failure::Failure;
use crate::state::{Execution, State};
use egret_dataplane::message::{Message, Request, TopologyMetrics, TopologyStatus};
use egret_dataplane::net::client::Client;
use egret_dataplane::net::handshake::Secret;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// How long a tmaster may take to accept and to prove itself.
const CONNECT_LIMIT: Duration = Duration::from_secs(2);
/// How long to wait between two looks for it.
const RETRY: Duration = Duration::from_millis(50);

/// A connection that is made anew whenever it is lost.
pub(crate) struct Link<'a> {
    state: &'a State,
    name: &'a str,
    secret: Secret,
    client: Option<Client>,
    next_try: Instant,
    /// What every new tmaster is told first.
    greeting: Vec<Message>,
}

impl<'a> Link<'a> {
    /// A link to the tmaster of `name`; connects when it is first used.
    ///
    /// # Errors
    /// When the execution's secret is none.
    pub(crate) fn new(state: &'a State, name: &'a str, execution: &Execution) -> Result<Self, Failure> {
        let secret = Secret::from_hex(&execution.secret)
            .ok_or_else(|| Failure::failed(format!("the state of `{name}` holds no valid secret")))?;
        Ok(Self { state, name, secret, client: None, next_try: Instant::now(), greeting: Vec::new() })
    }

    /// Hears of every change of state from now on, from whichever tmaster there is.
    pub(crate) fn watch(mut self) -> Self {
        self.greeting.push(Message::Watch);
        self
    }

    /// Whether there is a tmaster to talk to; looks for it at once.
    pub(crate) fn reach(&mut self) -> bool {
        self.next_try = Instant::now();
        self.client.is_some() || self.connect()
    }

    /// Says something now, if there is a connection.
    pub(crate) fn say(&mut self, message: &Message) {
        if let Some(client) = &mut self.client
            && client.send(message).is_err()
        {
            self.client = None;
        }
    }

    /// Asks for something that also the next tmaster must know.
    pub(crate) fn insist(&mut self, request: Request) {
        self.greeting.push(Message::Request(request));
        self.say(&Message::Request(request));
    }

    /// Waits at most `patience` for the next thing the tmaster says.
    pub(crate) fn hear(&mut self, patience: Duration) -> Option<Message> {
        if self.client.is_none() && !self.connect() {
            std::thread::sleep(patience.min(RETRY));
            return None;
        }
        match self.client.as_mut()?.recv(patience) {
            Ok(message) => message,
            Err(error) => {
                tracing::debug!("the connection to the tmaster is lost: {error}");
                self.client = None;
                None
            }
        }
    }

    /// Asks for the status and waits for it.
    pub(crate) fn status(&mut self, patience: Duration) -> Option<Box<TopologyStatus>> {
        self.ask(&Message::StatusRequest, patience, |answer| match answer {
            Message::Status(status) => Some(status),
            _ => None,
        })
    }

    /// Asks for the counters of every task and waits for them.
    pub(crate) fn metrics(&mut self, patience: Duration) -> Option<Box<TopologyMetrics>> {
        self.ask(&Message::MetricsRequest, patience, |answer| match answer {
            Message::Metrics(metrics) => Some(metrics),
            _ => None,
        })
    }

    fn ask<T>(
        &mut self,
        request: &Message,
        patience: Duration,
        answer: fn(Message) -> Option<T>,
    ) -> Option<T> {
        if self.client.is_none() && !self.connect() {
            return None;
        }
        self.say(request);
        let deadline = Instant::now() + patience;
        while self.client.is_some() && Instant::now() < deadline {
            let said = self.hear(deadline.saturating_duration_since(Instant::now()));
            if let Some(answered) = said.and_then(answer) {
                return Some(answered);
            }
        }
        None
    }

    fn connect(&mut self) -> bool {
        if Instant::now() < self.next_try {
            return false;
        }
        self.next_try = Instant::now() + RETRY;
        let Ok(Some(location)) = self.state.tmaster_location(self.name) else { return false };
        // Always numeric: no name is looked up.
        let Ok(address) = location.address.parse::<SocketAddr>() else { return false };
        match Client::connect(address, &self.secret, CONNECT_LIMIT) {
            Ok(client) => self.client = Some(client),
            Err(error) => {
                tracing::debug!("cannot connect to the tmaster at {address}: {error}");
                return false;
            }
        }
        for message in self.greeting.clone() {
            self.say(&message);
        }
        self.client.is_some()
    }
}
