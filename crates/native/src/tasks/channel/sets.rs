//! Sets of ends on which one task waits (epoll(7), level-triggered). A call finds several ends at once; they are
//! returned one by one before the next call, as in event loops.

use super::End;
use crate::sys::Gathered;
use schedlab_base::{Error, Result};
use schedlab_workload::{PortId, SetId};
use std::collections::VecDeque;
use std::io::ErrorKind;

/// All sets of a run.
pub(super) struct Sets(Vec<Gathered>);

impl Sets {
    /// Makes them from open ends.
    pub(super) fn open(sets: &[Vec<PortId>], ends: &[End]) -> Result<Sets> {
        let make = |set: &Vec<PortId>| {
            let all = Gathered::new()?;
            for port in set {
                let end = ends.get(port.index()).ok_or(ErrorKind::NotFound)?;
                all.add_as(&end.fd, port.0)?;
            }
            Ok(all)
        };
        let made: std::io::Result<Vec<Gathered>> = sets.iter().map(make).collect();
        Ok(Sets(made.map_err(|e| Error::machine(format!("can't make a set of channels (epoll): {e}")))?))
    }

    /// The next end with data; sleeps while there is none. `None`: the run is `over`.
    pub(super) fn ready(
        &self,
        set: SetId,
        found: &mut VecDeque<PortId>,
        over: impl Fn() -> bool,
    ) -> Result<Option<PortId>> {
        let all = self.0.get(set.index()).ok_or_else(|| {
            Error::internal(format!("set {} was not declared ({} are)", set.0, self.0.len()))
        })?;
        loop {
            if let Some(port) = found.pop_front() {
                return Ok(Some(port));
            }
            if over() {
                return Ok(None);
            }
            match all.wait(|port| found.push_back(PortId(port))) {
                Err(e) if e.kind() != ErrorKind::Interrupted => {
                    return Err(Error::machine(format!("can't wait for a set of channels (epoll): {e}")));
                }
                _ => {}
            }
        }
    }
}
