//! What becomes of a failed attempt (`reference/agent.md` §2.6).

use offshoot_model::{Failure, PreparedCall};
use offshoot_session::StepRef;

use crate::cancel::Cancel;
use crate::driver::{Driver, StepFailure, check};
use crate::hooks::Recovery;

impl Driver {
    /// Whether the attempt that has just failed is made again. Being cancelled goes before every decision.
    pub(crate) async fn recover(
        &mut self,
        at: StepRef,
        failure: &Failure,
        _prepared: &PreparedCall,
        cancel: &Cancel,
    ) -> Result<Recovery, StepFailure> {
        for hook in &self.hooks {
            let recovery = hook
                .request_failed(&self.hook_context(at, cancel), failure)
                .await?;
            check(cancel)?;
            if recovery == Recovery::Retry {
                return Ok(recovery);
            }
        }
        Ok(Recovery::GiveUp)
    }
}
