//! The decision of a pass about a domain, after it has read its groups.

/// The decision, with the reasons and the amounts of one family of rules.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decision<Balanced, Pull, Amount> {
    /// Nothing to do (counted as `lb_nobusyg`).
    Balanced(Balanced),
    Pull {
        /// The group's number for the caller.
        group: u32,
        amount: Amount,
        why: Pull,
    },
}
