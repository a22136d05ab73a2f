//! Steps as executed: loops unrolled, names replaced.

use super::words::{Bindings, Phrase};
use super::{Dialect, GroupPhrase, PMIX, Scenario, ScenarioError, Step};
use crate::rng::Span;
use pmi_core::client::pmix::Scope;
use pmi_core::client::{Client, Ticket};
use pmi_core::command::{
    Argument, FenceGroup as CoreGroup, InfoList, Pair, Place, Program, Request, Spawn, Text,
    Version,
};
use pmi_core::error::{Full, Misuse};
use pmi_core::limits::MESSAGE_BYTES;
use pmi_core::storage::Buffer;
use pmi_core::wire::WriteError;
use std::fmt;

/// The next step of a rank, with names resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the words are explained once, with the grammar of a scenario")]
pub enum ScriptAct {
    /// Sends a request, and continues after the answer, or at once if `also`.
    RankRequest {
        ask: RankRequest,
        also: bool,
    },
    Wait,
    Sleep(Span),
    Exit(i32),
    Die,
    Stop,
    Hang,
    Leave,
    Deaf,
    ReadAgain,
    Send(Vec<u8>),
    Garbage(Span),
    Await(u32),
    AwaitEvent {
        code: i32,
        from: Option<u32>,
    },
    Manual,
}

/// A request of a rank.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is the request of the same name")]
pub enum RankRequest {
    Init(Version),
    InitAck(u64),
    FullInit { rank: u32, threaded: bool },
    Maxes,
    AppNum,
    Universe,
    Name,
    Put { node: bool, key: Vec<u8>, value: Vec<u8> },
    Get { node: bool, key: Vec<u8>, of: Option<String>, wait: bool, wanted: Option<Wanted> },
    JoinPmix,
    PutFor { scope: Scope, key: Vec<u8>, value: Vec<u8> },
    Commit,
    GetOf { rank: Option<u32>, key: Vec<u8>, now: bool, wanted: Option<Wanted> },
    Register { code: i32 },
    Notify { code: i32 },
    Group { name: Vec<u8>, members: Vec<u32> },
    GroupLeave { name: Vec<u8> },
    GroupEnd { name: Vec<u8> },
    Fence { group: Group, tag: Option<u32> },
    Publish { service: Vec<u8>, port: Vec<u8> },
    Unpublish { service: Vec<u8> },
    Lookup { service: Vec<u8>, wait: bool, wanted: Option<Wanted> },
    Spawn { job: String, size: u32, preputs: Vec<(Vec<u8>, Vec<u8>)> },
    Connect { job: String },
    Disconnect { job: String },
    Ring { left: Vec<u8>, right: Vec<u8> },
    Abort { code: i32, message: Vec<u8> },
    Finalize,
}

/// The required reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// This value.
    Value(Vec<u8>),
    /// No value.
    Missing,
}

/// Participants of a fence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Group {
    /// All ranks of the job, in the form without a group.
    Job,
    /// All ranks of the job, as a group.
    World,
    /// The node of the requester.
    Node,
    /// These, and how the list is written.
    Ranks(Vec<u32>, Vec<u8>),
}

/// The steps of `rank`, one after the other.
///
/// # Errors
///
/// An undefined name, a malformed list, endless loops.
pub fn acts(scenario: &Scenario, rank: u32) -> Result<Vec<ScriptAct>, ScenarioError> {
    acts_of(scenario, rank, scenario.steps(rank))
}

/// Does the same for steps outside its script.
///
/// # Errors
///
/// As for [`acts`].
pub fn acts_of(
    scenario: &Scenario,
    rank: u32,
    steps: &[Step],
) -> Result<Vec<ScriptAct>, ScenarioError> {
    let (plan, home) = (scenario.plan(rank), scenario.home(rank));
    let mut unroller = Unroller {
        scenario,
        rank,
        dialect: plan.dialect,
        connects_by_itself: plan.connects_by_itself,
        scope: Bindings { rank: home.own(rank), size: home.size, loops: Vec::new() },
        acts: Vec::new(),
    };
    let done = unroller.all(steps);
    let error = |what| ScenarioError { line: 0, what: format!("script of rank {rank}: {what}") };
    done.map_err(error)?;
    Ok(unroller.acts)
}

struct Unroller<'a> {
    scenario: &'a Scenario,
    /// Number of the rank across all jobs.
    rank: u32,
    dialect: Dialect,
    connects_by_itself: bool,
    scope: Bindings,
    acts: Vec<ScriptAct>,
}

impl Unroller<'_> {
    fn all(&mut self, steps: &[Step]) -> Result<(), String> {
        steps.iter().try_for_each(|step| self.step(step, false))
    }

    fn step(&mut self, step: &Step, also: bool) -> Result<(), String> {
        if self.acts.len() >= ACTS_MAX {
            return Err(format!("more than {ACTS_MAX} steps when the loops are unrolled"));
        }
        let act = match step {
            Step::Open => {
                self.init();
                // PMI-2 has its sizes in its interface.
                if self.dialect.is_pmi(1) {
                    self.asks([RankRequest::Maxes]);
                }
                if !self.uses_pmix() {
                    self.asks([RankRequest::Name]);
                }
                return Ok(());
            }
            Step::Init => {
                self.init();
                return Ok(());
            }
            Step::Also(step) => return self.step(step, true),
            Step::Repeat { times, name, steps } => {
                return self.each(name.as_deref().unwrap_or(""), *times, steps);
            }
            Step::Each { name, steps } => return self.each(name, self.scope.size, steps),
            Step::Sleep(span) => ScriptAct::Sleep(*span),
            Step::Exit(code) => ScriptAct::Exit(*code),
            Step::Die => ScriptAct::Die,
            Step::Stop => ScriptAct::Stop,
            Step::Hang => ScriptAct::Hang,
            Step::Leave => ScriptAct::Leave,
            Step::Deaf => ScriptAct::Deaf,
            Step::ReadAgain => ScriptAct::ReadAgain,
            Step::Send(bytes) => ScriptAct::Send(bytes.fill(&self.scope)?),
            Step::Garbage(span) => ScriptAct::Garbage(*span),
            Step::Await(lines) => ScriptAct::Await(*lines),
            Step::AwaitEvent { code, from } if PMIX => {
                ScriptAct::AwaitEvent { code: *code, from: *from }
            }
            Step::Manual => ScriptAct::Manual,
            Step::Wait => ScriptAct::Wait,
            question => ScriptAct::RankRequest { ask: self.ask(question)?, also },
        };
        self.acts.push(act);
        Ok(())
    }

    fn each(&mut self, name: &str, times: u32, steps: &[Step]) -> Result<(), String> {
        for number in 0..times {
            self.scope.loops.push((name.into(), number));
            self.all(steps)?;
            self.scope.loops.pop();
        }
        Ok(())
    }

    const fn uses_pmix(&self) -> bool {
        PMIX && matches!(self.dialect, Dialect::Pmix)
    }

    fn init(&mut self) {
        let rank = self.scope.rank;
        let Dialect::Pmi(version) = self.dialect else {
            return self.asks([RankRequest::JoinPmix]);
        };
        if self.connects_by_itself && version.major < 2 {
            self.asks([RankRequest::InitAck(rank.into())]);
        }
        self.asks([RankRequest::Init(version)]);
        if version.major == 2 {
            let threaded = self.scenario.steps(self.rank).iter().any(Step::has_threads);
            self.asks([RankRequest::FullInit { rank, threaded }]);
        }
    }

    fn asks<const N: usize>(&mut self, asks: [RankRequest; N]) {
        self.acts.extend(asks.map(|ask| ScriptAct::RankRequest { ask, also: false }));
    }

    fn ask(&self, step: &Step) -> Result<RankRequest, String> {
        let fill = |phrase: &Phrase| phrase.fill(&self.scope);
        let wanted = |wanted: &Option<Option<Phrase>>| match wanted {
            None => Ok(None),
            Some(None) => Ok(Some(Wanted::Missing)),
            Some(Some(value)) => fill(value).map(|value| Some(Wanted::Value(value))),
        };
        Ok(match step {
            Step::Maxes => RankRequest::Maxes,
            Step::AppNum => RankRequest::AppNum,
            Step::Universe => RankRequest::Universe,
            Step::Name => RankRequest::Name,
            Step::Put { node: false, key, value } if self.uses_pmix() => {
                RankRequest::PutFor { scope: Scope::Global, key: fill(key)?, value: fill(value)? }
            }
            Step::PutFor { scope, key, value } if PMIX => {
                RankRequest::PutFor { scope: *scope, key: fill(key)?, value: fill(value)? }
            }
            Step::Commit if PMIX => RankRequest::Commit,
            // A get of PMI names no owner; in PMIx that is the rank that has put the key.
            Step::Get { node: false, key, of: None, wanted: want, .. } if self.uses_pmix() => {
                RankRequest::GetOf {
                    rank: None,
                    key: fill(key)?,
                    now: false,
                    wanted: wanted(want)?,
                }
            }
            Step::GetOf { rank, key, now, wanted: want } if PMIX => RankRequest::GetOf {
                rank: Some(Text::plain(&fill(rank)?).number().ok_or("a process is a number")?),
                key: fill(key)?,
                now: *now,
                wanted: wanted(want)?,
            },
            Step::Register { code } if PMIX => RankRequest::Register { code: *code },
            Step::Notify { code } if PMIX => RankRequest::Notify { code: *code },
            Step::Group { name, members } if PMIX => {
                RankRequest::Group { name: fill(name)?, members: ranks(&fill(members)?)? }
            }
            Step::GroupLeave { name } if PMIX => RankRequest::GroupLeave { name: fill(name)? },
            Step::GroupEnd { name } if PMIX => RankRequest::GroupEnd { name: fill(name)? },
            Step::Put { node, key, value } => {
                RankRequest::Put { node: *node, key: fill(key)?, value: fill(value)? }
            }
            Step::Get { node, key, of, wait, wanted: want } => RankRequest::Get {
                node: *node,
                key: fill(key)?,
                of: of.clone(),
                wait: *wait,
                wanted: wanted(want)?,
            },
            // Only the form without a group has no tag; PMIx has none.
            Step::Fence { group: GroupPhrase::World, tag: None } if !self.uses_pmix() => {
                RankRequest::Fence { group: Group::World, tag: Some(0) }
            }
            Step::Fence { group, tag } => {
                RankRequest::Fence { group: self.group(group)?, tag: *tag }
            }
            Step::Publish { service, port } => {
                RankRequest::Publish { service: fill(service)?, port: fill(port)? }
            }
            Step::Unpublish { service } => RankRequest::Unpublish { service: fill(service)? },
            Step::Lookup { service, wait, wanted: want } => {
                RankRequest::Lookup { service: fill(service)?, wait: *wait, wanted: wanted(want)? }
            }
            Step::Spawn { job, preputs } => {
                let plan = self.scenario.jobs.iter().find(|plan| plan.name == *job);
                let pair = |(key, value): &(Phrase, Phrase)| Ok((fill(key)?, fill(value)?));
                let preputs = preputs.iter().map(pair).collect::<Result<_, String>>()?;
                // A request may be for something that does not exist.
                RankRequest::Spawn {
                    job: job.clone(),
                    size: plan.map_or(1, |plan| plan.size),
                    preputs,
                }
            }
            Step::Connect { job } => RankRequest::Connect { job: job.clone() },
            Step::Disconnect { job } => RankRequest::Disconnect { job: job.clone() },
            Step::Ring { left, right } => {
                RankRequest::Ring { left: fill(left)?, right: fill(right)? }
            }
            Step::Abort { code, message } => {
                let message = message.as_ref().map(fill).transpose()?.unwrap_or_default();
                RankRequest::Abort { code: *code, message }
            }
            Step::Finalize => RankRequest::Finalize,
            _ => return Err("only a question can be asked".into()),
        })
    }

    fn group(&self, group: &GroupPhrase) -> Result<Group, String> {
        if self.uses_pmix() {
            return self.group_of_pmix(group);
        }
        Ok(match group {
            GroupPhrase::Job => Group::Job,
            GroupPhrase::World => Group::World,
            GroupPhrase::Node => Group::Node,
            GroupPhrase::Ranks(list) => {
                let text = list.fill(&self.scope)?;
                Group::Ranks(ranks(&text)?, text)
            }
        })
    }

    /// PMIx lists the processes of a fence, and a fence of all is that of the job, however it is written.
    fn group_of_pmix(&self, group: &GroupPhrase) -> Result<Group, String> {
        let list = match group {
            GroupPhrase::Job | GroupPhrase::World => return Ok(Group::Job),
            GroupPhrase::Node => {
                let first = self.rank - self.scope.rank;
                let node = |own: u32| self.scenario.node(first + own);
                let mates = (0..self.scope.size).filter(|own| node(*own) == node(self.scope.rank));
                mates.collect()
            }
            GroupPhrase::Ranks(list) => ranks(&list.fill(&self.scope)?)?,
        };
        if (0..self.scope.size).all(|own| list.contains(&own)) {
            return Ok(Group::Job);
        }
        let text: Vec<String> = list.iter().map(u32::to_string).collect();
        Ok(Group::Ranks(list, text.join(",").into()))
    }
}

/// The ranks of a list with commas between.
fn ranks(list: &[u8]) -> Result<Vec<u32>, String> {
    let ranks = list.split(|b| *b == b',').map(|rank| Text::plain(rank).number());
    let ranks: Option<Vec<u32>> = ranks.collect();
    Ok(ranks.ok_or("a group is `world`, `node` or ranks with commas between")?)
}

impl RankRequest {
    /// Starts it with a client that keeps the bytes, or returns the bytes that must be sent first.
    ///
    /// # Errors
    ///
    /// Those of the client.
    pub(crate) fn start<B: Buffer, const N: usize>(
        &self,
        client: &mut Client<B, N>,
    ) -> Result<(Ticket, Vec<u8>), Misuse> {
        let Self::Spawn { job, size, preputs } = self else {
            let what = "what only PMIx has";
            let request = self.request().ok_or(Misuse::NotRepresentable { what })?;
            return client.start(&request).map(|ticket| (ticket, Vec::new()));
        };
        let pairs: Vec<Pair<'_>> = preputs
            .iter()
            .map(|(key, value)| Pair { key: Text::plain(key), value: Text::plain(value) })
            .collect();
        let program = Program {
            executable: Text::plain(job.as_bytes()),
            processes: *size,
            arguments: Argument::Given(&[]),
            info: InfoList::Given(&[]),
        };
        let spawn = Spawn::Given { programs: &[program], preputs: &pairs };
        let mut room = vec![0; MESSAGE_BYTES];
        loop {
            match client.send(&Request::Spawn(spawn), &mut room) {
                Ok((ticket, len)) => {
                    room.truncate(len);
                    return Ok((ticket, room));
                }
                Err(WriteError::Full(Full { needed })) => room.resize(needed, 0),
                Err(WriteError::Misuse(misuse)) => return Err(misuse),
            }
        }
    }

    /// The request as the client accepts it; `None` for those of PMIx alone. A spawn has its own
    /// path, since its length is not bounded.
    fn request(&self) -> Option<Request<'_>> {
        let place = |node| if node { Place::Node } else { Place::Job(None) };
        Some(match self {
            Self::JoinPmix
            | Self::PutFor { .. }
            | Self::Commit
            | Self::GetOf { .. }
            | Self::Register { .. }
            | Self::Notify { .. }
            | Self::Group { .. }
            | Self::GroupLeave { .. }
            | Self::GroupEnd { .. }
            | Self::Lookup { wait: true, .. } => return None,
            Self::Init(version) => Request::Init { version: *version },
            Self::InitAck(id) => Request::InitAck { id: *id },
            Self::FullInit { rank, threaded } => Request::FullInit {
                rank: Some(*rank),
                job: None,
                threaded: *threaded,
                method: None,
            },
            Self::Maxes => Request::Maxes,
            Self::AppNum => Request::AppNum,
            Self::Universe => Request::UniverseSize,
            Self::Name => Request::KvsName,
            Self::Put { node, key, value } => Request::Put {
                place: place(*node),
                key: Text::plain(key),
                value: Text::plain(value),
            },
            Self::Get { node, key, of, wait, .. } => {
                let other = of.as_ref().map(|job| Text::plain(job.as_bytes()));
                let place = if *node { Place::Node } else { Place::Job(other) };
                Request::Get { place, key: Text::plain(key), wait: *wait }
            }
            Self::Fence { group, tag } => Request::Fence { group: group.core(), tag: *tag },
            Self::Publish { service, port } => {
                Request::Publish { service: Text::plain(service), port: Text::plain(port) }
            }
            Self::Unpublish { service } => Request::Unpublish { service: Text::plain(service) },
            Self::Lookup { service, .. } => Request::Lookup { service: Text::plain(service) },
            Self::Spawn { .. } => return None,
            Self::Connect { job } => Request::Connect { job: Text::plain(job.as_bytes()) },
            Self::Disconnect { job } => Request::Disconnect { job: Text::plain(job.as_bytes()) },
            Self::Ring { left, right } => {
                Request::Ring { left: Text::plain(left), right: Text::plain(right) }
            }
            Self::Abort { code, message } => {
                Request::Abort { code: Some(*code), world: true, message: Text::plain(message) }
            }
            Self::Finalize => Request::Finalize,
        })
    }
}

impl Group {
    fn core(&self) -> CoreGroup<'_> {
        match self {
            Self::Job | Self::World => CoreGroup::World,
            Self::Node => CoreGroup::Node,
            Self::Ranks(_, list) => CoreGroup::Ranks(list),
        }
    }
}

impl fmt::Display for RankRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |bytes: &[u8]| bytes.escape_ascii().to_string();
        let place = |node: &bool| if *node { "node-" } else { "" };
        match self {
            Self::Init(version) => write!(f, "init {}.{}", version.major, version.minor),
            Self::InitAck(id) => write!(f, "initack {id}"),
            Self::FullInit { rank, .. } => write!(f, "fullinit {rank}"),
            Self::JoinPmix => f.write_str("init pmix"),
            Self::PutFor { scope, key, value } => {
                let word = match scope {
                    Scope::Local => "put-local",
                    Scope::Remote => "put-remote",
                    Scope::Global => "put",
                };
                write!(f, "{word} {} {}", text(key), text(value))
            }
            Self::Commit => f.write_str("commit"),
            Self::GetOf { rank, key, now, .. } => {
                match rank {
                    Some(rank) => write!(f, "get-of {rank} {}", text(key))?,
                    None => write!(f, "get {}", text(key))?,
                }
                f.write_str(if *now { " now" } else { "" })
            }
            Self::Register { code } => write!(f, "register {code}"),
            Self::Notify { code } => write!(f, "notify {code}"),
            Self::Group { name, members } => {
                let members: Vec<String> = members.iter().map(u32::to_string).collect();
                write!(f, "group {} {}", text(name), members.join(","))
            }
            Self::GroupLeave { name } => write!(f, "group-leave {}", text(name)),
            Self::GroupEnd { name } => write!(f, "group-end {}", text(name)),
            Self::Maxes => f.write_str("maxes"),
            Self::AppNum => f.write_str("appnum"),
            Self::Universe => f.write_str("universe"),
            Self::Name => f.write_str("name"),
            Self::Put { node, key, value } => {
                write!(f, "{}put {} {}", place(node), text(key), text(value))
            }
            Self::Get { node, key, of, wait, .. } => {
                write!(f, "{}get {}", place(node), text(key))?;
                of.as_ref().map_or(Ok(()), |job| write!(f, " of {job}"))?;
                if *wait { f.write_str(" wait") } else { Ok(()) }
            }
            Self::Fence { group, tag } => {
                f.write_str("fence")?;
                match group {
                    Group::Job => {}
                    Group::World => f.write_str(" world")?,
                    Group::Node => f.write_str(" node")?,
                    Group::Ranks(_, list) => write!(f, " {}", text(list))?,
                }
                tag.map_or(Ok(()), |tag| write!(f, " tag {tag}"))
            }
            Self::Publish { service, port } => {
                write!(f, "publish {} {}", text(service), text(port))
            }
            Self::Unpublish { service } => write!(f, "unpublish {}", text(service)),
            Self::Lookup { service, wait, .. } => {
                write!(f, "lookup {}{}", text(service), if *wait { " wait" } else { "" })
            }
            Self::Spawn { job, preputs, .. } => {
                write!(f, "spawn {job}")?;
                preputs
                    .iter()
                    .try_for_each(|(key, value)| write!(f, " {} {}", text(key), text(value)))
            }
            Self::Connect { job } => write!(f, "connect {job}"),
            Self::Disconnect { job } => write!(f, "disconnect {job}"),
            Self::Ring { left, right } => write!(f, "ring {} {}", text(left), text(right)),
            Self::Abort { code, message } => write!(f, "abort {code} {}", text(message)),
            Self::Finalize => f.write_str("finalize"),
        }
    }
}

/// More than any readable script.
const ACTS_MAX: usize = 200_000;
