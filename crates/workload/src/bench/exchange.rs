//! The client's side of request and response: its next step, and the time of each exchange.

use crate::op::{Env, SeriesId};
use schedlab_base::Ns;

/// A client's next step.
pub enum Turn {
    /// Send a request.
    Ask {
        /// Whether the request follows an answered one.
        answered: bool,
    },
    Await,
}

enum State {
    Begin,
    Asked,
    Answered,
    /// The response has arrived, and the exchange is over.
    Closed,
}

/// One client's exchanges, back to back.
pub struct Exchange {
    latency: SeriesId,
    /// Start of the current exchange.
    begun: Ns,
    state: State,
}

impl Exchange {
    /// A client before its first exchange. `latency` records the time of each.
    pub fn new(latency: SeriesId) -> Exchange {
        Exchange { latency, begun: Ns::ZERO, state: State::Begin }
    }
    /// Ends an exchange whose response has arrived, so that later work does not count. Returns whether there was one.
    pub fn close(&mut self, env: &mut dyn Env) -> bool {
        let answered = matches!(self.state, State::Answered);
        if answered {
            let now = env.now();
            env.record(self.latency, now.since(self.begun).0);
            self.state = State::Closed;
        }
        answered
    }
    /// The next step. The clock is read once per exchange, because one ends when the next begins.
    pub fn turn(&mut self, env: &mut dyn Env) -> Turn {
        if let State::Asked = self.state {
            self.state = State::Answered;
            return Turn::Await;
        }
        let answered = matches!(self.state, State::Answered | State::Closed);
        let now = env.now();
        if let State::Answered = self.state {
            env.record(self.latency, now.since(self.begun).0);
        }
        (self.begun, self.state) = (now, State::Asked);
        Turn::Ask { answered }
    }
}
