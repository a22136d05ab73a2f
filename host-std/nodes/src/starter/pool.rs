//! Processes of starters: few at a time, each with the key on its standard input and its output kept.

use super::child::StarterChild;
use super::output::OutputTail;
use super::start::{self, PreparedStarter, StarterInput};
use super::{RELAYED_FILES, StarterCommand, refusal};
use crate::key::LinkKey;
use crate::relay::Relay;
use pmi_host_base::system_file;
use pmi_host_os::cleanup::guard::Guard;
use pmi_host_os::cleanup::guard_protocol::Guarded;
use pmi_host_os::clock;
use pmi_host_os::descriptors::DescriptorLimit;
use pmi_host_os::poller::{Interest, Poller, Token};
use pmi_host_os::process_handle::ProcessHandle;
use pmi_std::Stream;
use rustix::process::Signal;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// Continues the connection that a host has opened over the starter that was executed for this node.
pub(crate) type ContinueFor<'a> = &'a mut dyn FnMut(u32) -> io::Result<Stream>;

/// Starters of a run.
pub(crate) struct StarterPool {
    waiting: VecDeque<StarterCommand>,
    /// Commands that a host has refused, with the times at which they are executed again.
    refused: Vec<(Instant, StarterCommand)>,
    /// Number of times that a host has refused a command, by its first node.
    refusals: BTreeMap<u32, usize>,
    /// True once starters were told to end: none is executed again.
    is_ending: bool,
    running: BTreeMap<u32, RunningStarter>,
    /// Connections of hosts over their starters, which may have ended.
    relays: BTreeMap<u32, Relay>,
    /// Number of the next starter.
    next: u32,
    /// Key of a run without encryption, for standard input.
    key_line: String,
    /// This program, for the starters that send it, once it was read.
    program: Option<Arc<[u8]>>,
    /// Limit on open files: starters get that of the user.
    limit: DescriptorLimit,
    /// Ends the starters if this process is killed.
    guard: Option<Guard>,
}

#[derive(Debug)]
struct RunningStarter {
    command: StarterCommand,
    child: StarterChild,
    /// Reports its end; closing it ends that.
    _handle: ProcessHandle,
    /// What follows the key on its standard input; `None` once all was written, or the other end is closed.
    input: Option<StarterInput>,
    /// Its standard error, and its standard output unless a relay has that; `None` once it is closed.
    output: Option<File>,
    tail: OutputTail,
    /// Nodes that have not connected.
    awaited: Vec<u32>,
}

/// End of a starter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StarterEnd {
    /// All nodes that it was to start.
    pub(crate) nodes: Vec<u32>,
    /// Those of them that have not connected.
    pub(crate) awaited: Vec<u32>,
    /// Reason, as the predicate of a sentence about the starter.
    pub(crate) how: String,
    /// The last lines of its output, without those that show the key.
    pub(crate) output: String,
}

impl StarterPool {
    /// A pool that executes `commands` in their order, and hands `key_line` to each that has no key of its
    /// own. `limit` allows the open files of all of them.
    pub(crate) fn new(
        commands: Vec<StarterCommand>,
        key_line: String,
        limit: DescriptorLimit,
    ) -> Self {
        Self {
            waiting: commands.into(),
            refused: Vec::new(),
            refusals: BTreeMap::new(),
            is_ending: false,
            running: BTreeMap::new(),
            relays: BTreeMap::new(),
            next: 0,
            key_line,
            program: None,
            limit,
            guard: None,
        }
    }

    /// The same with a guard, which ends the starters if this process, which has one thread, is killed.
    /// Those of a node server have none: the hosts that it has started belong to the run, which may go on
    /// without it.
    pub(crate) fn guarded(mut self) -> Self {
        self.guard = Guard::start(Guarded::Starters, false, &[]);
        self
    }

    /// The guard of the starters, which also removes files that this process cannot remove.
    pub(crate) const fn guard(&mut self) -> Option<&mut Guard> {
        self.guard.as_mut()
    }

    /// Adds a command behind the others.
    pub(crate) fn add(&mut self, command: StarterCommand) {
        self.waiting.push_back(command);
    }

    /// Starts further commands while fewer than 64 wait for their nodes to connect. Returns those that
    /// cannot be started.
    pub(crate) fn start_due(&mut self, poller: &Poller) -> Vec<StarterEnd> {
        let now = clock::now();
        let again = self.refused.extract_if(.., |(time, _)| *time <= now);
        self.waiting.extend(again.map(|(_, command)| command));
        if self.waiting.is_empty() {
            return Vec::new();
        }
        let is_busy = |one: &&RunningStarter| !one.awaited.is_empty();
        let busy = self.running.values().filter(is_busy).count();
        let due_count = AT_ONCE.saturating_sub(busy).min(self.waiting.len());
        let due: Vec<StarterCommand> = self.waiting.drain(..due_count).collect();
        let (mut prepared, mut failed) = (Vec::new(), Vec::new());
        for command in due {
            match self.prepare(command.clone()) {
                Ok(starter) => prepared.push(starter),
                Err(error) => failed.push(command.cannot_start(&error)),
            }
        }
        if let Some(guard) = &self.guard {
            guard.report_starting(prepared.iter().map(|starter| &starter.their_output));
        }
        let spawned = start::spawn_all(prepared);
        if let Some(guard) = &self.guard {
            let children = spawned.iter().filter_map(|(_, child)| child.as_ref().ok());
            guard.report_started(children.map(|child| child.pid.as_raw_nonzero().get()));
        }
        for (starter, spawned) in spawned {
            let number = self.next;
            self.next = self.next.wrapping_add(1);
            let command = starter.command.clone();
            let started = spawned.and_then(|child| {
                self.limit.restore_in(child.id());
                let tail = OutputTail::new(&self.key_line_of(&command));
                RunningStarter::new(starter, (child, tail), (number, poller))
            });
            match started {
                Ok((started, relay)) => {
                    self.running.insert(number, started);
                    self.relays.extend(relay.map(|relay| (number, relay)));
                }
                Err(error) => failed.push(command.cannot_start(&error)),
            }
        }
        failed
    }

    fn prepare(&mut self, command: StarterCommand) -> io::Result<PreparedStarter> {
        let program = command.sends_program.then(|| self.program()).transpose()?;
        let key_line = self.key_line_of(&command);
        PreparedStarter::new(command, &key_line, program)
    }

    /// Line that a command gets on its standard input.
    fn key_line_of(&self, command: &StarterCommand) -> String {
        command.key.as_ref().map_or_else(|| self.key_line.clone(), LinkKey::line)
    }

    /// Notes that a node has connected.
    pub(crate) fn handle_joined(&mut self, node: u32) {
        for one in self.running.values_mut() {
            one.awaited.retain(|awaited| *awaited != node);
        }
    }

    /// This program, which is read once.
    fn program(&mut self) -> io::Result<Arc<[u8]>> {
        match &self.program {
            Some(program) => Ok(Arc::clone(program)),
            // The path may hold another file by now.
            None => {
                Ok(Arc::clone(self.program.insert(system_file::read("/proc/self/exe")?.into())))
            }
        }
    }

    /// Serves the starter of `token`: its output, its input, the connections of its host, or its end, which
    /// is returned.
    pub(crate) fn ready(
        &mut self,
        token: Token,
        continuing: ContinueFor<'_>,
    ) -> Option<StarterEnd> {
        match token {
            Token::StarterExit(number) => return self.handle_exit(number, continuing),
            Token::StarterRelay(number) => _ = self.serve_relay(number, continuing),
            Token::StarterInput(number) => self.running.get_mut(&number)?.write_input(),
            Token::StarterOutput(number) => self.running.get_mut(&number)?.read_output(),
            _ => {}
        }
        None
    }

    /// Serves the connections over a starter, and returns whether anything was ready.
    fn serve_relay(&mut self, number: u32, continuing: ContinueFor<'_>) -> bool {
        let Some(relay) = self.relays.get_mut(&number) else { return false };
        let running = self.running.get_mut(&number);
        let node = running.as_ref().and_then(|one| one.command.nodes.first().copied());
        let served = relay.ready(&mut || continuing(node.unwrap_or_default()));
        let text = relay.take_text();
        if let Some(one) = running {
            one.tail.add(&text);
            if let Err(error) = &served {
                one.tail.add(format!("\n{error}\n").as_bytes());
                one.child.signal(Signal::TERM);
            }
        }
        if relay.is_over() {
            self.relays.remove(&number);
        }
        served.unwrap_or(true)
    }

    /// Serves the connections over all starters, and returns whether there is more to do.
    pub(crate) fn serve_relays(&mut self, continuing: ContinueFor<'_>) -> bool {
        let mut has_more = false;
        for number in Vec::from_iter(self.relays.keys().copied()) {
            has_more |= self.serve_relay(number, continuing);
            has_more |= self.relays.get(&number).is_some_and(|relay| !relay.is_done());
        }
        has_more
    }

    /// Time at which a further command is due, without an event.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.refused.iter().map(|(time, _)| *time).min()
    }

    /// Handles the end of the starter with this number.
    fn handle_exit(&mut self, number: u32, continuing: ContinueFor<'_>) -> Option<StarterEnd> {
        let status = self.running.get_mut(&number)?.child.try_wait();
        let status = match status {
            Ok(None) => return None,
            Ok(Some(status)) => Some(status),
            Err(_) => None,
        };
        while self.relays.get(&number).is_some_and(Relay::has_text) {
            self.serve_relay(number, continuing);
        }
        let mut one = self.running.remove(&number)?;
        if let Some(guard) = &self.guard {
            guard.report_end(one.child.pid.as_raw_nonzero().get());
        }
        // What it wrote before its end is there; processes that it left behind may keep the pipe open.
        one.read_output();
        let program = one.command.program().to_owned();
        let mut how = format!("'{program}' {}", status.map_or_else(|| UNKNOWN.to_owned(), ended));
        let output = one.tail.lines();
        let has_none = !one.awaited.is_empty() && one.awaited == one.command.nodes;
        let is_error = status.and_then(|status| status.code()) == Some(refusal::SSH_ERROR);
        if has_none && is_error && !self.is_ending && refusal::is_passing(&output) {
            let node = one.command.nodes.first().copied().unwrap_or_default();
            let count = self.refusals.entry(node).or_default();
            *count += 1;
            if let Some(pause) = refusal::RETRIES.get(*count - 1) {
                self.refused.push((clock::now() + *pause, one.command));
                return None;
            }
            how.push_str(&refusal::shown(*count));
        }
        Some(StarterEnd { nodes: one.command.nodes, awaited: one.awaited, how, output })
    }

    /// The last lines that the starter of `node` has written, as long as it runs.
    pub(crate) fn output_of(&self, node: u32) -> Option<String> {
        let one = self.running.values().find(|one| one.command.nodes.contains(&node))?;
        Some(one.tail.lines()).filter(|lines| !lines.is_empty())
    }

    /// Sends a signal to all starters and the processes in their groups, and starts no further one.
    pub(crate) fn signal(&mut self, signal: Signal) {
        self.waiting.clear();
        self.refused.clear();
        self.is_ending = true;
        for one in self.running.values() {
            one.child.signal(signal);
        }
    }

    /// Ends all starters, which are killed after a while, and waits for their ends.
    pub(crate) fn abandon(&mut self) {
        self.signal(Signal::TERM);
        let until = clock::now() + ENDED_WITHIN;
        while !self.running.is_empty() && clock::now() < until {
            self.running.retain(|_, one| one.child.try_wait().is_ok_and(|end| end.is_none()));
            thread::sleep(LOOK);
        }
        self.signal(Signal::KILL);
        while let Some((_, one)) = self.running.pop_first() {
            one.child.wait();
        }
    }

    /// Sends a signal to the starters whose nodes have not connected, and starts no further one.
    pub(crate) fn signal_awaited(&mut self, signal: Signal) {
        self.waiting.clear();
        self.refused.clear();
        self.is_ending = true;
        for one in self.running.values().filter(|one| !one.awaited.is_empty()) {
            one.child.signal(signal);
        }
    }

    /// Ends the starts of these nodes, whose numbers other ones may get: the ends of their starters are not
    /// reported.
    pub(crate) fn withdraw(&mut self, is_withdrawn: impl Fn(u32) -> bool) {
        let is_kept =
            |command: &StarterCommand| !command.nodes.iter().any(|node| is_withdrawn(*node));
        self.waiting.retain(is_kept);
        self.refused.retain(|(_, command)| is_kept(command));
        // Another host may get the number.
        self.refusals.retain(|node, _| !is_withdrawn(*node));
        for one in self.running.values_mut() {
            if one.command.nodes.iter().any(|node| is_withdrawn(*node)) {
                one.child.signal(Signal::TERM);
            }
            one.command.nodes.retain(|node| !is_withdrawn(*node));
            one.awaited.retain(|node| !is_withdrawn(*node));
        }
    }

    /// Gives a node another number.
    pub(crate) fn renumber(&mut self, from: u32, to: u32) {
        let running = self.running.values_mut();
        let lists = running.flat_map(|one| [&mut one.command.nodes, &mut one.awaited]);
        let commands = self.waiting.iter_mut().chain(self.refused.iter_mut().map(|(_, one)| one));
        let lists = lists.chain(commands.map(|command| &mut command.nodes));
        let numbers = lists.flatten().filter(|node| **node == from);
        numbers.for_each(|node| *node = to);
    }

    /// True once starters were told to end.
    pub(crate) const fn is_ending(&self) -> bool {
        self.is_ending
    }

    /// Number of starters that run or wait.
    pub(crate) fn count(&self) -> usize {
        self.running.len() + self.waiting.len() + self.refused.len()
    }

    /// Number of ranks that need as many open files as the starters that run or wait.
    pub(crate) fn files_as_ranks(&self) -> usize {
        self.count() * if self.relays.is_empty() { 1 } else { RELAYED_FILES }
    }

    /// True if no starter runs or waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.count() == 0
    }
}

impl Drop for StarterPool {
    fn drop(&mut self) {
        // The guard ends those that are left.
        if let Some(guard) = self.guard.as_ref().filter(|_| self.running.is_empty()) {
            guard.dismiss();
        }
    }
}

impl RunningStarter {
    /// Takes over a starter that was executed as `child`, which is killed on an error.
    fn new(
        starter: PreparedStarter,
        (child, tail): (StarterChild, OutputTail),
        (number, poller): (u32, &Poller),
    ) -> io::Result<(Self, Option<Relay>)> {
        let PreparedStarter { command, output, input, channel, .. } = starter;
        let watch = || -> io::Result<(ProcessHandle, Option<Relay>)> {
            let handle = ProcessHandle::of_child(child.pid)?;
            poller.add(Token::StarterExit(number), &handle, Interest::Read)?;
            poller.add(Token::StarterOutput(number), &output, Interest::Read)?;
            if let Some(input) = &input {
                poller.add(Token::StarterInput(number), &input.pipe, Interest::Write)?;
            }
            let relay = channel.map(|(output, input)| Relay::of_starter(output, input));
            let relay = relay.transpose()?;
            if let Some(relay) = &relay {
                poller.add(Token::StarterRelay(number), relay, Interest::Read)?;
            }
            Ok((handle, relay))
        };
        match watch() {
            Ok((handle, relay)) => {
                let awaited = command.nodes.clone();
                let output = Some(File::from(output));
                let one = Self { command, child, _handle: handle, input, output, tail, awaited };
                Ok((one, relay))
            }
            Err(error) => {
                child.signal(Signal::KILL);
                child.wait();
                Err(error)
            }
        }
    }

    fn write_input(&mut self) {
        while let Some(StarterInput { pipe, program, written }) = &mut self.input {
            match pipe.write(&program[*written..]) {
                Ok(count) if count > 0 => *written += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                // Closing it also ends its readiness, and tells the other end that all has arrived.
                Ok(_) | Err(_) => self.input = None,
            }
        }
    }

    fn read_output(&mut self) {
        let mut bytes = [0; 4096];
        while let Some(output) = &mut self.output {
            match output.read(&mut bytes) {
                Ok(len_bytes) if len_bytes > 0 => self.tail.add(&bytes[..len_bytes]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                // Closing it also ends its readiness.
                Ok(_) | Err(_) => self.output = None,
            }
        }
    }
}

/// Predicate of a sentence about a starter that has ended.
fn ended(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exited with {code}"),
        (None, Some(signal)) => format!("was terminated by signal {signal}"),
        (None, None) => UNKNOWN.to_owned(),
    }
}

const UNKNOWN: &str = "has ended";

/// Starters that wait for a connection at one time. Each costs the head 15 to 30 ms of a processor when it
/// is `ssh`, so that more of them would only be slower.
const AT_ONCE: usize = 64;

/// Longest time in which starters end that were asked to, as those of hosts that cannot be reached.
const ENDED_WITHIN: Duration = Duration::from_secs(1);

/// Interval of looks at them.
const LOOK: Duration = Duration::from_millis(5);

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::signal::{SigSet, Signal as NixSignal};
    use std::fs;
    use std::path::Path;

    fn command(node: u32, words: &[&str]) -> StarterCommand {
        let words = words.iter().map(|word| (*word).to_owned()).collect();
        let (nodes, sends_program, is_relayed) = (vec![node], false, false);
        StarterCommand { words, nodes, sends_program, is_relayed, is_srun: false, key: None }
    }

    fn limit() -> DescriptorLimit {
        DescriptorLimit::new(0, 0)
    }

    /// No host opens a connection over its starter.
    fn nowhere(_: u32) -> io::Result<Stream> {
        Err(ErrorKind::ConnectionRefused.into())
    }

    /// Runs the pool until all starters have ended.
    fn finish(pool: &mut StarterPool, poller: &mut Poller) -> Vec<StarterEnd> {
        let (mut ends, mut ready) = (pool.start_due(poller), Vec::new());
        while !pool.is_empty() {
            poller.wait(None, &mut ready).unwrap();
            for token in &ready {
                ends.extend(pool.ready(*token, &mut nowhere));
            }
            ends.extend(pool.start_due(poller));
        }
        ends
    }

    #[test]
    fn key_is_on_standard_input_and_both_outputs_are_kept() {
        let mut poller = Poller::new().unwrap();
        let script = "read key; echo got $key; echo error >&2; cat; exit 7";
        let mut pool =
            StarterPool::new(vec![command(3, &["sh", "-c", script])], "abc\n".to_owned(), limit());
        let ends = finish(&mut pool, &mut poller);
        assert_eq!((&ends[0].nodes[..], &ends[0].awaited[..]), (&[3][..], &[3][..]));
        assert_eq!(
            (ends[0].how.as_str(), ends[0].output.as_str()),
            ("'sh' exited with 7", "got abc\nerror")
        );
    }

    #[test]
    fn program_follows_the_key_and_a_starter_that_reads_nothing_ends() {
        let mut poller = Poller::new().unwrap();
        let mut sending =
            command(1, &["sh", "-c", "read key; echo $key; cksum; cksum </proc/$PPID/exe"]);
        sending.sends_program = true;
        let mut silent = command(2, &["sh", "-c", "exit 3"]);
        silent.sends_program = true;
        let mut pool = StarterPool::new(vec![sending, silent], "abc\n".to_owned(), limit());
        let mut ends = finish(&mut pool, &mut poller);
        ends.sort_by_key(|end| end.nodes.clone());
        let lines: Vec<&str> = ends[0].output.lines().collect();
        assert_eq!((lines[0], lines[1]), ("abc", lines[2]));
        assert_eq!(ends[1].how, "'sh' exited with 3");
    }

    #[test]
    fn starters_that_are_executed_at_once_get_their_own_pipes_and_those_that_do_not_exist_fail() {
        let mut poller = Poller::new().unwrap();
        let of_node = |node: u32| match node % 7 {
            0 => command(node, &["/no/such/starter"]),
            _ => command(node, &["sh", "-c", &format!("read key; echo $key of {node}")]),
        };
        let commands = (1..=100).map(of_node).collect();
        let mut pool = StarterPool::new(commands, "abc\n".to_owned(), limit());
        let mut ends = finish(&mut pool, &mut poller);
        ends.sort_by_key(|end| end.nodes.clone());
        assert_eq!(ends.len(), 100);
        for (end, node) in ends.iter().zip(1..) {
            assert_eq!(end.nodes, [node]);
            match node % 7 {
                0 => assert!(end.how.contains("'/no/such/starter' is missing on "), "{end:?}"),
                _ => assert_eq!(end.output, format!("abc of {node}"), "{end:?}"),
            }
        }
    }

    #[test]
    fn starter_leads_a_session_and_blocks_no_signal_of_the_head() {
        let blocked: SigSet = [NixSignal::SIGTERM].into_iter().collect();
        blocked.thread_block().unwrap();
        let mut poller = Poller::new().unwrap();
        let script = "cut -d' ' -f6 /proc/$$/stat; echo $$; kill $$; exec sleep 60";
        let commands = vec![command(1, &["sh", "-c", script])];
        let ends = finish(&mut StarterPool::new(commands, String::new(), limit()), &mut poller);
        assert_eq!(ends[0].how, "'sh' was terminated by signal 15");
        let (session, pid) = ends[0].output.split_once('\n').unwrap();
        assert_eq!(session, pid);
    }

    #[test]
    fn program_that_is_missing_and_one_that_is_terminated_are_reported() {
        let mut poller = Poller::new().unwrap();
        let commands =
            vec![command(1, &["/no/such/starter"]), command(2, &["sh", "-c", "kill -9 $$"])];
        let ends = finish(&mut StarterPool::new(commands, String::new(), limit()), &mut poller);
        assert!(ends[0].how.starts_with("'/no/such/starter' is missing on "), "{ends:?}");
        assert_eq!(ends[1].how, "'sh' was terminated by signal 9");
    }

    /// Script of a starter that a host refuses until the file has as many lines as `accepted_at`.
    fn refused(file: &Path, accepted_at: usize) -> String {
        format!(
            "echo >> '{0}'; [ $(wc -l < '{0}') -lt {accepted_at} ] || exit 7
             echo kex_exchange_identification: read: Connection reset by peer >&2; exit 255",
            file.display()
        )
    }

    /// Runs the pool until all starters have ended, those that are executed again included.
    fn finish_all(pool: &mut StarterPool, poller: &mut Poller) -> Vec<StarterEnd> {
        let (mut ends, mut ready) = (pool.start_due(poller), Vec::new());
        while !pool.is_empty() {
            poller.wait(pool.deadline(), &mut ready).unwrap();
            ends.extend(ready.iter().filter_map(|token| pool.ready(*token, &mut nowhere)));
            ends.extend(pool.start_due(poller));
        }
        ends
    }

    #[test]
    fn starter_that_a_host_refuses_is_executed_again_and_another_failure_is_final() {
        let mut poller = Poller::new().unwrap();
        let directory = tempfile::tempdir().unwrap();
        let file = |name: &str| directory.path().join(name);
        let scripts = [refused(&file("some"), 3), refused(&file("all"), 99)];
        let denied =
            format!("echo >> '{}'; echo Permission denied >&2; exit 255", file("denied").display());
        let commands = [&*scripts[0], &scripts[1], &denied];
        let commands =
            (1..).zip(commands).map(|(node, script)| command(node, &["sh", "-c", script]));
        let mut pool = StarterPool::new(commands.collect(), String::new(), limit());
        let mut ends = finish_all(&mut pool, &mut poller);
        ends.sort_by_key(|end| end.nodes.clone());
        let how: Vec<&str> = ends.iter().map(|end| end.how.as_str()).collect();
        assert_eq!(how[0], "'sh' exited with 7");
        assert!(how[1].starts_with("'sh' exited with 255 in each of 5 attempts: "), "{how:?}");
        assert_eq!(how[2], "'sh' exited with 255");
        let attempts = ["some", "all", "denied"]
            .map(|name| fs::read_to_string(file(name)).unwrap().lines().count());
        assert_eq!(attempts, [3, 5, 1]);
    }

    #[test]
    fn starter_that_waits_for_another_attempt_is_not_executed_after_a_signal() {
        let mut poller = Poller::new().unwrap();
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("attempts");
        let commands = vec![command(1, &["sh", "-c", &refused(&file, 99)])];
        let mut pool = StarterPool::new(commands, String::new(), limit());
        let mut ready = Vec::new();
        assert!(pool.start_due(&poller).is_empty());
        while pool.deadline().is_none() {
            poller.wait(None, &mut ready).unwrap();
            assert!(ready.iter().all(|token| pool.ready(*token, &mut nowhere).is_none()));
        }
        assert_eq!((pool.count(), pool.is_empty()), (1, false));
        pool.signal(Signal::TERM);
        assert!(pool.is_empty() && pool.deadline().is_none());
    }

    #[test]
    fn starter_that_is_refused_after_a_signal_is_not_executed_again() {
        let mut poller = Poller::new().unwrap();
        let directory = tempfile::tempdir().unwrap();
        // The signal may come at any moment.
        let script = format!(
            "trap is_over=1 TERM; echo up; until [ $is_over ]; do sleep 0.01; done; {}",
            refused(&directory.path().join("x"), 99)
        );
        let commands = vec![command(1, &["sh", "-c", &script])];
        let mut pool = StarterPool::new(commands, String::new(), limit());
        let mut ready = Vec::new();
        assert!(pool.start_due(&poller).is_empty());
        while pool.output_of(1).is_none() {
            poller.wait(None, &mut ready).unwrap();
            ready.iter().for_each(|token| _ = pool.ready(*token, &mut nowhere));
        }
        pool.signal(Signal::TERM);
        let ends = finish(&mut pool, &mut poller);
        assert_eq!(ends[0].how, "'sh' exited with 255");
    }

    #[test]
    fn starters_wait_for_their_turn_until_nodes_have_joined() {
        let poller = Poller::new().unwrap();
        let commands = (1..=100).map(|node| command(node, &["cat"])).collect();
        let mut pool = StarterPool::new(commands, String::new(), limit());
        assert_eq!((pool.start_due(&poller), pool.running.len()), (Vec::new(), AT_ONCE));
        assert_eq!((pool.start_due(&poller), pool.running.len()), (Vec::new(), AT_ONCE));
        (1..=10).for_each(|node| pool.handle_joined(node));
        assert_eq!((pool.start_due(&poller), pool.running.len()), (Vec::new(), AT_ONCE + 10));
        pool.signal(Signal::KILL);
        for one in pool.running.values_mut() {
            one.child.wait();
        }
    }
}
