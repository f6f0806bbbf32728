//! The migrations that make the schema: the files of migrations/, built into the program.
//!
//! This list replaces `sqlx::migrate!`, because that macro makes Cargo build sqlx and SQLite a second time.

use std::sync::LazyLock;

use sqlx::SqlSafeStr;
use sqlx::migrate::{Migration, MigrationType, Migrator};

/// Every file of migrations/, in order. A store keeps the SHA-384 of each text that it has applied, so a text never
/// changes.
const FILES: [(&str, &str); 37] = [
    ("0001_initial.sql", include_str!("../../migrations/0001_initial.sql")),
    ("0002_profiles.sql", include_str!("../../migrations/0002_profiles.sql")),
    ("0003_peaks.sql", include_str!("../../migrations/0003_peaks.sql")),
    ("0004_contests.sql", include_str!("../../migrations/0004_contests.sql")),
    ("0005_durability.sql", include_str!("../../migrations/0005_durability.sql")),
    ("0006_journal.sql", include_str!("../../migrations/0006_journal.sql")),
    ("0007_terms.sql", include_str!("../../migrations/0007_terms.sql")),
    ("0008_references.sql", include_str!("../../migrations/0008_references.sql")),
    ("0009_earlier_commits.sql", include_str!("../../migrations/0009_earlier_commits.sql")),
    ("0010_graphs.sql", include_str!("../../migrations/0010_graphs.sql")),
    ("0011_explanations.sql", include_str!("../../migrations/0011_explanations.sql")),
    ("0012_phases.sql", include_str!("../../migrations/0012_phases.sql")),
    ("0013_claims.sql", include_str!("../../migrations/0013_claims.sql")),
    ("0014_counters.sql", include_str!("../../migrations/0014_counters.sql")),
    ("0015_model_calls.sql", include_str!("../../migrations/0015_model_calls.sql")),
    ("0016_views.sql", include_str!("../../migrations/0016_views.sql")),
    ("0017_targets.sql", include_str!("../../migrations/0017_targets.sql")),
    ("0018_counted.sql", include_str!("../../migrations/0018_counted.sql")),
    ("0019_submissions.sql", include_str!("../../migrations/0019_submissions.sql")),
    ("0020_recorded.sql", include_str!("../../migrations/0020_recorded.sql")),
    ("0021_left_out.sql", include_str!("../../migrations/0021_left_out.sql")),
    ("0022_ablations.sql", include_str!("../../migrations/0022_ablations.sql")),
    ("0023_baseline_kernels.sql", include_str!("../../migrations/0023_baseline_kernels.sql")),
    ("0024_ablated_lines.sql", include_str!("../../migrations/0024_ablated_lines.sql")),
    ("0025_baseline_counters.sql", include_str!("../../migrations/0025_baseline_counters.sql")),
    ("0026_attempts.sql", include_str!("../../migrations/0026_attempts.sql")),
    ("0027_early_ends_and_pairs.sql", include_str!("../../migrations/0027_early_ends_and_pairs.sql")),
    ("0028_out_of_memory.sql", include_str!("../../migrations/0028_out_of_memory.sql")),
    ("0029_estimates.sql", include_str!("../../migrations/0029_estimates.sql")),
    ("0030_single_sessions.sql", include_str!("../../migrations/0030_single_sessions.sql")),
    ("0031_not_modelled.sql", include_str!("../../migrations/0031_not_modelled.sql")),
    ("0032_tuned_predictions.sql", include_str!("../../migrations/0032_tuned_predictions.sql")),
    ("0033_used_time.sql", include_str!("../../migrations/0033_used_time.sql")),
    ("0034_agent_runs.sql", include_str!("../../migrations/0034_agent_runs.sql")),
    ("0035_lanes.sql", include_str!("../../migrations/0035_lanes.sql")),
    ("0036_prepared_weights.sql", include_str!("../../migrations/0036_prepared_weights.sql")),
    ("0037_oracle_on.sql", include_str!("../../migrations/0037_oracle_on.sql")),
];

/// Every file of migrations/service/, in order: those of a service's queue.
const QUEUE_FILES: [(&str, &str); 1] = [("0001_queue.sql", include_str!("../../migrations/service/0001_queue.sql"))];

/// The migrations of this program.
pub(super) static MIGRATIONS: LazyLock<Migrator> = LazyLock::new(|| migrator(&FILES));

/// The migrations of a service's queue.
pub(super) static QUEUE_MIGRATIONS: LazyLock<Migrator> = LazyLock::new(|| migrator(&QUEUE_FILES));

fn migrator(files: &[(&str, &'static str)]) -> Migrator {
    Migrator::with_migrations(files.iter().map(|(name, text)| migration(name, text)).collect())
}

/// Reads the version and description from a file's name, as sqlx does.
fn migration(name: &str, text: &'static str) -> Migration {
    let (version, description) =
        name.strip_suffix(".sql").and_then(|stem| stem.split_once('_')).expect("a name like 0001_initial.sql");
    let version = version.parse().expect("a number before the underscore");
    Migration::new(version, description.replace('_', " ").into(), MigrationType::Simple, text.into_sql_str(), false)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// sqlx reads the folder by its own rules. Older stores hold its versions, descriptions and checksums.
    #[tokio::test]
    async fn the_migrations_are_those_that_sqlx_reads_from_the_folder() {
        let facts = |migrator: &Migrator| {
            migrator.iter().map(|m| (m.version, m.description.clone(), m.checksum.clone(), m.no_tx)).collect::<Vec<_>>()
        };
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations");
        assert_eq!(facts(&QUEUE_MIGRATIONS), facts(&Migrator::new(folder.join("service")).await.unwrap()));
        assert_eq!(facts(&MIGRATIONS), facts(&Migrator::new(folder).await.unwrap()));
    }
}
