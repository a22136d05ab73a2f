//! One fence of very many ranks in one process, and its cost.

use crate::event::SimEvent;
use crate::rng::Span;
use crate::scenario::{GroupPhrase, HostPlan, Scenario, ScenarioError, Script, Step, Traits, Who};
use crate::storage::Metered;
use crate::world::{Options, World};
use pmi_core::client::Client;
use pmi_core::server::{Member, SessionOf, Storage};

/// Cost of a job of a given size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// Number of ranks.
    pub ranks: u32,
    /// Steps of the world.
    pub steps: u64,
    /// Messages, in both directions.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Maximum memory of the server's tables and buffers, in bytes.
    pub server_bytes: u64,
    /// Maximum memory of the clients, in bytes.
    pub client_bytes: u64,
}

/// The scenario: every rank puts a value, enters one fence, reads its neighbour's and finalizes.
pub fn scenario(ranks: u32) -> Scenario {
    let get = Step::Get {
        node: false,
        key: "k-$next".into(),
        of: None,
        wait: false,
        wanted: Some(Some("v-$next".into())),
    };
    let steps = vec![
        Step::Init,
        Step::Name,
        Step::Put { node: false, key: "k-$r".into(), value: "v-$r".into() },
        Step::Fence { group: GroupPhrase::Job, tag: None },
        get,
        Step::Finalize,
    ];
    Scenario {
        name: format!("scale-{ranks}"),
        ranks,
        nodes: ranks.div_ceil(64).max(1),
        host: HostPlan {
            pace: Span::new(0, 20),
            store_bytes: 65_536 + 48 * ranks,
            ..HostPlan::default()
        },
        all: Traits {
            start: Some(Span::new(0, 1000)),
            latency: Some(Span::new(5, 100)),
            ..Traits::default()
        },
        scripts: vec![Script { who: Who::All, steps }],
        ..Scenario::default()
    }
}

/// Runs the scenario.
///
/// # Errors
///
/// An invalid job, or the first broken rule, as text.
pub fn scale(ranks: u32, seed: u64) -> Result<Cost, ScenarioError> {
    let scenario = scenario(ranks);
    let options = Options { records: false, checks_all: false, mutant: None };
    let mut world = World::with(&scenario, seed, options)?;
    world.run(u64::MAX);
    let failed = |what| Err(ScenarioError { line: 0, what });
    if let Some(violation) = world.violations().first() {
        return failed(format!("{}: {}", violation.rule, violation.what));
    }
    let finished = world.checks().census().all().filter(|(_, facts)| facts.is_finished).count();
    if finished as u64 != u64::from(ranks) {
        return failed(format!("{finished} of {ranks} ranks finished"));
    }
    let (messages, bytes) = world.traffic();
    let ranks_wide = u64::from(ranks);
    let fixed = (size_of::<Member>() as u64) * ranks_wide + u64::from(scenario.host.store_bytes);
    let client = size_of::<Client<<Metered as Storage>::Inbox>>() as u64;
    Ok(Cost {
        ranks,
        steps: world.steps(),
        messages,
        bytes,
        server_bytes: world.host().meter().most() as u64 + fixed,
        client_bytes: world.clients().most() as u64 + client * ranks_wide,
    })
}

/// Memory of one session, for a report.
pub const SESSION_BYTES: usize = size_of::<SessionOf<Metered>>();

/// Number of messages of an event, and of their bytes.
pub(crate) fn traffic(event: &SimEvent) -> (u64, u64) {
    match event {
        SimEvent::ServerSent { bytes, .. } => (1, bytes.len() as u64),
        SimEvent::Asked { .. } => (1, 0),
        SimEvent::Sent { bytes, .. } => (0, bytes.len() as u64),
        _ => (0, 0),
    }
}
