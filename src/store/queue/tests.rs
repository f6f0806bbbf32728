use super::*;
use crate::store::NewSession;
use crate::store::testing::{Scene, session};

fn new(key: Option<&str>, priority: i64) -> NewSubmission {
    NewSubmission {
        uid: format!("{:x}", rand::random::<u128>()),
        project: "/p".to_owned(),
        request: SessionRequest::default(),
        device: "auto".to_owned(),
        priority,
        client: "local".to_owned(),
        idempotency_key: key.map(str::to_owned),
    }
}

#[tokio::test]
async fn a_change_of_state_happens_once() {
    let folder = tempfile::tempdir().unwrap();
    let queue = Queue::open(&folder.path().join("queue.db")).await.unwrap();
    let (first, is_new) = queue.submit(&new(Some("k"), 0)).await.unwrap();
    assert!(is_new);
    assert_eq!(queue.submit(&new(Some("k"), 5)).await.unwrap(), (first.clone(), false));
    let (urgent, _) = queue.submit(&new(None, 5)).await.unwrap();
    let order = |open: Vec<Submission>| open.into_iter().map(|one| one.id).collect::<Vec<_>>();
    assert_eq!(order(queue.open_ones().await.unwrap()), [urgent.id, first.id]);

    let begun = queue.begin(first.id, Lane::Gpu(1)).await.unwrap().unwrap();
    assert_eq!((begun.state, begun.lane, begun.attempts), (SubmissionState::Running, Some(Lane::Gpu(1)), 1));
    assert_eq!(queue.begin(first.id, Lane::Gpu(0)).await.unwrap(), None, "it runs already");
    assert_eq!(queue.ask(urgent.id, StopRequest::Stop).await.unwrap().unwrap().state, SubmissionState::Cancelled);
    assert_eq!(queue.begin(urgent.id, Lane::Virtual).await.unwrap(), None, "it was cancelled");
    assert_eq!(queue.ask(urgent.id, StopRequest::Cancel).await.unwrap(), None, "it is over");

    let asked = async |request| queue.ask(first.id, request).await.unwrap().unwrap().asked;
    assert_eq!(asked(StopRequest::Stop).await, Some(StopRequest::Stop));
    assert_eq!(asked(StopRequest::Cancel).await, Some(StopRequest::Cancel));
    assert_eq!(asked(StopRequest::Stop).await, Some(StopRequest::Cancel), "that is not taken back");
    let conclusion = Conclusion {
        state: SubmissionState::Ended,
        reason: None,
        session: Some(SessionId(3)),
        iterations: 7,
        attempts: 1,
        not_before_ms: 0,
    };
    queue.conclude(first.id, &conclusion).await.unwrap();
    queue.conclude(first.id, &Conclusion { state: SubmissionState::Failed, ..conclusion }).await.unwrap();
    let ended = queue.of_session("/p", SessionId(3)).await.unwrap().unwrap();
    assert_eq!((ended.id, ended.state, ended.asked), (first.id, SubmissionState::Ended, None));
    assert!(ended.ended_at.is_some());
    let again = queue.resume(first.id).await.unwrap().unwrap();
    assert_eq!((again.state, again.session, again.ended_at), (SubmissionState::Queued, Some(SessionId(3)), None));
    assert_eq!(queue.resume(first.id).await.unwrap(), None, "it is queued");
}

/// On a full disk, the error comes with the commit, after SQLite has returned the row.
#[tokio::test]
async fn no_change_is_answered_that_is_not_stored() {
    let folder = tempfile::tempdir().unwrap();
    let queue = Queue::open(&folder.path().join("queue.db")).await.unwrap();
    let (queued, _) = queue.submit(&new(Some("queued"), 0)).await.unwrap();
    let (over, _) = queue.submit(&new(Some("over"), 0)).await.unwrap();
    queue.ask(over.id, StopRequest::Cancel).await.unwrap();
    let filter = QueueFilter { limit: 9, ..QueueFilter::default() };
    let all = || queue.list(&filter);
    let before = all().await.unwrap();

    queue.on_commit(|| false).await;
    queue.submit(&new(Some("new"), 0)).await.unwrap_err();
    queue.submit(&new(Some("new"), 0)).await.unwrap_err();
    queue.begin(queued.id, Lane::Virtual).await.unwrap_err();
    queue.ask(queued.id, StopRequest::Cancel).await.unwrap_err();
    queue.resume(over.id).await.unwrap_err();
    queue.note_session(queued.id, SessionId(1)).await.unwrap_err();
    queue.check_writable().await.unwrap_err();
    assert_eq!(all().await.unwrap(), before);

    queue.on_commit(|| true).await;
    assert!(queue.submit(&new(Some("new"), 0)).await.unwrap().1, "it was not there yet");
    queue.check_writable().await.unwrap();
}

#[tokio::test]
async fn a_submission_has_one_session() {
    let scene = Scene::new().await;
    let of_a_submission = || NewSession { submission: Some("u".to_owned()), ..session() };
    let id = scene.store.begin_session(&of_a_submission()).await.unwrap();
    assert!(matches!(scene.store.begin_session(&of_a_submission()).await, Err(StoreError::Refused(_))));
    scene.store.begin_session(&session()).await.unwrap();
    scene.store.begin_session(&session()).await.unwrap();
    assert_eq!(scene.store.session_of("u").await.unwrap().map(|session| session.id), Some(id));
    assert_eq!(scene.store.session_of("v").await.unwrap(), None);
}
