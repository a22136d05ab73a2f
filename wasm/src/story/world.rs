//! The story of a world of the simulator.

use super::{Lane, Moment, Pipes, Story, StoryEvent};
use pmi_sim::event::Entry;
use pmi_sim::{SimEvent, World};

impl Story {
    /// The story of a world so far.
    pub(crate) fn of_world(world: &World) -> Self {
        let scenario = world.scenario();
        let lane = |rank: u32| {
            let dialect = scenario.plan(rank).dialect;
            Lane {
                name: rank.to_string(),
                job: u32::try_from(scenario.home(rank).job).unwrap_or(0),
                group: scenario.node(rank),
                dialect: dialect.to_string(),
            }
        };
        let mut story = Self { lanes: (0..scenario.ranks).map(lane).collect(), ..Self::default() };
        let mut pipes = Pipes::new(story.lanes.len());
        for entry in world.entries() {
            story.take(entry, &mut pipes);
        }
        story.finish();
        story
    }

    fn take(&mut self, entry: &Entry, pipes: &mut Pipes) {
        let at = Moment { ns: entry.at * 1000, step: entry.step };
        let index = |rank: u32| usize::try_from(rank).unwrap_or(usize::MAX);
        match &entry.event {
            SimEvent::Sent { rank, bytes, is_raw } => {
                self.say(index(*rank), true, at, bytes, *is_raw, pipes);
            }
            SimEvent::ServerSent { rank, bytes } => {
                self.say(index(*rank), false, at, bytes, false, pipes);
            }
            SimEvent::ServerReceived { rank, bytes } => {
                self.recv(index(*rank), true, at, bytes.len(), pipes);
            }
            SimEvent::Received { rank, bytes } => {
                self.recv(index(*rank), false, at, bytes.len(), pipes)
            }
            event => {
                let (lane, kind) = (event.rank().map(index), kind(event));
                self.events.push(StoryEvent { at, lane, kind, text: event.to_string() });
            }
        }
    }
}

/// Word by which the page finds the next event of a kind.
const fn kind(event: &SimEvent) -> &'static str {
    match event {
        SimEvent::Asked { .. } => "ask",
        SimEvent::Answered { .. } => "answer",
        SimEvent::Refused { .. } | SimEvent::Broke { .. } => "error",
        SimEvent::Fault { .. } | SimEvent::LinkFault { .. } => "fault",
        SimEvent::Reported { .. } => "report",
        SimEvent::Violation { .. } => "rule",
        SimEvent::Quiet => "quiet",
        _ => "process",
    }
}

#[cfg(test)]
mod tests {
    use super::super::*;
    use super::*;

    fn story(text: &str) -> Story {
        let mut world = World::new(&text.parse().unwrap(), 3).unwrap();
        assert!(world.run(10_000));
        Story::of_world(&world)
    }

    const FENCE: &str =
        "ranks 3\nall latency 10\nscript all\n open\n put k$r v\n fence\n finalize\nend";

    #[test]
    fn messages_take_the_time_of_their_link() {
        let story = story(FENCE);
        let init = &story.messages[0];
        assert!(init.is_up && init.bytes.starts_with(b"cmd=init"));
        assert_eq!(init.parts.len(), 1);
        let (arrived, had) = init.parts[0];
        assert_eq!(had, init.bytes.len());
        // Ten microseconds, and one until the host serves.
        assert_eq!(arrived.ns - init.sent.ns, 11_000);
        assert!(story.messages.iter().all(|message| message.arrival().is_some()));
    }

    #[test]
    fn torn_message_is_one_message_that_arrives_in_parts() {
        let story = story(&format!("all split 100%\n{FENCE}"));
        assert!(story.messages.iter().any(|message| message.parts.len() > 1));
        assert!(story.messages.iter().all(|message| is_whole(&message.bytes)));
    }

    #[test]
    fn message_longer_than_its_link_has_room_is_still_one() {
        let story = story(&format!("all room 20\n{FENCE}"));
        assert!(story.messages.iter().all(|message| is_whole(&message.bytes)));
        assert!(story.messages.iter().all(|message| message.arrival().is_some()));
    }

    #[test]
    fn lost_messages_have_no_arrival() {
        let story = story(
            "ranks 1\nall latency 50\nscript all\n init\nend\nfault at 10 kill 0\nfault at 10 reset 0",
        );
        assert_eq!(story.messages[0].arrival(), None);
    }

    #[test]
    fn fence_fills_and_releases_all_ranks() {
        let story = story(FENCE);
        let [fence] = &story.fences[..] else { panic!("one fence, not {}", story.fences.len()) };
        assert_eq!((fence.members, fence.inside.len()), (3, 3));
        let last = fence.inside.iter().filter_map(|visit| visit.came).map(|at| at.ns).max();
        assert!(fence.inside.iter().all(|visit| visit.freed.map(|at| at.ns) >= last));
        assert!(fence.inside.iter().all(|visit| visit.left > visit.freed));
    }

    #[test]
    fn fences_of_different_jobs_are_different() {
        let text =
            "ranks 5\njob sea 3..4\nall latency 10\nscript all\n open\n fence\n finalize\nend";
        let counts =
            story(text).fences.into_iter().map(|fence| (fence.members, fence.inside.len()));
        assert_eq!(counts.collect::<Vec<_>>(), [(3, 3), (2, 2)]);
    }

    #[test]
    fn fences_of_groups_and_of_frames_are_distinguished() {
        let text = "ranks 4\nnodes 2\nall dialect 1.2\nscript all\n open\n fence node tag 4\n fence world\n \
                    fence\n finalize\nend\nall latency 10";
        let names: Vec<_> = story(text)
            .fences
            .into_iter()
            .map(|fence| (fence.group, fence.tag, fence.members))
            .collect();
        let node = |n| (format!("node {n}"), Some(4), 2);
        assert_eq!(names.len(), 4);
        assert!(names.contains(&node(0)) && names.contains(&node(1)));
        assert_eq!(names[2..], [("world".into(), Some(0), 4), ("job".into(), None, 4)]);
        let story = story(&format!("all dialect 2.0\n{FENCE}"));
        assert_eq!((story.fences.len(), story.fences[0].inside.len()), (1, 3));
    }

    #[test]
    fn columns_hold_every_message_and_fields_are_read_on_demand() {
        let story = story(&format!("{FENCE}\nfault at 60 kill 1"));
        let (numbers, parts, bytes) = (story.numbers(), story.parts(), story.bytes());
        assert_eq!(numbers.len(), story.messages.len() * 8);
        let sum = |column: usize| -> f64 { numbers.iter().skip(column).step_by(8).sum() };
        assert_eq!(sum(4), bytes.len() as f64);
        assert_eq!(sum(5) * 3.0, parts.len() as f64);
        let names = story.names();
        assert!(names.contains(&"put") && names.contains(&"barrier_in"));
        let put = story.messages.iter().position(|message| message.summary.name == "put").unwrap();
        assert_eq!(numbers[put * 8], story.messages[put].lane as f64);
        assert!(story.fields(put).contains(r#"{"name":"key","start":"#));
        assert_eq!(story.fields(story.messages.len()), "{}");
    }

    #[test]
    fn reply_of_pmix_is_read_after_the_earlier_messages_of_its_connection() {
        let story = story(&format!("all dialect pmix\n{FENCE}"));
        let fences = story.messages.iter().enumerate();
        let mut replies =
            fences.filter(|(_, message)| !message.is_up && message.summary.name == "barrier_in");
        let (at, reply) = replies.next().unwrap();
        assert!(!reply.summary.is_refusal && reply.summary.dialect == "pmix");
        assert!(story.fields(at).contains(r#""text":"SUCCESS""#), "{}", story.fields(at));
    }

    #[test]
    fn refusal_is_marked() {
        let story =
            story("ranks 1\nall latency 10\nscript all\n open\n get nothing\n finalize\nend");
        let refused = story.messages.iter().filter(|message| message.summary.is_refusal);
        let names: Vec<_> = refused.map(|message| (message.is_up, message.summary.name)).collect();
        assert_eq!(names, [(false, "get")]);
    }
}
