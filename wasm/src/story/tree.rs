//! The story of a tree of nodes: a lane for each node below the head, whose lane is that of the server.

use super::columns::MessageSummary;
use super::{Fence, Lane, Message, Moment, PipeStory, Pipes, Story, StoryEvent};
use crate::fields::nodes;
use pmi_core::wire::Framed;
use pmi_core::wire::nodes::{ContributionPart, ListItems, NodeFrame, frame, read};
use pmi_sim::tree::{NodeId, TreeEdgeWay, TreeEntry, TreeFault, TreeRecord, TreeWorld};

impl Story {
    /// The story of a tree so far.
    pub(crate) fn of_tree(world: &TreeWorld) -> Self {
        let nodes = world.plan().nodes;
        let lane = |node: u32| Lane {
            name: node.to_string(),
            job: 0,
            group: 0,
            dialect: nodes::DIALECT.into(),
        };
        let mut story = Self { lanes: (1..nodes).map(lane).collect(), ..Self::default() };
        let mut tree = TreeStory {
            pipes: Pipes::new(story.lanes.len()),
            parents: vec![None; story.lanes.len()],
        };
        for (lane, _) in story.lanes.iter().enumerate() {
            let text = format!("node {} start", lane + 1);
            let at = Moment::default();
            story.events.push(StoryEvent { at, lane: Some(lane), kind: "process", text });
        }
        for entry in world.entries() {
            tree.take(&mut story, entry);
        }
        for message in &mut story.messages {
            let name = read(&message.bytes).map_or("", |frame| nodes::name(&frame));
            let is_refusal = name == "refuse" || name == "head-lost";
            let dialect = nodes::DIALECT;
            message.summary = MessageSummary { dialect, name, is_refusal, ..message.summary };
        }
        story
    }
}

/// Frames in transit, and the upper end of the edge of each lane.
struct TreeStory {
    pipes: Pipes,
    parents: Vec<Option<u32>>,
}

impl TreeStory {
    fn take(&mut self, story: &mut Story, entry: &TreeEntry) {
        let at = Moment { ns: entry.at * 1000, step: entry.step };
        let lane = |node: NodeId| usize::try_from(node.0).ok()?.checked_sub(1);
        let mut event = |lane, kind, text| story.events.push(StoryEvent { at, lane, kind, text });
        match &entry.event {
            TreeRecord::Connected { child, parent } => {
                let Some(own) = lane(*child) else { return };
                self.parents[own] = Some(parent.0);
                for is_up in [true, false] {
                    *self.pipes.of(own, is_up) = PipeStory::default();
                }
            }
            TreeRecord::Sent { way, bytes } => {
                if let Some(own) = lane(way.child) {
                    self.say(story, own, lane(way.parent), *way, at, bytes);
                }
            }
            TreeRecord::Received { way, len } => {
                let Some(own) = lane(way.child) else { return };
                if self.parents[own] == Some(way.parent.0) {
                    story.recv(own, way.is_up, at, *len, &mut self.pipes);
                    if way.is_up && way.parent.0 == 0 {
                        arrived_at_head(story, at);
                    }
                }
            }
            TreeRecord::Attached { node, parent } => {
                let text = match parent {
                    Some(parent) => format!("node {} attached {}", node.0, parent.0),
                    None => format!("node {} detached", node.0),
                };
                event(lane(*node), "edge", text);
            }
            TreeRecord::Contributed { node, number } => {
                let Some(own) = lane(*node) else { return };
                event(Some(own), "ask", format!("node {} ask {number} fence", node.0));
                let members = story.lanes.len();
                let index = usize::try_from(*number).unwrap_or(1).saturating_sub(1);
                while story.fences.len() <= index {
                    let group = "job".into();
                    story.fences.push(Fence { group, members, ..Fence::default() });
                }
                let visit = super::fences::Visit { lane: own, asked: at, ..Default::default() };
                story.fences[index].inside.push(visit);
            }
            TreeRecord::Ended { node, number } => {
                if let Some(own) = lane(*node) {
                    event(Some(own), "answer", format!("node {} got {number} 0", node.0));
                }
                let index = usize::try_from(*number).unwrap_or(1).saturating_sub(1);
                let Some(fence) = story.fences.get_mut(index) else { return };
                for visit in &mut fence.inside {
                    match lane(*node) {
                        None => visit.freed = Some(at),
                        Some(own) if own == visit.lane => visit.left = Some(at),
                        Some(_) => {}
                    }
                }
            }
            TreeRecord::Fault(fault) => {
                let node = fault.node();
                let word = fault.to_string();
                let word = word.split(' ').next().unwrap_or_default();
                event(lane(node), "fault", format!("node {} fault {word}", node.0));
                let end = match fault {
                    TreeFault::Kill(_) => "killed",
                    TreeFault::Isolate(_) => "stopped",
                    // Its process is still there, or goes on.
                    _ => return,
                };
                event(lane(node), "process", format!("node {} {end}", node.0));
            }
            TreeRecord::Lost(node) => {
                event(lane(*node), "report", format!("head report {}", node.0));
            }
            TreeRecord::Left(node) => {
                event(lane(*node), "process", format!("node {} exit 1", node.0));
            }
            TreeRecord::Violation(violation) => {
                let text = format!("check - {} {}", violation.rule, violation.what);
                event(None, "rule", text);
            }
            TreeRecord::Quiet => event(None, "quiet", "world - quiet".into()),
        }
    }

    /// Appends bytes of an edge, frame by frame.
    fn say(
        &mut self,
        story: &mut Story,
        lane: usize,
        peer: Option<usize>,
        way: TreeEdgeWay,
        sent: Moment,
        mut bytes: &[u8],
    ) {
        let pipe = self.pipes.of(lane, way.is_up);
        while !bytes.is_empty() {
            let index = pipe.last.take().unwrap_or_else(|| {
                let is_up = way.is_up;
                story.messages.push(Message { lane, peer, is_up, sent, ..Message::default() });
                story.messages.len() - 1
            });
            if pipe.flying.back() != Some(&index) {
                pipe.flying.push_back(index);
            }
            let message = &mut story.messages[index];
            let needed = match *message.bytes.as_slice() {
                [low, high, ..] => {
                    2 + usize::from(u16::from_le_bytes([low, high])) - message.bytes.len()
                }
                _ => 2 - message.bytes.len(),
            };
            let (own, rest) = bytes.split_at(needed.min(bytes.len()));
            message.bytes.extend_from_slice(own);
            bytes = rest;
            if frame(&message.bytes) == Ok(Framed::Partial) {
                pipe.last = Some(index);
            }
        }
    }
}

/// Enters into their fences the nodes whose contributions have arrived at the head now.
fn arrived_at_head(story: &mut Story, at: Moment) {
    let Story { messages, fences, .. } = story;
    let arrived = messages
        .iter()
        .rev()
        .filter(|message| message.is_up && message.peer.is_none() && message.arrival() == Some(at));
    for message in arrived {
        let Ok(NodeFrame::Contribution { id, parts, .. }) = read(&message.bytes) else { continue };
        let index = usize::try_from(id.number).unwrap_or(1).saturating_sub(1);
        let Some(fence) = fences.get_mut(index) else { continue };
        for part in ListItems::<ContributionPart>::new(parts.0).flatten() {
            for visit in &mut fence.inside {
                let node = u32::try_from(visit.lane + 1).unwrap_or(u32::MAX);
                if (part.node..part.node + part.count).contains(&node) {
                    visit.came.get_or_insert(at);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pmi_sim::tree::TreeScenario;

    fn story(text: &str) -> Story {
        let scenario: TreeScenario = text.parse().unwrap();
        let mut world = TreeWorld::new(scenario.plan, 3, None);
        world.record();
        world.run();
        assert_eq!(world.checks().violations(), []);
        Story::of_tree(&world)
    }

    const TEXT: &str = "tree 20\nranks 16\nfences 2\nbytes 40..80\npace 0..300\nlatency 30..60";

    #[test]
    fn fence_goes_up_the_tree_and_down_again() {
        let story = story(TEXT);
        assert_eq!((story.lanes.len(), story.fences.len()), (20, 2));
        for fence in &story.fences {
            assert_eq!((fence.members, fence.inside.len()), (20, 20));
            let last = fence.inside.iter().filter_map(|visit| visit.came).max();
            for visit in &fence.inside {
                assert!(
                    Some(visit.asked) < visit.came
                        && visit.freed >= last
                        && visit.left > visit.freed
                );
            }
        }
        let named = |name: &str, is_up: bool| {
            let all = story.messages.iter();
            all.filter(|one| one.summary.name == name && one.is_up == is_up).collect::<Vec<_>>()
        };
        // One frame for each edge and fence, in each direction.
        assert_eq!((named("contribution", true).len(), named("ended", false).len()), (40, 40));
        assert_eq!((named("attach", true).len(), named("welcome", false).len()), (20, 20));
        assert!(story.messages.iter().all(|message| message.arrival().is_some()));
        // Nodes 5 to 8 are below node 1.
        let below = named("contribution", true).into_iter().filter(|one| one.lane == 6);
        assert!(below.into_iter().all(|one| one.peer == Some(0)));
        assert!(named("contribution", true).iter().any(|one| one.lane == 0 && one.peer.is_none()));
    }

    #[test]
    fn pieces_of_frames_are_put_together() {
        let scenario: TreeScenario = TEXT.parse().unwrap();
        let mut plan = scenario.plan;
        plan.piece = 7;
        let mut world = TreeWorld::new(plan, 3, None);
        world.record();
        world.run();
        let story = Story::of_tree(&world);
        assert!(story.messages.iter().all(|one| !one.summary.name.is_empty()));
        assert!(story.messages.iter().all(|message| message.arrival().is_some()));
        assert!(story.messages.iter().any(|message| message.parts.len() > 3));
    }

    #[test]
    fn children_of_a_killed_node_attach_themselves_to_its_parent() {
        let story = story(&format!("{TEXT}\nfault at 5100 kill 1"));
        let texts: Vec<&str> = story.events.iter().map(|event| event.text.as_str()).collect();
        assert!(texts.contains(&"node 1 killed") && texts.contains(&"head report 1"));
        for child in 5..9 {
            assert!(texts.contains(&format!("node {child} attached 0").as_str()), "{texts:?}");
        }
        // The fence ends without it.
        let left = story.fences[1].inside.iter().filter(|visit| visit.left.is_some()).count();
        assert_eq!(left, 19);
    }
}
