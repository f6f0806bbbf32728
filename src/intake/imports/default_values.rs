//! Chooses the configuration with which an imported kernel begins.

use indexmap::IndexMap;

use crate::domain::expr::{Bindings, Expr};
use crate::error::{Error, error};
use crate::intake::Wanted;

/// The most configurations that are tried. Most spaces have a valid one among their first hundred.
const MAX_TRIES: usize = 200_000;

/// The threads that a block may have on every device.
const MAX_THREADS: i64 = 1024;

/// Returns the configuration to begin with: `preferred` if the conditions allow it on the first case, otherwise the first
/// one that they allow. The error is one sentence.
pub(super) fn default_values(
    wanted: &Wanted,
    preferred: &IndexMap<String, i64>,
) -> Result<IndexMap<String, i64>, Error> {
    let parse = |text: &String| Expr::parse(text).map_err(Error::new);
    let conditions = wanted.constraints.iter().map(parse).collect::<Result<Vec<_>, _>>()?;
    let block = wanted.block.iter().map(parse).collect::<Result<Vec<_>, _>>()?;
    let mut bindings: Bindings = wanted.cases.first().cloned().unwrap_or_default();
    let place = |(name, values): (&String, &Vec<i64>)| {
        values.iter().position(|value| preferred.get(name) == Some(value)).unwrap_or_default()
    };
    let mut places: Vec<usize> = wanted.values.iter().map(place).collect();
    for attempt in 0..MAX_TRIES {
        for ((name, values), place) in wanted.values.iter().zip(&places) {
            let Some(value) = values.get(*place) else { return Err(error!("the parameter `{name}` has no values")) };
            bindings.insert(name.clone(), *value);
        }
        // What cannot be computed is told later, with the file that it is in.
        let holds = conditions.iter().all(|condition| condition.flag(&bindings).unwrap_or(true));
        let threads = block.iter().try_fold(1_i64, |all, one| all.checked_mul(one.int(&bindings).unwrap_or(1)));
        if holds && threads.is_some_and(|threads| (1..=MAX_THREADS).contains(&threads)) {
            return Ok(wanted.values.keys().map(|name| (name.clone(), bindings[name])).collect());
        }
        if attempt == 0 {
            places.fill(0);
        } else if !advance(&mut places, wanted) {
            return Err(Error::new("its conditions allow no configuration"));
        }
    }
    Err(error!("its conditions allow none of the first {MAX_TRIES} configurations"))
}

/// Goes on to the next configuration. False after the last one.
fn advance(places: &mut [usize], wanted: &Wanted) -> bool {
    for (place, values) in places.iter_mut().zip(wanted.values.values()) {
        *place += 1;
        if *place < values.len() {
            return true;
        }
        *place = 0;
    }
    false
}
