//! Decides which submissions start now. Pure.
//!
//! One session runs on a GPU at a time, and one in a project, because both would disturb each other. The virtual GPUs
//! have a number of places of their own.

use std::collections::BTreeSet;

use super::conclusion::MAX_WAIT_MS;
use crate::domain::submission::{Lane, Submission, SubmissionId, SubmissionState};

/// What the machine has room for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Room {
    /// Numbers of the CUDA devices.
    pub gpus: Vec<u32>,
    /// How many sessions may use virtual GPUs at once.
    pub virtual_slots: usize,
}

/// What to do now.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// The submissions to start, each with its place.
    pub starts: Vec<(SubmissionId, Lane)>,
    /// When a submission that waits for some time may start, in milliseconds since 1970.
    pub wake_at_ms: Option<i64>,
}

/// Plans the submissions that are queued or running, in the order in which they are to start.
pub fn plan(open: &[Submission], room: &Room, is_served: &dyn Fn(&str) -> bool, now_ms: i64) -> Plan {
    let running = || open.iter().filter(|submission| submission.state == SubmissionState::Running);
    let mut projects: BTreeSet<&str> = running().map(|submission| submission.project.as_str()).collect();
    let mut busy: BTreeSet<Lane> = running().filter_map(|submission| submission.lane).collect();
    let mut virtual_ones = running().filter(|submission| submission.lane == Some(Lane::Virtual)).count();
    let mut plan = Plan::default();
    for submission in open.iter().filter(|submission| submission.state == SubmissionState::Queued) {
        if !is_served(&submission.project) || projects.contains(submission.project.as_str()) {
            continue;
        }
        // No wait is longer. What seems to be was recorded by a clock that was ahead.
        let is_waiting = (1..=MAX_WAIT_MS).contains(&submission.not_before_ms.saturating_sub(now_ms));
        if is_waiting {
            let wake = plan.wake_at_ms.map_or(submission.not_before_ms, |wake| wake.min(submission.not_before_ms));
            plan.wake_at_ms = Some(wake);
            continue;
        }
        let is_free = |lane: &Lane| match lane {
            Lane::Gpu(_) => !busy.contains(lane),
            Lane::Virtual => virtual_ones < room.virtual_slots,
        };
        let Some(lane) = places(submission, room).into_iter().find(is_free) else { continue };
        projects.insert(&submission.project);
        busy.insert(lane);
        virtual_ones += usize::from(lane == Lane::Virtual);
        plan.starts.push((submission.id, lane));
    }
    plan
}

/// Returns where a submission may run. A session that has begun stays on its device.
fn places(submission: &Submission, room: &Room) -> Vec<Lane> {
    if let (Some(_), Some(lane)) = (submission.session, submission.lane) {
        return vec![lane];
    }
    places_of(&submission.device, room)
}

/// Returns the places for a device by name. None if this service does not use that device.
pub fn places_of(device: &str, room: &Room) -> Vec<Lane> {
    match device.strip_prefix("cuda:").map(str::parse::<u32>) {
        Some(Ok(number)) => room.gpus.iter().filter(|gpu| **gpu == number).map(|gpu| Lane::Gpu(*gpu)).collect(),
        Some(Err(_)) => Vec::new(),
        None if device == "auto" && !room.gpus.is_empty() => room.gpus.iter().copied().map(Lane::Gpu).collect(),
        None => vec![Lane::Virtual],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ids::SessionId;
    use crate::domain::submission::SessionRequest;

    /// Makes a queued submission to a project for a device.
    fn queued(id: i64, project: &str, device: &str) -> Submission {
        Submission {
            id: SubmissionId(id),
            uid: String::new(),
            project: project.to_owned(),
            request: SessionRequest::default(),
            device: device.to_owned(),
            priority: 0,
            client: "local".to_owned(),
            state: SubmissionState::Queued,
            asked: None,
            lane: None,
            session: None,
            attempts: 0,
            iterations: 0,
            not_before_ms: 0,
            reason: None,
            submitted_at: String::new(),
            started_at: None,
            ended_at: None,
        }
    }

    fn running(id: i64, project: &str, lane: Lane) -> Submission {
        Submission { state: SubmissionState::Running, lane: Some(lane), ..queued(id, project, "auto") }
    }

    fn starts(open: &[Submission], gpus: &[u32]) -> String {
        let room = Room { gpus: gpus.to_vec(), virtual_slots: 1 };
        let plan = plan(open, &room, &|project| project != "elsewhere", 1000);
        let starts = plan.starts.iter().map(|(id, lane)| format!("{id} on {lane}"));
        let wake = plan.wake_at_ms.map(|wake| format!("wake at {wake}"));
        starts.chain(wake).collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn each_gpu_and_the_virtual_ones_take_one_session_each() {
        let open = [
            queued(1, "a", "auto"),
            queued(2, "b", "cuda:0"),
            queued(3, "c", "auto"),
            queued(4, "d", "virtual:h200"),
            queued(5, "e", "fake"),
            queued(6, "f", "auto"),
        ];
        assert_eq!(starts(&open, &[0, 1]), "1 on cuda:0, 3 on cuda:1, 4 on virtual");
        assert_eq!(starts(&open, &[]), "1 on virtual");
        assert_eq!(starts(&open, &[5]), "1 on cuda:5, 4 on virtual");
    }

    #[test]
    fn a_project_runs_one_session_and_the_next_one_does_not_block_others() {
        let open = [running(1, "a", Lane::Gpu(0)), queued(2, "a", "auto"), queued(3, "b", "auto")];
        assert_eq!(starts(&open, &[0, 1]), "3 on cuda:1");
        assert_eq!(starts(&open, &[0]), "");
        let open = [queued(2, "a", "auto"), queued(3, "a", "virtual")];
        assert_eq!(starts(&open, &[0, 1]), "2 on cuda:0");
    }

    #[test]
    fn a_session_that_has_begun_stays_on_its_device_and_a_refused_one_waits() {
        let begun = Submission { session: Some(SessionId(7)), lane: Some(Lane::Gpu(1)), ..queued(1, "a", "auto") };
        assert_eq!(starts(std::slice::from_ref(&begun), &[0, 1]), "1 on cuda:1");
        assert_eq!(starts(&[begun, running(2, "b", Lane::Gpu(1))], &[0, 1]), "");
        let waits = |at| Submission { not_before_ms: at, ..queued(3, "c", "auto") };
        assert_eq!(starts(&[waits(5000), waits(3000), queued(4, "c", "auto")], &[0]), "4 on cuda:0, wake at 3000");
        assert_eq!(starts(&[waits(1000)], &[0]), "3 on cuda:0");
        assert_eq!(starts(&[waits(1000 + MAX_WAIT_MS)], &[0]), "wake at 52200");
        assert_eq!(starts(&[waits(3_600_000)], &[0]), "3 on cuda:0", "the clock was set back by an hour");
        assert_eq!(starts(&[queued(5, "elsewhere", "auto")], &[0]), "");
    }
}
