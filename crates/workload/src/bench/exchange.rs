//! The client's side of requests and responses: the client's next step, and the time of each exchange.

use crate::op::{Env, SeriesId};
use schedlab_base::Ns;

/// A client's next step.
pub enum Turn {
    /// Send a request. `answered` reports whether it follows an answered one.
    Ask {
        /// Whether the request follows an answered one.
        answered: bool,
    },
    /// Receive the response.
    Await,
}

enum State {
    /// Nothing was sent yet.
    Begin,
    Asked,
    Answered,
    /// The response has come, and the exchange is over.
    Closed,
}

/// One client's exchanges, one after another without a pause.
pub struct Exchange {
    latency: SeriesId,
    /// When the present one began.
    begun: Ns,
    state: State,
}

impl Exchange {
    /// A client before its first exchange. The time of each exchange is recorded in `latency`.
    pub fn new(latency: SeriesId) -> Exchange {
        Exchange { latency, begun: Ns::ZERO, state: State::Begin }
    }
    /// Ends an exchange whose response has come, so that what follows does not belong to it. Returns whether there was
    /// one.
    pub fn close(&mut self, env: &mut dyn Env) -> bool {
        let answered = matches!(self.state, State::Answered);
        if answered {
            let now = env.now();
            env.record(self.latency, now.since(self.begun).0);
            self.state = State::Closed;
        }
        answered
    }
    /// The next turn. The clock is read once an exchange: one ends as the next begins.
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
