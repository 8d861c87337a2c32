//! The order in which the calls of a caller create their children.
//!
//! Calls that run at the same time reach their bodies in any order: each waits for its start to be durable, and disks answer
//! as they like. But names, creation times and the catalog of the parent must be the same whenever the same is asked, and so
//! must be which call is one too many. So a call takes its place, and its [`Slot`], when the driver lets it run, which happens
//! in the model's order ([`Tool::will_run`]). It creates its child when all before it have theirs, or will never have one.
//!
//! [`Tool::will_run`]: offshoot_tool_api::Tool::will_run

use std::sync::{Mutex, MutexGuard, PoisonError};

use offshoot_tool_api::ToolContext;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::error::SubagentError;
use super::slots::Slot;

/// The calls of one caller that have not created their children yet.
#[derive(Debug, Default)]
pub(super) struct Order(Mutex<Vec<Place>>);

#[derive(Debug)]
struct Place {
    call_id: String,
    way: Way,
    /// Until the body of the call has come.
    slot: Option<Result<Slot, SubagentError>>,
}

/// How a place becomes free.
#[derive(Clone, Debug)]
struct Way {
    /// Cancelled when the call is over, however.
    call: CancellationToken,
    /// Cancelled when the next one may go on.
    passed: CancellationToken,
}

impl Way {
    fn is_free(&self) -> bool {
        self.passed.is_cancelled() || self.call.is_cancelled()
    }

    async fn free(&self) {
        tokio::select! {
            () = self.passed.cancelled() => {}
            () = self.call.cancelled() => {}
        }
    }
}

/// A call whose body has come. Those behind it may go on when this goes.
#[derive(Debug)]
pub(super) struct Entered {
    before: Vec<Way>,
    slot: Result<Slot, SubagentError>,
    passes: DropGuard,
}

impl Entered {
    /// Waits until all calls that were let run before this one have passed. The slot says whether it may have a child; the
    /// guard is to be kept until it has.
    pub(super) async fn turn(self) -> (Result<Slot, SubagentError>, DropGuard) {
        for way in &self.before {
            way.free().await;
        }
        (self.slot, self.passes)
    }
}

impl Order {
    /// The next call will run, with what `slot` gives it.
    pub(super) fn line_up(
        &self,
        cx: &ToolContext,
        slot: impl FnOnce() -> Result<Slot, SubagentError>,
    ) {
        let mut places = self.places();
        places.retain(|place| !place.way.is_free());
        places.push(Place {
            call_id: cx.call_id.clone(),
            way: Way {
                call: cx.cancel.clone(),
                passed: CancellationToken::new(),
            },
            slot: Some(slot()),
        });
    }

    /// The body of a call has come. `None` if it has not lined up: then it has no place among the others.
    pub(super) fn enter(&self, call_id: &str) -> Option<Entered> {
        let mut places = self.places();
        let its = |place: &Place| place.call_id == call_id && place.slot.is_some();
        let at = places.iter().position(its)?;
        let before = places[..at].iter().map(|place| place.way.clone()).collect();
        let place = &mut places[at];
        Some(Entered {
            before,
            slot: place.slot.take()?.map(Slot::keep),
            passes: place.way.passed.clone().drop_guard(),
        })
    }

    fn places(&self) -> MutexGuard<'_, Vec<Place>> {
        // Nothing panics between two changes of the list.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use offshoot_session::SessionId;

    use super::super::slots::Slots;
    use super::*;

    fn lined_up<const N: usize>(order: &Order, ids: [&str; N]) -> [ToolContext; N] {
        let (slots, caller) = (Slots::default(), SessionId::new("caller"));
        ids.map(|id| {
            let cx = ToolContext::new(id);
            order.line_up(&cx, || slots.reserve(&caller, 2, &cx.cancel));
            cx
        })
    }

    #[tokio::test]
    async fn whoever_comes_early_waits_for_those_that_were_let_run_before() {
        let order = Order::default();
        let _calls = lined_up(&order, ["a", "b", "c"]);
        let mut third = Box::pin(order.enter("c").unwrap().turn());
        let mut second = Box::pin(order.enter("b").unwrap().turn());
        assert!((&mut third).now_or_never().is_none());
        assert!((&mut second).now_or_never().is_none());
        let first = order.enter("a").unwrap().turn().await;
        assert!((&mut second).now_or_never().is_none());
        drop(first);
        let (slot, passes) = second.await;
        assert!(slot.is_ok());
        assert!((&mut third).now_or_never().is_none());
        drop(passes);
        let (slot, _passes) = third.await;
        let slot = slot.unwrap_err();
        assert_eq!(slot.code(), "CAPACITY_EXCEEDED", "although it came first");
    }

    #[tokio::test]
    async fn nobody_waits_for_a_call_that_is_over_without_a_child() {
        let order = Order::default();
        let [first, ..] = lined_up(&order, ["a", "b", "c"]);
        first.cancel.cancel();
        // One whose arguments were wrong.
        drop(order.enter("b"));
        order.enter("c").unwrap().turn().await.1.disarm();
        assert!(order.enter("c").is_none(), "its body has come already");
        assert!(order.enter("unheard of").is_none());
    }

    #[tokio::test]
    async fn calls_of_the_same_name_have_a_place_each() {
        let order = Order::default();
        let _calls = lined_up(&order, ["a", "a"]);
        let first = order.enter("a").unwrap().turn().await;
        let mut second = Box::pin(order.enter("a").unwrap().turn());
        assert!((&mut second).now_or_never().is_none());
        drop(first);
        assert!(second.await.0.is_ok());
    }
}
