//! Sessions that are too large for a report to read all of their iterations.

use std::path::Path;

use optloop::domain::ids::SessionId;
use optloop::domain::record::SessionRecord;
use optloop::domain::record::excerpt::{Totals, Used};
use optloop::store::Store;

/// Runs a check on each session of the recorded store: read in full, and as an excerpt.
fn each(check: impl Fn(&SessionRecord, &SessionRecord)) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store =
            Store::open_existing(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/history.db")).await.unwrap();
        for id in 1..=3 {
            let full = store.report_record(SessionId(id), 1000).await.unwrap();
            assert!(full.excerpt.is_none());
            check(&full, &store.report_record(SessionId(id), 10).await.unwrap());
        }
    });
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * a.abs().max(b.abs()).max(1.0)
}

#[test]
fn what_sql_counts_over_a_session_is_what_its_iterations_say() {
    each(|full, part| {
        let (mut counted, known) = (part.totals().into_owned(), Totals::of(&full.iterations));
        for (counted, known) in
            [(&mut counted.first_steps, known.first_steps), (&mut counted.other_steps, known.other_steps)]
        {
            assert!(near(counted.total_s(), known.total_s()), "{counted:?} {known:?}");
            // The order of the sum decides about the last digits.
            *counted = known;
        }
        assert!(known.results > 0 && known.scores.len() > 1);
        assert_eq!(counted, known);
    });
}

#[test]
fn an_excerpt_knows_what_the_session_had_used_at_each_iteration() {
    each(|full, part| {
        let known: Vec<_> = full.with_used().map(|(iteration, used)| (iteration.id, used)).collect();
        assert!(part.iterations.windows(2).all(|pair| pair[0].id < pair[1].id));
        for (iteration, used) in part.with_used() {
            let Used { wall_s, usd } = known.iter().find(|(id, _)| *id == iteration.id).unwrap().1;
            assert!(near(used.wall_s, wall_s) && near(used.usd, usd), "{used:?}, not {wall_s} s and {usd} dollars");
        }
        assert_eq!(part.with_used().last().unwrap().0.id, full.iterations.last().unwrap().id);
    });
}

#[test]
fn an_excerpt_has_the_iterations_that_figures_come_from() {
    each(|full, part| {
        let wins = |of: &SessionRecord| {
            let found = of.iterations.iter().flat_map(|one| one.measurements.iter().map(move |found| (one.id, found)));
            let won = found.filter(|(_, found)| matches!(found.verdict.map(|v| v.name()), Some("start" | "improved")));
            won.map(|(id, found)| (id, found.case.clone())).collect::<Vec<_>>()
        };
        assert_eq!(wins(part), wins(full));
        let parents = part.iterations.iter().filter(|one| one.measurements.iter().any(|found| found.commit.is_some()));
        for parent in parents.filter_map(|one| one.rationale.parent) {
            assert!(part.iterations.iter().any(|one| one.id == parent), "{parent} led to a winner");
        }
    });
}
