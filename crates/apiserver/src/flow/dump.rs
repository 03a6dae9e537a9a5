//! `/debug/api_priority_and_fairness/`: the state of the priority levels, as tables.

use std::{
    fmt::Write as _,
    sync::{Arc, PoisonError, atomic::Ordering::Relaxed},
};

use object::MicroTime;
use server::{EndpointHandler, Request, ResponseFuture, Server, plain_reply, text_reply};

use super::{PriorityAndFairness, metrics::RejectReason, priority_level::LevelSnapshot};

/// The handler of the debug tables.
#[derive(Debug)]
pub(crate) struct Dump(pub(crate) Arc<PriorityAndFairness>);

impl EndpointHandler for Dump {
    fn handle<'a>(&'a self, _: &'a Arc<Server>, request: Request) -> ResponseFuture<'a> {
        Box::pin(async move {
            let rows = match &*request.info.path {
                "/debug/api_priority_and_fairness/dump_priority_levels" => self.0.levels(),
                "/debug/api_priority_and_fairness/dump_queues" => self.0.queues(),
                "/debug/api_priority_and_fairness/dump_requests" => self.0.requests(),
                _ => return Ok(text_reply(404, "404 page not found")),
            };
            Ok(plain_reply(aligned(&rows)))
        })
    }
}

impl PriorityAndFairness {
    fn level_snapshots(&self) -> Vec<(String, LevelSnapshot)> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.levels.iter().map(|(name, own)| (name.to_string(), own.sight())).collect()
    }

    fn levels(&self) -> Vec<Vec<String>> {
        let heads = [
            "PriorityLevelName",
            "ActiveQueues",
            "IsIdle",
            "IsQuiescing",
            "WaitingRequests",
            "ExecutingRequests",
            "DispatchedRequests",
            "RejectedRequests",
            "TimedoutRequests",
            "CancelledRequests",
        ];
        let mut rows = vec![heads.map(str::to_owned).to_vec()];
        let schemas = self.known.lock().unwrap_or_else(PoisonError::into_inner).schemas.clone();
        for (name, sight) in self.level_snapshots() {
            let own = || schemas.iter().filter(|schema| schema.level == name.as_str());
            let refused = |why: &[RejectReason]| {
                let of = |why: &RejectReason| {
                    own().map(|own| own.tally.rejected[*why as usize].load(Relaxed)).sum::<u64>()
                };
                why.iter().map(of).sum::<u64>()
            };
            let waiting: usize = sight.queues.iter().map(Vec::len).sum();
            let active = sight.queues.iter().filter(|queue| !queue.is_empty()).count();
            let dispatched: u64 = own().map(|own| own.tally.dispatched.load(Relaxed)).sum();
            rows.push(vec![
                name.clone(),
                active.to_string(),
                (waiting + sight.executing == 0).to_string(),
                false.to_string(),
                waiting.to_string(),
                sight.executing.to_string(),
                dispatched.to_string(),
                refused(&[RejectReason::QueueFull, RejectReason::Limit]).to_string(),
                refused(&[RejectReason::TimedOut]).to_string(),
                refused(&[RejectReason::Cancelled]).to_string(),
            ]);
        }
        rows
    }

    fn queues(&self) -> Vec<Vec<String>> {
        let heads = ["PriorityLevelName", "Index", "PendingRequests"];
        let mut rows = vec![heads.map(str::to_owned).to_vec()];
        for (name, sight) in self.level_snapshots() {
            for (at, queue) in sight.queues.iter().enumerate() {
                rows.push(vec![name.clone(), at.to_string(), queue.len().to_string()]);
            }
        }
        rows
    }

    /// The table of waiting requests.
    fn requests(&self) -> Vec<Vec<String>> {
        let heads = [
            "PriorityLevelName",
            "FlowSchemaName",
            "QueueIndex",
            "RequestIndexInQueue",
            "FlowDistingsher", // as upstream spells it
            "ArriveTime",
        ];
        let mut rows = vec![heads.map(str::to_owned).to_vec()];
        for (name, sight) in self.level_snapshots() {
            for (queue, waiting) in sight.queues.iter().enumerate() {
                for (at, who) in waiting.iter().enumerate() {
                    rows.push(vec![
                        name.clone(),
                        who.schema.to_string(),
                        queue.to_string(),
                        at.to_string(),
                        who.flow.to_string(),
                        MicroTime::format(who.arrived).to_string(),
                    ]);
                }
            }
        }
        rows
    }
}

/// Aligns the columns, with a comma behind each cell but the last.
fn aligned(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
    let width = |at: usize| {
        let cells = rows.iter().filter_map(|row| row.get(at));
        cells.map(|cell| cell.len() + 1).max().unwrap_or_default().max(8 - 1) + 1
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        for (at, cell) in row.iter().enumerate() {
            if at + 1 == row.len() {
                text.push_str(cell);
            } else {
                let width = widths[at];
                let _ = write!(text, "{:width$}", format!("{cell},"));
            }
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_stand_below_each_other() {
        let row = |cells: &[&str]| cells.iter().map(ToString::to_string).collect::<Vec<_>>();
        let text =
            aligned(&[row(&["PriorityLevelName", "Index", "N"]), row(&["exempt", "7", "0"])]);
        assert_eq!(text, "PriorityLevelName, Index,  N\nexempt,            7,      0\n");
    }
}
