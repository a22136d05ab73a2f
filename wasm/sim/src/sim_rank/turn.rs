//! One turn of a process: it writes, reads, and continues its script.

use super::client::{ClientOutput, PmixEvent};
use super::{ProcessState, SimRank, Waiting};
use crate::event::{Received, SimEvent, Turn};
use crate::net::Net;
use crate::scenario::{Direction, RankRequest, ScriptAct};
use pmi_core::error::Misuse;
use pmi_core::time::Instant;

/// Result of one step of the script.
enum TurnProgress {
    Moved,
    Idle,
    Until(u64),
}

impl SimRank {
    /// Executes the steps that are possible now, and returns the time of the next turn.
    pub(crate) fn turn(
        &mut self,
        now: u64,
        net: &mut Net,
        events: &mut Vec<SimEvent>,
    ) -> Option<u64> {
        let mut wake = None;
        while self.life == ProcessState::Running {
            let has_moved = self.transmit(now, net, events) | self.receive(now, net, events);
            wake = match self.proceed(now, net, events) {
                TurnProgress::Moved => continue,
                TurnProgress::Idle => None,
                TurnProgress::Until(time) => Some(time),
            };
            if !has_moved {
                break;
            }
        }
        wake.filter(|_| self.life == ProcessState::Running)
    }

    pub(super) fn think(&mut self, now: u64) {
        self.ready_at = now + self.rng.within(self.plan.pace);
    }

    fn transmit(&mut self, now: u64, net: &mut Net, events: &mut Vec<SimEvent>) -> bool {
        let mut has_moved = false;
        if self.flags.has_left {
            return false;
        }
        loop {
            while let Some((bytes, is_raw)) = self.unsent.front_mut() {
                let len = net.write(self.rank, Direction::Up, now, bytes);
                if len == 0 {
                    return has_moved;
                }
                has_moved = true;
                let sent: Vec<u8> = bytes.drain(..len).collect();
                events.push(SimEvent::Sent { rank: self.rank, bytes: sent, is_raw: *is_raw });
                if bytes.is_empty() {
                    self.unsent.pop_front();
                }
            }
            if self.flags.is_rude {
                return has_moved;
            }
            match self.client.transmit() {
                Some(bytes) => self.unsent.push_back((bytes, false)),
                None => return has_moved,
            }
        }
    }

    fn receive(&mut self, now: u64, net: &mut Net, events: &mut Vec<SimEvent>) -> bool {
        if self.flags.is_deaf || self.flags.has_left || self.life != ProcessState::Running {
            return false;
        }
        let mut has_moved = false;
        if self.untaken.is_empty() {
            // Occasionally a small read, as with a small buffer.
            let most = if self.rng.below(8) == 0 { 1 + self.rng.index(16) } else { usize::MAX };
            let bytes = net.read(self.rank, Direction::Down, most);
            if !bytes.is_empty() {
                events.push(SimEvent::Received { rank: self.rank, bytes: bytes.clone() });
                has_moved = true;
                self.untaken = bytes;
            }
        }
        if self.flags.is_rude {
            let lines = self.untaken.drain(..).filter(|b| *b == b'\n').count();
            self.lines_received += u32::try_from(lines).unwrap_or(u32::MAX);
        } else {
            has_moved |= self.feed(now, net, events);
        }
        let is_over = self.untaken.is_empty() && net.is_over(self.rank, Direction::Down);
        if is_over && !self.flags.end_seen && self.life == ProcessState::Running {
            self.flags.end_seen = true;
            has_moved = true;
            if !self.flags.is_rude
                && let Err(error) = self.client.handle_end(instant(now))
            {
                events.push(SimEvent::Broke { rank: self.rank, error });
                self.end(ProcessState::Exited(1), now, net, events);
            }
        }
        has_moved
    }

    fn feed(&mut self, now: u64, net: &mut Net, events: &mut Vec<SimEvent>) -> bool {
        let mut has_moved = false;
        while !self.untaken.is_empty() {
            let taken = match self.client.handle_input(instant(now), &self.untaken) {
                Ok(taken) => taken,
                Err(error) => {
                    // Complete messages before the error can still be read.
                    self.recv(now, events);
                    events.push(SimEvent::Broke { rank: self.rank, error });
                    self.end(ProcessState::Exited(1), now, net, events);
                    return true;
                }
            };
            self.untaken.drain(..taken);
            let has_received = self.recv(now, events);
            has_moved |= has_received || taken > 0;
            if !has_received && taken == 0 {
                break;
            }
        }
        has_moved
    }

    /// Takes an answer or an event of the client, if any.
    fn recv(&mut self, now: u64, events: &mut Vec<SimEvent>) -> bool {
        let (ticket, got) = match self.client.recv(&self.waiting) {
            None => return false,
            Some(ClientOutput::Reply(ticket, got)) => (ticket, got),
            Some(ClientOutput::Event(event)) => {
                let PmixEvent { code, source } = event;
                events.push(SimEvent::Notified { rank: self.rank, code, source });
                self.unawaited.push(event);
                return true;
            }
        };
        if let Some(at) = self.waiting.iter().position(|waiting| waiting.ticket == ticket) {
            let Waiting { number, ask, .. } = self.waiting.remove(at);
            events.push(SimEvent::Answered { rank: self.rank, number, ask, got });
            self.think(now);
        }
        true
    }

    fn proceed(&mut self, now: u64, net: &mut Net, events: &mut Vec<SimEvent>) -> TurnProgress {
        // A write waits for room in the link, and a request for its answer.
        let is_held = !self.unsent.is_empty() && !self.flags.has_left;
        if self.life != ProcessState::Running || self.flags.is_hung || is_held {
            return TurnProgress::Idle;
        }
        if self.waiting.iter().any(|waiting| !waiting.also) {
            return TurnProgress::Idle;
        }
        if now < self.ready_at {
            return TurnProgress::Until(self.ready_at);
        }
        let order = self.orders.front().cloned();
        let is_order = order.is_some();
        let Some(act) = order.or_else(|| self.acts.get(self.next_act).cloned()) else {
            self.end(ProcessState::Exited(0), now, net, events);
            return TurnProgress::Moved;
        };
        if !self.act(&act, now, net, events) {
            return TurnProgress::Idle;
        }
        match is_order {
            true => drop(self.orders.pop_front()),
            false => self.next_act += 1,
        }
        if self.ready_at <= now {
            self.think(now);
        }
        TurnProgress::Moved
    }

    /// Executes one act; false if it is not possible yet.
    fn act(
        &mut self,
        act: &ScriptAct,
        now: u64,
        net: &mut Net,
        events: &mut Vec<SimEvent>,
    ) -> bool {
        let turn = |turn| SimEvent::Process { rank: self.rank, turn };
        match act {
            ScriptAct::RankRequest { ask, also } => return self.ask(ask, *also, events),
            ScriptAct::Wait => return self.waiting.is_empty(),
            ScriptAct::AwaitEvent { code, from } => {
                let is_meant = |event: &PmixEvent| {
                    event.code == *code && from.is_none_or(|from| event.source == from)
                };
                let Some(at) = self.unawaited.iter().position(is_meant) else { return false };
                self.unawaited.remove(at);
            }
            // An order to wait holds until the next order.
            ScriptAct::Manual => return self.orders.len() > 1,
            ScriptAct::Await(lines) => return self.lines_received >= *lines || self.flags.end_seen,
            ScriptAct::Sleep(span) => self.ready_at = now + self.rng.within(*span).max(1),
            ScriptAct::Exit(code) => self.end(ProcessState::Exited(*code), now, net, events),
            ScriptAct::Die => self.end(ProcessState::Killed, now, net, events),
            ScriptAct::Stop => self.stop(events),
            ScriptAct::Leave => self.leave(now, net, events),
            ScriptAct::Hang => {
                self.flags.is_hung = true;
                events.push(turn(Turn::Hung));
            }
            ScriptAct::Deaf => {
                self.flags.is_deaf = true;
                events.push(turn(Turn::Deaf));
            }
            ScriptAct::ReadAgain => {
                self.flags.is_deaf = false;
                events.push(turn(Turn::ReadsAgain));
            }
            ScriptAct::Send(bytes) => self.say(bytes.clone()),
            ScriptAct::Garbage(span) => {
                let len = self.rng.within(*span);
                let bytes = (0..len).map(|_| self.rng.byte()).collect();
                self.say(bytes);
            }
        }
        true
    }

    fn ask(&mut self, ask: &RankRequest, also: bool, events: &mut Vec<SimEvent>) -> bool {
        let rank = self.rank;
        let started = if self.flags.is_rude || self.flags.has_left {
            Err(Misuse::WrongState { needed: "the client has the link to itself" })
        } else {
            if let Some(answer) = self.client.answer(ask) {
                self.note_answer(ask, answer, events);
                return true;
            }
            self.client.start(ask)
        };
        match started {
            Ok((ticket, bytes)) => {
                if !bytes.is_empty() {
                    self.unsent.push_back((bytes, false));
                }
                let number = self.questions;
                self.questions += 1;
                events.push(SimEvent::Asked { rank, number, ask: ask.clone() });
                match ask {
                    RankRequest::Abort { .. } => self.waiting.clear(),
                    _ => self.waiting.push(Waiting { ticket, number, ask: ask.clone(), also }),
                }
                true
            }
            // Another request has to be answered or sent first.
            Err(Misuse::Busy) => false,
            Err(misuse) => {
                events.push(SimEvent::Refused { rank, ask: ask.clone(), misuse });
                true
            }
        }
    }
}

impl SimRank {
    /// A PMIx client answers some requests without the server.
    fn note_answer(
        &mut self,
        ask: &RankRequest,
        answer: Result<Received, Misuse>,
        events: &mut Vec<SimEvent>,
    ) {
        let (rank, number, ask) = (self.rank, self.questions, ask.clone());
        match answer {
            Ok(got) => {
                self.questions += 1;
                events.push(SimEvent::Asked { rank, number, ask: ask.clone() });
                events.push(SimEvent::Answered { rank, number, ask, got });
            }
            Err(misuse) => events.push(SimEvent::Refused { rank, ask, misuse }),
        }
    }
}

fn instant(now: u64) -> Instant {
    Instant::from_micros(now)
}
