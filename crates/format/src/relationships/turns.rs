//! Turns and steps: nesting, numbering, and what has to stand inside of them.

use offshoot_session::StepRef;

/// Which turn and step are open. Both count from 1; steps start again in every turn.
#[derive(Default)]
pub(super) struct Turns {
    ended: u64,
    open: Option<OpenTurn>,
}

#[derive(Clone, Copy)]
struct OpenTurn {
    number: u64,
    step: Option<u64>,
    ended_steps: u64,
}

impl Turns {
    /// The open turn.
    pub(super) fn turn(&self) -> Option<u64> {
        self.open.map(|turn| turn.number)
    }

    pub(super) fn start_turn(&mut self, turn: u64) -> Result<(), String> {
        if let Some(open) = self.open {
            return Err(format!(
                "turn {turn} starts although turn {} is open",
                open.number
            ));
        }
        let next = self.ended + 1;
        if turn != next {
            return Err(format!("expected turn {next} to start, found turn {turn}"));
        }
        self.open = Some(OpenTurn {
            number: turn,
            step: None,
            ended_steps: 0,
        });
        Ok(())
    }

    pub(super) fn end_turn(&mut self, turn: u64) -> Result<(), String> {
        let open = self.open_turn(turn)?;
        if let Some(step) = open.step {
            return Err(format!("turn {turn} ends although its step {step} is open"));
        }
        self.ended = turn;
        self.open = None;
        Ok(())
    }

    pub(super) fn start_step(&mut self, at: StepRef) -> Result<(), String> {
        let open = self.open_turn(at.turn)?;
        if let Some(step) = open.step {
            return Err(format!(
                "step {} starts although step {step} is open",
                at.step
            ));
        }
        let next = open.ended_steps + 1;
        if at.step != next {
            return Err(format!(
                "expected step {next} of turn {} to start, found step {}",
                at.turn, at.step
            ));
        }
        self.open = Some(OpenTurn {
            step: Some(next),
            ..open
        });
        Ok(())
    }

    pub(super) fn end_step(&mut self, at: StepRef) -> Result<(), String> {
        self.must_be_at(at)?;
        let open = self.open_turn(at.turn)?;
        self.open = Some(OpenTurn {
            step: None,
            ended_steps: at.step,
            ..open
        });
        Ok(())
    }

    /// The event names the turn and step that are open.
    pub(super) fn must_be_at(&self, at: StepRef) -> Result<(), String> {
        let open = self.open_turn(at.turn)?;
        match open.step {
            Some(step) if step == at.step => Ok(()),
            Some(step) => Err(format!(
                "names step {} of turn {}, but step {step} is open",
                at.step, at.turn
            )),
            None => Err(format!(
                "names step {} of turn {}, but no step is open",
                at.step, at.turn
            )),
        }
    }

    pub(super) fn must_be_in_a_turn(&self) -> Result<(), String> {
        match self.open {
            Some(_) => Ok(()),
            None => Err("stands outside of any turn".into()),
        }
    }

    /// The event names the open turn, and its open step or the one that ended last.
    pub(super) fn must_be_at_or_behind(&self, at: StepRef) -> Result<(), String> {
        let open = self.open_turn(at.turn)?;
        let ended = Some(open.ended_steps).filter(|&step| step > 0);
        if open.step == Some(at.step) || ended == Some(at.step) {
            return Ok(());
        }
        let named = |step: Option<u64>| step.map_or_else(|| "none".into(), |step| step.to_string());
        Err(format!(
            "names step {} of turn {}; the open step is {}, the last ended one {}",
            at.step,
            at.turn,
            named(open.step),
            named(ended),
        ))
    }

    fn open_turn(&self, turn: u64) -> Result<OpenTurn, String> {
        match self.open {
            Some(open) if open.number == turn => Ok(open),
            Some(open) => Err(format!(
                "names turn {turn}, but turn {} is open",
                open.number
            )),
            None => Err(format!("names turn {turn}, but no turn is open")),
        }
    }
}
